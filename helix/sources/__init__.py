"""Bytes → sessions and turns. One adapter a file; this is their register."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from helix.errors import InputRefused, UsageError
from helix.sources import captions, claude_code, generic_jsonl, markdown
from helix.sources.claude_code import TOOL_CHARS
from helix.sources.decode import decode
from helix.sources.shared import looks_like_json
from helix.types import Document, Parsed

__all__ = ["FORMATS", "JSON_FORMATS", "Adapter", "decode", "detect", "parse"]


class Adapter(Protocol):
    """One format: a module with a name, a test on the first lines, and a parser."""

    NAME: str

    def detect(self, head: str, path: str) -> bool:
        """Whether this is the format, by content."""
        ...

    def parse(self, document: Document) -> Parsed:
        """Sessions and turns, with what could not be taken."""
        ...


_HEAD_CHARS: Final = 1 << 16

# In the order in which they are asked; Markdown is what remains.
FORMATS: Final[Mapping[str, Adapter]] = {
    captions.NAME: captions,
    claude_code.NAME: claude_code,
    generic_jsonl.NAME: generic_jsonl,
    markdown.NAME: markdown,
}

JSON_FORMATS: Final = frozenset({claude_code.NAME, generic_jsonl.NAME})
"""Formats whose documents are JSON lines."""


def detect(document: Document) -> Adapter:
    """The adapter for a text, by its first 64 kB of whole lines, never by its name.

    Raises:
        InputRefused: JSON of no known layout.
    """
    head = _head(document.text)
    for name, adapter in FORMATS.items():
        if name != markdown.NAME and adapter.detect(head, document.path):
            return adapter
    if looks_like_json(head):
        raise InputRefused(
            "unknown format: JSON, but neither a Claude Code log nor one turn a line",
            "convert it to JSON lines with one turn a line, or name it with --format",
        )
    return markdown


def parse(document: Document, format: str = "auto", tool_chars: int = TOOL_CHARS) -> Parsed:
    """Sessions and turns of one document.

    `format`: a name in FORMATS, or `auto`. `tool_chars`: characters kept of one tool result of an agent's log.

    Raises:
        UsageError: no such format.
        InputRefused: nothing in it can be read as that format.
    """
    if format != "auto" and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", f"use auto or one of {', '.join(sorted(FORMATS))}")
    adapter = detect(document) if format == "auto" else FORMATS[format]
    return claude_code.parse(document, tool_chars) if adapter is claude_code else adapter.parse(document)


def _head(text: str) -> str:
    """At least the first 64 kB, to the end of a line: half a record would tell nothing."""
    end = text.find("\n", _HEAD_CHARS)
    return text if end < 0 else text[:end]
