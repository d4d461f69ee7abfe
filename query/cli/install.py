"""`helix install`: hooks and the MCP server in an agent's settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import print_diff, print_note, print_text
from helix.errors import UsageError


def install(argv: Sequence[str]) -> int:
    """Connect an agent with the memory: its hooks, and the MCP server."""
    from query.install.agents import AGENTS
    from query.install.changes import find_helix, plan_changes, write_changes

    parser = build_parser(
        "install",
        install.__doc__ or "",
        "  helix install claude-code --store ~/memory\n  helix install codex --remove\n\n"
        "The changes are shown before they are written. Everything else in the files stays as it is.",
    )
    add = parser.add_argument
    add("agent", choices=tuple(AGENTS), metavar="AGENT", help=", ".join(AGENTS))
    add("--scope", choices=("user", "project"), default="user", help="everywhere, or in this folder (user)")
    add("--remove", action="store_true", help="remove Helix's entries")
    add("--yes", action="store_true", help="write without asking")
    options = parser.parse_args(argv)
    store = resolve_store(options).absolute()
    changes = plan_changes(options.agent, options.scope, find_helix(), store, remove=options.remove)
    for change in changes:
        _print_lines(change.diff.rstrip("\n"), options) if options.json else print_diff(change.diff)
    if changes and not options.yes and not _confirm(options):
        _print_lines("nothing was written", options)
        return 0
    write_changes(changes, remove=options.remove)
    if options.json:
        added = {} if options.remove else {"store": str(store)}
        files = [{"path": str(one.path), "action": one.action} for one in changes]
        print_json({"agent": options.agent, "scope": options.scope, **added, "files": files})
    elif not changes:
        print_text("nothing to do")
    else:
        _print_lines("\n".join(f"{one.action} {one.path}" for one in changes), options)
        if not options.remove:
            print_text(f"the store is {store}; {AGENTS[options.agent].next_step}")
    return 0


def _confirm(options: Any) -> bool:
    """Ask whether to write the changes. Raise UsageError without a terminal."""
    if options.json or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on before writing", "add --yes")
    sys.stderr.write("Write this? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_lines(lines: str, options: Any) -> None:
    """Print lines to a person: on stderr with --json."""
    for line in lines.split("\n"):
        print_note(line) if options.json else print_text(line)
