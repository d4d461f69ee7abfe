"""The `helix` command. Subcommands are entry points (`helix.commands`), loaded only when called."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NoReturn

import orjson

from helix.errors import HelixError, UsageError
from helix.settings import Settings, load

Command = Callable[[Sequence[str]], int]
GROUP = "helix.commands"
ORDER = (
    *("ingest", "recall", "serve", "enqueue", "worker", "status", "verify"),
    *("sql", "forget", "compact", "gc", "rollback", "reindex", "push", "pull", "touch", "models", "bench"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status of CONTRACT: 0 done, 2 usage, 3 some inputs refused, 4 bad store."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help(commands))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from helix import __version__

        print(f"helix {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in commands:
        print(f"helix: no command {name!r}; there are {', '.join(_sorted(commands))}", file=sys.stderr)
        return 2
    try:
        command: Command = commands[name].load()
        return command(rest)
    except HelixError as error:
        print(f"helix {name}: {error}", file=sys.stderr)
        return error.exit_status
    except ModuleNotFoundError as error:
        print(
            f"helix {name}: the package {error.name} is not installed; pip install 'helix-recall[workers]'",
            file=sys.stderr,
        )
        return 4
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but stdout must not be flushed again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"helix {name}: {error.strerror or error}{where}; check permissions and free space", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print(f"helix {name}: stopped", file=sys.stderr)
        return 130


def _sorted(commands: dict[str, EntryPoint]) -> list[str]:
    return sorted(commands, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def _help(commands: dict[str, EntryPoint]) -> str:
    lines = ["usage: helix COMMAND …", "", "Memory for coding agents and assistants.", ""]
    for name in _sorted(commands):
        described = commands[name].load().__doc__ or ""
        lines.append(f"  {name:9} {described.strip().splitlines()[0]}")
    return "\n".join([*lines, "", "helix COMMAND --help says more. The store: --store DIR or HELIX_STORE."])


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours: one line, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        raise UsageError(message, f"see '{self.prog} --help'")


def parser(name: str, describe: str, examples: str = "") -> Parser:
    """A subcommand's parser, with the options every command has."""
    new = Parser(
        prog=f"helix {name}",
        description=describe,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    new.add_argument("--store", metavar="DIR", help="the store (default: HELIX_STORE, else ./helix-store)")
    new.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return new


def store_of(options: argparse.Namespace, settings: Settings | None = None) -> Path:
    """Where the store is: the option, else the setting."""
    return Path(options.store or (settings or load()).store).expanduser()


def print_json(value: object) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")
    sys.stdout.flush()
