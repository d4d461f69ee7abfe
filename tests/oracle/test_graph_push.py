"""The graph stage against hand arithmetic, and against power iteration over the whole graph as a dense matrix."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.stages.fuse import fuse
from helix.stages.graph import collect_mass, push, seed, view_graph, walk
from helix.stages.route import route
from helix.types import Candidates, Leg, Query
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store
from tests.support.worlds import World

GRAPH = replace(load("helix").graph, epsilon=1e-12, hops=1_000, work=10**9, extra=50)  # to the end
ALPHA = GRAPH.restart
NOW = datetime(2024, 1, 1, tzinfo=UTC)
NAMES = ("ana", "bo", "chloe", "dora", "emil", "fay", "gus", "hal")


def person(name: str) -> tuple[str, str, str]:
    return ("person", name, name.title())


def key(name: str) -> int:
    return int(hash_parts("person", name), 16)


def item_key(i: int, session: str) -> int:
    return int(hash_parts("tiny", session, f"t{i}", "0"), 16)


def ask(snap: Snapshot, *entities: str, **filters: Any) -> Query:
    return make_query("zz", snap, SETTINGS, entities=entities, now=NOW, **filters)


def pool_of(snap: Snapshot, *rows: int) -> Candidates:
    leg = Leg("bm25", np.array(rows, np.uint32), np.linspace(1, 0.1, len(rows), dtype=np.float32))
    return fuse([leg], snap, 60, {"bm25": 1.0})


def mass_of(
    snap: Snapshot, seeds: Sequence[int], *entities: str, graph: Any = GRAPH, **filters: Any
) -> dict[int, float]:
    """The signal of each item that has any."""
    query = ask(snap, *entities, **filters)
    found, _ = walk(pool_of(snap, *seeds), query, snap, route(query, None, snap), graph)
    return {row: m for row, m in zip(found.row.tolist(), found.ppr.tolist(), strict=True) if m > 1e-9}


def lone(*sessions: str) -> list[dict[str, Any]]:
    """Items by session: of a session of its own, an item has no neighbours."""
    return [{"session": name} for name in sessions]


# ------------------------------------------------------------ the whole graph, naively


class GraphWorld(World):
    """A random store, a question, and the graph the question sees as dictionaries."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        n = rng.randint(25, 60)
        sessions = [f"s{rng.randrange(12)}" for _ in range(n)]
        # Some names are everywhere, some rare.
        self.names = [
            [name for i, name in enumerate(NAMES) if rng.random() < (0.4, 0.02, 0.1)[i % 3]] for _ in range(n)
        ]
        self.links = [
            [(j, rng.randrange(2)) for j in rng.sample(range(i), min(i, rng.choice((0, 0, 1, 2))))] for i in range(n)
        ]
        facts: list[list[dict[str, Any]]] = [[] for _ in range(n)]
        for a, b in rng.sample([(a, b) for a in NAMES for b in NAMES if a != b], 10):
            stated = {"subject": a, "relation": "knows", "object_": b, "confidence": rng.choice((0.3, 0.9))}
            facts[rng.randrange(n)].append({**stated, "functional": False})
        items = [
            {
                **{"text": f"thing{i}", "session": sessions[i], "project": rng.choice("aab"), "time": BASE},
                **{"alive": rng.random() > 0.1, "facts": facts[i], "mentions": list(map(person, self.names[i]))},
                "links": [(item_key(j, sessions[j]), kind) for j, kind in self.links[i]],
            }
            for i in range(n)
        ]
        super().__init__(folder, items, sorted(rng.sample(range(1, n), 2)), np.eye(n, 8) + 0.1)
        self.asked = rng.sample(NAMES, rng.choice((0, 1, 3)))
        project = rng.choice((None, "a"))
        self.there = [i for i in self.live if project in (None, items[i]["project"])]
        self.pool = rng.sample(self.there, min(12, len(self.there)))
        self.graph = replace(GRAPH, entity_df=6, session_size=4, seeds=4)
        self.query = ask(self.snap, *self.asked, project=project)
        self.plan = route(self.query, None, self.snap)

    def edges(self) -> dict[tuple[Any, Any], float]:
        """Weight by (node, node), in both directions."""
        weights, w = self.graph.edges, defaultdict[tuple[Any, Any], float](float)

        def join(a: Any, b: Any, weight: float) -> None:
            w[a, b] += weight
            w[b, a] += weight

        df = {name: sum(name in self.names[i] for i in self.live) for name in NAMES}
        nodes = {name for name in NAMES if 2 <= df[name] <= self.graph.entity_df or (name in self.asked and df[name])}
        for i in self.there:
            for name in set(self.names[i]) & nodes:
                if df[name] <= self.graph.entity_df or i in self.pool:
                    join(("item", i), ("entity", name), np.log1p(len(self.live) / df[name]))
            for j, kind in self.links[i]:
                if j in self.there:
                    join(("item", i), ("item", j), weights[("reply", "same")[kind]])
            for fact in self.items[i]["facts"]:
                ends = fact["subject"], fact["object_"]
                if nodes.issuperset(ends):
                    join(("entity", ends[0]), ("entity", ends[1]), weights["fact"] * fact["confidence"])
        for left, right in self.find_neighbours()[1].items():
            if left in self.there and right in self.there:
                join(("item", left), ("item", right), weights["next"])
        for name in {item["session"] for item in self.items}:
            talk = self.list_session(name)
            if 2 <= len(talk) <= self.graph.session_size:
                for i in set(talk) & set(self.there):
                    join(("item", i), ("session", name), weights["session"])
        return w

    def pagerank(self) -> tuple[dict[Any, float], dict[Any, float]]:
        """(PageRank of every node, what the seeds give themselves)."""
        edges = self.edges()
        seeds = self.pool[: self.graph.seeds]
        asked = [name for name in self.asked if any(name in self.names[i] for i in self.live)]
        rrf = [1 / (61 + i) for i in range(len(seeds))]
        s = {("item", i): (0.5 if asked else 1) * x / sum(rrf) for i, x in zip(seeds, rrf, strict=True)}
        s |= {("entity", name): 0.5 / len(asked) for name in asked}
        nodes = sorted({*s, *(a for a, _ in edges)})
        place = {node: i for i, node in enumerate(nodes)}
        step = np.zeros((len(nodes), len(nodes)))
        for (a, b), weight in edges.items():
            step[place[a], place[b]] = weight
        start = np.array([s.get(node, 0.0) for node in nodes])
        out = step.sum(axis=1)
        step = np.where(out[:, None] > 0, step / np.where(out > 0, out, 1)[:, None], start)
        p = start
        for _ in range(200):
            p = ALPHA * start + (1 - ALPHA) * p @ step
        injected = 1 + (1 - ALPHA) / ALPHA * p[out == 0].sum()
        return dict(zip(nodes, p.tolist(), strict=True)), {node: ALPHA * injected * x for node, x in s.items()}


@pytest.fixture(scope="module", params=range(12))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GraphWorld:
    return GraphWorld(tmp_path_factory.mktemp("world") / "store", request.param)


def push_naively(world: GraphWorld, **bounds: Any) -> Any:
    pool = pool_of(world.snap, *world.pool)
    graph = replace(world.graph, **bounds)
    seen, asked = view_graph(pool, world.query, world.snap, world.plan, graph)
    start = seed(pool, asked, graph.seeds)
    return push(start, seen, graph), start


def named_hub(world: GraphWorld, state: Any) -> dict[Any, tuple[float, float]]:
    """(estimate, residual) by node."""
    snap = world.snap
    sessions = {int(hash_parts("tiny", name), 16): name for name in {item["session"] for item in world.items}}
    nodes: dict[int, Any] = {row: ("item", row) for row in range(world.n)}
    nodes |= {snap.graph.nodes.sessions + code: ("session", sessions[int(k)]) for code, k in enumerate(snap.sessions)}
    nodes |= {number_of(snap, name): ("entity", name) for name in NAMES}
    numbers, *mass = (part.tolist() for part in state.nodes)
    return {nodes[number]: (p, r) for number, p, r in zip(numbers, *mass, strict=True)}


def number_of(snap: Snapshot, name: str) -> int:
    """Return the node of a person, −1 for an unknown one."""
    return int(snap.graph.nodes.find(np.array([key(name)], np.uint64))[0][0])


def test_to_the_end_a_push_is_pagerank(world: GraphWorld) -> None:
    state, start = push_naively(world)
    exact, own = world.pagerank()
    found = named_hub(world, state)
    assert sum(p for p, _ in found.values()) == pytest.approx(1, abs=1e-6)
    assert {node: p for node, (p, _) in found.items() if p > 1e-9} == pytest.approx(
        {node: p for node, p in exact.items() if p > 1e-9}, abs=1e-7
    )
    rows, mass = collect_mass(state, start, world.n, ALPHA)
    held = {i: m for i, m in zip(rows.tolist(), mass.tolist(), strict=True) if m > 1e-9}
    own_out = {i: exact[kind, i] - own.get((kind, i), 0) for kind, i in exact if kind == "item"}
    expected = {i: m for i, m in own_out.items() if m > 1e-9}
    assert held == pytest.approx(expected, abs=1e-7)

    def top(values: dict[int, float]) -> list[int]:
        return sorted(values, key=lambda i: (-round(values[i], 7), i))[:20]

    assert top(held) == top(expected)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-2])
def test_at_every_hop_the_mass_is_one_and_no_estimate_too_high(world: GraphWorld, epsilon: float) -> None:
    exact, _ = world.pagerank()
    before = -1.0
    for hops in range(6):
        state, _ = push_naively(world, hops=hops, epsilon=epsilon)
        found = named_hub(world, state)
        assert sum(p + r for p, r in found.values()) == pytest.approx(1, abs=1e-9)
        assert all(p + ALPHA * r <= exact[node] + 1e-9 for node, (p, r) in found.items())
        missing = sum(exact[node] - found.get(node, (0, 0))[0] for node in exact)
        assert missing == pytest.approx(sum(r for _, r in found.values()), abs=1e-7)
        estimated = sum(p for p, _ in found.values())
        assert estimated >= before
        before = estimated


def test_an_epsilon_bounds_the_edges_read(world: GraphWorld) -> None:
    for epsilon in (0.1, 0.01, 0.001):
        state, _ = push_naively(world, epsilon=epsilon)
        assert state.edges <= 1 / (ALPHA * epsilon)
        last, _ = push_naively(world, epsilon=epsilon, hops=10**6)
        assert last.edges == state.edges  # nothing is left to push
    assert push_naively(world, epsilon=1.0)[0].edges == 0


# ------------------------------------------------------------ by hand


def pushed_from(snap: Snapshot, pool: Candidates, query: Query, **bounds: Any) -> Any:
    graph = replace(GRAPH, **bounds)
    seen, asked = view_graph(pool, query, snap, route(query, None, snap), graph)
    state = push(seed(pool, asked, graph.seeds), seen, graph)
    assert state is not None
    return state


def shared_store(folder: Path, *names: Sequence[str], **more: Any) -> Snapshot:
    """Items of their own sessions, each with the people it names."""
    sessions = [chr(ord("a") + i) for i in range(len(names))]
    given = more.pop("given", lone(*sessions))
    return make_store(
        folder,
        [f"thing{i}" for i in range(len(names))],
        np.ones((len(names), 2)),
        given,
        [[person(name) for name in each] for each in names],
        **more,
    )


def test_three_nodes_by_hand(tmp_path: Path) -> None:
    # a – ana – b; each keeps half of what it pushes
    snap = shared_store(tmp_path, ["ana"], ["ana"])
    pool, query = pool_of(snap, 0), ask(snap)
    by_hops = []
    for hops in range(4):
        state = pushed_from(snap, pool, query, hops=hops)
        by_hops.append([part.tolist() for part in state.nodes])
    ana = number_of(snap, "ana")
    assert by_hops == [
        [[0], [0], [1]],
        [[0, ana], [0.5, 0], [0, 0.5]],
        [[0, 1, ana], [0.5, 0, 0.25], [0.125, 0.125, 0]],
        [[0, 1, ana], [0.5625, 0.0625, 0.25], [0, 0, 0.125]],
    ]
    # b: 1/16 + 1/64 + … at the end; a has as much over the edge, without the half that it gives itself
    assert mass_of(snap, [0]) == pytest.approx({0: 1 / 12, 1: 1 / 12}, abs=1e-6)


def test_weights_share_out_what_is_pushed(tmp_path: Path) -> None:
    # a, b, c in a session: a leads to b by `next`, to all three by the session
    snap = shared_store(tmp_path, [], [], [], given=lone("s", "s", "s"))
    weights = {"next": 3.0, "session": 1.0, "reply": 0.0, "same": 0.0, "fact": 0.0}
    found = mass_of(snap, [0], graph=replace(GRAPH, edges=weights, hops=1))
    assert found == pytest.approx({1: ALPHA * 0.5 * 3 / 4})
    found = mass_of(snap, [0], graph=replace(GRAPH, edges=weights, hops=2))
    through = 0.5 * 0.5 / 4 / 3  # of the session, to each
    back = 0.5 * 0.5 * 3 / 4  # of b: 3 to a, 3 to c, 1 to the session
    assert found[2] == pytest.approx(ALPHA * (through + back * 3 / 7))


def test_a_seed_that_leads_nowhere_hands_back_what_it_cannot_push(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, [], ["ana"], ["ana"])
    assert mass_of(snap, [0]) == {}  # what it gives itself says nothing
    query, pool = ask(snap), pool_of(snap, 0, 1)
    state = pushed_from(snap, pool, query)
    assert state.nodes.estimate.sum() + state.nodes.residual.sum() == pytest.approx(1, abs=1e-9)
    assert state.injected > 1.1


def test_a_fact_joins_two_entities_in_either_direction(tmp_path: Path) -> None:
    facts = [[], [{"subject": "ana", "relation": "spouse", "object_": "bo"}], [], [], []]
    snap = shared_store(tmp_path, [], ["ana"], ["ana"], ["bo"], ["bo"], facts=facts)
    assert set(mass_of(snap, [0], "ana")) == {1, 2, 3, 4}
    assert set(mass_of(snap, [0], "bo")) == {1, 2, 3, 4}
    without = shared_store(tmp_path / "without", [], ["ana"], ["ana"], ["bo"], ["bo"])
    assert set(mass_of(without, [0], "ana")) == {1, 2}


def test_of_many_facts_the_surest_carry(tmp_path: Path) -> None:
    others = [f"p{i:02}" for i in range(66)]
    facts: list[list[dict[str, Any]]] = [[], []]
    facts[1] = [
        {"subject": "ana", "relation": "knows", "object_": p, "functional": False, "confidence": 0.9 - 0.01 * i}
        for i, p in enumerate(others)
    ]
    names = [[], ["ana", *others], others]
    snap = shared_store(tmp_path, *names, facts=[*facts, []])
    query, pool = ask(snap, "ana"), pool_of(snap, 0)
    state = pushed_from(snap, pool, query, hops=1)
    people = set(state.nodes.number.tolist()) & {number_of(snap, name) for name in ("ana", *others)}
    assert people == {number_of(snap, name) for name in ("ana", *others[:64])}


# ------------------------------------------------------------ bounds


def test_hubs_carry_nothing_and_what_is_no_hub_does(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, *[["ana"]] * 4)
    assert set(mass_of(snap, [0], graph=replace(GRAPH, entity_df=4))) == {0, 1, 2, 3}
    assert mass_of(snap, [0], graph=replace(GRAPH, entity_df=3)) == {}
    talk = shared_store(tmp_path / "talk", *[[]] * 4, given=[{"session": "s"}] * 4)
    weights = {**GRAPH.edges, "next": 0.0}
    assert set(mass_of(talk, [0], graph=replace(GRAPH, edges=weights, session_size=4))) == {0, 1, 2, 3}
    assert mass_of(talk, [0], graph=replace(GRAPH, edges=weights, session_size=3)) == {}


def test_a_hub_the_question_names_stays_a_seed(tmp_path: Path) -> None:
    """It favours those of the pool that name it, leads on by its facts, and adds no items that only name it."""
    facts = [[{"subject": "ana", "relation": "spouse", "object_": "bo"}], *[[]] * 7]
    snap = shared_store(tmp_path, [], [], ["ana"], ["ana"], ["ana"], ["ana"], ["bo"], ["bo"], facts=facts)
    graph = replace(GRAPH, entity_df=3, seeds=1)
    found = mass_of(snap, [0, 1, 2], "ana", graph=graph)
    assert set(found) == {2, 6, 7}
    assert found[2] > found[6]
    assert mass_of(snap, [0, 1, 2], graph=graph) == {}


def test_a_hub_of_ten_thousand_items_drags_nothing_in(tmp_path: Path) -> None:
    n = 10_000
    texts = ["thing"] * n
    mentions = [[person("ana")] for _ in range(n)]
    mentions[0].append(person("bo"))
    mentions[7].append(person("bo"))
    given = [{"session": str(i)} for i in range(n)]
    snap = make_store(tmp_path, texts, np.ones((n, 2)), given, mentions)
    graph = load("helix").graph
    assert set(mass_of(snap, [0, 1], graph=graph)) == {0, 7}
    assert set(mass_of(snap, [0, 1], "ana", graph=graph)) == {0, 1, 7}
    query = ask(snap, "ana")
    pool, how = walk(pool_of(snap, 0, 1), query, snap, route(query, None, snap), graph)
    assert set(pool.row.tolist()) == {0, 1, 7}
    assert how == "push"


def test_no_further_than_hops(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, *[[]] * 5, given=[{"session": "s"}] * 5)
    for hops in range(5):
        found = mass_of(snap, [0], graph=replace(GRAPH, hops=hops, session_size=0))
        assert set(found) - {0} == set(range(1, hops + 1))


def test_no_item_holds_more_than_the_cap(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, ["ana"], ["ana"], ["bo"], ["bo", "ana"])
    free = mass_of(snap, [0])
    assert max(free.values()) > 0.05 > min(free.values())
    capped = mass_of(snap, [0], graph=replace(GRAPH, mass=0.05))
    assert capped == pytest.approx({row: min(m, 0.05) for row, m in free.items()})


def test_filtered_rows_neither_hold_nor_carry_mass(tmp_path: Path) -> None:
    """Item 1 is the only way from 0 to 2: as the turn between, by the entities it names, by its links, by its facts."""
    replies = [[], [(item_key(0, "a"), 0)], [(item_key(1, "b"), 0)]]
    stated = [[], [{"subject": "ana", "relation": "spouse", "object_": "bo"}], []]
    ways: list[tuple[list[list[str]], str, dict[str, Any], tuple[str, ...]]] = [
        ([[], [], []], "sss", {}, ()),
        ([["ana"], ["ana", "bo"], ["bo"]], "abc", {}, ()),
        ([[], [], []], "abc", {"links": replies}, ()),
        ([["ana"], [], ["bo"]], "abc", {"facts": stated}, ("ana", "bo")),
    ]
    for at, (names, sessions, more, asked) in enumerate(ways):
        reached = []
        for project in ("p", "q"):
            given = [{"session": name, "project": p} for name, p in zip(sessions, ("p", project, "p"), strict=True)]
            snap = shared_store(tmp_path / f"{at}{project}", *names, given=given, **more)
            query = ask(snap, *asked, project="p")
            plan = route(query, None, snap)
            graph = replace(GRAPH, session_size=0)
            seen, none = view_graph(pool_of(snap, 0), query, snap, plan, graph)
            # Started at the item on this side alone.
            state = push(seed(pool_of(snap, 0), none[:0], graph.seeds), seen, graph)
            assert state is not None
            reached.append(set(state.nodes.number.tolist()))
        assert 2 in reached[0], at
        assert reached[1] & {0, 1, 2} == {0}, at
        assert number_of(snap, "bo") not in reached[1], at


def test_a_fact_leads_only_those_who_may_see_who_said_it(tmp_path: Path) -> None:
    facts = [[], [{"subject": "ana", "relation": "spouse", "object_": "bo"}], [], []]
    for project, led in (("p", {2, 3}), ("q", set())):
        given = [{"session": str(i), "project": project if i == 1 else "p"} for i in range(4)]
        snap = shared_store(tmp_path / project, [], ["ana"], ["bo"], ["bo"], given=given, facts=facts)
        assert set(mass_of(snap, [0], "ana", project="p")) - {1} == led


def test_deleted_items_count_for_nothing(tmp_path: Path) -> None:
    """Four deleted items make no hub of what two others name, and no session too large."""
    names = [["ana"]] * 6
    whole = shared_store(tmp_path / "whole", ["ana"], ["ana"])
    less = shared_store(tmp_path / "less", *names, deleted={0: [2, 3, 4, 5]})
    graph = replace(GRAPH, entity_df=3)
    assert mass_of(less, [0], graph=graph) == pytest.approx(mass_of(whole, [0], graph=graph))


# ------------------------------------------------------------ breadth first


def test_too_little_work_for_a_hop_is_done_breadth_first(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, ["ana"], ["ana"], ["bo"], given=lone("a", "b", "b"))
    query = ask(snap)
    plan, pool = route(query, None, snap), pool_of(snap, 0)

    def go(**bounds: Any) -> tuple[dict[int, float], str]:
        graph = replace(GRAPH, **{"mass": 1.0, **bounds})
        found, how = walk(pool, query, snap, plan, graph)
        return dict(zip(found.row.tolist(), found.ppr.tolist(), strict=True)), how

    # The seed costs one name, two neighbours and a session; then ana costs two items.
    assert go(work=4)[1] == "push"
    assert set(go(work=4)[0]) == {0}  # the mass has come as far as ana
    assert go(work=3) == ({0: 1.0}, "bfs")
    assert go(method="bfs", work=5) == ({0: 1.0}, "bfs")
    assert go(method="bfs", work=6) == (pytest.approx({0: 1.0, 1: 0.25}), "bfs")
    # The turn after 1 is three hops away.
    assert go(method="bfs")[0] == pytest.approx({0: 1.0, 1: 0.25})
    assert go(method="bfs", hops=1)[0] == pytest.approx({0: 1.0})
    assert go(method="bfs", mass=0.2)[0] == pytest.approx({0: 0.2, 1: 0.2})


def test_breadth_first_the_best_way_counts_and_the_best_seed_goes_first(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, ["ana"], ["ana", "bo"], ["bo"], given=lone("a", "b", "b"))
    graph = replace(GRAPH, method="bfs", mass=1.0)
    seeds = [2, 0]  # 2 has 1 as its neighbour
    share = (1 / 61) / (1 / 61 + 1 / 62)
    found = mass_of(snap, seeds, graph=graph)
    assert found == pytest.approx({2: share, 0: 1 - share, 1: share / 2})
    # Work for one seed only: from the other, nothing is reached.
    swapped = mass_of(snap, [0, 2], graph=replace(graph, work=4, hops=1))
    assert set(swapped) == {0, 2}
    assert set(mass_of(snap, seeds, graph=replace(graph, work=4, hops=1))) == {0, 1, 2}


# ------------------------------------------------------------ as a stage


def test_the_same_again_byte_for_byte(world: GraphWorld) -> None:
    again = Snapshot.open(world.snap.root)
    graph = load("helix").graph
    found = [
        walk(pool_of(snap, *world.pool), world.query, snap, world.plan, graph)[0]
        for snap in (world.snap, world.snap, again)
    ]
    assert len({(p.row.tobytes(), p.ppr.tobytes()) for p in found}) == 1


def test_an_empty_pool_stays_empty(tmp_path: Path) -> None:
    snap = shared_store(tmp_path, ["ana"])
    query = ask(snap, "ana")
    found, how = walk(pool_of(snap), query, snap, route(query, None, snap), GRAPH)
    assert (len(found), how) == (0, "push")
