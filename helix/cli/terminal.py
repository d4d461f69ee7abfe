"""What a person sees: tables and colours on a terminal, and the same as plain lines, whole, where the output is piped.

rich is imported where there is a terminal to draw on, and nowhere else. It heeds NO_COLOR.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from helix.text.sanitise import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Cell = str | tuple[str, str]
"""What stands in a table; with the style it has on a terminal."""

GAP = 2  # blanks between columns


def drawn(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at the stream (stdout), on a terminal that knows more than plain lines."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(stream: TextIO | None = None) -> Console:
    """The terminal behind a stream (stdout). Nothing that is written is taken as markup, or as the name of an emoji."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def count(n: int, what: str) -> str:
    """So many of something: "1 item", "2,000 items"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def table(
    rows: Iterable[Sequence[Cell]],
    header: Sequence[str] = (),
    right: Collection[int] = (),
    whole: Collection[int] = (),
) -> None:
    """Rows under a header, each cell folded in its column; piped, the rows alone, a line each with their cells whole.

    Args:
        right: columns that are aligned to the right.
        whole: columns that are not folded while others can be.
    """
    if drawn():
        console().print(drawing(rows, header, right, whole))
        return
    cells = [[printable(cell if isinstance(cell, str) else cell[0]) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = [f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row)]
        print((" " * GAP).join(line).rstrip())


def drawing(
    rows: Iterable[Sequence[Cell]],
    header: Sequence[str] = (),
    right: Collection[int] = (),
    whole: Collection[int] = (),
) -> Table:
    """The same, to be drawn on a terminal."""
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=bool(header))
    for i in range(max(map(len, [*rows, header]))):
        name = printable(header[i]) if i < len(header) else ""
        made.add_column(Text(name), justify="right" if i in right else "left", overflow="fold", no_wrap=i in whole)
    for row in rows:
        pairs = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        made.add_row(*(Text(printable(cell), style) for cell, style in pairs))
    return made


def say(text: str, style: str = "") -> None:
    """Lines on stdout; on a terminal their figures stand out, or all of it has a style."""
    text = printable_lines(text)
    if drawn():
        from rich.text import Text

        console().print(Text(text, style) if style else _marked(text))
    else:
        print(text)


def figures(text: str) -> None:
    """A title, and below it a line for each figure: indented, its name, two blanks or more, and what it is.

    On a terminal the names stand back, and what does not fit is folded below itself.
    """
    text = printable_lines(text)
    if not drawn():
        print(text)
        return
    from rich.table import Table
    from rich.text import Text

    title, *lines = text.splitlines()
    console().print(Text(title, "bold"))
    named = [found.end() for line in lines if (found := re.match(r" +\S.*?  +(?=\S)", line))]
    begin = min(named, default=0)  # where what is said of a name begins in every line
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(Text(line[:begin], "dim"), _marked(line[begin:]))
    console().print(grid)


def _marked(text: str) -> Text:
    from rich.text import Text

    said = Text(text)
    said.highlight_regex(r"(?<![\w.:/@-])\d[\d,.]*\b(?![:/-])", "bold")
    return said


def patch(diff: str) -> None:
    """A unified diff; on a terminal what is put in is green, and what is taken away red."""
    diff = printable_lines(diff.rstrip("\n"))
    if not drawn():
        print(diff)
        return
    from rich.text import Text

    said = Text(diff)
    for style, line in (("green", r"\+"), ("red", "-"), ("cyan", "@@"), ("bold", r"(?:---|\+\+\+) ")):
        said.highlight_regex(rf"(?m)^{line}.*$", style)
    console().print(said, soft_wrap=True)


def complain(who: str, text: str) -> None:
    """One line on stderr: who says it, and what is wrong."""
    text = printable(text)
    if drawn(sys.stderr):
        from rich.text import Text

        console(sys.stderr).print(Text.assemble((f"{who}: ", "bold red"), text), soft_wrap=True)
    else:
        print(f"{who}: {text}", file=sys.stderr)


def note(text: str) -> None:
    """One plain line on stderr."""
    print(printable(text), file=sys.stderr)


def show_help(text: str) -> None:
    """The text of a --help; on a terminal with its headings and options set off."""
    text = text.rstrip("\n")
    if not drawn():
        print(text)
        return
    from rich.text import Text

    said = Text(text)
    said.highlight_regex(r"(?m)^\w[\w ]*:", "bold")
    said.highlight_regex(r"(?<![\w-])--?[a-zA-Z][\w-]*", "cyan")
    said.highlight_regex(r"(?m)^  (?P<green>(?:\w+=\S+ )*helix [\w-]+).*?(?P<dim> {2,}\S.*)?$")
    said.highlight_regex(r"(?m)^  (?P<green>[a-z][\w-]*)(?= {2,}\S)")
    console().print(said, soft_wrap=True)
