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


# ---------------------------------------------------------------- the pool


@pytest.fixture
def library(tmp_path: Path) -> Snapshot:
    """Six documents of one section in two segments; "Moss" is deleted."""
    titles = ["Red Hen", "Oslo Opera House", "Alien (film)", "Moss", "Priya Quill", "Red Hen"]
    texts = [
        "drawn by Priya Quill",
        "shows Alien, and Red Hen",
        "a monster",
        "a plant",
        "writes of Moss and of the Oslo Opera House",
        "a second one",
    ]
    given = [{**DOCUMENT, "title": title, "session": f"d{i}"} for i, title in enumerate(titles)]
    return make_store(tmp_path, texts, given=given, cuts=(3,), deleted={1: [0]})


def test_documents_named_by_the_question_join(library: Snapshot) -> None:
    pool = pool_of(2)
    assert join_rows(library, pool, "Who drew Red Hen, or Moss?", extra=9) == [0, 5]
    assert join_rows(library, pool, "Who saw the Alien?", extra=9) == []  # it is there
    assert join_rows(library, pool, "Who drew Red Hen?", extra=0, readers=9) == []
    assert join_rows(library, pool_of(), "Who drew Red Hen?", extra=9) == [0, 5]  # where nothing was found, too


def test_documents_named_by_the_best_join_in_order(library: Snapshot) -> None:
    assert join_rows(library, pool_of(4, 0, 1), extra=9, readers=9) == [2, 5]
    assert join_rows(library, pool_of(0, 4), extra=9, readers=1) == []  # Priya Quill is there; the second is not read
    assert join_rows(library, pool_of(0), extra=9, readers=1) == [4]
    assert join_rows(library, pool_of(0, 4), extra=9, readers=2) == [1]
    assert join_rows(library, pool_of(4, 0), "Alien", extra=9, readers=9) == [2, 1]  # the question goes first


def test_a_title_ends_where_the_item_does(tmp_path: Path) -> None:
    given = [{**DOCUMENT, "title": title, "session": title} for title in ("Red Hen", "x", "y")]
    snap = make_store(tmp_path, ["a book", "it was red", "hen feathers"], given=given, cuts=(2,))
    assert join_rows(snap, pool_of(1, 2), extra=9, readers=9) == []
    assert raise_scores(snap, [0.1, 1.0, 0.4], title=0.5, seeds=2) == pytest.approx([0.1, 1.0, 0.4])


def test_as_many_documents_as_are_wanted(library: Snapshot) -> None:
    """Counted are those that are new, over all that name them."""
    pool, asked = pool_of(4, 1), "Alien and Priya Quill"
    assert [join_rows(library, pool, asked, extra=n, readers=9) for n in range(5)] == [
        *([], [2], [2, 0], [2, 0, 5], [2, 0, 5])
    ]


def test_only_what_is_allowed_joins(library: Snapshot) -> None:
    allowed = np.array([False, True, True, True, True, True])
    assert join_rows(library, pool_of(1), allowed=allowed, extra=1, readers=1) == [2]
    assert join_rows(library, pool_of(1), "Red Hen", allowed=allowed, extra=1, readers=1) == [5]
    turns = make_store(library.root.parent / "turns", ["a", "b", "c"])
    assert join_rows(turns, pool_of(1), allowed=np.array([True, True, False]), beside=1) == [0]


def test_a_common_word_is_no_title(tmp_path: Path) -> None:
    given = [{**DOCUMENT, "title": "Moss", "session": f"d{i}"} for i in range(4)]
    snap = make_store(tmp_path, ["moss", "moss", "moss", "a plant"], given=given)
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


def test_documents_come_before_what_is_beside(tmp_path: Path) -> None:
    given = [{"session": "a"}, {"session": "a"}, {**DOCUMENT, "title": "Red Hen", "session": "d"}]
    snap = make_store(tmp_path, ["who drew the Red Hen", "I forgot", "a book"], given=given)
    assert join_rows(snap, pool_of(0), extra=1, readers=1, beside=1) == [2, 1]
    assert join_rows(snap, pool_of(0), "Red Hen", extra=1, readers=1, beside=1) == [2, 1]


def test_an_empty_store(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [])
    assert join_rows(snap, pool_of(), "Red Hen", extra=9, readers=9, beside=9) == []


# ---------------------------------------------------------------- the scores


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
    assert raise_scores(library, [0.2, 1.0], rows=[2, 1], title=0.3, seeds=2) == pytest.approx(
        [0.2, 1.0]
    )  # all are seeds


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
    """.5 of 1.0 from the first, .5 of .4 from the second."""
    given = [{**DOCUMENT, "title": title, "session": title} for title in ("Red Hen", "x", "y")]
    snap = make_store(tmp_path, ["a book", "of the Red Hen", "the Red Hen again"], given=given)
    assert raise_scores(snap, [0.1, 1.0, 0.4], title=0.5, seeds=2) == pytest.approx([0.6, 1.0, 0.4])
    assert raise_scores(snap, [0.1, 0.4, 1.0], title=0.5, seeds=2) == pytest.approx([0.6, 0.4, 1.0])


def test_where_they_stand_in_the_pool_does_not_matter(library: Snapshot) -> None:
    score = {0: 0.9, 1: 1.0, 2: 0.2, 4: 0.5, 5: 0.3}
    rows = [5, 1, 4, 0, 2]
    got = raise_scores(library, [score[row] for row in rows], rows=rows, title=0.3)
    assert got == pytest.approx([0.6, 1.0, 0.5, 0.98, 0.5])
    assert raise_scores(library, [1.0, 0.5], rows=[1, 4], title=0.3) == pytest.approx([1.0, 0.5])  # who is not there


def test_a_document_does_not_lift_itself(tmp_path: Path) -> None:
    given = [{**DOCUMENT, "title": "Red Hen", "session": "a"}, {**DOCUMENT, "title": "x", "session": "b"}]
    snap = make_store(tmp_path, ["Red Hen is a book", "of the Red Hen"], given=given)
    assert raise_scores(snap, [1.0, 0.5], title=0.9) == pytest.approx([1.0, 0.5])
    assert raise_scores(snap, [0.5, 1.0], title=0.9) == pytest.approx([0.98, 1.0])


def names(*keys: str) -> list[tuple[str, str, str]]:
    return [("name", key, key.title()) for key in keys]


def party(folder: Path, **more: Any) -> Snapshot:
    """ana: rows 0, 1, 2 and 5, which is deleted; bo: 0 and 3; cy: 4 alone; dee: 1 and 2; row 3 is a turn."""
    mentions = [names("ana", "bo"), names("ana", "dee"), names("ana", "dee"), names("bo"), names("cy"), names("ana")]
    given = [{**(TURN if i == 3 else DOCUMENT), "session": f"s{i}"} for i in range(6)]
    texts = [f"w{i}" for i in range(6)]
    return make_store(folder, texts, given=given, mentions=mentions, cuts=(2,), deleted={1: [3]}, **more)


EDGE = {"ana": log1p(5 / 3), "bo": log1p(5 / 2), "dee": log1p(5 / 2)}
"""Of five live items three name Ana, and two each of the others."""


def test_items_that_share_rare_names_with_the_best_rise(tmp_path: Path) -> None:
    """Row 0 hands out its score over Ana, to rows 1 and 2, and over Bo, to row 3, by their weights."""
    snap = party(tmp_path)
    score = [1.0, 0.5, 0.1, 0.2, 0.3]
    total = EDGE["ana"] + EDGE["bo"]
    ana, bo = EDGE["ana"] / total / 2, EDGE["bo"] / total / 1
    share = ana / bo
    assert share < 1
    by_hand = [1.0, 0.5 + 0.4 * share, 0.1 + 0.4 * share, 0.2 + 0.4, 0.3]
    assert raise_scores(snap, score, walk=0.4, seeds=1) == pytest.approx(by_hand)
    # Never past the last of the best.
    assert raise_scores(snap, score, walk=0.9, seeds=1) == pytest.approx(
        [1.0, min(0.5 + 0.9 * share, 0.98), 0.1 + 0.9 * share, 0.98, 0.3]
    )
    assert raise_scores(snap, score, walk=0.0, seeds=1) == pytest.approx(score)
    assert raise_scores(snap, score, walk=0.4, seeds=5) == pytest.approx(score)


def test_several_of_the_best_add_up(tmp_path: Path) -> None:
    """Rows 0 and 1 are the best; 2 is reached from both over Ana and from the second over Dee."""
    snap = party(tmp_path)
    first, second = EDGE["ana"] + EDGE["bo"], EDGE["ana"] + EDGE["dee"]
    ana = (EDGE["ana"] / first * 1.0 + EDGE["ana"] / second * 0.5) / 2
    bo, dee = EDGE["bo"] / first * 1.0, EDGE["dee"] / second * 0.5
    reached = {2: ana + dee, 3: bo}
    most = max(reached.values())
    by_hand = [1.0, 0.5, *(min(0.1 + 0.2 * reached[row] / most, 0.49) for row in (2, 3)), 0.1]
    assert raise_scores(snap, [1.0, 0.5, 0.1, 0.1, 0.1], walk=0.2, seeds=2) == pytest.approx(by_hand)


def test_each_of_the_best_shares_out_its_own_score(tmp_path: Path) -> None:
    """Row 0 halves its 1.0 over Bo and Flo, since Eve leads nowhere; row 1 has .8 for Dee alone. All are in two."""
    mentions = [names("bo", "flo", "eve"), names("dee"), names("bo"), names("flo"), names("dee")]
    given = [{**DOCUMENT, "session": f"s{i}"} for i in range(5)]
    snap = make_store(tmp_path, [f"w{i}" for i in range(5)], given=given, mentions=mentions)
    share = 0.5 / 0.8
    by_hand = [1.0, 0.8, 0.1 + 0.2 * share, 0.1 + 0.2 * share, 0.1 + 0.2]
    assert raise_scores(snap, [1.0, 0.8, 0.1, 0.1, 0.1], walk=0.2, seeds=2) == pytest.approx(by_hand)
    by_hand = [1.0, 0.8, 0.1 + 0.9 * share, 0.1 + 0.9 * share, 0.98 * 0.8]  # never past the last of the best
    assert raise_scores(snap, [1.0, 0.8, 0.1, 0.1, 0.1], walk=0.9, seeds=2) == pytest.approx(by_hand)


def test_a_name_is_rare_or_leads_nowhere(tmp_path: Path) -> None:
    """Documents may share more with others than turns."""
    snap = party(tmp_path)
    score = [1.0, 0.5, 0.1, 0.2, 0.3]
    assert raise_scores(snap, score, walk=0.4, walk_df=2) == pytest.approx([1.0, 0.5, 0.1, 0.6, 0.3])  # Ana is in three
    assert raise_scores(snap, score, walk=0.4, walk_df=1) == pytest.approx(score)
    alone = raise_scores(snap, score, walk=0.4, walk_df_turns=1)  # Bo leads to a turn
    assert alone[3] == pytest.approx(0.2)
    assert alone[1:3] == pytest.approx([0.9, 0.5])
    assert raise_scores(snap, [0.1, 0.2, 0.3, 0.4, 1.0], walk=0.4) == pytest.approx([0.1, 0.2, 0.3, 0.4, 1.0])  # Cy


def test_first_the_titles_and_then_the_names(tmp_path: Path) -> None:
    """Row 0 names the document of row 1 by its title, which is so lifted among the best, and shares a name with 2."""
    given = [{**DOCUMENT, "title": title, "session": title} for title in ("x", "Red Hen", "y", "z")]
    mentions = [[], names("ana"), names("ana"), []]
    snap = make_store(tmp_path, ["of the Red Hen", "a", "b", "c"], given=given, mentions=mentions)
    score = [1.0, 0.1, 0.1, 0.3]
    assert raise_scores(snap, score, title=0.5, walk=0.4, seeds=2) == pytest.approx([1.0, 0.6, 0.5, 0.3])
    assert raise_scores(snap, score, title=0.1, walk=0.4, seeds=2) == pytest.approx([1.0, 0.2, 0.1, 0.3])


# ---------------------------------------------------------------- the whole path


def test_the_second_half_of_a_question_shares_no_word_with_its_answer(tmp_path: Path) -> None:
    """Only by its title is the answer found: switched off, it is not there at all."""
    (tmp_path / "blind.toml").write_text(
        'base = "helix"\n[sim]\ntitle = 0.0\n[link]\nextra = 0\ntitle = 0.0\nwalk = 0.0\n'
    )
    titles = ["Red Hen", "Priya Quill", *(f"Filler {i}" for i in range(12))]
    texts = ["The Red Hen was drawn by Priya Quill", "born in Oslo", *(f"hen drawn number {i}" for i in range(12))]
    given = [{**DOCUMENT, "title": title, "session": f"d{i}"} for i, title in enumerate(titles)]
    make_store(tmp_path / "store", texts, given=given)
    memory = memory_of(tmp_path / "store", profiles=tmp_path)
    found = [item.text for item in memory.recall("Where was it that who has drawn Red Hen grew up?", k=3).items]
    assert found[:2] == texts[:2]
    blind = memory.recall("Where was it that who has drawn Red Hen grew up?", k=20, profile="blind").items
    assert texts[1] not in [item.text for item in blind]


def test_the_answer_joins_from_beside_the_question(tmp_path: Path) -> None:
    (tmp_path / "alone.toml").write_text('base = "helix"\n[link]\nbeside = 0\n[graph]\nextra = 0\n')
    (tmp_path / "beside.toml").write_text('base = "helix"\n[link]\nbeside = 50\n[graph]\nextra = 0\n')
    make_store(tmp_path / "store", ["where is the walnut bread?", "in the oven"])
    memory = memory_of(tmp_path / "store", profiles=tmp_path)
    texts = {
        name: [item.text for item in memory.recall("walnut bread", profile=name).items] for name in ("alone", "beside")
    }
    assert texts == {"alone": ["where is the walnut bread?"], "beside": ["where is the walnut bread?", "in the oven"]}


def test_the_paper_leads_nowhere() -> None:
    quiet = load("helix-paper")
    assert replace(quiet.link, seeds=0, title_df=0, walk_df=0, walk_df_turns=0) == LinkConstants(**NOTHING)
    assert [field.name for field in fields(quiet.sim) if getattr(quiet.sim, field.name)] == ["rrf"]
    assert (quiet.ask.core, quiet.ask.speaker) == (False, False)
