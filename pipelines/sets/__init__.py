"""Benchmark sets, as their authors publish them: documents for the normal ingest, and questions with gold turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from helix.errors import InputRefused, UsageError


class Question(NamedTuple):
    """`gold` are native turn ids behind their session and a tab: alone, an id is unique in its session only."""

    project: str | None
    text: str
    gold: frozenset[str]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Documents to ingest, and questions about them."""

    documents: tuple[Path, ...]
    questions: tuple[Question, ...]


SETS = ("locomo", "beam", "musique")


def read(name: str, path: Path, folder: Path) -> Benchmark:
    """Convert a set into files below `folder`.

    Raises:
        UsageError: no set of that name.
        InputRefused: what lies at `path` is not that set.
    """
    if name not in SETS:
        raise UsageError(f"no set {name!r}", f"there are {', '.join(SETS)}")
    convert: Callable[[Path, Path], Benchmark] = import_module(f"pipelines.sets.{name}").convert
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = convert(path, folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputRefused(
            f"{path} is no {name} set: {type(error).__name__}: {error}", "see 'helix eval --help'"
        ) from None
    if not found.questions:
        raise InputRefused(f"{path} holds no question with gold turns", "see 'helix eval --help'")
    return found


def turn(session: str, identity: object) -> str:
    """How a gold turn is written."""
    return f"{session}\t{identity}"
