"""Salience of the items of a session: explicit sums over signs, form and place in the session, without a model.

Signs are searched in the prose of an item. A sign counts once, however often it occurs.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from helix.enrich.signs import GENERIC, NARRATION, SIGNS, WEIGHTS, WORDS
from helix.enrich.trust import Trust, find_agreements, judge_trust
from helix.enrich.utterance import MAX_CHARS, SessionItem, Utterance, read_utterance
from helix.text.language_words import has_words, is_courtesy
from helix.text.languages import ENGLISH


class Worth(NamedTuple):
    """Salience in [0, 1], to 4 digits, and its parts, which sum to it unless it was capped."""

    value: float
    parts: tuple[tuple[str, float], ...]


BASE: Final = 0.25
ORIGIN: Final[Mapping[str, float]] = {
    "document": 1.0,
    "assistant": 1.0,
    "subagent": 2.0,
    "tool": 4.0,
    "runtime_context": 5.0,
}
"""Factor of the origin's weight, else 0: machines write numbers and rules all the time, people when they matter."""

CHATTER: Final = 0.03
_CHATTER_CHARS: Final = 80
"""Characters; a longer text is no chatter."""

_DENSE: Final = 40
"""Words from which a sign counts less: a long text has one by chance."""

_FULL_LENGTH: Final = 8
"""Words from which length earns its whole weight; up to 2 it earns nothing."""

_RARE: Final = 3
"""Items that a term may be in to identify one of them."""

_REFERENCES: Final = 2
"""Later turns that earn the whole weight."""

_LONG_WORD: Final = 5
"""Characters of a word that identifies a topic."""

_HUMAN_SIGNS: Final = frozenset(("event", "person"))
_ERROR: Final = re.compile(
    r"[A-Za-z](?:Error|Exception)\b|\b(?:E[A-Z]{4,12}|ERROR|FATAL|panic:|segfault|failed with|Traceback)"
)
_LETTERS: Final = re.compile(r"\w+")
_APOSTROPHE: Final = str.maketrans("", "", "'’")


def judge(items: Sequence[SessionItem]) -> tuple[list[Worth], list[Trust]]:
    """Return the salience of the items of a session, in reading order, and who vouches for each.

    Salience is min(1, max(0, BASE + Σ WEIGHTS · strength)), rounded to 4 digits. A strength is 1 or 0, except

    - the signs of a text of w > 40 words: sqrt(40 / w);
    - `length`: (w - 2) / 6 within [0, 1];
    - `rarity`: log((n + 1) / df) / log(n + 1) of the rarest name, where n items name anything and df of them this
      (the inverse document frequency of Spärck Jones 1972, scaled to 1 for a name of one item);
    - `referred to`: half for each later turn, up to 2, that repeats a name, a number, or two words, or says "as you
      mentioned" and repeats one. Only terms of at most 3 items count;
    - `origin`: `ORIGIN`.

    Chatter ("ok, thanks!") gets `CHATTER`, a text without a word 0. The work is linear in the items.
    """
    utterances = [read_utterance(item) for item in items]
    agreed = find_agreements(items, utterances)
    worths = [_sum(strengths) for strengths in _measure(items, utterances, agreed)]
    return worths, judge_trust(utterances, agreed)


def apply_input(worth: Worth, pinned: bool, priority: float | None) -> Worth:
    """Apply the input's own marks to a salience.

    Args:
        pinned: raises it to 1.
        priority: p in [1, 2] raises the value v to v + (1 - v)(p - 1); values outside count as the nearer bound.
    """
    value, parts = worth
    if pinned:
        return Worth(1.0, (*parts, ("pinned", round(1 - value, 4))))
    if priority is None or priority <= 1:
        return worth
    gain = (1 - value) * (min(2.0, priority) - 1)
    return Worth(round(value + gain, 4), (*parts, ("priority", round(gain, 4))))


def _measure(items: Sequence[SessionItem], utterances: Sequence[Utterance], agreed: set[int]) -> list[dict[str, float]]:
    """Return the strengths of each item's signs."""
    naming = sum(1 for item in items if item.names)
    frequency = Counter(name for item in items for name in set(item.names))
    references = _count_references(items, utterances)
    humans = (item.turn for item, utterance in zip(items, utterances, strict=True) if utterance.origin == "human")
    first = next(humans, -1)
    failed = False
    measured = []
    for index, (item, utterance) in enumerate(zip(items, utterances, strict=True)):
        if _is_chatter(item.text, item.language):
            measured.append({"chatter": float(utterance.length > 0)})
            continue
        strengths = _measure_text(item, utterance)
        strengths["length"] = min(1.0, max(0, utterance.length - 2) / (_FULL_LENGTH - 2))
        strengths["rarity"] = max((_rate_rarity(frequency[name], naming) for name in item.names), default=0.0)
        strengths["first"] = float(item.turn == first and utterance.origin == "human")
        strengths["after error"] = float(failed and utterance.origin != "tool")
        strengths["referred to"] = min(1.0, references[index] / _REFERENCES)
        strengths["confirmed"] = float(index in agreed)
        strengths["origin"] = ORIGIN.get(utterance.origin, 0.0)
        failed = bool(strengths.get("error"))
        measured.append(strengths)
    return measured


def _measure_text(item: SessionItem, utterance: Utterance) -> dict[str, float]:
    """Return the strengths of the signs in the text itself."""
    words, prose, origin = utterance.words, utterance.prose, utterance.origin
    if origin == "tool":
        return {"error": float(_ERROR.search(item.text, 0, MAX_CHARS) is not None)}
    human = origin in ("human", "summary")
    if item.language != ENGLISH:
        return _measure_foreign(item, utterance, human=human)
    strength = min(1.0, math.sqrt(_DENSE / max(1, utterance.length)))
    signs = (sign for sign in SIGNS if human or sign.name not in _HUMAN_SIGNS)
    strengths = {sign.name: strength for sign in signs if sign.is_in(words, prose)}
    if origin in ("assistant", "subagent"):
        strengths["narration"] = float(NARRATION.is_in(words, prose))
        strengths["generic"] = float(GENERIC.is_in(words, prose))
    elif human:
        strengths["fact"] = float(bool(item.names) and not WORDS["states"].isdisjoint(words))
        strengths["first person"] = float(not WORDS["first person"].isdisjoint(words))
    strengths |= _measure_type(item, origin)
    strengths["asks"] = float(utterance.asks)
    strengths["only asks"] = float(utterance.asks and not prose.strip())
    strengths["hedged"] = float(utterance.hedged)
    strengths["cheer"] = float(not WORDS["cheer"].isdisjoint(words))
    return strengths


def _measure_type(item: SessionItem, origin: str) -> dict[str, float]:
    return {
        "decision type": float(item.type == "decision"),
        "semantic type": float(item.type == "semantic" and origin != "document"),
        "code type": float(item.type == "code"),
    }


def _measure_foreign(item: SessionItem, utterance: Utterance, *, human: bool) -> dict[str, float]:
    """Return the strengths of the signs that another language has words for, and of those in no language."""
    found = {name: has_words(item.language, item.text, "cues", name) for name in ("decides", "standing", "prefers")}
    strengths = {
        "decision": float(found["decides"]),
        "rule": float(human and (found["standing"] or found["prefers"])),
        "number": float("#" in utterance.words),
        "first person": float(human and has_words(item.language, item.text, "first_person")),
        "asks": float(utterance.asks),
        "only asks": float(utterance.asks and not utterance.prose.strip()),
    }
    return {**strengths, **_measure_type(item, utterance.origin)}


def _is_chatter(text: str, language: str) -> bool:
    """Return whether a text is short and has only words that say nothing, or none."""
    if len(text) > _CHATTER_CHARS:
        return False
    if language != ENGLISH and is_courtesy(language, text):
        return True
    return WORDS["chatter"].issuperset(_LETTERS.findall(text.lower().translate(_APOSTROPHE)))


def _sum(strengths: Mapping[str, float]) -> Worth:
    if "chatter" in strengths:
        value = CHATTER * strengths["chatter"]
        return Worth(value, (("chatter", value),))
    parts = [("base", BASE)]
    parts += [(name, round(weight * strengths[name], 4)) for name, weight in WEIGHTS.items() if strengths.get(name)]
    total = sum(amount for _, amount in parts)
    return Worth(round(min(1.0, max(0.0, total)), 4), tuple(parts))


def _rate_rarity(frequency: int, naming: int) -> float:
    """Return 1 for a name of one item, falling to near 0 for a name of all `naming` items that name anything."""
    return math.log((naming + 1) / frequency) / math.log(naming + 1)


def _count_references(items: Sequence[SessionItem], utterances: Sequence[Utterance]) -> list[int]:
    """Count the later turns that refer to each item. The work is bounded by `_RARE`² per term."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, utterance in enumerate(utterances):
        for term in utterance.terms | utterance.marks:
            places[term].append(index)
    overlap: Counter[tuple[int, int]] = Counter()
    for term, indexes in places.items():
        if not 2 <= len(indexes) <= _RARE:
            continue
        for at, earlier in enumerate(indexes):
            for later in indexes[at + 1 :]:
                if (turn := items[later].turn) > items[earlier].turn:
                    overlap[earlier, turn] += _weigh_reference(term, utterances[earlier], utterances[later])
    counts = [0] * len(items)
    for (earlier, _), shared in overlap.items():
        counts[earlier] += shared >= 2
    return counts


def _weigh_reference(term: str, earlier: Utterance, later: Utterance) -> int:
    """Return 2 for a term that refers by itself: a name, a number, or any rare word where the later turn looks back."""
    if term in earlier.marks or later.looks_back:
        return 2
    return int(len(term) >= _LONG_WORD)
