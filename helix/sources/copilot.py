"""Chats of GitHub Copilot in VS Code: one JSON document a session, or the log of the operations that made it.

What is particular to the format:

- A log begins with a snapshot; each further line changes a part of it. The log is replayed into a document
  (`copilot_log`).
- A request contains its answer, a list of parts of some forty kinds: pieces of Markdown, names of files in a sentence,
  tool calls, edits, progress. The pieces are one turn, named after the request: the answer gets its own id only later.
- The results of tools are elsewhere, under other ids, as the tree they were rendered from.
- A request that was undone stays until the next one is sent. It is marked, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.fields import (
    get_list,
    get_mapping,
    get_objects,
    get_string,
    get_text,
    is_type,
    join_texts,
    pick_objects,
    walk_tree,
)
from helix.sources.common.json_text import try_json
from helix.sources.common.names import get_file_name, get_uri_path, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import complete_turn, make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS, is_own_call
from helix.sources.copilot_log import is_change, is_snapshot, replay
from helix.types import Document, Parsed, Turn
from helix.util.workspaces import Workspace, make_workspace

NAME = "copilot"
JSON = True
GROWS = False  # a log does, but new lines change older turns

_NOISE: Final = frozenset(
    [
        *("autoModeResolution", "clearToPreviousToolInvocation", "codeCitation", "command", "confirmation"),
        *("disabledClaudeHooks", "elicitation", "elicitation2", "elicitationSerialized", "extensions", "externalEdit"),
        *("hook", "mcpAuthenticationRequired", "mcpServersStarting", "mcpServersStartingSlow", "move"),
        *("multiDiffData", "notebookEdit", "notebookEditGroup", "planReview", "prepareToolInvocation"),
        *("progressMessage", "progressTask", "progressTaskResult", "progressTaskSerialized", "pullRequest"),
        *("questionCarousel", "reference", "textEdit", "textEditGroup", "treeData", "undoStop", "usage"),
        *("usedContext", "voiceProgress", "workspaceEdit"),
    ]
)
_NOTICES: Final = frozenset({"warning", "info", "systemNotification"})
_CALLS: Final = frozenset({"toolInvocation", "toolInvocationSerialized"})
_LINK: Final = re.compile(r"\[([^\]\[\n]{0,200})\]\(([^()\s]{1,1000})\)")
_EDIT: Final = "\0"  # place of an edit's code
# The rest of an edit: its code is in a part of another kind.
_EMPTY_BLOCK: Final = re.compile(r"(?m)^[ \t]*`{3,8}[^`\n]{0,100}\n?\s*\0\s*`{3,8}[ \t]*\n?")
_FOLDERS: Final = re.compile(r"workspace with the following folders?:[ \t]*\n[ \t]*- ([^\n]{1,1000})")


def detect(sample: Sample) -> bool:
    """Return whether it is a session, a log of operations on one, or the beginning of a session that was cut."""
    if any(_is_session(value) for value in (sample.value, *sample.records[:1])):
        return True
    if any(_is_session(each.get("v")) if is_snapshot(each) else is_change(each) for each in sample.records):
        return True
    is_cut = sample.value is None and not sample.records and sample.head.lstrip().startswith("{")
    return is_cut and '"requests"' in sample.head and '"responderUsername"' in sample.head


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one document or log.

    Raises:
        InputRefused: it is neither.
    """
    cleaner = TextCleaner(tool_chars)
    state = try_json(document.text)
    if not isinstance(state, dict) or "requests" not in state:
        state = replay(document.text, cleaner.problems)
    if not isinstance(state, dict) or not isinstance(state.get("requests"), list):
        raise InputRefused(
            "no chat session: neither a whole document with requests nor a log that makes one",
            "give a file of the folder chatSessions, or export the chat again",
        )
    name = get_string(state, "sessionId") or name_session_of_path(document.path)
    turns = _read_turns(state["requests"], cleaner)
    title = get_string(state, "customTitle", "computedTitle")
    return cleaner.build(make_sessions(NAME, name, turns, workspace=_find_workspace(state), title=title))


def _is_session(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
        return False
    is_named = "responderUsername" in value or {"sessionId", "creationDate"} <= value.keys()
    return is_named and all("message" in entry for entry in pick_objects(value["requests"][:3]))


def _find_workspace(state: Mapping[str, Any]) -> Workspace | None:
    """Return the folder that was open, and its remote. Most sessions have it only in the model's context."""
    remote = get_string(get_mapping(state, "repoData"), "remoteUrl")
    if workspace := make_workspace(
        get_uri_path(state.get("workingDirectory")), remote=remote, tracked=remote is not None
    ):
        return workspace
    for request in state["requests"]:
        metadata = get_mapping(request, "result", "metadata")
        for name in ("renderedGlobalContext", "renderedUserMessage"):
            found = _FOLDERS.search(_render(metadata.get(name)))
            if found:
                return make_workspace(found[1].strip())
    return None


def _read_turns(requests: Iterable[object], cleaner: TextCleaner) -> Iterator[Turn]:
    ids: dict[str, int] = {}
    for index, request in enumerate(requests):
        if not isinstance(request, dict) or _is_undone(request):
            continue
        name = get_string(request, "requestId") or str(index)
        id = make_unique(name, ids)
        time = parse_time(request.get("timestamp"))
        prompt = _read_prompt(request, cleaner)
        if prompt:
            yield complete_turn(Turn(id, prompt, time=time))
        parts = _list_parts(request)
        answer = _read_answer(request, parts, cleaner)
        answer_id = make_unique(f"{name}:response", ids)
        if answer:
            parent = id if prompt else None
            yield complete_turn(Turn(answer_id, answer, "assistant", "assistant", parent=parent), time)
        own_calls = {call for call, name, arguments in _list_calls(request) if is_own_call(name, arguments)}
        own_calls |= {get_text(part, "toolCallId") for part in parts if _is_own_part(part)}
        for call, result, failed in _list_results(request, parts):
            if call in own_calls:
                cleaner.drop("memory", result)
                continue
            result = cleaner.clean_output(result, failed, call)
            if result:
                parent = answer_id if answer else None
                yield complete_turn(Turn(make_unique(call, ids), result, "tool", "tool", parent=parent), time)


def _is_undone(request: Mapping[str, Any]) -> bool:
    """Return whether a request goes when the next is sent. With an `afterUndoStop` only a part of its answer does."""
    undone = request.get("shouldBeRemovedOnSend")
    return request.get("isHidden") is True or (isinstance(undone, dict) and not get_string(undone, "afterUndoStop"))


def _read_prompt(request: Mapping[str, Any], cleaner: TextCleaner) -> str:
    """Return the typed text; nothing for a request of the editor or of a button."""
    message = request.get("message")
    if isinstance(message, str):
        text = message
    else:
        text = get_text(message, "text") or "".join(get_text(part, "text") for part in get_list(message, "parts"))
    if request.get("isSystemInitiated") is True or get_string(request, "confirmation"):
        return cleaner.cut(text, "", "host")
    return cleaner.clean_prompt(text)


def _list_parts(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of an answer, up to the place where it was undone."""
    response = request.get("response")
    values = response if isinstance(response, list) else [response]
    parts = pick_objects({"value": value} if isinstance(value, str) else value for value in values)
    stop = get_string(request.get("shouldBeRemovedOnSend"), "afterUndoStop")
    if stop:
        ends = (at for at, part in enumerate(parts) if part.get("kind") == "undoStop" and part.get("id") == stop)
        parts = parts[: next(ends, len(parts))]
    return [*parts]


def _read_answer(request: Mapping[str, Any], parts: Iterable[Mapping[str, Any]], cleaner: TextCleaner) -> str:
    """Return the Markdown of an answer, and a line for each tool call."""
    blocks: list[list[str]] = [[]]  # of pieces that belong together
    has_calls = False
    for part in parts:
        kind = part.get("kind")
        if kind is None and "value" in part:
            blocks[-1].append(get_text(part, "value"))
        elif kind in ("markdownContent", "markdownVuln"):
            blocks[-1].append(_get_markdown(part, "content") or _get_markdown(part, "value"))
        elif kind == "inlineReference":
            blocks[-1].append(_name_reference(part))
        elif kind == "codeblockUri":
            blocks[-1].append(_EDIT)
        elif is_type(kind, _CALLS):
            has_calls = True
            blocks += [[] if _is_own_part(part) else [_format_call(part, cleaner)], []]
        elif kind == "thinking":
            value = part.get("value")
            thoughts = value if isinstance(value, list) else [value]
            cleaner.drop("reasoning", *(text for text in thoughts if isinstance(text, str)))
        elif is_type(kind, _NOTICES):
            cleaner.drop("telemetry", _get_markdown(part, "content"))
        elif kind is None and "treeData" not in part and not {"label", "uri"} & part.keys():
            cleaner.count_unknown(None)
        elif kind is not None and not is_type(kind, _NOISE):
            cleaner.count_unknown(kind)
    if not has_calls:  # earlier versions have calls only outside of the answer
        calls = (call for call in _list_calls(request) if not is_own_call(*call[1:]))
        blocks += [[cleaner.write_call(name, arguments, id)] for id, name, arguments in calls]
    cleaner.drop("telemetry", get_string(get_mapping(request, "result", "errorDetails"), "message"))
    return join_texts(cleaner.clean_answer(_EMPTY_BLOCK.sub("", "".join(block)).replace(_EDIT, "")) for block in blocks)


def _get_markdown(part: Mapping[str, Any], name: str) -> str:
    """Return a field that is a text or a Markdown object of the editor."""
    value = part.get(name)
    return value if isinstance(value, str) else get_text(value, "value")


def _name_reference(part: Mapping[str, Any]) -> str:
    """Return the name of a symbol or of a file, without its folders, in a sentence."""
    target = get_mapping(part, "inlineReference")
    path = get_uri_path(target.get("uri") or get_mapping(target, "location").get("uri") or target)
    return get_string(part, "name") or get_string(target, "name") or get_file_name(path or "")


def _format_call(part: Mapping[str, Any], cleaner: TextCleaner) -> str:
    """Return the line of a tool call: the command it ran, or the editor's description."""
    message = _get_markdown(part, "pastTenseMessage") or _get_markdown(part, "invocationMessage")
    argument = _read_command(part) or _LINK.sub(_name_link, message)
    return cleaner.write_call(get_text(part, "toolId"), argument, get_string(part, "toolCallId"))


def _read_command(part: Mapping[str, Any]) -> str:
    data = get_mapping(part, "toolSpecificData")
    line = get_string(data.get("commandLine"), "userEdited", "toolEdited", "original")
    return line or get_text(data, "command", "description")


def _is_own_part(part: Mapping[str, Any]) -> bool:
    return is_type(part.get("kind"), _CALLS) and is_own_call(get_text(part, "toolId"), _read_command(part))


def _name_link(match: re.Match[str]) -> str:
    return match[1] or get_file_name(get_uri_path(match[2]) or match[2])


def _list_calls(request: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Yield the tool calls of the model: id, name, arguments."""
    for one in get_list(get_mapping(request, "result", "metadata"), "toolCallRounds"):
        for call in get_objects(one, "toolCalls"):
            arguments = call.get("arguments")
            yield get_text(call, "id"), get_text(call, "name"), try_json(arguments) or arguments


def _list_results(request: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Yield the results of tools, for the model or else for the screen: id of the call, text, whether it failed."""
    results = get_mapping(request, "result", "metadata", "toolCallResults")
    for id, result in results.items():
        yield id, _render(get_mapping(result).get("content")), False
    if results:
        return
    for part in parts:
        details, data = get_mapping(part, "resultDetails"), get_mapping(part, "toolSpecificData")
        text = _render(details.get("output")) or get_text(data.get("terminalCommandOutput"), "text")
        if text and is_type(part.get("kind"), _CALLS):
            exit_code = get_mapping(data, "terminalCommandState").get("exitCode")
            failed = details.get("isError") is True or (isinstance(exit_code, int) and exit_code != 0)
            yield get_string(part, "toolCallId") or "call", text, failed


def _render(content: object) -> str:
    """Return the text of a list of pieces: texts, or trees with texts as their leaves."""
    if isinstance(content, str):
        return content
    texts = []
    for piece in content if isinstance(content, list) else []:
        value = get_mapping(piece).get("value") or get_mapping(piece).get("text")
        texts.append(value if isinstance(value, str) else _join_leaves(get_mapping(value).get("node")))
    return join_texts(texts)


def _join_leaves(tree: object) -> str:
    texts: list[str] = []
    for node in walk_tree(tree):
        if text := get_string(node, "text"):
            texts.append(f"\n{text}" if node.get("lineBreakBefore") and texts else text)
    return "".join(texts)
