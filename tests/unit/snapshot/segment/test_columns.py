"""Zones of columns follow sessions."""

from __future__ import annotations

import numpy as np

from helix.native.zones import ZONE
from helix.snapshot.segment.columns import SnapshotColumns


def columns(sessions: list[int]) -> SnapshotColumns:
    """Return rows of sessions with the given numbers of rows; a row's time is its session's day."""
    session = np.repeat(np.arange(len(sessions), dtype=np.int32), sessions)
    nothing = np.full(len(session), -1, np.int32)
    found = SnapshotColumns([], session, nothing, nothing)
    found.__dict__["time"] = session.astype(np.int64) * 86_400
    found.__dict__["type"] = np.zeros(len(session), np.uint8)
    return found


def test_a_zone_is_of_one_session() -> None:
    long = ZONE + 8
    told = columns([long, 20, 40]).zones("time")
    assert told.begin.tolist() == [0, ZONE, long, long + 20, long + 60]
    assert told.least.tolist() == told.most.tolist() == [0, 0, 86_400, 2 * 86_400]


def test_short_sessions_share_a_zone() -> None:
    told = columns([1] * 100).zones("time")
    assert told.begin.tolist() == [*range(0, 100, 4), 100]
    assert (told.most - told.least).tolist() == [3 * 86_400] * 25


def test_types_hang_on_no_session() -> None:
    assert columns([20, 40]).zones("type").begin.tolist() == [0, 60]


def test_nothing_has_no_zones() -> None:
    assert columns([]).zones("time").begin.tolist() == [0]
