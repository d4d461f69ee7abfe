"""Accepting many paths into one report: a refused file is noted, a full backlog refuses the rest."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from helix.errors import InputRefused
from helix.redact.paths import redact_path
from helix.settings import Settings
from helix.snapshot.index.dense import FLOAT, parse_prefix
from helix.snapshot.ledger import inbox
from helix.util.hashing import hash_file
from pipelines.ingest.accept import accept_source, prepare_store
from pipelines.ingest.part import EnrichedPart
from pipelines.ingest.source import Accepted, AcceptOptions, Inbox, walk_inputs
from pipelines.ingest.switched_off import Omission

COUNTED: Final = 5.0
"""Seconds for which a count of waiting documents is used, plus those accepted since."""


@dataclass
class Backlog:
    """The documents of a store that wait for workers, and their bytes, against their limits."""

    root: Path
    settings: Settings
    _waits: int = 0
    _bytes: int = 0
    _counted: float = field(default=float("-inf"), repr=False)

    def check(self) -> None:
        """Check that another document may wait.

        Raises:
            InputRefused: the backlog is full.
        """
        if time.monotonic() - self._counted > COUNTED:
            waiting = inbox.list_pending(self.root)
            self._waits, self._bytes, self._counted = len(waiting), self._measure(waiting), time.monotonic()
        for count, limit, noun, setting in (
            (self._waits, self.settings.max_backlog, "documents wait", "HELIX_MAX_BACKLOG"),
            (self._bytes, self.settings.max_backlog_bytes, "bytes wait", "HELIX_MAX_BACKLOG_BYTES"),
        ):
            if count >= limit:
                raise InputRefused(
                    f"not accepted: {count:,} {noun} for the workers already",
                    f"offer it again when 'helix status' reports fewer, start more workers, or raise {setting}",
                )

    def add(self, documents: Sequence[str]) -> None:
        """Count documents that were just accepted."""
        self._waits += len(documents)
        self._bytes += self._measure(documents)

    def _measure(self, documents: Sequence[str]) -> int:
        return inbox.measure_envelopes(self.root, documents)


Progress = Callable[[str, int, int], None]
"""Called with (step, done, total)."""

_OUTSIDE: Final = "the link leads out of the named folder; name its target to accept it"
_INCOMPLETE: Final = "the line is incomplete: no valid JSON, or still being written; it is accepted once it is whole"

_APART: Final = timedelta(microseconds=20)
"""Time between two files of an ingest that begins with the newest: room for the documents of each."""

_STDIN_DIGITS: Final = 12

_NAMED: Final = 20
"""Problems of one document that are named; the others are counted."""


@dataclass(slots=True)
class IngestReport:
    """The outcome of an ingest."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    items: int = 0
    redacted: Counter[str] = field(default_factory=Counter)
    snapshot: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    junk: Counter[str] = field(default_factory=Counter)  # characters left out, by rule
    chars: int = 0  # retained
    sources: dict[str, Counter[str]] = field(default_factory=dict)  # path → redactions in it
    dead: int = 0
    forgotten: list[str] = field(default_factory=list)  # paths with forgotten items, which stay out
    stay_out: int = 0  # those items
    left_out: dict[str, tuple[Omission, ...]] = field(
        default_factory=dict
    )  # path → what stays out: Helix is off for it

    def refuse(self, path: str, reason: str) -> None:
        """Note a refused input."""
        self.refused.append({"path": path, "reason": reason})

    def add_part(self, part: EnrichedPart) -> None:
        """Add the counts and problems of an enriched document."""
        self.turns += part.turns
        self.redacted.update(part.redacted)
        self.unknown.update(part.unknown)
        self.junk.update(part.junk)
        self.chars += part.chars
        if part.redacted:
            self.sources.setdefault(part.path, Counter()).update(part.redacted)
        for problem in part.problems[:_NAMED]:
            self.refuse(f"{part.path}:{problem.line}" if problem.line else part.path, problem.reason)
        if (more := len(part.problems) - _NAMED) > 0:
            self.refuse(part.path, f"{more} more lines were refused for reasons like these")

    @property
    def junk_share(self) -> float:
        """The share of the text that was left out as junk."""
        junk = self.junk.total()
        return junk / (junk + self.chars) if junk else 0.0

    def list_left_out(self) -> list[dict[str, Any]]:
        """List what stays out because Helix is or was off for it."""
        return [{"path": path, **one._asdict()} for path, found in self.left_out.items() for one in found]

    def as_json(self, seconds: float) -> dict[str, Any]:
        """Return the fields of `helix ingest --json`."""
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "turns": self.turns,
            "items": self.items,
            "redacted": dict(self.redacted),
            "snapshot": self.snapshot,
            "seconds": round(seconds, 3),
            "unknown": dict(self.unknown),
            "redacted_by_source": {path: dict(counts) for path, counts in self.sources.items()},
            "junk": {"characters": dict(self.junk), "kept": self.chars, "share": round(self.junk_share, 4)},
            "forgotten": {"paths": self.forgotten, "items": self.stay_out},
            "off": self.list_left_out(),
        }


class InputFile(NamedTuple):
    """A file that is offered, with the time and size of its last write; 0 for a missing one."""

    path: Path
    mtime: float
    size: int
    where: str = ""  # the name of the source, if the path is only a copy of it


class AcceptedFile(NamedTuple):
    """New documents of a file, or of a part of it."""

    file: InputFile
    documents: tuple[str, ...]
    done: bool  # the whole file is accepted or refused


def list_files(
    inputs: Sequence[str | Path | InputFile], note_outside: Callable[[Path], object] = bool, newest: bool = False
) -> list[InputFile]:
    """List the files of the given paths, in their order or the newest first.

    Args:
        note_outside: called with each link to a file outside the given folder.
    """
    files: list[InputFile] = []
    for given in inputs:
        files += [given] if isinstance(given, InputFile) else map(_read_stat, walk_inputs([given], note_outside))
    return sorted(files, key=lambda file: -file.mtime) if newest else files


def _read_stat(path: Path) -> InputFile:
    try:
        stat = path.stat()
    except OSError:  # is refused by name when it is accepted
        return InputFile(path, 0.0, 0)
    return InputFile(path, stat.st_mtime, stat.st_size)


def list_times(files: Sequence[InputFile]) -> dict[Path, datetime]:
    """Return a time of acceptance for each file, in the order of their last writes and not after now.

    Of two versions of a turn the one that was accepted later counts: that of the file that was written later.
    """
    now = datetime.now(UTC)
    oldest = sorted(files, key=lambda file: file.mtime)
    return {file.path: now - (len(files) - i) * _APART for i, file in enumerate(oldest)}


@contextmanager
def spool_stdin(inputs: Sequence[str], data: BinaryIO) -> Iterator[list[str | InputFile]]:
    """Yield the inputs with a copy of standard input in place of "-", named by its content: `stdin-94a15dbc4711`."""
    with tempfile.TemporaryDirectory(prefix="helix-") as folder:
        if "-" not in inputs:
            yield list(inputs)
            return
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(data, file)
        copied = _read_stat(path)._replace(where=f"stdin-{hash_file(path)[:_STDIN_DIGITS]}")
        yield [copied if given == "-" else given for given in inputs]


def note_outside(report: IngestReport) -> Callable[[Path], None]:
    """Return a function that notes a link which leads out of its folder."""
    return lambda path: report.refuse(redact_path(str(path)), _OUTSIDE)


def accept_each(
    root: Path,
    files: Sequence[InputFile],
    settings: Settings,
    report: IngestReport,
    options: AcceptOptions,
    backlog: Backlog | None = None,
    newest: bool = False,
) -> Iterator[AcceptedFile]:
    """Accept the files in their order; yield the new documents of each.

    Args:
        options: with its `seconds`, a large file that grows at its end is accepted in parts, each yielded.
        backlog: the limit of waiting documents, where workers enrich them.
        newest: the files begin with the newest, and the newest counts as accepted last.
    """
    inbox = Inbox(root, settings)
    times = list_times(files) if newest else {}
    for file in files:
        inbox.clock = times.get(file.path)
        name = file.where or redact_path(str(file.path))
        is_duplicate, more = True, True
        while more:
            try:
                if backlog:
                    backlog.check()
                accepted = accept_source(inbox, file.path, options, file.where)
                if backlog:
                    backlog.add(accepted.documents)
            except InputRefused as error:
                report.refuse(name, str(error).removeprefix(f"{name} ").removeprefix(f"{name}: "))
                yield AcceptedFile(file, (), True)
                break
            is_duplicate &= accepted.is_duplicate
            more = accepted.more
            if not more:
                _note_accepted(report, name, accepted, is_duplicate)
            yield AcceptedFile(file, accepted.documents, not more)


def _note_accepted(report: IngestReport, name: str, accepted: Accepted, is_duplicate: bool) -> None:
    if accepted.forgotten:
        report.forgotten.append(name)
    if accepted.waits:
        report.refuse(f"{name}:{accepted.waits}", _INCOMPLETE)
    if accepted.left_out:
        report.left_out[name] = accepted.left_out
    if is_duplicate:
        report.duplicates += not accepted.waits and not accepted.left_out
    else:
        report.accepted += 1


def accept_all(
    root: Path,
    inputs: Sequence[str | Path | InputFile],
    settings: Settings,
    report: IngestReport,
    *,
    project: str | None,
    format: str,
    acl: Sequence[str],
    retry: bool = True,
    remember: bool = False,
    backlog: Backlog | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Accept every file of the given paths; return the new documents.

    Args:
        retry: enrich documents again that were given up.
        remember: accept forgotten items again.
        backlog: the limit of waiting documents, where workers enrich them.

    Raises:
        UsageError: no such format, or no such storage level.
        StoreError: the store cannot be written.
    """
    prepare_ingest(root, settings, format)
    files = list_files(inputs, note_outside(report))
    options = AcceptOptions(project, format, tuple(acl), retry, remember=remember)
    new: list[str] = []
    for i, (_, documents, _) in enumerate(accept_each(root, files, settings, report, options, backlog)):
        new += documents
        if progress:
            progress("accept", i + 1, len(files))
    return new


def prepare_ingest(root: Path, settings: Settings, format: str) -> None:
    """Check the format's name and the storage level, and create the store's folders.

    Raises:
        UsageError: no such format, or no such storage level.
        StoreError: the store cannot be written.
    """
    parse_prefix(settings.vectors.removesuffix(FLOAT))
    prepare_store(root, format)
