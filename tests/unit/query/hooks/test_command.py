"""The parts of `helix hook` that need no process: payloads, arguments and contexts."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helix
from helix.cli import main as cli
from helix.cli import registry
from helix.encoders.rerank import Rerankers
from helix.sdk.answer_question import answer_question
from helix.sdk.open import open_memory
from helix.settings import Settings, load
from helix.snapshot.reader.snapshot import Snapshot
from helix.sources import claude_code, codex, cursor, gemini
from helix.stages.trace import Trace
from helix.types import RecallOptions
from helix.util.workspaces import Workspace, name_workspace
from query.hooks import command, protocol
from query.hooks import context as hooks
from query.hooks.briefing import BRIEFING_BUDGET, SESSIONS, brief_project
from query.hooks.context import HookQuestion

SESSION = "5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"


@pytest.fixture(autouse=True)
def outside_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "HELIX_URL", "HELIX_STORE"):
        monkeypatch.delenv(name, raising=False)


def test_the_registry_equals_the_entry_points() -> None:
    lines = (line.partition("=") for line in registry._read_own_entries())
    listed = {name.strip(): value.strip() for name, _, value in lines}
    assert listed == {entry.name: entry.value for entry in entry_points(group=registry.GROUP)}
    assert listed["hook"] == "query.hooks.command:hook"
    assert registry.find_command("hook") is command.hook
    assert registry.find_command("no-such-command") is None


def test_a_command_of_another_distribution_is_found(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "other-1.0.dist-info").mkdir()
    (tmp_path / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_text("[helix.commands]\nwave = waving:wave\n")
    (tmp_path / "waving.py").write_text("def wave(argv):\n    print('hello', *argv)\n    return 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cli.main(["wave", "you"]) == 7
    assert capsys.readouterr().out == "hello you\n"


def test_the_registry_is_empty_without_an_installation(monkeypatch) -> None:
    monkeypatch.setattr("sys.path", ["/nowhere"])
    assert registry._read_own_entries() == []


@pytest.mark.parametrize(
    ("word", "event"),
    [
        ("SessionStart", "SessionStart"), ("session-start", "SessionStart"),
        ("USER_PROMPT_SUBMIT", "UserPromptSubmit"), ("beforeAgent", "BeforeAgent"), ("stop", "Stop"),
        ("PostToolUse", "PostToolUse"), ("postToolUse", "PostToolUse"),
        ("BeforeTool", "BeforeTool"), ("Notification", None), ("", None), ("None", None),
    ],
)  # fmt: skip
def test_events_are_found_by_any_spelling(word: str, event: str | None) -> None:
    assert protocol.find_event(word) == event


@pytest.mark.parametrize(
    ("payload", "agent"),
    [
        ({"hook_event_name": "Stop", "transcript_path": "/home/a/.claude/projects/x/1.jsonl"}, "claude-code"),
        ({"hook_event_name": "Stop", "turn_id": "1"}, "codex"),
        ({"hook_event_name": "SessionStart", "transcript_path": "/home/a/.codex/sessions/rollout-1.jsonl"}, "codex"),
        ({"hook_event_name": "AfterAgent"}, "gemini"),
        ({"hook_event_name": "SessionStart", "timestamp": "2026-01-01T00:00:00Z"}, "gemini"),
        ({"hook_event_name": "stop", "cursor_version": "2"}, "cursor"),
        ({}, "claude-code"),
    ],
)
def test_the_agent_is_detected(payload: dict[str, Any], agent: str) -> None:
    assert protocol.detect_agent(payload) == agent


def test_only_filler_prompts_need_no_memory() -> None:
    filler = (
        "yes", "Yes please, go ahead and do that.", "2", "👍", "/compact focus on the store", "/mcp__github__list",
    )  # fmt: skip
    others = (  # nine words may be anything
        "run the tests", "why?", "/home/ana/ledgerline/store.py fails", "no, use sqlite", "go go go go go go go go go",
    )  # fmt: skip
    assert [prompt for prompt in filler if protocol.may_need_memory(prompt) is not False] == []
    assert [prompt for prompt in others if protocol.may_need_memory(prompt) is not True] == []


def test_a_long_prompt_keeps_both_ends() -> None:
    request = protocol.build_request("UserPromptSubmit", {"prompt": "begin" + "x" * 100_000 + "end"})
    assert request
    assert len(request["prompt"]) <= protocol.MAX_PROMPT + 1
    assert request["prompt"].startswith("begin")
    assert request["prompt"].endswith("end")
    assert Settings().max_query_chars > protocol.MAX_PROMPT


def test_folders_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/p")
    payload = {"cwd": "/p/below", "workspace_roots": ["/w", 3], "session_id": 7, "source": "x"}
    request = protocol.build_request("SessionStart", payload)
    assert request == {
        **{"kind": "start", "prompt": "", "folders": ["/p", "/p/below", "/w"], "repositories": {}},
        **{"session": "", "source": "x"},
    }


def test_transcripts_include_subagents(tmp_path: Path) -> None:
    below = tmp_path / "s" / "subagents"
    below.mkdir(parents=True)
    for name in ("agent-b.jsonl", "agent-a.jsonl", "agent-a.meta.json"):
        (below / name).write_text("")
    log, a, b = (str(tmp_path / name) for name in ("s.jsonl", "s/subagents/agent-a.jsonl", "s/subagents/agent-b.jsonl"))
    assert protocol.list_transcripts({"transcript_path": log, "agent_transcript_path": b}) == [log, b, a]
    assert protocol.list_transcripts({"transcript_path": None}) == []


def test_the_store_comes_from_options_or_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.read_arguments(["Stop"]) == ("Stop", os.path.expanduser("~/.helix/memory"))  # noqa: PTH111
    (tmp_path / "helix-store").mkdir()
    assert command.read_arguments(["Stop"]) == ("Stop", str(tmp_path / "helix-store"))
    monkeypatch.setenv("HELIX_STORE", "~/memory")
    assert command.read_arguments([]) == ("auto", os.path.expanduser("~/memory"))  # noqa: PTH111
    assert command.read_arguments(["--store", "/a", "Stop", "--json"]) == ("Stop", "/a")
    assert command.read_arguments(["--store=/b", "Stop"]) == ("Stop", "/b")
    assert command.read_arguments(["Stop", "--store"]) == ("Stop", os.path.expanduser("~/memory"))  # noqa: PTH111


def test_the_cache_folder_equals_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELIX_CACHE", raising=False)
    assert protocol.get_cache_folder() == Settings().cache


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://127.0.0.1:8765", ("127.0.0.1", 8765, "", "hx_1")),
        ("http://[::1]:8765/helix/", ("::1", 8765, "/helix", "hx_1")),
        ("http://memory.lan", ("memory.lan", 80, "", "hx_1")),
        ("http://[::1]", ("::1", 80, "", "hx_1")),
    ],
)
def test_a_url_names_the_server(monkeypatch: pytest.MonkeyPatch, url: str, server: tuple[str, int, str, str]) -> None:
    monkeypatch.setenv("HELIX_URL", url)
    monkeypatch.setenv("HELIX_KEY", "hx_1")
    assert command.find_server("/nowhere") == server


def test_wrong_types_count_as_absent() -> None:
    assert HookQuestion.from_json({"kind": 1, "folders": "x", "prompt": None}) == HookQuestion("", "", (), "", "")
    assert HookQuestion.from_json({"folders": ["a", 2]}).workspaces == (Workspace("a"),)
    for wrong in ([], {"a": "b"}, {"a": ["b"]}, {"a": ["b", 2]}):
        assert HookQuestion.from_json({"folders": ["a"], "repositories": wrong}).workspaces == (Workspace("a"),)
    known = {"folders": ["a/b"], "repositories": {"a/b": ["a", "example.org/x/a"]}}
    assert HookQuestion.from_json(known).workspaces == (Workspace("a/b", "a", "example.org/x/a"),)


@pytest.mark.parametrize("folder", ["/home/ana/ledgerline", "/home/ana/ledgerline/", "C:\\Users\\ana\\ledgerline", "x"])
def test_a_project_has_the_name_of_ingest(folder: str) -> None:
    assert protocol.name_project(folder) == name_workspace(Workspace(folder))


def test_sources_are_the_agents_formats_and_characters_are_counted_in_utf16() -> None:
    assert tuple(one.NAME for one in (claude_code, codex, gemini, cursor)) == hooks.SOURCES
    assert [hooks._count_utf16(text) for text in ("abc", "Grüße", "🏺", "\ud800")] == [3, 5, 2, 1]


@pytest.fixture(scope="module")
def snap(sample_store: Path) -> Snapshot:
    return helix.open(sample_store).snapshot


def test_a_view_can_drop_a_session(snap: Snapshot) -> None:
    rest = hooks._drop_known(snap, SESSION, ())
    codes = np.unique(snap.columns.session[snap.alive & ~rest.alive])
    assert {entry["session"] for entry in snap.text(np.flatnonzero(snap.alive & ~rest.alive))} == {SESSION}
    assert len(codes) == 1
    assert rest.live == int(rest.alive.sum()) < snap.live
    term = next(key for key in snap.files.segments[0]["terms.key"] if snap.lexical.df(key) > 5)
    counted = snap.lexical.df(term)
    assert rest.lexical.df(term) == sum(rest.alive[rows].sum() for _, rows, _ in rest.lexical.term(term))
    assert snap.lexical.df(term) == counted  # unchanged in the whole generation
    assert hooks._drop_known(snap, "no-such-session", ()) is snap
    assert hooks._drop_known(snap, "", ()) is snap


def test_a_view_measures_the_whole_whether_or_not_it_was_warm(sample_store: Path) -> None:
    """A hook opens the store cold, the query process has it warm: their answers must be the same."""
    answers = []
    for warm in (False, True):
        memory = open_memory(sample_store, load(), warm=warm)
        codes = np.unique(memory.snapshot.columns.session[:40])[:2].tolist()
        options = RecallOptions(now="2026-06-01T00:00:00Z", explain=True)
        view = memory.snapshot.exclude(codes)
        found = answer_question("why sqlite", view, options, memory.settings, Trace(), Rerankers(memory.settings))
        answers.append([(item.id, item.score, item.relevance, item.why["graph"]) for item in found.items])
    assert answers[0] == answers[1]


def test_a_project_of_a_dropped_session_is_unknown(snap: Snapshot) -> None:
    home = snap.columns.project == snap.projects.index("home")
    codes = np.unique(snap.columns.session[home]).tolist()
    assert "home" in snap.catalog.live_projects
    assert "home" not in snap.exclude(codes).catalog.live_projects


def test_a_briefing_lists_decisions_and_the_newest_sessions(snap: Snapshot) -> None:
    found = brief_project(snap, "ledgerline", BRIEFING_BUDGET)
    lines = found.text.splitlines()
    assert sum(snap.counter([found.text])) <= BRIEFING_BUDGET
    begin = lines.index("Last sessions:")
    days = [line[2:12] for line in lines[begin + 1 : -1]]
    assert len(days) == 2 < SESSIONS  # of three: a branch of a session is that session
    assert days == sorted(days, reverse=True)
    assert all(snap.find(item) is not None for item in found.items)
    assert len(set(found.items)) == len(found.items) > 0
    for budget in (0, 60, 200):
        text = brief_project(snap, "ledgerline", budget).text
        assert not text or sum(snap.counter([text])) <= budget
