"""The `helix` command. Subcommands are entry points (`helix.commands`), loaded only when called.

An agent's hook waits for this module: what only some commands need is imported where they need it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from helix.errors import HelixError, UsageError

TYPE_CHECKING = False  # as in `typing`, which is one of the things to be waited for
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path
    from typing import NoReturn

    from helix.settings import Settings

Command = Callable[[Sequence[str]], int]
GROUP = "helix.commands"
DISTRIBUTION = "helix_recall"
ORDER = (
    *("ingest", "watch", "recall", "serve", "mcp", "install", "hook", "up", "enqueue", "worker", "beat", "status"),
    *(
        "retry",
        "drop",
        "verify",
        "sql",
        "forget",
        "compact",
        "gc",
        "rollback",
        "reindex",
        "push",
        "pull",
        "touch",
        "models",
        "bench",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status of CONTRACT: 0 done, 2 usage, 3 some inputs refused, 4 bad store."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help(_commands()))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from helix import __version__

        print(f"helix {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    try:
        command = _own(name) or _of_others(name)
        if command is None:
            print(f"helix: no command {name!r}; there are {', '.join(_sorted(_commands()))}", file=sys.stderr)
            return 2
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
    found = _commands().get(name)
    return found.load() if found else None


def _commands() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


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
    from pathlib import Path

    from helix.settings import load

    return Path(options.store or (settings or load()).store).expanduser()


def print_json(value: object) -> None:
    """One JSON object on stdout."""
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
