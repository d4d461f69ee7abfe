"""`helix init`: find the logs of agents, ingest them, and connect the agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.registry import find_command
from helix.cli.terminal import Cell, format_count, print_note, print_table, print_text, shorten_home
from helix.errors import UsageError
from helix.util.ages import format_age, format_seconds
from helix.util.store_place import HOME_STORE, find_store

if TYPE_CHECKING:
    from query.cli.discover import FoundLogs
    from query.install.changes import FileChange

_SOME_REFUSED: Final = 3  # exit status of an ingest that left some inputs out


def init(argv: Sequence[str]) -> int:
    """Find the logs of agents on this machine, ingest them, and connect the agents.

    What would be read and changed is shown first, and nothing happens without a yes.
    """
    parser = build_parser(
        "init",
        init.__doc__ or "",
        "  helix init\n  helix init --dry-run    # only show what is here\n  helix init --yes",
    )
    parser.add_argument("--yes", action="store_true", help="do all of it without asking")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--no-hooks", action="store_true", help="ingest only: leave the agents' settings alone")
    options = parser.parse_args(argv)
    from query.cli.discover import count_secrets, estimate_seconds, find_logs

    store = Path(find_store(options.store or os.environ.get("HELIX_STORE") or HOME_STORE)).absolute()
    found = find_logs(Path.home(), os.environ)
    changes, refused = ({}, {}) if options.no_hooks else _plan_connections(found, store)
    searched, secrets = count_secrets(found)
    seconds = estimate_seconds(sum(logs.bytes for logs in found))
    if options.json:
        logs = [one.as_json() for one in found]
        plan = {"store": str(store), "found": logs, "seconds": round(seconds), "secrets": dict(secrets)}
        print_json({**plan, "searched": searched, "connects": list(changes), "refused": refused})
        return 0
    if not found:
        print_text("no logs of an agent are here; 'helix ingest PATH' reads any others")
        return 0
    _print_plan(store, found, seconds, (searched, sum(secrets.values())))
    _print_connections(changes, refused)
    if options.dry_run:
        return 0
    if not options.yes and not _confirm(list(changes)):
        print_text("nothing was read and nothing was changed")
        return 0
    return _carry_out(store, found, changes)


def _plan_connections(found: Sequence[FoundLogs], store: Path) -> tuple[dict[str, list[FileChange]], dict[str, str]]:
    """Return the changes by agent of those found that have hooks, and by agent why its files cannot be edited."""
    from query.install.agents import AGENTS
    from query.install.changes import find_helix, plan_changes

    changes: dict[str, list[FileChange]] = {}
    refused: dict[str, str] = {}
    for name in dict.fromkeys(logs.agent for logs in found if logs.agent in AGENTS):
        try:
            changes[name] = plan_changes(name, "user", find_helix(), store)
        except UsageError as error:
            refused[name] = error.what
    return changes, refused


def _print_plan(store: Path, found: Sequence[FoundLogs], seconds: float, secrets: tuple[int, int]) -> None:
    now = datetime.now(UTC)
    rows: list[list[Cell]] = [
        [
            (logs.agent, "bold"),
            f"{logs.files:,}",
            f"{logs.bytes / 1e6:,.1f} MB",
            format_age(datetime.fromtimestamp(logs.newest, UTC), now),
            (str(logs.folder), "dim"),
        ]
        for logs in found
    ]
    print_table(rows, ("agent", "sessions", "size", "newest", "folder"), (1, 2), (0,))
    searched, count = secrets
    where = f"in the newest {format_count(searched, 'file')}"
    print_text(f"\n{format_count(count, 'secret')} {where}: secrets are replaced before anything is written")
    print_text(
        f"reading all of it takes about {format_seconds(seconds)}; the newest sessions answer after seconds\n"
        f"the store is {store}"
    )


def _print_connections(changes: Mapping[str, Sequence[FileChange]], refused: Mapping[str, str]) -> None:
    """Print the files that connect each agent, with how many lines each gains and loses."""
    for agent, files in changes.items():
        print_text(f"connecting {agent} changes" if files else f"{agent} is connected already")
        for one in files:
            print_text(f"  {shorten_home(one.path)}  {_count_lines(one)}")
    if any(changes.values()):
        print_text("'helix install AGENT' shows the lines, and with --remove takes them out again")
    for agent, why in refused.items():
        print_note(f"{agent} is not connected: {why}; 'helix install {agent}' says what to do")


def _count_lines(change: FileChange) -> str:
    added = f"{format_count(change.added_lines, 'line')} added"
    return f"{added}, {change.removed_lines:,} removed" if change.removed_lines else added


def _confirm(agents: Sequence[str]) -> bool:
    """Ask whether to go on. Raise UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "add --yes, or --dry-run to look only")
    more = f", and connect {' and '.join(agents)}" if agents else ""
    sys.stderr.write(f"Read these{more}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _carry_out(store: Path, found: Sequence[FoundLogs], changes: Mapping[str, Sequence[FileChange]]) -> int:
    """Connect the agents, then ingest: a session that begins meanwhile is remembered already."""
    from query.install.agents import AGENTS
    from query.install.changes import write_changes

    for agent, files in changes.items():
        write_changes(files)
        if files:
            print_text(f"{agent} is connected: {AGENTS[agent].next_step}")
    status = _call("ingest", [*(str(path) for logs in found for path in logs.paths), "--store", str(store)])
    if str(store) != find_store():
        print_note(f"export HELIX_STORE={store}    # for 'helix recall' in a shell")
    print_note("'helix watch' reads the agents without hooks, too; 'helix doctor' checks all of it")
    return 0 if status == _SOME_REFUSED else status


def _call(name: str, arguments: list[str]) -> int:
    """Run another command in this process; return its exit status."""
    command = find_command(name)
    if command is None:
        raise UsageError(f"no command {name!r}", "install helix-recall again")
    return command(arguments)
