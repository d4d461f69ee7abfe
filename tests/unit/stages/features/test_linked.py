"""From the best items one step on: what joins the pool, and how far what they lead to may rise. By hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import LinkConstants
from helix.stages.features.linked import add_linked, find_titled, raise_linked
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import Bool, Candidates, Plan
from tests.support.tiny import make_store, memory_of

NOW = datetime(2023, 11, 20, tzinfo=UTC)
NOTHING = dict.fromkeys((field.name for field in fields(LinkConstants)), 0)
TURN, DOCUMENT = {"role": "user"}, {"role": "document"}


def constants(**given: Any) -> LinkConstants:
    return LinkConstants(**{**NOTHING, "seeds": 1, "title_df": 50, "walk_df": 20, "walk_df_turns": 3, **given})


def pool_of(*rows: int) -> Candidates:
    known = {field.name: np.linspace(1, 0.5, len(rows)).astype(np.float32) for field in fields(Candidates)}
    return Candidates(**{**known, "row": np.array(rows, np.uint32)})


def join_rows(
    snap: Snapshot, pool: Candidates, asked: str = "", allowed: Bool | None = None, **given: Any
) -> list[int]:
    terms = shorten_ids(hash_terms(tokenise(asked)))
    named = find_titled(terms, snap, constants(**given).title_df)
    plan = Plan(allowed, snap.live if allowed is None else int(allowed.sum()), titled=named)
    after = add_linked(pool, snap, plan, constants(**given))
    for field in fields(Candidates):
        before, now = getattr(pool, field.name), getattr(after, field.name)
        assert now.dtype == before.dtype
        assert now[: len(pool)].tolist() == before.tolist()
        assert field.name == "row" or np.isnan(now[len(pool) :]).all()
    return after.row[len(pool) :].tolist()


def shelve(folder: Path, *documents: tuple[str, str], **more: Any) -> Snapshot:
    """Make a store of documents of a section each, from (title, text)."""
    given = [{**DOCUMENT, "title": title, "session": f"d{i}"} for i, (title, _) in enumerate(documents)]
    return make_store(folder, [text for _, text in documents], given=given, **more)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Six documents in two segments; "Moss" is deleted."""
    return shelve(
        tmp_path_factory.mktemp("library"),
        ("Red Hen", "drawn by Priya Quill"),
        ("Oslo Opera House", "shows Alien, and Red Hen"),
        ("Alien (film)", "a monster"),
        ("Moss", "a plant"),
        ("Priya Quill", "writes of Moss and of the Oslo Opera House"),
        ("Red Hen", "a second one"),
        cuts=(3,),
        deleted={1: [0]},
    )


def test_documents_named_by_the_question_or_by_the_best_join(library: Snapshot) -> None:
    pool = pool_of(2)
    assert join_rows(library, pool, "Who drew Red Hen, or Moss?", extra=9) == [0, 5]
    assert join_rows(library, pool, "Who saw the Alien?", extra=9) == []  # it is there
    assert join_rows(library, pool, "Who drew Red Hen?", extra=0, readers=9) == []
    assert join_rows(library, pool_of(), "Who drew Red Hen?", extra=9) == [0, 5]  # where nothing was found, too
    # Those that the best name join in order.
    assert join_rows(library, pool_of(4, 0, 1), extra=9, readers=9) == [2, 5]
    assert join_rows(library, pool_of(0, 4), extra=9, readers=1) == []  # Priya Quill is there; the second is not read
    assert join_rows(library, pool_of(0), extra=9, readers=1) == [4]
    assert join_rows(library, pool_of(0, 4), extra=9, readers=2) == [1]
    assert join_rows(library, pool_of(4, 0), "Alien", extra=9, readers=9) == [2, 1]  # the question goes first


def test_a_title_ends_where_the_item_does(tmp_path: Path) -> None:
    snap = shelve(tmp_path, ("Red Hen", "a book"), ("x", "it was red"), ("y", "hen feathers"), cuts=(2,))
    assert join_rows(snap, pool_of(1, 2), extra=9, readers=9) == []
    assert raise_scores(snap, [0.1, 1.0, 0.4], title=0.5, seeds=2) == pytest.approx([0.1, 1.0, 0.4])


def test_as_many_documents_as_are_wanted_and_only_what_is_allowed(library: Snapshot, tmp_path: Path) -> None:
    """Counted are those that are new, over all that name them."""
    for n, joined in enumerate(([], [2], [2, 0], [2, 0, 5], [2, 0, 5])):
        assert join_rows(library, pool_of(4, 1), "Alien and Priya Quill", extra=n, readers=9) == joined
    allowed = np.array([False, True, True, True, True, True])
    assert join_rows(library, pool_of(1), allowed=allowed, extra=1, readers=1) == [2]
    assert join_rows(library, pool_of(1), "Red Hen", allowed=allowed, extra=1, readers=1) == [5]
    turns = make_store(tmp_path / "turns", ["a", "b", "c"])
    assert join_rows(turns, pool_of(1), allowed=np.array([True, True, False]), beside=1) == [0]


def test_a_common_word_is_no_title(tmp_path: Path) -> None:
    snap = shelve(tmp_path, *[("Moss", "moss")] * 3, ("Moss", "a plant"))
    assert sorted(join_rows(snap, pool_of(0), extra=9, readers=1, title_df=3)) == [1, 2, 3]
    assert join_rows(snap, pool_of(0), extra=9, readers=1, title_df=2) == []


def test_the_turns_beside_the_best_join(tmp_path: Path) -> None:
    """Rows 0 to 4 are a session, 5 and 6 another; row 2 is deleted."""
    given = [{"session": "a"}] * 5 + [{"session": "b"}] * 2
    snap = make_store(tmp_path, [f"w{i}" for i in range(7)], given=given, cuts=(2,), deleted={1: [0]})
    assert join_rows(snap, pool_of(3, 5), beside=0) == []
    assert join_rows(snap, pool_of(3, 5), beside=1) == [1, 4]  # over what is deleted
    assert join_rows(snap, pool_of(3, 5), beside=2) == [1, 4, 6]  # nothing before the first of a session
    assert join_rows(snap, pool_of(5, 3), beside=9) == [6, 1, 4]
    assert join_rows(snap, pool_of(1, 3), beside=9) == [0, 4]  # what is there, or comes twice, comes once
    assert join_rows(snap, pool_of(0, 3), beside=9) == [1, 4]
    assert join_rows(snap, pool_of(), beside=9) == []
    assert join_rows(make_store(tmp_path / "empty", []), pool_of(), "Red Hen", extra=9, readers=9, beside=9) == []
    # Documents come before neighbours.
    given = [{"session": "a"}, {"session": "a"}, {**DOCUMENT, "title": "Red Hen", "session": "d"}]
    snap = make_store(tmp_path / "mixed", ["who drew the Red Hen", "I forgot", "a book"], given=given)
    assert join_rows(snap, pool_of(0), extra=1, readers=1, beside=1) == [2, 1]
    assert join_rows(snap, pool_of(0), "Red Hen", extra=1, readers=1, beside=1) == [2, 1]


def raise_scores(
    snap: Snapshot, score: Sequence[float], rows: Sequence[int] | None = None, **given: Any
) -> list[float]:
    at = np.arange(len(score)) if rows is None else np.array(rows, np.int64)
    before = np.array(score, np.float32)
    after = raise_linked(at, before, snap, constants(**given))
    assert before.tolist() == np.array(score, np.float32).tolist()
    return after.tolist()


def test_a_document_rises_by_a_share_of_what_names_it(library: Snapshot) -> None:
    """Row 1 names Alien (row 2) and both Red Hens (rows 0, 5): .3 of its score, but no further than .98 of it."""
    score = [0.9, 1.0, 0.2, 0.0, 0.5, 0.99]
    assert raise_scores(library, score, title=0.3) == pytest.approx([0.98, 1.0, 0.5, 0.0, 0.5, 0.99])
    assert raise_scores(library, [2 * one for one in score], title=0.3) == pytest.approx([1.96, 2.0, 1.0, 0, 1.0, 1.98])
    assert raise_scores(library, score, title=0.0) == pytest.approx(score)
    assert raise_scores(library, score[:1], title=0.3, seeds=1) == pytest.approx(score[:1])
    seeds = raise_scores(library, [0.2, 1.0], rows=[2, 1], title=0.3, seeds=2)
    assert seeds == pytest.approx([0.2, 1.0])
    # Places in the pool do not matter, nor does what is not in it.
    score, rows = [0.3, 1.0, 0.5, 0.9, 0.2], [5, 1, 4, 0, 2]
    assert raise_scores(library, score, rows=rows, title=0.3) == pytest.approx([0.6, 1.0, 0.5, 0.98, 0.5])
    assert raise_scores(library, [1.0, 0.5], rows=[1, 4], title=0.3) == pytest.approx([1.0, 0.5])


def test_only_the_best_lift(library: Snapshot) -> None:
    """Row 4 is the second best; it names the opera house (row 1)."""
    score = [0.1, 0.2, 1.0, 0.0, 0.8, 0.3]
    assert raise_scores(library, score, title=0.5, seeds=1) == pytest.approx(score)
    assert raise_scores(library, score, title=0.5, seeds=2) == pytest.approx([0.1, 0.6, 1.0, 0.0, 0.8, 0.3])
    # Rows 1 and 4 lead to the same, and one of them to the other: what rose does not lift further.
    score = [0.4, 0.8, 0.1, 0.0, 1.0, 0.3]
    by_hand = [0.4 + 0.5 * 0.8, min(0.8 + 0.5, 0.98), 0.1 + 0.5 * 0.8, 0.0, 1.0, 0.3 + 0.5 * 0.8]
    by_hand = [min(one, 0.98 * 0.8) if row in (0, 2, 5) else one for row, one in enumerate(by_hand)]
    assert raise_scores(library, score, title=0.5, seeds=2) == pytest.approx(by_hand)


def test_of_those_that_name_it_the_best_lifts_it(tmp_path: Path) -> None:
    """.5 of 1.0 from the first, .5 of .4 from the second; none from itself."""
    snap = shelve(tmp_path / "s", ("Red Hen", "a book"), ("x", "of the Red Hen"), ("y", "the Red Hen again"))
    assert raise_scores(snap, [0.1, 1.0, 0.4], title=0.5, seeds=2) == pytest.approx([0.6, 1.0, 0.4])
    assert raise_scores(snap, [0.1, 0.4, 1.0], title=0.5, seeds=2) == pytest.approx([0.6, 0.4, 1.0])
    snap = shelve(tmp_path / "itself", ("Red Hen", "Red Hen is a book"), ("x", "of the Red Hen"))
    assert raise_scores(snap, [1.0, 0.5], title=0.9) == pytest.approx([1.0, 0.5])
    assert raise_scores(snap, [0.5, 1.0], title=0.9) == pytest.approx([0.98, 1.0])


def names(*keys: str) -> list[tuple[str, str, str]]:
    return [("name", key, key.title()) for key in keys]


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """ana: rows 0, 1, 2 and 5, which is deleted; bo: 0 and 3; cy: 4 alone; dee: 1 and 2; row 3 is a turn."""
    mentions = [names("ana", "bo"), names("ana", "dee"), names("ana", "dee"), names("bo"), names("cy"), names("ana")]
    given = [{**(TURN if i == 3 else DOCUMENT), "session": f"s{i}"} for i in range(6)]
    texts, root = [f"w{i}" for i in range(6)], tmp_path_factory.mktemp("party")
    return make_store(root, texts, given=given, mentions=mentions, cuts=(2,), deleted={1: [3]})


EDGE = {"ana": log1p(5 / 3), "bo": log1p(5 / 2), "dee": log1p(5 / 2)}
"""Of five live items three name Ana, and two each of the others."""


def test_items_that_share_rare_names_with_the_best_rise(party: Snapshot) -> None:
    """Row 0 hands out its score over Ana, to rows 1 and 2, and over Bo, to row 3, by their weights."""
    score = [1.0, 0.5, 0.1, 0.2, 0.3]
    total = EDGE["ana"] + EDGE["bo"]
    ana, bo = EDGE["ana"] / total / 2, EDGE["bo"] / total / 1
    share = ana / bo
    assert share < 1
    for walk, by_hand in (
        (0.4, [1.0, 0.5 + 0.4 * share, 0.1 + 0.4 * share, 0.2 + 0.4, 0.3]),
        (0.9, [1.0, min(0.5 + 0.9 * share, 0.98), 0.1 + 0.9 * share, 0.98, 0.3]),  # never past the last of the best
        (0.0, score),
    ):
        assert raise_scores(party, score, walk=walk, seeds=1) == pytest.approx(by_hand)
    assert raise_scores(party, score, walk=0.4, seeds=5) == pytest.approx(score)


def test_several_of_the_best_add_up(party: Snapshot) -> None:
    """Rows 0 and 1 are the best; 2 is reached from both over Ana and from the second over Dee."""
    first, second = EDGE["ana"] + EDGE["bo"], EDGE["ana"] + EDGE["dee"]
    ana = (EDGE["ana"] / first * 1.0 + EDGE["ana"] / second * 0.5) / 2
    bo, dee = EDGE["bo"] / first * 1.0, EDGE["dee"] / second * 0.5
    reached = {2: ana + dee, 3: bo}
    most = max(reached.values())
    by_hand = [1.0, 0.5, *(min(0.1 + 0.2 * reached[row] / most, 0.49) for row in (2, 3)), 0.1]
    assert raise_scores(party, [1.0, 0.5, 0.1, 0.1, 0.1], walk=0.2, seeds=2) == pytest.approx(by_hand)


def test_each_of_the_best_shares_out_its_own_score(tmp_path: Path) -> None:
    """Row 0 halves its 1.0 over Bo and Flo, since Eve leads nowhere; row 1 has .8 for Dee alone. All are in two."""
    mentions = [names("bo", "flo", "eve"), names("dee"), names("bo"), names("flo"), names("dee")]
    given = [{**DOCUMENT, "session": f"s{i}"} for i in range(5)]
    snap = make_store(tmp_path, [f"w{i}" for i in range(5)], given=given, mentions=mentions)
    share = 0.5 / 0.8
    for walk, last in ((0.2, 0.1 + 0.2), (0.9, 0.98 * 0.8)):  # never past the last of the best
        by_hand = [1.0, 0.8, 0.1 + walk * share, 0.1 + walk * share, last]
        assert raise_scores(snap, [1.0, 0.8, 0.1, 0.1, 0.1], walk=walk, seeds=2) == pytest.approx(by_hand)


def test_a_name_is_rare_or_leads_nowhere(party: Snapshot) -> None:
    """Documents may share more with others than turns."""
    score, last = [1.0, 0.5, 0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4, 1.0]
    # Ana is in three.
    assert raise_scores(party, score, walk=0.4, walk_df=2) == pytest.approx([1.0, 0.5, 0.1, 0.6, 0.3])
    assert raise_scores(party, score, walk=0.4, walk_df=1) == pytest.approx(score)
    alone = raise_scores(party, score, walk=0.4, walk_df_turns=1)  # Bo leads to a turn
    assert alone[1:4] == pytest.approx([0.9, 0.5, 0.2])
    assert raise_scores(party, last, walk=0.4) == pytest.approx(last)  # Cy


def test_first_the_titles_and_then_the_names(tmp_path: Path) -> None:
    """Row 0 names the document of row 1 by its title, which is so lifted among the best, and shares a name with 2."""
    documents = ("x", "of the Red Hen"), ("Red Hen", "a"), ("y", "b"), ("z", "c")
    snap = shelve(tmp_path, *documents, mentions=[[], names("ana"), names("ana"), []])
    score = [1.0, 0.1, 0.1, 0.3]
    assert raise_scores(snap, score, title=0.5, walk=0.4, seeds=2) == pytest.approx([1.0, 0.6, 0.5, 0.3])
    assert raise_scores(snap, score, title=0.1, walk=0.4, seeds=2) == pytest.approx([1.0, 0.2, 0.1, 0.3])


def test_the_second_half_of_a_question_shares_no_word_with_its_answer(tmp_path: Path) -> None:
    """Only by its title is the answer found: switched off, it is not there at all."""
    blind = 'base = "helix"\n[sim]\ntitle = 0.0\n[link]\nextra = 0\ntitle = 0.0\nwalk = 0.0\n'
    (tmp_path / "blind.toml").write_text(blind)
    documents = [("Red Hen", "The Red Hen was drawn by Priya Quill"), ("Priya Quill", "born in Oslo")]
    shelve(tmp_path / "store", *documents, *((f"Filler {i}", f"hen drawn number {i}") for i in range(12)))
    memory, asked = memory_of(tmp_path / "store", profiles=tmp_path), "Where was it that who has drawn Red Hen grew up?"
    assert [item.text for item in memory.recall(asked, k=3).items][:2] == [text for _, text in documents]
    assert "born in Oslo" not in [item.text for item in memory.recall(asked, k=20, profile="blind").items]


def test_the_answer_joins_from_beside_the_question(tmp_path: Path) -> None:
    texts = ["where is the walnut bread?", "in the oven"]
    make_store(tmp_path / "store", texts)
    for name, beside in (("alone", 0), ("near", 50)):
        profile = f'base = "helix"\n[link]\nbeside = {beside}\n[graph]\nextra = 0\n'
        (tmp_path / f"{name}.toml").write_text(profile)
    memory = memory_of(tmp_path / "store", profiles=tmp_path)
    assert [item.text for item in memory.recall("walnut bread", profile="alone").items] == texts[:1]
    assert [item.text for item in memory.recall("walnut bread", profile="near").items] == texts


def test_the_paper_leads_nowhere() -> None:
    quiet = load("helix-paper")
    assert replace(quiet.link, seeds=0, title_df=0, walk_df=0, walk_df_turns=0) == LinkConstants(**NOTHING)
    assert [field.name for field in fields(quiet.sim) if getattr(quiet.sim, field.name)] == ["rrf"]
    assert (quiet.ask.core, quiet.ask.speaker) == (False, False)
