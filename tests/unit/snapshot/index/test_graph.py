"""Links and facts as edges: from both ends, over segments, without deleted items and ended facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.errors import StoreError
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.index.graph import FilteredGraph
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.snapshot.sql import run_statement
from helix.types import U64
from pipelines.maintain.compact import compact
from tests.support.queries import make_query
from tests.support.tiny import BASE, make_store

TEXTS = ["a", "b", "c", "d", "e"]
NOBODY = np.empty(0, np.uint64)
KEYS = [int(hash_parts("tiny", "s", f"t{i}", "0"), 16) for i in range(5)]


def make_linked(root: Path) -> Snapshot:
    # b answers a; d is about the same file as b and as a missing item; e answers d, and is deleted.
    links = [[], [(KEYS[0], 0)], [], [(KEYS[1], 1), (12345, 1)], [(KEYS[3], 0)]]
    return make_store(root, TEXTS, links=links, cuts=(2,), deleted={1: [2]})


def list_links(snapshot: Snapshot) -> list[list[tuple[int, int]]]:
    rows = np.flatnonzero(snapshot.alive)
    at, to, kind = snapshot.graph.links_of(rows)
    return [sorted(zip(to[at == i].tolist(), kind[at == i].tolist(), strict=True)) for i in range(len(rows))]


def test_links_from_either_end_over_segments(tmp_path: Path) -> None:
    snapshot = make_linked(tmp_path / "s")
    assert list_links(snapshot) == [[(1, 0)], [(0, 0), (3, 1)], [], [(1, 1)]]
    compact(tmp_path / "s", Settings(), full=True)
    assert list_links(Snapshot.open(tmp_path / "s")) == list_links(snapshot)
    names = [f"{key:016x}" for key in (*KEYS, 12345)]  # an edge to a missing item stays: the item may still arrive
    with run_statement(tmp_path / "s", "SELECT src, kind, dst FROM edges WHERE kind IN ('reply', 'same')") as found:
        expected = [(names[1], "reply", names[0]), (names[3], "same", names[1]), (names[3], "same", names[5])]
        assert sorted(found.rows) == sorted(expected)


def make_stated(root: Path, **more: object) -> Snapshot:
    said = (("lives_in", "berlin"), ("spouse", "ben"), ("lives_in", "paris"), ("lives_in", "rome"))
    facts = [[{"subject": "ana", "relation": relation, "object_": object_}] for relation, object_ in said]
    return make_store(root, TEXTS, facts=[*facts, []], cuts=(2,), **more)


def ends(snapshot: Snapshot) -> list[int | None]:
    return [None if at == NO_TIME else at - BASE for at in snapshot.facts.ends.tolist()]


def test_a_fact_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    snapshot = make_stated(tmp_path / "s")
    assert snapshot.facts.columns.row.tolist() == [0, 1, 2, 3]
    assert ends(snapshot) == [120, None, 180, None]
    people = {int(hash_parts("person", name), 16): name for name in ("ana", "ben", "rome")}
    subjects, objects, confidence, _ = snapshot.facts.edges
    named = sorted((people[a], people[b]) for a, b in zip(subjects.tolist(), objects.tolist(), strict=True))
    assert named == [("ana", "ben"), ("ana", "rome")]
    assert confidence.tolist() == [0.5, 0.5]
    statement = "SELECT object, epoch(t_invalid) - epoch(t_valid) AS held FROM facts ORDER BY t_valid"
    with run_statement(tmp_path / "s", statement) as found:
        assert list(found.rows) == [("berlin", 120.0), ("ben", None), ("paris", 60.0), ("rome", None)]
    with run_statement(tmp_path / "s", "SELECT kind, count(*) FROM edges WHERE kind = 'fact' GROUP BY kind") as found:
        assert list(found.rows) == [("fact", 2)]


def test_facts_of_one_second_follow_the_reading_order_whatever_was_ingested_first(tmp_path: Path) -> None:
    """The end of a session was ingested before its beginning; of two sessions nothing else tells the order."""
    cities = ("rome", "berlin", "oslo")
    facts = [[{"subject": "ana", "relation": "lives_in", "object_": city}] for city in cities]
    given = [
        {"session": session, "ord": ord_, "time": BASE, "t_ingested": BASE + ingested}
        for session, ord_, ingested in (("s", 7, 1), ("s", 3, 5), ("u", 9, 0))
    ]
    make_store(tmp_path / "s", TEXTS[:3], given=given, facts=facts, cuts=(1, 2))
    snapshot = Snapshot.open(tmp_path / "s")
    holding = [cities[i] for i in np.flatnonzero(snapshot.facts.holding(BASE))]
    assert holding == ["rome"]
    statement = "SELECT object FROM facts WHERE t_invalid IS NULL"
    with run_statement(tmp_path / "s", statement) as found:
        assert list(found.rows) == [("rome",)]


def test_without_the_newer_one_the_older_one_holds_again(tmp_path: Path) -> None:
    root = tmp_path / "s"
    snapshot = make_stated(root, deleted={1: [0, 1]})
    assert ends(snapshot) == [None, None]
    compact(root, Settings(), full=True)
    assert ends(Snapshot.open(root)) == [None, None]
    with run_statement(root, "SELECT subject, relation, object, t_invalid FROM facts ORDER BY relation") as found:
        assert list(found.rows) == [("ana", "lives_in", "berlin", None), ("ana", "spouse", "ben", None)]


def test_a_hidden_fact_is_no_edge(tmp_path: Path) -> None:
    """The question names Ana; an ACL hides the fact that she is married to Ben."""
    people = {name: ("person", name, name) for name in ("ana", "ben")}
    for acl, led in (([], True), (["boss"], False)):
        snapshot = make_store(
            tmp_path / f"s{len(acl)}",
            ["hello there", "wedding", "train", "ticket"],
            given=[{}, {"acl": acl}, {}, {}],
            mentions=[[], [people["ana"]], [people["ben"]], [people["ben"]]],
            facts=[[], [{"subject": "ana", "relation": "spouse", "object_": "ben"}], [], []],
        )
        query = make_query("ana hello", snapshot, Settings())
        graph = snapshot.seen_by(None).graph.nodes
        (ana, ben), _ = graph.find(np.array([int(hash_parts(*people[name][:2]), 16) for name in people], np.uint64))
        assert (ben in _view_graph(snapshot.seen_by(None), query.mentions).edges(np.array([ana]))[1]) is led


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mentions.indptr", [0, 1, 99, 1, 1]),
        ("mentions.indptr", [0, 1, -1, 1, 1]),
        ("mentioned.rows", [0, 9]),
        ("sessions.rows", [0, 1, 2, 77]),
        ("links.kind", [2]),
        ("linked.row", [50]),
    ],
)
def test_lists_that_lead_nowhere_are_an_error_and_not_read(tmp_path: Path, name: str, wrong: list[int]) -> None:
    ana = ("person", "ana", "ana")
    snapshot = make_store(
        tmp_path / "s", TEXTS[:4], mentions=[[ana], [ana], [], []], links=[[], [(KEYS[0], 0)], [], []]
    )
    nodes = np.arange(snapshot.rows + len(snapshot.sessions) + 1)
    assert len(_view_graph(snapshot).edges(nodes)[0]) > 0
    (segment,) = snapshot.row_map.segments
    array = segment[name]
    snapshot.row_map.segments = [replace(segment, arrays={**segment.arrays, name: np.array(wrong).astype(array.dtype)})]
    assert len(wrong) == len(array)
    for made in ("nodes", "_item_counts"):
        snapshot.graph.__dict__.pop(made, None)
    snapshot.graph.__dict__["_item_counts"] = [np.full(len(segment["mentioned.key"]), 2, np.int32)]
    with pytest.raises(StoreError, match="helix verify"):
        _view_graph(snapshot).edges(nodes)


def test_a_deleted_item_has_no_edges(tmp_path: Path) -> None:
    """The deleted item is linked to the fourth by every kind of edge."""
    ana = ("person", "ana", "ana")
    given = {"mentions": [[], [], [], [ana], [ana]], "links": [[], [], [], [], [(KEYS[3], 0)]]}
    led = {}
    for name, gone in (("with", {}), ("without", {0: [4]})):
        snapshot = make_store(tmp_path / name, TEXTS, deleted=gone, **given)
        (person,), _ = snapshot.graph.nodes.find(np.array([int(hash_parts("person", "ana"), 16)], np.uint64))
        sources = np.array([3, snapshot.rows, person])  # the item it answers, its session, and who it names
        at, to, _ = _view_graph(snapshot, np.array([int(hash_parts("person", "ana"), 16)], np.uint64)).edges(sources)
        led[name] = [(to[at == i] == 4).any() for i in range(len(sources))]
    assert led == {"with": [True] * 3, "without": [False] * 3}


def test_unknown_nodes_and_lists_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    snapshot = make_linked(tmp_path / "s")
    for node in (-1, snapshot.rows + len(snapshot.sessions)):
        with pytest.raises(StoreError):
            _view_graph(snapshot).degree(np.array([node]))
        with pytest.raises(StoreError):
            _view_graph(snapshot).edges(np.array([node]))
    segment = snapshot.row_map.segments[0]
    short = replace(segment, arrays={**segment.arrays, "links.kind": segment["links.kind"][:-1]})
    snapshot.row_map.segments = [short, *snapshot.row_map.segments[1:]]
    snapshot.graph.__dict__.pop("nodes", None)
    with pytest.raises(StoreError, match=rf"links\.kind has the shape .* in the segment {segment.id}"):
        _ = snapshot.graph.nodes


def _view_graph(snapshot: Snapshot, asked: U64 = NOBODY) -> FilteredGraph:
    nothing = np.empty(0, np.int64)
    return FilteredGraph(
        snapshot.graph.nodes, None, asked, (nothing, nothing, np.empty(0)), 50, 50, load("helix").graph.edges
    )
