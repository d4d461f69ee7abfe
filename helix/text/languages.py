"""The language of a text, which decides how its words are stemmed and which cues are searched in it.

py3langid tells it (Lui & Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool"). A text that is
plainly English never gets there: its model takes most of a second to load.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Final

ENGLISH: Final = "en"

CAPITALISED: Final = frozenset(("de",))
"""Languages that capitalise every noun."""

CODES: Final = (
    *("", "other", "en", "de", "fr", "es", "pt", "it", "nl", "ja", "zh", "ko", "ru", "ar", "cs", "pl", "uk", "tr"),
    *("sv", "da", "no", "fi", "hu", "ro", "ca", "el", "he", "hi", "id", "vi", "th", "fa", "bg", "sr", "hr", "sk"),
    *("lt", "et"),
)
"""ISO 639-1 codes by the number that a store has for them; "" is not known, and read as English. Only ever extended."""

NUMBERS: Final = {code: number for number, code in enumerate(CODES)}

CERTAIN: Final = 0.9
"""Probability from which a text alone decides; below, its session does."""

MAX_CHARS: Final = 600
"""Characters of a text that are read."""

_LEAST_LETTERS: Final = 12
"""Letters outside code; with fewer, the session decides."""

_LEAST_WIDE: Final = 4
"""The same of scripts in which a character is a syllable or a word."""

_OTHER: Final = "other"
_DIALECTS: Final = {"wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar", "nn": "no"}

# Words that only English has, or that no other language has so often.
_MARK_TEXT: Final = (
    "the and that with this you what where which who how does they were your could would should there their because "
    "it's i'm don't didn't doesn't can't let's i've that's you're we're what's we've he she them our its some every "
    "another these those each both from into about after before behind between without through against during until "
    "since while when then than why because instead only always never already been make used"
)
_MARKS: Final = frozenset(_MARK_TEXT.split())
_LEAST_MARKS: Final = 0.12  # of the words
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_WIDE: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_CODE: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|https?://\S{1,300}|[\w./\\:@~-]*[\w][/\\_=@][\w./\\:@~=-]*|\b\w+(?:\.\w+)+\b"
    r"|\b\w*[a-z][A-Z]\w*\b|^(?:\$|>|#!|[+-]{1,3}) ?[^\n]*",
    re.DOTALL | re.MULTILINE,
)


def identify(text: str, among: Collection[str] = ()) -> tuple[str, float]:
    """Return the language of a text, one of CODES, and its probability; ("", 0) for a text with too few words.

    Args:
        among: the languages it may be in; all of CODES by default.
    """
    ranked = rank_languages(text, among)
    return ranked[0] if ranked else ("", 0.0)


def rank_languages(text: str, among: Collection[str] = ()) -> list[tuple[str, float]]:
    """Return the languages that a text may be in with their probabilities, the most likely first; [] as in `identify`.

    A text that is plainly English has no others.

    Args:
        among: as in `identify`; the probabilities are shares of theirs.
    """
    prose = _CODE.sub(" ", text[:MAX_CHARS])
    words = _WORD.findall(prose)
    wide = len(_WIDE.findall(prose))
    if is_plainly_english(words) and (not among or ENGLISH in among):
        return [(ENGLISH, 1.0)]
    if sum(map(len, words)) < _LEAST_LETTERS and wide < _LEAST_WIDE:
        return []
    return _rank_prose(" ".join(words), among)


def is_plainly_english(words: Sequence[str]) -> bool:
    """Return whether enough of the words are English function words, and all of them are ASCII but a few."""
    if not words:
        return False
    marks = sum(word.lower().replace("’", "'") in _MARKS for word in words)
    foreign = sum(not word.isascii() and "’" not in word for word in words)
    return marks >= max(1, _LEAST_MARKS * len(words)) and foreign * 4 <= len(words)


def _rank_prose(text: str, among: Collection[str]) -> list[tuple[str, float]]:
    chances: Counter[str] = Counter()
    for code, chance in _load().rank(text):
        code = _DIALECTS.get(code, code)
        chances[code if code in NUMBERS else _OTHER] += chance
    if among:
        chances = Counter({code: chances[code] for code in among})
    total = sum(chances.values()) or 1.0
    return [(code, chance / total) for code, chance in chances.most_common()]


@cache
def _load() -> Any:
    """Load the identifier, with probabilities."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # the model takes .7 s to load

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def find_languages(texts: Sequence[str]) -> list[str]:
    """Return the language of each item of a session, one of CODES.

    A text that is too short, or reads like several languages, has the one that most of its session has, or English.
    """
    found = [identify(text) for text in texts]
    certain = Counter(code for code, chance in found if chance >= CERTAIN)
    most = certain.most_common(1)[0][0] if certain else ENGLISH
    return [code if chance >= CERTAIN or (code and certain[code]) else most for code, chance in found]
