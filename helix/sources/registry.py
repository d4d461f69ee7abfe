"""Bytes → sessions and turns. One adapter a file; this is their register."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from helix.errors import InputRefused, UsageError
from helix.sources import (
    aider,
    captions,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    copilot,
    copilot_cli,
    cursor,
    gemini,
    generic_jsonl,
    markdown,
    meeting,
    opencode,
    slack,
    specstory,
    swe_agent,
)
from helix.sources.common.clean import clean
from helix.sources.common.collected import Collected
from helix.sources.common.cut import uncut
from helix.sources.common.decode import decode
from helix.sources.common.sample import Sample, sample
from helix.sources.common.shared import looks_like_json
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed

__all__ = ["FORMATS", "JSON_FORMATS", "Adapter", "belongs", "collect", "decode", "detect", "parse"]


class Adapter(Protocol):
    """One format: a module with a name, a test on a sample, and a parser."""

    NAME: str
    JSON: bool  # JSON, or JSON lines
    GROWS: bool  # sources of this format grow at their end, a whole line at a time: what is new can be taken alone

    def detect(self, sample: Sample) -> bool:
        """Whether this is the format, by content."""
        ...

    def parse(self, document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
        """Sessions and turns, with what could not be taken. `tool_chars`: characters kept of one tool result."""
        ...


class Collector(Protocol):
    """An adapter of what is no text itself, or not in one file."""

    def collect(self, path: Path) -> Iterator[Collected] | None:
        """Its texts, one a session; None where the file is not its own."""
        ...

    def belongs(self, path: Path) -> bool:
        """Whether a file is read together with another one."""
        ...


# In the order in which they are asked; Markdown is what remains.
_ADAPTERS: Final[tuple[Adapter, ...]] = (
    captions,
    claude_code,
    codex,
    gemini,
    opencode,
    cursor,
    copilot,
    copilot_cli,
    chatgpt,
    claude_ai,
    slack,
    swe_agent,
    generic_jsonl,
    specstory,
    aider,
    meeting,
    markdown,
)

_COLLECTORS: Final[tuple[Collector, ...]] = (opencode, cursor, slack)
FORMATS: Final[Mapping[str, Adapter]] = {adapter.NAME: adapter for adapter in _ADAPTERS}

JSON_FORMATS: Final = frozenset(adapter.NAME for adapter in _ADAPTERS if adapter.JSON)
"""Formats whose documents are JSON, or JSON lines."""


def detect(document: Document) -> Adapter:
    """The adapter for a text, by its content, never by its name.

    Raises:
        InputRefused: JSON of no known layout.
    """
    seen = sample(document.text, document.path)
    for adapter in _ADAPTERS:
        if adapter is not markdown and adapter.detect(seen):
            return adapter
    if looks_like_json(seen.head):
        raise InputRefused(
            f"unknown format: JSON, but none of {', '.join(name for name in FORMATS if FORMATS[name].JSON)}",
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
    return clean(uncut(document, adapter.NAME) or adapter.parse(document, tool_chars))


def collect(path: Path) -> Iterator[Collected] | None:
    """The texts of a source that is no text itself, or not in one file: a database, an export. None for any other.

    Raises:
        InputRefused: it is one, and cannot be read.
    """
    found = (collector.collect(path) for collector in _COLLECTORS)
    return next((texts for texts in found if texts is not None), None)


def belongs(path: Path) -> bool:
    """Whether a file is read together with another one, and is no input of its own."""
    return any(collector.belongs(path) for collector in _COLLECTORS)
