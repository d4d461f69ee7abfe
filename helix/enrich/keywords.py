"""Where in a text any of some hundred keywords stands, whatever its case.

Trying them one after the other reads the text once for each, and a pattern of them all tries every letter of it. Here
a table of all fours of characters rules out most places at once, in a few passes of numpy (some 5 ns a character); a
pattern decides on the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEP: Final = 1 << 17  # characters looked at at once
_AHEAD: Final = 256  # characters that tell whether a keyword stands somewhere, and what must be behind it


class Keywords(NamedTuple):
    """What `find` needs to know of a set of keywords."""

    code: bytes  # byte → a number under 32
    begins: NDArray[np.bool_]  # the numbers of four characters, five bits each → whether a keyword may begin so
    pattern: re.Pattern[bytes]


def keywords(behind: Mapping[str, str]) -> Keywords:
    """Prepares a set of keywords.

    Args:
        behind: keyword, ASCII, lower case → a pattern of what must stand behind it, "" for anything. The pattern sees
            lower case, and a question mark for each character beyond ASCII.
    """
    import numpy as np  # only here: who imports this may not want it

    code = bytes(_code(chr(byte)) for byte in range(256))
    begins = np.zeros((32,) * 4, bool)
    root: _Trie = {}
    for word, following in behind.items():
        begins[tuple(code[ord(char)] for char in word[:4])] = True
        node = root
        for char in word:
            child = node.setdefault(char, {})
            if isinstance(child, dict):
                node = child
        node[""] = following
    return Keywords(code, begins.reshape(-1), re.compile(f"({_pattern(root)})".encode()))


def find(text: str, begin: int, end: int, known: Keywords) -> Iterator[tuple[int, bytes]]:
    """The places in [begin, end) where keywords begin, in order, each with the longest that begins there."""
    import numpy as np

    for start in range(begin, end, _STEP):
        stop = min(start + _STEP, end)
        # A byte a character, so that places stay what they are; str.lower() may lengthen.
        data = text[start : stop + _AHEAD].encode("ascii", "replace")
        code = np.frombuffer(data.translate(known.code) + bytes(3), np.uint8).astype(np.uint32)
        four = ((code[:-3] << 5 | code[1:-2]) << 5 | code[2:-1]) << 5 | code[3:]
        lower = data.lower()
        for at in np.flatnonzero(known.begins[four[: stop - start]]).tolist():
            match = known.pattern.match(lower, at)
            if match:
                yield start + at, match[1]


def _code(char: str) -> int:
    """Letters of either case; figures; signs that are in keywords; all others."""
    if char.isascii() and char.isalpha():
        return ord(char.lower()) - ord("a")
    return (
        26 if char in "0123456789" else 27 if char in "_-" else 28 if char in "./" else 29 if char in ":=~($% " else 30
    )


_Trie = dict[str, "_Trie | str"]  # "" → what must be behind the word that ends here


def _pattern(node: _Trie) -> str:
    """The words of a trie, of two that begin alike the longer first."""
    branches = [re.escape(char) + _pattern(child) for char, child in sorted(node.items()) if isinstance(child, dict)]
    if "" in node:
        branches.append(f"(?={node['']})" if node[""] else "")
    return branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"
