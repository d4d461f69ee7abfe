"""`helix compact`, `gc`, `rollback`, `forget` and `touch`: commands that change a published store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, print_result, print_table, print_text
from helix.errors import UsageError
from helix.settings import load
from helix.util.sanitise import printable
from pipelines.cli.ingest import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.maintain.deletion_plan import DeletionPreview, Selection

LINE: Final = 72
"""Characters of an item in a deletion's preview."""


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def compact(argv: Sequence[str]) -> int:
    """Merge small segments, drop deleted rows, build dense indexes."""
    new = build_parser("compact", compact.__doc__ or "", "  helix compact --store memory\n  helix compact --full")
    new.add_argument("--full", action="store_true", help="merge all segments into one")
    options = new.parse_args(argv)
    from helix.snapshot.checked_arrays import REMEDY
    from pipelines.maintain.compact import compact as run
    from pipelines.maintain.compact import ignore_progress
    from pipelines.maintain.forget import resume

    settings = load()
    root = resolve_store(options, settings)
    with progress_bar(not options.json) as progress:
        done = run(root, settings, None if progress else _say, full=options.full, progress=progress or ignore_progress)
    resume(root, settings, _say)
    merged, dropped = format_count(done.merged, "segment"), format_count(done.dropped, "deleted row")
    text = f"{merged} merged, {dropped} dropped, {done.indexed} dense indexes built; "
    text += f"{format_count(done.segments, 'segment')}, generation {done.generation}"
    print_result(options.json, asdict(done), text)
    for problem in done.damaged:
        _say(f"helix compact: left as it is: {problem}; {REMEDY}")
    return 4 if done.damaged else 0


def gc(argv: Sequence[str]) -> int:
    """Remove old generations and the files only they need."""
    settings = load()
    new = build_parser("gc", gc.__doc__ or "", "  helix gc --store memory\n  helix gc --keep 1 --grace 0")
    new.add_argument(
        "--keep", type=int, default=settings.keep_generations, metavar="N", help="generations to retain (%(default)s)"
    )
    new.add_argument(
        "--grace",
        type=float,
        default=settings.gc_grace,
        metavar="S",
        help=f"seconds: retain younger files ({settings.gc_grace:g})",
    )
    options = new.parse_args(argv)
    if options.keep < 1 or options.grace < 0:
        raise UsageError(f"--keep {options.keep} --grace {options.grace}", "keep at least 1, a grace of at least 0")
    from helix.snapshot.gc import collect_garbage
    from helix.snapshot.ledger.inbox import load_current

    root = resolve_store(options, settings)
    load_current(root)  # raises where there is no store
    done = collect_garbage(root, options.keep, options.grace, settings.lock_wait)
    text = f"{len(done.removed)} files and folders removed, {done.bytes / 1e6:.1f} MB; "
    text += f"{format_count(done.kept, 'generation')} retained, {done.pinned} in use"
    print_result(options.json, asdict(done), text)
    return 0


def rollback(argv: Sequence[str]) -> int:
    """Return to an earlier generation; set aside the documents ingested since."""
    new = build_parser(
        "rollback",
        rollback.__doc__ or "",
        "  helix rollback --list\n  helix rollback\n  helix rollback 41 --store memory",
    )
    new.add_argument("generation", nargs="?", type=int, metavar="N", help="its number (the one before the current)")
    new.add_argument("--list", action="store_true", help="list the generations to return to")
    options = new.parse_args(argv)
    from pipelines.maintain.forget import resume
    from pipelines.maintain.rollback import mend
    from pipelines.maintain.rollback import rollback as run

    settings = load()
    root = resolve_store(options, settings)
    if options.list:
        _print_generations(root, options.json)
        return 0
    mended = mend(root, settings)
    resume(root, settings, _say)
    done = mended if mended and options.generation in (None, mended.to) else run(root, settings, options.generation)
    documents = format_count(len(done.set_aside), "document")
    be = "is" if len(done.set_aside) == 1 else "are"
    aside = f"; {documents} ingested since {be} set aside" if done.set_aside else ""
    print_result(options.json, asdict(done), f"generation {done.generation} holds the content of {done.to}{aside}")
    if done.set_aside and not options.json:
        _say("helix rollback: 'helix ingest PATH' ingests a set-aside document again")
    return 0


def _print_generations(root: Any, as_json: bool) -> None:
    from pipelines.maintain.rollback import list_generations

    found = [manifest for _, manifest in list_generations(root)]
    if as_json:
        print_json(
            [{"generation": m.generation, "created": m.created, **m.counts, "encoder": m.lineage.name} for m in found]
        )
        return
    rows: list[list[Cell]] = [
        [
            (str(m.generation), "bold"),
            m.created,
            f"{format_count(m.counts['items'], 'item')}, {format_count(m.counts['documents'], 'document')}",
            m.lineage.name,
        ]
        for m in found
    ]
    print_table(rows, ("generation", "created", "holds", "encoder"), (0,))


def forget(argv: Sequence[str]) -> int:
    """Delete items from every byte of the store, and print the receipt.

    On a terminal it shows the items first, and asks for confirmation.
    """
    new = build_parser(
        "forget",
        forget.__doc__ or "",
        "  helix forget --item 3f9a04c1d2e5b678 --store memory\n"
        "  helix forget --session 7e44 --json > receipt.json\n"
        "  helix forget --project ledgerline --dry-run",
    )
    which = new.add_mutually_exclusive_group(required=True)
    about = "these items; - reads ids from stdin"
    which.add_argument("--item", action="append", nargs="+", default=[], metavar="ID", help=about)
    which.add_argument("--session", metavar="S", help="a whole session")
    which.add_argument("--project", metavar="P", help="a whole project")
    new.add_argument("--dry-run", action="store_true", help="show the extent, and forget nothing")
    new.add_argument("--yes", action="store_true", help="forget without confirmation")
    options = new.parse_args(argv)
    from helix.snapshot.ledger import inbox
    from pipelines.embedded.ingest import finish
    from pipelines.ingest.accept_all import IngestReport
    from pipelines.maintain.deletion_plan import Selection, preview_deletion, resolve_names
    from pipelines.maintain.forget import forget as run

    settings = load()
    root = resolve_store(options, settings)
    inbox.load_current(root)  # raises where there is no store
    items = tuple(item for given in options.item for name in given for item in _list_named(root, name))
    named = Selection(items, options.session, options.project)
    selection = resolve_names(root, named, settings)
    if options.dry_run:
        found = preview_deletion(root, selection, settings)
        print_json({"dry_run": True, **asdict(found)}) if options.json else _show(selection, found, sys.stdout)
        return 0
    if not options.yes and sys.stdin.isatty():
        with suppress(UsageError):  # no items: an interrupted deletion may be left to finish
            _show(selection, preview_deletion(root, selection, settings), sys.stderr)
            if not _confirm("This removes it from every byte of the store, for good. Forget it? [y/N] "):
                _say("nothing was forgotten")
                return 0
    if settings.share:  # documents of other machines may hold it too
        from pipelines.maintain.replication import primary

        primary.require_primary(root, settings)
        primary.collect(root, settings, None)
    if inbox.list_pending(root):  # pending documents may hold it too
        finish(root, settings, IngestReport(), say=_say)
    receipt = run(root, resolve_names(root, named, settings), settings, _say)
    print_json(receipt) if options.json else _print_receipt(root, receipt)
    return 0


def _print_receipt(root: Any, receipt: dict[str, Any]) -> None:
    files = [
        ("rewritten" if file["after"] else "removed", file["path"], f"{file['before'][:12]}…")
        for file in receipt["files"]
    ]
    files += [(entry["action"], entry["path"], "of the share") for entry in receipt.get("share", ())]
    print_table(files, ("action", "file", "sha256 before"), whole=(0, 2))
    print_text(
        f"{format_count(len(receipt['items']), 'item')} forgotten; "
        f"{format_count(receipt['removed'], 'file')} removed, "
        f"{receipt['rewritten']} rewritten; generation {receipt['snapshot']}; "
        f"receipt: {root / 'receipts' / receipt['id']}.json"
    )


def _list_named(root: Path, name: str) -> list[str]:
    """Return the ids of one argument: an id or a citation, or `-` for those on standard input, one a line."""
    if name != "-":
        return _list_cited(root, name)
    lines = [line.strip() for line in sys.stdin if line.strip()]
    if not lines:
        raise UsageError("standard input names no item", "give one id a line")
    return [item for line in lines for item in _list_cited(root, line)]


def _list_cited(root: Path, name: str) -> list[str]:
    """Return the ids of the pieces of a cited turn, such as `b18d71f0#c34708f0`; an id is returned as it is."""
    if "#" not in name:
        return [name]
    from helix.snapshot.reader.snapshot import Snapshot

    snap = Snapshot.open(root)
    return [f"{int(snap.columns.key[row]):016x}" for row in snap.citations.find(name)] or [name]


def _show(selection: Selection, found: DeletionPreview, stream: TextIO) -> None:
    """Print the extent of a deletion and its newest items."""
    where = f"{format_count(found.sessions, 'session')}, in {format_count(found.documents, 'document')}"
    what = "these items" if selection.items else selection.value
    lines = [f"{what}: {format_count(found.items, 'item')} of {where}"]
    for row in found.shown:
        text = " ".join(row["text"].split())
        when = row["time"].strftime("%Y-%m-%d %H:%M") if row["time"] else "-" * 16
        lines.append(f"  {when}  {row['session'][:24]:24}  {text if len(text) <= LINE else text[: LINE - 1] + '…'}")
    if more := found.items - len(found.shown):
        lines.append(f"  … and {more:,} more")
    for line in lines:
        print(printable(line), file=stream)


def _confirm(question: str) -> bool:
    """Ask on the terminal; no answer means no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def touch(argv: Sequence[str]) -> int:
    """Fold access events into the store: when and how often items were useful."""
    options = build_parser("touch", touch.__doc__ or "", "  helix touch --store memory").parse_args(argv)
    from pipelines.maintain.touch import touch as run

    settings = load()
    done = run(resolve_store(options, settings), settings)
    ignored = f", {done.ignored} ignored" if done.ignored else ""
    events = f"{format_count(done.events, 'event')} on {format_count(done.items, 'item')}"
    print_result(options.json, asdict(done), f"{events} folded{ignored}; generation {done.generation}")
    return 0
