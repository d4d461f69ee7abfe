"""Answers of aider's models: without reasoning, and with shortened edits.

An edit repeats the code it replaces. Of each edit block the file's name and both ends of the new code stay.
"""

from __future__ import annotations

import re
from typing import Final

from helix.sources.common.injected import iterate_between
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.tools import keep_ends

_EDIT: Final = re.compile(r"<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)\b.*")
_EDIT_MIDDLE: Final = re.compile(r"={5,9}\s*")
_EDIT_END: Final = re.compile(r">{5,9} ?(?:REPLACE|UPDATED)\b.*")
_EDIT_FENCE: Final = re.compile(r"(?:`{3,}|<(?:source|code|pre|codeblock|sourcecode)>)(\w*)\s*")
_EDIT_FENCE_END: Final = re.compile(r"`{3,}\s*|</(?:source|code|pre|codeblock|sourcecode)>\s*")
_PATH: Final = re.compile(r"(?=[^\n]*[./])[\w./\\@+~-]{1,200}:?")
_EDIT_MARKS: Final = re.compile(rf"(?m)^{_EDIT.pattern}$|^(?:{_PATH.pattern})\n{_EDIT_FENCE.pattern}$")
_REASONING: Final = (("► **THINKING**\n", "► **ANSWER**\n"), ("<think>\n", "</think>\n"))


def strip_reasoning(text: str, cleaner: TextCleaner) -> str:
    """Return an answer without its reasoning."""
    for opening, closing in _REASONING:
        if text.startswith(opening) or f"\n{opening}" in text:
            parts, at = [], 0
            for start, end in iterate_between(text, opening, closing):
                parts.append(text[at:start].rstrip("-\n"))
                at = end
            text = cleaner.cut(text, "\n".join([*parts, text[at:]]), "reasoning")
    return text


def shorten_edits(text: str, cleaner: TextCleaner) -> str:
    """Return an answer in which an edit is a line with the file's name, and its new code."""
    if not _EDIT_MARKS.search(text):
        return text
    return cleaner.cut(text, "\n".join(_shorten_lines(text.split("\n"), cleaner)), "tool-output")


def _shorten_lines(lines: list[str], cleaner: TextCleaner) -> list[str]:
    out: list[str] = []
    path, at = "", 0
    done = 0  # lines of `out` up to the end of the last edit
    unclosed = False  # a fence around several edits: removed at the first, its end is still to come
    while at < len(lines):
        fence = _EDIT_FENCE.fullmatch(lines[at])
        if _EDIT.fullmatch(lines[at]):
            opened, path = _pop_heading(out, done, path)
            code, at = _read_new_code(lines, at + 1)
            unclosed = unclosed or opened is not None
            if unclosed and at < len(lines) and _EDIT_FENCE_END.fullmatch(lines[at]):
                unclosed, at = False, at + 1
            out += _format_edit(path, opened or "", code, cleaner)
            done = len(out)
        elif fence and len(out) > done and _PATH.fullmatch(out[-1].strip()) and not _has_edit(lines, at):
            path = out.pop().strip().rstrip(":")
            code, at = _read_fenced(lines, at + 1)
            out += _format_edit(path, fence[1], code, cleaner)
            done = len(out)
        else:
            out.append(lines[at])
            at += 1
    return out


def _pop_heading(out: list[str], done: int, path: str) -> tuple[str | None, str]:
    """Remove the fence and the file's name above an edit, in either order; return language and path."""
    opened: str | None = None
    for _ in range(2):
        last = out[-1].strip() if len(out) > done else ""
        fence = _EDIT_FENCE.fullmatch(last)
        if fence and opened is None:
            opened = fence[1]
        elif _PATH.fullmatch(last):
            path = last.rstrip(":")
        else:
            break
        out.pop()
    return opened, path


def _has_edit(lines: list[str], at: int) -> bool:
    return any(_EDIT.fullmatch(line) for line in lines[at + 1 : at + 3])


def _read_new_code(lines: list[str], at: int) -> tuple[list[str], int]:
    """Return the second half of an edit, and the line after it. An interrupted edit gives the lines it has."""
    start = at
    while at < len(lines) and not _EDIT_MIDDLE.fullmatch(lines[at]):
        if _EDIT_END.fullmatch(lines[at]):
            return [], at + 1
        at += 1
    start = start if at == len(lines) else at + 1
    while at < len(lines) and not _EDIT_END.fullmatch(lines[at]):
        at += 1
    code = lines[start:at]
    if at == len(lines):
        while code and (not code[-1].strip() or _EDIT_FENCE_END.fullmatch(code[-1])):
            code.pop()
    return code, min(at + 1, len(lines))


def _read_fenced(lines: list[str], at: int) -> tuple[list[str], int]:
    start = at
    while at < len(lines) and not _EDIT_FENCE_END.fullmatch(lines[at]):
        at += 1
    return lines[start:at], min(at + 1, len(lines))


def _format_edit(path: str, language: str, code: list[str], cleaner: TextCleaner) -> list[str]:
    text = keep_ends("\n".join(code).strip("\n"), cleaner.tool_chars)
    return [cleaner.write_call("edit", {"file_path": path}), *([f"```{language}", text, "```"] if text else [])]
