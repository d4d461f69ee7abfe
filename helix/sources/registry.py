"""The register of source formats: detection, parsing and collection by their adapters, one file each.

An adapter is imported when it is asked for first, so that a note does not wait for thirty of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from helix.errors import InputRefused, UsageError
from helix.sources.common.export import Export, ExportAdapter, split_export
from helix.sources.common.exported import is_exported
from helix.sources.common.json_text import looks_like_json
from helix.sources.common.noise import remove_noise
from helix.sources.common.pieces import read_piece
from helix.sources.common.said_at import date_turns
from helix.sources.common.sample import Sample, take_sample
from helix.sources.common.session_text import SessionText
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed


class Adapter(Protocol):
    """One format: a module with a name, a test on a sample, and a parser."""

    NAME: str
    JSON: bool  # JSON, or JSON lines
    GROWS: bool  # sources of this format grow at their end, by whole lines: new lines can be read alone

    def detect(self, sample: Sample) -> bool:
        """Return whether this is the format, by content."""
        ...

    def parse(self, document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
        """Return sessions, problems and counts. `tool_chars`: characters retained of one tool result."""
        ...


class Collector(Protocol):
    """An adapter of a database, or of a format with several files for a session."""

    def collect(self, path: Path) -> Iterator[SessionText] | None:
        """Return the texts of a source, one a session; None for a file of another format."""
        ...

    def is_companion(self, path: Path) -> bool:
        """Return whether a file is read together with another one."""
        ...


# In the order of detection; Markdown is the default. A format's module has its name.
_NAMES: Final = (
    "note",
    "team",
    "vault",
    "captions",
    "claude-code",
    "codex",
    "gemini",
    "opencode",
    "cursor",
    "copilot",
    "copilot-cli",
    "chatgpt",
    "claude-ai",
    "slack",
    "swe-agent",
    "kimi",
    "droid",
    "qwen",
    "pi",
    "grok",
    "hermes",
    "antigravity",
    "amp",
    "cline",
    "zed",
    "kiro",
    "jsonl",
    "specstory",
    "aider",
    "meeting",
    "markdown",
)
_MODULES: Final = {"jsonl": "generic_jsonl"}

_COLLECTORS: Final = (
    "exported_lines",
    "exported_parquet",
    "opencode",
    "cursor",
    "slack",
    "claude_code",
    "kimi",
    "grok",
    "antigravity",
    "cline",
    "zed",
    "kiro",
)
_EXPORTS: Final = ("chatgpt", "claude-ai")


class _Formats(Mapping[str, Adapter]):
    """The adapters by their names, in the order of detection."""

    def __getitem__(self, name: str) -> Adapter:
        if name not in _NAMES:
            raise KeyError(name)
        adapter: Adapter = _load(_MODULES.get(name, name.replace("-", "_")))
        return adapter

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


FORMATS: Final = _Formats()


def _load(module: str) -> Any:
    return import_module(f"helix.sources.{module}")


def detect(document: Document) -> Adapter:
    """Return the adapter for a text, by its content, never by its name.

    Raises:
        InputRefused: JSON of no known layout.
    """
    sample = take_sample(document.text, document.path)
    if any(map(is_exported, sample.records[:1])):
        return FORMATS["jsonl"]
    for adapter in map(FORMATS.__getitem__, _NAMES[:-1]):
        if adapter.detect(sample):
            return adapter
    if looks_like_json(sample.head):
        raise InputRefused(
            "unknown format: JSON, but no agent's log or export that Helix knows",
            "convert it to JSON lines with one turn a line, or name its format with --format (docs/formats.md)",
        )
    return FORMATS["markdown"]


def parse(document: Document, format: str = "auto", tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the sessions and turns of one document; turns without a time have the session's or the file's.

    Args:
        format: a name in FORMATS, or `auto`.
        tool_chars: characters retained of one tool result of an agent's log.

    Raises:
        UsageError: no such format.
        InputRefused: the document cannot be read as that format.
    """
    if format != "auto" and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", f"use auto or one of {', '.join(sorted(FORMATS))}")
    adapter = detect(document) if format == "auto" else FORMATS[format]
    parsed = read_piece(document, adapter.NAME) or adapter.parse(document, tool_chars)
    return remove_noise(date_turns(parsed, document.mtime))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the texts of a database, or of a source with several files for a session; None for any other file.

    Raises:
        InputRefused: it is one, and cannot be read.
    """
    sources = (collector.collect(path) for collector in _list_collectors())
    return next((texts for texts in sources if texts is not None), None)


def is_companion(path: Path) -> bool:
    """Return whether a file is read together with another one, and is no input of its own."""
    return any(collector.is_companion(path) for collector in _list_collectors())


def _list_collectors() -> Iterator[Collector]:
    yield from map(_load, _COLLECTORS)


def split(file: BinaryIO, path: str, format: str, longest: int) -> Export | None:
    """Return the conversations of an export; None for any other file.

    Args:
        format: a name in FORMATS, or `auto`.
        longest: characters of one conversation.

    Raises:
        InputRefused: it is not a whole export; a conversation is longer than `longest`.
    """
    adapters: list[ExportAdapter] = [_load(name.replace("-", "_")) for name in _EXPORTS if format in ("auto", name)]
    return split_export(file, path, adapters, longest)
