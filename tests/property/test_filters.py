"""Filters apply before the search: the k best under a filter equal those of a scan of every allowed row.

One world of 60,000 rows in three segments, two of which have an index that misses much, with deletions and many equal
vectors. The tests compute allowed rows and scores from the columns that the world was made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.errors import UsageError
from helix.ranking.bm25 import compute_gain, compute_idf, compute_norms
from helix.snapshot import paths, writer
from helix.snapshot.index.dense import DenseIndex, build_dense, open_dense
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.vectors import VectorBlock
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, STEPS, RowBatch
from helix.snapshot.segment.write import write_segment
from helix.stages import dense as stage
from helix.stages.dense import score, search_dense
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.text.claims import CLAIMS, FORMER
from helix.text.tokenize import hash_terms, tokenise
from helix.types import TYPES, Leg
from tests.support.draws import draw_share
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, publish_segments

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

N, DIM = 60_000, 16
CUTS = (44_000, 56_000)  # the last segment has no index
SIZES = (1, 10, 1_000, 10_000, 40_000)
NARROW = SIZES[:-1]  # as many rows as are scanned
WORDS = ("walnut", "parsley", "saffron", "harbour", "lantern", "orchid")
K1, B = 0.9, 0.6
NOW = datetime.fromtimestamp(BASE + 10 * N, UTC)
FIRST = -(2**63)  # no time


@dataclass(frozen=True)
class World:
    """A store and the columns that it was made of."""

    snap: Snapshot
    key: npt.NDArray[np.uint64]
    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    tf: npt.NDArray[np.int64]  # [n, words]
    alive: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]  # place in SIZES of the group a row is of; len(SIZES) for the rest
    time: npt.NDArray[np.int64]  # FIRST where unknown
    valid: npt.NDArray[np.int64]
    ingested: npt.NDArray[np.int64]
    over: npt.NDArray[np.int64]  # when it stopped to hold; FIRST where it holds

    def make_filter(self, kind: str, size: int) -> tuple[dict[str, Any], npt.NDArray[np.bool_]]:
        """Return the arguments of a filter that allows about `size` rows, and its rows, deleted ones included."""
        place = SIZES.index(size)
        named = {"project": f"p{size}", "type": TYPES[place], "session": f"s{size}", "speaker": f"Speaker {size}"}
        if kind in (*named, "principal"):
            return {kind: named.get(kind, f"reader{size}")}, self.group == place
        holds = self.alive & (self.over == FIRST)
        if kind == "as_of":
            at = int(np.sort(self.valid[holds])[size - 1])
            return {"as_of": stamp(at)}, (self.valid <= at) & ((self.over == FIRST) | (self.over > at))
        if kind == "ingested_as_of":
            at = int(np.sort(self.ingested[holds])[size - 1])
            return {"ingested_as_of": stamp(at)}, self.ingested <= at
        order = np.sort(self.time[holds & (self.time != FIRST)])
        ends = {
            "window": {"since": order[200], "until": order[200 + size - 1]},
            "since": {"since": order[-size]},
            "until": {"until": order[size - 1]},
        }[kind]
        low, high = ends.get("since", FIRST + 1), ends.get("until", order[-1])
        return {name: stamp(int(end)) for name, end in ends.items()}, (self.time >= low) & (self.time <= high)


KINDS = ("project", "type", "session", "speaker", "window", "since", "until", "principal", "as_of", "ingested_as_of")
VIEWS = ("principal", "as_of", "ingested_as_of")
"""Filters that count the other rows as deleted: statistics leave them out."""


def stamp(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    rng = np.random.default_rng(7)
    alive = rng.random(N) > 0.02
    group = np.full(N, len(SIZES))
    live = rng.permutation(np.flatnonzero(alive))
    for place, (low, high) in enumerate(zip(np.cumsum([0, *SIZES]), np.cumsum(SIZES), strict=False)):
        group[live[low:high]] = place
    gone = np.flatnonzero(~alive)
    group[gone] = rng.integers(0, len(SIZES) + 1, len(gone))  # a filter may name deleted rows
    pool = rng.integers(0, 12_000, N)  # every vector occurs five times: ties
    valid = BASE + rng.permutation(N).astype(np.int64) * 3
    time = np.where(rng.random(N) < 0.01, FIRST, valid)
    early = valid < BASE + 9_000  # accepted at once and never ended: small filters select them
    ingested = np.where((rng.random(N) < 0.3) & ~early, valid + rng.integers(0, 20_000, N), valid)
    ends = (rng.random(N) < 0.01) & ~early & (group > 1) & (valid < BASE + 3 * N - 9_000)
    over = np.where(ends, valid + rng.integers(1, 200_000, N), FIRST)
    made = dict(
        key=rng.permutation(np.unique(rng.integers(1, 2**63, 2 * N, np.uint64))[: 2 * N])[:N],
        codes=rng.integers(-127, 128, (12_000, DIM)).astype(np.int8)[pool],
        scale=rng.uniform(0.002, 0.01, 12_000).astype(np.float32)[pool],
        tf=rng.poisson((1.5, 0.8, 0.2, 0.05, 0.01, 0.0005), (N, len(WORDS))).astype(np.int64),
        **{"alive": alive, "group": group, "time": time, "valid": valid, "ingested": ingested, "over": over},
    )
    return World(write_store(tmp_path_factory.mktemp("filters") / "s", made), **made)


def write_store(root: Path, made: Mapping[str, Any]) -> Snapshot:
    """Write the store; an index probes one list only and misses much."""
    paths.create_folders(root)
    bounds = (0, *CUTS, N)
    with writer.acquire_lock(root, 1.0) as held:
        parts = [slice(low, high) for low, high in pairwise(bounds)]
        segments = [write_segment(root, rows_of({name: made[name][part] for name in made})) for part in parts]
        deletes = [
            writer.write_deletes(root, segment.id, np.flatnonzero(~made["alive"][part]).astype(np.uint32))
            for segment, part in zip(segments, parts, strict=True)
        ]
        publish_segments(held, segments, DIM, N, deletes=tuple(deletes))
    snap = Snapshot.open(root)
    for segment, block in list(zip(segments, snap.vectors.blocks, strict=True))[:2]:
        path = root / f"{segment.id}.faiss"
        params = build_dense(block.codes, block.scale, path)
        snap.files.dense[segment.id] = open_dense(path, {**params, "probes": 1})
    return snap


def rows_of(made: Mapping[str, Any]) -> RowBatch:
    """Turn columns into rows without texts."""
    n = len(made["key"])
    size = [str((*SIZES, "rest")[place]) for place in made["group"].tolist()]
    known = {
        **{"id": format_hex(made["key"]), "source": ["jsonl"] * n, "path": ["x.jsonl"] * n, "document": ["0" * 64] * n},
        **{"session": [f"s{one}" for one in size], "turns": [["t"]] * n, "piece": [0] * n, "ord": np.arange(n)},
        **{"speaker": [f"Speaker {one}" for one in size], "role": ["user"] * n, "origin": ["human"] * n},
        **{"text": ["w"] * n, "type": [(*TYPES, TYPES[-1])[place] for place in made["group"].tolist()]},
        **{"type_confidence": np.ones(n), "project": [f"p{one}" for one in size], "time_quality": ["exact"] * n},
        **{
            "time": pa.array(made["time"], mask=made["time"] == FIRST),
            "t_valid": made["valid"],
            "t_ingested": made["ingested"] * 1_000_000,
        },
        **{"t_invalid": pa.array(made["over"], mask=made["over"] == FIRST)},
        **{name: np.full(n, 0.5) for name in ("salience", "confidence")},
        **{"priority": np.ones(n), "pinned": np.zeros(n, bool), "acl": [[f"reader{one}", "root"] for one in size]},
        **{"tokens": np.ones(n), "content": ["0" * 16] * n},
    }
    nulls = {field.name: pa.nulls(n) for field in ITEMS if field.name not in known}
    items = {**nulls, **known}
    columns = [
        (value if isinstance(value, pa.Array) else pa.array(value)).cast(field.type)
        for field, value in ((field, items[field.name]) for field in ITEMS)
    ]
    row, word = np.nonzero(made["tf"])
    nothing = np.zeros(n + 1, np.int64)
    return RowBatch(
        items=pa.table(columns, schema=ITEMS),
        **{"codes": made["codes"], "scale": made["scale"], "exact": np.zeros((n, 0), np.float16)},
        minhash=np.zeros((n, 64), np.uint32),
        term_indptr=np.append(0, np.cumsum(np.bincount(row, minlength=n))),
        term_key=hashes()[word],
        term_tf=made["tf"][row, word].astype(np.uint16),
        **{
            "order_indptr": nothing,
            "order_term": np.empty(0, np.uint32),
            "cues": np.zeros(n, np.uint8),
            "language": np.zeros(n, np.uint8),
        },
        claims=np.zeros((n, len(CLAIMS)), np.uint8),
        alters=np.zeros(n, np.uint8),
        former=np.zeros((n, FORMER), np.uint32),
        **{"mention_indptr": nothing, "mention_entity": np.empty(0, np.uint64)},
        **{"link_indptr": nothing, "link_key": np.empty(0, np.uint64), "link_kind": np.empty(0, np.uint8)},
        **{"fact_indptr": nothing, "entities": ENTITIES.empty_table(), "facts": FACTS.empty_table()},
        **{"fact_codes": np.empty((0, DIM), np.int8), "fact_scale": np.empty(0, np.float32)},
        **{"step_indptr": nothing, "steps": STEPS.empty_table()},
    )


def hashes() -> npt.NDArray[np.uint64]:
    """uint64[words]: each word is one term."""
    found = [tokenise(word) for word in WORDS]
    assert all(len(terms) == 1 for terms in found)
    return hash_terms([term for terms in found for term in terms])


def scan_dense(world: World, allowed: npt.NDArray[np.bool_], question: npt.NDArray[Any], k: int) -> Leg:
    """Multiply in whole numbers, then by the scale: one rounding."""
    rows = np.flatnonzero(allowed)
    whole = world.codes[rows].astype(np.int64) @ question.astype(np.int64)
    scores = whole.astype(np.float32) * world.scale[rows]
    chosen = np.lexsort((world.key[rows], -scores))[:k]
    return Leg("dense", rows[chosen].astype(np.uint32), scores[chosen])


def scan_lexical(
    world: World, allowed: npt.NDArray[np.bool_], live: npt.NDArray[np.bool_], words: list[int], k: int
) -> Leg:
    """Score every allowed row by BM25; statistics are those of the live rows."""
    length = world.tf.sum(axis=1).astype(np.float32)
    df = {word: int(np.count_nonzero(world.tf[live, word])) for word in words}
    scores = np.zeros(N, np.float32)
    for word in sorted(words, key=lambda word: (df[word], int(hashes()[word]))):
        rows = np.flatnonzero(world.tf[:, word])
        weight = float(compute_idf(df[word], int(live.sum())))
        mean = max(1.0, float(length[live].mean())) if live.any() else 1.0
        scores[rows] += compute_gain(
            world.tf[rows, word].astype(np.uint16), compute_norms(length[rows], mean, K1, B), weight, K1
        )
    rows = np.flatnonzero(allowed & (scores > 0))
    chosen = np.lexsort((world.key[rows], -scores[rows]))[:k]
    return Leg("bm25", rows[chosen].astype(np.uint32), scores[rows[chosen]])


def check(world: World, kinds: Mapping[str, int], seed: int, k: int = 100) -> int:
    """Compare both legs with the scans, to the bit; return the number of allowed rows.

    Args:
        kinds: filters, each with the number of rows that it allows.
    """
    rng = np.random.default_rng(seed)
    words = rng.choice(len(WORDS), rng.integers(1, 4), replace=False).tolist()
    question = rng.integers(-9, 10, DIM).astype(np.float32)
    filters = {kind: world.make_filter(kind, size) for kind, size in kinds.items()}
    arguments = {name: value for given, _ in filters.values() for name, value in given.items()}
    live = np.logical_and.reduce([world.alive, *(passes for kind, (_, passes) in filters.items() if kind in VIEWS)])
    allowed = np.logical_and.reduce([live, *(passes for _, passes in filters.values())])
    if "as_of" not in kinds:
        allowed &= (world.over == FIRST) | (world.over > NOW.timestamp())

    seen = world.snap.seen_by(arguments["principal"]) if "principal" in kinds else world.snap
    query = make_query(" ".join(WORDS[word] for word in words), seen, SETTINGS, now=NOW, **arguments)
    known = seen.known_at(query.as_of, query.ingested_as_of)
    plan = route(query, question, known)
    assert plan.allowed_rows == int(allowed.sum())
    for found, expected in (
        (search_dense(question, known, plan, k), scan_dense(world, allowed, question, k)),
        (search_lexical(query, known.lexical, plan, k, K1, B), scan_lexical(world, allowed, live, words, k)),
    ):
        assert found.rows.tolist() == expected.rows.tolist(), found.name
        assert found.scores.tolist() == expected.scores.tolist(), found.name
    return int(allowed.sum())


@pytest.mark.parametrize("size", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_under_a_filter_equal_those_of_a_scan(world: World, kind: str, size: int) -> None:
    for seed in range(2):
        allowed = check(world, {kind: size}, seed)
        assert allowed == size or (size > 10 and 0.8 * size < allowed < 1.01 * size)  # some no longer hold


@given(st.dictionaries(st.sampled_from(KINDS), st.sampled_from(NARROW), min_size=2, max_size=4), st.integers(0, 99))
@draw_share(0.4)
def test_filters_add_up(world: World, kinds: dict[str, int], seed: int) -> None:
    if "window" in kinds:  # a window is these two
        kinds = {kind: size for kind, size in kinds.items() if kind not in ("since", "until")}
    reader = kinds.get("principal")
    if reader and any(kinds.get(name, reader) != reader for name in ("project", "session", "speaker")):
        with pytest.raises(UsageError, match=r"unknown|swap them"):  # the reader sees nothing of that name
            check(world, kinds, seed)
    elif "since" in kinds and "until" in kinds:
        with pytest.raises(UsageError, match="swap them") if is_crossed(world, kinds) else nullcontext():
            check(world, kinds, seed)
    else:
        check(world, kinds, seed, k=10)


def is_crossed(world: World, kinds: Mapping[str, int]) -> bool:
    """Return whether the window ends before it begins."""
    ends = [world.make_filter(name, kinds[name])[0][name] for name in ("since", "until")]
    return bool(ends[0] > ends[1])


@pytest.fixture
def index_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each search of an index."""
    calls: list[int] = []
    search = DenseIndex.search
    monkeypatch.setattr(DenseIndex, "search", lambda self, *given: calls.append(1) or search(self, *given))  # type: ignore[func-returns-value]
    return calls


def test_a_filter_that_leaves_few_rows_uses_no_index(world: World, index_calls: list[int]) -> None:
    for kind in KINDS:
        check(world, {kind: 10_000}, seed=3)
    assert index_calls == []


def test_deleted_rows_alone_do_not_avoid_the_index(world: World, index_calls: list[int]) -> None:
    """A log that grew leaves deleted rows; they do not cause a scan."""
    question = np.ones(DIM, np.float32)
    query = make_query("walnut", world.snap, SETTINGS, now=stamp(BASE))  # nothing is over yet
    plan = route(query, question, world.snap)
    assert plan.allowed is not None
    assert plan.allowed_rows == world.snap.live < world.snap.rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "EXACT_ROWS", N)
        found = search_dense(question, world.snap, plan, 100)
    assert len(index_calls) == 2
    assert plan.allowed[found.rows].all()


def test_many_allowed_rows_use_the_index(world: World, index_calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The index misses the best rows, which shows that the tests above can fail."""
    monkeypatch.setattr(stage, "EXACT_ROWS", N)
    allowed = check(world, {"project": 40_000}, seed=0)
    monkeypatch.setattr(stage, "EXACT_ROWS", allowed)
    check(world, {"project": 40_000}, seed=0)
    assert index_calls == []
    monkeypatch.setattr(stage, "EXACT_ROWS", allowed - 1)
    with pytest.raises(AssertionError, match="dense"):
        check(world, {"project": 40_000}, seed=0)
    assert index_calls


@given(st.integers(1, 2_000), st.integers(1, 70), st.integers(0, 2**32))
@draw_share(0.4)
def test_equal_rows_have_equal_scores(n: int, dim: int, seed: int) -> None:
    """Also under a question of fractions: equal texts tie, and the smaller id wins."""
    rng = np.random.default_rng(seed)
    same = rng.integers(0, 3, n)
    codes, scale = rng.integers(-127, 128, (3, dim)).astype(np.int8)[same], rng.random(3).astype(np.float32)[same]
    question = rng.normal(size=dim).astype(np.float32)
    rows = np.flatnonzero(rng.random(n) < rng.choice([0.3, 1.0]))
    found = score(question, VectorBlock(0, codes, scale, None), rows)
    assert found.shape == rows.shape
    for one in range(3):
        assert len(set(found[same[rows] == one].tolist())) <= 1
    expected = (codes[rows].astype(np.float64) @ question) * scale[rows]
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-5)
