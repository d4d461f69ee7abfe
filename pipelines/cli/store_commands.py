"""`helix compact`, `gc`, `rollback` and `forget`: what changes a store besides taking things in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, print_table, print_text
from helix.errors import UsageError
from helix.settings import load
from helix.util.sanitise import printable
from pipelines.cli.commands import progress_bar

if TYPE_CHECKING:
    from pipelines.maintain.deletion_plan import Preview, Selection


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def compact(argv: Sequence[str]) -> int:
    """Merge small segments, drop deleted rows, build dense indexes."""
    new = build_parser("compact", compact.__doc__ or "", "  helix compact --store memory\n  helix compact --full")
    new.add_argument("--full", action="store_true", help="make one segment of all")
    options = new.parse_args(argv)
    from helix.snapshot.checked_arrays import MEND
    from pipelines.maintain.compact import compact as run
    from pipelines.maintain.compact import still
    from pipelines.maintain.forget import resume

    settings = load()
    root = resolve_store(options, settings)
    with progress_bar(not options.json) as progress:
        done = run(root, settings, None if progress else _say, full=options.full, progress=progress or still)
    resume(root, settings, _say)
    if options.json:
        print_json(asdict(done))
    else:
        print_text(
            f"{format_count(done.merged, 'segment')} merged, {format_count(done.dropped, 'deleted row')} dropped, "
            f"{done.indexed} dense indexes built; "
            f"{format_count(done.segments, 'segment')}, generation {done.generation}"
        )
    for problem in done.damaged:
        _say(f"helix compact: left as it is: {problem}; {MEND}")
    return 4 if done.damaged else 0


def gc(argv: Sequence[str]) -> int:
    """Remove old generations and the files only they need."""
    settings = load()
    new = build_parser("gc", gc.__doc__ or "", "  helix gc --store memory\n  helix gc --keep 1 --grace 0")
    new.add_argument(
        "--keep", type=int, default=settings.keep_generations, metavar="N", help="generations to keep (%(default)s)"
    )
    new.add_argument(
        "--grace",
        type=float,
        default=settings.gc_grace,
        metavar="S",
        help=f"seconds: leave younger files alone ({settings.gc_grace:g})",
    )
    options = new.parse_args(argv)
    if options.keep < 1 or options.grace < 0:
        raise UsageError(f"--keep {options.keep} --grace {options.grace}", "keep at least 1, a grace of at least 0")
    from helix.snapshot.gc import collect
    from helix.snapshot.ledger.inbox import current

    root = resolve_store(options, settings)
    current(root)  # a store that is none says so
    done = collect(root, options.keep, options.grace, settings.lock_wait)
    if options.json:
        print_json(asdict(done))
    else:
        print_text(
            f"{len(done.removed)} files and folders removed, {done.bytes / 1e6:.1f} MB; "
            f"{format_count(done.kept, 'generation')} kept, {done.pinned} in use"
        )
    return 0


def rollback(argv: Sequence[str]) -> int:
    """Return to an earlier generation; documents taken in since are set aside."""
    new = build_parser(
        "rollback",
        rollback.__doc__ or "",
        "  helix rollback --list\n  helix rollback\n  helix rollback 41 --store memory",
    )
    new.add_argument("generation", nargs="?", type=int, metavar="N", help="which (the one before the current)")
    new.add_argument("--list", action="store_true", help="say what there is to return to")
    options = new.parse_args(argv)
    from pipelines.maintain.forget import resume
    from pipelines.maintain.rollback import listed, mend
    from pipelines.maintain.rollback import rollback as run

    settings = load()
    root = resolve_store(options, settings)
    if options.list:
        found = [m for _, m in listed(root)]
        if options.json:
            print_json(
                [
                    {"generation": m.generation, "created": m.created, **m.counts, "encoder": m.lineage.name}
                    for m in found
                ]
            )
            return 0
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
        return 0
    mended = mend(root, settings)
    resume(root, settings, _say)
    done = mended if mended and options.generation in (None, mended.to) else run(root, settings, options.generation)
    if options.json:
        print_json(asdict(done))
    else:
        are = "is" if len(done.set_aside) == 1 else "are"
        aside = (
            f"; {format_count(len(done.set_aside), 'document')} taken in since {are} set aside"
            if done.set_aside
            else ""
        )
        print_text(f"generation {done.generation} holds what {done.to} held{aside}")
        if done.set_aside:
            _say("helix rollback: offer a document again ('helix ingest PATH') to take it in again")
    return 0


def forget(argv: Sequence[str]) -> int:
    """Delete items from every byte of the store, and print the receipt.

    On a terminal it says first what that is, and asks.
    """
    new = build_parser(
        "forget",
        forget.__doc__ or "",
        "  helix forget --item 3f9a04c1d2e5b678 --store memory\n"
        "  helix forget --session 7e44 --json > receipt.json\n"
        "  helix forget --project ledgerline --dry-run",
    )
    which = new.add_mutually_exclusive_group(required=True)
    which.add_argument("--item", action="append", nargs="+", default=[], metavar="ID", help="these items")
    which.add_argument("--session", metavar="S", help="a whole session")
    which.add_argument("--project", metavar="P", help="a whole project")
    new.add_argument("--dry-run", action="store_true", help="say what would be forgotten, and forget nothing")
    new.add_argument("--yes", action="store_true", help="forget without asking")
    options = new.parse_args(argv)
    from helix.snapshot.ledger import inbox as ledger
    from pipelines.ingest.ingest import Report, finish
    from pipelines.maintain.deletion_plan import Selection, as_stored, preview
    from pipelines.maintain.forget import forget as run

    settings = load()
    root = resolve_store(options, settings)
    items = tuple(item for given in options.item for item in given)
    ledger.current(root)  # a store that is none says so
    named = Selection(items, options.session, options.project)
    selection = as_stored(root, named, settings)
    if options.dry_run:
        found = preview(root, selection, settings)
        print_json({"dry_run": True, **asdict(found)}) if options.json else _show(selection, found, sys.stdout)
        return 0
    if not options.yes and sys.stdin.isatty():
        with suppress(UsageError):  # of nothing nobody is asked: it may be left to finish what was interrupted
            _show(selection, preview(root, selection, settings), sys.stderr)
            if not _agrees("Gone from every byte of the store, for good. Forget it? [y/N] "):
                _say("nothing was forgotten")
                return 0
    if settings.share:  # what other machines accepted may hold it too
        from pipelines.maintain import replication as share

        share.check_home(root, settings)
        share.collect(root, settings, None)
    if ledger.pending(root):  # what is accepted and not published yet may hold it too
        finish(root, settings, Report(), say=_say)
    receipt = run(root, as_stored(root, named, settings), settings, _say)
    if options.json:
        print_json(receipt)
        return 0
    files = [
        ("rewritten" if file["after"] else "removed", file["path"], f"{file['before'][:12]}…")
        for file in receipt["files"]
    ]
    files += [(there["action"], there["path"], "of the share") for there in receipt.get("share", ())]
    print_table(files, ("what", "file", "sha256 before"), whole=(0, 2))
    print_text(
        f"{format_count(len(receipt['items']), 'item')} forgotten; {format_count(receipt['removed'], 'file')} removed, "
        f"{receipt['rewritten']} rewritten; generation {receipt['snapshot']}; "
        f"receipt: {root / 'receipts' / receipt['id']}.json"
    )
    return 0


def _show(selection: Selection, found: Preview, stream: TextIO) -> None:
    """Print what a deletion means, for a person: how much it is, and the newest of it."""
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


LINE = 72
"""Characters of an item that are shown before it is forgotten."""


def _agrees(question: str) -> bool:
    """Ask whoever sits at the terminal. Silence is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
