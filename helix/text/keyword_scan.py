"""Where in a text any of some hundred keywords stands, whatever its case.

Trying them one after the other reads the text once for each, and a pattern of them all tries every letter of it. Here
tables of characters rule out most places at once, in a few passes of numpy (some 5 ns a character); a pattern decides
on the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEP: Final = 1 << 17  # characters looked at at once
_GROUPS: Final = 1024  # of beginnings of keywords
_AHEAD: Final = 256  # characters that tell whether a keyword stands somewhere, and what must be behind it


class Keywords(NamedTuple):
    """What `find` needs to know of a set of keywords."""

    code: bytes  # byte → a number under 32
    begins: NDArray[np.bool_]  # the numbers of four characters, five bits each → whether a keyword may begin so
    group: NDArray[np.intp]  # the same → a number under `_GROUPS`; 0: one that may go on in any way
    goes_on: NDArray[np.bool_]  # that number, and those of the next two characters → whether a keyword may go on so
    pattern: re.Pattern[bytes]


def keywords(behind: Mapping[str, str]) -> Keywords:
    """Prepares a set of keywords.

    Args:
        behind: keyword, ASCII, lower case → a pattern of what must stand behind it, "" for anything. The pattern sees
            lower case, and a question mark for each character beyond ASCII.
    """
    import numpy as np  # only here: who imports this may not want it

    code = bytes(_code(chr(byte)) for byte in range(256))
    begins, group = np.zeros((32,) * 4, bool), np.zeros((32,) * 4, np.intp)
    goes_on = np.zeros((_GROUPS, 32, 32), bool)
    root: _Trie = {}
    groups: dict[tuple[int, ...], int] = {}
    for word, following in behind.items():
        numbers = [code[ord(char)] for char in word]
        begins[tuple(numbers[:4])] = True
        if len(word) >= 4:
            numbered = groups.setdefault(tuple(numbers[:4]), 1 + len(groups) % (_GROUPS - 1))
            group[tuple(numbers[:4])] = numbered
            goes_on[(numbered, *numbers[4:6])] = True
        node = root
        for char in word:
            child = node.setdefault(char, {})
            if isinstance(child, dict):
                node = child
        node[""] = following
    for word in behind:
        if len(word) < 4:  # what begins as a short one does may go on in any way
            group[tuple(code[ord(char)] for char in word)] = 0
    goes_on[0] = True
    pattern = re.compile(f"({_pattern(root)})".encode())
    return Keywords(code, begins.reshape(-1), group.reshape(-1), goes_on.reshape(-1), pattern)


def find(text: str, begin: int, end: int, known: Keywords) -> Iterator[tuple[int, bytes]]:
    """The places in [begin, end) where keywords begin, in order, each with the longest that begins there."""
    import numpy as np

    for start in range(begin, end, _STEP):
        stop = min(start + _STEP, end)
        # A byte a character, so that places stay what they are; str.lower() may lengthen.
        data = text[start : stop + _AHEAD].encode("ascii", "replace")
        code = np.frombuffer(data.translate(known.code) + bytes(5), np.uint8).astype(np.uint16)
        two = code[:-1] << 5 | code[1:]
        # Whole words of the machine: numpy would make such ones of any others, which takes longer.
        four = two[: stop - start].astype(np.intp) << 10 | two[2 : stop - start + 2]
        places = np.flatnonzero(known.begins.take(four, mode="wrap"))
        places = places[known.goes_on.take(known.group[four[places]] << 10 | two[places + 4], mode="wrap")]
        lower = data.lower()
        for at in places.tolist():
            match = known.pattern.match(lower, at)
            if match:
                yield start + at, match[1]


_CLASSES: Final = ("0123456789", "_-", "./", ":=~($% ", "<")  # of signs that are in keywords


def _code(char: str) -> int:
    """Letters of either case; figures; signs that are in keywords; last, all others."""
    if char.isascii() and char.isalpha():
        return ord(char.lower()) - ord("a")
    return next((26 + n for n, signs in enumerate(_CLASSES) if char in signs), 31)


_Trie = dict[str, "_Trie | str"]  # "" → what must be behind the word that ends here


def _pattern(node: _Trie) -> str:
    """The words of a trie, of two that begin alike the longer first."""
    branches = [re.escape(char) + _pattern(child) for char, child in sorted(node.items()) if isinstance(child, dict)]
    if "" in node:
        branches.append(f"(?={node['']})" if node[""] else "")
    return branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"
