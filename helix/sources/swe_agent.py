"""Trajectories of SWE-agent: one JSON document a run, of which generations differ in everything but the steps.

What makes them hard, and what is done about it:

- A run is told twice: as `trajectory` (steps of thought, action and observation) and as `history` (the messages that
  the model saw, of which old ones may be shortened). Steps come from the trajectory; of the history only the task is
  taken, or all of it where there is no trajectory.
- The task is some lines in a page of instructions that are the same in every run. Only those lines are a person's.
- The system prompt, and a demonstration of another task before the run's own, say nothing of it.
- There are no ids and no times. Ids are places in the two lists; the session is named by the path, so copies of a run
  in two folders are two sessions of equal turns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    date_in_name,
    folder_name,
    load_json,
    one_line,
    session_of_path,
    string,
)
from helix.sources.common.strip import strip_host, strip_memory
from helix.sources.common.tools import TOOL_CHARS, both_ends, call_line
from helix.types import Document, Parsed, Session, Turn

NAME = "swe-agent"
JSON = True
GROWS = False

_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_SHELL: Final = "bash"  # every action is typed at one shell, the agent's own commands included
_BOX: Final = "testbed"  # where a container keeps whatever repository it is given: no project's name

# What stands around the task in the templates.
_DESCRIPTION: Final = ("<pr_description>", "</pr_description>")
_BEFORE_TASK: Final = re.compile(
    r"(?:We're currently solving the following [^\n]{1,60}?\. )?(?:[^\n]{0,200}\bissue text:\n)?(?:ISSUE:\n)?"
)
_AFTER_TASK: Final = re.compile(r"(?m)^[ \t]*INSTRUCTIONS:[ \t]*$")
_LABEL: Final = "OBSERVATION:\n"
_PROMPT: Final = "(Open file: "  # begins what the shell says after every command, three or four lines
_PROMPT_END: Final = "bash-$"
_PROMPT_LINES: Final = 4
_CUT: Final = re.compile(r'\A\s*\{(?s:.){0,2000}?"(?:trajectory|history)"\s*:\s*\[\s*\{')
_CUT_FIELDS: Final = ('"observation"', '"message_type"')


@dataclass(frozen=True, slots=True)
class _Said:
    """One turn before it has a time."""

    id: str
    role: str
    text: str


def detect(sample: Sample) -> bool:
    """Whether it has steps or messages of a run; of a document that was cut, whether it begins as one."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict):
            return _is_run(value)
    return bool(_CUT.match(sample.head)) and any(name in sample.head for name in _CUT_FIELDS)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """One session: the task, and of each step what was thought and done, and what came of it.

    Raises:
        InputRefused: not one JSON object with a run in it.
    """
    try:
        run = load_json(document.text)
    except ValueError as error:
        raise InputRefused(f"not valid JSON ({error})", "a trajectory is one JSON document; give all of it") from None
    if not isinstance(run, dict) or not _is_run(run):
        raise InputRefused(
            "neither trajectory nor history in it", "give a .traj file, or name its format with --format"
        )
    junk: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    found = date_in_name(document.path)
    time, quality = (found, "derived") if found else (document.mtime, "file" if document.mtime else "none")
    said = [said for said in _run(run, tool_chars, junk, unknown) if said.text]
    task = next((one.text for one in said if one.role == "user"), None)
    session = Session(
        source=NAME,
        id=session_of_path(document.path),
        turns=tuple(_turn(one, time, quality) for one in said),
        project=_project(run),
        title=one_line(task.split("\n", 1)[0], TITLE_CHARS) if task else None,
    )
    return Parsed((session,) if said else (), unknown=unknown, junk=+junk)


def _is_run(value: Mapping[str, Any]) -> bool:
    if any("action" in step and "observation" in step for step in _list(value, "trajectory")):
        return True
    return any(
        "role" in message and ("agent" in message or "message_type" in message) for message in _list(value, "history")
    )


def _list(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list, an empty one in the place of anything else, so that places stay right."""
    found = value.get(name)
    return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list) else []


def _turn(said: _Said, time: datetime | None, quality: str) -> Turn:
    origin = {"user": "human", "assistant": "assistant", "tool": "tool"}[said.role]
    return Turn(id=said.id, text=said.text, role=said.role, origin=origin, time=time, time_quality=quality)


# ---------------------------------------------------------------- a run


def _run(run: Mapping[str, Any], tool_chars: int, junk: Counter[str], unknown: Counter[str]) -> Iterator[_Said]:
    steps = _list(run, "trajectory")
    task = False
    for place, message in enumerate(_list(run, "history")):
        name, role = f"history:{place}", message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            unknown[role if isinstance(role, str) else "(no role)"] += 1
        elif role == "system" or message.get("is_demo") is True or message.get("message_type") == "demonstration":
            junk["host"] += len(_text(message.get("content")))
        elif role == "user" and not task:
            task = True
            yield _Said(name, "user", _task(_text(message.get("content")), junk))
        elif steps:
            continue  # the trajectory tells it in full
        elif role == "assistant":
            yield _Said(name, "assistant", _done(message, message.get("content"), junk))
        else:
            yield _Said(name, "tool", _seen(message.get("content"), tool_chars, junk))
    for place, step in enumerate(steps):
        if not step:
            unknown["(no step)"] += 1
            continue
        yield _Said(str(place), "assistant", _done(step, step.get("response"), junk))
        yield _Said(f"{place}:tool", "tool", _seen(step.get("observation"), tool_chars, junk))


def _task(text: str, junk: Counter[str]) -> str:
    """The problem, without the page around it."""
    plain = _counted("memory", text, strip_memory(text), junk)
    opening, closing = _DESCRIPTION
    start = plain.find(opening)
    end = plain.find(closing, start) if start >= 0 else -1
    before, after = _BEFORE_TASK.match(plain), _AFTER_TASK.search(plain)
    if end >= 0:
        task = plain[start + len(opening) : end]
    elif after and before:
        task = plain[before.end() : after.start()]
    else:
        task = _without_prompt(plain)
    return _counted("host", plain, strip_host(task).strip(), junk)


def _done(step: Mapping[str, Any], response: object, junk: Counter[str]) -> str:
    """What was thought, and a line for what was done."""
    for block in _dicts(step.get("thinking_blocks")):
        junk["reasoning"] += len(string(block, "thinking") or "")
    # A response that could not be read as thought and action is all there is of it.
    thought = _text(step.get("thought")) or ("" if step.get("action") else _text(response))
    thought = _counted("memory", thought, strip_memory(thought), junk).strip()
    action = step.get("action")
    lines = [call_line(_SHELL, action)] if isinstance(action, str) and action.strip() else _calls(step)
    return "\n".join(filter(None, [thought, *lines]))


def _calls(step: Mapping[str, Any]) -> list[str]:
    """Lines for the calls of a message that does not say them as an action."""
    calls = (call.get("function") for call in _dicts(step.get("tool_calls")))
    return [
        call_line(string(call, "name") or "", _given(call.get("arguments"))) for call in calls if isinstance(call, dict)
    ]


def _given(arguments: object) -> object:
    try:
        return load_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _seen(content: object, tool_chars: int, junk: Counter[str]) -> str:
    text = _text(content)
    plain = _counted("memory", text, strip_memory(text), junk)
    result = _without_prompt(plain.removeprefix(_LABEL))
    result = _counted("host", plain, strip_host(result).strip(), junk)
    return _counted("tool-output", result, both_ends(result, tool_chars), junk)


def _without_prompt(text: str) -> str:
    text = text.rstrip()
    start = text.rfind(_PROMPT) if text.endswith(_PROMPT_END) else -1
    alone = start == 0 or (start > 0 and text[start - 1] == "\n")
    return text[:start] if alone and text.count("\n", start) < _PROMPT_LINES else text


def _text(content: object) -> str:
    """Text of a message, of its text blocks, or of one block."""
    if isinstance(content, str):
        return content.replace("\r\n", "\n")
    if isinstance(content, list):
        blocks = (
            block if isinstance(block, str) else string(block, "text")
            for block in content
            if isinstance(block, str | dict)
        )
        return "\n".join(filter(None, blocks)).replace("\r\n", "\n")
    return ""


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _counted(rule: str, before: str, after: str, junk: Counter[str]) -> str:
    junk[rule] += max(len(before) - len(after), 0)
    return after


def _project(run: Mapping[str, Any]) -> str | None:
    """The folder of the first step that is in one. The state is an object, or one as text."""
    for step in _list(run, "trajectory"):
        state = _given(step.get("state"))
        name = folder_name(string(state, "working_dir") or "") if isinstance(state, dict) else None
        if name:
            return None if name == _BOX else name
    return None
