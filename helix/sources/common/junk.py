"""What is taken of each text in an agent's log, and the count of what is not."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

from helix.sources.common.shared import parse_epoch, parse_iso
from helix.sources.common.strip import strip_host, strip_memory
from helix.sources.common.tools import both_ends

_EPOCH_FROM: Final = 1e9  # seconds: smaller numbers count from when a program was started


def human(text: str, junk: Counter[str]) -> str:
    """What a person typed: without our own memory, and without what a host adds."""
    own = answer(text, junk)
    kept = strip_host(own).strip()
    left_out(len(own) - len(kept), "host", junk)
    return kept


def answer(text: str, junk: Counter[str]) -> str:
    """What a model said. Host tags stay: nobody injects them into an answer, so the model is writing about them."""
    text = text.strip()
    kept = strip_memory(text).strip()
    left_out(len(text) - len(kept), "memory", junk)
    return kept


def output(text: str, limit: int, failed: bool, junk: Counter[str]) -> str:
    """Both ends of a tool's result, `error: ` before that of one that failed."""
    whole = human(text, junk)
    kept = both_ends(whole, limit)
    left_out(len(whole) - len(kept), "tool-output", junk)
    return f"error: {kept}" if failed and kept else kept


def left_out(characters: int, rule: str, junk: Counter[str]) -> None:
    """Count characters that a rule leaves out."""
    if characters > 0:
        junk[rule] += characters


def moment(value: object) -> datetime | None:
    """A time as logs write it, ISO 8601 or since 1970, as aware UTC; None for anything else."""
    if isinstance(value, str):
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= _EPOCH_FROM:
        return parse_epoch(value)
    return None


def type_name(value: object) -> str:
    """What a record or a part that nobody knows is counted under."""
    return value[:60] if isinstance(value, str) and value else "(no type)"
