"""Names of exported notes: safe on every file system, and stable while a store grows."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from helix.sources.common.quoted_text import escape_line
from helix.util.sanitise import sanitise_name

_LONGEST: Final = 72  # characters
_MOST_BYTES: Final = 140  # with the rest of a name below 255, the limit of most file systems
_FORBIDDEN: Final = re.compile(r'[<>:"/\\|?*#^\[\]%~`$&;!{}\x00-\x1f\x7f]')
_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def make_file_name(text: str, otherwise: str = "untitled") -> str:
    """Return a text as the name of a file or a folder, without its suffix.

    No path, no hidden file, no name that Windows reserves, no mark of a wiki link; at most 140 bytes.
    """
    words = _FORBIDDEN.sub(" ", sanitise_name(unicodedata.normalize("NFC", text)))
    words = "".join(char for char in words if unicodedata.category(char)[0] != "C")
    name = " ".join(words.split())[:_LONGEST].encode()[:_MOST_BYTES].decode("utf-8", "ignore").strip(" .")
    return f"_{name}" if _RESERVED.fullmatch(name) else name or otherwise


class NameBook:
    """Names that were given, so that none is given twice: not even in another case, as on macOS and Windows."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, folder: str, name: str) -> str:
        """Return a name in a folder, or with a number if it is taken."""
        chosen, number = name, 1
        while (key := f"{folder}/{chosen}".casefold()) in self._taken:
            number += 1
            chosen = f"{name} {number}"
        self._taken.add(key)
        return chosen


def write_link(target: str, shown: str) -> str:
    """Return a wiki link to a note."""
    words = re.sub(r"[\[\]|\\^#%<>`$]", " ", sanitise_name(shown))
    return f"[[{target}|{' '.join(words.split()) or target}]]"


def write_words(text: str) -> str:
    """Return a name or a title as inert Markdown on one line."""
    return escape_line(sanitise_name(text)).replace("`", "\\`")
