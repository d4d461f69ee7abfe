"""The `helix` command. Subcommands are entry points (`helix.commands`), loaded only when called.

An agent's hook waits for this module: what only some commands need is imported where they need it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from helix.errors import HelixError, StoreError, UsageError

TYPE_CHECKING = False  # as in `typing`, which is one of the things to be waited for
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path
    from typing import Any, NoReturn

    from helix.settings import Settings

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

EXAMPLES = """\
  helix ingest ~/.claude/projects --store memory
  helix recall "why did we pick sqlite" --store memory
  helix status --store memory"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status of CONTRACT: 0 done, 2 usage, 3 some inputs refused, 4 bad store."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may stand at the cursor
        from helix.cli.completion import complete

        complete()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    name, rest = arguments[0] if arguments else "", arguments[1:]
    try:
        status = _run(name, rest)
        sys.stdout.flush()  # now, while a reader that went away is still ours to deal with
        return status
    except HelixError as error:
        return _fail(name, error)
    except ModuleNotFoundError as error:
        from helix.util.extras import install

        return _fail(name, install(error))
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but stdout must not be flushed again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(name, StoreError(f"{error.strerror or error}{where}", "check permissions and free space"))
    except KeyboardInterrupt:
        print(f"helix {name}: stopped", file=sys.stderr)
        return 130


def _run(name: str, rest: Sequence[str]) -> int:
    if name in ("", "-h", "--help"):
        _show_help(_overview())
        return 0 if name else 2
    if name == "--version":
        from helix import __version__

        print(f"helix {__version__}")
        return 0
    if command := find(name):
        try:
            return command(rest)
        except Help as asked:
            _show_help(asked.parser.format_help())
            return 0
    remedy = suggestion(name, [*_commands(), "--version", "--help"])
    return _fail("", UsageError(f"no command {name!r}", remedy or "'helix --help' lists them"))


def _fail(name: str, error: HelixError) -> int:
    """Say on stderr what went wrong, in one line; returns the exit status."""
    from helix.cli.terminal import complain

    complain(f"helix {name}".rstrip(), str(error))
    return error.exit_status


def _show_help(text: str) -> None:
    from helix.cli.terminal import show_help

    show_help(text)


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
    found = _commands().get(name)
    return found.load() if found else None


def _commands() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _overview() -> str:
    """What `helix --help` says: every command that is installed, by what it is for."""
    found = _commands()
    groups = {title: {name: said for name, said in group.items() if name in found} for title, group in COMMANDS.items()}
    ours = {name for group in groups.values() for name in group}
    groups["of other packages"] = {name: _summary(found[name]) for name in sorted(found.keys() - ours)}
    lines = ["usage: helix COMMAND [OPTION …]", "", "Memory for coding agents and assistants.", ""]
    for title, group in groups.items():
        if group:
            lines += [f"{title}:", *(f"  {name:<11} {said}" for name, said in group.items()), ""]
    return "\n".join(
        [
            *lines,
            "options of every command:",
            f"  --store DIR  {STORE}",
            f"  --json       {JSON}",
            "  -h, --help   what the command does, its options, and examples",
            "",
            "helix --version says which one this is.",
            "",
            "examples:",
            EXAMPLES,
        ]
    )


def _summary(command: EntryPoint) -> str:
    """The first line of what another distribution's command says of itself."""
    try:
        return ((command.load().__doc__ or "").strip().splitlines() or [""])[0]
    except ImportError as error:
        return f"cannot be loaded: {error}"


def suggestion(given: str, known: Sequence[str]) -> str:
    """The one of `known` that is likely meant, as a question; nothing where none looks like what was given."""
    from difflib import get_close_matches

    near = get_close_matches(given, known, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


class Help(Exception):
    """A command was asked what it does: here is its parser, to be shown, or to complete from."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours, one line with a remedy, and whose arguments may stand between the options."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """The arguments of one call.

        Raises:
            UsageError: they are wrong.
            Help: they ask for help.
        """
        words = sys.argv[1:] if args is None else list(args)
        commands = any(action.nargs == argparse.PARSER for action in self._get_positional_actions())
        # What follows "--" is no option: that goes with the arguments in one place only.
        whole = self.parse_known_args if commands or "--" in words else self.parse_known_intermixed_args
        found, rest = whole(words, namespace)
        if rest:
            unknown = next((word.partition("=")[0] for word in rest if word[:1] == "-" and len(word) > 1), None)
            if unknown is None:
                self.error(f"{rest[0]!r} is one argument too many")
            raise UsageError(
                f"no option {unknown}", suggestion(unknown, [*self._option_string_actions]) or self._see_help()
            )
        return found

    def print_help(self, file: object = None) -> NoReturn:
        """Leave how it is shown to whoever asked."""
        raise Help(self)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        raise UsageError(message, self._see_help())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.metavar or "/".join(action.option_strings) or action.dest
            known = [str(choice) for choice in action.choices]
            raise UsageError(f"no {name} {value!r}", suggestion(str(value), known) or f"there are {', '.join(known)}")

    def _see_help(self) -> str:
        return f"see '{self.prog} --help'"


class _Format(argparse.RawDescriptionHelpFormatter):
    """Help whose usage leaves out what every command has."""

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """See argparse."""
        own = [action for action in actions if action.dest not in ("store", "json", "help")]
        super().add_usage(usage, own, groups, prefix)


WIDEST = 100
"""Columns of help: longer lines are hard to read."""

STORE = "the store (default: HELIX_STORE, else ./helix-store)"
JSON = "one JSON object on stdout"


def parser(name: str, describe: str, examples: str = "") -> Parser:
    """A subcommand's parser, with the options every command has."""
    from inspect import cleandoc
    from shutil import get_terminal_size
    from textwrap import fill

    width = min(WIDEST, get_terminal_size().columns) - 2
    new = Parser(
        prog=f"helix {name}",
        description="\n\n".join(fill(paragraph, width) for paragraph in cleandoc(describe).split("\n\n")),
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=lambda prog: _Format(prog, max_help_position=28, width=width),
        add_help=False,
    )
    shared = new.add_argument_group("options of every command")
    shared.add_argument("--store", metavar="DIR", help=STORE)
    shared.add_argument("--json", action="store_true", help=JSON)
    shared.add_argument("-h", "--help", action="help", help="show this")
    return new


def port(given: str) -> int:
    """The value of an option that names a port; 0 where it may be any, or none.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not (given.isascii() and given.isdigit() and int(given[:6]) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{given!r} is no port: give a number from 0 to 65535")
    return int(given)


def store_of(options: argparse.Namespace, settings: Settings | None = None) -> Path:
    """Where the store is: the option, else the setting."""
    from pathlib import Path

    from helix.settings import load

    return Path(options.store or (settings or load()).store).expanduser()


def print_json(value: object) -> None:
    """One JSON object on stdout."""
    import orjson

    from helix.text.sanitise import printable_json

    sys.stdout.write(printable_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
