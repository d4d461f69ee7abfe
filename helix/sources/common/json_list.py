"""A reader of long JSON lists, one value at a time: in the memory of the longest value."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from helix.errors import InputRefused

_BLOCK: Final = 1 << 20  # bytes read at a time; for a longer value, as many as are held already
_EDGE: Final = 16  # characters before the end of the text, where a fault may only mean that more must be read
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_MARK: Final = "\ufeff"
_DECODER: Final = json.JSONDecoder()


class ListValue(NamedTuple):
    """One value of a list, from byte `start` of the file to `end`."""

    start: int
    end: int
    raw: bytes  # as written
    value: Any


class _Window:
    """Text of a UTF-8 file that is read and not yet passed."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        file.seek(0)
        self._file, self._longest = file, longest
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.text = ""
        self.at = 0  # place in the text
        self.is_whole = False  # the file has no more to read
        self.offset = 0  # bytes of the file before `at`
        self.extend()

    def extend(self) -> None:
        """Read on, and drop the text before `at`.

        Raises:
            ValueError: it is not UTF-8.
            InputRefused: a value is longer than allowed.
        """
        self.text, self.at = self.text[self.at :], 0
        if len(self.text) > self._longest:
            fault = f"a value of its list has more than {self._longest} bytes"
            raise InputRefused(fault, "raise HELIX_MAX_DOCUMENT_BYTES")
        data = self._file.read(max(_BLOCK, len(self.text)))
        self.is_whole = not data
        self.text += self._decoder.decode(data, final=self.is_whole)

    def pass_to(self, end: int) -> bytes:
        """Move to a place, and return the bytes before it."""
        raw = self.text[self.at : end].encode()
        self.offset, self.at = self.offset + len(raw), end
        return raw

    def skip_blank(self) -> str:
        """Move to the next character that is no white space, and return it; empty at the end."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            self.pass_to(blank.end() if blank else self.at)
            if self.at < len(self.text) or self.is_whole:
                return self.text[self.at : self.at + 1]
            self.extend()


def read_list(file: BinaryIO, longest: int) -> Iterator[ListValue]:
    """Yield the values of a file that is one JSON list.

    Args:
        longest: characters of one value.

    Raises:
        ValueError: it is no JSON list, or not a whole one.
        InputRefused: a value is longer than `longest`.
    """
    window = _Window(file, longest)
    if window.skip_blank() == _MARK:
        window.pass_to(window.at + 1)
    if window.skip_blank() != "[":
        raise ValueError("it is no list")
    window.pass_to(window.at + 1)
    mark = window.skip_blank()
    while mark != "]":
        yield _read_value(window)
        mark = window.skip_blank()
        if mark == ",":
            window.pass_to(window.at + 1)
            window.skip_blank()
        elif mark != "]":
            raise ValueError("the list has no end" if not mark else "two of its values have no comma between them")
    window.pass_to(window.at + 1)
    if window.skip_blank():
        raise ValueError("text follows the list")


def _read_value(window: _Window) -> ListValue:
    while True:
        try:
            value, end = _DECODER.raw_decode(window.text, window.at)
        except json.JSONDecodeError as error:
            is_cut = error.msg.startswith("Unterminated string") or error.pos > len(window.text) - _EDGE
            if window.is_whole or not is_cut:
                raise
        except RecursionError:
            raise ValueError("nested too deep") from None
        else:
            if end < len(window.text) or window.is_whole:  # else a number may continue
                start, raw = window.offset, window.pass_to(end)
                return ListValue(start, start + len(raw), raw, value)
        window.extend()
