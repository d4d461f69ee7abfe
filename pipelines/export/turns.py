"""The turns of a store as their sources gave them, a session at a time.

Items are pieces of turns. A turn is read again from its accepted document, by the adapter that made the items, so its
text, time and steps are exact. Where the document is gone (a copy without `inbox`, a deletion), it is put together from
its items: only the white space between two of them is not known then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from helix.enrich.chunk import chunk
from helix.errors import HelixError, InputRefused
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.sql import connect_duckdb
from helix.snapshot.sql_views import create_views
from helix.sources.common.exported import write_record
from helix.types import Fault, Session, Step, Turn
from helix.util.workspaces import decode_workspace
from pipelines.export.selection import ExportSelection
from pipelines.ingest.items import NO_PROJECT, cut_turn, make_item_id
from pipelines.ingest.versions import read_document

Row = Mapping[str, Any]

BATCH: Final = 5_000
"""Items read at a time."""

_COLUMNS: Final = (
    *("id", "source", "document", "session", "branch_of", "turns", "piece", "speaker", "role", "origin", "title"),
    *("text", "type", "type_confidence", "project", "workspace", "time", "time_quality", "confidence", "vouched"),
    *("priority", "pinned", "acl"),
)
_QUERY: Final = f"""
SELECT place, {", ".join(f"items.{name}" for name in _COLUMNS)}
FROM items JOIN chosen USING (id) ORDER BY place, ord, row
"""
_GIVEN: Final = "given"  # `vouched` of a confidence that the input gave
_JOINT: Final = "\n\n"  # between two pieces of unknown white space


@dataclass(frozen=True, slots=True)
class ExportedTurn:
    """A turn, and what the store shows of it."""

    turn: Turn
    project: str  # as it is shown
    items: tuple[str, ...]  # ids
    types: tuple[str, ...]  # of the items
    in_workspace: bool  # that of its session names its project
    exact: bool  # its document was read


@dataclass(frozen=True, slots=True)
class ExportedSession:
    """A session with its turns in reading order."""

    session: Session  # without turns
    turns: tuple[ExportedTurn, ...]

    def write_records(self) -> Iterator[dict[str, Any]]:
        """Yield the turns as lines of a generic transcript; see `helix.sources.common.exported`."""
        for entry in self.turns:
            session = self.session if entry.in_workspace else replace(self.session, workspace=None)
            project = None if entry.project == NO_PROJECT and not entry.in_workspace else entry.project
            yield write_record(session, entry.turn, project)


@dataclass(slots=True)
class ExportCounts:
    """Counts of an export."""

    sessions: int = 0
    turns: int = 0
    items: int = 0
    undated: int = 0  # turns whose time is unknown, or only of the file
    from_items: int = 0  # turns whose document is gone

    def add(self, found: ExportedSession) -> None:
        """Count a session."""
        self.sessions += 1
        self.turns += len(found.turns)
        self.items += sum(len(entry.items) for entry in found.turns)
        self.undated += sum(entry.turn.time_quality in ("file", "none") for entry in found.turns)
        self.from_items += sum(not entry.exact for entry in found.turns)

    def describe(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


@contextmanager
def open_rows(selection: ExportSelection, spill: str | None = None) -> Iterator[pa.RecordBatchReader]:
    """Read the chosen items as rows, session by session and in reading order; DuckDB sorts, on disk if it must."""
    with connect_duckdb() as db:
        if spill:
            db.execute(f"SET temp_directory = '{spill.replace(chr(39), chr(39) * 2)}'")
        create_views(db, selection.root, selection.snap.manifest, "items")
        db.register("chosen", selection.list_items())
        yield db.sql(_QUERY).to_arrow_reader(BATCH)


def read_sessions(
    selection: ExportSelection, settings: Settings, spill: str | None = None
) -> Iterator[ExportedSession]:
    """Yield the chosen turns by session, in the order in which the sessions came into the store."""
    reader = TurnReader(selection, settings)
    with open_rows(selection, spill) as batches:
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, of_session in groupby(rows, key=lambda row: row["place"]):
            yield reader.read_session([*of_session])


class TurnReader:
    """Reads turns from the accepted documents of a store, and from its items where those are gone."""

    def __init__(self, selection: ExportSelection, settings: Settings) -> None:
        self.selection, self.settings = selection, settings
        self._read = lru_cache(maxsize=4)(self._read_originals)

    def read_session(self, rows: Sequence[Row]) -> ExportedSession:
        """Return the session of rows, which are all of one and in reading order."""
        by_turn = dict[str, list[Row]]()  # documents of one session may share places in its order
        for row in rows:
            by_turn.setdefault(row["turns"][0], []).append(row)
        groups = [*by_turn.values()]
        found = [(group, *self._find_turn(group)) for group in groups]
        last, workspace = found[-1][1], rows[0]["workspace"]
        session = replace(last, turns=(), workspace=decode_workspace(workspace) if workspace else None)
        turns = []
        for group, own, turn, is_exact in found:
            first = group[0]
            if not turn.title and own.title != session.title:
                turn = replace(turn, title=own.title)
            turns.append(
                ExportedTurn(
                    turn if turn.type else replace(turn, types=_list_types(group)),
                    first["project"],
                    tuple(row["id"] for row in group),
                    tuple(row["type"] for row in group),
                    bool(workspace) and first["workspace"] == workspace,
                    is_exact,
                )
            )
        return ExportedSession(session, tuple(turns))

    def _find_turn(self, rows: Sequence[Row]) -> tuple[Session, Turn, bool]:
        """Return the session and the turn of its items, and whether its document was read."""
        first = rows[0]
        found = self._read(first["document"]).get(first["id"])
        if found:
            session, turn = found
            numbers, pieces, _ = cut_turn(turn, self.settings.item_words)
            ids = [make_item_id(session, turn, number) for number in numbers]
            if ids == [row["id"] for row in rows] and [*pieces] == [row["text"] for row in rows]:
                return session, _adopt_stored(turn, first), True
        return *self._rebuild(rows), False

    def _read_originals(self, document: str) -> dict[str, tuple[Session, Turn]]:
        """Return the turns of a document by the id of their first item; none if it is gone."""
        try:
            envelope = inbox.read_envelope(self.selection.root, document)
            if envelope.forgotten:
                return {}
            parsed = read_document(self.selection.root, envelope, self.settings).parsed
        except (InputRefused, HelixError):
            return {}
        out: dict[str, tuple[Session, Turn]] = {}
        for session in parsed.sessions:
            for turn in session.turns:
                numbers = cut_turn(turn, self.settings.item_words)[0]
                if numbers:
                    out[make_item_id(session, turn, numbers[0])] = (session, turn)
        return out

    def _rebuild(self, rows: Sequence[Row]) -> tuple[Session, Turn]:
        """Put a turn together from its items."""
        first, texts = rows[0], [row["text"] for row in rows]
        text = _JOINT.join(texts)
        numbers = [row["piece"] for row in rows]
        pieces: list[tuple[int, int, int]] = []
        if numbers != [*range(len(rows))] or chunk(text, self.settings.item_words) != texts:
            start = 0
            for number, part in zip(numbers, texts, strict=True):
                pieces.append((number, start, start + len(part)))
                start += len(part) + len(_JOINT)
        session = Session(first["source"], first["session"], (), None, first["title"], first["branch_of"])
        turn = Turn(
            first["turns"][0],
            text,
            first["role"],
            first["origin"],
            speaker=first["speaker"],
            title=first["title"] if first["role"] == "document" else None,
            type=first["type"] if first["type_confidence"] == 1.0 else None,
            confidence=first["confidence"] if first["vouched"] == _GIVEN else None,
            priority=first["priority"] if first["priority"] != 1.0 else None,
            pinned=bool(first["pinned"]),
            steps=tuple(step for row in rows for step in self._read_steps(row["id"])),
            pieces=tuple(pieces),
        )
        turn = replace(turn, unique=make_item_id(session, turn, first["piece"]) != first["id"])
        return session, _adopt_stored(turn, first)

    def _read_steps(self, item: str) -> Iterator[Step]:
        """Yield the steps of an item; of a failure only its line is known."""
        snap = self.selection.snap
        row = snap.row_map.find(item)
        steps = [] if row is None else snap.steps.list_of_row(row)
        for number, entry in enumerate(snap.steps.read(steps)):
            yield Step(
                f"{item}.{number}" if entry["action"] != "correct" else item,
                entry["action"],
                entry["tool"] or "",
                entry["target"] or "",
                entry["outcome"],
                entry["exit_code"],
                entry["tests"],
                (Fault(entry["error"], "", "", "", ""),) if entry["error"] else (),
                tuple(entry["commits"] or ()),
            )


def _adopt_stored(turn: Turn, row: Row) -> Turn:
    """Return a turn without secrets, with the time and the readers that its items have."""
    time, quality = turn.time, turn.time_quality
    stored: datetime | None = row["time"]
    if (time and int(time.timestamp())) != (stored and int(stored.timestamp())) or quality != row["time_quality"]:
        time, quality = stored and stored.astimezone(UTC), row["time_quality"] or "none"
    return replace(
        turn,
        text=redact(turn.text)[0],
        speaker=turn.speaker and redact(turn.speaker)[0],
        title=turn.title and redact(turn.title)[0],
        time=time,
        time_quality=quality,
        acl=tuple(row["acl"] or ()),
        project=None,
        steps=tuple(map(_redact_step, turn.steps)),
    )


def _list_types(rows: Sequence[Row]) -> tuple[tuple[str, float], ...]:
    """Return what the classifier said of each item; nothing where it did not judge them all."""
    found = tuple((row["type"], row["type_confidence"]) for row in rows)
    return found if all(certainty is not None for _, certainty in found) else ()


def _redact_step(step: Step) -> Step:
    faults = tuple(replace(fault, line=redact(fault.line)[0]) for fault in step.faults)
    return replace(step, tool=redact(step.tool)[0], target=redact(step.target)[0], faults=faults)
