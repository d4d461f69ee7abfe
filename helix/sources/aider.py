"""Chat histories of aider: one Markdown file that grows by every session in its folder.

What makes them hard, and what is done about it:

- Nothing closes a message. `#### ` begins what a person typed, `> ` what the tool said, the rest is the model; models
  write headings and quotes of their own. The tool ends each of its own lines with the two spaces of a Markdown break,
  so within a session that has such lines only they count. Trimmed and published texts have none: there every such
  line outside a code block counts.
- The tool prefixes only the first line of an output; the rest follows bare until a line with a break. Outputs that go
  to the model are written twice, so a line that a block already has is left out.
- One session has one stamp, of local time without a zone. It is taken as UTC, for all turns of the session.
- Most of what the tool says is chatter (banner, files added, questions, costs). That is left out by pattern; commits,
  applied edits, errors and the output of commands stay, both ends of them.
- An edit repeats the code it replaces. Of each edit block the file's name and both ends of the new code stay.
- Ids are line numbers: the file grows at its end only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Final

from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    date_in_name,
    file_name,
    folder_name,
    lines_of,
    one_line,
    parse_iso,
    session_of_path,
    unique,
)
from helix.sources.common.strip import strip_host, strip_memory
from helix.sources.common.tools import TOOL_CHARS, both_ends, call_line
from helix.types import Document, Parsed, Session, Turn

NAME = "aider"
JSON = False
GROWS = True

_FILE: Final = ".aider.chat.history.md"  # written to the top folder of a repository, whose name is the project's
_BREAK: Final = "  "
_MIN_TOOL_LINES: Final = 2  # that a text without a session's start must have to be one
_MIN_ARGUMENT_WORDS: Final = 3  # as of commands elsewhere: `/architect split the parser` says something

_START: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_STARTS: Final = re.compile(rf"(?m)^{_START.pattern}$")
_USER: Final = re.compile(r"####(?: (.*))?", re.DOTALL)
_TOOL: Final = re.compile(r">(?: (.*))?", re.DOTALL)
_OWN_LINE: Final = re.compile(
    r"(?m)^> (?:\$ aider\b|(?:\S{1,200}[/\\])?aider(?: |$)|Aider v\d|Added \S.{0,200} to the chat|Applied edit to \S"
    r"|Tokens: [\d.,k]+ sent|Commit [0-9a-f]{7,40} \S)"
)
_OTHERS_HEADING: Final = re.compile(r"(?m)^_\*\*(?:User|Agent|Assistant)\b")
_FENCE: Final = re.compile(r"(`{3,}|~{3,})")
_PAGE: Final = re.compile(r"</?div\b[^>]{0,200}>")  # published transcripts frame each exchange
_FRONT_MATTER: Final = re.compile(r"\s*---\n(?:(?!---\n)[^\n]*\n){1,60}---\n")
_HEADING: Final = re.compile(r"(?m)^#{1,2} +(\S.*)$")
_WORKING_DIR: Final = re.compile(r"(?:Git|Cur) working dir: (.+)")

_CALL: Final = re.compile(r"(?:\$ )?(?:\S{1,200}[/\\])?aider(?:\.exe)?(?: .*)?")  # the command line of a session
_CHATTER_CHARS: Final = 500  # longer lines are outputs
# What the tool says in every session.
_CHATTER: Final = re.compile(
    r"Aider v\d.*|(?:Main |Weak |Editor )?[Mm]odels?: .*|Using \S+ model with API key.*"
    r"|(?:Using )?[Gg]it repo: .*|Repo-map: .*|(?:Git|Cur) working dir: .*|Initial repo scan .*"
    r"|(?:Added|Moved|Removed|Dropped) .{1,300} (?:to|from) (?:the chat|read-only files)\b.*|Creating empty file .*"
    r"|Use /(?:help|undo)\b.*|You can use /undo .*|Tokens: .*|Cost: .*|\^C.*|Retrying in .*|https?://\S+"
    r"|Git repo has uncommitted changes\.|Suggested commit message:|Committing .{1,300} before applying edits\.?"
    r"|No (?:more )?changes to commit\.?|Diff since .*"
    r"|(?:All chat history cleared|Dropping all files).*|Restored previous conversation.*"
    r"|[^\n]*\?(?: \(Y\)es\S*(?: all\S*| ask again\S*)*)?(?: \[[^\]]{0,40}\]:?)? ?\w{0,4}"  # a question, answered
    r"|[\w.-]+(?:[/\\][\w.-]+)+|[\w-]+\.\w{1,5}"  # a path alone, of the question after it
)
# Commands to the tool that say nothing of the work.
_SILENT: Final = frozenset(
    [
        *("add", "drop", "clear", "reset", "exit", "ex", "quit", "q", "undo", "ls", "map", "map-refresh", "tokens"),
        *("model", "models", "editor-model", "weak-model", "chat-mode", "settings", "multiline-mode", "copy", "diff"),
        *("copy-context", "paste", "voice", "load", "save", "report", "read", "read-only", "editor", "edit", "lint"),
        *("think-tokens", "reasoning-effort", "commit", "ok"),
    ]
)
_FILES: Final = frozenset({"add", "drop", "read", "read-only", "load", "save"})  # whose arguments are paths
_COMMAND: Final = re.compile(r"/([a-z][a-z-]*)(?:[ \t]+(\S.*))?", re.DOTALL)
_MACHINE: Final = re.compile(r"# Fix any errors below, if possible\.|I ran this command:\s")  # typed by nobody

_EDIT: Final = re.compile(r"<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)\b.*")
_EDIT_MIDDLE: Final = re.compile(r"={5,9}\s*")
_EDIT_END: Final = re.compile(r">{5,9} ?(?:REPLACE|UPDATED)\b.*")
_EDIT_FENCE: Final = re.compile(r"(?:`{3,}|<(?:source|code|pre|codeblock|sourcecode)>)(\w*)\s*")
_EDIT_FENCE_END: Final = re.compile(r"`{3,}\s*|</(?:source|code|pre|codeblock|sourcecode)>\s*")
_PATH: Final = re.compile(r"(?=[^\n]*[./])[\w./\\@+~-]{1,200}:?")
_EDIT_MARKS: Final = re.compile(rf"(?m)^{_EDIT.pattern}$|^(?:{_PATH.pattern})\n{_EDIT_FENCE.pattern}$")
_REASONING: Final = (("► **THINKING**\n", "► **ANSWER**\n"), ("<think>\n", "</think>\n"))


@dataclass(slots=True)
class _Part:
    """Neighbouring lines of one writer."""

    kind: str  # user | tool | assistant | document
    line: int
    lines: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # of the tool's messages, as places in `lines`


@dataclass(slots=True)
class _Chat:
    """One session as it lies in the file; without a stamp what stands before the first start."""

    stamp: str | None
    lines: list[tuple[int, str]] = field(default_factory=list)


def detect(sample: Sample) -> bool:
    """Whether a chat starts in it, or, of a published one, whether the tool's own lines stand around prompts."""
    head = sample.head
    if head.lstrip()[:1] in ("{", "["):
        return False
    for start in _STARTS.finditer(head):
        rest = head[start.end() :].lstrip()
        if not rest or rest.startswith(("> ", "#### ", "# aider chat")):
            return True
    prompted = re.search(r"(?m)^#### \S", head) is not None
    return prompted and sum(1 for _ in _OWN_LINE.finditer(head)) >= _MIN_TOOL_LINES and not _OTHERS_HEADING.search(head)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Sessions in file order, with a stamp each.

    `tool_chars`: characters kept of one tool output, and of one edit's new code.
    """
    junk: Counter[str] = Counter()
    taken: dict[str, int] = {}
    place = session_of_path(document.path)
    sessions: list[Session] = []
    for chat in _chats(document.text):
        # An empty chat takes its id too: one that is still empty today must not shift ids tomorrow.
        name = unique(place if chat.stamp is None else f"{place}@{chat.stamp.replace(' ', 'T')}", taken)
        time, quality = _time(chat, document)
        turns = list(_turns(chat, time, quality, tool_chars, junk))
        if turns:
            prompt = next((turn.text for turn in turns if turn.origin == "human"), None)
            title = _heading(chat) or prompt
            sessions.append(
                Session(
                    source=NAME,
                    id=name,
                    turns=tuple(turns),
                    project=_project(chat, document.path),
                    title=one_line(title, TITLE_CHARS) if title else None,
                )
            )
    return Parsed(tuple(sessions), junk=+junk)


# ---------------------------------------------------------------- sessions


def _chats(text: str) -> Iterator[_Chat]:
    chat = _Chat(None)
    for number, line in lines_of(text):
        start = _START.fullmatch(line)
        if start:
            yield chat
            chat = _Chat(start[1])
        else:
            chat.lines.append((number, line))
    yield chat


def _time(chat: _Chat, document: Document) -> tuple[datetime | None, str]:
    time = parse_iso(chat.stamp) if chat.stamp else date_in_name(document.path)
    if time:
        return time, "derived"
    return document.mtime, "file" if document.mtime else "none"


def _project(chat: _Chat, path: str) -> str | None:
    for _, line in chat.lines:
        told = _WORKING_DIR.fullmatch(line[2:].rstrip()) if line.startswith("> ") else None
        if told:
            return folder_name(told[1])
    name = file_name(path)
    above = path.rstrip("/\\")[: -len(name)].rstrip("/\\")
    return folder_name(above) if name == _FILE and above not in ("", ".") else None


def _heading(chat: _Chat) -> str | None:
    """The title of a published transcript: a heading before anybody speaks."""
    if chat.stamp is not None:
        return None
    before = next((part.lines for part in _parts(chat) if part.kind == "document"), [])
    found = _HEADING.search("\n".join(before))
    return found[1] if found else None


# ---------------------------------------------------------------- who wrote a line


def _parts(chat: _Chat) -> Iterator[_Part]:
    """Lines by writer. Blank lines belong to nobody, but between lines of the model they stay."""
    strict = chat.stamp is not None and _has_breaks(chat)
    part = _Part("document", chat.lines[0][0] if chat.lines else 0)
    within = False  # an output of the tool whose last line is still to come
    after_blank, fence = True, ""
    for number, line in chat.lines:
        broken = line.endswith(_BREAK)
        if not strict and part.kind == "assistant":
            fence = _fence_after(line, fence)
        plain = not fence or strict
        user = _USER.fullmatch(line) if plain and (broken or not strict) else None
        tool = _TOOL.fullmatch(line) if plain else None
        if user:
            kind, text, within = "user", (user[1] or "").rstrip(), False
        elif within and not (tool and broken):
            kind, text, within, tool = "tool", line.rstrip(), not (broken and line.strip()), None
        elif tool and (broken or not strict or _opens(line, part, after_blank)):
            kind, text, within = "tool", (tool[1] or "").rstrip(), strict and not broken
        elif not line.strip() or (not strict and _PAGE.fullmatch(line.strip())):
            part.lines.append("")
            after_blank = True
            continue
        elif strict and part.kind == "tool" and not after_blank:
            kind, text, within = "tool", line.rstrip(), not broken
        else:
            kind, text = ("document" if part.kind == "document" else "assistant"), line.rstrip()
        # A prompt ends at a blank line; the next one may be a second prompt.
        if kind != part.kind or (kind == "user" and after_blank):
            yield part
            part, fence = _Part(kind, number), ""
            if kind == "assistant" and not strict:
                fence = _fence_after(line, "")
        if tool and kind == "tool":
            part.starts.append(len(part.lines))
        part.lines.append(text)
        after_blank = False
    yield part


def _has_breaks(chat: _Chat) -> bool:
    """Whether the tool's own lines still end with a break. Until a prompt tells, they do."""
    own = [line for _, line in chat.lines if line.startswith(("> ", "#### "))]
    return any(line.endswith(_BREAK) for line in own) or not any(line.startswith("#") for line in own)


def _opens(line: str, part: _Part, after_blank: bool) -> bool:
    """Whether a quoted line without a break begins an output of several lines, rather than a quote of the model's."""
    if part.kind == "assistant":
        return line.startswith("> Tokens: ")  # what the tool says after every answer
    return not after_blank or part.kind == "document"


def _fence_after(line: str, fence: str) -> str:
    """The code fence that is open after a line."""
    mark = _FENCE.match(line)
    if not mark:
        return fence
    if not fence:
        return mark[1]
    return "" if line.strip() == fence else fence


# ---------------------------------------------------------------- turns


def _turns(chat: _Chat, time: datetime | None, quality: str, tool_chars: int, junk: Counter[str]) -> Iterator[Turn]:
    before = ""  # the prompt just before, if nothing but the tool came between
    for part in _parts(chat):
        role = origin = part.kind
        said = ""
        if part.kind == "user":
            said = "\n".join(part.lines).strip()
            role, origin, text = _said(said, before, tool_chars, junk)
        elif part.kind == "tool":
            text = _tool_output(part, tool_chars, junk)
        else:
            text = "\n".join(part.lines)
            front = _FRONT_MATTER.match(text) if part.kind == "document" else None
            text = text[front.end() :] if front else text
            text = _answer(text, tool_chars, junk) if part.kind == "assistant" else text
            text = _counted("memory", text, strip_memory(text), junk).strip()
        before = said if part.kind != "tool" else before
        if text:
            yield Turn(id=str(part.line), text=text, role=role, origin=origin, time=time, time_quality=quality)


def _counted(rule: str, before: str, after: str, junk: Counter[str]) -> str:
    junk[rule] += max(len(before) - len(after), 0)
    return after


def _said(text: str, before: str, tool_chars: int, junk: Counter[str]) -> tuple[str, str, str]:
    """Role, origin and text of a prompt: a person's, or one that the tool made of an output."""
    text = _counted("memory", text, strip_memory(text), junk).strip()
    text = _counted("host", text, strip_host(text).strip(), junk)
    if _MACHINE.match(text):
        return "tool", "tool", _counted("tool-output", text, both_ends(text, tool_chars), junk)
    command = _COMMAND.fullmatch(before)
    # `/ask why?` is written a second time without the command.
    echoed = command is not None and command[1] in ("ask", "code", "architect") and (command[2] or "").strip() == text
    if echoed or text == "<blank>" or _is_silent(text):
        text = _counted("host", text, "", junk)
    return "user", "human", text


def _is_silent(text: str) -> bool:
    command = _COMMAND.fullmatch(text)
    if not command or command[1] not in _SILENT:
        return False
    return command[1] in _FILES or len((command[2] or "").split()) < _MIN_ARGUMENT_WORDS


def _tool_output(part: _Part, tool_chars: int, junk: Counter[str]) -> str:
    """What is worth keeping of neighbouring messages of the tool, each line once."""
    kept: dict[str, str] = {}
    for start, end in pairwise([*part.starts, len(part.lines)]):
        # With `--message` the command line goes on over the whole prompt, which follows once more as a prompt.
        if not _CALL.fullmatch(part.lines[start].strip()):
            for line in part.lines[start:end]:
                if line.strip() and not _is_chatter(line.strip()):
                    kept.setdefault(" ".join(line.split()), line)
    whole = "\n".join(filter(None, part.lines))
    text = strip_host(strip_memory("\n".join(kept.values()))).strip()
    return _counted("tool-output", whole, both_ends(text, tool_chars), junk)


def _is_chatter(line: str) -> bool:
    return len(line) <= _CHATTER_CHARS and _CHATTER.fullmatch(line) is not None


# ---------------------------------------------------------------- what the model wrote


def _answer(text: str, tool_chars: int, junk: Counter[str]) -> str:
    """The answer without its reasoning, edits shortened."""
    for opening, closing in _REASONING:
        if text.startswith(opening) or f"\n{opening}" in text:
            text = _counted("reasoning", text, _without(text, opening, closing), junk)
    if not _EDIT_MARKS.search(text):
        return text
    return _counted("tool-output", text, "\n".join(_shortened(text.split("\n"), tool_chars)), junk)


def _without(text: str, opening: str, closing: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        parts.append(text[at:start].rstrip("-\n"))
        at = end + len(closing)
    return "\n".join([*parts, text[at:]])


def _shortened(lines: list[str], tool_chars: int) -> list[str]:
    """Lines of an answer, in which an edit is a line that names the file, and its new code."""
    out: list[str] = []
    path, at = "", 0
    done = 0  # lines of `out` that belong to edits before
    unclosed = False  # a fence that edits share: taken out at the first, its end is still to come
    while at < len(lines):
        fence = _EDIT_FENCE.fullmatch(lines[at])
        if _EDIT.fullmatch(lines[at]):
            opened, path = _take_heading(out, done, path)
            code, at = _new_code(lines, at + 1)
            unclosed = unclosed or opened is not None
            if unclosed and at < len(lines) and _EDIT_FENCE_END.fullmatch(lines[at]):
                unclosed, at = False, at + 1
            out += _edit(path, opened or "", code, tool_chars)
            done = len(out)
        elif fence and len(out) > done and _PATH.fullmatch(out[-1].strip()) and not _holds_edit(lines, at):
            path = out.pop().strip().rstrip(":")
            code, at = _fenced(lines, at + 1)
            out += _edit(path, fence[1], code, tool_chars)
            done = len(out)
        else:
            out.append(lines[at])
            at += 1
    return out


def _take_heading(out: list[str], done: int, path: str) -> tuple[str | None, str]:
    """Takes back the fence and the file's name that stand above an edit, in either order: (language, path)."""
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


def _holds_edit(lines: list[str], at: int) -> bool:
    return any(_EDIT.fullmatch(line) for line in lines[at + 1 : at + 3])


def _new_code(lines: list[str], at: int) -> tuple[list[str], int]:
    """The second half of an edit, and the line after it. One that was interrupted gives what there is of it."""
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


def _fenced(lines: list[str], at: int) -> tuple[list[str], int]:
    start = at
    while at < len(lines) and not _EDIT_FENCE_END.fullmatch(lines[at]):
        at += 1
    return lines[start:at], min(at + 1, len(lines))


def _edit(path: str, language: str, code: list[str], tool_chars: int) -> list[str]:
    text = both_ends("\n".join(code).strip("\n"), tool_chars)
    return [call_line("edit", path), *([f"```{language}", text, "```"] if text else [])]
