"""The values of a long JSON list, one at a time: in the memory of the longest of them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from helix.errors import InputRefused

_BLOCK: Final = 1 << 20  # bytes read at a time; of a value that is longer, as many as are held already
_EDGE: Final = 16  # characters before the end of what was read, in which a fault may be that there is more to read
_BETWEEN: Final = re.compile(r"[ \t\n\r]*")
_MARK: Final = "\ufeff"
_DECODER: Final = json.JSONDecoder()


class Value(NamedTuple):
    """One value of a list. It lies in the file from byte `start` to `end`."""

    start: int
    end: int
    raw: bytes  # as it is written
    value: Any


class _Text:
    """A window on a file of UTF-8: what is read and not yet passed."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        file.seek(0)
        self._file, self._longest = file, longest
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.text = ""
        self.at = 0  # place in the text
        self.whole = False  # nothing is left to read
        self.offset = 0  # bytes of the file that lie before `at`
        self.more()

    def more(self) -> None:
        """Read on, and drop what is passed.

        Raises:
            ValueError: it is not UTF-8.
            InputRefused: more is held than may be.
        """
        self.text, self.at = self.text[self.at :], 0
        if len(self.text) > self._longest:
            raise InputRefused(
                f"a value of its list has more than {self._longest} bytes", "raise HELIX_MAX_DOCUMENT_BYTES"
            )
        data = self._file.read(max(_BLOCK, len(self.text)))
        self.whole = not data
        self.text += self._decoder.decode(data, final=self.whole)

    def passed(self, end: int) -> bytes:
        """The bytes up to a place, which are passed by that."""
        raw = self.text[self.at : end].encode()
        self.offset, self.at = self.offset + len(raw), end
        return raw

    def next(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            blank = _BETWEEN.match(self.text, self.at)
            self.passed(blank.end() if blank else self.at)
            if self.at < len(self.text) or self.whole:
                return self.text[self.at : self.at + 1]
            self.more()


def values_of(file: BinaryIO, longest: int) -> Iterator[Value]:
    """The values of a file that is one JSON list.

    Args:
        longest: characters of one value; a longer one is refused.

    Raises:
        ValueError: it is no JSON list, or not the whole of one.
        InputRefused: a value is too long.
    """
    window = _Text(file, longest)
    if window.next() == _MARK:
        window.passed(window.at + 1)
    if window.next() != "[":
        raise ValueError("it is no list")
    window.passed(window.at + 1)
    mark = window.next()
    while mark != "]":
        yield _value(window)
        mark = window.next()
        if mark == ",":
            window.passed(window.at + 1)
            window.next()
        elif mark != "]":
            raise ValueError("the list has no end" if not mark else "two of its values have no comma between them")
    window.passed(window.at + 1)
    if window.next():
        raise ValueError("something lies behind the list")


def _value(window: _Text) -> Value:
    while True:
        try:
            value, end = _DECODER.raw_decode(window.text, window.at)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated string") or error.pos > len(window.text) - _EDGE
            if window.whole or not cut:
                raise
        except RecursionError:
            raise ValueError("nested too deep") from None
        else:
            if end < len(window.text) or window.whole:  # else a number may go on
                start, raw = window.offset, window.passed(end)
                return Value(start, start + len(raw), raw, value)
        window.more()
