"""The off switch in agents' hooks: nothing is added and nothing handed to ingest, and the log says why."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helix.switches.state import FILE, list_off, make_target, switch_off, switch_on
from tests.contract.test_hook import CLAUDE, CODEX, FOUND, GEMINI, SESSION, clean_environ, read_context
from tests.support.serving import HELIX

Hook = Callable[..., str]


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    """Run the real `helix hook` in its own process; return the context of its answer, empty for none."""

    def run(payload: dict[str, Any], root: Path) -> str:
        environ = {**clean_environ(), "HELIX_CACHE": str(tmp_path / "cache")}
        command = [HELIX, "hook", "auto", "--store", str(root)]
        done = subprocess.run(
            command, input=json.dumps(payload), capture_output=True, text=True, env=environ, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        return read_context(done, payload["hook_event_name"]) if done.stdout else ""

    return run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder that is no store yet."""
    return tmp_path / "store"


def read_notes(tmp_path: Path, root: Path) -> list[str]:
    folder = root / "logs" if (root / "logs").is_dir() else tmp_path / "cache"
    return [line.partition(" ms ")[2] for line in (folder / "hook.log").read_text().splitlines()]


def test_hooks_are_silent_while_off(hook: Hook, own_store: Path, tmp_path: Path) -> None:
    prompt = {**CLAUDE, "session_id": SESSION[::-1]}
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"session": "s", "text": "The merger is in May."}) + "\n")
    transcript = {**prompt, "hook_event_name": "Stop", "transcript_path": str(log)}
    start = {**prompt, "hook_event_name": "SessionStart"}
    for target in (make_target(project="ledgerline"), make_target(session=prompt["session_id"])):
        switch_off(own_store, target)
        for event in (prompt, start, transcript):
            assert hook(event, own_store) == ""
        reason = "off for project ledgerline" if target["project"] else "off for this session"
        assert read_notes(tmp_path, own_store)[-3:] == [reason] * 3
        switch_on(own_store, lambda _: True)
    assert not list((own_store / "inbox").glob("*merger*"))
    assert FOUND in hook(prompt, own_store)


@pytest.mark.parametrize("payload", [CLAUDE, CODEX, GEMINI], ids=["claude", "codex", "gemini"])
def test_a_prompt_switches_its_session(hook: Hook, store: Path, tmp_path: Path, payload: dict[str, Any]) -> None:
    other = {**payload, "session_id": "another"}
    for words in ("helix off", "/Helix OFF.", " helix  off! "):
        assert "Helix is off for this session" in hook({**payload, "prompt": words}, store)
    assert [off["session"] for off in list_off(store)] == [payload["session_id"]]
    assert hook(payload, store) == ""
    assert hook(other, store) == ""
    assert read_notes(tmp_path, store)[-2:] == ["off for this session", "no store"]
    assert hook({**payload, "prompt": "why is helix off?"}, store) == ""
    assert "Helix is on again for this session" in hook({**payload, "prompt": "/helix on"}, store)
    assert list_off(store) == []
    assert hook(payload, store) == ""
    assert read_notes(tmp_path, store)[-1] == "no store"


def test_a_session_of_a_project_that_is_off_stays_off(hook: Hook, store: Path) -> None:
    switch_off(store, make_target(project="ledgerline"))
    assert "Helix stays off for project ledgerline" in hook({**CLAUDE, "prompt": "helix on"}, store)
    nameless = {**CLAUDE, "session_id": "", "prompt": "helix off"}
    assert "the event names no session" in hook(nameless, store)


def test_the_projects_own_line_is_heeded(hook: Hook, store: Path, tmp_path: Path) -> None:
    project = tmp_path / "acme"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "AGENTS.md").write_text("- helix: off\n")
    assert hook({**CLAUDE, "cwd": str(project / "src")}, store) == ""
    assert hook({**CLAUDE, "cwd": str(tmp_path)}, store) == ""
    assert read_notes(tmp_path, store) == ["off for this project: AGENTS.md says 'helix: off'", "no store"]


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart", "Stop"])
def test_a_damaged_file_of_switches_switches_all_off(hook: Hook, own_store: Path, tmp_path: Path, event: str) -> None:
    (own_store / FILE).write_text('{"format": 1, "switches": 3}')
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"session": "s", "text": "The merger is in May."}) + "\n")
    payload = {**CLAUDE, "hook_event_name": event, "transcript_path": str(log)}
    assert hook(payload, own_store) == ""
    (note,) = read_notes(tmp_path, own_store)
    assert note.startswith("failed: StoreError: ")
    assert f"{FILE} is damaged" in note
    if event == "UserPromptSubmit":
        answer = hook({**payload, "prompt": "helix off"}, own_store)
        assert "Helix could not be switched off" in answer
        assert "restore it from a backup" in answer
