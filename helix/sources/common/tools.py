"""What is kept of an agent's tools: a line for a call, both ends of a result."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from helix.sources.common.shared import one_line, string

TOOL_CHARS: Final = 1_200  # characters kept of one tool result (settings.tool_chars)
LINE_CHARS: Final = 200  # of the line that stands for one tool call
_CUT: Final = " … "

# The first of these that a tool call gives says the most about it.
_TELLING: Final = (
    "command",
    "cmd",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "path",
    "skill",
    "prompt",
    "question",
    "content",
    "plan",
)


def call_line(name: str, given: object) -> str:
    """`[Bash] pytest -q`: the tool and what says most about the call, on one line."""
    return one_line(f"[{name or 'tool'}] {_telling(given)}", LINE_CHARS)


_OURS: Final = re.compile(
    r"(?:mcp(?:__|[-_.:/]))?helix(?:__|[-_.:/])(?:recall|search|fetch|timeline|status)", re.IGNORECASE
)
_OUR_COMMAND: Final = re.compile(
    r"(?:^|[;&|(])\s*(?:\w{1,40}=\S{0,200}\s+){0,4}(?:\S{1,200}/)?helix\s+(?:recall|status|sql|hook|mcp)\b"
)


def is_ours(name: str, given: object) -> bool:
    """Whether a tool call asks Helix: what it answers is in memory already, and must not be taken for something new."""
    return bool(_OURS.fullmatch(name)) or bool(_OUR_COMMAND.search(_telling(given)[:400]))


def both_ends(text: str, limit: int) -> str:
    """At most `limit` characters, half from each end: tools say what they did first and how it ended last.

    Of a row of lines that differ in their figures alone, as those of a progress bar do, the first and the last stay.
    """
    text = _squeezed(text)
    if len(text) <= limit:
        return text
    half = max((limit - len(_CUT)) // 2, 1)
    return text[:half].rstrip() + _CUT + text[-half:].lstrip()


_FIGURES: Final = re.compile(r"[\d.,:%#=>█▏▎▍▌▋▊▉━╸╺─|/\\\s-]+")
_ROW: Final = 4  # lines


def _squeezed(text: str) -> str:
    if "\r" in text:  # what a terminal wrote over: the last of it stood there
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    lines = text.split("\n")
    if len(lines) < _ROW:
        return text
    kept: list[str] = []
    for _, group in groupby(lines, key=lambda line: _FIGURES.sub("0", line[:500])):
        row = list(group)
        # What is made of figures alone may be a table.
        kept += [row[0], row[-1]] if len(row) >= _ROW and re.search(r"[A-Za-z]{3}", row[0]) else row
    return "\n".join(kept)


def _telling(given: object, depth: int = 3) -> str:
    """The input field of a tool call that says most about it, at most `depth` lists deep."""
    if isinstance(given, str):
        return given
    if isinstance(given, list) and depth > 0:
        if given and all(isinstance(value, str) for value in given):
            return " ".join(given)  # a command and its arguments
        found = [value for value in given if isinstance(value, dict)]
        found.sort(key=lambda value: value.get("status") != "in_progress")  # of a to-do list, what is being done
        return next(filter(None, (_telling(value, depth - 1) for value in found)), "")
    if not isinstance(given, dict):
        return ""
    named = (string(given, name) or _argv(given.get(name)) for name in _TELLING)
    other = (value for value in given.values() if isinstance(value, str))
    inner = (_telling(value, depth) for value in given.values() if isinstance(value, list))
    return next(filter(None, (*named, *other, *inner)), "")


def _argv(value: object) -> str:
    given = isinstance(value, list) and value and all(isinstance(part, str) for part in value)
    return " ".join(value) if given and isinstance(value, list) else ""
