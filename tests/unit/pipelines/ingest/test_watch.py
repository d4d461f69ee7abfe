"""Watching folders: every kind of change is accepted. Without a broker and an encoder."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from helix.settings import Settings
from helix.sources.common.places import Place, find_places, list_places
from pipelines.ingest import watch as watching
from pipelines.ingest.source import Accepted, Inbox
from pipelines.ingest.watch import Watch, watch
from tests.support.replay import Replay

SOON = 60.0  # seconds: only a watch that does not see a change takes as long


def make_line(text: str) -> str:
    return json.dumps({"text": text}) + "\n"


class Watched:
    """A watch in a thread, and the store it fills."""

    def __init__(self, folder: Path, store: Path, places: Callable[[], Sequence[Place]], polling: bool) -> None:
        self.folder = folder
        self.replay = Replay(store)
        self.documents: list[str] = []
        self.error: list[BaseException] = []
        self._stop = threading.Event()
        self._places, self._polling = places, polling
        self.start()

    def start(self) -> None:
        self._stop.clear()
        given = Watch(Inbox(self.replay.root, Settings()), self._places, self._deliver, polling=self._polling)

        def run() -> None:
            try:
                watch(given, self._stop)
            except BaseException as error:
                self.error.append(error)
                raise

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def _deliver(self, documents: Sequence[str]) -> None:
        for document in documents:
            self.replay.apply(document)
        self.documents += documents

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(SOON)
        assert not self._thread.is_alive()
        assert not self.error

    def shows(self, *texts: str) -> bool:
        """Return whether the store soon holds exactly these."""
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            if sorted(self.replay.texts()) == sorted(texts):
                return True
            time.sleep(0.02)
        return False


@pytest.fixture(params=[False, True], ids=["reported", "polling"])
def watcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "before.jsonl").write_text(make_line("cumin"))
    made = Watched(folder, tmp_path / "store", lambda: [Place("given", folder)], request.param)
    assert made.shows("cumin")  # present before the watch
    yield made
    made.stop()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_a_written_turn_is_accepted(watcher: Watched) -> None:
    log = watcher.folder / "a.jsonl"
    write(log, make_line("walnuts"))
    assert watcher.shows("cumin", "walnuts")
    write(log, make_line("thyme"))
    assert watcher.shows("cumin", "walnuts", "thyme")
    assert watcher.replay.made == [1, 1, 1]
    write(watcher.folder / "new" / "deep" / "b.jsonl", make_line("salt"))
    assert watcher.shows("cumin", "walnuts", "thyme", "salt")
    write(watcher.folder / ".git" / "c.jsonl", make_line("hidden"))
    write(watcher.folder / "d.bin", "\0\0")
    write(log, make_line("parsley"))
    assert watcher.shows("cumin", "walnuts", "thyme", "salt", "parsley")
    line = make_line("oil")  # half a line waits
    write(log, make_line("yeast") + line[:10])
    assert watcher.shows("cumin", "walnuts", "thyme", "salt", "parsley", "yeast")
    write(log, line[10:])
    assert watcher.shows("cumin", "walnuts", "thyme", "salt", "parsley", "yeast", "oil")


def test_rotated_truncated_renamed_and_removed_logs_are_followed(watcher: Watched) -> None:
    log = watcher.folder / "a.jsonl"
    write(log, make_line("walnuts"))
    assert watcher.shows("cumin", "walnuts")
    log.rename(watcher.folder / "a.1.jsonl")
    write(log, make_line("thyme"))
    assert watcher.shows("cumin", "walnuts", "thyme")
    log.write_text(make_line("oil"))  # copied away and started again
    assert watcher.shows("cumin", "walnuts", "thyme", "oil")
    log.rename(watcher.folder / "b.jsonl")
    write(watcher.folder / "b.jsonl", make_line("salt"))
    assert watcher.shows("cumin", "walnuts", "thyme", "oil", "salt")
    (watcher.folder / "b.jsonl").unlink()
    write(watcher.folder / "c.jsonl", make_line("yeast"))
    assert watcher.shows("cumin", "walnuts", "thyme", "oil", "salt", "yeast")


def test_a_restart_continues_at_the_cursor(watcher: Watched) -> None:
    log = watcher.folder / "a.jsonl"
    write(log, make_line("walnuts"))
    assert watcher.shows("cumin", "walnuts")
    watcher.stop()
    write(log, make_line("thyme"))
    write(watcher.folder / "b.jsonl", make_line("salt"))
    watcher.start()
    assert watcher.shows("cumin", "walnuts", "thyme", "salt")
    assert watcher.replay.made == [1, 1, 1, 1]  # nothing twice


def test_the_folder_itself_may_go_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "QUIET", 0.3)  # seconds between looks for folders that are new
    folder = tmp_path / "agent" / "logs"
    place = Place("given", folder)
    made = Watched(folder, tmp_path / "store", lambda: [place] if folder.is_dir() else [], False)
    try:
        assert made.shows()
        write(folder / "a.jsonl", make_line("walnuts"))  # an agent is installed while it runs
        assert made.shows("walnuts")
        (folder / "a.jsonl").unlink()
        folder.rmdir()
        time.sleep(0.5)
        write(folder / "b.jsonl", make_line("thyme"))
        assert made.shows("walnuts", "thyme")
    finally:
        made.stop()


def test_a_single_file_is_watched(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(make_line("walnuts"))
    made = Watched(tmp_path, tmp_path / "store", lambda: [Place("given", log)], False)
    try:
        assert made.shows("walnuts")
        (tmp_path / "other.jsonl").write_text(make_line("not asked for"))
        write(log, make_line("thyme"))
        assert made.shows("walnuts", "thyme")
    finally:
        made.stop()


def test_folders_are_polled_without_change_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(*folders: Path, **how: object) -> object:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(watching.watchfiles, "watch", refuses)
    made = Watched(tmp_path, tmp_path / "store", lambda: [Place("given", tmp_path, ("*.jsonl",))], False)
    try:
        write(tmp_path / "a.jsonl", make_line("walnuts"))
        assert made.shows("walnuts")
        assert "limit reached" in caplog.text
    finally:
        made.stop()


def test_a_change_of_a_databases_journal_counts(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t(x)")
    connection.commit()
    before = watching._read_stat(path)
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    assert (tmp_path / "opencode.db-wal").exists()
    assert watching._read_stat(path) != before
    given = Watch(Inbox(tmp_path / "store", Settings()), list, lambda _: None)
    given.note([Place("opencode", tmp_path, ("*.db",))], [tmp_path / "opencode.db-wal"], 0.0)
    assert list(given.due) == [path]
    connection.close()


def test_a_file_that_is_slow_to_read_is_read_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.md"
    log.write_text("# A note\n\nof some length")
    given = Watch(Inbox(tmp_path / "store", Settings()), list, lambda _: None)

    def slow(*_: object) -> object:
        time.sleep(0.2)
        return Accepted(())

    monkeypatch.setattr(watching, "accept_source", slow)
    place = Place("given", tmp_path)
    given.note([place], [log], time.monotonic() - 1)
    assert given.work()
    given.note([place], [log], time.monotonic())
    assert given.due[log] - time.monotonic() > 1.0


def test_a_file_is_retried_after_an_error_of_the_store(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(make_line("walnuts"))
    given = Watch(Inbox(tmp_path / "no" / "store", Settings()), list, lambda _: None)
    given.note([Place("given", tmp_path)], [log], 0.0)
    given.due[log] = 0.0
    assert given.work()
    assert given.due[log] > time.monotonic()


def test_the_places_of_agents_are_watched(tmp_path: Path) -> None:
    home = tmp_path
    assert find_places(home, {}) == []
    sessions = {
        "claude-code": home / ".claude/projects/-home-ana-loom/0b.jsonl",
        "codex": home / ".codex/sessions/2026/05/04/rollout-2026-05-04T10-00-00-0b.jsonl",
        "gemini": home / ".gemini/tmp/abc/chats/session-1.jsonl",
        "opencode": home / ".local/share/opencode/opencode.db",
        "copilot": home / ".config/Code/User/workspaceStorage/f0/chatSessions/0b.jsonl",
        "copilot-cli": home / ".copilot/session-state/0b/events.jsonl",
        "cursor": home / ".cursor/projects/loom/agent-transcripts/0b/0b.jsonl",
        "kimi": home / ".kimi-code/sessions/wd_loom/session_0b/agents/main/wire.jsonl",
        "droid": home / ".factory/sessions/-home-ana-loom/0b.jsonl",
        "qwen": home / ".qwen/projects/-home-ana-loom/chats/0b.jsonl",
        "pi": home / ".pi/agent/sessions/--home-ana-loom--/0b.jsonl",
        "grok": home / ".grok/sessions/loom/0b/chat_history.jsonl",
        "hermes": home / ".hermes/sessions/session_0b.json",
        "amp": home / ".local/share/amp/threads/T-0b.json",
        "cline": home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1/api_conversation_history.json",
        "zed": home / ".local/share/zed/threads/threads.db",
        "kiro": home / ".kiro/sessions/cli/0b.jsonl",
        "antigravity": home / ".gemini/antigravity-cli/brain/0b/.system_generated/logs/transcript_full.jsonl",
    }
    others = [
        home / ".claude/settings.json",
        home / ".claude/projects/-home-ana-loom/notes.txt",
        home / ".codex/history.jsonl",
        home / ".gemini/tmp/abc/logs.json",
        home / ".grok/sessions/loom/0b/summary.json",
        home / ".config/Code/User/workspaceStorage/f0/workspace.json",
    ]
    for path in (*sessions.values(), *others):
        write(path, "x")
    places = find_places(home, {})
    for agent, path in sessions.items():
        assert [place.agent for place in places if place.holds(path)] == [agent]
    assert not any(place.holds(path) for place in places for path in others)
    moved = {place.agent: place.folder for place in list_places(home, {"CODEX_HOME": "/srv/codex"})}
    assert moved["codex"].is_relative_to("/srv/codex")
    assert os.path.commonpath([moved["gemini"], home]) == str(home)
