"""Benchmark sets, as their authors publish them: documents for the normal ingest, and questions with gold turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from helix.errors import InputRefused, UsageError


class Question(NamedTuple):
    """`gold` are native turn ids behind their session and a tab: alone, an id is unique in its session only."""

    project: str | None  # its haystack; None: the whole store
    text: str
    gold: frozenset[str]
    kind: str = ""
    grades: Mapping[str, float] | None = None  # of the gold, above 0; None: all alike
    at: datetime | None = None  # when it is asked, aware; None: a day after the last turn of its haystack


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Documents to ingest, and questions about them."""

    documents: tuple[Path, ...]
    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)  # questions, by reason
    notes: tuple[str, ...] = ()  # what else is to be known of the gold, in words


# The adapter of each set. Those that share a layout share a module.
SETS: Mapping[str, str] = {
    "locomo": "locomo",
    "beam": "beam",
    "longmemeval": "longmemeval",
    "qmsum": "qmsum",
    "musique": "hipporag",
    "hotpotqa": "hipporag",
    "2wikimultihopqa": "hipporag",
    "beir": "beir",
    "ir": "ir",
    "cranfield": "ir",
    "npl": "ir",
}

Convert = Callable[[Path, Path, str], Benchmark]
"""What an adapter is: (where the set lies, the folder to write documents to, its name) → the set."""

NO_GOLD = "no gold turn"
NO_TEXT = "no text"


def read(name: str, path: Path, folder: Path) -> Benchmark:
    """Convert a set into files below `folder`. Questions without text or without gold are left out, and counted.

    Raises:
        UsageError: no set of that name.
        InputRefused: what lies at `path` is not that set.
    """
    if name not in SETS:
        raise UsageError(f"no set {name!r}", f"there are {', '.join(SETS)}")
    convert: Convert = import_module(f"pipelines.eval.sets.{SETS[name]}").convert
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = _usable(convert(path, folder, name))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputRefused(
            f"{path} is no {name} set: {type(error).__name__}: {error}", "see 'helix eval --help'"
        ) from None
    if not found.questions:
        raise InputRefused(f"{path} holds no question with gold turns", "see 'helix eval --help'")
    return found


def _usable(found: Benchmark) -> Benchmark:
    left = Counter(found.left_out)
    kept = []
    for question in found.questions:
        reason = NO_TEXT if not question.text.strip() else "" if question.gold else NO_GOLD
        if reason:
            left[reason] += 1
        else:
            kept.append(question)
    return replace(found, questions=tuple(kept), left_out=dict(left))


def turn(session: str, identity: object) -> str:
    """How a gold turn is written."""
    return f"{session}\t{identity}"


def passage(identity: str, text: str, project: str, title: str = "") -> dict[str, Any]:
    """A line for the normal ingest: a document that is a session of its own, so that nothing but words joins two."""
    line = {"session": f"corpus/{identity}", "id": identity, "role": "document", "text": text, "project": project}
    return {**line, "title": title} if title else line


def gold_passage(identity: str) -> str:
    """How a gold `passage` is written."""
    return turn(f"corpus/{identity}", identity)


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines for the normal ingest."""
    with path.open("wb") as file:
        for line in lines:
            file.write(orjson.dumps(line) + b"\n")
    return path


def counted(n: int, what: str) -> tuple[str, ...]:
    """A note, where there is anything to count."""
    return (f"{n} {what}",) if n else ()
