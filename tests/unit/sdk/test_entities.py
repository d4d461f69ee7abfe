"""Entities: names that are one thing, how much each tells, and the groups of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.sdk.entities import counts
from helix.sdk.entities.board import EntityBoard, find_written
from helix.sdk.entities.graph import LISTED, STRONGEST, draw_graph
from helix.sdk.entities.groups import find_groups
from helix.sdk.entities.listing import find_entity
from helix.sdk.entities.paths import find_longest, shorten_path
from helix.snapshot.reader.entity_names import turn_path
from tests.support.tiny import make_store

Named = tuple[str, str, str]


def path(name: str) -> Named:
    return "path", name.lower(), name


def person(name: str) -> Named:
    return "person", name.lower(), name


def make_board(root: Path, mentions: list[list[Named]], given: list[dict[str, Any]] | None = None) -> EntityBoard:
    texts = [f"text {at}" for at in range(len(mentions))]
    return EntityBoard(make_store(root, texts, mentions=mentions, given=given), None)


def list_items(board: EntityBoard) -> dict[str, tuple[str, int]]:
    """Return the kind and the items of each entity by its name."""
    shown = board.shown
    return dict(
        zip(
            board.label(shown),
            zip(board.kinds_of(shown), board.counts.items[shown].tolist(), strict=True),
            strict=True,
        )
    )


# ---------------------------------------------------------------- paths


def join_paths(counted: dict[str, int]) -> dict[str, str]:
    """Return the path that each path means."""
    paths = sorted(counted, key=turn_path)
    longest = find_longest([turn_path(one) for one in paths], np.array([counted[one] for one in paths]))
    return {one: paths[at] for one, at in zip(paths, longest.tolist(), strict=True)}


def test_an_end_means_the_only_path_that_has_it() -> None:
    found = join_paths({"app.py": 5, "src/app.py": 1, "/home/ana/src/app.py": 1, "xapp.py": 1, "other.py": 1})
    assert found == {
        **dict.fromkeys(("app.py", "src/app.py", "/home/ana/src/app.py"), "/home/ana/src/app.py"),
        "xapp.py": "xapp.py",
        "other.py": "other.py",
    }


@pytest.mark.parametrize(("others", "meant"), [(1, "a/app.py"), (2, "app.py")])
def test_an_end_of_several_paths_means_one_that_nearly_all_items_name(others: int, meant: str) -> None:
    assert join_paths({"app.py": 3, "a/app.py": 9, "b/app.py": others})["app.py"] == meant


def test_a_path_is_shown_by_the_shortest_end_of_its_own() -> None:
    turned = sorted(map(turn_path, ("a/src/app.py", "b/src/app.py", "a/src/util.py", "/dev/null", "docs")))
    written = {
        "a/src/app.py": "A/src/App.py",
        "a/src/util.py": "a/src/util.py",
        "/dev/null": "/dev/null",
        "docs": "docs",
    }
    assert [shorten_path(turned, *one) for one in written.items()] == ["A/src/App.py", "util.py", "dev/null", "docs"]


def test_a_name_is_shown_without_what_another_item_wrote_around_it() -> None:
    assert find_written("src/app.py", "./Src/App.py:123") == "Src/App.py"
    assert find_written("2026-03-01", "last Sunday") == "2026-03-01"
    assert find_written("i̇x", "İx") == "i̇x"  # lower case has another length


# ---------------------------------------------------------------- entities


def test_a_name_of_several_kinds_is_one_entity(tmp_path: Path) -> None:
    plain = ("name", "atlas", "Atlas")
    board = make_board(
        tmp_path,
        [
            [plain],
            [plain],
            [("project", "atlas", "Atlas")],
            [("place", "berlin", "Berlin"), ("name", "berlin", "Berlin")],
        ],
    )
    assert list_items(board) == {"Atlas": ("project", 3), "Berlin": ("place", 1)}
    rare = make_board(tmp_path / "rare", [[plain], [plain], [plain], [person("Atlas")]])
    assert list_items(rare) == {"Atlas": ("name", 4)}


def test_a_speaker_gives_the_kind_of_a_name(tmp_path: Path) -> None:
    mentions = [[person("Ann")], [("project", "ann", "Ann")], [("project", "ann", "Ann")]]
    board = make_board(tmp_path, mentions, [{"speaker": "Ann"}, {}, {}])
    assert list_items(board) == {"Ann": ("person", 3)}
    assert board.turns[board.shown].tolist() == [1]


def test_an_item_counts_once_for_a_file_that_it_names_twice(tmp_path: Path) -> None:
    board = make_board(tmp_path, [[path("app.py"), path("src/app.py")], [path("app.py")]])
    assert list_items(board) == {"app.py": ("path", 2)}
    assert find_entity(board, "APP.py") == find_entity(board, "src/app.py") == board.shown[0]
    assert find_entity(board, "rc/app.py") is None


def test_a_subject_of_one_session_tells_more_than_a_name_of_all(tmp_path: Path) -> None:
    given = [{"session": f"s{at // 10}", "turn": str(at)} for at in range(100)]
    everywhere, about = ("name", "everywhere", "Everywhere"), ("name", "about", "About")
    mentions = [[everywhere] if at % 10 == 0 else [about] if 20 < at < 30 else [] for at in range(100)]
    board = make_board(tmp_path, mentions, given)
    assert list_items(board) == {"Everywhere": ("name", 10), "About": ("name", 9)}
    assert [node["label"] for node in draw_graph(board, (), None, 10)["nodes"]] == ["About", "Everywhere"]


@pytest.mark.parametrize("at_once", [1, 2, 1 << 17])
def test_counts_are_the_same_over_several_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(counts, "_AT_ONCE", at_once)
    mentions = [[person("Ann"), path("app.py")], [path("src/app.py")], [person("Ann")], [path("app.py")]]
    texts = [f"text {at}" for at in range(4)]
    whole = EntityBoard(make_store(tmp_path / "whole", texts, mentions=mentions), None)
    split = EntityBoard(make_store(tmp_path / "split", texts, mentions=mentions, cuts=(1, 2)), None)
    assert list_items(whole) == list_items(split) == {"app.py": ("path", 3), "Ann": ("person", 2)}
    assert draw_graph(whole, (), None, 10) == draw_graph(split, (), None, 10)
    deleted = make_store(tmp_path / "deleted", texts, mentions=mentions, cuts=(1, 2), deleted={0: [0], 1: [0]})
    assert list_items(EntityBoard(deleted, None)) == {"app.py": ("path", 1), "Ann": ("person", 1)}


def test_an_empty_store_has_no_entity(tmp_path: Path) -> None:
    board = make_board(tmp_path, [[]])
    assert len(board.shown) == 0
    assert draw_graph(board, (), None, 10) == {"total": 0, "nodes": [], "groups": [], "edges": []}
    assert find_entity(board, "Ann") is None


# ---------------------------------------------------------------- graphs


def test_a_listing_connects_nothing(tmp_path: Path) -> None:
    names = [person(f"P{at}") for at in range(LISTED + 1)]
    others = [[person("Q")] for _ in range(40)]
    assert not draw_graph(make_board(tmp_path / "long", [names, *others]), (), None, 100)["edges"]
    assert draw_graph(make_board(tmp_path / "short", [names[:-1], *others]), (), None, 100)["edges"]


def test_a_node_keeps_its_strongest_edges(tmp_path: Path) -> None:
    spokes = [[person("Hub"), person(f"P{at}")] for at in range(20) for _ in range(at + 1)]
    rim = [[person(f"P{at}"), person(f"R{at}{turn}")] for at in range(20) for turn in range(STRONGEST)] * 30
    found = draw_graph(make_board(tmp_path, [*spokes, *rim]), (), None, 1000)
    label = {node["id"]: node["label"] for node in found["nodes"]}
    ends = [(label[edge["from"]], label[edge["to"]]) for edge in found["edges"]]
    kept = {other for pair in ends if "Hub" in pair for other in pair} - {"Hub"}
    assert len(kept) == STRONGEST


def test_an_edge_is_stronger_than_chance(tmp_path: Path) -> None:
    one, other, hub = person("Ann"), person("Ben"), person("Hub")
    mentions = [*[[one, other]] * 3, *[[one, hub]] * 3, *[[hub]] * 60, *[[other]] * 2, *[[person("Cid")]] * 30]
    found = draw_graph(make_board(tmp_path, mentions), (), None, 10)
    label = {node["id"]: node["label"] for node in found["nodes"]}
    # Hub is in 63 of 98 items, so three of Ann's six are fewer than by chance.
    assert [({label[edge["from"]], label[edge["to"]]}, edge["items"]) for edge in found["edges"]] == [
        ({"Ann", "Ben"}, 3)
    ]


def test_groups_are_what_hangs_together() -> None:
    ring = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]
    one, other = (np.array(side) for side in zip(*ring, strict=True))
    group = find_groups(7, one, other, np.array([5.0] * 6 + [1.0])).tolist()
    assert group[0] == group[1] == group[2] != group[3] == group[4] == group[5]
    assert group[6] not in group[:6]
    assert find_groups(0, one[:0], other[:0], np.empty(0)).tolist() == []
