from __future__ import annotations

import io
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.enrich.classify import (
    CUES,
    PRECEDENCE,
    PRIORS,
    TypeModel,
    classify,
    classify_all,
    cue_scores,
    features,
    load_types,
    probabilities,
)
from helix.errors import StoreError
from helix.settings import Settings
from helix.types import ROLES, TYPES
from pipelines.training import router as train
from tests.support.labelled import labelled, report


@pytest.mark.parametrize(
    ("text", "origin", "kind"),
    [
        ("We decided to use DuckDB instead of SQLite because it reads Parquet.", "human", "decision"),
        ("uhhh we decided on utils, not schema for GetIntFromMap, wth?", "human", "decision"),
        ("Let's go with Redis streams.", "human", "decision"),
        ("We'll use 3600 s as the visibility timeout.", "human", "decision"),
        ("No more snapshots on weekends, that's final.", "human", "decision"),
        ("You picked the smaller frame, mainly for the price.", "assistant", "decision"),
        ("To deploy, run the following:\n1. Build the image\n2. Push it", "assistant", "procedural"),
        ("Step 1: install uv. Step 2: create the environment.", "assistant", "procedural"),
        ("How to rebuild: first stop the workers, then delete the index, finally reindex.", "human", "procedural"),
        ("- Run `pip install helix`\n- Set HELIX_STORE\n- Restart the worker", "assistant", "procedural"),
        ("Rinse the lentils, cover them with water, simmer for half an hour.", "document", "procedural"),
        ("Winter service. Close the valve. Open all taps.", "document", "procedural"),
        ("If the pump hums, open the valve, then press the green switch.", "human", "procedural"),
        ("```python\ndef recall(query):\n    return search(query)\n```", "assistant", "code"),
        ('Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: no', "human", "code"),
        ("diff --git a/x.py b/x.py\n@@ -1,2 +1,3 @@\n+import os", "human", "code"),
        ("/repo/src/main.rs\n/repo/src/lib.rs", "tool", "code"),
        ("I prefer tabs over spaces.", "human", "semantic"),
        ("My wife is a doctor and I'm allergic to nuts.", "human", "semantic"),
        ("I’m a welder by trade.", "human", "semantic"),  # a curly apostrophe
        ("The inbox is the ledger of accepted documents.", "document", "semantic"),
        ("I went to the park with Max yesterday, it was lovely.", "human", "episodic"),
        ("Let me check how analytics events are used.", "assistant", "episodic"),
        ("rename the exporter and add a test", "human", "episodic"),
        ("why did we decide to drop the mobile app?", "human", "episodic"),
        ("", "human", "episodic"),
        (";)", "human", "episodic"),
    ],
)
def test_types(text: str, origin: str, kind: str) -> None:
    role = {"human": "user", "assistant": "assistant", "tool": "tool", "document": "document"}[origin]
    found, sure = classify(text, role, origin)
    assert found == kind
    assert 0 <= sure < 1


def test_an_imperative_tells_how_or_asks_by_who_says_it() -> None:
    text = "Add the column, backfill it, then drop the old one."
    assert classify(text, "document", "document")[0] == "procedural"
    told, shown = (
        dict(zip(TYPES, cue_scores(text, *who), strict=True)) for who in (("user", "human"), ("assistant",) * 2)
    )
    assert told["procedural"] < shown["procedural"]
    assert told["episodic"] > PRIORS["human"][1]
    assert shown["episodic"] == pytest.approx(PRIORS["assistant"][1])


def test_more_evidence_is_surer() -> None:
    _, one = classify("We decided to keep it.", "user", "human")
    _, two = classify("We decided to keep it instead of the other, because it is smaller.", "user", "human")
    assert two > one


def test_the_table_names_known_types_and_origins_only() -> None:
    assert {row.name for row in CUES} == set(TYPES) == set(PRECEDENCE)
    assert {kind for kind, _ in PRIORS.values()} <= set(TYPES)
    assert all(0 < row.weight < 1 for row in CUES)
    assert {origin for row in CUES for origin in row.origins} <= set(PRIORS)


def test_no_row_of_the_table_is_dead() -> None:
    texts = [orjson.loads(line) for line in train._types_text().splitlines()] + labelled("types")
    seen = set()
    for row in texts:
        text = "\n" + row["text"]
        lower = text.lower()
        said = {i for i, cue in enumerate(CUES) if not cue.words or cue.words & set(re.findall(r"[a-z']+", lower))}
        seen.update(i for i in said if CUES[i].seen(text, lower))
    assert [CUES[i].pattern.pattern for i in range(len(CUES)) if i not in seen] == []


def test_an_unknown_origin_falls_back_to_the_role() -> None:
    assert classify("plain words", "tool", "robot") == classify("plain words", "tool", "tool")
    assert classify("plain words", "nobody", "robot") == classify("plain words", "user", "human")


@pytest.mark.parametrize(
    "piece", ["a", "a ", "if a ", "\n- ", "/a", "first a ", "my a ", "{", ", add ", "i ", "\t", "1."]
)
def test_a_megabyte_of_one_thing_does_not_stall(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    classify(text, "user", "human")
    classify(text, "document", "document")
    assert time.perf_counter() - start < 2


def test_a_formula_is_no_code() -> None:
    maths = "Divide both: \\[ \\frac{a_{1}}{b_{1}} = \\frac{(x_{2})}{(y_{2})} \\]"
    code = maths.replace("\\frac", "\\fraq")
    place = TYPES.index("code")
    assert cue_scores(maths, "assistant", "assistant")[place] < cue_scores(code, "assistant", "assistant")[place]


# ------------------------------------------------------------ the trained classifier


def tiny_model(width: int, kind: str, temperature: float = 1.0) -> TypeModel:
    """A model that sees nothing and says `kind` with a logit of 2."""
    bias = np.array([2.0 * (name == kind) for name in TYPES], np.float32)
    return TypeModel(np.zeros((width, len(TYPES)), np.float32), bias, np.float32(temperature))


WIDTH = 3 + len(TYPES) + len(ROLES) + len(PRIORS)


def test_without_a_model_or_vectors_the_cues_decide() -> None:
    texts, roles, origins = ["I prefer tabs.", "thanks"], ["user", "user"], ["human", "human"]
    alone = [classify(*item) for item in zip(texts, roles, origins, strict=True)]
    vectors = np.zeros((2, 3), np.float32)
    assert classify_all(texts, roles, origins, vectors, None) == alone
    assert classify_all(texts, roles, origins, None, tiny_model(WIDTH, "code")) == alone
    assert classify_all([], [], [], np.zeros((0, 3), np.float32), tiny_model(WIDTH, "code")) == []


def test_the_models_word_goes_before_the_cues_and_its_confidence_is_a_probability() -> None:
    found = classify_all(["thanks"], ["user"], ["human"], np.zeros((1, 3), np.float32), tiny_model(WIDTH, "code"))
    assert found == [("code", round(float(np.exp(2) / (np.exp(2) + 4)), 4))]
    cooler = classify_all(["thanks"], ["user"], ["human"], np.zeros((1, 3), np.float32), tiny_model(WIDTH, "code", 2))
    assert cooler == [("code", round(float(np.exp(1) / (np.exp(1) + 4)), 4))]


def test_features_are_vector_evidence_role_and_origin() -> None:
    x = features([(0.0, 0.5, 0.0, 1.0, 0.0)], ["tool"], ["robot"], np.array([[1, 2, 3]], np.float32))
    assert x.shape == (1, WIDTH)
    assert x[0, :3].tolist() == [1, 2, 3]
    assert x[0, 4] == pytest.approx(np.log(2))
    assert x[0, 6] == pytest.approx(-np.log(0.001), rel=1e-3)  # capped, not infinite
    assert x[0, 8:13].tolist() == [float(role == "tool") for role in ROLES]
    assert not x[0, 13:].any()  # an origin nobody knows


def test_a_model_for_other_vectors_is_refused() -> None:
    with pytest.raises(StoreError, match="takes 20 features, not 24"):
        classify_all(["a"], ["user"], ["human"], np.zeros((1, 7), np.float32), tiny_model(WIDTH, "code"))


def test_a_model_survives_its_bytes_and_damage_is_named() -> None:
    model = tiny_model(WIDTH, "decision", 1.5)
    buffer = io.BytesIO()
    np.savez(buffer, **model._asdict())
    data = buffer.getvalue()
    again = load_types(data)
    assert all(np.array_equal(a, b) and b.dtype == np.float32 for a, b in zip(model, again, strict=True))
    bare = io.BytesIO()
    np.savez(bare, weights=model.weights)
    flat = io.BytesIO()
    np.savez(flat, weights=model.bias, bias=model.bias, temperature=model.temperature)
    pickled = io.BytesIO()
    np.savez(pickled, **{**model._asdict(), "bias": np.array([{}], object)})
    broken = bytes(byte ^ 255 if 200 < i < 260 else byte for i, byte in enumerate(data))
    for damaged in (b"", b"no npz", data[:40], data[:-30], broken, *(b.getvalue() for b in (bare, flat, pickled))):
        with pytest.raises(StoreError, match="type classifier cannot be read"):
            load_types(damaged)


def test_any_byte_of_a_model_may_be_wrong() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **tiny_model(WIDTH, "code")._asdict())
    data = buffer.getvalue()
    refused = 0
    for place in range(len(data)):
        for flip in (1, 8, 32, 255):
            damaged = bytearray(data)
            damaged[place] ^= flip
            try:
                load_types(bytes(damaged))  # times and the like do no harm
            except StoreError:
                refused += 1
    assert refused > 2 * len(data)


def test_the_fingerprint_follows_the_texts_and_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    first = train.types_fingerprint()
    assert first == train.types_fingerprint()
    text = train._types_text()
    with monkeypatch.context() as patch:
        patch.setattr(train, "FOLDS", 4)
        assert train.types_fingerprint() != first
    with monkeypatch.context() as patch:
        patch.setattr(train, "CUES", CUES[1:])
        assert train.types_fingerprint() != first
    with monkeypatch.context() as patch:
        patch.setattr(train, "_types_text", lambda: text.replace("a", "b", 1))
        assert train.types_fingerprint() != first


def test_training_texts_are_sound_and_none_is_in_the_labelled_set() -> None:
    rows = [orjson.loads(line) for line in train._types_text().splitlines()]
    count = Counter(row["type"] for row in rows)
    assert set(count) == set(TYPES)
    assert min(count.values()) >= 120
    assert {row["role"] for row in rows} <= set(ROLES)
    assert {row["origin"] for row in rows} <= set(PRIORS)
    texts = {row["text"].lower().strip() for row in rows}
    assert len(texts) == len(rows)
    assert not texts & {row["text"].lower().strip() for row in labelled("types")}


@pytest.fixture(scope="session")
def encoder(cache: Path) -> Encoder:
    return Encoder(cache_encoder(registry.choose_encoder(Settings()), cache))


@pytest.fixture(scope="session")
def model(encoder: Encoder) -> TypeModel:
    trained = train.train_types(encoder)
    assert isinstance(trained, bytes)
    return load_types(trained)


@pytest.fixture(scope="session")
def judged(encoder: Encoder, model: TypeModel) -> list[dict[str, Any]]:
    """The labelled texts with what was found: `cues` and `found`, each (type, confidence)."""
    rows = labelled("types")
    texts, roles, origins = ([row[name] for row in rows] for name in ("text", "role", "origin"))
    cues = classify_all(texts, roles, origins, None, None)
    found = classify_all(texts, roles, origins, encoder.passages(texts), model)
    return [{**row, "cues": a, "found": b} for row, a, b in zip(rows, cues, found, strict=True)]


def precision_recall(rows: list[dict[str, Any]], by: str) -> dict[str, tuple[float, float, int]]:
    """By type: precision, recall and how many texts carry it."""
    right = Counter(row["type"] for row in rows if row[by][0] == row["type"])
    said, gold = Counter(row[by][0] for row in rows), Counter(row["type"] for row in rows)
    return {kind: (right[kind] / max(said[kind], 1), right[kind] / gold[kind], gold[kind]) for kind in TYPES}


def macro_f1(scores: dict[str, tuple[float, float, int]]) -> float:
    return float(np.mean([2 * p * r / (p + r) if p + r else 0.0 for p, r, _ in scores.values()]))


@pytest.mark.parametrize(("split", "cues_floor", "floor"), [("dev", 0.71, 0.91), ("test", 0.6, 0.8)])
def test_precision_and_recall_on_labelled_texts(
    judged: list[dict[str, Any]], split: str, cues_floor: float, floor: float
) -> None:
    rows = [row for row in judged if row["split"] == split]
    cues, both = (precision_recall(rows, by) for by in ("cues", "found"))
    report(f"types, {split}, cues alone: macro F1 {macro_f1(cues):.3f}", cues)
    report(f"types, {split}, cues and vectors: macro F1 {macro_f1(both):.3f}", both)
    assert macro_f1(cues) >= cues_floor
    assert macro_f1(both) >= floor


def test_confidence_is_calibrated(judged: list[dict[str, Any]]) -> None:
    """Expected calibration error (Naeini et al. 2015) over five bins of equal count."""
    sure = np.array([row["found"][1] for row in judged])
    right = np.array([row["found"][0] == row["type"] for row in judged], float)
    bins = np.array_split(np.argsort(sure), 5)
    assert sum(len(b) * abs(sure[b].mean() - right[b].mean()) for b in bins) / len(sure) < 0.08


def test_twenty_thousand_items_a_second_beside_the_cues(model: TypeModel) -> None:
    n = 20_000
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, len(model.weights) - WIDTH + 3)).astype(np.float32)
    scores = [(0.3, 0.2, 0.0, 0.5, 0.0)] * n
    start = time.perf_counter()
    probabilities(features(scores, ["user"] * n, ["human"] * n, vectors), model)
    assert time.perf_counter() - start < 1
