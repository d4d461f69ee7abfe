"""Capitalised names in a text: the entity that each of them is, by lists, by its parts and by the words around it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from helix.text.gazetteer import COMMON_WORDS, DEMONYMS, HEADING_WORDS, TITLES
from helix.text.name_cues import AUXILIARIES, is_cued, starts_sentence, weigh_cues
from helix.text.name_parts import ALL_GIVEN_NAMES, KNOWN, NAME_ENDS, NOUN_ENDINGS, PHRASES, SURE, is_common, weigh_parts
from helix.types import Entity

NAME_KINDS: Final = ("person", "place", "organisation", "project", "name")
"""Kinds of a capitalised name. The kind depends on the sentence, so a question searches all of them."""

_HINTS: Final = {"person": 1, "place": 2}
_NOT_NAMES_AFTER: Final = re.compile(
    " (?:section|chapter|tab|button|page|column|field|menu|dialog|screen|heading|step|option|setting|phase|mode|key|"
    r"header|table|panel|label|state|status|view|pattern|algorithm|theorem|method|law|effect|principle)s?\b"
)
# The text after a subject. The end of the line, a colon or closing bold mark a heading or a label.
_AFTER: Final = re.compile(
    r"(?!\s*(?:\*\*|__|:|\n|\Z))(?P<verb>,? (?:is|was|has|had|will|would|can|could|should|does|did|and|said|says|"
    r"told|asked|wants?|went|got|made|took|came|lost|won|fell|[a-z]{2,12}ed|[a-z]{2,12}[a-rt-z]s)\b)?"
)
_COMMON_ENDINGS: Final = ("ing", "ly", "n't", "ed", "'s", "'m", "'ll", "'re", "'ve", "'d")
_LOWER_WORD: Final = re.compile(r"\b[a-zß-ÿ]+\b")
_INSIDE: Final = re.compile(r"(?<=[a-z,] )[A-ZÀ-ÖØ-Þ]\w*")


class _Name(NamedTuple):
    """A capitalised run without the common words at its ends."""

    words: list[str]
    opens: bool  # it opens a sentence or a line
    titled: bool  # a title was cut off before it
    dropped: str  # the last word cut off before it, lower case; "" for none


def read_name(text: str, start: int, run: str, *, talk: bool = False, heading: bool = False) -> Entity | None:
    """Return the entity that a capitalised run of words names; None where it only opens a sentence or a paragraph.

    Args:
        text: the whole text.
        start: position of `run` in `text`.
        run: the run, as the pattern matched it.
        heading: it is part of a heading or a bold label, where every word may be capitalised.
        talk: the text is talk between people: an unknown name in the position of a person or a town is one.
    """
    words = run.replace("’", "'").split()
    end = start + len(run)
    whole = " ".join(words).lower().removesuffix("'s").rstrip(".")
    if whole in PHRASES:
        return Entity(PHRASES[whole], whole, _remove_owner(words))
    name = _trim(text, start, end, words)
    if not name.words:
        return None
    owner = name.words[-1].endswith("'s")
    shown = _remove_owner(name.words)
    key = shown.lower().strip("'.")
    if _names_nothing(text, start, end, name, key):
        return None
    first = name.words[0].partition("'")[0]
    weights = _weigh(text, max(start, text.find(first, start, end)), end - 2 * owner, name, talk=talk)
    best = max(weights, key=lambda kind: (weights[kind], -NAME_KINDS.index(kind)), default="name")
    weight = weights.get(best, 0)
    lower = key.split()
    if name.opens:
        suffixed = len(lower) > 1 and best in ("organisation", "place") and lower[0] not in KNOWN
        unsure = weight < 2 or suffixed
        if unsure and ((not owner and not _is_name(text, end, shown)) or key.endswith(NOUN_ENDINGS)):
            return None
        if key not in KNOWN and " " not in key and key.endswith((*NOUN_ENDINGS, *_COMMON_ENDINGS)):
            return None
    if heading and (weight < SURE or (lower[0] not in KNOWN and not name.titled)):
        return None
    if weight < 2 and _NOT_NAMES_AFTER.match(text, end):
        return None
    return Entity(best if weight >= 1 else "name", key, shown)


def _trim(text: str, start: int, end: int, words: list[str]) -> _Name:
    """Cut off the words that are no part of a name: "Thanks Melanie", "The Visibility Timeout", a title."""
    opens, titled, dropped = starts_sentence(text, start), False, ""
    while words and (is_common(words[0]) or words[0].lower().rstrip(".") in TITLES):
        if len(words) == 1 and is_cued(text, start, end, words[0]):
            break
        if words[0] == "New" and not opens and len(words) > 1:
            break
        dropped = words[0].lower().rstrip(".")
        titled = dropped in TITLES and dropped not in HEADING_WORDS
        del words[0]
        opens = False
    if len(words) > 1 and opens and words[1].lower() in ALL_GIVEN_NAMES and not _is_listed(words[0]):
        dropped = words.pop(0).lower()  # "Met Beatrix", "Ring Harish"
        opens = False
    while words and (is_common(words[-1]) or words[-1].islower() or words[-1] == "&"):
        ends = len(words) > 1 and words[-1].lower().rstrip(".") in NAME_ENDS
        if ends or is_cued(text, start, end, words[-1]):
            break
        del words[-1]
    return _Name(words, opens, titled, dropped)


def _names_nothing(text: str, start: int, end: int, name: _Name, key: str) -> bool:
    """Return whether a run is too short, a people's adjective, or made of words of headings."""
    if (len(key) < 3 and key not in KNOWN) or key in DEMONYMS:
        return True
    if key in HEADING_WORDS and not name.titled and not is_cued(text, start, end, name.words[0]):
        return True
    lower = key.split()
    return len(lower) > 1 and all(word in HEADING_WORDS or word in COMMON_WORDS for word in lower)


def _weigh(text: str, start: int, end: int, name: _Name, *, talk: bool) -> dict[str, int]:
    """Return kind → weight of a name: by the lists, its own parts and the words around it."""
    words = name.words
    lower = [word.lower().strip(".") for word in words]
    lower[-1] = lower[-1].removesuffix("'s")
    key = " ".join(lower)
    weights: dict[str, int] = defaultdict(int)
    if key in PHRASES:
        weights[PHRASES[key]] += 2 * SURE
    elif len(words) > 1:
        weights.update(weigh_parts(lower))
    else:
        known = KNOWN.get(key, {}).items()
        weights.update((kind, weight) for kind, weight in known if weight == SURE or not words[0].isupper())
    if name.titled:
        weights["person"] += 2 * SURE
    settled = {kind for kind, weight in weights.items() if weight >= SURE}
    for kind, weight in weigh_cues(text, start, end, name.dropped, opens=name.opens).items():
        if kind not in weights and (settled or (kind == "person" and (words[-1].isupper() or " of " in key))):
            continue  # "Grafana shows": a product stays a product
        # A hint alone gives an unknown name no kind, except in talk between people.
        hinted = talk and not weights and len(key) > 2 and not words[0].isupper()
        decisive = weight >= SURE or (weight == 2 and kind != "place")
        if decisive or kind in weights or (hinted and weight == _HINTS.get(kind)):
            weights[kind] += weight
    return weights


def _is_listed(word: str) -> bool:
    word = word.lower().removesuffix("'s")
    return word in KNOWN or word in TITLES


def _remove_owner(words: Sequence[str]) -> str:
    return " ".join(words).removesuffix("'s")


def _is_name(text: str, end: int, shown: str) -> bool:
    """Return whether a run that opens a sentence or line is a name. A heading is none, a single word rarely one."""
    if len(shown) == len(text.strip(" ?!.")):
        return True
    after = _AFTER.match(text, end)
    if after is None:
        return False
    if " " in shown or "'" in shown or shown.isupper():
        return True
    lower = shown.lower()
    if lower in KNOWN:  # an ambiguous word: "Rose bushes" is no name
        return "person" not in KNOWN[lower] and (after["verb"] or "").lstrip(", ") in AUXILIARIES
    lower_case, inside = _split_case(text)
    if lower.endswith(_COMMON_ENDINGS) or lower in lower_case:
        return False
    return after["verb"] is not None or shown in inside


@lru_cache(maxsize=4)
def _split_case(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of `text` in lower case, and those capitalised inside a sentence."""
    return frozenset(_LOWER_WORD.findall(text)), frozenset(_INSIDE.findall(text))
