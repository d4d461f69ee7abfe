"""The promises of `helix hook` at a tool call: what is known of it in the agent's own shape, silence otherwise."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helix.settings import load
from pipelines.embedded.ingest import ingest
from query.install.plugin import write_plugin
from tests.contract.test_hook import assert_silent, clean_environ, read_log
from tests.support.agent_log import PACKAGES, REFUSED, write_harbour_logs
from tests.support.serving import HELIX, ServerProcess

pytestmark = pytest.mark.usefixtures("encoders")

FORBIDDEN = {"command": "npm install left-pad"}
BUILD = {"command": "go build -o tide ./..."}
EDIT = {"file_path": "/srv/harbour/generated/tides.py", "old_string": "a", "new_string": "b"}
TEST = {"command": "pytest -q tests/test_queue.py"}
CLAUDE = {
    "session_id": "11111111-2222-4333-8444-555555555555", "transcript_path": "/nowhere/1.jsonl", "cwd": "/srv/harbour",
    "permission_mode": "default", "tool_use_id": "toolu_1",
}  # fmt: skip
CODEX = {**CLAUDE, "transcript_path": "/nowhere/.codex/sessions/rollout-1.jsonl", "turn_id": "1", "model": "m"}
GEMINI = {"session_id": "g", "cwd": "/srv/harbour", "timestamp": "2026-06-01T10:00:00Z", "transcript_path": "/n/1.json"}
CURSOR = {"conversation_id": "c", "cursor_version": "2.0", "workspace_roots": ["/srv/harbour"], "cwd": "/srv/harbour"}
FAILED = f"E   {REFUSED}\n1 failed in 0.31s"

Hook = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    root = tmp_path_factory.mktemp("harbour")
    write_harbour_logs(root / "logs")
    ingest(root / "store", [root / "logs"], load())
    return root / "store"


@pytest.fixture
def hook(tmp_path: Path, store: Path) -> Hook:
    """Run the real `helix hook` in its own process; its records of sessions are the test's own."""

    def run(event: str, payload: Any, **environ: str) -> subprocess.CompletedProcess[str]:
        text = payload if isinstance(payload, str) else json.dumps(payload)
        return subprocess.run(
            [HELIX, "hook", event, "--store", str(store)], input=text, capture_output=True, text=True, timeout=60,
            check=False, env={**clean_environ(), "HELIX_CACHE": str(tmp_path / "cache"), **environ},
        )  # fmt: skip

    return run


# Before and after a call, as each agent tells it: (event, payload, what the context quotes).
CALLS = {
    "claude-code": [
        ("PreToolUse", {**CLAUDE, "tool_name": "Bash", "tool_input": BUILD}, "go build -o tide ."),
        ("PreToolUse", {**CLAUDE, "tool_name": "Bash", "tool_input": FORBIDDEN}, "use pnpm"),
        ("PreToolUse", {**CLAUDE, "tool_name": "Edit", "tool_input": EDIT}, "make codegen writes it"),
        ("PostToolUse", {**CLAUDE, "tool_name": "Bash", "tool_input": TEST,
                         "tool_response": {"stdout": FAILED, "stderr": "", "interrupted": False}}, "docker compose up"),
        ("PostToolUseFailure", {**CLAUDE, "tool_name": "Bash", "tool_input": BUILD, "error": f"Exit code 1\n{PACKAGES}",
                                "is_interrupt": False}, "go build -o tide ."),
    ],
    "codex": [
        ("PreToolUse", {**CODEX, "tool_name": "Bash", "tool_input": BUILD}, "go build -o tide ."),
        ("PostToolUse", {**CODEX, "tool_name": "Bash", "tool_input": TEST, "tool_response": FAILED},
         "docker compose up"),
    ],
    "gemini": [
        ("BeforeTool", {**GEMINI, "tool_name": "run_shell_command", "tool_input": BUILD}, "go build -o tide ."),
        ("AfterTool", {**GEMINI, "tool_name": "run_shell_command", "tool_input": TEST,
                       "tool_response": {"llmContent": FAILED, "returnDisplay": FAILED, "error": None}},
         "docker compose up"),
    ],
    "cursor": [
        ("preToolUse", {**CURSOR, "tool_name": "Shell", "tool_input": BUILD}, "go build -o tide ."),
        ("postToolUse", {**CURSOR, "tool_name": "Shell", "tool_input": TEST,
                         "tool_output": json.dumps({"exitCode": 1, "output": FAILED})}, "docker compose up"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "event", "payload", "quoted"),
    [pytest.param(agent, *call, id=f"{agent}-{call[0]}-{i}") for agent, c in CALLS.items() for i, call in enumerate(c)],
)
def test_a_call_is_answered_in_the_agents_shape(
    hook: Hook, store: Path, agent: str, event: str, payload: dict[str, Any], quoted: str
) -> None:
    done = hook(event, {**payload, "hook_event_name": event})
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    if agent == "cursor":
        context = answer.pop("additional_context")
        assert answer == {}
    else:
        context = answer["hookSpecificOutput"].pop("additionalContext")
        assert answer == {"hookSpecificOutput": {"hookEventName": event}}
    assert context.startswith("<memory>\n")
    assert context.endswith("\n</memory>")
    assert quoted in context
    assert "(aaaa000" in context  # who reads on finds the session
    assert f" {agent} " in read_log(store / "logs").splitlines()[-1]


def test_an_item_is_given_once_at_the_calls_of_a_session(hook: Hook, tmp_path: Path) -> None:
    """Also where the briefing had it: at the call it helps most."""
    start = {**CLAUDE, "hook_event_name": "SessionStart", "source": "startup"}
    assert "make codegen" in hook("SessionStart", start).stdout
    payload = {**CLAUDE, "tool_name": "Edit", "tool_input": EDIT}
    assert "make codegen" in hook("PreToolUse", payload).stdout
    assert_silent(hook("PreToolUse", payload))
    assert "make codegen" in hook("PreToolUse", {**payload, "session_id": "another"}).stdout
    for record in (tmp_path / "cache" / "sessions").iterdir():
        record.write_text('{"seen": [], "told": 7, "tokens": 0}')  # damaged: as if nothing was given
    assert "make codegen" in hook("PreToolUse", payload).stdout
    assert_silent(hook("PreToolUse", payload))


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "go build -o tide ."}}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": BUILD, "cwd": "/srv/elsewhere"}),
        ("PreToolUse", {"tool_name": "Read", "tool_input": EDIT}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": None}),
        ("PreToolUse", {"tool_name": 7, "tool_input": ["x"]}),
        ("PreToolUse", {}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": TEST, "tool_response": {"stdout": "4 passed in 1s"}}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "grep -r refused logs"},
                         "tool_response": {"stdout": FAILED}}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": TEST, "tool_response": {"stdout": "E  KeyError: 'new'"}}),
        # Another command worked instead, but of one that is not this one.
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "make tide"},
                         "tool_response": {"stdout": PACKAGES}}),
        ("PostToolUse", {"tool_name": "Read", "tool_input": EDIT, "tool_response": {"content": FAILED}}),
        ("PostToolUse", {"tool_response": [[[FAILED]]]}),
    ],
)  # fmt: skip
def test_silence_is_the_default(hook: Hook, event: str, more: dict[str, Any]) -> None:
    assert_silent(hook(event, {**CLAUDE, **more}))


def test_no_call_is_answered_while_helix_is_off(hook: Hook, store: Path, tmp_path: Path) -> None:
    payload = {**CLAUDE, "cwd": str(tmp_path), "tool_name": "Bash", "tool_input": TEST, "tool_response": FAILED}
    assert "docker compose up" in hook("PostToolUse", payload).stdout  # in an unknown folder, of all projects
    (tmp_path / "AGENTS.md").write_text("helix: off\n")
    assert_silent(hook("PostToolUse", {**payload, "session_id": "new"}))


def test_the_answer_is_that_of_the_query_process(hook: Hook, store: Path) -> None:
    payload = {**CLAUDE, "tool_name": "Bash", "tool_input": TEST, "tool_response": FAILED}
    alone = hook("PostToolUse", payload).stdout
    assert " here: " in read_log(store / "logs").splitlines()[-1]
    with ServerProcess(store) as server:
        server.wait_for_address()
        assert hook("PostToolUse", {**payload, "session_id": "another"}).stdout == alone != ""
        assert " server: " in read_log(store / "logs").splitlines()[-1]


NODE = """
import helix from "./helix.mjs"
const hooks = await helix.server({ directory: "/srv/harbour" })
const said = { parts: [{ type: "text", text: "why does the queue test fail with a refused connection?" }] }
await hooks["chat.message"]({ sessionID: "s" }, said)
const call = { tool: "bash", sessionID: "s", callID: "1" }
await hooks["tool.execute.before"](call, { args: { command: "npm install left-pad" } })
const result = { output: "added 1 package", metadata: { exit: 0 } }
await hooks["tool.execute.after"]({ ...call, args: { command: "npm install left-pad" } }, result)
const plain = { output: "a.py", metadata: { exit: 0 } }
await hooks["tool.execute.before"]({ ...call, callID: "2" }, { args: { command: "ls" } })
await hooks["tool.execute.after"]({ ...call, callID: "2", args: { command: "ls" } }, plain)
const failed = { output: process.argv[2], metadata: { exit: 1 } }
const test = { command: "pytest -q tests/test_queue.py" }
await hooks["tool.execute.after"]({ tool: "bash", sessionID: "t", callID: "3", args: test }, failed)
const outputs = { result: result.output, plain: plain.output, failed: failed.output }
console.log(JSON.stringify({ said: said.parts[0].text, ...outputs }))
"""


def test_the_plugin_of_opencode_gives_its_hooks_answers(store: Path, tmp_path: Path) -> None:
    from playwright._impl._driver import compute_driver_executable

    node = Path(compute_driver_executable()[0])
    (tmp_path / "helix.mjs").write_text(write_plugin([HELIX], store))
    (tmp_path / "run.mjs").write_text(NODE)
    environ = {**clean_environ(), "HELIX_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [node, "run.mjs", FAILED], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    texts = json.loads(done.stdout)
    assert texts["said"].startswith("why does the queue test fail")
    assert "make codegen writes it" in texts["said"]  # the briefing
    assert texts["plain"] == "a.py"
    assert texts["result"].startswith("added 1 package\n\n<memory>")
    assert "use pnpm" in texts["result"]
    assert "docker compose up" in texts["failed"]
