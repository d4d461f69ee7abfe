"""`helix keys`: makes, lists, replaces and ends the keys that requests from elsewhere come with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import is_drawn, print_note, print_table, print_text
from helix.settings import load
from helix.util.sanitise import printable
from query import auth


def keys(argv: Sequence[str]) -> int:
    """API keys: who may ask from elsewhere, and what they see."""
    new = build_parser(
        "keys",
        keys.__doc__ or "",
        "  helix keys create --principal ana --project ledgerline --expires 90d\n"
        "  helix keys list\n"
        "  helix keys rotate 3f9c0a51b2e4 --overlap 1d\n"
        "  helix keys revoke 3f9c0a51b2e4\n\n"
        "A key sees the projects it names, of them what everybody may see and what ACLs open to its principal. It is\n"
        "shown once. What changes here is in force with the next request.",
    )
    new.add_argument("action", choices=("create", "list", "rotate", "revoke"), help="create, list, rotate or revoke")
    new.add_argument("id", nargs="?", metavar="ID", help="of a key, to rotate or revoke")
    new.add_argument("--principal", metavar="NAME", help="who asks with it, as ACLs name them")
    new.add_argument("--project", metavar="P", action="append", default=[], help="only this one (all); may be repeated")
    new.add_argument(
        "--scope",
        metavar="S",
        action="append",
        choices=auth.SCOPES,
        help="recall, feedback or admin; may be repeated (recall and feedback)",
    )
    new.add_argument("--expires", metavar="T", help="ISO 8601, or an age like 90d (never)")
    new.add_argument("--name", default="", help="what it is for, for you to know it by")
    new.add_argument("--overlap", metavar="AGE", default="1d", help="how long a rotated key goes on (1d)")
    options = new.parse_args(argv)
    settings = load()
    path = auth.path_of(resolve_store(options, settings), settings)
    if options.action == "list":
        return _list(auth.load(path), options.json)
    if options.action == "create":
        if options.id or not options.principal:
            new.error("create takes --principal NAME and no ID")
        scopes = options.scope or ("recall", "feedback")
        key, record = auth.create(
            path,
            options.principal,
            projects=options.project,
            scopes=scopes,
            expires=options.expires,
            name=options.name,
        )
        return _made(key, record, options.json)
    if not options.id:
        new.error(f"{options.action} takes the ID of a key; 'helix keys list' has them")
    if options.action == "rotate":
        return _made(*auth.rotate(path, options.id, options.overlap), options.json)
    record = auth.revoke(path, options.id)
    if options.json:
        print_json(record.shown(datetime.now(UTC)))
    else:
        print_text(f"revoked {record.id}, of {record.principal}")
    return 0


def _made(key: str, record: auth.Record, as_json: bool) -> int:
    if as_json:
        print_json({"key": key, **record.shown(datetime.now(UTC))})
        return 0
    print(key)
    where = ", ".join(record.projects) if record.projects else "all projects"
    ends = f"until {record.expires}" if record.expires else "until it is revoked"
    print_note(
        f"{record.id}: {record.principal} may {' and '.join(record.scopes)} in {where}, {ends}. "
        "It is not shown again; send it as 'Authorization: Bearer KEY'."
    )
    return 0


def _list(records: Sequence[auth.Record], as_json: bool) -> int:
    now = datetime.now(UTC)
    shown = [record.shown(now) for record in records]
    if as_json:
        print_json({"keys": shown})
        return 0
    if not shown:
        print_note("no keys; 'helix keys create --principal NAME' makes one")
        return 0
    rows = [[_cell(name, one[name]) for name in _COLUMNS] for one in shown]
    if not is_drawn():
        for row in ([*_COLUMNS], *rows):
            print("\t".join(map(printable, row)))
        return 0
    print_table(
        [[(_brief(cell), "" if row[1] == "live" else "dim") for cell in row] for row in rows], _COLUMNS, whole=(0,)
    )
    return 0


_COLUMNS = ("id", "state", "principal", "projects", "scopes", "name", "created", "expires")
_NONE = {"projects": "all", "expires": "never"}
"""What stands for nothing."""


def _cell(column: str, value: Any) -> str:
    return _NONE[column] if value is None else ",".join(value) if isinstance(value, list) else str(value)


def _brief(cell: str) -> str:
    """A moment to the minute, UTC: whole it would be folded."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\+00:00$", r"\1 \2", cell)
