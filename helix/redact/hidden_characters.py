r"""Hidden characters inside secrets and names: needless JSON escapes, characters without width.

A writer may put `\u0070assword` for `password`; text copied from a page has invisible characters. Rules search
a copy without them, which maps its places back to the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from helix.redact.rules import Secret
from helix.redact.values import regex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INVISIBLE: Final = "\xad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
# Escapes of letters and digits, which no writer needs, and of characters without width.
ESCAPE: Final = "\\u"
ESCAPED: Final = r"(?:00(?:2d|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|ad)|180e|200[b-f]|206[0-4]|feff)"
"""A pattern, over lower case, of what follows `ESCAPE` in an escape that hides a character."""
_LAST: Final = 0xFFFF  # no character; all later characters have width
_NEIGHBOUR: Final = r"[\w\"'\\:=-]"  # next to one of these, no width hides something; next to an emoji it does not


class MappedText(NamedTuple):
    """A changed copy of a text, in pieces that map back to it."""

    text: str
    starts: tuple[int, ...]  # of the pieces, in the copy
    places: tuple[int, ...]  # of the pieces, in the text
    ends: tuple[int, ...]  # in the text

    def map_back(self, span: Secret) -> Secret:
        """Map a span of the copy to the text."""
        return span._replace(start=self._map_start(span.start), stop=self._map_stop(span.stop))

    def _map_start(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return min(self.places[piece] + at - self.starts[piece], self.ends[piece])

    def _map_stop(self, at: int) -> int:
        piece = bisect_right(self.starts, at - 1) - 1
        inner = self.places[piece] + at - self.starts[piece]
        # An escaped letter is one piece, longer in the text.
        is_last = at == (self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text))
        return self.ends[piece] if is_last else inner


def remove_hidden(text: str, escapes: Iterable[int]) -> MappedText | None:
    """Return a copy with letters for escapes and without invisible characters, or None if nothing is hidden.

    Args:
        escapes: places of escapes that may hide something.
    """
    hidden = sorted([*_find_escapes(text, escapes), *_find_invisible(text)])
    if not hidden:
        return None
    pieces: list[tuple[str, int, int]] = []
    end = 0
    for start, stop, plain in hidden:
        pieces += [(text[end:start], end, start), (plain, start, stop)]
        end = stop
    return join_pieces([*pieces, (text[end:], end, len(text))])


def _find_escapes(text: str, escapes: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, stop, character) of each escape that hides something."""
    for at in escapes:
        start, stop = at, at + len(ESCAPE) + 4
        while start and text[start - 1] == "\\":
            start -= 1
        char = chr(int(text[stop - 4 : stop], 16))
        if char not in _INVISIBLE:
            yield start, stop, char
        elif _is_next_to_word(text, start, stop) and text[start - 6 : start - 4] != ESCAPE:
            yield start, stop, ""


def _find_invisible(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, stop, "") of each invisible character that hides something."""
    if _has_invisible(text):
        for match in regex(f"[{_INVISIBLE}]").finditer(text):
            if _is_next_to_word(text, *match.span()):
                yield *match.span(), ""


def _has_invisible(text: str) -> bool:
    """Return whether a text has invisible characters, five times faster than a pattern does."""
    if text.isascii():
        return False
    import numpy as np  # not at import, which must stay light

    chars = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    rare = chars[chars >= ord(_INVISIBLE[0])]
    return bool(_build_invisible_table()[np.minimum(rare, _LAST)].any())


@cache
def _build_invisible_table() -> NDArray[np.bool_]:
    import numpy as np

    table = np.zeros(_LAST + 1, bool)
    table[[ord(char) for char in _INVISIBLE]] = True
    return table


def _is_next_to_word(text: str, start: int, stop: int) -> bool:
    near = regex(_NEIGHBOUR, re.ASCII)
    return (start > 0 and near.match(text, start - 1) is not None) or near.match(text, stop) is not None


def join_pieces(pieces: list[tuple[str, int, int]]) -> MappedText:
    """Join pieces (text, place, end) into a copy; empty ones drop out."""
    starts: list[int] = []
    length = 0
    kept = [piece for piece in pieces if piece[0]] or pieces[:1]
    for part, _, _ in kept:
        starts.append(length)
        length += len(part)
    text = "".join(part for part, _, _ in kept)
    return MappedText(text, tuple(starts), tuple(place for _, place, _ in kept), tuple(end for _, _, end in kept))
