"""Relevance: its signals mean the same in every store, and its model tells what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.ranking.trees import Trees
from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features.relevance import (
    ANSWER_FEATURES,
    ITEM_FEATURES,
    LISTED,
    Evidence,
    compute_answer_features,
    compute_item_features,
    find_names,
    read_evidence,
    read_signs,
    to_logit,
)
from helix.stages.relevance import (
    LEAST_ANSWERED,
    LEAST_RELEVANCE,
    OWN,
    Regression,
    RelevanceModel,
    decode_model,
    encode_model,
    estimate_relevance,
    load_model,
    regress,
    select_relevant,
    weigh_evidence,
)
from helix.stages.route import route
from helix.stages.skip_rules import PROMPT_FEATURES, describe_prompt
from helix.text.tokenize import hash_terms, tokenise
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, make_store

TEXTS = ["the heron stands at the lake", "a boat on the lake", "walnut bread", "Ana bakes bread", "nothing at all"]


def read(snap: Snapshot, text: str, rows: list[int], vector: Any = None, **options: Any) -> Evidence:
    query = add_search_terms(make_query(text, snap, SETTINGS, **options), snap, load("helix").ask)
    return read_evidence(
        np.array(rows, np.int64), read_signs(query, snap), query, vector, snap, route(query, None, snap)
    )


def item_signals(found: Evidence) -> dict[str, Any]:
    return dict(zip(ITEM_FEATURES, compute_item_features(found).T, strict=True))


def answer_signals(found: Evidence, logits: Any = None) -> dict[str, float]:
    given = np.zeros(len(found.rows), np.float32) if logits is None else np.asarray(logits, np.float32)
    return dict(zip(ANSWER_FEATURES, compute_answer_features(found, given).tolist(), strict=True))


def separate_sessions(n: int) -> list[dict[str, str]]:
    return [{"session": f"s{i}"} for i in range(n)]


def test_an_item_has_a_share_of_the_questions_words(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))
    found = item_signals(read(snap, "heron lake", [0, 1, 4]))
    assert found["own_english"] == pytest.approx([1, 0.5, 0])
    assert found["own_idf"][0] == pytest.approx(1)
    assert 0 < found["own_idf"][1] < 0.5  # the lake is in two items, the heron in one
    assert found["own_less"] == pytest.approx(found["own"] - found["own"].max())
    assert np.all(np.diff(found["bm25"]) < 0)
    assert found["by_words"] == pytest.approx([1, 1 / 2, 1 / 3])
    assert found["place"] == pytest.approx(np.log1p([0, 1, 2]))


def test_neighbours_and_sessions_add_their_words(tmp_path: Path) -> None:
    given = [{"session": "a", "ord": i} for i in range(4)] + [{"session": "b", "ord": 0}]
    snap = make_store(tmp_path, ["heron", "x", "y", "lake", "lake"], given=given)
    found = item_signals(read(snap, "heron lake", [0, 3, 4]))
    assert found["own_english"] == pytest.approx([0.5] * 3)
    assert found["near"] == pytest.approx(found["own"])  # no direct neighbour has the other word
    assert found["session"][:2] == pytest.approx([1, 1])
    assert found["session"][2] == pytest.approx(found["own"][2])


def test_a_cosine_is_measured_in_deviations_of_the_stores_own(tmp_path: Path) -> None:
    """Switch: the raw cosine. A store about one thing has nothing but high cosines."""
    rng = np.random.default_rng(0)
    axis = np.eye(32, dtype=np.float32)[0]

    def make_vectors(cosine: float, n: int) -> Any:
        rest = rng.normal(size=(n, 32)).astype(np.float32)
        rest[:, 0] = 0
        rest /= np.linalg.norm(rest, axis=1, keepdims=True)
        angles = np.clip(rng.normal(cosine, 0.05, n), -1, 1)[:, None]
        return angles * axis + np.sqrt(1 - angles**2) * rest

    z = {}
    for name, mean in (("mixed", 0.0), ("alike", 0.6)):
        vectors = np.vstack([make_vectors(mean, 400), make_vectors(mean + 0.3, 1)])
        snap = make_store(tmp_path / name, ["x"] * 401, vectors, separate_sessions(401))
        z[name] = item_signals(read(snap, "y", [400, 0], axis))["z"]
    assert z["mixed"][0] == pytest.approx(z["alike"][0], abs=1.5)
    assert min(z["mixed"][0], z["alike"][0]) > 4
    assert max(abs(z["mixed"][1]), abs(z["alike"][1])) < 3


def test_few_items_are_no_background(tmp_path: Path) -> None:
    axis = np.eye(4, dtype=np.float32)[0]
    alone = make_store(tmp_path, ["x"], [axis])
    found = item_signals(read(alone, "x", [0], axis))
    assert found["z"][0] > 3  # a lone item is compared with unrelated texts, not with itself
    assert np.isfinite(compute_item_features(read(alone, "x", [0], axis))).all()


def test_an_answer_tells_missing_words(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))
    whole, part = (answer_signals(read(snap, text, [0, 1])) for text in ("heron lake", "heron lake tomato"))
    assert (whole["found"], whole["missing"]) == (1, 0)
    assert 0.4 < part["found"] < 1
    assert part["missing_most"] == pytest.approx(1)  # a word of no item
    named = answer_signals(read(snap, "what does Ana bake with Zoltan", [3]))
    assert named["names_found"] == pytest.approx(0.5)
    assert answer_signals(read(snap, "who bakes", [3]))["names_found"] == 1  # it names nothing


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What did Ana tell Priya?", "ana priya"),
        ("ana met Priya. Then Marco came", "priya marco"),
        ("When is LED-214 due", "LED-214"),
        ("set `busy_timeout` to 5000 in store.py", "busy_timeout 5000 store.py"),
        ("Why did the tests fail?", ""),
        ("", ""),
    ],
)
def test_names_are_read_from_how_they_are_written(text: str, names: str) -> None:
    terms = np.unique(hash_terms(tokenise(text)))
    wanted = np.isin(terms, hash_terms(tokenise(names)))
    assert find_names(text, terms).tolist() == wanted.tolist()


def test_no_signal_is_missing_but_those_of_vectors_without_an_encoder(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))
    items = compute_item_features(read(snap, "heron", [0, 1]))
    gaps = {name for name, column in zip(ITEM_FEATURES, items.T, strict=True) if np.isnan(column).any()}
    assert gaps == {"z", "z_lean", "z_session", "z_less", "lean_less", "z_expected"}
    vector = np.eye(5, dtype=np.float32)[0]
    assert not np.isnan(compute_item_features(read(snap, "heron", [0, 1], vector))).any()
    unknown = {name for name, value in answer_signals(read(snap, "heron", [0], vector)).items() if np.isnan(value)}
    assert unknown == {"general", "needless"}  # there is no router


def test_items_after_the_list_change_nothing_of_the_answer(tmp_path: Path) -> None:
    n = LISTED + 5
    snap = make_store(tmp_path, [f"heron number{i}" for i in range(n)], given=separate_sessions(n))
    listed, more = (read(snap, "heron number34", [*range(size)]) for size in (LISTED, n))
    logits = np.linspace(1, -3, n).astype(np.float32)
    assert answer_signals(listed, logits[:LISTED]) == pytest.approx(answer_signals(more, logits), nan_ok=True)


# ---------------------------------------------------------------- the model


def test_the_shipped_models_separate_what_helps(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))

    def judge(text: str) -> Any:
        query = add_search_terms(make_query(text, snap, SETTINGS), snap, load("helix").ask)
        return estimate_relevance(np.arange(5), read_signs(query, snap), query, None, snap, route(query, None, snap))

    good, bad = judge("where does the heron stand at the lake"), judge("when was the Zoltan parser rewritten")
    assert good.answered > 3 * bad.answered
    assert good.items.argmax() == 0
    assert good.items[0] > 5 * good.items[2]
    assert good.items.shape == (5,)
    assert np.all((good.items >= 0) & (good.items <= 1))


def test_nothing_has_no_relevance(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS)
    query = make_query("heron", snap, SETTINGS)
    signs, plan = read_signs(query, snap), route(query, None, snap)
    found = estimate_relevance(np.empty(0, np.int64), signs, query, None, snap, plan)
    assert (len(found.items), found.answered) == (0, 0.0)


@pytest.mark.parametrize(
    ("variant", "encoder"), [("vectors", ""), ("words", ""), *((name, OWN[0]) for name in ("vectors", "across"))]
)
def test_a_model_is_read_as_it_was_written(variant: str, encoder: str, tmp_path: Path) -> None:
    model = load_model(variant, encoder)
    again = decode_model(encode_model(model, variant), variant)
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))
    found = read(snap, "heron lake", [0, 1, 2])
    one, other = weigh_evidence(found, model), weigh_evidence(found, again)
    assert one.items.tolist() == other.items.tolist()
    assert one.answered == other.answered
    assert model.item.feature.max() < len(ITEM_FEATURES)
    assert model.answer.weights.shape == (3, len(ANSWER_FEATURES))


def test_a_missing_signal_counts_as_the_mean() -> None:
    model = Regression(np.array([2, 5], np.float32), np.ones(2, np.float32), np.ones((3, 2), np.float32), np.float32(0))
    rows = np.array([[np.nan, 6], [2, 6], [3, np.nan]], np.float32)
    assert regress(model, rows).tolist() == [2, 2, 2]  # x and its hinge at 0


def test_an_items_probability_depends_on_its_answers(tmp_path: Path) -> None:
    snap = make_store(tmp_path, TEXTS, given=separate_sessions(5))
    found = read(snap, "heron", [0])
    flat = Trees(
        np.zeros((1, 15), np.int32), np.zeros((1, 15), np.float32), np.zeros((1, 16), np.float32), np.float32(0)
    )
    nothing = np.zeros(len(ANSWER_FEATURES), np.float32)

    def judge(bias: float) -> float:
        answer = Regression(nothing, nothing + 1, np.zeros((3, len(nothing)), np.float32), np.float32(bias))
        return float(weigh_evidence(found, RelevanceModel(flat, answer, np.array([1, 0.5, 0, 0], np.float32))).items[0])

    assert judge(0) == pytest.approx(0.5)
    assert judge(2) == pytest.approx(1 / (1 + np.exp(-1)))


def test_only_relevant_items_of_an_answer_that_helps_are_kept() -> None:
    relevance = np.array([0.5, 0.0, 0.02, LEAST_RELEVANCE], np.float32)
    assert select_relevant(relevance, 0.9, None) == [0, 2, 3]
    assert select_relevant(relevance, 0.9, 0.1) == [0]
    assert select_relevant(relevance, LEAST_ANSWERED - 0.01, None) == []
    assert select_relevant(relevance, LEAST_ANSWERED - 0.01, 0.1) == []
    assert select_relevant(relevance, LEAST_ANSWERED - 0.01, 0.0) == [0, 1, 2, 3]  # everything is wanted


def test_log_odds_are_bounded() -> None:
    assert to_logit(np.array([0, 0.5, 1], np.float32)) == pytest.approx([-8, 0, 8], abs=0.1)


def test_a_prompt_is_described_by_its_wording() -> None:
    described = describe_prompt("Did we tell Ana?")
    assert described.shape == (PROMPT_FEATURES,)
    assert described[0] == 1  # it speaks of memory
    assert describe_prompt("translate 'we met' into French")[1] == 1  # self-contained
    assert describe_prompt("x" * 5_000 + " we").tolist() == describe_prompt("x" * 400).tolist()
