"""`helix keys`: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import is_drawn, print_note, print_table, print_text
from helix.settings import load
from helix.util.sanitise import printable
from query import auth

if TYPE_CHECKING:
    from helix.cli.parser import Parser


def keys(argv: Sequence[str]) -> int:
    """Manage API keys, their rights and what they see."""
    parser = _make_parser()
    options = parser.parse_args(argv)
    settings = load()
    path = auth.get_key_file(options.stores or resolve_store(options, settings), settings)
    if options.action == "list":
        return _print_list(auth.load_keys(path), options.json)
    if options.action == "create":
        if options.id or not options.principal:
            parser.error("create takes --principal NAME and no ID")
        if options.grant and (options.scope or not options.stores):
            parser.error("--grant goes with --stores and names the scopes itself")
        key, record = auth.create_key(
            path,
            options.principal,
            projects=options.project,
            scopes=options.scope or ("recall", "feedback"),
            expires=options.expires,
            name=options.name,
            grants=_parse_grants(options.grant) if options.grant else None,
        )
        return _print_key(key, record, options.json)
    if not options.id:
        parser.error(f"{options.action} takes the ID of a key; 'helix keys list' prints the ids")
    if options.action == "rotate":
        return _print_key(*auth.rotate_key(path, options.id, options.overlap), options.json)
    record = auth.revoke_key(path, options.id)
    if options.json:
        print_json(record.describe(datetime.now(UTC)))
    else:
        print_text(f"revoked {record.id}, of {record.principal}")
    return 0


def _parse_grants(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the scopes by store of STORE=SCOPE,SCOPE arguments; without scopes recall and feedback."""
    pairs = [one.partition("=") for one in given]
    return {store: scopes.split(",") if equals else ["recall", "feedback"] for store, equals, scopes in pairs}


def _make_parser() -> Parser:
    parser = build_parser(
        "keys",
        keys.__doc__ or "",
        "  helix keys create --principal ana --project ledgerline --expires 90d\n"
        "  helix keys list\n"
        "  helix keys rotate 3f9c0a51b2e4 --overlap 1d\n"
        "  helix keys revoke 3f9c0a51b2e4\n"
        "  helix keys create --stores /srv/memory --principal ana \\\n"
        "      --grant ana=recall,remember,forget --grant team=recall,remember --grant company\n\n"
        "A key sees the projects it names: their public items, and those that ACLs open to its principal. It is shown\n"
        "once. A change takes effect with the next request.",
    )
    add = parser.add_argument
    add("action", choices=("create", "list", "rotate", "revoke"), help="create, list, rotate or revoke")
    add("id", nargs="?", metavar="ID", help="of a key, to rotate or revoke")
    add("--principal", metavar="NAME", help="the key's holder, as ACLs name it")
    add("--project", metavar="P", action="append", default=[], help="only this one (all); may be repeated")
    text = "recall, feedback or admin; may be repeated (recall and feedback)"
    add("--scope", metavar="S", action="append", choices=auth.SCOPES, help=text)
    add("--stores", metavar="DIR", type=Path, help="the keys of a server of many stores, in this folder")
    text = "a store that the key opens, and its scopes there (recall,feedback); may be repeated; the first is its own"
    add("--grant", metavar="STORE=SCOPES", action="append", default=[], help=text)
    add("--expires", metavar="T", help="ISO 8601, or an age like 90d (never)")
    add("--name", default="", help="a label for the list")
    add("--overlap", metavar="AGE", default="1d", help="the life left to a rotated key (1d)")
    return parser


def _print_key(key: str, record: auth.KeyRecord, as_json: bool) -> int:
    if as_json:
        print_json({"key": key, **record.describe(datetime.now(UTC))})
        return 0
    print(key)
    rights = [(" and ".join(record.scopes), ", ".join(record.projects) if record.projects else "all projects")]
    if record.grants:
        rights = [(", ".join(scopes), f"the store {store}") for store, scopes in record.grants.items()]
    may = "; ".join(f"{scopes} in {place}" for scopes, place in rights)
    if record.grants and record.projects:
        may = f"{may}; of these only {', '.join(record.projects)}"
    end = f"until {record.expires}" if record.expires else "until it is revoked"
    print_note(
        f"{record.id}: {record.principal} may {may}, {end}. "
        "It is not shown again; send it as 'Authorization: Bearer KEY'."
    )
    return 0


def _print_list(records: Sequence[auth.KeyRecord], as_json: bool) -> int:
    now = datetime.now(UTC)
    entries = [record.describe(now) for record in records]
    if as_json:
        print_json({"keys": entries})
        return 0
    if not entries:
        print_note("no keys; 'helix keys create --principal NAME' makes one")
        return 0
    columns = (*_COLUMNS, "grants") if any("grants" in one for one in entries) else _COLUMNS
    rows = [[_format_cell(name, one.get(name)) for name in columns] for one in entries]
    if not is_drawn():
        for row in ([*columns], *rows):
            print("\t".join(map(printable, row)))
        return 0
    cells = [[(_cut_time(cell), "" if row[1] == "live" else "dim") for cell in row] for row in rows]
    print_table(cells, columns, whole=(0,))
    return 0


_COLUMNS = ("id", "state", "principal", "projects", "scopes", "name", "created", "expires")
_DEFAULTS = {"projects": "all", "expires": "never", "grants": "all"}


def _format_cell(column: str, value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{store}={','.join(scopes)}" for store, scopes in value.items())
    return _DEFAULTS[column] if value is None else ",".join(value) if isinstance(value, list) else str(value)


def _cut_time(cell: str) -> str:
    """Return a UTC time to the minute, which fits into its column."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\+00:00$", r"\1 \2", cell)
