"""The recipe `engram`: every number by hand arithmetic, then whole recalls."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.errors import EncoderError
from helix.ranking.rrf import align_ranks, rrf
from helix.recipes.engram import EngramProfile, recall
from helix.recipes.engram_formulas import (
    CHANNELS,
    INTENTS,
    access_boost,
    activation_noise,
    age_days,
    date_boost,
    decay,
    find_intent,
    hopfield,
    match_days,
    match_stated_days,
    normalise,
)
from helix.recipes.engram_retention import FEATURES, KIND, Perceptron, build_features, dump, predict, retention_boost
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.snapshot import writer
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.stages.pack import CLOSE, OPEN
from helix.stages.trace import Trace, why_not
from helix.types import TYPES, Bundle, Leg
from pipelines.maintain.touch import touch
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, add_encoder, f32, make_store, read_reasons

DAY = 86_400
ENGRAM: EngramProfile = load("engram")
QUIET = replace(ENGRAM, activation=replace(ENGRAM.activation, noise=0.0))
"""Without noise: what is left is arithmetic."""
PLAIN = replace(QUIET, intents={name: dict.fromkeys(CHANNELS, 1.0) for name in INTENTS})
NO_MODELS = SimpleNamespace(late=None, cross=None)


def leg(name: str, *rows: int) -> Leg:
    return Leg(name, np.array(rows, np.uint32), np.linspace(1, 0.1, len(rows), dtype=np.float32))


def seeing(snap: Snapshot, vector: Sequence[float]) -> Snapshot:
    return add_encoder(snap, lambda _: f32(*vector) / np.linalg.norm(f32(*vector)))


def ask(
    snap: Snapshot, text: str, profile: EngramProfile = QUIET, models: Any = NO_MODELS, trace: Any = None, **how: Any
) -> Bundle:
    query = make_query(text, snap, SETTINGS, **{"now": datetime.fromtimestamp(BASE + DAY, UTC), **how})
    return recall(query, snap, profile, trace or Trace(True), models)


def test_constants_of_the_system() -> None:
    assert (ENGRAM.fuse.k, ENGRAM.fuse.date) == (60, 2.0)
    assert (ENGRAM.decay.rate, ENGRAM.decay.floor) == (0.693, 0.5)
    assert (ENGRAM.activation.access, ENGRAM.activation.noise) == (0.1, 0.02)
    assert ENGRAM.cross.top == 20


def test_weights_of_each_intent(tmp_path: Path) -> None:
    snap = seeing(make_store(tmp_path, ["walnut loaf"], [[1, 0]]), [1, 0])
    alone = replace(QUIET, hopfield=replace(QUIET.hopfield, weight=0.0))
    rows = [(1.0, 0.8, 1.5), (0.8, 1.2, 0.8), (0.8, 0.8, 1.8), (1.2, 1.0, 0.8), (1.0, 1.0, 1.0)]
    for intent, weights in zip(("why", "when", "who", "how", "what"), rows, strict=True):
        assert tuple(ENGRAM.intents[intent][channel] for channel in ("dense", "bm25", "graph")) == weights
        entry = read_reasons(ask(snap, f"{intent} to walnut", alone))["walnut loaf"]
        assert (entry["dense"], entry["bm25"]) == (1, 1)  # and whatever the walk says of what it starts from
        held = weights[2] / 61 if entry["graph"] == 1 else 0
        assert entry["rrf"] == pytest.approx((weights[0] + weights[1]) / 61 + held, abs=1e-6), intent


WORDS = {
    "why": ("why", "because", "reason", "cause", "led to", "resulted in"),
    "when": ("when", "date", "time", "before", "after", "during", "timeline", "history"),
    "who": ("who", "person", "people", "team", "built", "created", "wrote"),
    "how": ("how to", "steps", "procedure", "process", "workflow", "debug", "fix"),
}
"""The four patterns as the system prints them, in its order."""

WHAT = ("How do I run it", "how many", "reasons", "undated", "fixed", "timely", "whose idea", "led by", "xwhen", "")


def test_intent() -> None:
    """Each word alone, in any case; no part of a word; where several match, the first in the order decides."""
    for intent, words in WORDS.items():
        assert [find_intent(f"the {word.upper()} walnut") for word in words] == [intent] * len(words)
    assert [find_intent(text) for text in WHAT] == ["what"] * len(WHAT)
    rest = list(WORDS)
    while rest:
        assert find_intent(" ".join(WORDS[one][0] for one in reversed(rest))) == rest.pop(0)


def test_the_intent_of_a_long_text_takes_linear_time() -> None:
    began = time.thread_time()
    for text in ("a" * 1_000_000, "what " * 200_000, "how" * 333_333, "what" + " " * 1_000_000, "wha" * 333_333):
        find_intent(text)
    assert time.thread_time() - began < 8


def test_ranks_from_nought_and_one_more() -> None:
    """weight / (k + rank + 1): first in dense and fifth in BM25, second in both, third in BM25 alone.

    By this formula the first of them has less than the second, whatever the weights of an intent: .03178 and .03226.
    """
    rows, ranks = align_ranks([leg("dense", 1, 2), leg("bm25", 5, 2, 3, 4, 1)])
    fused = dict(zip(rows.tolist(), rrf([*ranks.values()], [1.2, 0.8], ENGRAM.fuse.k).tolist(), strict=True))
    assert fused[1] == pytest.approx(1.2 / (60 + 0 + 1) + 0.8 / (60 + 4 + 1))
    assert fused[2] == pytest.approx(1.2 / (60 + 1 + 1) + 0.8 / (60 + 1 + 1))
    assert fused[3] == pytest.approx(0.8 / (60 + 2 + 1))


def test_a_date_doubles() -> None:
    days = ((100, 199, 1.0), (0, 999, 0.5))
    times = np.array([150, 99, 1000, np.iinfo(np.int64).min])
    assert match_days(times, days).tolist() == [1.0, 0.5, 0.0, 0.0]
    assert match_days(times, ()).tolist() == [0.0] * 4
    assert date_boost(f32(1, 0.5, 0), 2.0).tolist() == [2.0, 1.5, 1.0]


def test_a_date_in_the_text_of_a_memory_matches() -> None:
    """A whole date within the window: a day, a day relative to the text; neither another day nor the month about it."""
    day = int(datetime(2024, 3, 5, tzinfo=UTC).timestamp())
    days = ((day, day + DAY - 1, 1.0), (day - 4 * DAY, day + 27 * DAY - 1, 0.5))
    said = datetime(2024, 3, 6, 9, tzinfo=UTC)
    texts = ["launch on 2024-03-05", "it broke yesterday", "launch on 2024-03-07", "in March 2024", "in 2024", "launch"]
    assert match_stated_days(texts, [said] * 6, days).tolist() == [1.0, 1.0, 0.5, 0.5, 0.0, 0.0]
    assert match_stated_days(["it broke yesterday"], [None], days).tolist() == [0.0]


def test_an_item_of_the_day_asked_for_counts_twice(tmp_path: Path) -> None:
    moments = (BASE - 30 * DAY, BASE + 3 * DAY)  # the 15th of October and the 17th of November 2023
    given = [{"time": moment, "type": "code"} for moment in moments]
    snap = seeing(make_store(tmp_path, ["walnut one", "walnut two"], [[1, 0], [0.9, 0.1]], given), [1, 0])
    found = read_reasons(ask(snap, "the walnut of 2023-11-17", now=datetime(2023, 12, 1, tzinfo=UTC)))
    assert (found["walnut two"]["date"], found["walnut one"]["date"]) == (2.0, 1.0)
    assert next(iter(found)) == "walnut two"
    given = [{"time": moment, "type": "code"} for moment in moments[:1] * 2]
    texts = ["walnut one", "walnut for 2023-11-17"]
    stated = seeing(make_store(tmp_path / "stated", texts, [[1, 0], [0.9, 0.1]], given), [1, 0])
    found = read_reasons(ask(stated, "the walnut of 2023-11-17", now=datetime(2023, 12, 1, tzinfo=UTC)))
    assert [found[text]["date"] for text in texts] == [1.0, 2.0]
    none = read_reasons(ask(snap, "the walnut", now=datetime(2023, 12, 1, tzinfo=UTC)))
    assert {entry["date"] for entry in none.values()} == {1.0}
    assert next(iter(none)) == "walnut one"


def test_a_date_in_the_text_of_a_low_item_lifts_it_to_the_top(tmp_path: Path) -> None:
    """Of 30 items the one of the 18th that says "yesterday" is last: doubled, 2 / 90 = .0222 is more than 1 / 61."""
    long = "walnut yesterday" + " with salt and pepper" * 20
    given = [
        {"time": BASE + 4 * DAY if i == 29 else BASE - 40 * DAY, "type": "code", "session": f"s{i}"} for i in range(30)
    ]
    snap = make_store(tmp_path, ["walnut"] * 29 + [long], given=given)
    late = datetime(2023, 12, 1, tzinfo=UTC)
    mute = replace(PLAIN, intents={name: {**weights, "graph": 0.0} for name, weights in PLAIN.intents.items()})
    assert ask(snap, "walnut", mute, now=late, k=30).items[-1].text == long
    first = ask(snap, "walnut of 2023-11-17", mute, now=late, k=3).items[0]
    assert (first.text, first.why["bm25"], first.why["date"]) == (long, 30, 2.0)


def test_half_is_left_after_a_half_life_and_never_less() -> None:
    assert age_days(np.array([0, DAY, 3 * DAY]), 2.0 * DAY).tolist() == [2.0, 1.0, 0.0]
    assert age_days(np.array([0, DAY]), np.array([DAY, 3 * DAY])).tolist() == [1.0, 2.0]
    fades = np.ones(4, bool)
    left = decay(f32(0, 15, 30, 90), fades, 0.693, 30.0, 0.5)
    assert left.tolist() == pytest.approx([1.0, math.exp(-0.3465), 0.5, 0.5], abs=1e-4)
    assert left[1] == pytest.approx(0.70716, abs=1e-5)
    assert decay(f32(90), fades[:1], 0.693, 30.0, 0.0)[0] == pytest.approx(0.125, abs=1e-3)  # but for the floor
    assert decay(f32(90), ~fades[:1], 0.693, 30.0, 0.5)[0] == 1.0


def test_only_episodes_fade_from_their_last_access(tmp_path: Path) -> None:
    given = [{"time": BASE}, {"time": BASE, "type": "decision"}, {"time": BASE - 9_999 * DAY}]
    texts = ["walnut one", "walnut two", "walnut old"]
    make_store(tmp_path, texts, np.eye(3), given)
    year = ENGRAM.decay.half_life
    now = datetime.fromtimestamp(BASE + year * DAY, UTC)
    found = read_reasons(ask(Snapshot.open(tmp_path), "walnut", now=now))
    assert found["walnut one"]["decay"] == pytest.approx(0.5, abs=1e-3)
    assert found["walnut two"]["decay"] == 1.0
    assert found["walnut old"]["decay"] == 0.5
    access_events.append_events(
        tmp_path, [AccessEvent(f"{Snapshot.open(tmp_path).columns.key[2]:016x}", "used", BASE + year * DAY / 2)]
    )
    touch(tmp_path, SETTINGS)
    found = read_reasons(ask(Snapshot.open(tmp_path), "walnut", now=now))
    assert found["walnut old"]["decay"] == pytest.approx(math.exp(-0.3465), abs=1e-3)


def test_accesses_by_the_natural_logarithm(tmp_path: Path) -> None:
    found = access_boost(np.array([0, 1, 9], np.uint32), 0.1).tolist()
    assert found == pytest.approx([1.0, 1.0693147, 1.2302585])
    snap = make_store(tmp_path, ["walnut one", "walnut two"])
    second = f"{snap.columns.key[1]:016x}"
    access_events.append_events(tmp_path, [AccessEvent(second, "used", BASE)] * 9)
    touch(tmp_path, SETTINGS)
    signals = read_reasons(ask(Snapshot.open(tmp_path), "walnut"))
    assert signals["walnut two"]["access"] == pytest.approx(1 + 0.1 * math.log(10), abs=1e-6)
    assert signals["walnut one"]["access"] == 1.0


def test_a_hopfield_step_on_three_patterns_by_hand() -> None:
    # β·V q = 2, 0, 1.2; e^2 = 7.389056, e^0 = 1, e^1.2 = 3.320117; their sum is 11.709173.
    # Attention .631048, .085403, .283548: q′ = (.631048 + .6·.283548, .085403 + .8·.283548) = (.801177, .312242).
    # Its length is .859869, so the direction is (.931743, .363127).
    patterns = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    assert hopfield(f32(1, 0), patterns, 2.0).tolist() == pytest.approx([0.931743, 0.363127], abs=2e-5)
    # At no temperature at all the nearest pattern is all that is left.
    assert hopfield(f32(0.8, 0.6), patterns, 1_000.0).tolist() == pytest.approx([0.6, 0.8], abs=1e-5)
    assert hopfield(f32(0.8, 0.6), patterns[:0], 2.0).tolist() == pytest.approx([0.8, 0.6])


def test_the_association_is_a_list_of_its_own(tmp_path: Path) -> None:
    vectors = [[1.0, 0, 0], [0.9, 0.4359, 0], [0.5, 0.866, 0], [0, 0, 1]]
    snap = seeing(make_store(tmp_path, ["a a", "b b", "c c", "d d"], vectors), [1, 0, 0])
    few = replace(QUIET, retrieve=replace(QUIET.retrieve, dense=3, hopfield=1))
    one = replace(few, hopfield=replace(QUIET.hopfield, neighbours=3, beta=0.0, weight=0.5))
    # Without β all three weigh the same: their mean is (.8, .434), nearest to the second.
    places = {text: entry["hopfield"] for text, entry in read_reasons(ask(snap, "nothing", one)).items()}
    assert (places.pop("b b"), set(places.values())) == (1, {None})
    off = read_reasons(ask(snap, "nothing", replace(one, hopfield=replace(one.hopfield, weight=0.0))))
    assert "hopfield" not in off["b b"]
    on = read_reasons(ask(snap, "nothing", one))
    assert on["b b"]["rrf"] - off["b b"]["rrf"] == pytest.approx(0.5 / 61, abs=1e-6)


def test_noise_is_gaussian_and_follows_from_question_generation_and_item() -> None:
    keys = np.random.default_rng(5).integers(0, 2**63, 20_000).astype(np.uint64)
    noise = activation_noise("which port", 7, keys, 0.02)
    assert noise.tobytes() == activation_noise("which port", 7, keys, 0.02).tobytes()
    backwards = activation_noise("which port", 7, keys[::-1], 0.02)
    assert np.array_equal(backwards, noise[::-1])  # not of the order
    for text, generation in (("which gate", 7), ("which port", 8)):
        other = activation_noise(text, generation, keys, 0.02)
        assert abs(float(np.corrcoef(noise, other)[0, 1])) < 0.03
    assert float(noise.std()) == pytest.approx(0.02, rel=0.02)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.0005)
    assert float(activation_noise("which port", 7, keys, 0.2).std()) == pytest.approx(0.2, rel=0.02)
    assert not activation_noise("which port", 7, keys, 0.0).any()
    # Normal: 31.73, 4.55 and .27 % lie beyond one, two and three standard deviations (logistic: 28.0, 5.2, .86 %).
    for deviations, share, within in ((1, 0.3173, 0.01), (2, 0.0455, 0.004), (3, 0.0027, 0.0012)):
        assert float((np.abs(noise) > deviations * 0.02).mean()) == pytest.approx(share, abs=within)


def test_noise_of_one_item_by_hand() -> None:
    """Two steps of splitmix64 from the digest of the question make u and v: √(−2 ln u) · cos(2πv) · σ."""
    mask = 2**64 - 1

    def draw(state: int) -> float:
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & mask
        return (((mixed ^ (mixed >> 31)) >> 11) + 0.5) / 2**53

    state = 77 ^ int(hash_parts("activation noise", "7", "which port"), 16)
    u, v = draw((state + 0x9E3779B97F4A7C15) & mask), draw((state + 2 * 0x9E3779B97F4A7C15) & mask)
    wanted = 0.02 * math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
    found = activation_noise("which port", 7, np.array([77], np.uint64), 0.02)
    assert found.tolist() == pytest.approx([wanted], abs=1e-8)


def test_another_generation_wavers_otherwise_and_the_same_replays(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["walnut one", "walnut two"])

    def noise() -> list[float]:
        return [entry["noise"] for entry in read_reasons(ask(Snapshot.open(tmp_path), "walnut", ENGRAM)).values()]

    before = noise()
    assert (
        before
        == noise()
        == [entry["noise"] for entry in read_reasons(ask(snap.seen_by("ana"), "walnut", ENGRAM)).values()]
    )
    access_events.append_events(tmp_path, [AccessEvent(f"{snap.columns.key[1]:016x}", "used", BASE)])
    touch(tmp_path, SETTINGS)
    assert sorted(noise()) != sorted(before)


def test_a_score_is_the_product_over_the_best_and_noise(tmp_path: Path) -> None:
    assert normalise(f32(0.02, 0.01, 0)).tolist() == pytest.approx([1.0, 0.5, 0.0])
    assert normalise(f32()).tolist() == []
    assert normalise(f32(0, 0)).tolist() == [0.0, 0.0]
    given = [{"time": BASE}, {"time": BASE, "type": "code"}]
    snap = seeing(make_store(tmp_path, ["walnut one", "walnut two"], [[1, 0], [0.9, 0.1]], given), [1, 0])
    found = ask(snap, "walnut", ENGRAM, now=datetime.fromtimestamp(BASE + 100 * DAY, UTC))
    entries = [item.why for item in found.items]
    products = [entry["rrf"] * entry["date"] * entry["decay"] * entry["access"] for entry in entries]
    for item, entry, product in zip(found.items, entries, products, strict=True):
        assert entry["noise"] != 0
        assert item.score == pytest.approx(product / max(products) + entry["noise"], abs=2e-4)


MODEL = Perceptron(
    *(f32(*[value] * 10) for value in (-9, 9, 0, 1)),  # low, high, mean, scale
    hidden=np.array([[2.0, 0], *[[0, 0]] * 8, [0, -1.0]], np.float32),
    hidden_bias=f32(0, 0.25),
    output=f32(1.0, 4.0),
    output_bias=np.float32(-1.0),
    decay=f32(0.693, 30.0, 0.5),
)


def test_ten_features() -> None:
    assert len(FEATURES) == 10
    kinds = np.array([TYPES.index("code"), TYPES.index("episodic")], np.uint8)
    x = build_features(f32(0.5, 0.25), f32(0.75, 1), np.array([0, 9], np.uint32), f32(3, 4), kinds, f32(1, 0.5))
    assert x[0].tolist() == [0.5, 0.75, 0, 3, 0, 0, 0, 0, 1, 1]
    assert x[1].tolist() == pytest.approx([0.25, 1, math.log(10), 4, 1, 0, 0, 0, 0, 0.5])


def test_the_forward_pass_by_hand() -> None:
    x = np.zeros((2, 10), np.float32)
    x[0, 0], x[0, 9] = 0.75, 1.0  # hidden: 1.5 and max(.25 − 1, 0) = 0, so the logit is 1.5 − 1
    x[1, 0], x[1, 9] = -1.0, 0.0  # hidden: 0 and .25, so the logit is 1 − 1
    assert predict(MODEL, x).tolist() == pytest.approx([1 / (1 + math.exp(-0.5)), 0.5])
    assert retention_boost(f32(0, 0.5, 1), 0.5).tolist() == pytest.approx([0.75, 1.0, 1.25])
    # Held to at most .25, the first cosine gives a logit of .5 − 1.
    held = predict(MODEL._replace(high=f32(0.25, *[9] * 9)), x)
    assert held.tolist() == pytest.approx([1 / (1 + math.exp(0.5)), 0.5])
    assert predict(MODEL._replace(scale=f32(*[1e-20] * 10)), x).tolist() == pytest.approx([1, 0.5], abs=1e-6)


def publish_model(root: Path, model: Perceptron) -> Snapshot:
    """The next generation with this model."""
    with writer.acquire_lock(root, 1.0) as held:
        name, manifest = inbox.load_current(root)
        assert manifest is not None
        index = writer.write_index(root, KIND, {"retention.npz": dump(model)}, {})
        writer.publish_generation(held, writer.build_next(held, name, manifest, indexes=(*manifest.indexes, index)))
    return Snapshot.open(root)


def test_the_retention_model_is_a_factor_and_its_absence_is_said(tmp_path: Path) -> None:
    snap = seeing(make_store(tmp_path, ["walnut one", "walnut two"], [[1, 0], [0, 1]]), [1, 0])
    trace = Trace(True)
    without = read_reasons(ask(snap, "walnut", trace=trace))
    assert "retention" not in without["walnut one"]
    (said,) = [stage for stage in trace.stages if stage["stage"] == "retention"]
    assert "no model was trained" in said["off"]

    snap = seeing(publish_model(tmp_path, MODEL), [1, 0])
    trace = Trace(True)
    with_it = read_reasons(ask(snap, "walnut", trace=trace))
    # One: cosine 1, retention .977 after a day: the logit is 2 + 0 − 1. Two: cosine 0, the logit −1.
    assert with_it["walnut one"]["retention"] == pytest.approx(1 + 0.5 * (1 / (1 + math.exp(-1)) - 0.5), abs=5e-3)
    assert with_it["walnut two"]["retention"] == pytest.approx(1 + 0.5 * (1 / (1 + math.exp(1)) - 0.5), abs=5e-3)
    assert not any("off" in stage for stage in trace.stages if stage["stage"] == "retention")

    # It multiplies what the other factors give, and what a cross-encoder makes of that: the places change, 1 and the
    # other's score stay.
    names = ("rrf", "date", "decay", "access")
    products = {text: math.prod(entry[name] for name in names) for text, entry in with_it.items()}
    least = min(products.values()) / max(products.values())
    plain = {item.text: item.score / item.why["retention"] for item in ask(snap, "walnut").items}
    assert plain == pytest.approx({"walnut one": 1.0, "walnut two": least}, abs=1e-4)
    models = judge({"walnut one": 0.5, "walnut two": 0.9}, [])
    cross = replace(QUIET, cross=replace(QUIET.cross, weight=1.0))
    turned = {item.text: item.score / item.why["retention"] for item in ask(snap, "walnut", cross, models).items}
    assert turned == pytest.approx({"walnut one": least, "walnut two": 1.0}, abs=1e-4)

    del snap.files.__dict__["encoder"]  # no encoder: no cosine
    trace = Trace(True)
    assert "retention" not in read_reasons(ask(snap, "walnut", trace=trace))["walnut one"]
    assert any("without an encoder" in stage.get("off", "") for stage in trace.stages)


def judge(scores: Mapping[str, float], read: list[list[str]]) -> Any:
    def score(query: str, texts: Sequence[str]) -> Any:
        read.append(list(texts))
        return f32(*(scores[text] for text in texts))

    return SimpleNamespace(late=None, cross=SimpleNamespace(score=score))


def number_walnuts(root: Path, n: int) -> tuple[Snapshot, list[str]]:
    """Return a store of n items and their texts in the order of an answer."""
    snap = make_store(root, [f"walnut number{i}" for i in range(n)])
    return snap, [item.text for item in ask(snap, "walnut", k=n).items]


def test_a_cross_encoder_reads_the_best_and_sets_a_minimum(tmp_path: Path) -> None:
    snap, order = number_walnuts(tmp_path, 25)
    assert len(order) == 25
    assert "cross" not in ask(snap, "walnut").items[0].why
    scores = dict.fromkeys(order, 0.29) | {order[19]: 0.95, order[3]: 0.6}
    read: list[list[str]] = []
    trace = Trace(True)
    cross = replace(QUIET, cross=replace(QUIET.cross, weight=1.0))
    found = ask(snap, "walnut", cross, judge(scores, read), trace, k=25)
    assert read == [order[:20]]
    assert [item.text for item in found.items] == [order[19], order[3]]
    assert [item.why["cross"] for item in found.items] == pytest.approx([0.95, 0.6])

    def explain(text: str) -> str:
        row = int(text.removeprefix("walnut number"))
        return why_not(f"{snap.columns.key[row]:016x}", row, trace, found.items, found.packed)

    assert "gives it 0.290, the minimum is 0.3" in explain(order[0])
    assert "below the best 20" in explain(order[22])
    # Of no minimum nothing falls out; without a cross-encoder neither.
    lax = replace(cross, cross=replace(cross.cross, minimum=0.0))
    assert len(ask(snap, "walnut", lax, judge(scores, read), k=25).items) == 25


def test_the_cross_encoder_reads_the_fused_list_with_its_boosts_and_without_noise(tmp_path: Path) -> None:
    """Of 21 items the last by rank is of the day asked for: 2 / 81 = .0247 is more than 1 / 61 = .0164, so it is read.

    Noise comes later: however much of it there is, the same twenty are read.
    """
    given = [{"time": BASE, "type": "code", "session": f"s{i}"} for i in range(21)]
    quiet = ask(make_store(tmp_path, [f"walnut n{i}" for i in range(21)], given=given), "walnut", k=21)
    assert len(quiet.items) == 21
    last = quiet.items[-1].text
    again = [{**one, "time": BASE + 3 * DAY} if f"walnut n{i}" == last else one for i, one in enumerate(given)]
    dated = make_store(tmp_path / "dated", [f"walnut n{i}" for i in range(21)], given=again)
    read: list[list[str]] = []
    late = datetime(2023, 12, 1, tzinfo=UTC)
    for profile in (QUIET, replace(QUIET, activation=replace(QUIET.activation, noise=9.0))):
        models = judge({f"walnut n{i}": i / 21 for i in range(21)}, read)
        ask(dated, "walnut of 2023-11-17", profile, models, now=late)
    assert read[0] == read[1]
    assert len(read[0]) == 20
    assert read[0][0] == last


def test_a_cross_encoder_that_says_nothing_changes_nothing(tmp_path: Path) -> None:
    snap, order = number_walnuts(tmp_path, 5)
    for flat in (0.1, math.nan):
        trace = Trace(True)
        found = ask(snap, "walnut", models=judge(dict.fromkeys(order, flat), []), trace=trace)
        assert [item.text for item in found.items] == order
        assert any(stage["stage"] == "rerank" and stage.get("off") for stage in trace.stages)


def test_a_cross_encoder_that_cannot_be_opened_is_said_and_left_out(tmp_path: Path) -> None:
    class Broken:
        @property
        def cross(self) -> None:
            raise EncoderError("model.onnx is damaged", "export it again")

    found = ask(make_store(tmp_path, ["walnut"]), "walnut", models=Broken())
    assert "cross" not in found.items[0].why
    assert [item.text for item in found.items] == ["walnut"]
    assert any("model.onnx is damaged" in line for line in found.degraded)


def test_another_tier_that_is_asked_for_goes_before_and_knows_no_minimum(tmp_path: Path) -> None:
    snap, order = number_walnuts(tmp_path, 5)
    late = SimpleNamespace(
        query=lambda _: np.array([[1, 0]], np.float32),
        passages=lambda some: [np.array([[-1, 0]] if text != order[2] else [[1, 0]], np.float32) for text in some],
    )
    most = replace(QUIET, cross=replace(QUIET.cross, weight=0.6))
    found = ask(snap, "walnut", most, SimpleNamespace(late=late, cross=None), rerank="late", rerank_top=3)
    assert [item.text for item in found.items] == [order[2], order[0], order[1], *order[3:]]
    assert [item.why["late"] for item in found.items] == [1, -1, -1, None, None]


FLIGHTS = {
    "texts": ["walnut loaf", "parsley", "saffron"],
    "vectors": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "mentions": [[("person", "ana", "Ana")], [], [("person", "ana", "Ana")]],
    "given": [{"session": "a"}, {"session": "b", "project": "q"}, {"session": "c", "project": "r"}],
}


def test_the_walk_is_a_channel(tmp_path: Path) -> None:
    snap = seeing(make_store(tmp_path, **FLIGHTS), [1, 0, 0])
    near = replace(PLAIN, retrieve=replace(PLAIN.retrieve, dense=1, hopfield=1))
    found = read_reasons(ask(snap, "walnut", near))
    assert found["saffron"]["graph"] is not None  # over Ana alone
    assert found["saffron"]["dense"] is None
    assert found["saffron"]["bm25"] is None
    assert found["saffron"]["rrf"] == pytest.approx(1 / (60 + found["saffron"]["graph"]), abs=1e-6)
    assert "parsley" not in found
    mute = {name: {**weights, "graph": 0.0} for name, weights in near.intents.items()}
    assert read_reasons(ask(snap, "walnut", replace(near, intents=mute)))["saffron"]["rrf"] == 0


def test_the_walk_ranks_by_mass_and_leaves_out_what_has_none(tmp_path: Path) -> None:
    ana, bo, cy = (("person", name.lower(), name) for name in ("Ana", "Bo", "Cy"))
    mentions = [[ana, bo, cy], [bo], [ana, cy], []]
    given = [{"session": f"s{i}"} for i in range(4)]
    texts = ["walnut loaf", "saffron", "parsley", "thyme"]
    snap = seeing(make_store(tmp_path, texts, np.eye(4), given, mentions), [1, 0.2, 0.2, 0.1])
    one = replace(PLAIN, graph=replace(PLAIN.graph, seeds=1))
    found = read_reasons(ask(snap, "walnut", one))
    places = {text: entry["graph"] for text, entry in found.items()}
    assert places["parsley"] < places["saffron"]  # two ways lead there, one to the other
    assert places["thyme"] is None
    assert len(ask(snap, "walnut", one, k=2).items) == 2


def test_no_channel_brings_what_a_filter_or_a_deletion_leaves_out(tmp_path: Path) -> None:
    whole = seeing(make_store(tmp_path / "whole", **FLIGHTS), [0.6, 0.5, 0.6])
    assert set(read_reasons(ask(whole, "walnut saffron", project="p"))) == {"walnut loaf"}
    less = seeing(make_store(tmp_path / "less", **FLIGHTS, deleted={0: [2]}), [0.6, 0.5, 0.6])
    assert set(read_reasons(ask(less, "walnut saffron"))) == {"walnut loaf", "parsley"}


def test_ties_go_to_the_smaller_id(tmp_path: Path) -> None:
    given = [{"id": "00000000000000ff"}, {"id": "0000000000000001"}]
    alike = make_store(tmp_path, ["walnut loaf", "walnut loaf"], given=[{**one, "time": BASE} for one in given])
    flat = replace(PLAIN, retrieve=replace(PLAIN.retrieve, graph=0, bm25=2), fuse=replace(PLAIN.fuse, k=1e12))
    assert [item.id for item in ask(alike, "walnut", flat).items] == ["0000000000000001", "00000000000000ff"]


def test_the_vacation_question_on_the_sample(sample_store: Path) -> None:
    memory = Memory(sample_store)
    found = memory.recall("What did I tell Priya about vacation?", profile="engram", now="2026-03-01", k=5, budget=120)
    assert found.profile == "engram"
    assert "March for vacation" in " ".join(item.text for item in found.items)  # third but for the noise
    assert len(found.items) == 5
    assert found.context.startswith(OPEN)
    assert found.context.endswith(CLOSE)
    assert 0 < found.tokens <= 120
    assert found.tokens == memory.snapshot.counter([found.context])[0]
    assert set(found.items[0].why) >= {"dense", "bm25", "hopfield", "graph", "rrf", "date", "decay", "access", "noise"}
    scores = [item.score for item in found.items]
    assert scores == sorted(scores, reverse=True)


def test_the_command_explains_it(sample_store: Path, run_helix) -> None:
    call = ("recall", "why March for the vacation?", "--profile", "engram", "--store", sample_store, "--explain")
    done = run_helix(*call, "--json")
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)["trace"]
    stages = {stage["stage"]: stage for stage in trace["stages"]}
    assert stages["intent"]["intent"] == "why"
    assert {"dense", "lexical", "hopfield", "graph", "rank", "retention", "rerank", "pack"} <= set(stages)
    assert {"rrf", "date", "decay", "access", "noise", "dropped"} <= set(trace["candidates"][0])
    assert run_helix(*call).returncode == 0
