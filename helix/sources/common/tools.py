"""Tool calls and results of agents: one line for a call, both ends of a result."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from helix.sources.common.fields import get_string, pick_objects
from helix.sources.common.names import fold_line

TOOL_CHARS: Final = 1_200  # characters retained of one tool result (settings.tool_chars)
LINE_CHARS: Final = 200  # of the line for one tool call
_GAP: Final = " … "

# Fields of a call's arguments, the most informative first.
_ARGUMENTS: Final = (
    *("command", "cmd", "file_path", "filePath", "absolute_path", "notebook_path", "pattern", "query", "url"),
    *("description", "path", "skill", "prompt", "question", "content", "plan"),
)
_OWN_TOOL: Final = re.compile(
    r"(?:mcp(?:__|[-_.:/]))?helix(?:__|[-_.:/])(?:recall|search|fetch|timeline|status)", re.IGNORECASE
)
_OWN_COMMAND: Final = re.compile(
    r"(?:^|[;&|(])\s*(?:\w{1,40}=\S{0,200}\s+){0,4}(?:\S{1,200}/)?helix\s+(?:recall|status|sql|hook|mcp)\b"
)
_FIGURES: Final = re.compile(r"[\d.,:%#=>█▏▎▍▌▋▊▉━╸╺─|/\\\s-]+")
_MIN_ROW: Final = 4  # lines of a progress bar


def format_call(name: str, arguments: object) -> str:
    """Return `[Bash] pytest -q`: the tool and its most informative argument, on one line."""
    return fold_line(f"[{name or 'tool'}] {_pick_argument(arguments)}", LINE_CHARS)


def is_own_call(name: str, arguments: object) -> bool:
    """Return whether a tool call asks Helix: its result is in memory already and is nothing new."""
    return bool(_OWN_TOOL.fullmatch(name)) or bool(_OWN_COMMAND.search(_pick_argument(arguments)[:400]))


def keep_ends(text: str, limit: int) -> str:
    """Return at most `limit` characters, half from each end: tools report first the task and last the outcome.

    Of consecutive lines that differ only in their figures, as those of a progress bar, the first and the last stay.
    """
    text = _squeeze(text)
    if len(text) <= limit:
        return text
    half = max((limit - len(_GAP)) // 2, 1)
    return text[:half].rstrip() + _GAP + text[-half:].lstrip()


def _squeeze(text: str) -> str:
    if "\r" in text:  # a terminal overwrites a line: the last state stays
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    lines = text.split("\n")
    if len(lines) < _MIN_ROW:
        return text
    kept: list[str] = []
    for _, group in groupby(lines, key=lambda line: _FIGURES.sub("0", line[:500])):
        row = list(group)
        # Lines of figures alone may be a table.
        kept += [row[0], row[-1]] if len(row) >= _MIN_ROW and re.search(r"[A-Za-z]{3}", row[0]) else row
    return "\n".join(kept)


def _pick_argument(arguments: object, depth: int = 3) -> str:
    """Return the most informative argument of a tool call, at most `depth` lists deep."""
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, list) and depth > 0:
        if command := _join_command(arguments):
            return command
        inner = pick_objects(arguments)
        inner.sort(key=lambda value: value.get("status") != "in_progress")  # of a to-do list, the current entry
        return next(filter(None, (_pick_argument(value, depth - 1) for value in inner)), "")
    if not isinstance(arguments, dict):
        return ""
    named = (get_string(arguments, name) or _join_command(arguments.get(name)) for name in _ARGUMENTS)
    other = (value for value in arguments.values() if isinstance(value, str))
    lists = (_pick_argument(value, depth) for value in arguments.values() if isinstance(value, list))
    return next(filter(None, (*named, *other, *lists)), "")


def _join_command(value: object) -> str:
    """Return a list of words, a command and its arguments, as one text; an empty text for anything else."""
    return " ".join(value) if isinstance(value, list) and all(isinstance(word, str) for word in value) else ""
