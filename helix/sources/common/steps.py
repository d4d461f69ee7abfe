"""Steps of an agent's log: tool calls and their results, as fields of the turns that hold them.

Adapters format a call as a line of its turn and shorten a result to a turn of its own, in many ways. So they only note
what they formatted; here each note finds its turn by the text, and each result its call: by the id that both have, else
by their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Final

from helix.sources.common.fields import get_string
from helix.text.failures import find_failures
from helix.text.shell import find_main, is_reading
from helix.text.step_keys import to_faults
from helix.text.test_counts import count_tests
from helix.types import Session, Step, Turn

TARGET_CHARS: Final = 1_000
"""Characters retained of a command or another target."""

_ACTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    "run": re.compile(
        r"bash|shell|local_shell|exec|terminal|run_?command|command|execute|powershell|cmd", re.IGNORECASE
    ),
    "edit": re.compile(
        r"edit|write|apply_?patch|patch|replace|create_?file|insert|str_replace|rename|delete|move", re.I
    ),
    "read": re.compile(r"read|view|open|cat\b|notebookread|list_?dir|ls\b", re.IGNORECASE),
    "search": re.compile(r"grep|glob|search|find|codebase", re.IGNORECASE),
    "fetch": re.compile(r"fetch|browser|web|url|http|navigate", re.IGNORECASE),
}
_PATCH: Final = "*** Begin Patch"
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,500})$")
_COMMANDS: Final = ("command", "cmd", "commandLine", "CommandLine", "script")
_PATHS: Final = (
    *("file_path", "filePath", "absolute_path", "target_file", "TargetFile", "AbsolutePath", "notebook_path", "path"),
    *("filename", "file", "relative_workspace_path", "relativePath"),
)
_OTHERS: Final = ("url", "pattern", "query", "Query", "search_term", "regex", "uri")
_EXIT: Final = re.compile(
    r"(?:^|\n)\s*(?:Exit code:?|Process exited with code|exit status|Command failed with exit code|exited with code"
    r"|\(exit code:?|EXIT(?:_CODE)?[:=]?|BUILD_EXIT=|rc=|---EXIT)\s*(-?\d{1,3})\b",
    re.IGNORECASE,
)
_COMMIT: Final = re.compile(r"(?m)^\[[\w./@#-]{1,120}(?: \([\w -]{1,40}\))? ([0-9a-f]{7,40})\] ")
_MASKS: Final = re.compile(r"[|;\n]")
"""What may end a command line with another status than that of its main program."""

_REJECTED: Final = re.compile(
    r"\A\s*(?:The user doesn't want to|User (?:rejected|denied|declined|cancelled)|\[?Request interrupted"
    r"|Tool (?:execution|use) was (?:rejected|cancelled)|Sibling tool call errored|Operation cancelled by user)"
)


@dataclass(slots=True)
class _LoggedResult:
    call: str
    output: str
    failed: bool | None
    exit_code: int | None


@dataclass(slots=True)
class StepNotes:
    """Notes of what an adapter formatted: calls by their line, results by the text that they became."""

    calls: dict[str, list[Step]] = field(default_factory=dict)
    results: dict[str, list[_LoggedResult]] = field(default_factory=dict)

    def note_call(self, line: str, tool: str, arguments: object, id: str) -> None:
        """Note a call that became a line of a turn."""
        action, target = read_call(tool, arguments)
        self.calls.setdefault(line, []).append(Step(id, action, tool, target))

    def note_result(self, text: str, output: str, failed: bool | None, exit_code: int | None, id: str) -> None:
        """Note a result that became a text, which is empty for an empty output."""
        self.results.setdefault(text, []).append(_LoggedResult(id, output, failed, exit_code))

    def add_steps(self, session: Session) -> Session:
        """Return a session whose turns have their steps."""
        if not self.calls:
            return session
        steps: list[list[Step]] = [[] for _ in session.turns]
        open_calls: dict[str, tuple[int, Step]] = {}  # without a result so far: place of the turn, call
        for at, turn in enumerate(session.turns):
            if turn.role == "assistant":
                for call in self._take_calls(turn):
                    steps[at].append(call)
                    open_calls[call.call] = (at, call)
            elif turn.role == "tool":
                for result in self._take_results(turn.text):
                    known = result.call if result.call in open_calls else next(iter(open_calls), "")
                    _, call = open_calls.pop(known, (at, Step(result.call or turn.id, "other")))
                    steps[at].append(_read_result(call, result))
        self._add_silent(steps, open_calls)
        turns = (
            replace(turn, steps=tuple(own)) if own else turn for turn, own in zip(session.turns, steps, strict=True)
        )
        return replace(session, turns=tuple(turns))

    def _take_calls(self, turn: Turn) -> Iterator[Step]:
        """Yield the calls that became lines of a turn."""
        for number, line in enumerate(turn.text.split("\n")):
            known = self.calls.get(line.strip()) if line.lstrip().startswith("[") else None
            if known:
                call = known.pop(0) if len(known) > 1 else known[0]
                yield replace(call, call=call.call or f"{turn.id}#{number}")

    def _take_results(self, text: str) -> Iterator[_LoggedResult]:
        """Yield the results that the text of a turn holds: one, or several in order."""
        left = text
        while left:
            known = self.results.get(left)
            key = left if known else next((one for one in self.results if one and left.startswith(one)), "")
            found = self.results.get(key)
            if not key or not found:
                return
            yield found.pop(0) if len(found) > 1 else found[0]
            left = left[len(key) :].lstrip()

    def _add_silent(self, steps: list[list[Step]], open_calls: Mapping[str, tuple[int, Step]]) -> None:
        """Add the results without a text to the turns of their calls: a command that printed nothing."""
        silent = {result.call: result for result in self.results.get("", ()) if result.call}
        for id, (at, call) in open_calls.items():
            if id in silent:
                steps[at].append(_read_result(call, silent[id]))


def read_call(tool: str, arguments: object) -> tuple[str, str]:
    """Return the action of a tool call, one of ACTIONS, and its target: a command, a file, an address or a pattern."""
    command = _find_argument(arguments, _COMMANDS)
    if command.startswith(_PATCH) or (isinstance(arguments, str) and arguments.startswith(_PATCH)):
        patch = command or str(arguments)
        return "edit", ", ".join(dict.fromkeys(_PATCHED.findall(patch)))[:TARGET_CHARS]
    path = _find_argument(arguments, _PATHS)
    named = next((action for action, pattern in _ACTIONS.items() if pattern.search(tool)), "other")
    if isinstance(arguments, str):
        return named, arguments[:TARGET_CHARS].strip()
    if command and named not in ("edit", "read"):
        return "run", command[:TARGET_CHARS].strip()
    target = (path if named in ("edit", "read") else "") or command or _find_argument(arguments, _OTHERS) or path
    return named, target[:TARGET_CHARS].strip()


def _find_argument(arguments: object, names: Iterable[str]) -> str:
    if not isinstance(arguments, dict):
        return ""
    for name in names:
        value: Any = arguments.get(name)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value[-1] if len(value) > 2 and value[-2] in ("-c", "-lc") else " ".join(value)
        if found := get_string(arguments, name):
            return found
    return ""


def _read_result(call: Step, result: _LoggedResult) -> Step:
    """Return the result of a call as a step."""
    return judge_result(call, result.output, result.failed, result.exit_code)


def judge_result(call: Step, output: str, failed: bool | None = None, exit_code: int | None = None) -> Step:
    """Return the result of a call: whether it passed, and what its output tells.

    Args:
        failed, exit_code: what the log says; None where it says nothing. Then the output decides.
    """
    found = Step(call.call, "result", call.tool, outcome="unknown")
    if _REJECTED.match(output):
        return found  # a person stopped it
    code = exit_code if exit_code is not None else _find_exit_code(output)
    program = _name_program(call)
    reading = call.action in ("read", "search", "fetch") or (call.action == "run" and is_reading(call.target))
    # A reader that finds nothing ends with 1, and says nothing.
    found_nothing = reading and call.action == "run" and code == 1
    is_bad = (failed or (code is not None and code != 0)) and not found_nothing
    is_told = code == 0 or (code is None and failed is False)
    known = True if is_bad else False if is_told and call.action == "run" and not _MASKS.search(call.target) else None
    tests = count_tests(output) if call.action in ("run", "other") and not reading else None
    if tests and tests[1]:
        known = True
    told = (
        []
        if call.action == "edit" and not is_bad
        else find_failures(output, failed=known, program=program, reading=reading, run=call.action == "run")
    )
    faults = () if reading and not is_bad and call.action != "run" else to_faults(told)
    outcome = "failed" if is_bad or faults or (tests and tests[1]) else "passed"
    commits = tuple(_COMMIT.findall(output)) if call.action == "run" and "commit" in call.target else ()
    return replace(found, outcome=outcome, exit_code=code, tests=tests, faults=faults, commits=commits)


def _find_exit_code(output: str) -> int | None:
    """Return the exit code that an output writes in its first or its last lines."""
    for part in (output[:400], output[-400:]):
        codes = _EXIT.findall(part)
        if codes:
            return int(codes[-1])
    return None


def _name_program(call: Step) -> str:
    if call.action != "run":
        return call.tool
    programs = find_main(call.target)
    return programs[0].name if programs else PurePath(call.tool).name
