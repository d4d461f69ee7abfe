"""Changes between the live rows of a snapshot: links of the index, facts of one slot, and both together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helix.snapshot.index.changes import ChangeIndex, KeyedLinks, join_judgements, merge_changes
from helix.snapshot.reader.changes import BY_FACT, MARKED
from helix.snapshot.reader.snapshot import Snapshot
from tests.support.tiny import BASE, make_store

DAY = 86_400
LATE = BASE + 99 * DAY


def world(root: Path, n: int = 4, *, more: dict[int, dict[str, Any]] | None = None, **given: Any) -> Snapshot:
    """Make a store of n items, a day apart; `more` are fields of items, `given` arguments of `make_store`."""
    fields = [{"session": f"s{i}", "time": BASE + i * DAY} | (more or {}).get(i, {}) for i in range(n)]
    return make_store(root, [f"item {i}" for i in range(n)], given=fields, **given)


def list_later(snap: Snapshot, rows: list[int], at: int = LATE) -> list[tuple[int, int, float]]:
    owner, new, certainty = snap.changes.find_later(np.array(rows), at)
    return sorted(zip(owner.tolist(), new.tolist(), certainty.tolist(), strict=True))


def list_earlier(snap: Snapshot, rows: list[int]) -> list[tuple[int, int, float]]:
    owner, old, certainty = snap.changes.find_earlier(np.array(rows))
    return sorted(zip(owner.tolist(), old.tolist(), certainty.tolist(), strict=True))


def test_links_are_found_from_both_ends(tmp_path: Path) -> None:
    snap = world(tmp_path, changes=[(0, 1, 0.9375), (0, 3, 0.25), (1, 2, 0.9375)], cuts=(2,))
    assert list_later(snap, [2, 0, 1]) == [(1, 1, 0.9375), (1, 3, 0.25), (2, 2, 0.9375)]
    assert list_later(snap, [0], BASE + DAY) == [(0, 1, 0.9375)]  # the other was not said by then
    assert list_later(snap, [0], BASE) == []
    assert list_earlier(snap, [2, 3, 1]) == [(0, 1, 0.9375), (1, 0, 0.25), (2, 0, 0.9375)]
    assert list_later(snap, []) == list_earlier(snap, []) == []


def test_the_newest_row_of_a_chain_supersedes(tmp_path: Path) -> None:
    snap = world(tmp_path, changes=[(0, 1, 0.9375), (1, 2, MARKED + 0.01), (2, 3, MARKED - 0.01)])
    rows = np.arange(4)
    assert snap.changes.successors(rows, LATE).tolist() == [2, 2, -1, -1]
    assert snap.changes.successors(rows, BASE + DAY).tolist() == [1, -1, -1, -1]
    assert snap.changes.are_superseded(rows, LATE).tolist() == [True, True, False, False]
    assert snap.changes.find_superseded(LATE).tolist() == snap.changes.find_outdated(LATE).tolist() == [0, 1]
    assert snap.changes.find_superseded(BASE).tolist() == []


def test_no_row_supersedes_itself(tmp_path: Path) -> None:
    snap = world(tmp_path, changes=[(0, 1, 0.9375), (1, 0, 0.9375)])
    assert snap.changes.successors(np.arange(2), LATE).tolist() == [1, 0]


def test_a_link_needs_two_live_rows_of_one_project(tmp_path: Path) -> None:
    changes = [(0, 1, 0.9375), (0, 2, 0.9375), (1, 3, 0.9375)]
    snap = world(tmp_path, changes=changes, cuts=(2,), deleted={0: [1]}, more={2: {"project": "other"}})
    assert [array.tolist() for array in snap.changes.links] == [[], [], []]
    assert snap.changes.successors(np.array([0]), LATE).tolist() == [-1]
    snap = world(tmp_path / "live", changes=changes, cuts=(2,), deleted={1: [0]})
    assert list(zip(snap.changes.links.old.tolist(), snap.changes.links.new.tolist(), strict=True)) == [(0, 1), (1, 3)]


def test_a_reader_sees_no_link_to_what_it_may_not_see(tmp_path: Path) -> None:
    snap = world(tmp_path, changes=[(0, 1, 0.9375)], more={1: {"acl": ["boss"]}})
    assert [len(snap.seen_by(name).changes.links.old) for name in (None, "ana", "boss")] == [0, 0, 1]


def test_facts_and_links_agree_in_one_answer(tmp_path: Path) -> None:
    lives = [[{"subject": "ana", "relation": "lives_in", "object_": place}] for place in ("oslo", "bergen")]
    snap = world(tmp_path, facts=[*lives, [], []], changes=[(1, 2, 0.9375)])
    assert list_later(snap, [0, 1]) == [(0, 1, float(BY_FACT)), (1, 2, 0.9375)]
    assert snap.changes.successors(np.arange(4), LATE).tolist() == [2, 2, -1, -1]


def test_a_change_ends_with_the_fact_that_made_it(tmp_path: Path) -> None:
    places: list[dict[str, Any]] = [{"object_": "oslo"}, {"object_": "bergen", "until": BASE + 50 * DAY}]
    snap = world(tmp_path, facts=[*([{"subject": "ana", "relation": "lives_in", **one}] for one in places), [], []])
    assert list_later(snap, [0], BASE + 49 * DAY) == [(0, 1, float(BY_FACT))]
    assert list_later(snap, [0], BASE + 50 * DAY) == []
    assert snap.changes.touch(np.array([2, 0]))
    assert not snap.changes.touch(np.array([2, 3]))


Link = tuple[int, int, int, float]


def state(generation: int, judged: list[int], links: list[Link]) -> ChangeIndex:
    """Return the index of a commit that judged items, with its links: (old, new, content, certainty)."""
    columns = [[link[place] for link in links] for place in range(4)]
    kinds = (np.uint64, np.uint64, np.uint64, np.float32)
    arrays = {"judged": np.array(judged, np.uint64), "judged_in": np.full(len(judged), generation, np.uint64)}
    named = zip(KeyedLinks._fields, columns, kinds, strict=True)
    return ChangeIndex(arrays | {name: np.array(column, kind) for name, column, kind in named})


def list_links(*parts: ChangeIndex) -> list[Link]:
    return list(zip(*(array.tolist() for array in join_judgements(parts).links), strict=True))


def test_the_last_judgement_of_an_item_counts(tmp_path: Path) -> None:
    first = state(3, [7, 8, 9], [(5, 7, 1, 0.75), (5, 8, 1, 0.5), (6, 8, 1, 0.5)])
    again = state(4, [8, 10], [(5, 8, 1, 0.25), (8, 10, 1, 0.5)])
    freed = state(6, [7], [])
    assert list_links() == []
    assert list_links(first) == [(5, 7, 1, 0.75), (5, 8, 1, 0.5), (6, 8, 1, 0.5)]
    for parts in ((first, again), (again, first)):
        assert sorted(list_links(*parts)) == [(5, 7, 1, 0.75), (5, 8, 1, 0.25), (8, 10, 1, 0.5)]
    assert sorted(list_links(freed, again, first)) == [(5, 8, 1, 0.25), (8, 10, 1, 0.5)]
    merge_changes(tmp_path / "merged", [(one, np.arange(1)) for one in (state_rows(again), state_rows(first))])
    merged = ChangeIndex({path.stem: np.load(path) for path in (tmp_path / "merged").glob("*.npy")})
    assert sorted(list_links(freed, merged)) == [(5, 8, 1, 0.25), (8, 10, 1, 0.5)]
    assert sorted(list_links(state(4, [7], []), merged)) == [(5, 8, 1, 0.25), (8, 10, 1, 0.5)]
    assert sorted(list_links(state(2, [7], []), merged)) == [(5, 7, 1, 0.75), (5, 8, 1, 0.25), (8, 10, 1, 0.5)]


def state_rows(index: ChangeIndex) -> ChangeIndex:
    return ChangeIndex({**index.arrays, "rows": np.zeros(1, np.uint32)})
