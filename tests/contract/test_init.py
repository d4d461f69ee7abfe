"""`helix init` and `helix doctor` in a home of their own: what is found, what is asked, what is done, what is wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import helix
from helix.native.library import describe_kernels
from query.cli import discover
from tests.conftest import SAMPLE

Call = Callable[..., subprocess.CompletedProcess[str]]

SECRET = "ghp" + "_" + "a1B2" * 9


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a session of Claude Code and one of Codex, of which the second is newer and holds a secret."""
    folder = tmp_path / "home"
    claude, codex = folder / ".claude" / "projects" / "ledgerline", folder / ".codex" / "sessions"
    for each in (claude, codex):
        each.mkdir(parents=True)
    shutil.copyfile(SAMPLE / "claude-code-session.jsonl", claude / "5f0c2b7e.jsonl")
    (claude / "notes.txt").write_text("not a session")
    os.utime(claude / "5f0c2b7e.jsonl", (1_700_000_000,) * 2)
    lines = [
        {"type": "session_meta", "payload": {"id": "c1", "cwd": "/src/harbour", "timestamp": "2026-05-01T10:00:00Z"}},
        {
            "timestamp": "2026-05-01T10:00:01Z",
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": f"the token of the harbour crane is {SECRET}"}],
            },
        },
    ]
    (codex / "rollout-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "HELIX_STORE"):
        monkeypatch.delenv(name, raising=False)
    return folder


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_found_logs_are_shown_and_nothing_happens_without_a_yes(home: Path, call_helix: Call) -> None:
    before = list_files(home)
    done = call_helix("init", "--dry-run")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["claude-code", "1"], ["codex", "1"]]
    assert "1 secret in the newest 2 files" in done.stdout
    assert f"the store is {home / '.helix' / 'memory'}" in done.stdout
    assert "connecting claude-code changes\n  ~/.claude/settings.json  " in done.stdout
    assert re.search(r"  ~/\.codex/config\.toml  \d+ lines added\n", done.stdout)
    found = json.loads(call_helix("init", "--json").stdout)
    assert found["connects"] == ["claude-code", "codex"]
    assert sum(found["secrets"].values()) == 1
    assert [entry["files"] for entry in found["found"]] == [1, 1]
    unasked = call_helix("init")
    assert (unasked.returncode, "add --yes" in unasked.stderr) == (2, True)
    assert list_files(home) == before


def test_three_commands_lead_to_an_agent_that_remembers(home: Path, call_helix: Call) -> None:
    """The first installs Helix, the second is this one, the third starts the agent, whose hook answers."""
    done = call_helix("init", "--yes")
    assert done.returncode == 0, done.stderr
    store = home / ".helix" / "memory"
    texts = [item.text for item in helix.open(store).recall("the token of the harbour crane").items]
    assert any("harbour crane" in text and SECRET not in text for text in texts)
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    assert str(store) in json.dumps(settings["hooks"]["UserPromptSubmit"])
    assert (home / ".codex" / "hooks.json").is_file()
    assert "UserPromptSubmit" not in done.stdout  # a summary, not the whole settings
    assert len(done.stdout.splitlines()) < 20
    healthy = call_helix("doctor", "--store", store)
    assert healthy.returncode == 0
    states = {line.split()[1]: line.split()[0] for line in healthy.stdout.splitlines()}
    noted = {"kernels"} if describe_kernels() == "reference" else set()  # slower, and said so
    assert {check for check, state in states.items() if state != "ok"} == noted
    again = call_helix("init", "--yes")
    assert "2 duplicates" in again.stdout
    assert "claude-code is connected already" in again.stdout


def test_an_agent_whose_settings_cannot_be_edited_does_not_hinder_the_rest(home: Path, call_helix: Call) -> None:
    (home / ".claude" / "settings.json").write_text("{ this is no JSON")
    done = call_helix("init", "--yes")
    assert done.returncode == 0, done.stderr
    assert "claude-code is not connected: " in done.stderr
    assert (home / ".claude" / "settings.json").read_text() == "{ this is no JSON"
    assert (home / ".codex" / "hooks.json").is_file()
    assert (home / ".helix" / "memory" / "CURRENT").exists()


def test_lines_of_a_change_are_counted(home: Path, call_helix: Call) -> None:
    """A settings file on one line is written out: its one line goes, its lines and Helix's come."""
    (home / ".claude" / "settings.json").write_text('{"model": "opus"}')
    done = call_helix("init", "--dry-run")
    shown = re.search(r"settings\.json  (\d+) lines added, 1 removed", done.stdout)
    call_helix("install", "claude-code", "--store", home / ".helix" / "memory", "--yes")
    written = (home / ".claude" / "settings.json").read_text().splitlines()
    assert shown
    assert int(shown[1]) == len(written)


def test_the_settings_of_agents_may_be_left_alone(home: Path, call_helix: Call) -> None:
    assert call_helix("init", "--yes", "--no-hooks", "--store", home / "s").returncode == 0
    assert not (home / ".claude" / "settings.json").exists()
    assert (home / "s" / "CURRENT").exists()


def test_a_home_without_agents_names_the_other_way(home: Path, call_helix: Call) -> None:
    for name in (".claude", ".codex"):
        shutil.rmtree(home / name)
    done = call_helix("init", "--yes")
    assert (done.returncode, "helix ingest PATH" in done.stdout) == (0, True)


def test_the_doctor_names_what_is_wrong_and_the_remedy(home: Path, call_helix: Call, monkeypatch) -> None:
    monkeypatch.setenv("HELIX_REDIS_URL", "redis://127.0.0.1:1/0")
    done = call_helix("doctor", "--store", home / "no-store")
    assert done.returncode == 4
    assert "make one with 'helix init' or 'helix ingest PATH --store DIR'" in done.stdout
    assert f"helix install codex --store {home / 'no-store'}" in done.stdout
    assert "127.0.0.1:1 does not answer" in done.stdout
    found = json.loads(call_helix("doctor", "--json", "--store", home / "no-store").stdout)
    states = {entry["check"]: entry["state"] for entry in found}
    assert (states["store"], states["queue"], states["codex"]) == ("wrong", "wrong", "note")
    assert all(entry["remedy"] for entry in found if entry["state"] != "ok")


def test_the_doctor_tells_what_waits_and_was_given_up(home: Path, call_helix: Call, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"text": "the keel needs paint"}\n')
    store = tmp_path / "s"
    monkey = {"HELIX_REDIS_URL": ""}
    assert call_helix("ingest", log, "--store", store, **monkey).returncode == 0
    log.write_text('{"text": "the mast needs paint"}\n')
    assert call_helix("enqueue", log, "--store", store, **monkey).returncode == 0
    done = call_helix("doctor", "--store", store)
    assert "1 document of 0.0 MB wait; 'helix ingest --pending' publishes them" in done.stdout


def test_the_estimate_grows_with_the_logs_and_shrinks_with_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = []
    for cores in (1, 2, 64):
        monkeypatch.setattr(discover.os, "cpu_count", lambda cores=cores: cores)
        seconds.append(discover.estimate_seconds(75_000_000))
    assert seconds == [1_000, 500, 250]
