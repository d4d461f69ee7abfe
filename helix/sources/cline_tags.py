"""Tags in the texts of Cline: calls in answers, a person's words, the editor's state, headers of results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_TOOLS: Final = (
    *("thinking", "execute_command", "read_file", "write_to_file", "replace_in_file", "apply_diff", "insert_content"),
    *("search_and_replace", "edit_file", "search_files", "list_files", "list_code_definition_names", "web_fetch"),
    *("browser_action", "use_mcp_tool", "access_mcp_resource", "fetch_instructions", "ask_followup_question"),
    *("plan_mode_respond", "attempt_completion", "new_task", "switch_mode", "update_todo_list", "codebase_search"),
)
_OPENING: Final = re.compile(rf"(?m)^[ \t]*<({'|'.join(_TOOLS)})>")
_PARAMETER: Final = re.compile(r"(?m)^[ \t]*<([a-z_]{2,40})>")
_TYPED: Final = re.compile(r"<(task|feedback|answer|user_message)>")
_STATE: Final = ("<environment_details>", "</environment_details>")
_FOLDER: Final = re.compile(r"# Current (?:Working|Workspace) Directory \(([^\n]{1,1000}?)\)(?: Files)?[ \t]*(?:\n|\Z)")
_HEADER: Final = re.compile(r"\s*\[([a-z_]{3,40})(?: for [^\n]{0,2000})?\] Result:[ \t]*\n?")
_HOST: Final = re.compile(
    r"\s*(?:\[ERROR\] You did not use a tool|\[TASK RESUMPTION\]|# (?:task_progress|TODO LIST)|<explicit_instructions"
    r"|<file_content|<folder_content|<workspace_diagnostics|\[NOTE\])"
)


class AnswerPart(NamedTuple):
    """A text of an answer, or a call in tags."""

    text: str
    tool: str = ""
    arguments: Mapping[str, str] = {}


def split_answer(text: str) -> Iterator[AnswerPart]:
    """Yield the texts of an answer and the calls between them. A tag that is not closed is text."""
    at = 0
    for found in _OPENING.finditer(text):
        if found.start() < at:
            continue
        closing = f"</{found[1]}>"
        end = text.find(closing, found.end())
        if end < 0:
            continue
        if before := text[at : found.start()].strip():
            yield AnswerPart(before)
        inner = text[found.end() : end]
        yield AnswerPart(inner.strip(), found[1], dict(_read_parameters(inner)))
        at = end + len(closing)
    if rest := text[at:].strip():
        yield AnswerPart(rest)


def _read_parameters(inner: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in _PARAMETER.finditer(inner):
        if found.start() >= at and (end := inner.find(f"</{found[1]}>", found.end())) >= 0:
            yield found[1], inner[found.end() : end].strip()
            at = end


def find_typed(text: str) -> tuple[str, list[str]]:
    """Return a text without the words of a person in tags, and these words."""
    parts: list[str] = []
    typed: list[str] = []
    at = 0
    for found in _TYPED.finditer(text):
        closing = f"</{found[1]}>"
        end = text.find(closing, found.end()) if found.start() >= at else -1
        if end >= 0:
            parts.append(text[at : found.start()])
            typed.append(text[found.end() : end].strip())
            at = end + len(closing)
    return "".join([*parts, text[at:]]).strip(), [words for words in typed if words]


def strip_state(text: str) -> str:
    """Return a text without the editor's state."""
    start = text.find(_STATE[0])
    if start < 0:
        return text
    end = text.rfind(_STATE[1])
    return (text[:start] + (text[end + len(_STATE[1]) :] if end > start else "")).strip()


def find_folder(text: str) -> str:
    """Return the folder that the editor's state names."""
    found = _FOLDER.search(text) if _STATE[0] in text else None
    return found[1].strip() if found else ""


def read_header(text: str) -> tuple[str, str]:
    """Return the tool that a result begins with, and the text after it; no tool for any other text."""
    found = _HEADER.match(text)
    return (found[1], text[found.end() :].strip()) if found else ("", text)


def is_host_text(text: str) -> bool:
    """Return whether a text is the client's."""
    return bool(_HOST.match(text))
