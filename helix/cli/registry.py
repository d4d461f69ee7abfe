"""The subcommands there are: Helix's own and those of other distributions, by entry point."""

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
    "take in": {
        "ingest": "take transcripts, logs and notes in and publish them",
        "watch": "take in what agents write, as they write it",
        "expand": "have a model write questions for items",
    },
    "ask": {
        "recall": "ask a question: what is known of it, ranked and explained",
        "sql": "ask the items in SQL",
    },
    "connect": {
        "install": "connect an agent: its hooks and the MCP server",
        "hook": "answer a hook of an agent",
        "mcp": "serve an agent over MCP, on stdio",
        "serve": "serve REST, MCP and the page",
        "keys": "who may ask from elsewhere, and what they see",
    },
    "the store": {
        "status": "what is published, what waits, what was given up",
        "verify": "check every byte",
        "forget": "delete items from every byte, with a receipt",
        "rollback": "return to an earlier generation",
        "compact": "merge segments, build indexes",
        "gc": "remove old generations",
        "reindex": "embed everything anew beside what serves, and swap",
        "touch": "fold in what was of use",
        "train": "fit the retention model of the profile engram",
        "push": "publish the store to an object store or a folder",
        "pull": "take what was pushed",
    },
    "workers": {
        "up": "all of it on this machine: workers, server, broker",
        "enqueue": "accept durably, hand over to the workers",
        "worker": "work on what is enqueued",
        "beat": "have done what is due now and then",
        "retry": "try again what was given up",
        "drop": "remove the text of what was given up",
    },
    "models and measurements": {
        "models": "which models are in reach; fetch or export one",
        "eval": "measure recall on a benchmark set",
        "bench": "measure the speed of this machine",
    },
    "the shell": {
        "completion": "what TAB completes, for bash, zsh and fish",
    },
}
"""What each command is for, as `helix --help` groups them: to import all takes long, and packages may be missing."""


def find(name: str) -> Command | None:
    """The command of that name; None where there is none."""
    return _own(name) or _of_others(name)


def _own(name: str) -> Command | None:
    """A command of Helix's own distribution."""
    for line in _registered():
        given, _, value = line.partition("=")
        if given.strip() == name:
            module, _, attribute = value.strip().partition(":")
            command: Command = getattr(import_module(module), attribute)
            return command
    return None


def _registered() -> list[str]:
    """`name = module:attribute` of every command that Helix was installed with.

    To look through all that is installed, as `entry_points` does, takes longer than a hook may take.
    """
    for place in sys.path:
        try:
            there = [name for name in os.listdir(place or ".") if name.startswith(f"{DISTRIBUTION}-")]  # noqa: PTH208
            for name in there:
                with open(f"{place or '.'}/{name}/entry_points.txt", encoding="utf-8") as file:
                    _, _, commands = file.read().partition(f"[{GROUP}]\n")
                    return commands.partition("\n[")[0].splitlines()
        except OSError:
            continue  # not a folder, or of something else
    return []


def _of_others(name: str) -> Command | None:
    """A command that another distribution adds."""
    found = commands().get(name)
    return found.load() if found else None


def commands() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def summary(command: EntryPoint) -> str:
    """The first line of what another distribution's command says of itself."""
    try:
        return ((command.load().__doc__ or "").strip().splitlines() or [""])[0]
    except ImportError as error:
        return f"cannot be loaded: {error}"
