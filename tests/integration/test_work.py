"""Memory at the moment it is needed: sessions of an agent, their failures and fixes, by hooks and by questions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.citations import shorten_uuids
from helix.snapshot.sql import run_statement
from helix.text.step_keys import read_faults
from helix.work.commands import read_history
from helix.work.fixes import find_fixes
from helix.work.resolve import resolve
from helix.work.why import blame, explain_line
from pipelines.embedded.ingest import ingest
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from query.hooks import protocol
from query.hooks.actions import Action, answer_after, answer_before
from query.hooks.briefing import brief_project
from query.hooks.context import answer_hook
from tests.support.agent_log import PACKAGES, REFUSED, write_harbour_logs

OTHER_REFUSED = "redis.exceptions.ConnectionError: Error 61 connecting to 10.0.0.7:6380. Connection refused."
SETTINGS = Settings()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("work")
    logs = root / "logs"
    write_harbour_logs(logs)
    ingest(root / "store", [logs], SETTINGS)
    return root / "store"


@pytest.fixture(scope="module")
def memory(store: Path) -> Memory:
    return Memory(store, SETTINGS, warm=False)


def turn_of(memory: Memory, row: int) -> str:
    (entry,) = memory.snapshot.text(np.array([row]))
    return str(entry["text"])


# ---------------------------------------------------------------- what is indexed


def test_steps_are_a_view_of_sql_with_typed_fields_and_edges(store: Path) -> None:
    with run_statement(
        store, "SELECT action, target, outcome, tests_failed, commits FROM steps ORDER BY session, ord, place"
    ) as found:
        rows = [tuple(row) for row in found.rows]
    assert ("run", "go build -o tide .", "unknown", None, []) in rows
    assert ("result", "", "failed", 1, []) in rows
    assert ("result", "", "passed", None, ["1a2b3c4"]) in rows
    with run_statement(store, "SELECT DISTINCT kind FROM edges") as found:
        kinds = {row[0] for row in found.rows}
    assert {"run", "edit", "result", "failed", "commit"} <= kinds


def test_the_way_from_a_failure_to_its_proof(memory: Memory) -> None:
    snap = memory.snapshot
    (fix,) = find_fixes(snap, read_faults(OTHER_REFUSED))
    found = fix.resolution
    assert (fix.is_known, found.held) == (True, True)
    assert [entry["target"] for entry in snap.steps.read(found.changes)] == ["docker compose up -d redis"]
    assert snap.steps.read([found.shown])[0]["target"] == "pytest -q tests/test_queue.py"
    # A failure that was never seen to pass has no fix.
    (left,) = find_fixes(snap, read_faults("make: *** [docs] Error 2"))
    assert not left.is_known
    assert resolve(snap, left.resolution.failed).shown == -1
    assert find_fixes(snap, read_faults("redis.exceptions.TimeoutError: no answer from the queue")) == []


def test_a_command_that_never_passed_as_it_is_written(memory: Memory) -> None:
    history = read_history(memory.snapshot, "cd /elsewhere && go build -o tide ./... 2>&1 | head")
    assert (history.passed, history.failed, history.is_wrong) == (0, 1, True)
    assert not read_history(memory.snapshot, "pytest -q").is_wrong  # an edit ended that failure, no other command
    assert not read_history(memory.snapshot, "go vet ./...").is_wrong


# ---------------------------------------------------------------- hooks at tool calls

CWD = {"cwd": "/srv/harbour", "session_id": "new"}
CALL = {"command": "pytest -q"}
EVENTS: dict[str, dict[str, Any]] = {
    "claude-code": {
        "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": CALL, "tool_use_id": "toolu_1",
        "tool_response": {"stdout": OTHER_REFUSED, "stderr": "", "interrupted": False, "isImage": False},
    },
    "claude-code, failed": {
        "hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "tool_input": CALL, "is_interrupt": False,
        "error": f"Exit code 1\n{OTHER_REFUSED}",
    },
    "codex": {
        "hook_event_name": "PostToolUse", "turn_id": "1", "tool_name": "Bash", "tool_input": CALL,
        "tool_response": OTHER_REFUSED,
    },
    "gemini": {
        "hook_event_name": "AfterTool", "timestamp": "2026-05-04T10:00:00Z", "tool_name": "run_shell_command",
        "tool_input": CALL, "tool_response": {"llmContent": OTHER_REFUSED, "returnDisplay": "x"},
    },
    "cursor": {
        "hook_event_name": "postToolUse", "cursor_version": "3", "tool_name": "Shell", "tool_input": CALL,
        "tool_output": json.dumps({"output": OTHER_REFUSED, "exitCode": 1}),
    },
    "opencode": {
        "hook_event_name": "PostToolUse", "tool_name": "bash", "tool_input": CALL,
        "tool_response": {"output": OTHER_REFUSED, "exit_code": 1},
    },
}  # fmt: skip


@pytest.mark.parametrize("agent", EVENTS)
def test_a_failure_brings_its_fix_in_the_shape_of_every_agent(memory: Memory, agent: str) -> None:
    payload = EVENTS[agent]
    event = protocol.find_event(payload["hook_event_name"])
    assert event is not None
    request = protocol.build_action_request(event, {**CWD, **payload})
    assert request is not None
    answer = answer_hook(memory, request)
    assert "docker compose up -d redis" in answer["context"]
    assert "then passed: `pytest -q tests/test_queue.py`" in answer["context"]
    assert answer["tokens"] <= 400
    assert all(memory.snapshot.find(item) is not None for item in answer["items"])
    # Nothing is given twice.
    assert answer_hook(memory, {**request, "seen": answer["items"]})["context"] == ""


def ask_before(memory: Memory, tool: str, arguments: dict[str, Any], cwd: str = "/srv/harbour") -> str:
    payload = {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": arguments,
        "session_id": "new",
        "cwd": cwd,
    }
    request = protocol.build_action_request("PreToolUse", payload)
    return "" if request is None else answer_hook(memory, request)["context"]


def test_before_a_command_that_failed_and_before_an_edit_that_a_rule_is_about(memory: Memory) -> None:
    told = ask_before(memory, "Bash", {"command": "go build -o tide ./..."})
    assert "what worked: `go build -o tide .`" in told
    assert "make codegen writes it" in ask_before(memory, "Edit", {"file_path": "/srv/harbour/generated/tides.py"})
    assert "stays single-threaded" in ask_before(memory, "Edit", {"file_path": "/srv/harbour/src/locks.py"})
    assert "use pnpm" in ask_before(memory, "Bash", {"command": "npm install left-pad"})
    for tool, arguments in (
        ("Bash", {"command": "go build -o tide ."}), ("Bash", {"command": "pytest -q"}), ("Bash", {"command": "ls"}),
        ("Bash", {"command": "pnpm install"}), ("Bash", {"command": "grep -r npm docs"}),
        ("Edit", {"file_path": "/srv/harbour/src/queue.py"}), ("Read", {"file_path": "/x/generated/tides.py"}),
        ("Edit", {}), ("", {}),
    ):  # fmt: skip
        assert ask_before(memory, tool, arguments) == "", (tool, arguments)
    assert ask_before(memory, "Bash", {"command": "go build -o tide ./..."}, cwd="/srv/other") == ""  # another project


def test_silence_is_the_default_after_a_call(memory: Memory) -> None:
    snap = memory.snapshot
    for output in (
        "done",
        "3 passed",
        "AssertionError: assert 4 == 5",
        "ValueError: nothing like it",
        "make: *** [docs] Error 2",
    ):
        found = answer_after(snap, Action("Bash", {"command": "pytest -q"}, output, None), None, frozenset())
        assert found.text == "", output
    quiet = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert protocol.build_action_request("PostToolUse", {**quiet, "tool_response": {"stdout": "a\nb"}}) is None


@pytest.mark.parametrize(
    "bad", [None, 3, [], "x", {"tool": 3, "input": [], "output": {}}, {"tool": "Bash", "input": {"command": 5}}]
)
def test_a_request_of_wrong_types_says_nothing(memory: Memory, bad: Any) -> None:
    request = bad if isinstance(bad, dict) else {"tool": bad, "input": bad, "output": bad, "failed": bad}
    for kind in ("before", "after"):
        assert answer_hook(memory, {"kind": kind, "folders": ["/srv/harbour"], **request})["context"] == ""
    assert answer_before(memory.snapshot, Action.from_json(request), None, frozenset()).text == ""


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (OTHER_REFUSED, "docker compose up -d redis"),
        ("how did we fix the ConnectionError", "docker compose up -d redis"),
        (PACKAGES, "go build -o tide ."),
        ("what broke queue.py last", "/srv/harbour/src/queue.py"),
        ("which command runs the tests here", "pytest -q"),
    ],
)
def test_a_question_about_work_has_its_answer_first(memory: Memory, question: str, first: str) -> None:
    found = memory.recall(question, k=5)
    assert first in found.items[0].text
    assert found.answered >= 0.5
    assert first in found.context


def test_filters_hold_for_questions_about_work(memory: Memory) -> None:
    question = "how did we fix the ConnectionError"
    fix = "[Bash] docker compose up -d redis"
    assert any(fix in item.text for item in memory.recall(question, k=10).items)
    until = "2026-05-01T10:11:00Z"  # after the failure, before its fix
    found = memory.recall(question, k=10, until=until).items
    assert any(REFUSED in item.text for item in found)
    assert not any(fix in item.text for item in found)


def test_a_failure_in_a_context_says_what_came_of_it_and_every_id_is_found(memory: Memory) -> None:
    found = memory.recall("the queue test cannot connect to redis", k=10, min_relevance=0.0)
    assert "→ fixed: changed `docker compose up -d redis`; `pytest -q tests/test_queue.py` passed" in found.context
    cited = [line for line in found.context.splitlines() if "(aaaa0001#" in line]
    assert cited
    for item in found.items:
        for turn in item.turns:
            for place in (f"{item.session}#{turn}", f"({item.session}#{shorten_uuids(turn)})"):
                row = memory.snapshot.find(place)
                assert row is not None
                assert item.turns == tuple(memory.snapshot.text(np.array([row]))[0]["turns"])


# ---------------------------------------------------------------- briefing


def test_a_briefing_has_rules_open_ends_and_sessions_within_its_budget(memory: Memory) -> None:
    snap = memory.snapshot
    found = brief_project(snap, "harbour", 1_200)
    text = found.text
    assert sum(snap.counter([text])) <= 1_200
    assert "Never edit generated/tides.py by hand" in text
    assert "still failed: make: *** [docs] Error 2" in text
    assert "not answered: " in text
    assert "Shall I install it?" in text
    assert "edited queue.py; tests passed at last" in text
    assert text.index("Standing rules") < text.index("Open ends") < text.index("Last sessions")


# ---------------------------------------------------------------- why


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("harbour")
    (top / "src").mkdir()
    (top / "src" / "queue.py").write_text("def pop():\n    return 1\n")
    when = {"GIT_AUTHOR_DATE": "2026-05-02T10:30:00Z", "GIT_COMMITTER_DATE": "2026-05-02T10:30:00Z"}
    names = {
        "GIT_AUTHOR_NAME": "Ines",
        "GIT_AUTHOR_EMAIL": "i@x",
        "GIT_COMMITTER_NAME": "Ines",
        "GIT_COMMITTER_EMAIL": "i@x",
    }
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "queue: retry in pop"]):
        subprocess.run(
            ["git", *command], cwd=top, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(top), **when, **names}
        )
    return top


def test_a_line_leads_to_the_session_that_made_it(memory: Memory, repository: Path) -> None:
    path = repository / "src" / "queue.py"
    line = blame(path, 2)
    assert (line.author, line.summary) == ("Ines", "queue: retry in pop")
    found = explain_line(memory.snapshot, line, path)
    assert found is not None
    assert (found["how"], found["session"]) == ("edit", "aaaa0002")
    assert found["request"]["text"] == "build the tool"
    assert (
        "since push must stay quick" in found["edit"]["text"] or "since push must stay quick" in found["words"]["text"]
    )
    # A log that names the commit decides, whatever was edited last.
    named = line.__class__(line.path, 2, line.text, "1a2b3c4" + "0" * 33, line.author, line.time, line.summary)
    assert explain_line(memory.snapshot, named, path)["how"] == "commit"  # type: ignore[index]
    assert explain_line(memory.snapshot, line, repository / "other.py") is None


def test_helix_why_tells_the_commit_and_the_session(store: Path, repository: Path, run_helix: Any) -> None:
    place = f"{repository}/src/queue.py:2"
    done = run_helix("why", place, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    first, commit, session, *_ = done.stdout.splitlines()
    assert first == "queue.py:2: return 1"
    assert "2026-05-02, Ines: queue: retry in pop" in commit
    assert session.startswith("session aaaa0002")
    assert "build the tool" in done.stdout
    found = json.loads(run_helix("why", place, "--store", store, "--json").stdout)
    assert (found["line"], found["author"], found["found"]["session"]) == (2, "Ines", "aaaa0002")
    with (repository / "src" / "queue.py").open("a") as file:
        file.write("x = 1\n")
    assert "not committed yet" in run_helix("why", f"{repository}/src/queue.py:3", "--store", store).stdout


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("src/queue.py", "is no FILE:LINE"),
        ("src/queue.py:0", "is no FILE:LINE"),
        ("nowhere.py:1", "there is no file"),
        ("src/queue.py:99", "99"),
        (".git/HEAD:1", "git"),
    ],
)
def test_a_wrong_line_is_refused(store: Path, repository: Path, run_helix: Any, place: str, message: str) -> None:
    done = run_helix("why", f"{repository}/{place}", "--store", store)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


# ---------------------------------------------------------------- forgetting


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    root = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(store), str(root)], check=True)
    return root


def test_a_forgotten_item_takes_its_steps_along(copy: Path) -> None:
    snap = Memory(copy, SETTINGS, warm=False).snapshot
    (fix,) = find_fixes(snap, read_faults(OTHER_REFUSED))
    row = int(snap.steps.columns.row[fix.resolution.changes[0]])
    key = f"{int(snap.columns.key[row]):016x}"
    forget(copy, Selection((key,)), SETTINGS)
    after = Memory(copy, SETTINGS, warm=False).snapshot
    left = [entry["target"] for entry in after.steps.read(np.flatnonzero(after.alive[after.steps.columns.row]))]
    assert "docker compose up -d redis" not in left
    assert not any(fix.is_known for fix in find_fixes(after, read_faults(OTHER_REFUSED)))
    for path in copy.rglob("*"):
        if path.is_file():
            assert b"docker compose up -d redis" not in path.read_bytes(), path
