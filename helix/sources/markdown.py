"""Markdown notes, a turn for each section; plain text, a turn for each group of paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from helix.sources.common.injected import strip_memory
from helix.sources.common.json_text import number_lines
from helix.sources.common.names import fold_line, get_file_stem, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.times import date_document, parse_iso
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "markdown"
JSON = False
GROWS = False

GROUP_WORDS: Final = 150
"""Most words of plain text in one turn, as in one item (settings.item_words)."""

_FRONT_MATTER_LINES: Final = 200

_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_SETEXT: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_NOT_A_HEADING: Final = re.compile(r"[ \t]*(?:[-*+>|]|\d+[.)][ \t]| {4}|\t)")
_COMMENT_MARK: Final = re.compile(r"(<!--|-->)")
_KEY: Final = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?")
_INLINE: Final = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)|[*`]|(?<!\w)_+|_+(?!\w)")


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading's own text, without that of the headings below it."""

    path: tuple[str, ...]  # headings from the top down; empty before the first one
    text: str


def detect(sample: Sample) -> bool:
    """Return true: any text that no other adapter knows is a note."""
    return True


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return one session, with a turn for each section that has text, or for each group of paragraphs."""
    problems: list[Problem] = []
    front, body = _split_front_matter(document.text)
    sections = list(_split_sections(strip_memory(body)))
    time, quality = _find_date(document, front, problems)
    taken: dict[str, int] = {}
    turns = [
        Turn(
            id=make_unique(name, taken),
            text=text,
            role="document",
            origin="document",
            time=time,
            time_quality=quality,
            title=title,
        )
        for name, title, text in _name_turns(sections)
    ]
    if not turns:
        return Parsed((), tuple(problems))
    top = next((section.path[0] for section in sections if section.path), None)
    session = Session(
        source=NAME,
        id=name_session_of_path(document.path),
        turns=tuple(turns),
        project=front.get("project"),
        title=fold_line(front.get("title") or top or get_file_stem(document.path)),
    )
    return Parsed((session,), tuple(problems))


def _name_turns(sections: list[_Section]) -> Iterator[tuple[str, str | None, str]]:
    """Yield id, title and text of each turn."""
    if any(section.path for section in sections):
        for section in sections:
            if section.text:
                slugs = (re.sub(r"[\W_]+", "-", part.lower()).strip("-") or "section" for part in section.path)
                yield "/".join(slugs) or "start", " > ".join(section.path) or None, section.text
        return
    for section in sections:
        for number, text in _group_paragraphs(section.text):
            yield f"p{number}", None, text


def _group_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield groups of paragraphs, up to `GROUP_WORDS` words, with the number of the first paragraph."""
    first, words, group = 1, 0, list[str]()
    for number, paragraph in enumerate(filter(None, map(str.strip, re.split(r"\n[ \t]*\n", text))), 1):
        count = len(paragraph.split())
        if group and words + count > GROUP_WORDS:
            yield first, "\n\n".join(group)
            first, words, group = number, 0, []
        words += count
        group.append(paragraph)
    if group:
        yield first, "\n\n".join(group)


def _split_sections(text: str) -> Iterator[_Section]:
    """Yield the sections in order, also those without text, for their headings."""
    path: list[tuple[int, str]] = []
    body: list[str] = []
    fence = ""
    for line in _strip_comments(text.split("\n")):
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and line.strip() == marker[1]:
                fence = ""
            body.append(line)
            continue
        if marker:
            fence = marker[1]
            body.append(line)
            continue
        level, heading = _read_heading(line, body)
        if not level:
            body.append(line)
            continue
        if heading is None:  # setext: the line above is the heading
            heading = _strip_marks(body.pop())
        yield _Section(tuple(name for _, name in path), "\n".join(body).strip())
        path = [*(step for step in path if step[0] < level), (level, heading or "Section")]
        body = []
    yield _Section(tuple(name for _, name in path), "\n".join(body).strip())


def _read_heading(line: str, body: list[str]) -> tuple[int, str | None]:
    """Return level and text of a heading line. Level 0: it is none; text None: it underlines the line above."""
    atx = _ATX.fullmatch(line)
    if atx:
        return len(atx[1]), _strip_marks(re.sub(r"(?:^|[ \t])#+$", "", (atx[2] or "").rstrip()))
    setext = _SETEXT.fullmatch(line)
    # Only under a single line: under a paragraph it is mostly a rule.
    alone = bool(body and body[-1].strip()) and (len(body) == 1 or not body[-2].strip())
    if setext and alone and not _NOT_A_HEADING.match(body[-1]):
        return (1 if setext[1].startswith("=") else 2), None
    return 0, None


def _strip_marks(heading: str) -> str:
    return " ".join(_INLINE.sub(lambda match: match[1] or "", heading).split())


def _strip_comments(lines: list[str]) -> Iterator[str]:
    """Yield the lines without HTML comments outside of code fences. A comment that never ends is text."""
    last_end = max((number for number, line in enumerate(lines) if "-->" in line), default=-1)
    fence, inside = "", False
    for number, line in enumerate(lines):
        marker = None if inside else _FENCE.match(line)
        if marker and (not fence or (marker[1].startswith(fence) and line.strip() == marker[1])):
            fence = "" if fence else marker[1]
        if fence or ("<!--" not in line and not inside):
            yield line
            continue
        kept: list[str] = []
        position, last_in_line = 0, line.rfind("-->")
        for part in _COMMENT_MARK.split(line):
            if inside:
                inside = part != "-->"
            elif part == "<!--" and (last_end > number or last_in_line > position):
                inside = True
            else:
                kept.append(part)
            position += len(part)
        yield "".join(kept)


def _split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the simple `key: value` pairs of the front matter, and the body. Other YAML is not used."""
    text = text.lstrip("\n")
    lines = text.split("\n", _FRONT_MATTER_LINES)
    if lines[0].rstrip() != "---":
        return {}, text
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines[1:_FRONT_MATTER_LINES], 1):
        if line.rstrip() in ("---", "..."):
            return (pairs, "\n".join(lines[number + 1 :])) if pairs else ({}, text)
        match = _KEY.fullmatch(line.rstrip())
        if match:
            value = (match[2] or "").strip()
            if value[:1] in ("'", '"') and value.endswith(value[:1]) and len(value) > 1:
                value = value[1:-1]
            if value:
                pairs[match[1].lower()] = value
        elif line.strip() and not line.startswith((" ", "\t", "-", "#")):
            return {}, text
    return {}, text


def _find_date(document: Document, front: dict[str, str], problems: list[Problem]) -> tuple[datetime | None, str]:
    written = front.get("date", "")
    time = parse_iso(written)
    if written and not time:
        line = next((number for number, row in number_lines(document.text) if row.lower().startswith("date")), 0)
        problems.append(Problem(line, f"date {fold_line(written, 40)!r} in the front matter is not ISO 8601; not used"))
    return date_document(document, time)
