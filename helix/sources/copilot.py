"""Chats of GitHub Copilot in VS Code: one JSON document a session, or the log of the operations that made it.

What makes them hard, and what is done about it:

- A log begins with a snapshot; each further line sets, extends, cuts or deletes something in it. It is replayed, and
  what comes out is read as the document.
- A request holds its answer, as a list of parts of some forty kinds: pieces of Markdown, names of files in the middle
  of a sentence, tool calls, edits, progress. The pieces are one turn, named after the request, for an answer gets its
  own id only later.
- The results of tools are elsewhere, under other ids than those of the parts, as the tree they were rendered from.
- A request that was undone stays until the next one is sent: it is marked, and left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from helix.errors import InputRefused
from helix.sources.common.collected import loaded, mapping
from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    file_name,
    folder_name,
    json_records,
    load_json,
    one_line,
    session_of_path,
    string,
    unique,
)
from helix.sources.common.tools import TOOL_CHARS, call_line, is_ours
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "copilot"
JSON = True
GROWS = False  # a log does, but what it adds changes what was said before

_SNAPSHOT, _SET, _PUSH, _DELETE = range(4)
_MAX_DEPTH: Final = 32  # of the path of an operation; real ones have 4 steps
_ROOTS: Final = frozenset(
    {"requests", "inputState", "customTitle", "responderUsername", "pendingRequests", "hasPendingEdits", "repoData"}
)
_NOISE: Final = frozenset(
    {
        "autoModeResolution",
        "clearToPreviousToolInvocation",
        "codeCitation",
        "command",
        "confirmation",
        "disabledClaudeHooks",
        "elicitation",
        "elicitation2",
        "elicitationSerialized",
        "extensions",
        "externalEdit",
        "hook",
        "mcpAuthenticationRequired",
        "mcpServersStarting",
        "mcpServersStartingSlow",
        "move",
        "multiDiffData",
        "notebookEdit",
        "notebookEditGroup",
        "planReview",
        "prepareToolInvocation",
        "progressMessage",
        "progressTask",
        "progressTaskResult",
        "progressTaskSerialized",
        "pullRequest",
        "questionCarousel",
        "reference",
        "textEdit",
        "textEditGroup",
        "treeData",
        "undoStop",
        "usage",
        "usedContext",
        "voiceProgress",
        "workspaceEdit",
    }
)
_NOTICES: Final = frozenset({"warning", "info", "systemNotification"})
_CALLS: Final = frozenset({"toolInvocation", "toolInvocationSerialized"})
_LINK: Final = re.compile(r"\[([^\]\[\n]{0,200})\]\(([^()\s]{1,1000})\)")
_EDIT: Final = "\0"  # where the code of an edit was shown
# What is left of an edit: its code is in a part of another kind.
_EMPTY_BLOCK: Final = re.compile(r"(?m)^[ \t]*`{3,8}[^`\n]{0,100}\n?\s*\0\s*`{3,8}[ \t]*\n?")
_FOLDERS: Final = re.compile(r"workspace with the following folders?:[ \t]*\n[ \t]*- ([^\n]{1,1000})")


def detect(sample: Sample) -> bool:
    """Whether this is a session, a log of operations on one, or the beginning of a session that was cut."""
    for value in (sample.value, *sample.records[:1]):
        if _is_session(value):
            return True
    if any(_is_operation(record) for record in sample.records):
        return True
    return sample.value is None and not sample.records and _is_beginning(sample.head)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session of one document or log.

    Raises:
        InputRefused: it is neither.
    """
    problems: list[Problem] = []
    state: object = None
    with suppress(ValueError):
        state = load_json(document.text)
    if not isinstance(state, dict) or "requests" not in state:
        state = _replayed(document.text, problems)
    if not isinstance(state, dict) or not isinstance(state.get("requests"), list):
        raise InputRefused(
            "no chat session: neither a whole document with requests nor a log that makes one",
            "give a file of the folder chatSessions, or export the chat again",
        )
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    turns = tuple(_turns(state["requests"], tool_chars, unknown, junk))
    sessions = (_session(document, state, turns),) if turns else ()
    return Parsed(sessions, tuple(problems), unknown, junk)


# ---------------------------------------------------------------- which it is


def _is_session(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
        return False
    requests = [entry for entry in value["requests"][:3] if isinstance(entry, dict)]
    named = "responderUsername" in value or {"sessionId", "creationDate"} <= value.keys()
    return named and all("message" in entry for entry in requests)


def _is_operation(record: Mapping[str, Any]) -> bool:
    kind, path = record.get("kind"), record.get("k")
    if kind == _SNAPSHOT and not isinstance(kind, bool):
        return _is_session(record.get("v"))
    known = isinstance(path, list) and bool(path) and isinstance(path[0], str) and path[0] in _ROOTS
    return known and kind in (_SET, _PUSH, _DELETE)


def _is_beginning(head: str) -> bool:
    return head.lstrip().startswith("{") and '"requests"' in head and '"responderUsername"' in head


# ---------------------------------------------------------------- the log


def _replayed(text: str, problems: list[Problem]) -> object:
    """What the operations of a log make. One that cannot be carried out is left out and reported."""
    state: object = {}
    begun = False
    for line, record in json_records(text, problems):
        kind = record.get("kind")
        if kind == _SNAPSHOT and not isinstance(kind, bool):
            state, begun = record.get("v"), True
            continue
        if not begun:
            problems.append(Problem(line, "no snapshot before it: the log was cut, what was there before is missing"))
            begun = True
        reason = _apply(state, record)
        if reason:
            problems.append(Problem(line, f"{reason}; the change is left out"))
    return state


def _apply(state: object, record: Mapping[str, Any]) -> str:
    """Carry out one operation; why it cannot be, where it cannot."""
    kind, path = record.get("kind"), record.get("k")
    if kind not in (_SET, _PUSH, _DELETE) or isinstance(kind, bool):
        return f"no operation of a known kind ({type_name(kind)})"
    if not isinstance(path, list) or not 0 < len(path) <= _MAX_DEPTH:
        return "an operation without a path"
    at = state
    for step in path[:-1]:
        at = _inner(at, step)
    last = path[-1]
    if not _is_place(at, last):
        return "an operation on what is not there"
    if kind == _PUSH:
        return _push(at, last, record.get("v"), record.get("i"))
    if kind == _DELETE and isinstance(at, dict):
        at.pop(last, None)
    elif isinstance(at, list) and last == len(at):
        at.append(record.get("v"))
    elif isinstance(at, dict | list):
        at[last] = record.get("v")
    return ""


def _inner(holder: object, step: object) -> object:
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.get(step)
    if isinstance(holder, list) and type(step) is int and 0 <= step < len(holder):
        return holder[step]
    return None


def _is_place(holder: object, step: object) -> bool:
    """Whether something can be put there: a field, or an element of a list that leaves no gap."""
    if isinstance(holder, dict):
        return isinstance(step, str)
    return isinstance(holder, list) and type(step) is int and 0 <= step <= len(holder)


def _push(holder: object, step: object, values: object, start: object) -> str:
    """Cut a list at `start`, where it is given, and extend it."""
    there = _inner(holder, step)
    if there is None:
        there = []
        if isinstance(holder, dict) and isinstance(step, str):
            holder[step] = there
        elif isinstance(holder, list) and type(step) is int:
            holder[step : step + 1] = [there]
    if not isinstance(there, list):
        return "an addition to what is no list"
    if type(start) is int and start >= 0:
        del there[start:]
    if isinstance(values, list):
        there += values
    return ""


# ---------------------------------------------------------------- the session


def _session(document: Document, state: Mapping[str, Any], turns: tuple[Turn, ...]) -> Session:
    title = string(state, "customTitle") or string(state, "computedTitle")
    title = title or next((turn.text for turn in turns if turn.role == "user"), None)
    return Session(
        source=NAME,
        id=string(state, "sessionId") or session_of_path(document.path),
        turns=turns,
        project=_project(state),
        title=one_line(title, TITLE_CHARS) if title else None,
    )


def _project(state: Mapping[str, Any]) -> str | None:
    """The folder that was open, where the session says it: most do only in what the model was told."""
    folder = _path(state.get("workingDirectory")) or _path(mapping(state.get("repoData")).get("remoteUrl"))
    if folder:
        return folder_name(folder.removesuffix(".git"))
    for request in state["requests"]:
        metadata = mapping(mapping(mapping(request).get("result")).get("metadata"))
        for name in ("renderedGlobalContext", "renderedUserMessage"):
            found = _FOLDERS.search(_rendered(metadata.get(name)))
            if found:
                return folder_name(found[1].strip())
    return None


def _turns(requests: Iterable[object], tool_chars: int, unknown: Counter[str], junk: Counter[str]) -> Iterator[Turn]:
    ids: dict[str, int] = {}
    for index, request in enumerate(requests):
        if not isinstance(request, dict) or _is_undone(request):
            continue
        given = string(request, "requestId") or str(index)
        id = unique(given, ids)
        time = moment(request.get("timestamp"))
        text = _asked(request, junk)
        if text:
            yield Turn(id=id, text=text, time=time, time_quality="exact" if time else "none")
        parts = _shown(request)
        said = _said(request, parts, unknown, junk)
        answer_id = unique(f"{given}:response", ids)
        quality = "derived" if time else "none"  # when it was asked
        if said:
            parent = id if text else None
            yield Turn(answer_id, said, "assistant", "assistant", time=time, time_quality=quality, parent=parent)
        ours = {call for call, name, given in _calls(request) if is_ours(name, given)}
        ours |= {string(part, "toolCallId") or "" for part in parts if _asks_us(part)}
        for call, result, failed in _results(request, parts):
            if call in ours:
                left_out(len(result), "memory", junk)
                continue
            kept = output(result, tool_chars, failed, junk)
            if kept:
                parent = answer_id if said else None
                result_id = unique(call, ids)
                yield Turn(result_id, kept, "tool", "tool", time=time, time_quality=quality, parent=parent)


def _is_undone(request: Mapping[str, Any]) -> bool:
    """Whether a request goes when the next is sent. With a place to go back to, only a part of its answer does."""
    undone = request.get("shouldBeRemovedOnSend")
    return request.get("isHidden") is True or (isinstance(undone, dict) and not string(undone, "afterUndoStop"))


def _asked(request: Mapping[str, Any], junk: Counter[str]) -> str:
    """What a person typed; nothing where the editor, or the press of a button, made the request."""
    message = request.get("message")
    parts = mapping(message).get("parts")
    pieces = (string(mapping(part), "text") or "" for part in (parts if isinstance(parts, list) else []))
    text = message if isinstance(message, str) else string(mapping(message), "text") or "".join(pieces)
    if request.get("isSystemInitiated") is True or string(request, "confirmation"):
        left_out(len(text), "host", junk)
        return ""
    return human(text, junk)


def _shown(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of an answer, up to where it was undone."""
    response = request.get("response")
    values = response if isinstance(response, list) else [response]
    parts = [{"value": value} if isinstance(value, str) else value for value in values]
    found: list[Mapping[str, Any]] = [part for part in parts if isinstance(part, dict)]
    stop = string(mapping(request.get("shouldBeRemovedOnSend")), "afterUndoStop")
    if stop:
        ends = (at for at, part in enumerate(found) if part.get("kind") == "undoStop" and part.get("id") == stop)
        found = found[: next(ends, len(found))]
    return found


def _said(
    request: Mapping[str, Any], parts: Iterable[Mapping[str, Any]], unknown: Counter[str], junk: Counter[str]
) -> str:
    """An answer: its Markdown as it was shown, and a line for each tool call."""
    blocks: list[list[str]] = [[]]  # of pieces that belong together
    called = False
    for part in parts:
        kind = part.get("kind")
        if kind is None and "value" in part:
            blocks[-1].append(string(part, "value") or "")
        elif kind in ("markdownContent", "markdownVuln"):
            blocks[-1].append(_markdown(part.get("content")) or _markdown(part.get("value")))
        elif kind == "inlineReference":
            blocks[-1].append(_reference(part))
        elif kind == "codeblockUri":
            blocks[-1].append(_EDIT)
        elif isinstance(kind, str) and kind in _CALLS:
            called = True
            blocks += [[] if _asks_us(part) else [_call(part)], []]
        elif kind == "thinking":
            value = part.get("value")
            left_out(sum(map(_length, value)) if isinstance(value, list) else _length(value), "reasoning", junk)
        elif isinstance(kind, str) and kind in _NOTICES:
            left_out(len(_markdown(part.get("content"))), "telemetry", junk)
        elif kind is None and "treeData" not in part and not {"label", "uri"} & part.keys():
            unknown["(no type)"] += 1
        elif kind is not None and not (isinstance(kind, str) and kind in _NOISE):
            unknown[type_name(kind)] += 1
    if not called:  # earlier versions tell of tools only beside the answer
        blocks += [[call_line(name, given)] for _, name, given in _calls(request) if not is_ours(name, given)]
    error = mapping(mapping(request.get("result")).get("errorDetails"))
    left_out(len(string(error, "message") or ""), "telemetry", junk)
    texts = (answer(_EMPTY_BLOCK.sub("", "".join(block)).replace(_EDIT, ""), junk) for block in blocks)
    return "\n".join(filter(None, texts))


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _markdown(value: object) -> str:
    """Text, given as such or as a Markdown string of the editor's."""
    return value if isinstance(value, str) else string(mapping(value), "value") or ""


def _reference(part: Mapping[str, Any]) -> str:
    """The name of what a sentence mentions: of a symbol, or of a file without its folders."""
    target = mapping(part.get("inlineReference"))
    path = _path(target.get("uri") or mapping(target.get("location")).get("uri") or target)
    return string(part, "name") or string(target, "name") or file_name(path or "")


def _path(uri: object) -> str | None:
    """The path of a URI, as text or in its parts."""
    if isinstance(uri, dict):
        return string(uri, "fsPath") or string(uri, "path")
    if not isinstance(uri, str):
        return None
    try:
        return unquote(urlsplit(uri).path) or None
    except ValueError:
        return None


# ---------------------------------------------------------------- tools


def _call(part: Mapping[str, Any]) -> str:
    """A tool call by the command it ran, or by what the editor says of it."""
    message = _markdown(part.get("pastTenseMessage")) or _markdown(part.get("invocationMessage"))
    return call_line(string(part, "toolId") or "", _command(part) or _LINK.sub(_linked, message))


def _command(part: Mapping[str, Any]) -> str:
    data = mapping(part.get("toolSpecificData"))
    line = mapping(data.get("commandLine"))
    lines = (string(line, name) for name in ("userEdited", "toolEdited", "original"))
    return next(filter(None, (*lines, string(data, "command"), string(data, "description"))), "")


def _asks_us(part: Mapping[str, Any]) -> bool:
    """Whether a part is a call of Helix itself."""
    kind = part.get("kind")
    return isinstance(kind, str) and kind in _CALLS and is_ours(string(part, "toolId") or "", _command(part))


def _linked(match: re.Match[str]) -> str:
    return match[1] or file_name(_path(match[2]) or match[2])


def _calls(request: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Tool calls as the model made them: id, name, arguments."""
    rounds = mapping(mapping(request.get("result")).get("metadata")).get("toolCallRounds")
    for one in rounds if isinstance(rounds, list) else []:
        calls = mapping(one).get("toolCalls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                given = call.get("arguments")
                yield string(call, "id") or "", string(call, "name") or "", loaded(given) or given


def _results(request: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Results of tools: id of the call, text, whether it failed. As the model got them, else as they were shown."""
    results = mapping(mapping(mapping(request.get("result")).get("metadata")).get("toolCallResults"))
    for id, result in results.items():
        yield id, _rendered(mapping(result).get("content")), False
    if results:
        return
    for part in parts:
        details, data = mapping(part.get("resultDetails")), mapping(part.get("toolSpecificData"))
        text = _rendered(details.get("output")) or string(mapping(data.get("terminalCommandOutput")), "text") or ""
        if text and isinstance(kind := part.get("kind"), str) and kind in _CALLS:
            exit_code = mapping(data.get("terminalCommandState")).get("exitCode")
            failed = details.get("isError") is True or (isinstance(exit_code, int) and exit_code != 0)
            yield string(part, "toolCallId") or "call", text, failed


def _rendered(content: object) -> str:
    """The text of a list of pieces: texts, or trees with texts as their leaves."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for piece in content if isinstance(content, list) else []:
        value = mapping(piece).get("value") or mapping(piece).get("text")
        tree = mapping(value).get("node")
        texts.append(value if isinstance(value, str) else _leaves(tree))
    return "\n".join(filter(None, texts))


def _leaves(tree: object) -> str:
    texts: list[str] = []
    stack = [tree]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            text = string(at, "text")
            if text:
                texts.append(("\n" if at.get("lineBreakBefore") and texts else "") + text)
            children = at.get("children")
            stack += reversed(children) if isinstance(children, list) else []
    return "".join(texts)
