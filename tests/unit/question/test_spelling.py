"""Questions with typing errors: corrected by the words of the store, never where a word is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helix.question.build import build_query
from helix.question.spelling import WEIGHT, correct_text, find_corrections
from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.lexical import search_lexical
from helix.text.tokenize import hash_terms
from helix.types import Plan, Query, RecallOptions
from pipelines.maintain.compact import compact
from tests.support.tiny import make_store

TEXTS = [
    "The gateway had a memory leak",
    "We tuned the gateways again, and the gateway held",
    "Leeks and potatoes for the soup",
    "VisibilityTimeout in the worker",
    "Die Datenbank wird gesichert",
]
GIVEN = [{}, {}, {}, {}, {"language": "de"}]


@pytest.fixture(scope="module")
def snap(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return make_store(tmp_path_factory.mktemp("words"), TEXTS, given=GIVEN, cuts=(2,))


def ask(text: str, snap: Snapshot) -> Query:
    return add_search_terms(build_query(text, snap, Settings()), snap, load("helix").ask)


def test_an_unknown_word_is_read_as_the_nearest_known_ones(snap: Snapshot) -> None:
    found = find_corrections("memry leek in gatway", "en", snap)
    assert [one[:2] for one in found] == [("memry", "memory"), ("gatway", "gateway")]  # a leek is known
    assert correct_text("memry leek in Gatway?", found) == "memory leek in gateway?"
    assert find_corrections("the gateway's memory leaks", "en", snap) == ()
    assert find_corrections("workers tuning", "en", snap) == ()  # their stems are known
    assert [one.meant for one in find_corrections("Wann wird die Datnbank gesichert?", "de", snap)] == ["datenbank"]
    assert find_corrections("xylophone quartz", "en", snap) == ()
    assert correct_text("as it is", ()) == "as it is"


def test_identifiers_are_read_as_a_whole_else_by_their_parts(snap: Snapshot) -> None:
    def read(text: str) -> tuple[list[tuple[str, str]], str]:
        found = find_corrections(text, "en", snap)
        return [one[:2] for one in found], correct_text(text, found)

    assert read("VisibiltyTimeout") == ([("VisibiltyTimeout", "VisibilityTimeout")], "VisibilityTimeout")
    assert read("visibility_timeuot") == ([("timeuot", "timeout")], "visibility_timeout")
    assert read("newGatwayError") == ([("gatway", "gateway")], "newGatewayError")
    assert read("VisibilityTimeout") == ([], "VisibilityTimeout")
    written, whole = ask("VisibiltyTimeout", snap), ask("VisibilityTimeout", snap)
    assert set(whole.terms.tolist()) == set(written.terms.tolist())


def test_a_corrected_term_weighs_less_and_a_known_one_as_before(snap: Snapshot) -> None:
    query, right = ask("gatway memory", snap), ask("gateway memory", snap)
    assert query.term_weights is not None
    assert right.term_weights is None
    weights = dict(zip(query.terms.tolist(), query.term_weights.tolist(), strict=True))
    gateway, memory, in_german = hash_terms(["gateway", "memori", "memory"]).tolist()
    assert weights == pytest.approx({gateway: WEIGHT, memory: 1.0, in_german: 1.0})
    assert query.embedded == "gateway memory"
    plan = Plan(None, len(TEXTS))
    legs = [search_lexical(one, snap.lexical, plan, 10, 0.9, 0.6) for one in (query, right)]
    scores = [dict(zip(leg.rows.tolist(), leg.scores.tolist(), strict=True)) for leg in legs]
    assert scores[0].keys() == scores[1].keys() == {0, 1}
    assert scores[0][1] == pytest.approx(WEIGHT * scores[1][1], rel=1e-5)


def test_words_of_hidden_items_correct_nothing(tmp_path: Path) -> None:
    given = [{"acl": ["ana"]}, {}, {}]
    snap = make_store(tmp_path, ["the zeppelin hangar", "walnut bread", "more bread"], given=given)
    assert [one.meant for one in find_corrections("zepelin", "en", snap.seen_by("ana"))] == ["zeppelin"]
    assert find_corrections("zepelin", "en", snap.seen_by("bob")) == ()
    assert build_query("zepelin", snap.seen_by("bob"), Settings(), RecallOptions()).corrections == ()


def test_words_are_merged_and_those_of_deleted_items_vanish(tmp_path: Path) -> None:
    from helix.snapshot.segment.open import open_segment
    from helix.snapshot.segment.words import read_words

    texts = ["the zeppelin hangar", "walnut bread", "zebra crossing", "more walnut bread"]
    snap = make_store(tmp_path, texts, cuts=(2,), deleted={0: [0]})
    assert snap.manifest is not None
    compact(tmp_path, Settings(), full=True)
    merged = Snapshot.open(tmp_path)
    assert merged.manifest is not None
    (segment,) = merged.manifest.segments
    arrays = open_segment(tmp_path, segment, dim=snap.manifest.lineage.dim).arrays
    words = read_words(arrays, range(len(arrays["words.term"])))
    assert words == ["bread", "crossing", "more", "walnut", "zebra"]
    assert (np.diff(arrays["words.key"].astype(np.int64)) >= 0).all()
    assert [one.meant for one in find_corrections("zbera", "en", merged)] == ["zebra"]
    assert not any(
        "zeppelin" in file.read_bytes().decode("latin-1") for file in (tmp_path / "segments" / segment.id).iterdir()
    )
