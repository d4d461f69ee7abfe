"""Types of items: by cues, by the trained classifier, and on a labelled set."""

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
from helix.enrich.classify import PRECEDENCE, PRIORS, classify, score_types
from helix.enrich.type_cues import CUES
from helix.enrich.type_model import (
    TERM_SCALE,
    TypeModel,
    build_features,
    classify_all,
    compute_probabilities,
    load_types,
    weigh_terms,
)
from helix.enrich.type_terms import MAX_CHARS, list_terms
from helix.errors import StoreError
from helix.settings import Settings
from helix.types import ROLES, TYPES
from pipelines.eval.item_types import PACKAGED, read_labelled
from pipelines.ingest.items import index_text
from pipelines.training import router as train
from tests.support.labelled import Rates, add_report, load_cases, rate_pairs
from tests.support.turns import check_units

ROLE = {"human": "user", "assistant": "assistant", "tool": "tool", "document": "document"}


def test_types_by_cues() -> None:
    rows = [(kind, *row) for kind, table in load_cases("types").items() for row in table["items"]]
    found = [(*classify(text, ROLE[origin], origin), text, origin) for _, text, origin in rows]
    assert [(kind, text, origin) for kind, _, text, origin in found] == rows
    assert all(0 <= score < 1 for _, score, *_ in found)


def test_an_imperative_instructs_or_requests_by_its_origin() -> None:
    text = "Add the column, backfill it, then drop the old one."
    assert classify(text, "document", "document")[0] == "procedural"
    human, machine = (
        dict(zip(TYPES, score_types(text, *speaker), strict=True))
        for speaker in (("user", "human"), ("assistant",) * 2)
    )
    assert human["procedural"] < machine["procedural"]
    assert human["episodic"] > PRIORS["human"][1]
    assert machine["episodic"] == pytest.approx(PRIORS["assistant"][1])


def test_more_evidence_scores_higher() -> None:
    _, one = classify("We decided to keep it.", "user", "human")
    _, two = classify("We decided to keep it instead of the other, because it is smaller.", "user", "human")
    assert two > one


def test_cues_name_known_types_and_origins() -> None:
    assert {cue.name for cue in CUES} == set(TYPES) == set(PRECEDENCE)
    assert {kind for kind, _ in PRIORS.values()} <= set(TYPES)
    assert all(0 < cue.weight < 1 for cue in CUES)
    assert {origin for cue in CUES for origin in cue.origins} <= set(PRIORS)


def test_every_cue_occurs_in_a_text() -> None:
    unseen = set(range(len(CUES)))
    for row in [orjson.loads(line) for line in train._read_types().splitlines()] + read_labelled(PACKAGED):
        text = "\n" + row["text"]
        lower = text.lower()
        words = set(re.findall(r"[a-z']+", lower))
        unseen -= {i for i in unseen if not CUES[i].words or CUES[i].words & words if CUES[i].is_in(text, lower)}
    assert [CUES[i].pattern for i in unseen] == []


def test_an_unknown_origin_falls_back_to_the_role() -> None:
    assert classify("plain words", "tool", "robot") == classify("plain words", "tool", "tool")
    assert classify("plain words", "nobody", "robot") == classify("plain words", "user", "human")


def test_much_of_one_thing_does_not_stall() -> None:
    def read(text: str) -> None:
        classify(text, "user", "human")
        classify(text, "document", "document")

    check_units(read, "a", "a ", "if a ", "\n- ", "/a", "first a ", "my a ", "{", ", add ", "i ", "\t", "1.")


def test_a_formula_is_no_code() -> None:
    maths = "Divide both: \\[ \\frac{a_{1}}{b_{1}} = \\frac{(x_{2})}{(y_{2})} \\]"
    code = maths.replace("\\frac", "\\fraq")
    place = TYPES.index("code")
    assert score_types(maths, "assistant", "assistant")[place] < score_types(code, "assistant", "assistant")[place]


# ------------------------------------------------------------ the trained classifier


def tiny_model(width: int, kind: str, temperature: float = 1.0, **terms: str) -> TypeModel:
    """Return a model that gives `kind` a logit of 2, and the type of each of `terms` one of 3 for that term alone."""
    bias = np.array([2.0 * (name == kind) for name in TYPES], np.float32)
    rows = [[3 / TERM_SCALE * (name == other) for name in TYPES] for other in terms.values()]
    known = {term: i for i, term in enumerate(terms)}
    zeros = np.zeros((width, len(TYPES)), np.float32)
    return TypeModel(zeros, bias, np.float32(temperature), known, np.array(rows, np.float32).reshape(-1, len(TYPES)))


WIDTH = 3 + len(TYPES) + len(ROLES) + len(PRIORS)


def test_without_a_model_or_vectors_the_cues_decide() -> None:
    texts, roles, origins = ["I prefer tabs.", "thanks"], ["user", "user"], ["human", "human"]
    alone = [classify(*item) for item in zip(texts, roles, origins, strict=True)]
    vectors = np.zeros((2, 3), np.float32)
    assert classify_all(texts, roles, origins, vectors, None) == alone
    assert classify_all(texts, roles, origins, None, tiny_model(WIDTH, "code")) == alone
    assert classify_all([], [], [], np.zeros((0, 3), np.float32), tiny_model(WIDTH, "code")) == []


def test_the_model_overrides_the_cues_with_a_probability() -> None:
    item = (["thanks"], ["user"], ["human"], np.zeros((1, 3), np.float32))
    for temperature, logit in ((1, 2), (2, 1)):
        probability = round(float(np.exp(logit) / (np.exp(logit) + 4)), 4)
        assert classify_all(*item, tiny_model(WIDTH, "code", temperature)) == [("code", probability)]


def test_features_are_vector_evidence_role_and_origin() -> None:
    x = build_features([(0.0, 0.5, 0.0, 1.0, 0.0)], ["tool"], ["robot"], np.array([[1, 2, 3]], np.float32))
    assert x.shape == (1, WIDTH)
    assert x[0, :3].tolist() == [1, 2, 3]
    assert x[0, 4] == pytest.approx(np.log(2))
    assert x[0, 6] == pytest.approx(-np.log(0.001), rel=1e-3)  # capped, not infinite
    assert x[0, 8:13].tolist() == [float(role == "tool") for role in ROLES]
    assert not x[0, 13:].any()  # an unknown origin


def test_a_model_for_other_vectors_is_refused() -> None:
    with pytest.raises(StoreError, match="takes 20 features, not 24"):
        classify_all(["a"], ["user"], ["human"], np.zeros((1, 7), np.float32), tiny_model(WIDTH, "code"))


def test_terms_of_a_text() -> None:
    found = list_terms("Then we do n't use `fsync()` for src/a.py 2.5 times {laughs}?")
    assert {"then", "don't use", "use `", "for `", "0 times", "^then", "^then we", "$?", "#4"} <= found
    assert not {"laughs", "fsync", "n't", "src"} & found
    assert list_terms("") == {"^", "$", "#0"}
    assert list_terms("a " * MAX_CHARS + "b") == list_terms("a " * MAX_CHARS)  # the end is not read


def test_known_terms_change_the_type() -> None:
    model = tiny_model(WIDTH, "semantic", then="decision")
    item = (["user"], ["human"], np.zeros((1, 3), np.float32), model)
    assert classify_all(["45 then"], *item)[0][0] == "decision"
    assert classify_all(["45 now"], *item)[0][0] == "semantic"
    two = tiny_model(WIDTH, "semantic", then="decision", now="code")
    shares = weigh_terms(["then", "then now", "never"], two)
    length = np.hypot(*shares[1, [TYPES.index("decision"), TYPES.index("code")]])
    assert [shares[0].max(), length, shares[2].max()] == pytest.approx([3, 3, 0])


def pack(model: TypeModel, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    terms = np.frombuffer("\n".join(model.terms).encode(), np.uint8)
    np.savez(buffer, **{**model._asdict(), "terms": terms, **arrays})  # type: ignore[arg-type]
    return buffer.getvalue()


def test_a_model_round_trips_and_damage_is_named() -> None:
    model = tiny_model(WIDTH, "decision", 1.5, then="decision", ok="episodic")
    data = pack(model)
    again = load_types(data)
    assert again.terms == model.terms
    arrays = [(a, b) for a, b in zip(model, again, strict=True) if a is not model.terms]
    assert all(np.array_equal(a, b) and b.dtype == np.float32 for a, b in arrays)  # type: ignore[arg-type, union-attr]
    broken = bytes(byte ^ 255 if 200 < i < 260 else byte for i, byte in enumerate(data))
    others = [
        pack(model, **{name: value})
        for name, value in (
            ("weights", model.bias),
            ("bias", np.array([{}], object)),
            ("term_weights", model.term_weights[:1]),
            ("terms", np.frombuffer(b"ok\nok", np.uint8)),
            ("terms", np.frombuffer(b"\xff\nok", np.uint8)),
            ("temperature", np.float32(0)),
        )
    ]
    bare = io.BytesIO()
    np.savez(bare, weights=model.weights, bias=model.bias, temperature=model.temperature)  # the layout without terms
    for damaged in (b"", b"no npz", data[:40], data[:-30], broken, bare.getvalue(), *others):
        with pytest.raises(StoreError, match="type classifier cannot be read"):
            load_types(damaged)


def test_a_flipped_bit_of_a_model_is_refused_or_harmless() -> None:
    data = pack(tiny_model(3, "code", then="decision"))
    refused = 0
    for place in range(0, len(data), 2):
        for flip in (1, 8, 32, 255):
            damaged = bytearray(data)
            damaged[place] ^= flip
            try:
                load_types(bytes(damaged))  # timestamps do no harm
            except StoreError:
                refused += 1
    assert refused > len(data)


def test_the_fingerprint_follows_the_texts_and_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    first = train.types_fingerprint()
    assert first == train.types_fingerprint()
    text = train._read_types()
    changes = (
        *(("FOLDS", 4), ("CUES", CUES[1:]), ("_read_types", lambda: text.replace("a", "b", 1))),
        *(("list_terms", lambda text: {text}), ("SHARES", {})),
    )
    for name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(train, name, value)
            assert train.types_fingerprint() != first, name


def test_training_texts_are_sound_and_none_is_in_the_labelled_set() -> None:
    rows = [orjson.loads(line) for line in train._read_types().splitlines()]
    count = Counter(row["type"] for row in rows)
    assert set(count) == set(TYPES)
    assert min(count.values()) >= 120
    assert {row["role"] for row in rows} <= set(ROLES)
    assert {row["origin"] for row in rows} <= set(PRIORS)
    texts = {row["text"].lower().strip() for row in rows}
    assert len(texts) == len(rows)
    assert not texts & {row["text"].lower().strip() for row in read_labelled(PACKAGED)}


@pytest.fixture(scope="module")
def encoder(cache: Path) -> Encoder:
    return Encoder(cache_encoder(registry.choose_encoder(Settings()), cache))


@pytest.fixture(scope="module")
def model(encoder: Encoder, cache: Path) -> TypeModel:
    found = train.load_type_model(encoder, Settings(cache=str(cache)))
    assert isinstance(found, TypeModel)
    return found


@pytest.fixture(scope="module")
def type_rows(encoder: Encoder, model: TypeModel) -> list[dict[str, Any]]:
    """Labelled texts with the type and confidence by `cues` and by the model (`found`)."""
    rows = read_labelled(PACKAGED)
    given = [[row[name] for row in rows] for name in ("text", "role", "origin")]
    indexed = [index_text(row["origin"], row.get("speaker"), None, row["text"]) for row in rows]
    cues, found = classify_all(*given, None, None), classify_all(*given, encoder.passages(indexed), model)
    return [{**row, "cues": a, "found": b} for row, a, b in zip(rows, cues, found, strict=True)]


def compute_f1(rates: Rates) -> float:
    precision, recall, _ = rates
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def compute_macro_f1(rates: dict[str, Rates]) -> float:
    return float(np.mean([compute_f1(row) for row in rates.values()]))


@pytest.mark.parametrize(("split", "cues_floor", "floor"), [("dev", 0.6, 0.87), ("test", 0.5, 0.86)])
def test_precision_and_recall_on_labelled_texts(
    type_rows: list[dict[str, Any]], split: str, cues_floor: float, floor: float
) -> None:
    rows = [row for row in type_rows if row["split"] == split]
    cues, both = (rate_pairs([(row["type"], row[by][0]) for row in rows], TYPES) for by in ("cues", "found"))
    add_report(f"types, {split}, cues alone: macro F1 {compute_macro_f1(cues):.3f}", cues)
    add_report(f"types, {split}, cues and vectors: macro F1 {compute_macro_f1(both):.3f}", both)
    assert compute_macro_f1(cues) >= cues_floor
    assert compute_macro_f1(both) >= floor
    assert compute_f1(both["decision"]) >= 0.85


def test_confidence_is_calibrated(type_rows: list[dict[str, Any]]) -> None:
    """Expected calibration error (Naeini et al. 2015) over five bins of equal count."""
    sure = np.array([row["found"][1] for row in type_rows])
    right = np.array([row["found"][0] == row["type"] for row in type_rows], float)
    bins = np.array_split(np.argsort(sure), 5)
    assert sum(len(b) * abs(sure[b].mean() - right[b].mean()) for b in bins) / len(sure) < 0.08


def test_the_model_classifies_twenty_thousand_items_in_seconds(model: TypeModel) -> None:
    n = 20_000
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n, len(model.weights) - WIDTH + 3)).astype(np.float32)
    scores = [(0.3, 0.2, 0.0, 0.5, 0.0)] * n
    start = time.thread_time()
    shares = weigh_terms(["we take the second one then, and drop the first"] * n, model)
    compute_probabilities(build_features(scores, ["user"] * n, ["human"] * n, vectors), shares, model)
    assert time.thread_time() - start < 10
