"""The pages of the documentation, as Markdown: their blocks, spans, links, headings and tables."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.paths import ROOT

PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"))
)


class Block(NamedTuple):
    """A fenced block."""

    line: int
    language: str
    text: str


@cache
def tokens(page: str) -> list[Token]:
    """All there is, those within a line too, in the order of the page."""
    parsed = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text("utf-8"))
    return [token for one in parsed for token in (one, *(one.children or ()))]


@cache
def blocks(page: str) -> list[Block]:
    """The fenced blocks."""
    return [Block((one.map or [0])[0] + 1, one.info, one.content) for one in tokens(page) if one.type == "fence"]


def spans(page: str) -> list[str]:
    """What stands in backticks."""
    return [one.content for one in tokens(page) if one.type == "code_inline"]


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(path: Path) -> set[str]:
    """Of all headings of a page."""
    parsed = MarkdownIt("commonmark").parse(path.read_text("utf-8"))
    headings = [after for before, after in pairwise(parsed) if before.type == "heading_open"]
    return {slug("".join(one.content for one in heading.children or ())) for heading in headings}


def rows(page: str, table: str) -> list[list[str]]:
    """The cells of the first table whose head begins so."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(table))
    found = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found
