"""The pages of the documentation as Markdown: blocks, spans, links, headings and tables."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise, takewhile
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
    """Return the tokens of a page in order, inline ones included."""
    parsed = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text("utf-8"))
    return [token for one in parsed for token in (one, *(one.children or ()))]


@cache
def blocks(page: str) -> list[Block]:
    """Return the fenced blocks."""
    return [Block((one.map or [0])[0] + 1, one.info, one.content) for one in tokens(page) if one.type == "fence"]


def spans(page: str) -> list[str]:
    """Return the texts in backticks."""
    return [one.content for one in tokens(page) if one.type == "code_inline"]


def slug(heading: str) -> str:
    """Return the anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    parsed = MarkdownIt("commonmark").parse(path.read_text("utf-8"))
    headings = [after for before, after in pairwise(parsed) if before.type == "heading_open"]
    return {slug("".join(one.content for one in heading.children or ())) for heading in headings}


def rows(page: str, table: str) -> list[list[str]]:
    """Return the cells of the first table whose head begins with a text."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(table))
    body = takewhile(lambda line: line.startswith("|"), lines[begin + 2 :])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]
