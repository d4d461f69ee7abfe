"""Search for some hundred keywords in a text, in any case.

One search per keyword would read the text a hundred times, and one pattern of all of them tries every letter. Here
tables of characters rule out most positions in a few passes of numpy (about 5 ns a character). A pattern decides on
the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEP: Final = 1 << 17  # characters per pass
_GROUPS: Final = 1024  # groups of keyword beginnings
_AHEAD: Final = 256  # characters from a position that decide on a keyword, and on the pattern after it


class Keywords(NamedTuple):
    """The tables of a set of keywords."""

    code: bytes  # byte → a number under 32
    begins: NDArray[np.bool_]  # numbers of four characters, five bits each → whether a keyword may begin with them
    group: NDArray[np.intp]  # the same → a number under `_GROUPS`; 0: any continuation
    continues: NDArray[np.bool_]  # that number, and those of the next two characters → whether a keyword may continue
    pattern: re.Pattern[bytes]


def build_keywords(patterns: Mapping[str, str]) -> Keywords:
    """Build the tables of a set of keywords.

    Args:
        patterns: keyword, ASCII, lower case → the pattern that must follow it, "" for any text. The pattern sees lower
            case, and a question mark for each character beyond ASCII.
    """
    import numpy as np  # importers may not need it

    code = bytes(_classify_character(chr(byte)) for byte in range(256))
    begins, group = np.zeros((32,) * 4, bool), np.zeros((32,) * 4, np.intp)
    continues = np.zeros((_GROUPS, 32, 32), bool)
    root: _Trie = {}
    groups: dict[tuple[int, ...], int] = {}
    for word, following in patterns.items():
        numbers = [code[ord(char)] for char in word]
        begins[tuple(numbers[:4])] = True
        if len(word) >= 4:
            numbered = groups.setdefault(tuple(numbers[:4]), 1 + len(groups) % (_GROUPS - 1))
            group[tuple(numbers[:4])] = numbered
            continues[(numbered, *numbers[4:6])] = True
        node = root
        for char in word:
            child = node.setdefault(char, {})
            if isinstance(child, dict):
                node = child
        node[""] = following
    for word in patterns:
        if len(word) < 4:  # any continuation
            group[tuple(code[ord(char)] for char in word)] = 0
    continues[0] = True
    pattern = re.compile(f"({_build_pattern(root)})".encode())
    return Keywords(code, begins.reshape(-1), group.reshape(-1), continues.reshape(-1), pattern)


def find_keywords(text: str, begin: int, end: int, known: Keywords) -> Iterator[tuple[int, bytes]]:
    """Yield the positions in [begin, end) where keywords begin, in order, each with the longest keyword."""
    import numpy as np

    for start in range(begin, end, _STEP):
        stop = min(start + _STEP, end)
        # One byte per character, so that positions stay; str.lower() may lengthen a text.
        data = text[start : stop + _AHEAD].encode("ascii", "replace")
        code = np.frombuffer(data.translate(known.code) + bytes(5), np.uint8).astype(np.uint16)
        two = code[:-1] << 5 | code[1:]
        # Machine words: numpy would convert any other type, which takes longer.
        four = two[: stop - start].astype(np.intp) << 10 | two[2 : stop - start + 2]
        places = np.flatnonzero(known.begins.take(four, mode="wrap"))
        places = places[known.continues.take(known.group[four[places]] << 10 | two[places + 4], mode="wrap")]
        lower = data.lower()
        for at in places.tolist():
            match = known.pattern.match(lower, at)
            if match:
                yield start + at, match[1]


_CLASSES: Final = ("0123456789", "_-", "./", ":=~($% ", "<")  # of the signs in keywords


def _classify_character(char: str) -> int:
    """Return the class of a character: a letter in any case, a digit, a sign of keywords, or any other."""
    if char.isascii() and char.isalpha():
        return ord(char.lower()) - ord("a")
    return next((26 + n for n, signs in enumerate(_CLASSES) if char in signs), 31)


_Trie = dict[str, "_Trie | str"]  # "" → the pattern that must follow the word that ends here


def _build_pattern(node: _Trie) -> str:
    """Return the pattern of the words of a trie, the longer of two with one beginning first."""
    branches = [re.escape(char) + _build_pattern(next) for char, next in sorted(node.items()) if isinstance(next, dict)]
    if "" in node:
        branches.append(f"(?={node['']})" if node[""] else "")
    return branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"
