"""Rows of a snapshot by segment, and the sessions of notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helix.snapshot.reader.snapshot import Snapshot
from helix.types import I64
from helix.util.note_names import NOTES, PINNED
from tests.support.tiny import make_store


@pytest.fixture(scope="module")
def snap(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Ten items in four segments."""
    return make_store(tmp_path_factory.mktemp("rows") / "s", list("abcdefghij"), cuts=[3, 4, 8])


@pytest.mark.parametrize(
    "rows", [[], [5], [3], [9, 0, 3, 4, 4, 2], [4, 7, 5], list(range(10)), [0, 9], list(range(9, -1, -1))]
)
def test_rows_are_split_by_segment_and_each_is_read_once(snap: Snapshot, rows: list[int]) -> None:
    asked = np.array(rows, np.int64)
    texts: dict[int, str] = {}
    for segment, here, local in snap.row_map.split(asked):
        assert len(here) == len(local) > 0
        found: I64 = np.asarray(local, np.int64)
        texts |= dict(zip(here.tolist(), (entry["text"] for entry in segment.texts(found)), strict=True))
    assert [texts[i] for i in range(len(rows))] == [chr(ord("a") + row) for row in rows]


def test_sessions_of_notes_are_found_by_name_where_a_live_item_is_in_them(tmp_path: Path) -> None:
    given = [{"source": "note", "session": name, "time": 1_700_000_000} for name in (NOTES, PINNED)]
    store = make_store(tmp_path / "s", ["a", "b"], given=given, cuts=[1], deleted={1: [0]})
    assert [*store.catalog.note_sessions] == [NOTES]
    assert (store.columns.session == store.catalog.note_sessions[NOTES]).tolist() == [True, False]
