"""The argument parser of every subcommand: one-line errors with a remedy, and the options all commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from helix.errors import UsageError

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, NoReturn

    from helix.settings import Settings


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
