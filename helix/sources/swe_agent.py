"""Trajectories of SWE-agent: one JSON document a run. Its versions have only the steps in common.

What is particular to the format:

- A run has a `trajectory` (steps of thought, action and observation) and a `history` (messages of the model). Old
  messages may be shortened. Steps come from the trajectory, and the task from the history. Without a trajectory all
  turns come from the history.
- The task is some lines in a page of instructions that are the same in every run. Only those lines are a person's.
- The system prompt, and a demonstration of another task before the run's own, are left out.
- There are no ids and no times. Ids are places in the two lists; the session is named by the path, so copies of a run
  in two folders are two sessions of equal turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from helix.errors import InputRefused
from helix.sources.common.fields import get_list, get_objects, get_string, get_text, join_texts, list_blocks
from helix.sources.common.injected import strip_host, strip_memory
from helix.sources.common.json_text import expand_json, load_document
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import date_document
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Turn
from helix.util.workspaces import Workspace, get_last_name, make_workspace

NAME = "swe-agent"
JSON = True
GROWS = False

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_SHELL: Final = "bash"  # every action goes to one shell, also the agent's own commands
_BOX: Final = "testbed"  # the folder of a container for any repository: no project's name

# Texts around the task in the templates.
_DESCRIPTION: Final = ("<pr_description>", "</pr_description>")
_BEFORE_TASK: Final = re.compile(
    r"(?:We're currently solving the following [^\n]{1,60}?\. )?(?:[^\n]{0,200}\bissue text:\n)?(?:ISSUE:\n)?"
)
_AFTER_TASK: Final = re.compile(r"(?m)^[ \t]*INSTRUCTIONS:[ \t]*$")
_LABEL: Final = "OBSERVATION:\n"
_PROMPT: Final = "(Open file: "  # begins the three or four lines of the shell after every command
_PROMPT_END: Final = "bash-$"
_PROMPT_LINES: Final = 4
_CUT: Final = re.compile(r'\A\s*\{(?s:.){0,2000}?"(?:trajectory|history)"\s*:\s*\[\s*\{')
_CUT_FIELDS: Final = ('"observation"', '"message_type"')
_ORIGINS: Final = {"user": "human", "assistant": "assistant", "tool": "tool"}


class _Entry(NamedTuple):
    """One turn before it has a time."""

    id: str
    role: str
    text: str


def detect(sample: Sample) -> bool:
    """Return whether it has steps or messages of a run, or begins as a run that was cut."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict):
            return _is_run(value)
    return bool(_CUT.match(sample.head)) and any(name in sample.head for name in _CUT_FIELDS)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return one session: the task, and of each step thought, action and result.

    Raises:
        InputRefused: it is not one JSON object with a run in it.
    """
    run = load_document(document.text, "a trajectory is one JSON document; give all of it")
    if not isinstance(run, dict) or not _is_run(run):
        remedy = "give a .traj file, or name its format with --format"
        raise InputRefused("neither trajectory nor history in it", remedy)
    cleaner = TextCleaner(tool_chars)
    time, quality = date_document(document)
    turns = [
        Turn(id=id, text=text, role=role, origin=_ORIGINS[role], time=time, time_quality=quality)
        for id, role, text in _read_run(run, cleaner)
        if text
    ]
    title = next((turn.text.split("\n", 1)[0] for turn in turns if turn.role == "user"), None)
    name = name_session_of_path(document.path)
    return cleaner.build(make_sessions(NAME, name, turns, workspace=_find_workspace(run), title=title))


def _is_run(value: Mapping[str, Any]) -> bool:
    if any("action" in step and "observation" in step for step in _list_places(value, "trajectory")):
        return True
    messages = _list_places(value, "history")
    return any("role" in message and ("agent" in message or "message_type" in message) for message in messages)


def _list_places(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list, with an empty one for any other value, so that places stay right."""
    return [entry if isinstance(entry, dict) else {} for entry in get_list(value, name)]


def _read_run(run: Mapping[str, Any], cleaner: TextCleaner) -> Iterator[_Entry]:
    steps = _list_places(run, "trajectory")
    has_task = False
    for place, message in enumerate(_list_places(run, "history")):
        name, role = f"history:{place}", message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            cleaner.unknown[role if isinstance(role, str) else "(no role)"] += 1
        elif role == "system" or message.get("is_demo") is True or message.get("message_type") == "demonstration":
            cleaner.drop("host", _join_text(message.get("content")))
        elif role == "user" and not has_task:
            has_task = True
            yield _Entry(name, "user", _read_task(_join_text(message.get("content")), cleaner))
        elif steps:
            continue  # the trajectory has it whole
        elif role == "assistant":
            yield _Entry(name, "assistant", _read_action(message, message.get("content"), cleaner))
        else:
            yield _Entry(name, "tool", _read_observation(message.get("content"), cleaner))
    for place, step in enumerate(steps):
        if not step:
            cleaner.unknown["(no step)"] += 1
            continue
        yield _Entry(str(place), "assistant", _read_action(step, step.get("response"), cleaner))
        yield _Entry(f"{place}:tool", "tool", _read_observation(step.get("observation"), cleaner))


def _read_task(text: str, cleaner: TextCleaner) -> str:
    """Return the problem, without the page around it."""
    plain = cleaner.cut(text, strip_memory(text), "memory")
    opening, closing = _DESCRIPTION
    start = plain.find(opening)
    end = plain.find(closing, start) if start >= 0 else -1
    before, after = _BEFORE_TASK.match(plain), _AFTER_TASK.search(plain)
    if end >= 0:
        task = plain[start + len(opening) : end]
    elif after and before:
        task = plain[before.end() : after.start()]
    else:
        task = _strip_prompt(plain)
    return cleaner.cut(plain, strip_host(task).strip(), "host")


def _read_action(step: Mapping[str, Any], response: object, cleaner: TextCleaner) -> str:
    """Return the thought of a step, and a line for its action."""
    cleaner.drop("reasoning", *(get_string(block, "thinking") for block in get_objects(step, "thinking_blocks")))
    # A response that has no thought and action is all that there is of the step.
    thought = _join_text(step.get("thought")) or ("" if step.get("action") else _join_text(response))
    thought = cleaner.cut(thought, strip_memory(thought), "memory").strip()
    action = step.get("action")
    is_action = isinstance(action, str) and action.strip()
    return join_texts([thought, *([cleaner.write_call(_SHELL, action)] if is_action else _format_calls(step, cleaner))])


def _format_calls(step: Mapping[str, Any], cleaner: TextCleaner) -> Iterator[str]:
    """Yield the lines for the calls of a message without an action."""
    for call in get_objects(step, "tool_calls"):
        function = call.get("function")
        if isinstance(function, dict):
            yield cleaner.write_call(get_text(function, "name"), expand_json(function.get("arguments")))


def _read_observation(content: object, cleaner: TextCleaner) -> str:
    text = _join_text(content)
    plain = cleaner.cut(text, strip_memory(text), "memory")
    result = _strip_prompt(plain.removeprefix(_LABEL))
    return cleaner.retain_output(cleaner.cut(plain, strip_host(result).strip(), "host"))


def _strip_prompt(text: str) -> str:
    text = text.rstrip()
    start = text.rfind(_PROMPT) if text.endswith(_PROMPT_END) else -1
    is_alone = start == 0 or (start > 0 and text[start - 1] == "\n")
    return text[:start] if is_alone and text.count("\n", start) < _PROMPT_LINES else text


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content.replace("\r\n", "\n")
    return join_texts(get_string(block, "text") for block in list_blocks(content)).replace("\r\n", "\n")


def _find_workspace(run: Mapping[str, Any]) -> Workspace | None:
    """Return the folder of the first step that has one. The state is an object, or one as text."""
    for step in _list_places(run, "trajectory"):
        workspace = make_workspace(get_string(expand_json(step.get("state")), "working_dir"))
        if workspace:
            return None if get_last_name(workspace.folder) == _BOX else workspace
    return None
