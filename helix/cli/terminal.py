"""Output for a person: tables and colours on a terminal, complete plain lines in a pipe.

Only output to a terminal imports rich, which respects NO_COLOR.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from helix.cli.parser import print_json
from helix.util.sanitise import printable, printable_lines

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Cell = str | tuple[str, str]
"""The text of a table's cell, or its text and style."""

GAP = 2  # blanks between columns


def is_drawn(stream: TextIO | None = None) -> bool:
    """Return whether the stream (stdout) is a terminal that can draw."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def open_console(stream: TextIO | None = None) -> Console:
    """Return rich's console of a stream (stdout), without markup and emoji names."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def format_count(n: int, noun: str) -> str:
    """Return a number and its noun: "1 item", "2,000 items"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def shorten_home(path: Path | str) -> str:
    """Return a path for a person: ~ for the home folder."""
    text, home = str(path), os.path.expanduser("~")  # noqa: PTH111 — pathlib imports slowly
    return f"~{text[len(home) :]}" if home != "/" and (text == home or text.startswith(f"{home}/")) else text


def print_table(
    rows: Iterable[Sequence[Cell]], header: Sequence[str] = (), right: Collection[int] = (), whole: Collection[int] = ()
) -> None:
    """Print rows below a header, each cell folded in its column; in a pipe one line a row, without the header.

    Args:
        right: right-aligned columns.
        whole: columns that fold last.
    """
    if is_drawn():
        open_console().print(build_table(rows, header, right, whole))
        return
    cells = [[printable(cell if isinstance(cell, str) else cell[0]) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = [f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row)]
        print((" " * GAP).join(line).rstrip())


def build_table(
    rows: Iterable[Sequence[Cell]], header: Sequence[str] = (), right: Collection[int] = (), whole: Collection[int] = ()
) -> Table:
    """Return the table of `print_table`, for a terminal."""
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    result = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=bool(header))
    for i in range(max(map(len, [*rows, header]))):
        name = printable(header[i]) if i < len(header) else ""
        result.add_column(Text(name), justify="right" if i in right else "left", overflow="fold", no_wrap=i in whole)
    for row in rows:
        pairs = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        result.add_row(*(Text(printable(cell), style) for cell, style in pairs))
    return result


def print_text(text: str, style: str = "") -> None:
    """Print lines to stdout; on a terminal in a style, or with bold numbers."""
    text = printable_lines(text)
    if is_drawn():
        from rich.text import Text

        open_console().print(Text(text, style) if style else _bold_numbers(text))
    else:
        print(text)


def print_result(as_json: bool, value: object, text: str) -> None:
    """Print the result of a command: one JSON object, or lines for a person."""
    print_json(value) if as_json else print_text(text)


def print_figures(text: str) -> None:
    """Print a title, and below it indented lines: a name, two blanks or more, a value.

    On a terminal the names are dim, and long values fold in their column.
    """
    text = printable_lines(text)
    if not is_drawn():
        print(text)
        return
    from rich.table import Table
    from rich.text import Text

    title, *lines = text.splitlines()
    open_console().print(Text(title, "bold"))
    ends = [match.end() for line in lines if (match := re.match(r" +\S.*?  +(?=\S)", line))]
    begin = min(ends, default=0)  # column of the values
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(Text(line[:begin], "dim"), _bold_numbers(line[begin:]))
    open_console().print(grid)


def _bold_numbers(text: str) -> Text:
    from rich.text import Text

    result = Text(text)
    result.highlight_regex(r"(?<![\w.:/@-])\d[\d,.]*\b(?![:/-])", "bold")
    return result


def print_diff(diff: str) -> None:
    """Print a unified diff; on a terminal additions are green and removals red."""
    diff = printable_lines(diff.rstrip("\n"))
    if not is_drawn():
        print(diff)
        return
    from rich.text import Text

    result = Text(diff)
    for style, line in (("green", r"\+"), ("red", "-"), ("cyan", "@@"), ("bold", r"(?:---|\+\+\+) ")):
        result.highlight_regex(rf"(?m)^{line}.*$", style)
    open_console().print(result, soft_wrap=True)


def print_error(command: str, text: str) -> None:
    """Print one line to stderr: the command, and its error."""
    text = printable(text)
    if is_drawn(sys.stderr):
        from rich.text import Text

        open_console(sys.stderr).print(Text.assemble((f"{command}: ", "bold red"), text), soft_wrap=True)
    else:
        print(f"{command}: {text}", file=sys.stderr)


def print_note(text: str) -> None:
    """Print one plain line to stderr."""
    print(printable(text), file=sys.stderr)


def show_help(text: str) -> None:
    """Print the text of a --help; on a terminal headings, options and commands have colours."""
    text = text.rstrip("\n")
    if not is_drawn():
        print(text)
        return
    from rich.text import Text

    result = Text(text)
    result.highlight_regex(r"(?m)^\w[\w ]*:", "bold")
    result.highlight_regex(r"(?<![\w-])--?[a-zA-Z][\w-]*", "cyan")
    result.highlight_regex(r"(?m)^  (?P<green>(?:\w+=\S+ )*helix [\w-]+).*?(?P<dim> {2,}\S.*)?$")
    result.highlight_regex(r"(?m)^  (?P<green>[a-z][\w-]*)(?= {2,}\S)")
    open_console().print(result, soft_wrap=True)
