"""What parts a secret, or its name, from the patterns of it: escapes, characters without width, a terminal's line ends.

A writer may put `\\u0070assword` for `password`; copies from a page bring characters along that nobody sees; and a
terminal of 80 columns breaks a token in two. Each is undone in a copy, with the way back from a place in the copy to
the place in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from helix.redact.kinds import Found, Rule
from helix.redact.rules import NEWLINE
from helix.redact.values import random, regex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INVISIBLE: Final = "\xad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
# Letters and figures, which no writer needs to escape, and what has no width.
ESCAPE: Final = "\\u"
ESCAPED: Final = r"(?:00(?:2d|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|ad)|180e|200[b-f]|206[0-4]|feff)"
"""What stands behind an escape that hides something, in lower case."""
_LAST: Final = 0xFFFF  # no character has it, and those that have more have width
_BESIDE: Final = r"[\w\"'\\:=-]"  # what has no width hides something beside one of these; about an emoji it is right


class Copy(NamedTuple):
    """A text without what hides things in it, and where its pieces stood."""

    text: str
    starts: tuple[int, ...]  # of the pieces, in the copy
    places: tuple[int, ...]  # of the same, in the text
    ends: tuple[int, ...]  # in the text

    def back(self, found: Found) -> Found:
        """Return what was found in the copy, in the text."""
        return found._replace(start=self._place(found.start), stop=self._end(found.stop))

    def _place(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return min(self.places[piece] + at - self.starts[piece], self.ends[piece])

    def _end(self, at: int) -> int:
        piece = bisect_right(self.starts, at - 1) - 1
        inner = self.places[piece] + at - self.starts[piece]
        # A letter that was escaped is one piece, and longer in the text.
        last = at == (self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text))
        return self.ends[piece] if last else inner


def shown(text: str, escapes: Iterable[int]) -> Copy | None:
    """The text with escaped letters as themselves and without what has no width; None where nothing is hidden.

    Args:
        escapes: where those stand that may hide something.
    """
    hidden = sorted([*_escaped(text, escapes), *_invisible(text)])
    if not hidden:
        return None
    pieces: list[tuple[str, int, int]] = []
    end = 0
    for start, stop, plain in hidden:
        pieces += [(text[end:start], end, start), (plain, start, stop)]
        end = stop
    return _copy([*pieces, (text[end:], end, len(text))])


def _escaped(text: str, escapes: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Escapes that hide something: from, to, and what they stand for."""
    for at in escapes:
        start, stop = at, at + len(ESCAPE) + 4
        while start and text[start - 1] == "\\":
            start -= 1
        char = chr(int(text[stop - 4 : stop], 16))
        if char not in _INVISIBLE:
            yield start, stop, char
        elif _is_beside(text, start, stop) and text[start - 6 : start - 4] != ESCAPE:
            yield start, stop, ""


def _invisible(text: str) -> Iterator[tuple[int, int, str]]:
    """Characters without width that hide something, the same way."""
    if _has_invisible(text):
        for match in regex(f"[{_INVISIBLE}]").finditer(text):
            if _is_beside(text, *match.span()):
                yield *match.span(), ""


def _has_invisible(text: str) -> bool:
    """Return whether there is any, in a fifth of the time in which a pattern tells."""
    if text.isascii():
        return False
    import numpy as np  # only here: who imports this may not want it

    chars = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    rare = chars[chars >= ord(_INVISIBLE[0])]
    return bool(_table()[np.minimum(rare, _LAST)].any())


@cache
def _table() -> NDArray[np.bool_]:
    import numpy as np

    table = np.zeros(_LAST + 1, bool)
    table[[ord(char) for char in _INVISIBLE]] = True
    return table


def _is_beside(text: str, start: int, stop: int) -> bool:
    near = regex(_BESIDE, re.ASCII)
    return (start > 0 and near.match(text, start - 1) is not None) or near.match(text, stop) is not None


def _copy(pieces: list[tuple[str, int, int]]) -> Copy:
    starts: list[int] = []
    length = 0
    kept = [piece for piece in pieces if piece[0]] or pieces[:1]
    for part, _, _ in kept:
        starts.append(length)
        length += len(part)
    text = "".join(part for part, _, _ in kept)
    return Copy(text, tuple(starts), tuple(place for _, place, _ in kept), tuple(end for _, _, end in kept))


# --- lines that a terminal broke --------------------------------------------------------------------------------------

_RUN: Final = r"[\w+/=.~%-]*+"
_BREAK: Final = rf"{NEWLINE}[ \t]{{0,8}}(?:\d{{1,6}}(?:→|\t|\\{{1,4}}t))?(?:[│|>][ ]?)?(?=[\w+/=.~%-])"
_NARROWEST: Final = 40  # columns of a terminal
_BEFORE: Final = 64  # characters before a token that tell whether it begins there
_MOST_LINES: Final = 64
_LONGEST_LINE: Final = 512


def _is_full(text: str, at: int) -> bool:
    """Return whether the line that ends at `at` is long enough for a terminal to have broken it there."""
    begin = max(0, at - _NARROWEST)
    return at >= _NARROWEST and text.find("\n", begin, at) < 0 and text.find("\\n", begin, at) < 0


def joined(text: str, at: int) -> Copy | None:
    """A token that begins at `at`, and what stands before it, without the line ends in it; None where it has none."""
    run = regex(_RUN, re.ASCII).match(text, at)
    end = run.end() if run else at
    gap = regex(_BREAK, re.ASCII).match(text, end)
    if gap is None or not _is_full(text, end):
        return None
    begin = max(0, at - _BEFORE)
    pieces = [(text[begin:end], begin, end)]
    for _ in range(_MOST_LINES):
        run = regex(_RUN, re.ASCII).match(text, gap.end(), gap.end() + _LONGEST_LINE)
        end = run.end() if run else gap.end()
        pieces.append((text[gap.end() : end], gap.end(), end))
        gap = regex(_BREAK, re.ASCII).match(text, end)
        if gap is None or not _is_full(text, end):
            break
    return _copy(pieces)


def across_lines(rule: Rule, whole: int) -> Rule:
    """The rule of a token, which also finds one that was broken over lines.

    Args:
        whole: characters of the token that is whole; a shorter one that ends with its line goes on behind it.
    """

    def find(text: str, at: int) -> Iterator[Found]:
        found = [*rule(text, at)]
        if not found or found[0].stop - found[0].start < whole:
            copy = joined(text, at)
            if copy is not None:
                begin = copy.places[0]
                longer = [copy.back(each) for each in rule(copy.text, at - begin)]
                if longer and longer[0].stop > copy.ends[0] and (not found or longer[0].stop > found[0].stop):
                    found = longer
        yield from found

    return find


_REST: Final = r"((?![\w.+-]{1,64}=[^\s=])[\w+/=.~%-]{4,512}+)(?=\s|\\|[\"'`,;)}\]]|\Z)"


def goes_on(text: str, stop: int) -> int:
    """Return where a secret ends that seems to end with its line at `stop`: a terminal may have broken it there."""
    gap = regex(_BREAK, re.ASCII).match(text, stop)
    while gap is not None and _is_full(text, stop):
        rest = regex(_REST, re.ASCII).match(text, gap.end())
        if rest is None or not _is_rest(rest[1]):
            break
        stop = rest.end()
        gap = regex(_BREAK, re.ASCII).match(text, stop)
    return stop


def _is_rest(run: str) -> bool:
    """Return whether this is the rest of something random, and not the first word of another line."""
    figures = sum(c.isdigit() for c in run)
    letters = sum(c.isalpha() for c in run)
    return random(run) or (figures > 0 and letters > 0 and not run.islower() and figures + letters > 0.8 * len(run))
