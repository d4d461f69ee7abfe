"""`helix retry` and `helix drop`: dead documents are tried again, or their text is removed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import Parser, build_parser, resolve_store
from helix.cli.terminal import format_count, print_result
from helix.errors import UsageError
from helix.settings import load

MIN_DIGITS = 8
"""Digits of a document's name that select it."""


def retry(argv: Sequence[str]) -> int:
    """Try dead documents again, as if for the first time."""
    examples = "  helix retry 3f2a90c1…    # one, by its name in 'helix status'\n  helix retry --all"
    options = _add_selection(build_parser("retry", retry.__doc__ or "", examples)).parse_args(argv)
    from helix.snapshot.ledger import inbox
    from workers.cli.enqueue import queue_documents

    settings, root = load(), resolve_store(options)
    selected = _select(root, options)
    for document in selected:
        inbox.revive_document(root, document)
    queued = queue_documents(root, selected, settings, "retry")
    verb = "waits" if len(selected) == 1 else "wait"
    text = f"{format_count(len(selected), 'document')} {verb} again, {queued} queued"
    print_result(options.json, {"retried": selected, "queued": queued}, text)
    return 0


def drop(argv: Sequence[str]) -> int:
    """Remove the text of dead documents. Later copies of them are not accepted."""
    examples = "  helix drop 3f2a90c1…\n  helix drop --all"
    options = _add_selection(build_parser("drop", drop.__doc__ or "", examples)).parse_args(argv)
    from helix.snapshot.ledger import inbox
    from pipelines.maintain.forget import drop_dead

    settings, root = load(), resolve_store(options)
    selected = _select(root, options)
    if back := [document for document in selected if _is_rolled_back(inbox.list_dead(root)[document])]:
        raise UsageError(f"{back[0][:12]}… was published, and rolled back", "use 'helix forget', or leave it")
    if settings.share:
        from pipelines.maintain.replication import primary

        primary.require_primary(root, settings)
    for document in selected:
        drop_dead(root, document)
    if settings.share:
        primary.forget(root, settings, selected)
    text = f"{format_count(len(selected), 'document')} dropped: their text is gone from the store"
    print_result(options.json, {"dropped": selected}, text)
    return 0


def _add_selection(new: Parser) -> Parser:
    new.add_argument("documents", nargs="*", metavar="DOCUMENT", help="a name, or at least its first 8 digits")
    new.add_argument("--all", action="store_true", help="all dead documents, except those that were rolled back")
    return new


def _select(root: Path, options: argparse.Namespace) -> list[str]:
    """Return the names of the selected dead documents; raise UsageError if a name matches none, or several."""
    from helix.snapshot.ledger import inbox

    inbox.load_current(root)  # raises if there is no store
    dead = inbox.list_dead(root)
    if options.all == bool(options.documents):
        raise UsageError("name documents, or give --all", "'helix status' lists the dead documents")
    if options.all:
        return [document for document in dead if not _is_rolled_back(dead[document])]
    selected = set()
    for given in options.documents:
        prefix = given.rstrip("….")
        matches = [document for document in dead if len(prefix) >= MIN_DIGITS and document.startswith(prefix)]
        if len(matches) != 1:
            why = "several documents begin so" if matches else "no dead document has that name"
            raise UsageError(f"{given}: {why}", "'helix status' lists the dead documents")
        selected.add(matches[0])
    return sorted(selected)


def _is_rolled_back(record: dict[str, object]) -> bool:
    """Return whether a document is dead because its generation was rolled back, not by a fault of its own."""
    from helix.snapshot.ledger.inbox import ROLLED_BACK

    return str(record.get("error")).startswith(ROLLED_BACK)
