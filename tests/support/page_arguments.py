"""Checks of a command's arguments without running it: they are parsed, and each option exists in full."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache as once
from importlib.metadata import entry_points
from typing import Any

import pytest

from helix.cli.parser import Parser


class Parsed(Exception):
    """A command has parsed its arguments."""


def check_arguments(words: Sequence[str]) -> None:
    """Have a command only parse its arguments.

    Raises:
        UsageError: they are wrong.
    """
    read = Parser.parse_args

    def parse_only(self: Any, *given: Any) -> Any:
        read(self, *given)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch, suppress(Parsed):
        patch.setattr(Parser, "parse_args", parse_only)
        load_command(words[0])(list(words[1:]))
        raise AssertionError(f"helix {shlex.join(words)} parsed no arguments")


def load_command(name: str) -> Callable[[Sequence[str]], int]:
    found = {entry.name: entry for entry in entry_points(group="helix.commands")}
    assert name in found, f"no command helix {name}"
    loaded: Callable[[Sequence[str]], int] = found[name].load()
    return loaded


class ParserFound(Exception):
    """The parser of a command."""

    def __init__(self, parser: Any) -> None:
        super().__init__()
        self.parser = parser


@once
def list_options(name: str, kind: str = "") -> frozenset[str]:
    """Return the options of a command; `bench`, `eval` and `train` have others for each kind."""

    def find_parser(self: Any, *_: Any) -> Any:
        raise ParserFound(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "parse_args", find_parser)
        try:
            load_command(name)([kind] if kind else ["--help"])
        except ParserFound as found:
            return frozenset(found.parser._option_string_actions)
    raise AssertionError(f"helix {name} parsed no arguments")


KINDS = {
    "eval": ("changes", "facts", "types", "report", "fit", "relevance", "replay"),
    "train": ("changes", "ranker", "relevance"),
    "bench": ("recall", "store", "ingest", "watch", "logs", "graph", "shards"),
    "team": ("init", "join", "add", "remove", "publish", "withdraw", "pull", "show", "check", "diff"),
}
"""Commands whose first argument decides the options."""


def check_options(words: Sequence[str]) -> None:
    """Check that a command exists with each of the options in full; argparse accepts prefixes, too."""
    if words[0] == "--version":
        return
    load_command(words[0])
    kind = next((word for word in words[1:2] if word in KINDS.get(words[0], ())), "")
    for word in words:
        name = word.partition("=")[0]
        known = not re.fullmatch(r"--[a-z][a-z-]*", name) or name in list_options(words[0], kind)
        assert known, f"helix {words[0]} has no {name}"
