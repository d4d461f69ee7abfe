"""A benchmark set for Helix: documents for the normal ingest, and questions with gold turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson


class Question(NamedTuple):
    """A question. `gold` has native turn ids, each after its session and a tab: an id is unique in its session only."""

    project: str | None  # its haystack; None: the whole store
    text: str
    gold: frozenset[str]
    kind: str = ""
    grades: Mapping[str, float] | None = None  # of the gold, above 0; None: all alike
    at: datetime | None = None  # its moment, aware; None: a day after the last turn of its haystack
    newest: str | None = None  # the last said of its gold, where the order of the gold matters
    related: frozenset[str] = frozenset()  # turns that say something of the same, though not the answer
    doubted: bool = False  # its gold is known to be wrong


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Documents to ingest, and questions about them."""

    documents: tuple[Path, ...]
    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)  # questions, by reason
    notes: tuple[str, ...] = ()  # remarks on the gold
    unanswerable: tuple[Question, ...] = ()  # questions that their haystack is known not to answer


def turn_key(session: str, identity: object) -> str:
    """Return a gold turn."""
    return f"{session}\t{identity}"


def make_passage(identity: str, text: str, project: str, title: str = "") -> dict[str, Any]:
    """Return a line for the normal ingest: a document in a session of its own, joined to others by words only."""
    line = {"session": f"corpus/{identity}", "id": identity, "role": "document", "text": text, "project": project}
    return {**line, "title": title} if title else line


def passage_key(identity: str) -> str:
    """Return a gold passage."""
    return turn_key(f"corpus/{identity}", identity)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON lines for the normal ingest."""
    with path.open("wb") as file:
        for line in lines:
            file.write(orjson.dumps(line) + b"\n")
    return path


def count_note(n: int, text: str) -> tuple[str, ...]:
    """Return a note that starts with a number; nothing for 0."""
    return (f"{n} {text}",) if n else ()
