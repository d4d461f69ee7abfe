"""Chat histories of aider: one Markdown file for all sessions in a folder.

What is particular to the format:

- Nothing closes a message. `#### ` begins a prompt, `> ` a line of the tool, the rest is the model; models write
  headings and quotes too. The tool ends its lines with the two spaces of a Markdown break. If a session has such
  lines, only they count. Trimmed and published texts have none: there every such line outside a code block counts.
- The tool prefixes only the first line of an output; the rest follows bare until a line with a break. Outputs for the
  model are written twice, so a repeated line of a block is left out.
- One session has one stamp, of local time without a zone. It is read as UTC, for all turns of the session.
- Most lines of the tool are chatter (banner, files added, questions, costs), left out by pattern. Both ends of
  commits, applied edits, errors and outputs of commands stay.
- Edits in answers are shortened (`aider_edits`).
- Ids are line numbers: the file grows only at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Final

from helix.sources.aider_edits import shorten_edits, strip_reasoning
from helix.sources.common.injected import MIN_ARGUMENT_WORDS, strip_host, strip_memory
from helix.sources.common.json_text import number_lines
from helix.sources.common.names import get_file_name, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import find_first_prompt, fold_title
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import date_document, parse_iso
from helix.sources.common.tools import TOOL_CHARS, keep_ends
from helix.types import Document, Parsed, Session, Turn
from helix.util.workspaces import Workspace, make_workspace, name_workspace

NAME = "aider"
JSON = False
GROWS = True

_FILE: Final = ".aider.chat.history.md"  # in the top folder of a repository, whose name is the project's
_BREAK: Final = "  "
_MIN_TOOL_LINES: Final = 2  # in a chat without the start of a session

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
_WORKING_DIR: Final = re.compile(r"(?P<kind>Git|Cur) working dir: (?P<folder>.+)")

_CALL: Final = re.compile(r"(?:\$ )?(?:\S{1,200}[/\\])?aider(?:\.exe)?(?: .*)?")  # the command line of a session
_CHATTER_CHARS: Final = 500  # longer lines are outputs
# Lines of the tool in every session.
_CHATTER: Final = re.compile(
    r"Aider v\d.*|(?:Main |Weak |Editor )?[Mm]odels?: .*|Using \S+ model with API key.*"
    r"|(?:Using )?[Gg]it repo: .*|Repo-map: .*|(?:Git|Cur) working dir: .*|Initial repo scan .*"
    r"|(?:Added|Moved|Removed|Dropped) .{1,300} (?:to|from) (?:the chat|read-only files)\b.*|Creating empty file .*"
    r"|Use /(?:help|undo)\b.*|You can use /undo .*|Tokens: .*|Cost: .*|\^C.*|Retrying in .*|https?://\S+"
    r"|Git repo has uncommitted changes\.|Suggested commit message:|Committing .{1,300} before applying edits\.?"
    r"|No (?:more )?changes to commit\.?|Diff since .*"
    r"|(?:All chat history cleared|Dropping all files).*|Restored previous conversation.*"
    r"|[^\n]*\?(?: \(Y\)es\S*(?: all\S*| ask again\S*)*)?(?: \[[^\]]{0,40}\]:?)? ?\w{0,4}"  # a question, answered
    r"|[\w.-]+(?:[/\\][\w.-]+)+|[\w-]+\.\w{1,5}"  # a path alone, of the next question
)
# Commands to the tool without content.
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
_MACHINE: Final = re.compile(r"# Fix any errors below, if possible\.|I ran this command:\s")  # written by the tool


@dataclass(slots=True)
class _ChatPart:
    """Consecutive lines of one writer."""

    kind: str  # user | tool | assistant | document
    line: int
    lines: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # of the tool's messages, as places in `lines`


@dataclass(slots=True)
class _Chat:
    """One session of the file; without a stamp, the text before the first start."""

    stamp: str | None
    lines: list[tuple[int, str]] = field(default_factory=list)


def detect(sample: Sample) -> bool:
    """Return whether a session starts in it, or, in a published chat, lines of the tool surround prompts."""
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
    """Return the sessions in file order. `tool_chars` also limits the new code of one edit."""
    cleaner = TextCleaner(tool_chars)
    return cleaner.build(_read_sessions(document, cleaner))


def _read_sessions(document: Document, cleaner: TextCleaner) -> Iterator[Session]:
    taken: dict[str, int] = {}
    stem = name_session_of_path(document.path)
    for chat in _split_chats(document.text):
        # An empty chat uses up its id too: it may have turns tomorrow, which must not change the ids of others.
        name = make_unique(stem if chat.stamp is None else f"{stem}@{chat.stamp.replace(' ', 'T')}", taken)
        turns = tuple(_read_turns(chat, *_date_chat(chat, document), cleaner))
        title = _find_heading(chat) or find_first_prompt(turns)
        if turns:
            workspace = _find_workspace(chat, document.path)
            yield Session(
                NAME, name, turns, workspace and name_workspace(workspace), fold_title(title), workspace=workspace
            )


def _split_chats(text: str) -> Iterator[_Chat]:
    chat = _Chat(None)
    for number, line in number_lines(text):
        start = _START.fullmatch(line)
        if start:
            yield chat
            chat = _Chat(start[1])
        else:
            chat.lines.append((number, line))
    yield chat


def _date_chat(chat: _Chat, document: Document) -> tuple[datetime | None, str]:
    if chat.stamp is None:
        return date_document(document)
    time = parse_iso(chat.stamp)
    return (time, "derived") if time else (document.mtime, "file" if document.mtime else "none")


def _find_workspace(chat: _Chat, path: str) -> Workspace | None:
    for _, line in chat.lines:
        folder = _WORKING_DIR.fullmatch(line[2:].rstrip()) if line.startswith("> ") else None
        if folder:
            return make_workspace(folder["folder"], folder["folder"] if folder["kind"] == "Git" else None)
    name = get_file_name(path)
    above = path.rstrip("/\\")[: -len(name)].rstrip("/\\")
    return make_workspace(above) if name == _FILE and above not in ("", ".") else None


def _find_heading(chat: _Chat) -> str | None:
    """Return the title of a published chat: a heading before the first message."""
    if chat.stamp is not None:
        return None
    before = next((part.lines for part in _split_parts(chat) if part.kind == "document"), [])
    found = _HEADING.search("\n".join(before))
    return found[1] if found else None


def _split_parts(chat: _Chat) -> Iterator[_ChatPart]:
    """Yield the lines by writer. Blank lines have no writer, but between lines of the model they stay."""
    strict = chat.stamp is not None and _has_breaks(chat)
    part = _ChatPart("document", chat.lines[0][0] if chat.lines else 0)
    within = False  # an output of the tool whose last line is still to come
    after_blank, fence = True, ""
    for number, line in chat.lines:
        broken = line.endswith(_BREAK)
        if not strict and part.kind == "assistant":
            fence = _update_fence(line, fence)
        plain = not fence or strict
        user = _USER.fullmatch(line) if plain and (broken or not strict) else None
        tool = _TOOL.fullmatch(line) if plain else None
        if user:
            kind, text, within = "user", (user[1] or "").rstrip(), False
        elif within and not (tool and broken):
            kind, text, within, tool = "tool", line.rstrip(), not (broken and line.strip()), None
        elif tool and (broken or not strict or _is_output_start(line, part, after_blank)):
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
            part, fence = _ChatPart(kind, number), ""
            if kind == "assistant" and not strict:
                fence = _update_fence(line, "")
        if tool and kind == "tool":
            part.starts.append(len(part.lines))
        part.lines.append(text)
        after_blank = False
    yield part


def _has_breaks(chat: _Chat) -> bool:
    """Return whether the tool's own lines still end with a break. Before the first prompt they do."""
    own = [line for _, line in chat.lines if line.startswith(("> ", "#### "))]
    return any(line.endswith(_BREAK) for line in own) or not any(line.startswith("#") for line in own)


def _is_output_start(line: str, part: _ChatPart, after_blank: bool) -> bool:
    """Return whether a quoted line without a break begins an output of several lines, not a quote of the model."""
    if part.kind == "assistant":
        return line.startswith("> Tokens: ")  # the tool's line after every answer
    return not after_blank or part.kind == "document"


def _update_fence(line: str, fence: str) -> str:
    """Return the code fence that is open after a line."""
    mark = _FENCE.match(line)
    if not mark:
        return fence
    if not fence:
        return mark[1]
    return "" if line.strip() == fence else fence


def _read_turns(chat: _Chat, time: datetime | None, quality: str, cleaner: TextCleaner) -> Iterator[Turn]:
    before = ""  # the last prompt, if only the tool wrote since
    for part in _split_parts(chat):
        role = origin = part.kind
        prompt = ""
        if part.kind == "user":
            prompt = "\n".join(part.lines).strip()
            role, origin, text = _clean_prompt(prompt, before, cleaner)
        elif part.kind == "tool":
            text = _clean_output(part, cleaner)
        else:
            text = "\n".join(part.lines)
            front = _FRONT_MATTER.match(text) if part.kind == "document" else None
            text = text[front.end() :] if front else text
            text = shorten_edits(strip_reasoning(text, cleaner), cleaner) if part.kind == "assistant" else text
            text = cleaner.cut(text, strip_memory(text), "memory").strip()
        before = prompt if part.kind != "tool" else before
        if text:
            yield Turn(id=str(part.line), text=text, role=role, origin=origin, time=time, time_quality=quality)


def _clean_prompt(text: str, before: str, cleaner: TextCleaner) -> tuple[str, str, str]:
    """Return role, origin and text of a prompt: a person's, or one that the tool made of an output."""
    text = cleaner.cut(text, strip_memory(text), "memory").strip()
    text = cleaner.cut(text, strip_host(text).strip(), "host")
    if _MACHINE.match(text):
        return "tool", "tool", cleaner.shorten(text)
    command = _COMMAND.fullmatch(before)
    # `/ask why?` is written a second time without the command.
    is_echo = command is not None and command[1] in ("ask", "code", "architect") and (command[2] or "").strip() == text
    if is_echo or text == "<blank>" or _is_silent(text):
        text = cleaner.cut(text, "", "host")
    return "user", "human", text


def _is_silent(text: str) -> bool:
    command = _COMMAND.fullmatch(text)
    if not command or command[1] not in _SILENT:
        return False
    return command[1] in _FILES or len((command[2] or "").split()) < MIN_ARGUMENT_WORDS


def _clean_output(part: _ChatPart, cleaner: TextCleaner) -> str:
    """Return the tool's messages without chatter, each line once."""
    kept: dict[str, str] = {}
    for start, end in pairwise([*part.starts, len(part.lines)]):
        # With `--message` the command line contains the whole prompt, which follows once more as a prompt.
        if not _CALL.fullmatch(part.lines[start].strip()):
            for line in part.lines[start:end]:
                is_output = len(line.strip()) > _CHATTER_CHARS or not _CHATTER.fullmatch(line.strip())
                if line.strip() and is_output:
                    kept.setdefault(" ".join(line.split()), line)
    whole = "\n".join(filter(None, part.lines))
    text = strip_host(strip_memory("\n".join(kept.values()))).strip()
    return cleaner.cut(whole, keep_ends(text, cleaner.tool_chars), "tool-output")
