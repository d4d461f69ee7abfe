"""Logs of agents, ingested once: their sessions, the prompts that users typed, and what was said before each.

A log that names no project belongs to its folder, as the history of one repository does. A session without times of
its own has no place in the order of time: its prompts are not replayed, and nothing of it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import numpy as np

from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from helix.sources.common.injected import strip_host, strip_memory
from helix.types import I64, Bool
from pipelines.embedded.ingest import ingest
from pipelines.ingest.items import NO_PROJECT

MOST_CHARS: Final = 4_000
"""Characters of a prompt, half of them from its end: those that a hook sends."""

_UNTIMED: Final = ("file", "none")  # qualities of a time that is not the turn's own
_TYPED: Final = re.compile(r"[^\W\d_]{2,}")  # a word

_ITEMS: Final = """
SELECT id, source, session, path, project, role, origin, turns, text, epoch(time) AS time, time_quality
FROM items ORDER BY source, session, ord, piece
"""


class LoggedItem(NamedTuple):
    """An item of a log."""

    row: int
    session: int  # in the order of the store
    project: str
    source: str  # folder below the logs
    role: str
    origin: str
    turn: str  # the first of its turns
    time: int | None  # seconds; None: unknown
    text: str


class LoggedPrompt(NamedTuple):
    """A prompt that a user typed, with what was said before and after it in its session."""

    text: str  # bounded, as a hook sends it
    project: str
    source: str
    session: int
    at: int | None  # seconds; None: unknown
    before: tuple[LoggedItem, ...]  # of its session
    reply: tuple[LoggedItem, ...]  # of the agent, up to the next prompt


@dataclass(frozen=True)
class Logs:
    """Ingested logs. `items` are those of each session in reading order."""

    memory: Memory
    items: tuple[LoggedItem, ...]

    @property
    def snap(self) -> Snapshot:
        """The generation."""
        return self.memory.snapshot

    @cached_property
    def prompts(self) -> tuple[LoggedPrompt, ...]:
        """All prompts, in the order of time; those without a time come first."""
        sessions = groupby(self.items, key=lambda item: item.session)
        found = [prompt for _, items in sessions for prompt in list_prompts(tuple(items))]
        return tuple(sorted(found, key=lambda prompt: (prompt.at is not None, prompt.at or 0)))

    @cached_property
    def projects(self) -> tuple[str, ...]:
        """Names of the projects, ascending."""
        return tuple(sorted({item.project for item in self.items}))

    @cached_property
    def by_row(self) -> dict[int, LoggedItem]:
        """Items by their row."""
        return {item.row: item for item in self.items}

    @cached_property
    def _places(self) -> tuple[I64, I64, I64, dict[str, int]]:
        """Rows, sessions and projects of the items with a time, and the codes of the projects."""
        timed = [item for item in self.items if item.time is not None]
        codes = {name: code for code, name in enumerate(self.projects)}
        rows, sessions = (np.array([getattr(item, name) for item in timed], np.int64) for name in ("row", "session"))
        return rows, sessions, np.array([codes[item.project] for item in timed], np.int64), codes

    @cached_property
    def _times(self) -> I64:
        return np.array([item.time for item in self.items if item.time is not None], np.int64)

    def list_earlier(self, prompt: LoggedPrompt) -> I64:
        """Return the rows of other sessions of the prompt's project that were said before it: int64[n]."""
        if prompt.at is None:
            return np.empty(0, np.int64)
        return self.list_before(prompt.project, prompt.session, prompt.at)

    def list_before(self, project: str, session: int, at: int) -> I64:
        """Return the rows of a project that other sessions said before a moment, in seconds: int64[n]."""
        rows, sessions, projects, codes = self._places
        chosen = (projects == codes[project]) & (sessions != session) & (self._times < at)
        return np.asarray(rows[chosen], np.int64)

    def narrow(self, rows: Sequence[int] | I64, at: int | None) -> Snapshot:
        """Return the generation with some rows only, as of a moment; the rest is as good as deleted."""
        alive: Bool = np.zeros_like(self.snap.alive)
        alive[np.asarray(rows, np.int64)] = True
        return Snapshot(self.snap.files, self.snap.row_map.narrow(alive & self.snap.alive, at), self.snap)


def open_logs(folder: Path, settings: Settings, work: Path) -> Logs:
    """Ingest a folder of logs below `work`, once, and read its items.

    Raises:
        StoreError: the store cannot be written or read.
        EncoderError: no encoder is available.
    """
    root = work / "logs" / "store"
    root.parent.mkdir(parents=True, exist_ok=True)
    ingest(root, [folder], settings)
    memory = Memory(root, replace(settings, answers=0), warm=False)
    return Logs(memory, tuple(_read_items(memory, folder)))


def _read_items(memory: Memory, folder: Path) -> Iterator[LoggedItem]:
    """Yield the items of a store, those of a session in reading order."""
    with run_statement(memory.root, _ITEMS) as answer:
        entries: list[dict[str, Any]] = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    codes: dict[tuple[str, str], int] = {}
    for entry in entries:
        row = memory.snapshot.find(entry["id"])
        if row is None:
            continue
        path = PurePosixPath(str(entry["path"]).replace("\\", "/"))
        time = None if entry["time"] is None or entry["time_quality"] in _UNTIMED else int(entry["time"])
        yield LoggedItem(
            row,
            codes.setdefault((entry["source"], entry["session"]), len(codes)),
            str(path.parent) if entry["project"] in (None, "", NO_PROJECT) else entry["project"],
            _name_source(path, folder),
            entry["role"],
            entry["origin"],
            entry["turns"][0] if entry["turns"] else "",
            time,
            entry["text"],
        )


def _name_source(path: PurePosixPath, folder: Path) -> str:
    """Return the first folder below the logs on the way to a file, else the name of the logs' own."""
    top = folder.expanduser().resolve()
    parts = path.relative_to(top.as_posix()).parts if path.is_relative_to(top.as_posix()) else ()
    return parts[0] if len(parts) > 1 else top.name


# ---------------------------------------------------------------- prompts


def list_prompts(items: Sequence[LoggedItem]) -> Iterator[LoggedPrompt]:
    """Yield the prompts of a session, which a person typed: not results of tools, not texts that a host adds."""
    turns = [tuple(part) for _, part in groupby(items, key=lambda item: (item.role, item.origin, item.turn))]
    texts = [clean_prompt("\n".join(item.text for item in turn)) if _is_typed(turn[0]) else "" for turn in turns]
    places = [i for i, text in enumerate(texts) if text]
    for here, following in pairwise([*places, len(turns)]):
        first = turns[here][0]
        before = tuple(item for turn in turns[:here] for item in turn)
        reply = tuple(item for turn in turns[here + 1 : following] for item in turn if item.role == "assistant")
        yield LoggedPrompt(texts[here], first.project, first.source, first.session, first.time, before, reply)


def _is_typed(item: LoggedItem) -> bool:
    return item.role == "user" and item.origin == "human"


def clean_prompt(text: str) -> str:
    """Return a prompt without the blocks of a host, bounded as a hook does; empty without a word."""
    text = strip_host(strip_memory(text)).strip()
    return bound_prompt(text) if _TYPED.search(text) else ""


def bound_prompt(text: str) -> str:
    """Return at most about MOST_CHARS characters of a prompt: its begin and its end."""
    half = MOST_CHARS // 2
    return text if len(text) <= MOST_CHARS else f"{text[:half]}\n{text[-half:]}"


def tell_moment(seconds: int | None) -> datetime | None:
    """Return a moment of so many seconds; None stays."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
