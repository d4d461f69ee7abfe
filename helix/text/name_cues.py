"""Cues around a capitalised name: the words before and after it that tell its kind."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from helix.text.gazetteer import KIN
from helix.text.name_parts import KNOWN, SURE
from helix.util.wordlists import fill_pattern, read_groups, read_toml

_WORDS: Final = read_groups("helix.text", "name_cues")
_MEETING: Final = _WORDS["meeting"] | frozenset(KIN)
_WITH: Final = _WORDS["with"]
_WORKING: Final = _WORDS["working"]
_DEALING: Final = _WORDS["dealing"]
_BUSINESS: Final = _WORKING | _DEALING
_IN: Final = frozenset(("in", "near", "around", "across", "throughout", "outside"))
AUXILIARIES: Final = _WORDS["auxiliary after"]
_AFTER: Final = {
    kind: re.compile(fill_pattern(text, {})) for kind, text in read_toml("helix.text", "mentions")["after"].items()
}
"""Patterns of the text after a name, by kind."""

_SENTENCE_START: Final = re.compile(
    r"(?:\A|[.!?:;…。\u2190-\u2bff\U0001f000-\U0001faff]|[\n\t•|>*#/=\"“(\[-])[\s\"'“”(*_#>\[-]*\Z"
)
_STRIP: Final = ".,;:!?\"'“”()*_`[]"

# Characters before a name that are searched for the start of its sentence, and for cues.
_START_WIDTH: Final = 12
_CUE_WIDTH: Final = 60


def starts_sentence(text: str, start: int) -> bool:
    """Return whether a sentence, line or label begins at `start`."""
    if start > 1 and text[start - 1] == " " and (text[start - 2].isalpha() or text[start - 2] == ","):
        return False  # the common case
    return start == 0 or _SENTENCE_START.search(text[max(0, start - _START_WIDTH) : start]) is not None


def weigh_cues(text: str, start: int, end: int, dropped: str, *, opens: bool) -> dict[str, int]:
    """Return kind → weight by the words around text[start:end].

    Args:
        text: the whole text.
        start: position of the name in `text`.
        end: position after the name.
        dropped: the word of the capitalised run that was cut off before the name; "" for none.
        opens: the name opens a sentence, so the words before it belong to another one.
    """
    before = [word.strip(_STRIP) for word in text[max(0, start - _CUE_WIDTH) : start].lower().split()[-4:]]
    four, three, two, one = ([""] * 4 + ([] if opens and not dropped else before))[-4:]
    one = one or dropped
    weights: dict[str, int] = defaultdict(int)
    _weigh_before(weights, (four, three, two, one), dropped)
    if _AFTER["person"].match(text, end):
        weights["person"] += SURE
    elif _AFTER["project"].match(text, end):
        weights["project"] += 2 if one else 1
    elif _AFTER["listed project"].match(text, end):
        weights["project"] += 1
    elif _AFTER["place"].match(text, end):
        weights["place"] += SURE
    elif _AFTER["organisation"].match(text, end):
        weights["organisation"] += 2
    if text[start - 2 : start] == ", " and text[end : end + 1] in ("!", "?") and three != "":
        weights["person"] += 1
    return weights


def _weigh_before(weights: dict[str, int], words: tuple[str, str, str, str], dropped: str) -> None:
    """Add the weights of the four words before a name; the last one is next to it."""
    four, three, two, one = words
    if one in _MEETING or dropped in _MEETING:
        weights["person"] += SURE
    elif one in _WITH:
        weights["person"] += 1
    if one in _IN:
        weights["place"] += SURE if {two, three} & _WORDS["living"] else 2
    elif one in ("to", "into", "for") and {two, three, four} & _WORDS["motion"]:
        weights["place"] += SURE if one != "for" else 1
    elif (one == "from" and {two, three} & _WORDS["leaving"]) or (one == "of" and two in _WORDS["settlement"]):
        weights["place"] += SURE
    elif one in _WORDS["before place"]:
        weights["place"] += 1
    if one in ("at", "for", "with", "from", "by") and {two, three, four} & _BUSINESS:
        decisive = (one in ("at", "for") and {two, three} & _WORKING) or {two, three} & _DEALING
        weights["organisation"] += SURE if decisive else 1
    elif one in ("joined", "joining", "acquired"):
        weights["organisation"] += 2
    if one in _WORDS["using"] and one != dropped:
        weights["project"] += 2
    elif one in ("to", "from", "on", "with", "in", "into", "onto") and {two, three} & _WORDS["building"]:
        weights["project"] += 1


def is_cued(text: str, start: int, end: int, word: str) -> bool:
    """Return whether a common word is a name here: "flew to Nice", "August said hi", "my friend Grace"."""
    kinds = KNOWN.get(word.lower().removesuffix("'s"))
    if kinds is None:
        return False
    weights = weigh_cues(text, start, end, "", opens=starts_sentence(text, start))
    return any(weight >= 2 and kind in kinds for kind, weight in weights.items())
