"""The argument parser of every subcommand, with one-line errors and the shared options."""

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


def suggest_name(given: str, known: Sequence[str]) -> str:
    """Return a question that names the most similar of `known`; "" if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(given, known, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


class HelpRequest(Exception):
    """A call with --help. It carries the command's parser, for the help text and for completion."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises Helix's errors and accepts arguments between options."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse one call.

        Raises:
            UsageError: an argument is wrong.
            HelpRequest: the call has --help.
        """
        words = sys.argv[1:] if args is None else list(args)
        has_commands = any(action.nargs == argparse.PARSER for action in self._get_positional_actions())
        # Intermixed parsing does not support "--" or subparsers.
        parse = self.parse_known_args if has_commands or "--" in words else self.parse_known_intermixed_args
        options, rest = parse(words, namespace)
        if rest:
            unknown = next((word.partition("=")[0] for word in rest if word[:1] == "-" and len(word) > 1), None)
            if unknown is None:
                self.error(f"{rest[0]!r} is one argument too many")
            remedy = suggest_name(unknown, [*self._option_string_actions]) or self._help_remedy()
            raise UsageError(f"no option {unknown}", remedy)
        return options

    def format_help(self) -> str:
        """Return the help text; the options of every command are last."""
        self._action_groups.sort(key=lambda group: group.title == SHARED)  # stable
        return super().format_help()

    def print_help(self, file: object = None) -> NoReturn:
        """Raise `HelpRequest`; the caller shows the help."""
        raise HelpRequest(self)

    def error(self, message: str) -> NoReturn:
        """Raise one line instead of printing the whole usage."""
        raise UsageError(message, self._help_remedy())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = "/".join(action.option_strings) or action.metavar or action.dest
            known = [str(choice) for choice in action.choices]
            remedy = suggest_name(str(value), known) or f"there are {', '.join(known)}"
            raise UsageError(f"no {name} {value!r}", remedy)

    def _help_remedy(self) -> str:
        return f"see '{self.prog} --help'"


SHARED = "options of every command"

MAX_LISTED = 9
"""Options of a command that its usage line lists; more are only below."""


class _Format(argparse.RawDescriptionHelpFormatter):
    """Help text whose usage line omits the options of every command."""

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        own = [action for action in actions if action.dest not in ("store", "json", "help")]
        options = [action for action in own if action.option_strings]
        if len(options) > MAX_LISTED and not groups:
            words = [self._format_args(action, action.dest) for action in own if action not in options]
            usage = " ".join(["%(prog)s [OPTION …]", *words])
        super().add_usage(usage, own, groups, prefix)


class JoinWords(argparse.Action):
    """The action of an argument of several words: a question needs no quotes."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Join the words with blanks."""
        setattr(namespace, self.dest, " ".join(values))


MAX_WIDTH = 100
"""Columns of help text."""

STORE = "the store (else HELIX_STORE, ./helix-store or ~/.helix/memory)"

JSON = "one JSON object on stdout"


def build_parser(name: str, describe: str, examples: str = "") -> Parser:
    """Return a subcommand's parser, with the options of every command."""
    from inspect import cleandoc
    from shutil import get_terminal_size
    from textwrap import fill

    width = min(MAX_WIDTH, get_terminal_size().columns) - 2
    new = Parser(
        prog=f"helix {name}",
        description="\n\n".join(fill(paragraph, width) for paragraph in cleandoc(describe).split("\n\n")),
        epilog=f"examples:\n{_fold_prose(examples, width)}" if examples else None,
        formatter_class=lambda prog: _Format(prog, max_help_position=28, width=width),
        add_help=False,
    )
    new._positionals.title = "arguments"
    shared = new.add_argument_group(SHARED)
    shared.add_argument("--store", metavar="DIR", help=STORE)
    shared.add_argument("--json", action="store_true", help=JSON)
    shared.add_argument("-h", "--help", action="help", help="show this")
    return new


def _fold_prose(examples: str, width: int) -> str:
    """Fold the lines that are no commands: those are indented, and stay as they are to be copied."""
    from itertools import groupby
    from textwrap import fill

    parts: list[str] = []
    for is_prose, group in groupby(examples.split("\n"), lambda line: bool(line) and not line.startswith("  ")):
        lines = list(group)
        parts += [fill(" ".join(lines), width)] if is_prose else lines
    return "\n".join(parts)


def parse_port(given: str) -> int:
    """Read the value of a port option; 0 means any port or none, as the option says.

    Raises:
        argparse.ArgumentTypeError: not a number from 0 to 65535.
    """
    if not (given.isascii() and given.isdigit() and int(given[:6]) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{given!r} is no port: give a number from 0 to 65535")
    return int(given)


class _SetLogFormat(argparse.Action):
    """The action of --log-format: child processes inherit the environment."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Set the setting."""
        import os

        os.environ["HELIX_LOG_FORMAT"] = values


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that keep running."""
    text = "of messages on stderr: text, json (auto: text on a terminal)"
    parser.add_argument("--log-format", metavar="F", choices=("auto", "text", "json"), action=_SetLogFormat, help=text)


def resolve_store(options: argparse.Namespace, settings: Settings | None = None) -> Path:
    """Return the store's path: the option, else the setting."""
    from pathlib import Path

    from helix.util.store_place import find_store

    return Path(find_store(options.store) if options.store or settings is None else settings.store)


def print_json(value: object) -> None:
    """Print one JSON object to stdout."""
    import orjson

    from helix.util.sanitise import printable_json

    sys.stdout.write(printable_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()) + "\n")
    sys.stdout.flush()
