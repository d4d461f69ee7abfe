"""`helix compact`, `gc`, `rollback` and `forget`: what changes a store besides taking things in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from helix.cli import parser, print_json, store_of
from helix.errors import UsageError
from helix.settings import load
from pipelines.commands import progress_bar


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def compact(argv: Sequence[str]) -> int:
    """Merge small segments, drop deleted rows, build dense indexes."""
    new = parser("compact", compact.__doc__ or "", "  helix compact --store memory\n  helix compact --full")
    new.add_argument("--full", action="store_true", help="make one segment of all")
    options = new.parse_args(argv)
    from pipelines.compact import compact as run
    from pipelines.compact import still
    from pipelines.forget import resume

    settings = load()
    root = store_of(options, settings)
    resume(root, settings, _say)
    with progress_bar(not options.json) as progress:
        done = run(root, settings, None if progress else _say, full=options.full, progress=progress or still)
    if options.json:
        print_json(asdict(done))
    else:
        print(
            f"{done.merged} segments merged, {done.dropped:,} deleted rows dropped, {done.indexed} dense indexes "
            f"built; {done.segments} segments, generation {done.generation}"
        )
    return 0


def gc(argv: Sequence[str]) -> int:
    """Remove old generations and the files only they need."""
    settings = load()
    new = parser("gc", gc.__doc__ or "", "  helix gc --store memory\n  helix gc --keep 1 --grace 0")
    new.add_argument(
        "--keep", type=int, default=settings.keep_generations, metavar="N", help="generations to keep (%(default)s)"
    )
    new.add_argument(
        "--grace",
        type=float,
        default=settings.gc_grace,
        metavar="S",
        help="leave younger files alone (%(default)s s)",
    )
    options = new.parse_args(argv)
    if options.keep < 1 or options.grace < 0:
        raise UsageError(f"--keep {options.keep} --grace {options.grace}", "keep at least 1, a grace of at least 0")
    from helix.snapshot.gc import collect

    done = collect(store_of(options, settings), options.keep, options.grace, settings.lock_wait)
    if options.json:
        print_json(asdict(done))
    else:
        print(
            f"{len(done.removed)} files and folders removed, {done.bytes / 1e6:.1f} MB; "
            f"{done.kept} generations kept, {done.pinned} in use"
        )
    return 0


def rollback(argv: Sequence[str]) -> int:
    """Return to an earlier generation; documents taken in since are set aside."""
    new = parser(
        "rollback",
        rollback.__doc__ or "",
        "  helix rollback --list\n  helix rollback\n  helix rollback 41 --store memory",
    )
    new.add_argument("generation", nargs="?", type=int, metavar="N", help="which (the one before the current)")
    new.add_argument("--list", action="store_true", help="say what there is to return to")
    options = new.parse_args(argv)
    from helix.snapshot.manifest import generations
    from pipelines.forget import resume
    from pipelines.rollback import rollback as run

    settings = load()
    root = store_of(options, settings)
    if options.list:
        found = [
            {"generation": m.generation, "created": m.created, **m.counts, "encoder": m.lineage.name}
            for _, m in generations(root)
        ]
        if options.json:
            print_json(found)
        for entry in found if not options.json else ():
            print("{generation:>8}  {created}  {items:,} items, {documents:,} documents, {encoder}".format(**entry))
        return 0
    resume(root, settings, _say)
    done = run(root, settings, options.generation)
    if options.json:
        print_json(asdict(done))
    else:
        aside = f"; {len(done.set_aside)} documents taken in since are set aside" if done.set_aside else ""
        print(f"generation {done.generation} holds what {done.to} held{aside}")
        if done.set_aside:
            _say("helix rollback: offer a document again ('helix ingest PATH') to take it in again")
    return 0


def forget(argv: Sequence[str]) -> int:
    """Delete items from every byte of the store, and print the receipt."""
    new = parser(
        "forget",
        forget.__doc__ or "",
        "  helix forget --item 3f9a04c1d2e5b678 --store memory\n"
        "  helix forget --session 7e44 --json > receipt.json\n"
        "  helix forget --project ledgerline",
    )
    which = new.add_mutually_exclusive_group(required=True)
    which.add_argument("--item", action="append", nargs="+", default=[], metavar="ID", help="these items")
    which.add_argument("--session", metavar="S", help="a whole session")
    which.add_argument("--project", metavar="P", help="a whole project")
    options = new.parse_args(argv)
    from helix.snapshot import ledger
    from pipelines.forget import forget as run
    from pipelines.ingest import Report, finish
    from pipelines.selection import Selection

    settings = load()
    root = store_of(options, settings)
    if settings.share:  # what other machines accepted may hold it too
        from pipelines import share

        share.check_home(root, settings)
        share.collect(root, settings, None)
    if ledger.pending(root):  # what is accepted and not published yet may hold it too
        finish(root, settings, Report(), say=_say)
    items = tuple(item for given in options.item for item in given)
    receipt = run(root, Selection(items, options.session, options.project), settings, _say)
    if options.json:
        print_json(receipt)
        return 0
    for file in receipt["files"]:
        print(f"{'rewritten' if file['after'] else 'removed':10} {file['path']}  {file['before'][:12]}…")
    for there in receipt.get("share", ()):
        print(f"{there['action']:10} {there['path']} of the share")
    print(
        f"{len(receipt['items'])} items forgotten; {receipt['removed']} files removed, "
        f"{receipt['rewritten']} rewritten; generation {receipt['snapshot']}; "
        f"receipt: {root / 'receipts' / receipt['id']}.json"
    )
    return 0
