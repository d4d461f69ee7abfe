"""Relevance of items in another language than the question: no words, a background of its own, a model of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features.across import blind_words, take_rows
from helix.stages.features.relevance import Evidence, compute_item_features, read_evidence, read_signs
from helix.stages.relevance import OWN, load_model, weigh_evidence
from helix.stages.route import route
from pipelines.eval.relevance.ask import CaseEvidence
from pipelines.eval.relevance.fit import Signals, weigh_cases
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, make_store

GERMAN = ["Der Reiher steht am See bei Ohrid.", "Am Montag backt Ana ein Brot mit Nüssen."]
ENGLISH = ["The heron stands at the lake near Ohrid.", "Ana bakes bread on Mondays."]
GIVEN: list[dict[str, Any]] = [
    {"session": f"s{i}", "language": language} for i, language in enumerate(("de", "de", "en", "en"))
]
QUESTION = "Where does the heron stand at Ohrid?"


def read(snap: Snapshot, text: str, vector: Any = None) -> Evidence:
    query = add_search_terms(make_query(text, snap, SETTINGS), snap, load("helix").ask)
    plan = route(query, None, snap)
    return read_evidence(np.arange(snap.rows), read_signs(query, snap), query, vector, snap, plan)


def test_rows_of_the_questions_language_are_told(tmp_path: Path) -> None:
    snap = make_store(tmp_path / "both", [*GERMAN, *ENGLISH], given=GIVEN)
    assert read(snap, QUESTION).shared.tolist() == [False, False, True, True]
    assert read(snap, "Wo steht der Reiher bei Ohrid?").shared.tolist() == [True, True, False, False]
    unknown = make_store(tmp_path / "unknown", GERMAN, given=[{"session": "a", "language": ""}, GIVEN[1]])
    assert read(unknown, QUESTION).shared.tolist() == [True, False]  # a text without a language may be in any


def test_only_names_are_words_across_languages(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [*GERMAN, *ENGLISH], given=GIVEN)
    found = blind_words(read(snap, QUESTION))
    assert found.own.any(axis=0).tolist() == [True, False, True, False]  # Ohrid
    assert not found.own[~found.names].any()
    assert not found.bm25.any()
    assert not found.adjacent.any()


def test_rows_are_taken_with_all_they_have(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [*GERMAN, *ENGLISH], given=GIVEN)
    found = read(snap, QUESTION, np.eye(4, dtype=np.float32)[2])
    chosen = np.array([True, False, True, False])
    taken = take_rows(found, chosen)
    for name in Evidence._fields:
        whole, part = getattr(found, name), getattr(taken, name)
        if isinstance(whole, np.ndarray) and 4 in whole.shape:
            axis = whole.shape.index(4) if name not in ("own", "near", "window", "session") else 1
            assert part.tolist() == np.compress(chosen, whole, axis).tolist(), name
    assert len(compute_item_features(taken)) == 2


def test_each_language_has_its_own_background(tmp_path: Path) -> None:
    """Switch: one background for all, in which the near language hides the best of the other."""
    rng = np.random.default_rng(0)
    axis = np.eye(32, dtype=np.float32)[0]
    rest = rng.normal(size=(401, 32)).astype(np.float32)
    rest[:, 0] = 0
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    cosines = np.concatenate([rng.normal(0.6, 0.03, 200), rng.normal(0.1, 0.03, 200), [0.4]])[:, None]
    vectors = cosines * axis + np.sqrt(1 - cosines**2) * rest
    given = [{"session": f"s{i}", "language": "en" if i < 200 else "de"} for i in range(401)]
    z = read(make_store(tmp_path, ["x"] * 401, vectors, given), "what is y", axis).z
    assert z[400] > 3
    assert abs(z[:200].mean()) < 1
    assert abs(z[200:400].mean()) < 1


def test_rows_in_another_language_are_weighed_by_their_own_model(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [*GERMAN, *ENGLISH], given=GIVEN)
    found = read(snap, QUESTION, np.eye(4, dtype=np.float32)[0])
    own, across = (load_model(name, OWN[0]) for name in ("vectors", "across"))
    both = weigh_evidence(found, own, across)
    shared, foreign = (take_rows(found, chosen) for chosen in (found.shared, ~found.shared))
    one, other = weigh_evidence(shared, own), weigh_evidence(blind_words(foreign), across)
    assert both.items.tolist() == pytest.approx([*other.items, *one.items])
    assert both.answered == max(one.answered, other.answered)
    assert weigh_evidence(foreign, own, across).items.tolist() == pytest.approx(other.items.tolist())
    assert weigh_evidence(found, own).items.tolist() != both.items.tolist()


@pytest.mark.parametrize(("variant", "share"), [("vectors", 0.5), ("across", 0.25)])
def test_another_language_is_expected_to_answer_half_as_often(tmp_path: Path, variant: str, share: float) -> None:
    """However many cases of a kind are trained on."""
    found = read(make_store(tmp_path, [*GERMAN, *ENGLISH], given=GIVEN), QUESTION, np.eye(4, dtype=np.float32)[0])
    kinds = ["own"] * 30 + ["other"] * 5 + ["hard"] * 2 + ["none"] * 3 + ["abstention"]
    signals = Signals(
        [CaseEvidence("x", "x", kind, QUESTION, "", found, np.eye(4)[0] > 0, 1) for kind in kinds], variant
    )
    weight = weigh_cases(signals, np.ones(len(kinds), bool), signals.mix)
    assert weight[signals.own].sum() / weight.sum() == pytest.approx(share)
    assert weight[-1] == 0
