"""The registry of subcommands: Helix's own and those of other packages, by entry point.

An entry point of the group `helix.commands` names a module and a function. `find_command` imports that module: this
is the plug-in mechanism of commands, and the only import by name. Only the called command is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


Command = Callable[[Sequence[str]], int]

GROUP = "helix.commands"

DISTRIBUTION = "helix_recall"

COMMANDS: dict[str, dict[str, str]] = {
    "put in": {
        "init": "find the agents' logs here, ingest them, connect the agents",
        "ingest": "read transcripts, logs and notes, and publish them",
        "watch": "ingest the logs of agents while they grow",
        "remember": "write a note: a rule, a decision, a working command",
        "correct": "replace an item by what holds now",
        "feedback": "tell what became of an item: used, wrong, stale",
        "off": "keep a project or a session out of the store from now on",
        "on": "take it in again from now on",
        "expand": "add questions, weights and token vectors to items, by models",
    },
    "find": {
        "recall": "find items that answer a question, ranked and explained",
        "show": "show an item in its conversation, or a session",
        "sessions": "list the sessions, the newest first",
        "timeline": "show the sessions day by day",
        "decisions": "list what was decided and holds, and what was rejected",
        "why": "say why a line of code is as it is: its commit and session",
        "sql": "query the items in SQL",
        "export": "write the store as JSON lines, Markdown, Parquet or DuckDB",
    },
    "connect agents and programs": {
        "install": "connect an agent: its hooks and the MCP server",
        "hook": "answer a hook of an agent",
        "mcp": "serve an agent over MCP, on stdio",
        "serve": "serve REST, MCP and the page",
        "keys": "manage API keys: who may ask, and what they see",
        "stores": "list the stores of a server, let a member leave",
    },
    "look after the store": {
        "status": "show what is searchable, what waits, what is wrong",
        "doctor": "say what is wrong, and how to mend it",
        "verify": "check every byte",
        "forget": "delete items from every byte, with a receipt",
        "diff": "show what came and went between two generations",
        "rollback": "return to an earlier generation",
        "compact": "merge segments, build indexes",
        "gc": "remove old generations",
        "reindex": "embed all items again in the background, then swap",
        "touch": "apply feedback: raise the priority of useful items",
        "train": "fit the retention model of the profile engram",
        "push": "publish the store to an object store or a folder",
        "pull": "fetch what was pushed",
    },
    "share with a team": {"team": "share decisions, rules and notes in a branch of the repository"},
    "run workers": {
        "up": "run everything on this machine: workers, server, broker",
        "enqueue": "accept documents durably and queue them for workers",
        "worker": "process queued tasks",
        "beat": "queue maintenance tasks on a schedule",
        "retry": "try dead documents again",
        "drop": "remove the text of dead documents",
    },
    "models and measurements": {
        "models": "list, fetch or export models",
        "eval": "measure recall on a benchmark set",
        "bench": "measure the speed of this machine",
    },
    "the shell": {"completion": "print the completion script of bash, zsh or fish"},
}
"""The groups of `helix --help`. They are a table because importing every command is slow and may need extras."""


def find_command(name: str) -> Command | None:
    """Import and return the command of that name, or None."""
    for line in _read_own_entries():
        given, _, value = line.partition("=")
        if given.strip() == name:
            module, _, attribute = value.strip().partition(":")
            command: Command = getattr(import_module(module), attribute)
            return command
    entry = list_commands().get(name)
    return entry.load() if entry else None


def _read_own_entries() -> list[str]:
    """Read `name = module:attribute` of every command of Helix's own distribution.

    `importlib.metadata.entry_points` reads every installed package: too slow for a hook.
    """
    for folder in sys.path:
        try:
            for name in os.listdir(folder or "."):  # noqa: PTH208
                if name.startswith(f"{DISTRIBUTION}-"):
                    with open(f"{folder or '.'}/{name}/entry_points.txt", encoding="utf-8") as file:
                        section = file.read().partition(f"[{GROUP}]\n")[2]
                        return section.partition("\n[")[0].splitlines()
        except OSError:
            continue  # no folder, or no entry points
    return []


def list_commands() -> dict[str, EntryPoint]:
    """Return the entry point of every installed command, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def read_summary(command: EntryPoint) -> str:
    """Return the first line of a command's docstring, or the error of its import."""
    try:
        return ((command.load().__doc__ or "").strip().splitlines() or [""])[0]
    except ImportError as error:
        return f"cannot be loaded: {error}"
