"""Embedded ingest: accept, enrich and publish in this process, without a broker. The same functions workers call."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helix.encoders.dense import Encoder, TokenCounter
from helix.encoders.dense_export import cached, is_cached
from helix.encoders.registry import PREFERRED, choose
from helix.errors import Damaged, EncoderError, HelixError, InputRefused
from helix.redact.paths import redact_path
from helix.settings import Settings
from helix.snapshot.checked_arrays import MEND
from helix.snapshot.gc import collect
from helix.snapshot.index.dense import FLOAT, prefix_of
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest.accept import Inbox, Way, check, expand, take
from pipelines.ingest.backpressure import Backlog
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import Part, try_enrich
from pipelines.maintain.compact import compact
from pipelines.maintain.forget import resume

COMMIT_ITEMS = 20_000  # of a large import: published so far, and bounded in memory

log = logging.getLogger("helix.pipelines")

Progress = Callable[[str, int, int], None]
"""Called with (what is done, how far, of how many)."""


@dataclass(slots=True)
class Report:
    """What an ingest did."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    items: int = 0
    redacted: Counter[str] = field(default_factory=Counter)
    snapshot: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    junk: Counter[str] = field(default_factory=Counter)  # characters left out, by rule
    chars: int = 0  # kept
    sources: dict[str, Counter[str]] = field(default_factory=dict)  # path → what was redacted in it
    dead: int = 0
    forgotten: list[str] = field(default_factory=list)  # paths of which something was, and stays out
    stay_out: int = 0  # items that do


def lineage_of(root: Path) -> str | None:
    """Fingerprint of the encoder the store was built with; None before the first commit."""
    _, manifest = ledger.current(root)
    return manifest.lineage.encoder if manifest else None


def open_encoder(root: Path, settings: Settings, say: Callable[[str], None] | None = None) -> Encoder:
    """The encoder of the store's lineage; for a new store the best one in reach, exported at its first use.

    Raises:
        EncoderError: none is in reach, it is damaged, or another one than the lineage's is asked for.
    """
    _, manifest = ledger.current(root)
    if manifest is None:
        weights = choose(settings)
        cache = Path(settings.cache)
        if say:
            name, first = weights.model.name, PREFERRED[0]
            better = "" if settings.encoder or name == first else f" ({first} is not in reach)"
            work = "" if is_cached(weights, cache) else "; exporting and quantising it, once"
            say(f"encoder: {name} from the {weights.origin}{better}{work}")
        return Encoder(cached(weights, cache), settings.threads)
    lineage = manifest.lineage
    if settings.encoder and Path(settings.encoder).name != lineage.name:
        raise EncoderError(
            f"the store was built with {lineage.name}, HELIX_ENCODER asks for {settings.encoder}",
            "unset HELIX_ENCODER, or start another store",
        )
    return Encoder(root / "encoders" / lineage.encoder, settings.threads, lineage.encoder)


def accept_all(
    root: Path,
    inputs: Sequence[str | Path],
    settings: Settings,
    report: Report,
    *,
    project: str | None,
    format: str,
    acl: Sequence[str],
    retry: bool = True,
    remember: bool = False,
    backlog: Backlog | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Accept every file behind the given paths; a refused one is noted, the rest goes in. The new documents.

    `retry`: what was given up before is tried again. `remember`: what was forgotten is asked back. `backlog`: where the
    work is left to others, how much may wait.

    Raises:
        UsageError: no such format, or no such storage tier.
        StoreError: the store cannot be written.
    """
    prefix_of(settings.vectors.removesuffix(FLOAT))
    check(root, format)
    inbox, way = Inbox(root, settings), Way(project, format, tuple(acl), retry, remember=remember)

    def refuse(path: str, reason: str) -> None:
        report.refused.append({"path": path, "reason": reason})

    files = list(expand(inputs, lambda path: refuse(redact_path(str(path)), _OUTSIDE)))
    new: list[str] = []
    for i, path in enumerate(files):
        shown = redact_path(str(path))
        try:
            if backlog:
                backlog.check()
            taken = take(inbox, path, way)
            if backlog:
                backlog.add(len(taken.documents))
        except InputRefused as error:
            refuse(shown, _reason(error, shown))
            continue
        finally:
            if progress:
                progress("accept", i + 1, len(files))
        if taken.forgotten:
            report.forgotten.append(shown)
        if taken.waits:
            refuse(f"{shown}:{taken.waits}", _HALF)
        if taken.duplicate:
            report.duplicates += not taken.waits
        else:
            report.accepted += 1
            new += taken.documents
    return new


_OUTSIDE = "the link leads out of the folder that was named; name what it leads to, and it is taken in"
_HALF = "the line is not whole: no valid JSON, or still being written; it is taken in once it is"


def _reason(error: InputRefused, path: str) -> str:
    return str(error).removeprefix(f"{path} ").removeprefix(f"{path}: ")


def ingest(
    root: Path,
    inputs: Sequence[str | Path],
    settings: Settings,
    *,
    project: str | None = None,
    format: str = "auto",
    acl: Sequence[str] = (),
    remember: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Take in every file behind the given paths and publish a new generation.

    What was forgotten stays out, unless it is asked back: `remember`. Documents that were accepted earlier and never
    finished (a kill, a broker out of reach) are finished too.

    Raises:
        UsageError: no such format, or no such storage tier.
        StoreError: the store cannot be written or read.
        EncoderError: no encoder is in reach.
    """
    report = Report()
    if remember:
        resume(root, settings)  # what is being forgotten is gone first
    how: dict[str, Any] = {"project": project, "format": format, "acl": acl, "remember": remember}
    accept_all(root, inputs, settings, report, **how, progress=progress)
    finish(root, settings, report, progress=progress, say=say)
    return report


def finish(
    root: Path,
    settings: Settings,
    report: Report,
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """Enrich and publish everything that is pending, then tidy up: recall has the new items by then."""
    pending = ledger.pending(root)
    if pending:
        encoder = open_encoder(root, settings, say)
        counter = TokenCounter(encoder.folder)
        waiting = 0
        for i, document in enumerate(pending):
            part = _enrich(root, document, encoder, counter, settings, report)
            waiting += part.items if part else 0
            if progress:
                progress("enrich", i + 1, len(pending))
            if waiting >= COMMIT_ITEMS:
                _publish(root, encoder, settings, report)
                waiting = 0
        _publish(root, encoder, settings, report)
        if progress:
            progress("publish", 1, 1)
        try:
            tidy(root, settings)
        except (HelixError, OSError) as error:  # everything is published: what is left to do is the next run's
            log.warning("published, but tidying up failed: %s", error)
    _, manifest = ledger.current(root)
    report.snapshot = manifest.generation if manifest else 0


def _publish(root: Path, encoder: Encoder, settings: Settings, report: Report) -> None:
    done = commit(root, encoder, settings)
    report.items += done.added
    report.stay_out += done.forgotten


def tidy(root: Path, settings: Settings) -> None:
    """Finish interrupted deletions, merge what the policy wants merged, and remove what nobody needs any more.

    Raises:
        StoreError: something is damaged; the rest was done.
    """
    done = compact(root, settings)
    if done.merged:
        collect(root, settings.keep_generations, settings.gc_grace, settings.lock_wait)
    resume(root, settings)
    if done.damaged:
        raise Damaged(f"{root}: {done.damaged[0]}", MEND)


_BUSY = 0.05  # seconds between looks whether another process has made it


def _enrich(
    root: Path, document: str, encoder: Encoder, counter: TokenCounter, settings: Settings, report: Report
) -> Part | None:
    while not (tried := try_enrich(root, document, encoder, counter, settings)).part and not tried.error:
        time.sleep(_BUSY)
    part = tried.part
    if part is None:
        report.dead += tried.dead
        report.refused.append({"path": _path(root, document), "reason": tried.error})
        return None
    report.turns += part.turns
    report.redacted.update(part.redacted)
    report.unknown.update(part.unknown)
    report.junk.update(part.junk)
    report.chars += part.chars
    if part.redacted:
        report.sources.setdefault(part.path, Counter()).update(part.redacted)
    report.refused.extend(_problems(part))
    return part


_SHOWN = 20  # problems of one document that are named; the rest is counted


def _problems(part: Part) -> list[dict[str, str]]:
    path = part.path
    shown = [
        {"path": f"{path}:{problem.line}" if problem.line else path, "reason": problem.reason}
        for problem in part.problems[:_SHOWN]
    ]
    if more := len(part.problems) - len(shown):
        shown.append({"path": path, "reason": f"{more} more lines were refused for reasons like these"})
    return shown


def _path(root: Path, document: str) -> str:
    try:
        return ledger.read(root, document).path
    except HelixError:
        return str(root / "inbox" / document)


def as_json(report: Report, seconds: float) -> dict[str, Any]:
    """The shape `helix ingest --json` promises."""
    return {
        "accepted": report.accepted,
        "duplicates": report.duplicates,
        "refused": report.refused,
        "turns": report.turns,
        "items": report.items,
        "redacted": dict(report.redacted),
        "snapshot": report.snapshot,
        "seconds": round(seconds, 3),
        "unknown": dict(report.unknown),
        "redacted_by_source": {path: dict(counts) for path, counts in report.sources.items()},
        "junk": {"characters": dict(report.junk), "kept": report.chars, "share": round(share(report), 4)},
        "forgotten": {"paths": report.forgotten, "items": report.stay_out},
    }


def share(report: Report) -> float:
    """Of all the text that was read, how much was left out as junk."""
    junk = report.junk.total()
    return junk / (junk + report.chars) if junk else 0.0
