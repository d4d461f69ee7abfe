"""Templates: text with calls `‹hex 40›`, secrets `⟪kind¦value⟫` and look-alikes `⟨value⟩`, nested at will.

A call is a name, a space and its arguments. `¦` separates alternatives or longer arguments; in lists of lines, a line
break may follow it. `‹let name value›` stores a value for `‹name›`, and `‹one a¦b›` renders all its alternatives and
picks one. `values.Values` holds the other calls.

While a text is rendered, marks from Unicode's private use area enclose secrets and look-alikes; JSON leaves them alone.
`read_marks` turns them into spans.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

OPEN, NAMED, CLOSE, LIKE, END = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
_MARKED = re.compile("\ue000([^\ue001]*)\ue001([^\ue002]*)\ue002|\ue003([^\ue004]*)\ue004", re.DOTALL)
_BRACKETS = {"‹": "›", "⟪": "⟫", "⟨": "⟩"}

Sequence = tuple[Any, ...]  # of texts and nodes
Node = tuple[str, tuple[Sequence, ...]]  # an opening bracket, and the sequences between ¦


@dataclass(frozen=True, slots=True)
class Planted:
    """A value at [start, stop) of a log. `kind` is "" for a look-alike."""

    kind: str
    value: str
    start: int
    stop: int


@cache
def parse_template(template: str) -> Sequence:
    """Parse a template into texts and nodes."""
    pieces = re.split("([‹›⟨⟩⟪⟫¦])", template)[::-1]
    (sequence,) = _parse_until(pieces, "\0")
    return sequence


def _parse_until(pieces: list[str], end: str) -> tuple[Sequence, ...]:
    sequences: list[list[Any]] = [[]]
    while pieces and (piece := pieces.pop()) != end:
        if piece in _BRACKETS:
            sequences[-1].append((piece, _parse_until(pieces, _BRACKETS[piece])))
        elif piece == "¦":
            sequences.append([])
        elif piece:
            sequences[-1].append(piece)
    return tuple(map(tuple, sequences))


def read_sections(name: str) -> list[tuple[str, str]]:
    """Read the sections (name, text) of a data file; `@@@ name 3` repeats one three times."""
    sections = re.split(r"(?m)^@@@ (\w+)(?: (\d+))?\n", Path(__file__).with_name(name).read_text("utf-8"))[1:]
    return [
        (title, text.removesuffix("\n"))
        for title, count, text in zip(sections[::3], sections[1::3], sections[2::3], strict=True)
        for _ in range(int(count or 1))
    ]


def mark_secret(kind: str, value: str) -> str:
    """Enclose a secret in marks."""
    return f"{OPEN}{kind}{NAMED}{value}{CLOSE}"


def read_marks(marked: str) -> tuple[str, list[Planted]]:
    """Return a text without its marks, and the values they enclosed."""
    pieces: list[str] = []
    planted: list[Planted] = []
    length = end = 0
    for match in _MARKED.finditer(marked):
        kind, value = (match[1], match[2]) if match[2] is not None else ("", match[3])
        start = length + match.start() - end
        pieces += (marked[end : match.start()], value)
        length, end = start + len(value), match.end()
        planted.append(Planted(kind, value, start, length))
    return "".join((*pieces, marked[end:])), planted
