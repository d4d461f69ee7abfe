"""`helix retry` and `helix drop`: what becomes of documents that were given up."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import Parser, build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, print_text
from helix.errors import UsageError
from helix.settings import load

SHORTEST = 8  # digits of a name


def retry(argv: Sequence[str]) -> int:
    """Have documents that were given up tried again, as if for the first time."""
    examples = "  helix retry 3f2a90c1…    # one, by the name 'helix status' gives it\n  helix retry --all"
    new = build_parser("retry", retry.__doc__ or "", examples)
    options = _which(new).parse_args(argv)
    from helix.snapshot.ledger import inbox as ledger

    settings, root = load(), resolve_store(options)
    chosen = _chosen(root, options)
    for document in chosen:
        ledger.revive(root, document)
    from workers.cli.commands import send

    queued = send(root, chosen, settings, "retry")
    if options.json:
        print_json({"retried": chosen, "queued": queued})
    else:
        print_text(
            f"{format_count(len(chosen), 'document')} {'waits' if len(chosen) == 1 else 'wait'} again, {queued} queued"
        )
    return 0


def drop(argv: Sequence[str]) -> int:
    """Have the text of documents that were given up removed; offered again, they stay out."""
    new = build_parser("drop", drop.__doc__ or "", "  helix drop 3f2a90c1…\n  helix drop --all")
    options = _which(new).parse_args(argv)
    settings, root = load(), resolve_store(options)
    chosen = _chosen(root, options)
    from helix.snapshot.ledger import inbox as ledger
    from pipelines.maintain.forget import drop_dead

    if back := [document for document in chosen if _was_published(ledger.dead(root)[document])]:
        raise UsageError(f"{back[0][:12]}… was published, and rolled back", "use 'helix forget', or leave it")
    if settings.share:
        from pipelines.maintain import replication as share

        share.check_home(root, settings)
    for document in chosen:
        drop_dead(root, document)
    if settings.share:
        share.forget(root, settings, chosen)
    if options.json:
        print_json({"dropped": chosen})
    else:
        print_text(f"{format_count(len(chosen), 'document')} dropped: their text is gone from the store")
    return 0


def _which(new: Parser) -> Parser:
    new.add_argument("documents", nargs="*", metavar="DOCUMENT", help="a name, or the first 8 digits of one at least")
    new.add_argument("--all", action="store_true", help="all that were given up, but not what was rolled back")
    return new


def _chosen(root: Path, options: argparse.Namespace) -> list[str]:
    """The dead documents that are meant.

    Raises:
        UsageError: one is no such document, or several.
    """
    from helix.snapshot.ledger import inbox as ledger

    ledger.current(root)  # a store that is none says so
    dead = ledger.dead(root)
    if options.all == bool(options.documents):
        raise UsageError("name documents, or give --all", "'helix status' lists those that were given up")
    if options.all:
        return [document for document in dead if not _was_published(dead[document])]
    chosen = []
    for given in options.documents:
        wanted = given.rstrip("….")
        found = [document for document in dead if len(wanted) >= SHORTEST and document.startswith(wanted)]
        if len(found) != 1:
            why = "several documents begin so" if found else "no document of that name was given up"
            raise UsageError(f"{given}: {why}", "'helix status' lists those that were")
        chosen += found
    return sorted(set(chosen))


def _was_published(record: dict[str, object]) -> bool:
    """Whether a document is dead because somebody took the generation with it back, not for a fault of its own."""
    from helix.snapshot.ledger.inbox import ROLLED_BACK

    return str(record.get("error")).startswith(ROLLED_BACK)
