"""The one way out for what was recalled: what hides or steers is taken out, and nothing closes the wrapper around it.

Texts and names come from logs, which anybody may have written: a model, a web page that a tool has read. A prompt gets
them by `sanitise_text`, `sanitise_name` or `sanitise_all`; so do errors, which name what there is. A terminal gets a
line by `printable`, and JSON by `printable_json`.

A tag of ours is recognised as a reader would: whatever shows nothing or only adds to a letter is overlooked, and what
looks like a letter counts as one (Unicode Technical Standard #39). Then its bracket is written as an entity.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

MOST_NAME: Final = 300
"""Characters of a name. A longer one is no name, but may be an instruction."""

MOST_SAID: Final = 2_000
"""Characters of an error."""

# Default_Ignorable_Code_Point, which has what is bidirectional and the tags, besides controls and line separators.
_HIDDEN_SET: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_FILLERS: Final = "\u115f\u1160\u3164\uffa0"  # letters by their category that show nothing

# All characters that the skeleton reads as "<".
_ANGLE_SET: Final = (
    r"<\u02c2\u1438\u16b2\u2039\u226e\u22d6\u227a\u2280\u2329\u276c\u276e\u2770\u27e8\u2991\u29fc\u3008\ufe3f\ufe64"
    r"\uff1c\U0001d236"
)

_HIDDEN: Final = re.compile(f"[{_HIDDEN_SET}]")
# Both, and more: beyond U+FFFF each range costs a comparison a character, so there are two wide ones.
_SUSPECT: Final = re.compile(
    f"[{re.sub(r'.U000[0-9a-f]{5}-?', '', _HIDDEN_SET + _ANGLE_SET)}"
    r"\U0001bc00-\U0001d3ff\U000e0000-\U000e0fff]"
)
_OTHER: Final = r"[^\x00-\x7f]"
# A bracket that may open a tag of ours. In code hardly any is: `<div>` and `a < b` are told by the letter that follows.
_CANDIDATE: Final = re.compile(
    rf"[{_ANGLE_SET}](?=[\s/\\]*+(?:{_OTHER}|[mM](?:[eE]|{_OTHER})|[rR](?:[nN]|{_OTHER})|[sS](?:[yY]|{_OTHER})|!))"
)
# What follows on the bracket, as a skeleton. "rn" is an "m" to whoever reads fast.
_TAG: Final = re.compile(r"[ /\\]*(?:(?:m|rn)e(?:m|rn)ory|syste(?:m|rn))\b|!--")
_LONGEST: Final = len("rnernory>")


def sanitise_text(text: str) -> str:
    """Recalled text that hides nothing and cannot close its wrapper. What is said by it stays as it is."""
    if text.isascii() and (text.isprintable() or text.replace("\n", "").isprintable()):
        return _CANDIDATE.sub(_disarm, text) if "<" in text else text
    if not _SUSPECT.search(text):
        return text
    return _CANDIDATE.sub(_disarm, _HIDDEN.sub("", text))


def sanitise_name(text: str, most: int = MOST_NAME) -> str:
    """A name on one line, of a session, a speaker, a file: as `sanitise_text`, and cut where it goes on and on."""
    words = " ".join(text.split())
    if (clean := sanitise_text(words)) is not words:
        words = " ".join(clean.split())  # where something hidden stood, there may be a gap
    return words if len(words) <= most else words[: most - 1] + "…"


def sanitise_all(value: Any) -> Any:
    """Plain data all of whose strings are names, keys among them."""
    if isinstance(value, str):
        return sanitise_name(value)
    if isinstance(value, Mapping):
        return {sanitise_all(key): sanitise_all(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [sanitise_all(one) for one in value]
    return value


def printable(text: str) -> str:
    """A line for a terminal: blanks for whatever could steer it. Agents read terminals, too: no tag of ours is left."""
    line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return line if line.isascii() and "<" not in line else _CANDIDATE.sub(_disarm, line)


def printable_lines(text: str) -> str:
    """The same of several lines, which are ours, whatever the names in them."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def printable_json(text: str) -> str:
    """JSON with an escape for each character that `printable` would change: to whoever parses it, it is the same."""
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return _CANDIDATE.sub(lambda found: _escape(found) if _opens_tag(found) else found[0], text)


def _disarm(found: re.Match[str]) -> str:
    return "&lt;" if _opens_tag(found) else found[0]


def _escape(found: re.Match[str]) -> str:
    return "\\u003c" if found[0] == "<" else json.dumps(found[0])[1:-1]


def _opens_tag(found: re.Match[str]) -> bool:
    """Return whether a bracket and what follows look like a tag of ours."""
    text, said = found.string, ""
    for at in range(found.end(), len(text)):
        said = (said + _skeleton(text[at])).lstrip(" /\\")
        if len(said) >= _LONGEST:
            break
    return bool(_TAG.match(said))


@lru_cache(maxsize=1 << 12)
def _skeleton(character: str) -> str:
    """Return what a character looks like, in plain lower case; empty where it shows nothing or only adds to another."""
    from helix.text.confusables import LOOKS_LIKE

    if character.isspace() or character == "\u2800":  # Braille without a dot
        return " "
    seen = []
    for base in unicodedata.normalize("NFKD", character):
        folded = base.casefold()
        plain = LOOKS_LIKE.get(base) or LOOKS_LIKE.get(folded)
        if plain:
            seen.append(plain)
        elif unicodedata.category(base)[0] not in "MC" and base not in _FILLERS:
            seen.append(folded)
    return "".join(seen)
