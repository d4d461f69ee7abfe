"""Sanitisers of recalled text: they remove invisible characters and disarm tags that could close its wrapper.

Texts and names come from logs, which anybody may have written: a model, or a web page that a tool read. Prompts and
error messages pass through `sanitise_text`, `sanitise_name` or `sanitise_all`, terminal lines through `printable`,
JSON through `printable_json`.

A tag is recognised as a reader would recognise it. Invisible characters and combining marks are skipped, and
look-alikes count as the letter they resemble (Unicode Technical Standard #39). Its bracket then becomes an entity.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

from helix.util.wordlists import read_table

MAX_NAME: Final = 300
"""Characters of a name; a longer text may be an instruction."""

MAX_MESSAGE: Final = 2_000
"""Characters of an error message."""

# Default_Ignorable_Code_Point (bidirectional controls and tag characters included), controls and line separators.
_HIDDEN_SET: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_FILLERS: Final = "\u115f\u1160\u3164\uffa0"  # letters by category, but invisible

# All characters whose skeleton is "<".
_ANGLE_SET: Final = (
    r"<\u02c2\u1438\u16b2\u2039\u226e\u22d6\u227a\u2280\u2329\u276c\u276e\u2770\u27e8\u2991\u29fc\u3008\ufe3f\ufe64"
    r"\uff1c\U0001d236"
)

_HIDDEN: Final = re.compile(f"[{_HIDDEN_SET}]")
# A superset of both sets. Each range beyond U+FFFF costs a comparison per character, so two wide ones replace them.
_SUSPECT: Final = re.compile(
    f"[{re.sub(r'.U000[0-9a-f]{5}-?', '', _HIDDEN_SET + _ANGLE_SET)}"
    r"\U0001bc00-\U0001d3ff\U000e0000-\U000e0fff]"
)
_OTHER: Final = r"[^\x00-\x7f]"
# A bracket that may open a tag of ours. The next letter rules out most brackets in code, such as `<div>` and `a < b`.
_CANDIDATE: Final = re.compile(
    rf"[{_ANGLE_SET}](?=[\s/\\]*+(?:{_OTHER}|[mM](?:[eE]|{_OTHER})|[rR](?:[nN]|{_OTHER})|[sS](?:[yY]|{_OTHER})|!))"
)
# The skeleton after the bracket. "rn" reads as "m" at a glance.
_TAG: Final = re.compile(r"[ /\\]*(?:(?:m|rn)e(?:m|rn)ory|syste(?:m|rn))\b|!--")
_LONGEST: Final = len("rnernory>")


def sanitise_text(text: str) -> str:
    """Return recalled text without invisible characters and with disarmed tags. The wording stays."""
    if text.isascii() and (text.isprintable() or text.replace("\n", "").isprintable()):
        return _CANDIDATE.sub(_disarm, text) if "<" in text else text
    if not _SUSPECT.search(text):
        return text
    return _CANDIDATE.sub(_disarm, _HIDDEN.sub("", text))


def sanitise_name(text: str, most: int = MAX_NAME) -> str:
    """Return the name of a session, speaker or file: sanitised, on one line, at most `most` characters."""
    words = " ".join(text.split())
    if (clean := sanitise_text(words)) is not words:
        words = " ".join(clean.split())  # removed characters may leave double blanks
    return words if len(words) <= most else words[: most - 1] + "…"


def sanitise_all(value: Any) -> Any:
    """Return plain data with every string, keys included, sanitised as a name."""
    if isinstance(value, str):
        return sanitise_name(value)
    if isinstance(value, Mapping):
        return {sanitise_all(key): sanitise_all(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [sanitise_all(one) for one in value]
    return value


def printable(text: str) -> str:
    """Return a line for a terminal, with blanks for control characters and disarmed tags: agents read it too."""
    line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return line if line.isascii() and "<" not in line else _CANDIDATE.sub(_disarm, line)


def printable_lines(text: str) -> str:
    """Return `printable` of each line of our own text, which may contain foreign names."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """Return JSON with an escape for each character that `printable` would change. It parses to the same value."""
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return _CANDIDATE.sub(lambda match: _escape(match) if _is_tag_start(match) else match[0], text)


def _disarm(match: re.Match[str]) -> str:
    return "&lt;" if _is_tag_start(match) else match[0]


def _escape(match: re.Match[str]) -> str:
    return "\\u003c" if match[0] == "<" else json.dumps(match[0])[1:-1]


def _is_tag_start(match: re.Match[str]) -> bool:
    """Return whether a bracket and the text after it look like a tag of ours."""
    text, skeleton = match.string, ""
    for at in range(match.end(), len(text)):
        skeleton = (skeleton + _find_plain_form(text[at])).lstrip(" /\\")
        if len(skeleton) >= _LONGEST:
            break
    return bool(_TAG.match(skeleton))


@cache
def look_alikes() -> dict[str, str]:
    """Return characters and the letter, bracket or slash that each looks like."""
    table = read_table("helix.util", "confusables")
    return {chr(int(code, 16)): plain for plain, codes in table.items() for code in codes}


@lru_cache(maxsize=1 << 12)
def _find_plain_form(character: str) -> str:
    """Return the plain lower-case form a character looks like; empty for an invisible one or a combining mark."""
    if character.isspace() or character == "\u2800":  # blank Braille pattern
        return " "
    looks, shown = look_alikes(), []
    for base in unicodedata.normalize("NFKD", character):
        folded = base.casefold()
        plain = looks.get(base) or looks.get(folded)
        if plain:
            shown.append(plain)
        elif unicodedata.category(base)[0] not in "MC" and base not in _FILLERS:
            shown.append(folded)
    return "".join(shown)
