"""Formulas of the recipe `engram`: the intent of a question, and the factors and noise of a score."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.snapshot.segment.batch import hash_parts
from helix.types import F32, I64, U32, U64, Bool

INTENTS: Final = ("why", "when", "who", "how", "what")
CHANNELS: Final = ("dense", "bm25", "graph")

# The first question word decides: "what happened when we deployed" asks for a what. An amount is a what as well.
_INTENT: Final = re.compile(
    r"\b(?:"
    r"(?P<why>why|how come|(?:what(?:['’]s| is| was| were)? (?:the |our |your )?)?(?:reasons?|rationale)|what made)"
    r"|(?P<when>when|how long ago|(?:what|which) (?:time|day|date|week|month|year))"
    r"|(?P<who>who|whom|whose|(?:what|which) (?:person|people))"
    r"|(?P<how>how(?! (?:many|much|long|old|often|far|big|large)\b))"
    r"|(?P<what>what|which|where|how)"
    r")\b",
    re.IGNORECASE,
)


def find_intent(text: str) -> str:
    """Return the intent of a question, one of INTENTS, by its first question word; `what` without one."""
    found = _INTENT.search(text)
    return (found.lastgroup if found else None) or "what"


def date_boost(times: I64, days: Sequence[tuple[int, int, float]], boost: float) -> F32:
    """Return `boost` for items of a day that the question names, 1 + (boost − 1)·weight of a vaguer window: float32[n].

    Args:
        times: int64[n], seconds.
        days: (first second, last second, weight) each; the best that fits counts.
    """
    weight = np.zeros(len(times), np.float64)
    for first, last, sure in days:
        weight = np.maximum(weight, np.where((times >= first) & (times <= last), sure, 0.0))
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


def activation_noise(text: str, keys: U64, sigma: float) -> F32:
    """Draw ACT-R's noise: float32[n], logistic, mean 0, standard deviation sigma (s = σ√3/π in s·ln(u / (1 − u))).

    Anderson & Lebiere 1998, "The Atomic Components of Thought". u follows from the question and the item alone, so a
    recall replays: the digest of the text and the item's key, mixed by splitmix64 (Steele, Lea & Flood 2014).

    Args:
        text: of the question.
        keys: uint64[n], item keys.
    """
    seed = np.uint64(int(hash_parts("activation noise", text), 16))
    mixed = (keys.astype(np.uint64) ^ seed) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    u = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    return np.asarray(sigma * np.sqrt(3) / np.pi * np.log(u / (1 - u)), np.float32)
