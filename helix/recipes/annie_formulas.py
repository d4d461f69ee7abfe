"""Formulas of the recipe `annie`: decay, and the briefing.

Pure functions on arrays and texts; every constant is in `annie.toml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.stages.pack import CLOSE, OPEN, Count
from helix.types import F32
from helix.util.sanitise import sanitise_name, sanitise_text

HEADING: Final = "Here's what you remember from recent conversations:"


def decay(age: F32, half_life: float, floor: F32) -> F32:
    """Return max(floor, 2^(−age / half-life)): float32[n].

    Args:
        age: float32[n], days.
        half_life: days.
        floor: float32[n], in [0, 1].
    """
    return np.asarray(np.maximum(floor, np.exp2(-age / np.float32(half_life))), np.float32)


def bullet(statement: str, speaker: str, text: str, limit: int) -> str:
    """Return one line: `- Ana said: "…"`, or a fact as a statement.

    >>> bullet("", "Ana", "I moved  to Oslo", 200), bullet("Ana lives in Oslo", "Ana", "I moved to Oslo", 13)
    ('- Ana said: "I moved to Oslo"', '- Ana lives in…')

    Args:
        statement: of a fact; empty: the speaker's words.
        limit: characters of the statement or of the words; a longer one ends with "…".
    """
    if statement:
        return f"- {_cut_line(statement, limit)}"
    return f'- {_cut_line(sanitise_name(speaker), limit)} said: "{_cut_line(text, limit)}"'


def _cut_line(text: str, limit: int) -> str:
    line = _format_line(text)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _format_line(text: str) -> str:
    """Return the text on one line, sanitised so that it cannot close the wrapper."""
    return " ".join(sanitise_text(text).split())


def briefing(bullets: Sequence[str], limit: int, budget: int, count: Count) -> tuple[str, int, list[int]]:
    """Wrap the first bullets that fit, below a heading, in `<memory>`.

    Args:
        bullets: best first.
        limit: characters of heading and bullets.
        budget: tokens, wrapper included.
        count: counts the tokens of texts.

    Returns:
        (context, its tokens, positions in `bullets`); empty if none fits.
    """
    for n in range(len(bullets), 0, -1):
        lines = "\n".join([HEADING, *bullets[:n]])
        context = f"{OPEN}\n{lines}\n{CLOSE}"
        if len(lines) <= limit and (tokens := count([context])[0]) <= budget:
            return context, tokens, list(range(n))
    return "", 0, []
