"""`helix stores`: lists the stores of a server, removes one, and lets a member leave."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import Cell, format_count, print_note, print_table, print_text
from helix.errors import UsageError
from helix.settings import load
from helix.snapshot.store_names import list_stores
from helix.util.sanitise import printable

if TYPE_CHECKING:
    from helix.cli.parser import Parser


def stores(argv: Sequence[str]) -> int:
    """List the stores of a folder, remove one, or let a member leave all of them."""
    parser = _make_parser()
    options = parser.parse_args(argv)
    if not options.stores.is_dir():
        raise UsageError(f"{options.stores} is not a folder", "name the folder of all stores: --stores DIR")
    if options.action == "list":
        return _list(options.stores, as_json=options.json)
    if not options.name:
        parser.error(f"{options.action} takes a NAME")
    if options.action == "remove":
        return _remove(options.stores, options.name, sure=options.yes, as_json=options.json)
    return _leave(options.stores, options.name, options.remove, sure=options.yes, as_json=options.json)


def _make_parser() -> Parser:
    parser = build_parser(
        "stores",
        stores.__doc__ or "",
        "  helix stores list --stores /srv/memory\n"
        "  helix stores leave ana --stores /srv/memory               # shows what would go\n"
        "  helix stores leave ana --stores /srv/memory --remove ana --yes\n"
        "  helix stores remove atlas-2024 --stores /srv/memory --yes",
    )
    add = parser.add_argument
    add("action", choices=("list", "leave", "remove"), help="list, leave or remove")
    add("name", nargs="?", metavar="NAME", help="of the member who leaves, or of the store to remove")
    add("--stores", metavar="DIR", type=Path, required=True, help="the folder of all stores")
    add("--remove", metavar="STORE", action="append", default=[], help="a store that leaves too; may be repeated")
    add("--yes", action="store_true", help="do it; otherwise only show it")
    return parser


def _list(folder: Path, *, as_json: bool) -> int:
    from query.stores.leave import measure_store

    found = [measure_store(folder / name) for name in list_stores(folder)]
    if as_json:
        print_json({"stores": found})
        return 0
    if not found:
        print_note(f"{folder} has no store; ingest into one: helix ingest PATH --store {folder}/NAME")
        return 0
    rows: list[list[Cell]] = [
        [
            (one["store"], "bold"),
            f"{one['items']:,}",
            f"{one['sessions']:,}",
            f"{one['bytes'] / 1_000_000:.1f} MB",
            printable(one.get("error", "")),
        ]
        for one in found
    ]
    print_table(rows, ("store", "items", "sessions", "size", ""), whole=(0,))
    return 0


def _remove(folder: Path, name: str, *, sure: bool, as_json: bool) -> int:
    from helix.snapshot.store_names import locate_store
    from query.stores.leave import measure_store, remove_store

    found = measure_store(locate_store(folder, name))
    if sure:
        remove_store(folder, name)
    if as_json:
        print_json({**found, "removed": sure})
        return 0
    holds = f"{name}: {format_count(found['items'], 'item')} of {format_count(found['sessions'], 'session')}"
    print_text(f"removed {holds}" if sure else f"{holds}; --yes removes them for good")
    return 0


def _leave(folder: Path, principal: str, removed: Sequence[str], *, sure: bool, as_json: bool) -> int:
    from query import auth, key_holders
    from query.stores import leave

    path = auth.get_key_file(folder, load())
    if sure:  # the keys first: nothing of theirs is accepted any more
        keys = key_holders.revoke_principal(path, principal)
        for name in removed:
            leave.remove_store(folder, name)
        for name in list_stores(folder):
            if (folder / name / "CURRENT").exists():
                leave.publish_pending(folder / name)
    else:
        keys = key_holders.list_live(path, principal)
    found = leave.list_private(folder, principal)
    receipts = {one.store: leave.forget_private(folder, one)["id"] for one in found} if sure else {}
    if as_json:
        items = {one.store: len(one.ids) for one in found}
        print_json(
            {"principal": principal, "done": sure, "keys": keys, "removed": [*removed], "items": items}
            | {"receipts": receipts}
        )
        return 0
    word = "ended" if sure else "would end"
    print_text(
        f"{printable(principal)}: {format_count(len(keys), 'key')} {word}{': ' if keys else ''}{', '.join(keys)}"
    )
    for one in found:
        word = f"forgotten, receipt {receipts[one.store]}" if sure else "would be forgotten"
        print_text(f"  {one.store}: {format_count(len(one.ids), 'private item')} {word}")
    for name in removed:
        print_text(f"  {name}: the store {'is removed' if sure else 'would be removed'}")
    if not sure:
        print("nothing has changed; --yes does it", file=sys.stderr)
    return 0
