"""Blocks of a SpecStory history: the lines under each heading, with the tool calls among them.

Headings are lines such as `_**Agent (model time)**_`. Tool outputs quote such lines too, so a heading is between blank
lines and outside of any tool block. Blocks are matched from the inside, as an output may contain whole ones.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from helix.sources.common.times import parse_iso
from helix.sources.common.tools import is_own_call

TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_HEADING: Final = re.compile(r"_\*\*(User|Agent|Assistant)( - sidechain)?(?: \(([^\n]{0,300})\))?\*\*_\s*")
_WHEN: Final = re.compile(rf"(?:(.*?) ?\b)?({TIME})")

_TOOL: Final = re.compile(r"<tool-use\b[^>]*>.*")
_TOOL_END: Final = ("</details></tool-use>", "</tool-use>")
_TOOL_NAMED: Final = re.compile(r"Tool use: \*\*([^*\n]{1,100})\*\*\s*")  # early histories have only this mark
_ATTRIBUTE: Final = re.compile(r'data-tool-(type|name)="([^"]{0,200})"')
_SUMMARY: Final = re.compile(r"<summary>(?:Tool use: \*\*([^*]{1,100})\*\*)?(.*?)</summary>")
_SUMMARY_LINES: Final = 5
_FRAME: Final = frozenset({"<details>", "</details>", "</tool-use>", "</details></tool-use>"})
_RESULT: Final = re.compile(r"```(?:text)?\s*")
_INPUT: Final = re.compile(r"```\w+.*")
_ARGUMENT: Final = re.compile(r"(?:- )?(?:\*\*)?(?:[\w-]+:? )?`[^`]+`.*")  # "path `./` pattern `tide`", "- skill: `x`"
_LABEL: Final = re.compile(r"\*\*(?:Input|Result):\*\*\s*")
_PATH: Final = re.compile(r"(?<!\S)(?:/|[A-Za-z]:\\|\./)[^\s:]{1,300}\.\w{1,10}\b")

_THINK: Final = "<think>"
_THINK_END: Final = "</think>"


@dataclass(slots=True)
class Call:
    """A tool block: a call and its result."""

    line: int
    name: str
    argument: str | None  # the most informative one; None for a call of Helix
    result: str
    kind: str = ""  # as the block writes it: shell, read, write, search


@dataclass(slots=True)
class Block:
    """The lines and calls under one heading."""

    line: int
    is_user: bool
    is_side: bool
    model: str
    time: datetime | None
    quality: str
    parts: list[str | Call] = field(default_factory=list)
    reasoning: int = 0  # characters

    @property
    def calls(self) -> list[Call]:
        """Tool calls among the parts."""
        return [part for part in self.parts if isinstance(part, Call)]


def is_heading(lines: list[str], at: int) -> bool:
    """Return whether a line begins a block."""
    if not lines[at].startswith("_**") or not _HEADING.fullmatch(lines[at]):
        return False
    return not any(lines[near].strip() for near in (at - 1, at + 1) if 0 <= near < len(lines))


def read_time(written: str | None) -> datetime | None:
    """Return a time as headings write it."""
    return parse_iso(written) if written and re.fullmatch(TIME, written) else None


def split_blocks(lines: list[str], time: datetime | None, quality: str) -> Iterator[Block]:
    """Yield the blocks in file order. Lines before the first heading belong to none.

    Args:
        time: that of a block before any heading has one.
        quality: that of `time`.
    """
    ends = _find_tool_ends(lines)
    block: Block | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if is_heading(lines, at):
            if block is not None:
                yield block
            block = _read_heading(line, at + 1, time, quality)
            time, quality = block.time, "derived" if block.quality == "exact" else block.quality
            at += 1
            continue
        if block is None or block.is_user:
            end = at + 1
            if block is not None:
                block.parts.append(line)
        elif line.startswith(_THINK):
            end = _find_end(lines, at, last=lambda line: _THINK_END in line)
            block.reasoning += sum(map(len, lines[at:end]))
        elif _TOOL.match(line):
            end = ends[at] + 1 if at in ends else _find_end(lines, at, beyond=lambda line: bool(_TOOL.match(line)))
            block.parts.append(_read_call(lines[at:end], at + 1))
        elif _TOOL_NAMED.fullmatch(line):
            end = _find_end(lines, at, beyond=lambda line: line.strip() == "---")
            block.parts.append(_read_call(lines[at:end], at + 1))
        else:
            end = at + 1
            block.parts.append(line)
        at = end
    if block is not None:
        yield block


def _find_tool_ends(lines: list[str]) -> Mapping[int, int]:
    """Return the closing line of each tool block that has one, matched from the inside."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for at, line in enumerate(lines):
        if line.startswith("<tool-use") and _TOOL.match(line):
            if line.rstrip().endswith(_TOOL_END):
                ends[at] = at
            else:
                opened.append(at)
        elif opened and line.startswith(_TOOL_END):
            ends[opened.pop()] = at
    return ends


def _find_end(
    lines: list[str],
    at: int,
    last: Callable[[str], bool] = lambda line: False,
    beyond: Callable[[str], bool] = lambda line: False,
) -> int:
    """Return the end of a stretch of lines: after its last line, before one beyond it, at most up to a heading."""
    for here in range(at, len(lines)):
        if here > at and (beyond(lines[here]) or is_heading(lines, here)):
            return here
        if last(lines[here]):
            return here + 1
    return len(lines)


def _read_heading(line: str, number: int, time: datetime | None, quality: str) -> Block:
    heading = _HEADING.fullmatch(line)
    writer, side, note = heading.groups() if heading else ("User", None, None)
    stamped = _WHEN.fullmatch(note or "")
    own = read_time(stamped[2]) if stamped else None
    model = (stamped[1] or "") if stamped and own else note or ""
    time, quality = (own, "exact") if own else (time, quality)
    return Block(number, writer == "User", side is not None, model.strip(), time, quality)


def _read_call(lines: list[str], number: int) -> Call:
    """Return the call and its result. Of the arguments only the most informative stays."""
    attributes = dict(_ATTRIBUTE.findall(lines[0]))
    bare = _TOOL_NAMED.fullmatch(lines[0])
    name, rest = attributes.get("name") or (bare[1] if bare else ""), ""
    start, end = 1, len(lines)
    for at, line in enumerate(lines[:_SUMMARY_LINES]):
        summary = _SUMMARY.search(line)
        if summary:
            name, rest, start = name or summary[1] or "", html.unescape(summary[2]).strip(" `•"), at + 1
            break
    while end > start and (not lines[end - 1].strip() or lines[end - 1].strip() in _FRAME):
        end -= 1
    plain, inputs, result = _split_body(lines[start:end])
    if result is None:
        # Such as a question to the person, with the answer; an answer without a frame of its own.
        own = [line for line in plain if rest or not _ARGUMENT.fullmatch(line.strip())]
        result = [line for line in own if not _LABEL.fullmatch(line.strip())]
        result = [] if not rest and len(list(filter(str.strip, result))) < 2 else result
    text = "\n".join(result).strip()
    kind = attributes.get("type", "")
    argument = _pick_argument(rest, plain, inputs, text, kind)
    return Call(number, name, None if is_own_call(name, argument) else argument, text, kind)


def _pick_argument(rest: str, plain: list[str], inputs: list[str], result: str, kind: str | None) -> str:
    """Return the most informative argument of a call, from the rest of its summary or its other lines."""
    arguments = [line.strip().removeprefix("- ") for line in plain if _ARGUMENT.fullmatch(line.strip())]
    path = _PATH.search(result) if kind == "write" else None
    candidates = (
        rest,
        " ".join(arguments).replace("`", "").replace("**", ""),
        inputs[0] if inputs and kind == "shell" else "",
        path[0] if path else "",
        next((line.strip(" *") for line in plain if line.strip()), ""),
    )
    return next(filter(None, candidates), "")


def _split_body(body: list[str]) -> tuple[list[str], list[str], list[str] | None]:
    """Return lines outside fences, first lines of the inputs, and lines of the result; None if it has no fence.

    A result is the last fence of a block, of plain text; it may contain fences itself.
    """
    plain: list[str] = []
    inputs: list[str] = []
    within = False
    for at, line in enumerate(body):
        if within:
            within = line.strip() != "```"
            if inputs[-1] == "" and within:
                inputs[-1] = line.strip()
        elif _RESULT.fullmatch(line):
            end = next((last for last in range(len(body) - 1, at, -1) if body[last].strip()), at)
            is_closed = end > at and body[end].strip() == "```"
            return plain, inputs, body[at + 1 : end if is_closed else len(body)]
        elif _INPUT.fullmatch(line):
            within = True
            inputs.append("")
        else:
            plain.append(line)
    return plain, inputs, None
