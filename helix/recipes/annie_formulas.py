"""What the recipe `annie` computes: fused ranks, decay, likeness by words, the choice of the few, and the briefing.

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
    """max(floor, 2^(−age / half-life)): float32[n].

    Args:
        age: float32[n], days.
        half_life: days.
        floor: float32[n], in [0, 1].
    """
    return np.asarray(np.maximum(floor, np.exp2(-age / np.float32(half_life))), np.float32)


def jaccard(texts: Sequence[str]) -> F32:
    """|A ∩ B| / |A ∪ B| over the distinct words of each two texts: float32[n, n]; 0 where neither has any."""
    sets = [set(split_words(text)) for text in texts]
    place = {word: i for i, word in enumerate(sorted(set().union(*sets)))}
    holds = np.zeros((len(sets), len(place)), np.float32)
    for row, found in zip(holds, sets, strict=True):
        row[[place[word] for word in found]] = 1
    shared = holds @ holds.T
    size = holds.sum(axis=1)
    return np.asarray(shared / np.maximum(size[:, None] + size - shared, 1), np.float32)


def mmr(score: F32, alike: F32, trade: float, k: int) -> npt.NDArray[np.intp]:
    """Greedy argmax of λ·score / best score − (1 − λ)·(largest likeness to what is chosen): intp[≤ k], by choice.

    Carbonell & Goldstein 1998. Fused scores are hundredths; divided by the best one they weigh as much as likeness.

    Args:
        score: float32[n], best first, none negative.
        alike: float32[n, n], in [0, 1].
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    n = len(score)
    best_score = float(score.max(initial=0))  # of a store of old items 1e-15 and less
    relevance = score / best_score if best_score else score
    chosen: list[int] = []
    nearest = np.zeros(n, np.float32)  # the first choice is by score alone
    left = np.ones(n, bool)
    for _ in range(min(k, n)):
        value = np.where(left, trade * relevance - (1 - trade) * nearest, -np.inf)
        best = int(value.argmax())  # the first of equals: the better one
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, alike[best])
    return np.array(chosen, np.intp)


def bullet(statement: str, speaker: str, text: str, most: int) -> str:
    """`- X said: "…"`, or `- ` and the statement where there is one; one line of at most `most` characters.

    >>> bullet("", "Ana", "I moved  to Oslo", 200), bullet("Ana lives in Oslo", "Ana", "I moved to Oslo", 15)
    ('- Ana said: "I moved to Oslo"', '- Ana lives in…')
    """
    said = f'- {_line(speaker)} said: "{_line(text)}'
    line, end = (f"- {_line(statement)}", "") if statement else (said, '"')
    room = most - len(end)
    return (line if len(line) <= room else line[: room - 1].rstrip() + "…") + end


def _line(text: str) -> str:
    """On one line, and nothing in it that could close the wrapper."""
    return " ".join(sanitise_text(text).split())


def briefing(bullets: Sequence[str], most: int, budget: int, count: Count) -> tuple[str, int, list[int]]:
    """The bullets in `<memory>`, as many from the first on as fit.

    Args:
        bullets: best first.
        most: characters, wrapper included.
        budget: tokens, wrapper included.
        count: tokens of each text.

    Returns:
        (context, its tokens, positions in `bullets`); empty where none fits.
    """
    for n in range(len(bullets), 0, -1):
        context = "\n".join([OPEN, *bullets[:n], CLOSE])
        if len(context) <= most and (tokens := count([context])[0]) <= budget:
            return context, tokens, list(range(n))
    return "", 0, []
