"""Formulas of the recipe `engram`: the intent of a question, and the factors and noise of a score."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import numpy as np

from helix.snapshot.segment.batch import hash_parts
from helix.text.dates import find_moments
from helix.types import F32, F64, I64, U32, U64, Bool

INTENTS: Final = ("why", "when", "who", "how", "what")
CHANNELS: Final = ("dense", "bm25", "graph")

_PATTERNS: Final = {
    "why": r"\b(why|because|reason|cause|led to|resulted in)\b",
    "when": r"\b(when|date|time|before|after|during|timeline|history)\b",
    "who": r"\b(who|person|people|team|built|created|wrote)\b",
    "how": r"\b(how to|steps|procedure|process|workflow|debug|fix)\b",
}
"""The system's own patterns, in its order."""

_INTENTS: Final = {intent: re.compile(pattern, re.IGNORECASE) for intent, pattern in _PATTERNS.items()}


def find_intent(text: str) -> str:
    """Return the intent of a question, one of INTENTS: the first whose pattern it has, `what` if none."""
    return next((intent for intent, pattern in _INTENTS.items() if pattern.search(text)), "what")


Days = Sequence[tuple[int, int, float]]
"""Windows that a question names: (first second, last second, weight) each."""


def match_days(times: I64, days: Days) -> F32:
    """Return the weight of the surest window that each item's time is in, 0 for none: float32[n].

    Args:
        times: int64[n], seconds.
    """
    weight = np.zeros(len(times), np.float32)
    for first, last, sure in days:
        weight = np.maximum(weight, np.where((times >= first) & (times <= last), np.float32(sure), 0))
    return weight


def match_stated_days(texts: Sequence[str], times: Sequence[datetime | None], days: Days) -> F32:
    """Return the weight of the surest window that holds a whole date of each text, 0 for none: float32[n].

    Args:
        times: of the texts, from which their "yesterday" counts.
    """
    weight = np.zeros(len(texts), np.float32)
    for i, (text, time) in enumerate(zip(texts, times, strict=True)):
        for moment in find_moments(text, time):
            first, last = _find_second(moment.start), _find_second(moment.end) + 86_399
            held = [sure for begin, end, sure in days if begin <= first and last <= end]
            weight[i] = max([float(weight[i]), *held])
    return weight


def _find_second(day: date) -> int:
    return (day.toordinal() - date(1970, 1, 1).toordinal()) * 86_400


def date_boost(weight: F32, boost: float) -> F32:
    """Return 1 + (boost − 1)·weight: float32[n]; `boost` where a named day matches, less in a vaguer window."""
    return np.asarray(1 + (boost - 1) * weight, np.float32)


def age_days(last: I64, now: float | I64) -> F32:
    """Return days since the last access: float32[n]; the future counts as now. Both in seconds."""
    return np.asarray(np.maximum(now - last, 0) / 86_400, np.float32)


def decay(age: F32, fades: Bool, rate: float, half_life: float, floor: float) -> F32:
    """Return max(floor, exp(−rate·age / half_life)) of items that decay, 1 of others: float32[n].

    Args:
        age: float32[n], days.
        fades: bool[n].
        rate: .693, the logarithm of 2: after one half-life a half is left.
        half_life: days.
    """
    left = np.maximum(floor, np.exp(-rate * age.astype(np.float64) / half_life))
    return np.asarray(np.where(fades, left, 1.0), np.float32)


def access_boost(count: U32, gain: float) -> F32:
    """Return 1 + gain·ln(1 + count): float32[n]."""
    return np.asarray(1 + gain * np.log1p(count.astype(np.float64)), np.float32)


def hopfield(vector: F32, patterns: F32, beta: float) -> F32:
    """Do one step of a modern Hopfield network, q′ = softmax(β·V q) V, to unit length: float32[d].

    Ramsauer et al. 2021, "Hopfield Networks is All You Need", equation 3. Where no pattern says anything, q itself.

    Args:
        vector: float32[d], the state q.
        patterns: float32[n, d], the stored patterns V.
        beta: inverse temperature; the larger, the nearer to the best pattern alone.
    """
    if not len(patterns):
        return vector
    energy = beta * (patterns @ vector).astype(np.float64)
    attention = np.exp(energy - energy.max())
    state = (attention / attention.sum()) @ patterns
    length = float(np.linalg.norm(state))
    return (state / length).astype(np.float32) if length > 0 else vector


def normalise(score: F32) -> F32:
    """Divide scores by the best: float32[n]; all-zero scores stay."""
    best = float(score.max(initial=0.0))
    return (score / best).astype(np.float32) if best > 0 else score


def activation_noise(text: str, generation: int, keys: U64, sigma: float) -> F32:
    """Draw Gaussian noise: float32[n], mean 0, standard deviation sigma.

    It follows from the question, the generation and the item alone: a recall replays, another generation differs. A
    digest of the two and the item's key are mixed by splitmix64 (Steele, Lea & Flood 2014) to two uniform numbers u and
    v; sqrt(−2 ln u)·cos(2πv) is normal (Box & Muller 1958).

    Args:
        text: of the question.
        generation: number of the snapshot, which its store never gives again; a view has that of the whole.
        keys: uint64[n], item keys.
    """
    state = keys.astype(np.uint64) ^ np.uint64(int(hash_parts("activation noise", str(generation), text), 16))
    u, v = (_draw_uniform(state + np.uint64(step)) for step in (0x9E3779B97F4A7C15, 0x3C6EF372FE94F82A))
    return np.asarray(sigma * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v), np.float32)


def _draw_uniform(state: U64) -> F64:
    """Mix states as splitmix64 does: float64[n], above 0 and below 1."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53)
