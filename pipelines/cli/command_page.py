"""The page of every command and its options, from the parsers: docs/reference/commands.md."""

from __future__ import annotations

import re
from argparse import Action
from collections.abc import Iterator, Sequence

from helix.cli.completion import find_parser
from helix.cli.parser import JSON, STORE, Parser
from helix.cli.registry import COMMANDS

SHARED = frozenset({"store", "json", "help"})
"""Options of every command, which the page lists once."""

HEAD = f"""\
# Commands

Every command and every option, as `helix COMMAND --help` shows them. `python -m pipelines.cli.build_docs` makes this
page from the parsers; a test compares them.

| every command | |
|---|---|
| `--store DIR` | {STORE} |
| `--json` | {JSON} |
| `-h`, `--help` | what the command does, its options, and examples |

| exit status | |
|---|---|
| 0 | done |
| 2 | wrong usage |
| 3 | some inputs were refused; each is named on stderr with the reason and the remedy, the rest was ingested |
| 4 | the store is unusable as it is; the message says why and names the remedy |
"""


def render_commands() -> str:
    """Return the page as Markdown: a section for each group of commands, a part for each command and kind."""
    parts = [HEAD]
    for group, commands in COMMANDS.items():
        parts.append(f"## {group[0].upper()}{group[1:]}\n")
        for name in commands:
            parts += [_render([name]), *(_render([name, kind]) for kind in list_kinds(name))]
    return "\n".join(parts)


def list_kinds(name: str) -> list[str]:
    """Return the first arguments of a command that select a parser of their own: `recall` of `bench`, and others."""
    epilog = find_parser([name])[0].epilog or ""
    listed = re.split(r"^(?:These have a --help of their own|kinds):\n", epilog, flags=re.M)
    return re.findall(r"^  ([a-z]+)  ", listed[1], re.M) if len(listed) > 1 else []


def _render(words: Sequence[str]) -> str:
    parser = find_parser(words)[0]
    parts = [f"### helix {' '.join(words)}\n", _join_lines(parser.description or "") + "\n"]
    rows = [*_list_arguments(parser)]
    if rows:
        parts.append("\n".join(["| argument | |", "|---|---|", *rows]) + "\n")
    if parser.epilog:
        examples = re.split(r"\n\n?(?=These have a --help of their own|kinds:)", parser.epilog)[0]
        parts.append(f"```text\n{examples.removeprefix('examples:').strip(chr(10)).rstrip()}\n```\n")
    return "\n".join(parts)


def _join_lines(text: str) -> str:
    """Undo the wrapping of paragraphs, which depends on the terminal."""
    joined = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return _escape(joined)


def _list_arguments(parser: Parser) -> Iterator[str]:
    """Yield a row for each argument, then for each option, in the order of the parser."""
    actions = [action for action in parser._actions if action.dest not in SHARED]
    for action in sorted(actions, key=lambda action: bool(action.option_strings)):
        help_text = parser._get_formatter()._expand_help(action) if action.help else ""
        yield f"| `{_name(action)}` | {_escape(help_text)} |"


def _name(action: Action) -> str:
    """Return an argument as a usage line shows it."""
    value = action.metavar or (",".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = " ".join(value) if isinstance(value, tuple) else str(value)
    if not action.option_strings:
        return value + ("…" if action.nargs in ("+", "*") else "")
    shown = ", ".join(action.option_strings)
    takes_none = action.nargs == 0
    return shown if takes_none else f"{shown} {value}{'…' if action.nargs in ('+', '*') else ''}"


def _escape(text: str) -> str:
    """Keep Markdown from reading the bars, stars, lines and brackets of a text; code in backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([|*_\[\]<>])", r"\\\1", part) for i, part in enumerate(parts))
