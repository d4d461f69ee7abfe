"""Notes of `helix export --markdown`: a session a note, its turns as quotes.

The last block of a note is a code block with a JSON line for each turn: the line of `helix export --jsonl` without its
text. The text is the quote above the turn's block id, so a note that was edited is read as edited. Index, decisions
and entities are made of the same turns, and give none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from helix.errors import InputRefused
from helix.sources.common.quoted_text import unquote_lines
from helix.sources.common.sample import Sample
from helix.sources.common.tools import TOOL_CHARS
from helix.sources.generic_jsonl import parse as parse_lines
from helix.types import Document, Parsed

NAME = "vault"
JSON = False
GROWS = False

_KINDS: Final = "session|index|decisions|entity"
_MARK: Final = re.compile(
    rf"\ufeff?\s*---[ \t]*\n(?:[^\n]*\n){{0,60}}?helix:[ \t]*[\"']?(?P<kind>{_KINDS})[\"']?[ \t]*\n"
)
_ANCHOR: Final = re.compile(r"\^t([1-9][0-9]{0,8})[ \t]*")
DATA: Final = "> ```json helix"
"""First line of the block of JSON lines, inside a quote."""

_END: Final = "> ```"


def detect(sample: Sample) -> bool:
    """Return whether a text begins with the front matter of an exported note."""
    return _read_kind(sample.head) is not None


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of a note; none for a note that only lists.

    Raises:
        InputRefused: the note has lost its block of JSON lines.
    """
    if _read_kind(document.text) != "session":
        return Parsed(())
    lines = document.text.split("\n")
    texts = dict(_read_quotes(lines))
    records = "\n".join(
        orjson.dumps(record if "text" in record else {**record, "text": texts[number]}).decode()
        for number, record in enumerate(_read_records(lines), 1)
        if "text" in record or number in texts
    )
    return parse_lines(Document(document.path, records, document.mtime), tool_chars)


def _read_kind(text: str) -> str | None:
    """Return the kind of an exported note, by its front matter; None for any other text."""
    found = _MARK.match(text)
    return found["kind"] if found and "\n---" not in found[0].strip()[3:] else None


def _read_records(lines: list[str]) -> list[dict[str, Any]]:
    try:
        start = len(lines) - 1 - lines[::-1].index(DATA)
        end = lines.index(_END, start)
        found = [orjson.loads(line.removeprefix("> ")) for line in lines[start + 1 : end]]
    except ValueError:
        raise InputRefused("a note of 'helix export' without its data", "export it again") from None
    if not all(isinstance(record, dict) for record in found):
        raise InputRefused("a note of 'helix export' with damaged data", "export it again")
    return found


def _read_quotes(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each quote that a block id of a turn follows."""
    quote: list[str] = []
    ended = False
    for line in lines:
        if line.startswith(">"):
            quote, ended = ([], False) if ended else (quote, False)
            quote.append(line)
        elif not line.strip():
            ended = bool(quote)
        else:
            found = _ANCHOR.fullmatch(line)
            if found and len(quote) > 1:
                yield int(found[1]), unquote_lines(quote[1:])
            quote, ended = [], False
