"""Formulas of the recipe `annie`: decay, similarity by words, MMR, and the briefing.

Pure functions on arrays and texts; every constant is in `annie.toml`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from helix.stages.pack import CLOSE, OPEN, Count
from helix.text.tokenize import split_words
from helix.types import F32
from helix.util.sanitise import sanitise_text


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
    """Choose greedily by λ·score / best score − (1 − λ)·(largest similarity to a chosen one): intp[≤ k], in order.

    Carbonell & Goldstein 1998. Fused scores are hundredths; divided by the best they weigh as much as similarity.

    Args:
        score: float32[n], best first, none negative.
        alike: float32[n, n], in [0, 1].
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    n = len(score)
    best_score = float(score.max(initial=0))  # may be 1e-15 in a store of old items
    relevance = score / best_score if best_score else score
    chosen: list[int] = []
    nearest = np.zeros(n, np.float32)
    left = np.ones(n, bool)
    for _ in range(min(k, n)):
        value = np.where(left, trade * relevance - (1 - trade) * nearest, -np.inf)
        best = int(value.argmax())  # of equals the first, which is the better one
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, alike[best])
    return np.array(chosen, np.intp)


def bullet(statement: str, speaker: str, text: str, limit: int) -> str:
    """Format `- X said: "…"`, or `- ` and the statement if there is one, as one line of at most `limit` characters.

    >>> bullet("", "Ana", "I moved  to Oslo", 200), bullet("Ana lives in Oslo", "Ana", "I moved to Oslo", 15)
    ('- Ana said: "I moved to Oslo"', '- Ana lives in…')
    """
    quote = f'- {_format_line(speaker)} said: "{_format_line(text)}'
    line, end = (f"- {_format_line(statement)}", "") if statement else (quote, '"')
    room = limit - len(end)
    return (line if len(line) <= room else line[: room - 1].rstrip() + "…") + end


def _format_line(text: str) -> str:
    """Return the text on one line, sanitised so that it cannot close the wrapper."""
    return " ".join(sanitise_text(text).split())


def briefing(bullets: Sequence[str], limit: int, budget: int, count: Count) -> tuple[str, int, list[int]]:
    """Wrap the first bullets that fit in `<memory>`.

    Args:
        bullets: best first.
        limit: characters, wrapper included.
        budget: tokens, wrapper included.
        count: counts the tokens of texts.

    Returns:
        (context, its tokens, positions in `bullets`); empty if none fits.
    """
    for n in range(len(bullets), 0, -1):
        context = "\n".join([OPEN, *bullets[:n], CLOSE])
        if len(context) <= limit and (tokens := count([context])[0]) <= budget:
            return context, tokens, list(range(n))
    return "", 0, []
