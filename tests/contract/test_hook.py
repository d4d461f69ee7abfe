"""What `helix hook` promises the agents that call it: an answer they take, soon, and never a failure."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix.settings import load
from helix.sources.common.strip import strip_memory
from query.hooks.context import LIMIT
from tests.support.paths import ROOT

HELIX = str(Path(sys.executable).with_name("helix"))
PROMPT = "why did we pick sqlite for the idempotency keys?"
FOUND = "We decided on SQLite WAL instead of Postgres"
SESSION = "5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"  # in the sample: Claude Code's, of the project ledgerline
CLAUDE = {
    "session_id": "11111111-2222-4333-8444-555555555555",
    "transcript_path": "/nowhere/11111111.jsonl",
    "cwd": "/home/ana/ledgerline",
    "permission_mode": "default",
    "hook_event_name": "UserPromptSubmit",
    "prompt": PROMPT,
}
CODEX = {**CLAUDE, "transcript_path": "/nowhere/.codex/sessions/rollout-1.jsonl", "turn_id": "1", "model": "m"}
GEMINI = {**CLAUDE, "hook_event_name": "BeforeAgent", "timestamp": "2026-06-01T10:00:00Z"}
CURSOR = {
    "conversation_id": "c",
    "generation_id": "g",
    "hook_event_name": "sessionStart",
    "cursor_version": "2.0",
    "workspace_roots": ["/home/ana/ledgerline"],
    "transcript_path": None,
}

Hook = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sample store, for its log."""
    root = tmp_path_factory.mktemp("hook") / "store"
    shutil.copytree(sample_store, root)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Helix's own folder of the user."""
    return tmp_path / "cache"


@pytest.fixture
def hook(home: Path) -> Hook:
    """Run the real `helix hook`, in a process of its own."""

    def run(event: str, given: Any, store: Path, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
        said = given if isinstance(given, bytes) else json.dumps(given).encode()
        done = subprocess.run(
            [HELIX, "hook", event, "--store", str(store), *more],
            input=said,
            capture_output=True,
            env={**_environ(), "HELIX_CACHE": str(home), **environ},
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def _environ() -> dict[str, str]:
    """Without what an agent says to its hooks: these tests may be run by one."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "GEMINI"))}


def context_of(done: subprocess.CompletedProcess[str], event: str = "UserPromptSubmit") -> str:
    """The context of an answer that has the promised shape and nothing else."""
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert set(answer) == {"hookSpecificOutput"}
    said = answer["hookSpecificOutput"]
    assert set(said) == {"hookEventName", "additionalContext"}
    assert said["hookEventName"] == event
    return whole(said["additionalContext"])


def whole(context: str) -> str:
    assert context.startswith("<memory>\n")
    assert context.endswith("\n</memory>")
    assert context.count("<memory>") == context.count("</memory>") == 1
    assert len(context) <= 8_000
    return context


def silent(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def log_of(folder: Path) -> str:
    path = folder / "hook.log"
    return path.read_text() if path.exists() else ""


# ------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("word", "given", "event"),
    [
        ("UserPromptSubmit", CLAUDE, "UserPromptSubmit"),
        ("user-prompt-submit", CLAUDE, "UserPromptSubmit"),
        ("auto", CLAUDE, "UserPromptSubmit"),
        ("UserPromptSubmit", CODEX, "UserPromptSubmit"),
        ("BeforeAgent", GEMINI, "BeforeAgent"),
        ("auto", GEMINI, "BeforeAgent"),
    ],
)
def test_a_prompt_is_answered_in_the_agents_shape(
    hook: Hook, store: Path, word: str, given: dict[str, Any], event: str
) -> None:
    context = context_of(hook(word, given, store), event)
    assert FOUND in context


@pytest.mark.parametrize(
    ("word", "given"),
    [
        ("SessionStart", {**CLAUDE, "hook_event_name": "SessionStart", "source": "startup"}),
        ("sessionstart", {**CODEX, "hook_event_name": "SessionStart", "source": "resume"}),
        ("auto", {**GEMINI, "hook_event_name": "SessionStart", "source": "clear"}),
    ],
)
def test_a_session_starts_with_the_newest_of_its_project(
    hook: Hook, store: Path, word: str, given: dict[str, Any]
) -> None:
    context = context_of(hook(word, given, store), "SessionStart")
    assert "Duplicate webhooks, Redis timeout and the SQLite store" in context  # the title of the last session
    assert "Decisions" in context
    silent(hook(word, {**given, "cwd": "/home/ana/nothing-known"}, store))


def test_cursor_has_a_shape_of_its_own(hook: Hook, store: Path) -> None:
    done = hook("sessionStart", CURSOR, store)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert set(answer) == {"additional_context"}
    assert "Ledgerline" in whole(answer["additional_context"])


@pytest.mark.parametrize(
    "prompt", ["", "   ", "yes", "Yes, go ahead!", "continue", "1", "ok thanks", "/compact", "/review the webhook code"]
)
def test_a_prompt_that_asks_for_nothing_gets_nothing(hook: Hook, store: Path, prompt: str) -> None:
    silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


@pytest.mark.parametrize("cwd", ["/home/ana/ledgerline", "/somewhere/else"])
def test_a_prompt_that_needs_no_memory_is_skipped(hook: Hook, store: Path, cwd: str) -> None:
    silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": "what is 17*23", "cwd": cwd}, store))
    assert "skipped" in log_of(store / "logs")


def test_a_path_is_no_command(hook: Hook, store: Path) -> None:
    prompt = "/src/ledgerline/store.py says database is locked"
    assert "BEGIN IMMEDIATE" in context_of(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


def test_what_hosts_add_to_a_prompt_is_not_asked_for(hook: Hook, store: Path) -> None:
    prompt = "<memory>\nwe baked bread\n</memory>\n<system-reminder>\nbread\n</system-reminder>"
    silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


def test_only_the_project_of_the_folder_where_it_is_known(hook: Hook, store: Path) -> None:
    given = {**CLAUDE, "prompt": "what did I tell Priya about vacation?"}
    sessions = re.compile(r"\((c\d)\b")
    anywhere = context_of(hook("UserPromptSubmit", {**given, "cwd": "/home/ana/unknown"}, store))
    assert "We can do March" in anywhere or "we can do March" in anywhere
    here = context_of(hook("UserPromptSubmit", {**given, "cwd": "C:\\Users\\ana\\ledgerline\\"}, store))
    assert set(sessions.findall(here)) <= {"c2"}  # of the chats, the one of this project
    below = {**given, "cwd": "/home/ana/ledgerline/src"}  # the agent went into a folder
    moved = context_of(hook("UserPromptSubmit", below, store, CLAUDE_PROJECT_DIR="/home/ana/ledgerline"))
    assert set(sessions.findall(moved)) <= {"c2"}


def test_what_its_own_session_said_is_left_out(hook: Hook, store: Path) -> None:
    others = context_of(hook("UserPromptSubmit", {**CLAUDE, "session_id": SESSION}, store))
    assert f"({SESSION[:8]})" not in others
    assert f"({SESSION[:8]}#" not in others
    assert "Ledgerline notes" in others  # the budget is given to others
    start = {**CLAUDE, "session_id": SESSION, "hook_event_name": "SessionStart"}
    resumed = context_of(hook("SessionStart", {**start, "source": "resume"}, store), "SessionStart")
    compacted = context_of(hook("SessionStart", {**start, "source": "compact"}, store), "SessionStart")
    assert f"({SESSION[:8]})" not in resumed
    assert f"({SESSION[:8]})" in compacted  # the agent has lost it


LONG = """
administration agricultural approximately architecture biographical championship characteristics circumstances
classification collaboration communication comprehensive concentration configuration congressional conservation
considerable constitution construction contemporary contribution controversial conventional corporation democratic
demonstrated determination development differences disappointed discrimination discussions distinguished distribution
documentation economically effectiveness electronic embarrassed encyclopedia engineering entertainment entrepreneur
environmental establishment examination expectations experimental explanation exploration extraordinary fundamental
geographical grandfather headquarters hospitality identification implementation independence individuals industrial
infrastructure institutional instrumental intellectual intelligence international interpretation introduction
investigation jurisdiction laboratories magnificent mathematics mediterranean metropolitan municipality neighborhood
nevertheless newspapers occasionally organizations parliamentary participation performances personality perspective
philosophical photographs politicians possibilities predecessor presentation preservation professional programming
pronunciation psychological qualification recommended reconstruction registration relationships representative
responsibilities restaurants revolutionary scholarship significance simultaneously sophisticated specifically
"""
LONG_WORDS = LONG.split()


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Forty turns of long words, which are one token each; in every tenth one a word of three thousand letters."""
    from pipelines.embedded.ingest import ingest

    folder, draw = tmp_path_factory.mktemp("long"), random.Random(7)
    with (folder / "log.jsonl").open("w") as file:
        for i in range(40):
            words = " ".join(draw.sample(LONG_WORDS, 60))
            blob = "A" * 3_000 if i % 10 == 0 else ""
            text = f"The kiln fires stoneware glaze at cone {i}. {words} {'🏺' * 20} {blob}"
            file.write(json.dumps({"session": f"s{i}", "id": "1", "text": text, "project": "pottery"}) + "\n")
    ingest(folder / "store", [folder / "log.jsonl"], load())
    return folder / "store"


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_a_context_has_at_most_8000_characters(hook: Hook, long_store: Path, event: str) -> None:
    assert LIMIT == 8_000
    given = {**CLAUDE, "cwd": "/home/ana/pottery", "prompt": "at which cone does the kiln fire the stoneware glaze?"}
    context = context_of(hook(event, given, long_store), event)
    assert len(context.encode("utf-16-le")) / 2 <= 8_000  # as the agents count
    assert len(context) > 4_000


def test_a_context_in_a_transcript_is_not_taken_in_again(hook: Hook, store: Path) -> None:
    context = context_of(hook("UserPromptSubmit", CLAUDE, store))
    for recorded in (context, f"UserPromptSubmit hook additional context: {context}"):
        assert strip_memory(f"{recorded}\nand my question").strip() == "and my question"


# ------------------------------------------------------------ the query process


class Server:
    """`helix serve` on a free port, of its own choice."""

    def __init__(self, root: Path) -> None:
        command = [HELIX, "serve", "--store", str(root), "--port", "0"]
        self.file = root / "serve.json"
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        until(lambda: self.file.exists() and bool(self.file.read_text()))
        self.said = json.loads(self.file.read_text())
        self.url = f"http://127.0.0.1:{self.said['port']}"

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.communicate(timeout=20)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def served(own_store: Path) -> Iterator[Server]:
    server = Server(own_store)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def test_the_query_process_says_in_its_store_where_it_listens(served: Server, own_store: Path) -> None:
    assert served.said["pid"] == served.process.pid
    assert stat.S_IMODE(served.file.stat().st_mode) == 0o600
    assert httpx.get(f"{served.url}/readyz").status_code == 200
    assert "/v1/hook" in httpx.get(f"{served.url}/openapi.json").json()["paths"]
    served.stop()
    assert not served.file.exists()


def test_with_it_and_without_it_the_answer_is_the_same(hook: Hook, served: Server, own_store: Path) -> None:
    questions = [
        ("UserPromptSubmit", CLAUDE),
        ("UserPromptSubmit", {**CLAUDE, "session_id": SESSION}),
        ("UserPromptSubmit", {**CLAUDE, "cwd": "/x", "prompt": "what did I tell Priya about vacation?"}),
        ("SessionStart", {**CLAUDE, "hook_event_name": "SessionStart", "source": "startup"}),
    ]
    by_server = [hook(event, given, own_store) for event, given in questions]
    assert log_of(own_store / "logs").count("server: ") == len(questions)
    served.stop()
    here = [hook(event, given, own_store) for event, given in questions]
    assert log_of(own_store / "logs").count("here: ") == len(questions)
    assert [one.stdout for one in by_server] == [one.stdout for one in here]
    assert all(one.stdout for one in here)


def test_a_named_query_process_is_asked(hook: Hook, served: Server, tmp_path: Path, home: Path) -> None:
    done = hook("UserPromptSubmit", CLAUDE, tmp_path / "no-store-here", HELIX_URL=served.url)
    assert FOUND in context_of(done)
    assert "server: " in log_of(home)


def test_a_killed_query_process_is_not_asked(hook: Hook, served: Server, own_store: Path) -> None:
    served.stop(signal.SIGKILL)
    assert served.file.exists()
    with socket.create_server(("127.0.0.1", served.said["port"])) as stranger:  # its port is another program's now
        stranger.settimeout(0.1)
        assert FOUND in context_of(hook("UserPromptSubmit", CLAUDE, own_store))
        with pytest.raises(TimeoutError):
            stranger.accept()
    assert "here: " in log_of(own_store / "logs")


def test_a_second_query_process_takes_over(served: Server, own_store: Path) -> None:
    second = subprocess.Popen([HELIX, "serve", "--store", str(own_store), "--port", "0"], stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        assert json.loads(served.file.read_text())["pid"] == served.process.pid
        served.stop()
        until(lambda: served.file.exists() and json.loads(served.file.read_text() or "{}").get("pid") == second.pid)
    finally:
        second.terminate()
        second.wait(20)


class Fake:
    """Something that listens and answers as it is told: nothing at all, or these bytes."""

    def __init__(self, answer: bytes | None, *, close: bool = True) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.asked: list[bytes] = []
        self._kept: list[socket.socket] = []
        self._answer, self._close = answer, close
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._kept.append(connection)
            if self._answer is not None:
                self.asked.append(connection.recv(65_536))
                connection.sendall(self._answer)
            if self._close:
                connection.close()

    def stop(self) -> None:
        self._listening.close()
        for connection in self._kept:
            connection.close()


@pytest.mark.parametrize(
    ("answer", "close"),
    [
        (None, False),  # accepts, and never says a word
        (None, True),
        (b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", False),  # begins, and never ends
        (b"HTTP/1.1 200 OK\r\n\r\n[]", True),
        (b"HTTP/1.1 200 OK\r\n\r\nnonsense", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}", True),
        (b"SSH-2.0-OpenSSH_9.6\r\n", True),
    ],
    ids=["hangs", "closes", "empty", "half", "list", "nonsense", "503", "ssh"],
)
def test_a_query_process_that_is_none_costs_no_more_than_its_time(
    hook: Hook, store: Path, answer: bytes | None, close: bool
) -> None:
    fake = Fake(answer, close=close)
    began = time.monotonic()
    try:
        done = hook("UserPromptSubmit", CLAUDE, store, HELIX_URL=f"http://127.0.0.1:{fake.port}")
    finally:
        fake.stop()
    assert FOUND in context_of(done)  # the store is here, too
    assert time.monotonic() - began < 20
    last = log_of(store / "logs").splitlines()[-1]
    assert "; here: " in last
    assert "server: " in last


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://x", "nonsense", "http://", "http://127.0.0.1:port"])
def test_a_wrong_url_is_no_failure(hook: Hook, store: Path, url: str) -> None:
    assert FOUND in context_of(hook("UserPromptSubmit", CLAUDE, store, HELIX_URL=url))


@pytest.mark.parametrize("prompt", [f"{PROMPT} {'x' * 40_000}", f"{'x' * 400_000}\n{PROMPT}"], ids=["first", "last"])
def test_of_a_long_prompt_both_ends_are_asked(hook: Hook, store: Path, prompt: str) -> None:
    assert FOUND in context_of(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


# ------------------------------------------------------------ whatever goes wrong


SECRET = "tell-nobody-this-word"
"""In every prompt, and never in a log."""


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"nonsense", b"[]", b"null", b'"text"', b"\xff\xfe\x00", b"[" * 100_000, b'{"prompt": 1e999999}'],
)
@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart", "Stop", "auto"])
def test_bad_input(hook: Hook, store: Path, said: bytes, event: str) -> None:
    silent(hook(event, said, store))


@pytest.mark.parametrize("value", [None, 1, [], {}, True, "\ud800", "x\0y"])
def test_wrong_types_everywhere(hook: Hook, store: Path, value: Any) -> None:
    for event in ("UserPromptSubmit", "SessionStart", "Stop"):
        given = dict.fromkeys([*CLAUDE, "source", "workspace_roots", "turn_id", "agent_transcript_path"], value)
        done = hook(event, given, store)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("word", ["PreToolUse", "nonsense", "--wrong", "", "\udcff"])
def test_another_event_is_none_of_ours(hook: Hook, store: Path, word: str) -> None:
    silent(hook(word, {**CLAUDE, "hook_event_name": "PreToolUse"}, store))


def _no_store(root: Path) -> None:
    shutil.rmtree(root)


def _a_file(root: Path) -> None:
    shutil.rmtree(root)
    root.write_text("not a folder")


def _no_current(root: Path) -> None:
    (root / "CURRENT").unlink()


def _torn_current(root: Path) -> None:
    (root / "CURRENT").write_text("00000009-0123456789abcdef.json\n")


def _torn_manifest(root: Path) -> None:
    path = next((root / "manifests").glob("[0-9]*.json"))
    path.write_bytes(path.read_bytes()[:100])


def _no_segment(root: Path) -> None:
    shutil.rmtree(next((root / "segments").iterdir()))


def _torn_segment(root: Path) -> None:
    path = next(root.glob("segments/*/columns.arrow"))
    path.write_bytes(b"\0" * path.stat().st_size)


@pytest.mark.parametrize(
    "damage", [_no_store, _a_file, _no_current, _torn_current, _torn_manifest, _no_segment, _torn_segment]
)
@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_a_store_that_is_none(hook: Hook, own_store: Path, home: Path, damage: Callable[[Path], None], event: str):
    damage(own_store)
    silent(hook(event, {**CLAUDE, "prompt": f"{PROMPT} {SECRET}"}, own_store))
    line = (log_of(own_store / "logs") if (own_store / "manifests").is_dir() else log_of(home)).splitlines()[-1]
    assert event in line
    assert " ms " in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("name", "value"), [("HELIX_MAX_BUDGET", "lots"), ("HELIX_MAX_BUDGET", "3"), ("HELIX_PROFILES", "/nowhere")]
)
def test_a_wrong_setting_is_no_failure(hook: Hook, store: Path, name: str, value: str) -> None:
    done = hook("UserPromptSubmit", CLAUDE, store, **{name: value})
    assert (done.returncode, done.stderr) == (0, "")


def test_without_an_encoder_the_words_answer_alone(hook: Hook, own_store: Path) -> None:
    shutil.rmtree(own_store / "encoders")
    assert FOUND in context_of(hook("UserPromptSubmit", CLAUDE, own_store))
    assert "degraded" in log_of(own_store / "logs")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGALRM])
def test_an_interrupted_hook_ends_well(store: Path, home: Path, how: signal.Signals) -> None:
    fake = Fake(None, close=False)
    process = subprocess.Popen(
        [HELIX, "hook", "UserPromptSubmit", "--store", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**_environ(), "HELIX_CACHE": str(home), "HELIX_URL": f"http://127.0.0.1:{fake.port}"},
    )
    assert process.stdin
    process.stdin.write(json.dumps(CLAUDE).encode())
    process.stdin.close()
    until(lambda: bool(fake._kept))
    process.send_signal(how)
    assert process.wait(20) == 0
    assert process.stdout
    assert process.stderr
    assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    fake.stop()


def test_an_agent_that_does_not_read_the_answer(store: Path, home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [HELIX, "hook", "UserPromptSubmit", "--store", str(store)],
        input=json.dumps(CLAUDE).encode(),
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**_environ(), "HELIX_CACHE": str(home)},
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_log_that_cannot_be_written_is_no_failure(hook: Hook, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    silent(hook("UserPromptSubmit", CLAUDE, tmp_path / "none", HELIX_CACHE=str(tmp_path / "file" / "below")))


def test_the_log_is_private_and_bounded(hook: Hook, own_store: Path) -> None:
    log = own_store / "logs" / "hook.log"
    log.parent.mkdir()
    log.write_text("x" * (1 << 20) + "\n")
    hook("UserPromptSubmit", {**CLAUDE, "prompt": f"{PROMPT} {SECRET}"}, own_store)
    assert log.with_name("hook.log.1").stat().st_size == (1 << 20) + 1
    lines = log.read_text().splitlines()
    assert len(lines) == 1
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ UserPromptSubmit claude-code \d+ ms here: \d+ characters, project", lines[0]
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_pin_is_given_back(hook: Hook, own_store: Path) -> None:
    context_of(hook("UserPromptSubmit", CLAUDE, own_store))
    silent(hook("UserPromptSubmit", CLAUDE, own_store, HELIX_MAX_BUDGET="3"))  # fails when the store is open
    assert "UsageError" in log_of(own_store / "logs")
    assert not list((own_store / "pins").iterdir())


def test_help_is_help(store: Path, run_helix) -> None:
    done = run_helix("hook", "--help")
    assert done.returncode == 0
    for event in ("SessionStart", "BeforeAgent", "PreCompact"):
        assert event in done.stdout
    assert "hook" in run_helix("--help").stdout


# ------------------------------------------------------------ transcripts


def turn(number: int, text: str, session: str = "5e551017-0000-4000-8000-000000000001") -> str:
    """A line of Claude Code's."""
    return (
        json.dumps(
            {
                "type": "user",
                "uuid": f"00000000-0000-4000-8000-{hash((session, number)) % 10**12:012d}",
                "parentUuid": None,
                "sessionId": session,
                "timestamp": f"2026-06-01T10:00:{number:02d}.000Z",
                "cwd": "/home/ana/bakery",
                "version": "2.1.0",
                "isSidechain": False,
                "message": {"role": "user", "content": text},
            }
        )
        + "\n"
    )


def items(store: Path, column: str = "text") -> list[str]:
    """The texts of the store, or something else of its items."""
    done = subprocess.run(
        [HELIX, "sql", f"SELECT {column} FROM items", "--store", str(store), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [row[column] for row in json.loads(done.stdout)] if done.returncode == 0 else []


@pytest.mark.parametrize(
    "event",
    [
        "Stop",
        "AfterAgent",
        *(pytest.param(e, marks=pytest.mark.soak) for e in ("PreCompact", "SessionEnd", "PreCompress")),
    ],
)
def test_the_transcript_is_taken_in(hook: Hook, cache: Path, tmp_path: Path, event: str) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    log.write_text(turn(1, f"Walnut bread takes an hour. {SECRET}"))
    began = time.monotonic()
    silent(
        hook(event, {**CLAUDE, "hook_event_name": event, "transcript_path": str(log)}, store, HELIX_CACHE=str(cache))
    )
    assert time.monotonic() - began < 10  # nobody waits for the models
    until(lambda: len(items(store)) == 1)
    if event == "Stop":  # and again, when it has grown
        with log.open("a") as file:
            file.write(turn(2, "With parsley."))
        silent(hook(event, {**CLAUDE, "transcript_path": str(log)}, store, HELIX_CACHE=str(cache)))
        until(lambda: len(items(store)) == 2)
        assert "1 handed to ingest" in log_of(store / "logs")
        assert SECRET not in log_of(store / "logs") + log_of(cache)


def test_subagents_go_in_with_their_session(hook: Hook, cache: Path, tmp_path: Path) -> None:
    log, store = tmp_path / "abc.jsonl", tmp_path / "store"
    below = tmp_path / "abc" / "subagents"
    below.mkdir(parents=True)
    log.write_text(turn(1, "Ask the baker."))
    (below / "agent-1.jsonl").write_text(turn(1, "Rye needs sourdough.", "5e551017-0000-4000-8000-000000000002"))
    (below / "agent-1.meta.json").write_text("{}")
    far = tmp_path / "elsewhere.jsonl"
    far.write_text(turn(1, "Spelt is old.", "5e551017-0000-4000-8000-000000000003"))
    given = {**CLAUDE, "transcript_path": str(log), "agent_transcript_path": str(far)}
    silent(hook("SubagentStop", given, store, HELIX_CACHE=str(cache)))
    until(lambda: len(items(store)) == 3)


@pytest.mark.parametrize("project", ["bakery", "--store"])
def test_cursors_transcripts_are_of_the_folder_it_works_in(
    hook: Hook, cache: Path, tmp_path: Path, project: str
) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    lines = [("user", "<user_query>\nHow long does walnut bread take?\n</user_query>"), ("assistant", "An hour.")]
    log.write_text(
        "".join(
            json.dumps({"role": role, "message": {"content": [{"type": "text", "text": text}]}}) + "\n"
            for role, text in lines
        )
    )
    given = {**CURSOR, "hook_event_name": "stop", "transcript_path": str(log), "workspace_roots": [f"/x/{project}"]}
    silent(hook("stop", given, store, HELIX_CACHE=str(cache)))
    until(lambda: len(items(store)) == 2)
    assert set(items(store, "project")) == {project}


@pytest.mark.parametrize("path", ["/nowhere/at/all.jsonl", None, "", "/tmp"])
def test_a_transcript_that_is_not_there(hook: Hook, store: Path, path: str | None) -> None:
    silent(hook("Stop", {**CODEX, "transcript_path": path}, store))
    assert "transcript" in log_of(store / "logs").splitlines()[-1]


def test_the_last_of_many_is_not_lost_and_one_works_at_a_time(hook: Hook, cache: Path, tmp_path: Path) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    log.write_text("")

    def runs() -> int:
        return (log_of(cache) + log_of(store / "logs")).count("documents accepted")

    before = runs()
    for number in range(1, 9):
        with log.open("a") as file:
            file.write(turn(number, f"Loaf number {number} is baked."))
        silent(hook("Stop", {**CLAUDE, "transcript_path": str(log)}, store, HELIX_CACHE=str(cache)))
        assert working(store) <= 1
    until(lambda: len(items(store)) == 8)
    until(lambda: working(store) == 0)
    assert runs() - before < 8  # who finds one waiting has nothing to do


def working(store: Path) -> int:
    """How many `helix ingest` of this store there are."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended this very moment
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            found += "ingest" in words and str(store) in words
    return found


def test_a_folder_with_modules_of_our_names_has_no_say(hook: Hook, cache: Path, tmp_path: Path, monkeypatch) -> None:
    for name in ("helix", "query", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'hijacked')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    log.write_text(turn(1, "Walnut bread."))
    silent(hook("Stop", {**CLAUDE, "transcript_path": str(log)}, store, HELIX_CACHE=str(cache)))
    until(lambda: len(items(store)) == 1)
    assert not (tmp_path / "hijacked").exists()


def test_with_a_broker_it_is_enqueued(hook: Hook, cache: Path, tmp_path: Path) -> None:
    log, store = tmp_path / "log.jsonl", tmp_path / "store"
    log.write_text(turn(1, "Walnut bread."))
    given = {**CLAUDE, "transcript_path": str(log)}
    silent(hook("Stop", given, store, HELIX_CACHE=str(cache), HELIX_REDIS_URL="redis://127.0.0.1:1/0"))
    until(lambda: any((store / "inbox").glob("[0-9a-f]*")))  # a worker will find it
    assert "handed to enqueue" in log_of(store / "logs") + log_of(cache)


# ------------------------------------------------------------ what a hook waits for


def test_a_hook_imports_next_to_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import helix.cli.main, query.hooks.command"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    modules = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    heavy = {"numpy", "orjson", "dataclasses", "importlib.metadata", "http.client", "subprocess", "typing", "pathlib"}
    assert "query.hooks.command" in modules
    assert not modules & heavy
