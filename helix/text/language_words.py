"""Words and cues of languages other than English, from `data/languages/CODE.toml`.

`stop`        words that are no terms
`first_person`, `asker`   how a speaker names themselves; as the subject of a question
`courtesy`    words, or patterns of a language without spaces, of which a text that says nothing is made
`recent`      asks for what is recent
`spaced`      false where no spaces separate words: patterns match anywhere
`[dates]`     months and weekdays in order; forms of dates with {DAY}, {MONTH}, {YEAR}, {COUNT}, {UNIT}, {SPAN} (a unit
              or a month) and {WEEKDAY}; names of units; counts in words; days by their distance from today
`[cues]`      standing instructions, preferences, decisions (`helix.text.cues`); these match as they are
`[questions]` what a question is about (`helix.text.reading`)
`[asks]`      whether many turns answer a question, or it asks for advice (`helix.text.asks`)
`[claims]`    what kind of statement a text makes (`helix.text.claims`)
`[former]`    leads to what a change leaves, and ends of it
`[denies]`    words that forbid what is named after them or before them

Patterns are in any case and match whole words, but those of [cues]. A language without a file has no cues: its words
are weighed by statistics alone.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from helix.util.wordlists import read_toml

CODES: Final = ("de", "es", "fr", "it", "ja", "nl", "pt", "ru", "zh")
"""Languages with words of their own, English apart."""


def read_words(code: str) -> dict[str, Any]:
    """Return the file of a language; {} for one without."""
    return read_toml("helix.text", f"languages/{code}") if code in CODES else {}


def list_stop_words(code: str) -> list[str]:
    """Return the words of a language that are no terms."""
    return str(read_words(code).get("stop", "")).split()


@cache
def find_pattern(code: str, group: str, name: str = "") -> re.Pattern[str] | None:
    """Return a pattern of a language; None where it has none.

    Args:
        group: a table, with `name`, or a field of the file.
    """
    words = read_words(code)
    text = words.get(group, {}).get(name, "") if name else words.get(group, "")
    if not text:
        return None
    whole = words.get("spaced", True) and group != "cues"
    return re.compile(rf"(?<!\w)(?:{text})(?!\w)" if whole else text, re.IGNORECASE)


def has_words(code: str, text: str, group: str, name: str = "") -> bool:
    """Return whether a text of a language has a pattern of it; False where the language has none."""
    pattern = find_pattern(code, group, name)
    return pattern is not None and pattern.search(text) is not None


@cache
def _find_courtesy(code: str) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """Return the words of a courtesy; for a language without spaces the pattern of a whole one."""
    words = read_words(code)
    text = str(words.get("courtesy", ""))
    if words.get("spaced", True):
        return frozenset(text.split()), None
    return frozenset(), re.compile(rf"(?:(?:{text})[\s、。，！!,.~～]*){{1,6}}", re.IGNORECASE)


_LETTERS: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def is_courtesy(code: str, text: str) -> bool:
    """Return whether a text has only words that say nothing: "Danke, super!"."""
    words, pattern = _find_courtesy(code)
    if pattern is not None:
        return pattern.fullmatch(text.strip()) is not None
    found = _LETTERS.findall(text.lower().replace("’", "'"))
    return bool(found) and words.issuperset(found)
