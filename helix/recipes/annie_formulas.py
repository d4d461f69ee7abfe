"""Formulas of the recipe `annie`: decay, similarity by words, MMR, and the briefing.

Pure functions on arrays and texts; every constant is in `annie.toml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.stages.pack import CLOSE, OPEN, Count
from helix.text.tokenize import split_words
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


def jaccard(texts: Sequence[str]) -> F32:
    """Return |A ∩ B| / |A ∪ B| over the distinct words of each two texts: float32[n, n]; 0 if neither has any."""
    sets = [set(split_words(text)) for text in texts]
    place = {word: i for i, word in enumerate(sorted(set().union(*sets)))}
    holds = np.zeros((len(sets), len(place)), np.float32)
    for row, words in zip(holds, sets, strict=True):
        row[[place[word] for word in words]] = 1
    shared = holds @ holds.T
    size = holds.sum(axis=1)
    return np.asarray(shared / np.maximum(size[:, None] + size - shared, 1), np.float32)


def mmr(score: F32, alike: F32, trade: float, k: int) -> npt.NDArray[np.intp]:
    """Choose greedily by λ·score − (1 − λ)·(largest similarity to a chosen one): intp[≤ k], in order.

    Carbonell & Goldstein 1998. The score is the raw one: fused scores are hundredths, so that similarity decides first
    and the score among equally similar items.

    Args:
        score: float32[n], best first.
        alike: float32[n, n], in [0, 1].
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    n = len(score)
    relevance = score.astype(np.float64)
    chosen: list[int] = []
    nearest = np.zeros(n)
    left = np.ones(n, bool)
    for _ in range(min(k, n)):
        value = np.where(left, trade * relevance - (1 - trade) * nearest, -np.inf)
        best = int(value.argmax())  # of equals the first, which is the better one
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, alike[best])
    return np.array(chosen, np.intp)


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
