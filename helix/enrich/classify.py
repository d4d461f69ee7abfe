"""Type of an item, one of `helix.types.TYPES`, by cues.

Cues give every type a score. `helix.enrich.type_model` combines the scores with the item's vector.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from helix.enrich.type_cues import CUES, VERBS
from helix.text.language_words import has_words
from helix.text.languages import ENGLISH
from helix.types import TYPES

MAX_CHARS: Final = 8_000
"""Characters of an item that are searched; items are far shorter."""

PRIORS: Final = {
    "human": ("episodic", 0.3),
    "assistant": ("episodic", 0.25),
    "subagent": ("episodic", 0.25),
    "summary": ("episodic", 0.3),
    "tool": ("code", 0.45),
    "document": ("semantic", 0.4),
    "runtime_context": ("semantic", 0.3),
}
"""Origin → the type of a text before it is read, and its probability."""

_CUES_OF: Final = {origin: tuple(cue for cue in CUES if not cue.origins or origin in cue.origins) for origin in PRIORS}

_ORIGINS: Final = {"assistant": "assistant", "tool": "tool", "system": "runtime_context", "document": "document"}
"""By role, for an unknown origin."""

PRECEDENCE: Final = ("decision", "procedural", "code", "semantic", "episodic")
"""Order of types with the same score: rare types first, the default last."""

_IMPERATIVE: Final = frozenset(VERBS[3:-3].split("|")) | {"don't", "do"}
_CLAUSE: Final = re.compile(
    r"[,.;:\n] ?(?:\d{1,2}[.)] |[-*] )?(?:then |and then |and |finally |next |just |always )?([a-z']{2,20}) "
)
_WORD: Final = re.compile(r"[a-z']+")
_CODE_SIGNS: Final = "{}()[];=<>_|&"
_FEWEST_SIGNS: Final = 5
"""Fewer are no code: a smiley."""
_DENSITY_FLOOR: Final = 0.04
"""Code signs per character: English prose has under .02, source code .06 to .15."""
_DENSITY_WEIGHT: Final = 0.7
_DECIDES: Final = 0.6
"""Weight of words of a decision in another language than English."""
_MATHS: Final = ("\\frac", "\\cdot", "\\times", "\\sqrt", "\\text{")
"""Signs of a formula in TeX, which is as dense as source code."""


def classify(text: str, role: str, origin: str) -> tuple[str, float]:
    """Return the type with the highest score and that score, in [0, 1). Ties go by `PRECEDENCE`.

    Args:
        text: an item; only the first `MAX_CHARS` characters count.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
    """
    return choose_type(score_types(text, role, origin))


@lru_cache(maxsize=4_096)  # a growing session is judged again from its start
def score_types(text: str, role: str, origin: str, language: str = ENGLISH) -> tuple[float, ...]:
    """Return the score of each of TYPES by the cues, in that order, each in [0, 1). Arguments as for `classify`.

    In another language than English only the density of code and words of decisions count.
    """
    text = "\n" + text[:MAX_CHARS]  # so that every line begins with a break
    lower = text.lower().replace("’", "'")
    words = frozenset(_WORD.findall(lower))
    known = origin if origin in PRIORS else _ORIGINS.get(role, "human")
    doubt = dict.fromkeys(TYPES, 1.0)
    kind, weight = PRIORS[known]
    doubt[kind] = 1 - weight
    if language != ENGLISH:
        doubt["decision"] *= 1 - _DECIDES * has_words(language, text, "cues", "decides")
        doubt["code"] *= 1 - _weigh_density(text)
        return tuple(1 - rest for rest in doubt.values())
    for cue in _CUES_OF[known]:
        if not (cue.words and cue.words.isdisjoint(words)) and cue.is_in(text, lower):
            doubt[cue.name] *= 1 - cue.weight
    doubt["procedural"] *= 1 - _weigh_imperatives(lower, known)
    doubt["code"] *= 1 - _weigh_density(text)
    return tuple(1 - rest for rest in doubt.values())


def choose_type(scores: tuple[float, ...]) -> tuple[str, float]:
    """Return the type of the highest score and that score, to 4 digits. Ties go by `PRECEDENCE`."""
    best = max(PRECEDENCE, key=lambda name: round(scores[TYPES.index(name)], 6))
    return best, round(scores[TYPES.index(best)], 4)


def _weigh_imperatives(lower: str, origin: str) -> float:
    """Return the weight of clauses that begin with an imperative. One may be chance, or a human's request."""
    count = sum(word in _IMPERATIVE for word in _CLAUSE.findall(lower))
    if count > 1:
        return 0.35 if origin == "human" else 0.5
    return 0.2 if count and origin != "human" else 0.0


def _weigh_density(text: str) -> float:
    """Return the weight of the density of code signs: 0 at the floor, `_DENSITY_WEIGHT` from four times the floor."""
    signs = sum(map(text.count, _CODE_SIGNS))
    if signs < _FEWEST_SIGNS or any(sign in text for sign in _MATHS):
        return 0.0
    excess = (signs / len(text) - _DENSITY_FLOOR) / (3 * _DENSITY_FLOOR)
    return _DENSITY_WEIGHT * min(1.0, max(0.0, excess))
