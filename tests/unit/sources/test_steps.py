"""Tool calls and their results as steps of turns, from logs of several agents."""

import json

import pytest

from helix.sources import registry as sources
from helix.sources.common.pieces import read_piece, write_sessions
from helix.sources.common.steps import judge_result, read_call
from helix.types import Document, Step
from tests.support.agent_log import edit, run, write_log

PATCH = "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n"


def steps_of(path):
    parsed = sources.parse(Document(path.name, path.read_text()))
    return [(turn.role, step) for session in parsed.sessions for turn in session.turns for step in turn.steps]


def test_a_call_and_its_result_share_an_id_and_the_result_has_an_outcome(tmp_path):
    events = [
        ("ask", "make it pass"),
        *run("pytest -q", "FAILED tests/test_a.py::test_b - KeyError: 'x'\n1 failed, 2 passed in 0.1s", True),
        *edit("/srv/harbour/a.py"),
        *run("pytest -q", "3 passed in 0.1s", False),
        *run('git commit -m "a"', "[main 1a2b3c4] a\n 1 file changed", False),
    ]
    found = steps_of(write_log(tmp_path, "s1", "2026-05-01T10:00:00", events))
    assert [step.action for _, step in found] == ["run", "result", "edit", "result", "run", "result", "run", "result"]
    calls, results = [step for _, step in found[::2]], [step for _, step in found[1::2]]
    assert [one.call for one in calls] == [one.call for one in results]
    assert [one.target for one in calls] == ["pytest -q", "/srv/harbour/a.py", "pytest -q", 'git commit -m "a"']
    assert [one.outcome for one in results] == ["failed", "passed", "passed", "passed"]
    assert results[0].tests == (2, 1)
    assert {fault.kind for fault in results[0].faults} == {"test"}
    assert results[3].commits == ("1a2b3c4",)
    assert [role for role, _ in found[:2]] == ["assistant", "tool"]


def test_a_command_that_prints_nothing_has_its_result_in_the_turn_of_the_call(tmp_path):
    path = write_log(tmp_path, "s1", "2026-05-01T10:00:00", [("ask", "build"), *run("go build", "", False)])
    assert [(role, step.action, step.outcome) for role, step in steps_of(path)] == [
        ("assistant", "run", "unknown"),
        ("assistant", "result", "passed"),
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Bash", {"command": "make"}, ("run", "make")),
        ("shell", {"command": ["bash", "-lc", "make test"]}, ("run", "make test")),
        ("run_shell_command", {"command": "make"}, ("run", "make")),
        ("Edit", {"file_path": "/a/b.py"}, ("edit", "/a/b.py")),
        ("write_file", {"absolute_path": "/a/b.py"}, ("edit", "/a/b.py")),
        ("apply_patch", {"command": PATCH}, ("edit", "a.py, b.py")),
        ("Read", {"file_path": "/a/b.py"}, ("read", "/a/b.py")),
        ("Grep", {"pattern": "tide"}, ("search", "tide")),
        ("WebFetch", {"url": "https://x"}, ("fetch", "https://x")),
        ("Task", {"description": "look"}, ("other", "")),
        ("", None, ("other", "")),
        ("Bash", [1, 2], ("run", "")),
    ],
)  # fmt: skip
def test_the_action_and_target_of_a_call(tool, arguments, expected):
    assert read_call(tool, arguments) == expected


@pytest.mark.parametrize(
    ("command", "output", "failed", "code", "outcome"),
    [
        ("make", "", None, None, "passed"),
        ("make", "boom", None, 2, "failed"),
        ("make", "error: boom", False, None, "passed"),  # the log says that it passed
        ("make 2>&1 | tail", "error: boom", False, None, "failed"),  # that is the status of tail
        ("make", "Exit code 1\nboom", None, None, "failed"),
        ("grep x a", "", None, 1, "passed"),  # it found nothing
        ("grep x a", "grep: a: No such file or directory", None, 2, "failed"),
        ("git diff", "+ValueError: no", None, None, "passed"),
        ("pytest", "1 failed in 2s", None, None, "failed"),
        ("make", "The user doesn't want to proceed with this tool use.", True, None, "unknown"),
    ],
)
def test_the_outcome_of_a_command(command, output, failed, code, outcome):
    assert judge_result(Step("1", "run", "Bash", command), output, failed, code).outcome == outcome


def test_results_without_ids_belong_to_the_calls_in_order():
    log = {
        "history": [{"role": "user", "content": "fix it", "agent": "main"}],
        "trajectory": [
            {"action": "make", "observation": "make: *** [all] Error 2", "response": "x", "thought": "try"},
            {"action": "make -k", "observation": "done", "response": "x", "thought": "again"},
        ],
    }
    parsed = sources.parse(Document("a.traj", json.dumps(log)))
    results = [step for turn in parsed.sessions[0].turns for step in turn.steps if step.action == "result"]
    calls = [step for turn in parsed.sessions[0].turns for step in turn.steps if step.action == "run"]
    assert [one.call for one in results] == [one.call for one in calls]
    assert [one.outcome for one in results] == ["failed", "passed"]


def test_steps_survive_a_text_of_sessions(tmp_path):
    path = write_log(tmp_path, "s1", "2026-05-01T10:00:00", [("ask", "x"), *run("make", "error: boom", True)])
    parsed = sources.parse(Document(path.name, path.read_text()))
    again = read_piece(Document(path.name, write_sessions(parsed.sessions)), "claude-code")
    assert again is not None
    assert [turn.steps for turn in again.sessions[0].turns] == [turn.steps for turn in parsed.sessions[0].turns]
    bad = write_sessions(parsed.sessions).replace('"action":"run"', '"action":"obey"')
    assert read_piece(Document(path.name, bad), "claude-code") is None
