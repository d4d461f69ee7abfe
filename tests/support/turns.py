"""Tables of cases, and checks that the tests of all adapters of source formats share."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable
from typing import Any, Final

import pytest

from helix.sources.common.sample import take_sample
from helix.types import Document, Parsed
from tests.support.paths import DATA
from tests.support.wrong_types import replace_values

LONG: Final = "A" * 500 + "B" * 500
"""A result of a tool that is cut at `CUT_AT` characters."""
CUT: Final = "A" * 50 + " … " + "B" * 50
CUT_AT: Final = len(CUT)
MAX_CPU_S: Final = 10
"""Seconds of a thread's own computation: hostile texts take up to 0.6, four times that on a busy machine, and
minutes where time is quadratic."""


def cases(names: str, *rows: Any, ids: Any = None, **named: Any) -> pytest.MarkDecorator:
    """Return a parametrisation by rows; another keyword is the name of its row."""
    parameters = [pytest.param(*(row if "," in names else [row]), id=name) for name, row in named.items()]
    return pytest.mark.parametrize(names, [*rows, *parameters], ids=ids)


def load_texts(format: str, rule: str) -> list[str]:
    """Read the texts of a rule from `data/texts.toml`."""
    texts: list[str] = tomllib.loads((DATA / "texts.toml").read_text("utf-8"))[format][rule]
    return texts


def list_texts(parsed: Parsed) -> list[str]:
    """Return the texts of all turns."""
    return [turn.text for session in parsed.sessions for turn in session.turns]


def check_cut(parsed: Parsed) -> None:
    """Check that the last turn is `LONG`, cut to both its ends, and that the rest is counted."""
    assert list_texts(parsed)[-1] == CUT
    assert parsed.junk == {"tool-output": len(LONG) - CUT_AT}


def check_cpu_time(read: Callable[[str], Any], *texts: str) -> None:
    """Check that each text is read with far less computation than a quadratic reader needs."""
    slow = []
    for text in texts:
        begun = time.thread_time()
        read(text)
        if time.thread_time() - begun >= MAX_CPU_S:
            slow.append(text[:60])
    assert slow == []


def check_units(read: Callable[[str], Any], *units: str, size: int = 250_000) -> None:
    """Check the computation for long texts, each of one unit again and again."""
    check_cpu_time(read, *(unit * (size // len(unit)) for unit in units))


def check_any_types(adapter: Any, value: Any, *, has_times: bool = False) -> None:
    """Check that an adapter reads a value with any of its parts replaced by one of another type."""
    count = 0
    for changed in replace_values(value):
        document = Document("x.json", json.dumps(changed))
        adapter.detect(take_sample(document.text, document.path))
        parsed = adapter.parse(document)
        count += bool(parsed.sessions)
        check_turns(parsed)
        turns = [turn for session in parsed.sessions for turn in session.turns]
        assert all(turn.speaker != "" and (turn.time or not has_times) for turn in turns)
    assert count > 500


def check_wrong_types(read: Callable[[Any], Parsed], *values: Any) -> None:
    """Check that a value with any part replaced costs neither the turn "Hi" before it nor "Bye", a last one."""
    plain = json.loads(json.dumps(values))  # without tuples
    for changed in (changed for value in plain for changed in replace_values(value)):
        parsed = read(changed)
        assert list_texts(parsed)[0] == "Hi", changed
        assert "Bye" in [session.turns[-1].text for session in parsed.sessions], changed
        check_turns(parsed)


def check_turns(parsed: Parsed) -> None:
    """Check that each session has turns of distinct ids, with text, and with a quality of time if they have one."""
    for session in parsed.sessions:
        assert len({turn.id for turn in session.turns}) == len(session.turns) > 0
        assert all(turn.text.strip() == turn.text != "" for turn in session.turns)
        assert all((turn.time is None) == (turn.time_quality == "none") for turn in session.turns)
