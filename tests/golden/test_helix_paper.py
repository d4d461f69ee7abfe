"""The profile `helix-paper`: the design's stages and constants to the letter, every number by hand arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.recipes.default import recall
from helix.recipes.load_profile import load
from helix.snapshot.ledger import access_events
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.diversify import diversify
from helix.stages.fuse import fuse
from helix.stages.graph import walk
from helix.stages.rank import rank
from helix.stages.route import route
from helix.stages.trace import Trace, why_not
from helix.types import TYPES, Bundle, Candidates, Leg
from pipelines.maintain.touch import touch
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, add_encoder, f32, list_ids, make_store

PAPER: HelixProfile = load("helix-paper")
SMALL = replace(PAPER, route=replace(PAPER.route, type_items=2))
"""For stores of few items: two of a type make a centroid."""

DAY = 86_400
NOW = datetime.fromtimestamp(BASE + 100 * 3600, UTC)
ANA, BO = ("person", "ana", "Ana"), ("person", "bo", "Bo")


def seeing(snap: Snapshot, *vector: float) -> Snapshot:
    return add_encoder(snap, lambda _: f32(*vector))


def ask(snap: Snapshot, text: str, profile: HelixProfile = SMALL, trace: Trace | None = None, **how: Any) -> Bundle:
    models: Any = SimpleNamespace(late=None, cross=None)
    query = make_query(text, snap, SETTINGS, **{"now": NOW, **how})
    return recall(query, snap, profile, trace or Trace(True), models)


def texts(bundle: Bundle) -> list[str]:
    return [item.text for item in bundle.items]


def stage(bundle: Bundle, name: str) -> dict[str, Any]:
    assert bundle.trace is not None
    (found,) = [one for one in bundle.trace["stages"] if one["stage"] == name]
    return dict(found)


def pool_of(*scores: float) -> Candidates:
    """A pool of rows 0, 1, …, with these fused scores."""
    unknown = np.full(len(scores), np.nan, np.float32)
    fields = dict.fromkeys(Candidates.__slots__, unknown)
    return Candidates(**{**fields, "row": np.arange(len(scores), dtype=np.uint32), "rrf": f32(*scores)})


def test_the_constants_of_the_paper() -> None:
    assert (PAPER.retrieve.dense, PAPER.retrieve.bm25) == (100, 100)
    assert (PAPER.fuse.k, PAPER.fuse.top, PAPER.graph.seeds) == (60, 100, 100)
    assert (PAPER.fuse.weights["dense"], PAPER.fuse.weights["bm25"]) == (1.0, 1.0)
    assert (PAPER.graph.method, PAPER.graph.neighbours > 0, PAPER.route.hints) == ("push", True, "filter")
    assert (PAPER.diversify.jaccard, PAPER.diversify.lambda_, PAPER.diversify.relevance) == (0.8, 0.5, "sim")
    assert PAPER.rank.recency == "always"
    assert set(PAPER.rank.decay.values()) == {0.995}
    table = {
        "episodic": (0.35, 0.30, 0.15, 0.10, 0.10),
        "semantic": (0.40, 0.05, 0.20, 0.20, 0.15),
        "procedural": (0.45, 0.10, 0.25, 0.15, 0.05),
        "decision": (0.35, 0.10, 0.25, 0.25, 0.05),
        "code": (0.50, 0.15, 0.10, 0.10, 0.15),
    }
    assert {kind: tuple(PAPER.weights[kind].values()) for kind in TYPES} == table


# ------------------------------------------------------------ 2 scope

FOUR: Sequence[dict[str, Any]] = (
    {"project": "ferry", "type": "decision", "time": BASE},
    {"project": "ferry", "type": "code", "time": BASE + DAY},
    {"project": "quay", "type": "decision", "time": BASE + DAY},
    {"project": "quay", "type": "code", "time": BASE + 2 * DAY},
)
RED = ["red one", "red two", "red three", "red four"]


def make_four(root: Path) -> Snapshot:
    """Decisions are at (1, 0), code at (0, 1), so a question at (1, 0) leads by 1 for decisions."""
    return make_store(root, RED, [[1, 0], [0, 1], [1, 0], [0, 1]], FOUR)


@pytest.mark.parametrize(
    ("text", "vector", "left", "hints"),
    [
        ("red of the ferry", (0.6, 0.6), {0, 1}, {"project ferry": (4, 2)}),
        ("red on 2023-11-15", (0.6, 0.6), {1, 2}, {"the days named": (4, 2)}),
        ("red", (1, 0), {0, 2}, {"type decision": (4, 2)}),
        ("red of the ferry on 2023-11-15", (0, 1), {1}, {"project ferry": (4, 2), "the days named": (2, 1)}),
    ],
)
def test_hints_filter_both_legs(
    tmp_path: Path, text: str, vector: tuple[float, float], left: set[int], hints: dict[str, tuple[int, int]]
) -> None:
    """Each hint filters what is left by the one before; the trace has the rows before and after."""
    snap = seeing(make_four(tmp_path), *vector)
    found = ask(snap, text, k=1)
    assert {RED.index(one) for one in texts(ask(snap, text, k=1 if len(left) == 1 else 2))} == left
    said = {
        one["hint"]: (one["rows_in"], one["rows_out"]) for one in stage(found, "hints")["filters"] if not one["off"]
    }
    assert {name: said[name] for name in hints} == hints
    for leg in ("dense", "lexical"):
        assert stage(found, leg)["rows_in"] == len(left)
        assert stage(found, leg)["rows_out"] == len(left)


def test_a_hint_that_leaves_fewer_than_k_rows_is_dropped_and_that_is_said(tmp_path: Path) -> None:
    snap = seeing(make_four(tmp_path), 0.6, 0.6)
    assert set(texts(ask(snap, "red of the ferry", k=2))) == {"red one", "red two"}
    found = ask(snap, "red of the ferry", k=3)
    assert len(found.items) == 3
    (project, kind) = stage(found, "hints")["filters"]
    off = "2 rows would be left, fewer than k = 3"
    assert project == {"hint": "project ferry", "rows_in": 4, "rows_out": 4, "off": off}
    assert kind["off"] == "it leads by 0.000, less than 0.25"
    # A hint that is dropped does not take the next one with it.
    both = stage(ask(snap, "red of the ferry since 2023-11-15", k=3), "hints")["filters"]
    assert [bool(one["off"]) for one in both[:1]] == [True]


def test_unsure_hints_do_not_filter(tmp_path: Path) -> None:
    """Two projects; the month of a day, which is half sure; a type that leads by less than a quarter.

    Cosines of (.62, .78) to (1, 0) and (0, 1) are .62 / .9964 and .78 / .9964: code leads by .16.
    """
    snap = seeing(make_four(tmp_path), 0.62, 0.78)
    filters = stage(ask(snap, "red of ferry and quay", k=1), "hints")["filters"]
    assert [(one["hint"], one["rows_out"]) for one in filters] == [
        ("project ferry and project quay", 4),
        ("type code", 4),
    ]
    assert [one["off"] for one in filters] == ["it names several", "it leads by 0.160, less than 0.25"]
    sure = stage(ask(seeing(snap, 1, 0), "red", PAPER, k=1), "hints")["filters"]
    few = "too few items for a centroid: decision has 2, code has 2, of 10 at least"
    assert sure == [{"hint": "type decision", "rows_in": 4, "rows_out": 4, "off": few}]
    query = replace(make_query("red", snap, SETTINGS, now=NOW, k=1), days=((BASE, BASE + 10, 0.5),))
    models: Any = SimpleNamespace(late=None, cross=None)
    filters = stage(recall(query, snap, SMALL, Trace(True), models), "hints")["filters"]
    assert filters[0]["off"] == "no window is as sure as 1"


def test_options_filter_before_hints_and_the_default_only_boosts(tmp_path: Path) -> None:
    snap = seeing(make_four(tmp_path), 1, 0)
    found = ask(snap, "red of the ferry", k=1, type="code")
    assert stage(found, "hints")["rows_in"] == 2  # of code; of them one of the ferry
    assert stage(found, "hints")["filters"] == [{"hint": "project ferry", "rows_in": 2, "rows_out": 1, "off": ""}]
    assert texts(found) == ["red two"]
    assert set(texts(ask(snap, "red of the ferry", load("helix"), k=4))) == set(RED)


def test_why_not_names_the_hint(tmp_path: Path) -> None:
    snap, trace = seeing(make_four(tmp_path), 0.6, 0.6), Trace(True)
    found = ask(snap, "red of the ferry", trace=trace, k=2)
    said = why_not(list_ids(tmp_path)[3], 3, trace, found.items, found.packed)
    assert said == "route: outside what the question names: project ferry"


def test_a_question_that_needs_no_memory_gets_an_empty_set(tmp_path: Path) -> None:
    snap = seeing(make_four(tmp_path), 1, 0)
    snap.files.__dict__["router"] = {"weights": f32(9, 0), "bias": f32(0)[0], "threshold": f32(0.5)[0]}
    found = ask(snap, "what is a ferry")
    assert (found.skipped, found.items, found.context) == (True, (), "")


# ------------------------------------------------------------ 3 retrieve, 4 fuse, 5 graph


def test_reciprocal_ranks_by_hand(tmp_path: Path) -> None:
    """First of both lists 1/61 + 1/61; second of either 1/62."""
    snap = make_store(tmp_path, ["red fox", "red hen", "red elk"])
    legs = [
        Leg("dense", np.array([0, 1], np.uint32), f32(0.9, 0.8)),
        Leg("bm25", np.array([0, 2], np.uint32), f32(3, 2)),
    ]
    pool = fuse(legs, snap, PAPER.fuse.k, PAPER.fuse.weights)
    assert dict(zip(pool.row.tolist(), pool.rrf.tolist(), strict=True)) == pytest.approx(
        {0: 1 / 61 + 1 / 61, 1: 1 / 62, 2: 1 / 62}
    )


def test_both_legs_are_searched_and_words_alone_answer_without_an_encoder(tmp_path: Path) -> None:
    given = [{"session": "a", "time": BASE}, {"session": "b", "time": BASE}]
    snap = make_store(tmp_path, ["E4711 in src/lock.py", "the lock is held"], [[0, 1], [1, 0]], given)
    assert ask(seeing(snap, 1, 0), "E4711", k=2).items[0].why["bm25"] == 1
    assert texts(ask(seeing(snap, 1, 0), "E4711", k=2)) == ["E4711 in src/lock.py", "the lock is held"]
    mute = make_store(tmp_path / "mute", ["E4711 in src/lock.py", "the lock is held"], given=given)
    alone = ask(mute, "E4711", k=2)
    assert alone.degraded
    assert texts(alone) == ["E4711 in src/lock.py"]


def test_the_best_hundred_of_the_fused_list_seed_the_walk(tmp_path: Path) -> None:
    """A hundred items by words, a hundred others by vectors: of each list the first fifty are fused to a hundred.

    The last two seeds are fiftieth of either list (1 / 110), the next two fifty-first (1 / 111). Each of the four
    shares a name with an item that no leg finds: only those of the seeds join, and the pool has 102.
    """
    texts = [*(f"walnut {i}" for i in range(100)), *(f"pear {i}" for i in range(100)), *["of a name"] * 4]
    given = [{"session": f"s{i}", "time": BASE} for i in range(204)]
    ids = list_ids(make_store(tmp_path / "ids", texts, np.ones((204, 2)), given).root)
    by_id = sorted(range(100), key=ids.__getitem__)  # items of equal words go by id
    vectors = np.zeros((204, 2))
    vectors[:100, 1] = vectors[200:, 1] = 1
    vectors[100:200, 0] = 1 - np.arange(100) / 200
    mentions: list[list[tuple[str, str, str]]] = [[] for _ in range(204)]
    for place, row in enumerate((by_id[49], 149, by_id[50], 150)):
        mentions[row] = mentions[200 + place] = [("person", f"p{place}", f"P{place}")]
    snap = seeing(make_store(tmp_path / "store", texts, vectors, given, mentions), 1, 0)
    plain = replace(PAPER, route=replace(PAPER.route, hints="boost"))
    found = ask(snap, "walnut", plain, k=100)
    assert (stage(found, "dense")["rows_out"], stage(found, "lexical")["rows_out"]) == (100, 100)
    assert stage(found, "fuse")["rows_out"] == 100
    assert found.trace is not None
    pool = {one["id"]: one for one in found.trace["candidates"]}
    assert [ids[row] in pool for row in (by_id[49], 149, by_id[50], 150)] == [True, True, False, False]
    assert [ids[row] in pool for row in (200, 201, 202, 203)] == [True, True, False, False]
    assert len(pool) == 102
    assert pool[ids[200]]["rrf"] is None
    trace = Trace(True)
    ask(snap, "walnut", plain, trace)
    assert "below the best 100 of the fused list" in why_not(ids[150], 150, trace, (), ())


def test_the_mass_of_a_walk_by_hand(tmp_path: Path) -> None:
    """One seed, a name, another item. Of 1 the seed keeps .5; the name gets .5, keeps .25 and passes .125 to each.

    Each of them keeps .0625. So .0625 reached either over edges; the mass that the seed gave itself does not count.
    """
    given = [{"session": "a"}, {"session": "b"}]
    snap = make_store(tmp_path, ["red fox", "blue hen"], given=given, mentions=[[ANA], [ANA]])
    query = make_query("red", snap, SETTINGS, now=NOW)
    pool, how = walk(pool_of(1 / 61).take(np.array([0])), query, snap, route(query, None, snap), PAPER.graph)
    assert how == "push"
    assert dict(zip(pool.row.tolist(), pool.ppr.tolist(), strict=True)) == pytest.approx({0: 0.0625, 1: 0.0625})


def test_a_bounded_traversal_gives_the_inverse_of_the_hops_and_so_many_neighbours_a_seed(tmp_path: Path) -> None:
    """Row 0 replies to row 1 (one hop); rows 2, 3 and 4 share a name with it (two hops), rarest name first.

    Ana is in three items and Bo in two of five: ln(1 + 5/3) = .98 and ln(1 + 5/2) = 1.25.
    """
    given = [{"session": f"s{i}"} for i in range(5)]
    mentions = [[ANA, BO], [], [ANA], [ANA], [BO]]
    ids = list_ids(make_store(tmp_path / "ids", [f"red {i}" for i in range(5)], given=given).root)
    links = [[(int(ids[1], 16), 0)], [], [], [], []]
    snap = make_store(tmp_path / "graph", [f"red {i}" for i in range(5)], given=given, mentions=mentions, links=links)
    query = make_query("green", snap, SETTINGS, now=NOW)

    def reach(neighbours: int, **more: Any) -> dict[int, float]:
        graph = replace(PAPER.graph, method="bfs", neighbours=neighbours, **more)
        pool, how = walk(pool_of(1 / 61), query, snap, route(query, None, snap), graph)
        assert how == "bfs"
        return {row: near for row, near in zip(pool.row.tolist(), pool.ppr.tolist(), strict=True) if row}

    assert reach(10) == {1: 1.0, 2: 0.5, 3: 0.5, 4: 0.5}
    assert reach(10, hops=1) == {1: 1.0}
    assert reach(1) == {1: 1.0}
    assert reach(2) == {1: 1.0, 4: 0.5}
    assert reach(3) == {1: 1.0, 4: 0.5, 2: 0.5}  # of equal edges the smaller row
    # A push that may not even read the seeds' neighbours falls back to it.
    tight = replace(PAPER.graph, work=1)
    assert walk(pool_of(1 / 61), query, snap, route(query, None, snap), tight)[1] == "bfs"


def test_each_seed_has_its_own_neighbours(tmp_path: Path) -> None:
    """Two seeds with one neighbour each by reply; the cap of one does not take the other's."""
    given = [{"session": f"s{i}"} for i in range(4)]
    ids = list_ids(make_store(tmp_path / "ids", [f"red {i}" for i in range(4)], given=given).root)
    links = [[(int(ids[2], 16), 0)], [(int(ids[3], 16), 0)], [], []]
    snap = make_store(tmp_path / "graph", [f"red {i}" for i in range(4)], given=given, links=links)
    query = make_query("green", snap, SETTINGS, now=NOW)
    graph = replace(PAPER.graph, method="bfs", neighbours=1)
    pool, _ = walk(pool_of(2 / 61, 1 / 62), query, snap, route(query, None, snap), graph)
    assert dict(zip(pool.row.tolist(), pool.ppr.tolist(), strict=True)) == {0: 0, 1: 0, 2: 1, 3: 1}


# ------------------------------------------------------------ 6 rank


def test_a_score_of_the_paper_by_hand(tmp_path: Path) -> None:
    """`sim` is the fused rank: 2/61, 1/62 and 1/62 make 1, 0 and 0. Ages of 100, 0 and 50 hours; salience .2 .6 .4.

    Confidence .5 .9 .7 makes 0, 1 and .5; the walk's mass 0, .1 and .2 makes 0, .5 and 1.
    """
    given = [
        {"session": "a", "time": BASE, "salience": 0.2, "confidence": 0.5, "type": "episodic"},
        {"session": "b", "time": BASE + 360_000, "salience": 0.6, "confidence": 0.9, "type": "decision"},
        {"session": "c", "time": BASE + 180_000, "salience": 0.4, "confidence": 0.7, "type": "code"},
    ]
    snap = make_store(tmp_path, ["red fox", "red hen", "red elk"], given=given)
    query = make_query("red", snap, SETTINGS, now=NOW)
    pool = replace(pool_of(2 / 61, 1 / 62, 1 / 62), ppr=f32(0, 0.1, 0.2))
    found = rank(pool, query, None, snap, route(query, None, snap), PAPER)
    by = {row: i for i, row in enumerate(found.row.tolist())}
    recency = [0.995**100, 1.0, 0.995**50]  # .606, 1, .778; over the pool 0, 1, .438
    middle = (recency[2] - recency[0]) / (1 - recency[0])
    assert [found.recency[by[row]] for row in range(3)] == pytest.approx([0, 1, middle], abs=1e-6)
    by_hand = [
        0.35 * 1 + 0.30 * 0 + 0.15 * 0 + 0.10 * 0 + 0.10 * 0,
        0.35 * 0 + 0.10 * 1 + 0.25 * 1 + 0.25 * 1 + 0.05 * 0.5,
        0.50 * 0 + 0.15 * middle + 0.10 * 0.5 + 0.10 * 0.5 + 0.15 * 1,
    ]
    assert [found.final[by[row]] for row in range(3)] == pytest.approx(by_hand, abs=1e-6)
    assert found.row.tolist() == [1, 0, 2]


def test_recency_is_of_the_last_access(tmp_path: Path) -> None:
    """Both are 100 hours old; the second was used 20 hours ago, so .995 ** 20 = .905 beats .995 ** 100 = .606."""
    make_store(tmp_path, ["red fox", "red hen"], given=[{"time": BASE}, {"time": BASE}])
    access_events.append_events(tmp_path, [AccessEvent(list_ids(tmp_path)[1], "used", BASE + 80 * 3600)])
    touch(tmp_path, SETTINGS)
    snap = Snapshot.open(tmp_path)
    query = make_query("red", snap, SETTINGS, now=NOW)
    found = rank(pool_of(1 / 61, 1 / 61), query, None, snap, route(query, None, snap), PAPER)
    assert (found.row.tolist(), found.recency.tolist()) == ([1, 0], [1.0, 0.0])


# ------------------------------------------------------------ 7 diversify, 8 pack


def test_mmr_weighs_similarity_to_the_question_against_the_nearest_chosen(tmp_path: Path) -> None:
    """Row 0 is chosen first (.5 · 1). Row 1, nearly its copy: .5 · .8 − .5 · .96 = −.08. Row 2: .5 · .3 − 0 = .15.

    Scores, which do not decide what is chosen, order it: row 2 has the better one.
    """
    snap = make_store(tmp_path, ["red fox", "blue hen", "green elk"], [[1, 0], [0.96, 0.28], [0, 1]])
    pool = replace(pool_of(0, 0, 0), sim=f32(1.0, 0.8, 0.3), final=f32(0.5, 0.4, 0.6)).take(np.array([2, 0, 1]))
    assert diversify(pool, snap, 2, PAPER.diversify).row.tolist() == [2, 0]
    assert diversify(pool, snap, 1, PAPER.diversify).row.tolist() == [0]
    plain = replace(PAPER.diversify, lambda_=1.0)
    assert diversify(pool, snap, 2, plain).row.tolist() == [0, 1]


def test_near_duplicates_are_dropped_before_mmr(tmp_path: Path) -> None:
    """Of two texts with equal signatures the one of the better score stays, even where the other is more similar."""
    long = "the quick brown fox jumps over the lazy dog near the old mill by the river in spring"
    snap = make_store(tmp_path, [long, long, "green elk"], [[1, 0], [1, 0], [0, 1]], [{"session": x} for x in "abc"])
    pool = replace(pool_of(0, 0, 0), sim=f32(0.9, 1.0, 0.2), final=f32(0.8, 0.5, 0.1))
    assert diversify(pool, snap, 3, PAPER.diversify).row.tolist() == [0, 2]
    assert diversify(pool, snap, 3, replace(PAPER.diversify, jaccard=1.1)).row.tolist() == [0, 1, 2]


def test_the_best_at_both_ends_of_the_context(tmp_path: Path) -> None:
    """Ranks 1, 3, 5, 4, 2, although all are of one session and day; where the budget ends, the last ranks are out."""
    names = ["one", "two", "three", "four", "five"]
    given = [{"time": BASE, "salience": 1 - i / 10} for i in range(5)]
    snap = seeing(make_store(tmp_path, [f"red {name}" for name in names], np.eye(5), given), 1, 0.8, 0.6, 0.4, 0.2)
    found = ask(snap, "red", k=5)
    assert texts(found) == [f"red {name}" for name in names]
    assert [item.text for item in found.packed] == ["red one", "red three", "red five", "red four", "red two"]
    assert found.context.splitlines()[2::2] == [f"[2023-11-14 · user] (s#t{i})" for i in (0, 2, 4, 3, 1)] + [
        "</memory>"
    ]
    least = found.tokens - 1
    fewer = ask(snap, "red", k=5, budget=least)
    assert [item.text for item in fewer.packed] == ["red one", "red three", "red four", "red two"]
    assert fewer.tokens <= least
