"""`helix remember`, `helix correct` and `helix feedback`: what is to be remembered, and what became of an item."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from helix.cli.completion import TYPES
from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import print_note, print_text
from helix.errors import UsageError
from helix.settings import load

if TYPE_CHECKING:
    from helix.cli.parser import Parser
    from helix.snapshot.reader.snapshot import Snapshot

AGENTS: Final = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_THREAD_ID", "GEMINI_CLI", "CURSOR_AGENT", "OPENCODE")
"""Variables that agents set in the shells they open: without --by, a note from there is the agent's."""


def remember(argv: Sequence[str]) -> int:
    """Remember a note: of a project, or of the user in all projects."""
    new = build_parser(
        "remember",
        remember.__doc__ or "",
        '  helix remember "never edit queue.py by hand: make codegen writes it" --project ledgerline --pin\n'
        '  helix remember "answer in metric units" --scope user\n'
        "  helix remember - < note.txt    # the text from standard input",
    )
    new.add_argument("text", metavar="TEXT", help="the note; - reads it from stdin")
    new.add_argument("--project", metavar="P", help="its project (that of the current folder)")
    new.add_argument("--scope", default="project", metavar="S", help="project, or user: for all projects (project)")
    new.add_argument("--type", metavar="T", help=f"{', '.join(TYPES)} (found by the text)")
    new.add_argument("--pin", action="store_true", help="at the top of every briefing")
    _add_common(new)
    options = new.parse_args(argv)
    root = resolve_store(options)
    project = options.project or _find_project(root)
    receipt = _write(root, options, project=project, scope=options.scope, type=options.type, pinned=options.pin)
    return _report(root, receipt, options)


def correct(argv: Sequence[str]) -> int:
    """Correct an item: the note replaces it from now on."""
    new = build_parser(
        "correct",
        correct.__doc__ or "",
        '  helix correct b18d71f0#c34708f0 "we deploy on Fridays now"\n  helix correct 3f9a52c0d1e4b768 - < note.txt',
    )
    new.add_argument("item", metavar="ITEM", help="an item id, or a place such as b18d71f0#c34708f0")
    new.add_argument("text", metavar="TEXT", help="what holds now; - reads it from stdin")
    _add_common(new)
    options = new.parse_args(argv)
    root = resolve_store(options)
    snap = _open(root)
    row = find_item(snap, options.item)
    code = int(snap.columns.project[row])
    identity = f"{int(snap.columns.key[row]):016x}"
    receipt = _write(root, options, project=snap.projects[code] if code >= 0 else None, corrects=identity)
    return _report(root, receipt, options)


def feedback(argv: Sequence[str]) -> int:
    """Tell what became of an item: used, helpful, wrong or stale."""
    new = build_parser("feedback", feedback.__doc__ or "", "  helix feedback b18d71f0#c34708f0 stale")
    new.add_argument("item", metavar="ITEM", help="an item id, or a place such as b18d71f0#c34708f0")
    new.add_argument(
        "kind", metavar="KIND", choices=("used", "helpful", "wrong", "stale"), help="used, helpful, wrong, stale"
    )
    options = new.parse_args(argv)
    root = resolve_store(options)
    from helix.snapshot.ledger.access_events import EventAppender, make_event

    snap = _open(root)
    row = find_item(snap, options.item)
    event = make_event(f"{int(snap.columns.key[row]):016x}", options.kind)
    events = EventAppender(root)
    events.append([event])
    events.close()
    print_json(event._asdict()) if options.json else print_text(f"noted: {event.item} is {event.kind}")
    return 0


def find_item(snap: Snapshot, name: str) -> int:
    """Return the row of an item by its id or its citation.

    Raises:
        UsageError: no live item has it.
    """
    row = snap.find(name)
    if row is None:
        raise UsageError(f"no live item is {name[:80]!r}", "take an id from 'helix recall', or a place such as s1#t2")
    return row


def _add_common(new: Parser) -> None:
    new.add_argument("--by", metavar="WHO", help="user or agent (user; agent in a shell that an agent opened)")
    new.add_argument("--author", metavar="NAME", help="the name of who says it")
    new.add_argument("--acl", default="", metavar="A,B", help="only these principals may see it")


def _write(root: Path, options: Any, **fields: Any) -> dict[str, Any]:
    import sys

    from helix.sdk.notes import write_note

    text = sys.stdin.read() if options.text == "-" else options.text
    by = options.by or ("agent" if any(os.environ.get(name) for name in AGENTS) else "user")
    acl = tuple(name.strip() for name in options.acl.split(",") if name.strip())
    return write_note(root, text, by=by, author=options.author, acl=acl, **fields)


def _report(root: Path, receipt: dict[str, Any], options: Any) -> int:
    """Publish the note here, or leave it to the workers where a broker is set, and print the receipt."""
    settings = load()
    if settings.redis_url:
        receipt["published"] = False
    else:
        from pipelines.embedded.ingest import finish
        from pipelines.ingest.accept_all import IngestReport

        report = IngestReport()
        finish(root, settings, report, say=print_note)
        receipt |= {"published": not report.refused, "snapshot": report.snapshot}
    if options.json:
        print_json(receipt)
        return 0
    where = f" of {receipt['project']}" if receipt["project"] else ""
    print_text(
        f"remembered{where}: {receipt['id']}" + (f", instead of {receipt['corrects']}" if receipt["corrects"] else "")
    )
    if receipt["redacted"]:
        print_text("redacted: " + ", ".join(f"{kind} {n}" for kind, n in receipt["redacted"].items()))
    if not receipt["published"]:
        print_note("the workers publish it")
    return 0


def _open(root: Path) -> Snapshot:
    from helix.sdk.open import open_memory

    return open_memory(root, load(), warm=False).snapshot


def _find_project(root: Path) -> str | None:
    """Return the project of the current folder: as the store names it, else as its repository does."""
    from helix.util.repositories import find_repository
    from helix.util.workspaces import Workspace, name_workspace

    folder = str(Path.cwd())
    workspace = Workspace(folder, *find_repository(folder))
    if (root / "CURRENT").exists() and (known := _open(root).catalog.locate_project([workspace])):
        return known
    return name_workspace(workspace)
