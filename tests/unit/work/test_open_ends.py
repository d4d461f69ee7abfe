"""Open ends: sentences in which a session says what is left to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix.work.open_ends import list_open
from helix.work.sessions import list_last_sessions
from tests.support.tiny import make_store


def list_left(folder: Path, turns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (kind, text) of the open ends of a session of these (role, text)."""
    snap = make_store(folder, [text for _, text in turns], given=[{"role": role} for role, _ in turns])
    return [(one.kind, one.text) for one in list_open(snap, list_last_sessions(snap, snap.alive, 3))]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("All is merged. Next step: add the index.", "Next step: add the index."),
        ("The exporter in stats.json is still pending.", "The exporter in stats.json is still pending."),
        ("It reads stats.json once, merges all pending stats and writes once.", ""),
        ("I wrote a follow-up: the retry.", "I wrote a follow-up: the retry."),
        ("I added a follow-up sentence.", ""),
        ("Nothing is left to do.", ""),
        ("All tests pass.", ""),
    ],
)
def test_a_sentence_of_an_agent_leaves_something(tmp_path: Path, said: str, left: str) -> None:
    found = list_left(tmp_path, [("user", "merge it"), ("assistant", said)])
    assert found == ([("left", left)] if left else [])


def test_a_request_that_was_answered_is_not_left(tmp_path: Path) -> None:
    asked = ("user", "The docs are still missing, write them.")
    assert list_left(tmp_path / "one", [asked, ("assistant", "They are written.")]) == []
    assert list_left(tmp_path / "two", [("assistant", "They are written."), asked]) == [("left", asked[1])]
