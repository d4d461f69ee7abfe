"""The promises of `helix hook` to an agent: an answer in its shape, soon, and never a failure."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix.errors import StoreError
from helix.settings import load
from helix.snapshot.sql import run_statement
from helix.sources.common.injected import strip_memory
from query.hooks.context import LIMIT
from tests.contract.test_imports import list_imports
from tests.support.paths import ROOT
from tests.support.processes import wait_until
from tests.support.serving import HELIX, ServerProcess

PROMPT = "why did we pick sqlite for the idempotency keys?"
FOUND = "Keep idempotency keys in SQLite (WAL)"
SESSION = "5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"  # in the sample: Claude Code's, of the project ledgerline
CLAUDE = {
    "session_id": "11111111-2222-4333-8444-555555555555",
    "transcript_path": "/nowhere/11111111.jsonl",
    "cwd": "/home/ana/src/ledgerline",
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
    "workspace_roots": ["/home/ana/src/ledgerline"],
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
    """Helix's cache folder of the user."""
    return tmp_path / "cache"


@pytest.fixture
def hook(home: Path) -> Hook:
    """Run the real `helix hook` in its own process."""

    def run(
        event: str, payload: Any, store: Path, *, new: bool = True, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        if new:  # the session was given nothing yet
            shutil.rmtree(home / "sessions", ignore_errors=True)
        done = subprocess.run(
            [HELIX, "hook", event, "--store", str(store)],
            input=payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
            capture_output=True,
            env={**clean_environ(), "HELIX_CACHE": str(home), **environ},
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def clean_environ() -> dict[str, str]:
    """Return the environment without an agent's variables: an agent may run these tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "GEMINI"))}


def read_context(done: subprocess.CompletedProcess[str], event: str = "UserPromptSubmit") -> str:
    """Check the promised shape of an answer, and return its context."""
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert set(answer) == {"hookSpecificOutput"}
    output = answer["hookSpecificOutput"]
    assert set(output) == {"hookEventName", "additionalContext"}
    assert output["hookEventName"] == event
    return check_wrapper(output["additionalContext"])


def check_wrapper(context: str) -> str:
    assert context.startswith("<memory>\n")
    assert context.endswith("\n</memory>")
    assert context.count("<memory>") == context.count("</memory>") == 1
    assert len(context) <= 8_000
    return context


def assert_silent(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def read_log(folder: Path) -> str:
    path = folder / "hook.log"
    return path.read_text() if path.exists() else ""


def test_an_item_is_given_once_in_a_session(hook: Hook, store: Path, home: Path) -> None:
    first = read_context(hook("UserPromptSubmit", CLAUDE, store))
    assert FOUND in first
    (record,) = (home / "sessions").iterdir()
    assert record.stat().st_mode & 0o077 == 0
    again = hook("UserPromptSubmit", CLAUDE, store, new=False).stdout
    assert FOUND not in again
    assert FOUND in read_context(hook("UserPromptSubmit", {**CLAUDE, "session_id": "another"}, store, new=False))
    briefing = hook("SessionStart", {**CLAUDE, "source": "compact"}, store, new=False)  # the agent has lost it
    assert f"{briefing.stdout}{hook('UserPromptSubmit', CLAUDE, store, new=False).stdout}".count(FOUND) >= 1
    record.write_text("damaged")
    assert FOUND in read_context(hook("UserPromptSubmit", CLAUDE, store, new=False))


def test_a_session_has_a_budget(hook: Hook, store: Path) -> None:
    assert_silent(hook("UserPromptSubmit", CLAUDE, store, HELIX_HOOK_TOKENS="0"))
    assert "the session's tokens are spent" in read_log(store / "logs")
    few = read_context(hook("UserPromptSubmit", CLAUDE, store, HELIX_HOOK_TOKENS="120"))
    assert few.startswith("<memory>")
    assert len(few) < len(read_context(hook("UserPromptSubmit", CLAUDE, store)))
    assert_silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": "which queue"}, store, HELIX_HOOK_TOKENS="none at all"))
    assert "HELIX_HOOK_TOKENS is no number" in read_log(store / "logs")


@pytest.mark.parametrize(
    "prompt",
    [
        "run the tests",
        "commit and push",
        "fix the lint errors",
        "zzzzqqq nothing",
        "when should I prune tomato plants?",
    ],
)
def test_hooks_are_silent_where_the_memory_does_not_help(hook: Hook, store: Path, prompt: str) -> None:
    assert_silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


AGENTS = {
    "UserPromptSubmit": ((CLAUDE, "UserPromptSubmit user-prompt-submit auto"), (CODEX, "UserPromptSubmit")),
    "BeforeAgent": ((GEMINI, "BeforeAgent auto"),),
}


def test_a_prompt_is_answered_in_the_agents_shape(hook: Hook, store: Path) -> None:
    for event, agents in AGENTS.items():
        for payload, words in agents:
            for word in words.split():
                assert FOUND in read_context(hook(word, payload, store), event), (word, payload)


STARTS = (("SessionStart", CLAUDE, "startup"), ("sessionstart", CODEX, "resume"), ("auto", GEMINI, "clear"))


def test_a_session_starts_with_the_newest_of_its_project(hook: Hook, store: Path) -> None:
    for word, agent, source in STARTS:
        payload = {**agent, "hook_event_name": "SessionStart", "source": source}
        context = read_context(hook(word, payload, store), "SessionStart")
        assert "Duplicate webhooks, Redis timeout and the SQLite store" in context  # the title of the last session
        assert "\nDecisions that hold:\n- " in context
    assert_silent(hook(word, {**payload, "cwd": "/home/ana/nothing-known"}, store))


def test_cursor_has_a_shape_of_its_own(hook: Hook, store: Path) -> None:
    done = hook("sessionStart", CURSOR, store)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert set(answer) == {"additional_context"}
    assert "Duplicate webhooks" in check_wrapper(answer["additional_context"])


def test_a_path_is_no_command_and_both_ends_of_a_long_prompt_are_recalled(hook: Hook, store: Path) -> None:
    for prompt, text in (
        ("/src/ledgerline/store.py says database is locked", "BEGIN IMMEDIATE"),
        (f"{PROMPT} {'x' * 40_000}", FOUND),
        (f"{'x' * 400_000}\n{PROMPT}", FOUND),
    ):
        assert text in read_context(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))


def test_a_prompt_that_asks_for_nothing_gets_nothing(hook: Hook, store: Path) -> None:
    """Neither do orders to the agent, nor text that a host adds to a prompt."""
    added = "<memory>\nwe baked bread\n</memory>\n<system-reminder>\nbread\n</system-reminder>"
    fillers = ("", "   ", "yes", "Yes, go ahead!", "continue", "1", "ok thanks", "/compact", "/review the webhook code")
    for prompt in (*fillers, added):
        assert_silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": prompt}, store))
    for cwd in ("/home/ana/src/ledgerline", "/somewhere/else"):
        assert_silent(hook("UserPromptSubmit", {**CLAUDE, "prompt": "what is 17*23", "cwd": cwd}, store))
        assert "skipped" in read_log(store / "logs").splitlines()[-1]


def test_a_known_folder_limits_the_answer_to_its_project(hook: Hook, store: Path) -> None:
    def recall(cwd: str, **environ: str) -> str:
        payload = {**CLAUDE, "prompt": "what did I tell Priya about vacation?", "cwd": cwd}
        done = hook("UserPromptSubmit", payload, store, **environ)
        return read_context(done) if done.stdout else ""

    assert "we can do march" in recall("/home/ana/unknown").lower()
    for context in (
        recall("C:\\Users\\ana\\ledgerline\\"),
        recall(
            "/home/ana/src/ledgerline/src", CLAUDE_PROJECT_DIR="/home/ana/src/ledgerline"
        ),  # the agent went into a folder
    ):
        assert set(re.findall(r"\((c\d)\b", context)) <= {"c2"}  # of the chats, the one of this project
    payload = {**CLAUDE, "cwd": "/home/ana/src/ledgerline/src"}
    assert FOUND in read_context(hook("UserPromptSubmit", payload, store))


def test_the_agents_own_session_is_left_out(hook: Hook, store: Path) -> None:
    others = read_context(hook("UserPromptSubmit", {**CLAUDE, "session_id": SESSION}, store))
    assert f"({SESSION[:8]})" not in others
    assert f"({SESSION[:8]}#" not in others
    assert "Ledgerline notes" in others  # the budget is given to others
    start = {**CLAUDE, "session_id": SESSION, "hook_event_name": "SessionStart"}
    for source, has_own in (("resume", False), ("compact", True)):  # after a compaction the agent has lost it
        context = read_context(hook("SessionStart", {**start, "source": source}, store), "SessionStart")
        assert (f"({SESSION[:8]}#" in context) is has_own


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A store of forty turns of long words, one token each; every tenth has a word of three thousand letters."""
    from pipelines.embedded.ingest import ingest

    folder, draw = tmp_path_factory.mktemp("long"), random.Random(7)
    words = (ROOT / "tests/support/data/long_words.txt").read_text().split()
    with (folder / "log.jsonl").open("w") as file:
        for i in range(40):
            sample = " ".join(draw.sample(words, 60))
            blob = "A" * 3_000 if i % 10 == 0 else ""
            text = f"The kiln fires stoneware glaze at cone {i}. {sample} {'🏺' * 20} {blob}"
            file.write(json.dumps({"session": f"s{i}", "id": "1", "text": text, "project": "pottery"}) + "\n")
    ingest(folder / "store", [folder / "log.jsonl"], load())
    return folder / "store"


def test_a_context_has_at_most_8000_characters_and_is_not_ingested(hook: Hook, long_store: Path) -> None:
    assert LIMIT == 8_000
    payload = {**CLAUDE, "cwd": "/home/ana/pottery", "prompt": "at which cone does the kiln fire the stoneware glaze?"}
    for event in ("UserPromptSubmit", "SessionStart"):
        context = read_context(hook(event, payload, long_store), event)
        assert len(context.encode("utf-16-le")) / 2 <= 8_000  # as the agents count
        assert len(context) > 4_000 or event == "SessionStart"  # a briefing is short
        for recorded in (context, f"UserPromptSubmit hook additional context: {context}"):
            assert strip_memory(f"{recorded}\nand my question").strip() == "and my question"


@pytest.fixture
def server(own_store: Path) -> Iterator[ServerProcess]:
    with ServerProcess(own_store) as server:
        yield server.wait_for_address()


def read_fields(root: Path) -> dict[str, Any]:
    return json.loads((root / "serve.json").read_text() or "{}") if (root / "serve.json").exists() else {}


def test_the_answer_is_the_same_with_and_without_the_query_process(
    hook: Hook, server: ServerProcess, own_store: Path, tmp_path: Path, home: Path
) -> None:
    assert read_fields(own_store)["pid"] == server.process.pid
    assert stat.S_IMODE((own_store / "serve.json").stat().st_mode) == 0o600
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    assert "/v1/hook" in httpx.get(f"{server.url}/openapi.json").json()["paths"]
    questions = [
        ("UserPromptSubmit", CLAUDE),
        ("UserPromptSubmit", {**CLAUDE, "session_id": SESSION}),
        ("UserPromptSubmit", {**CLAUDE, "cwd": "/x", "prompt": "what did I tell Priya about vacation?"}),
        ("SessionStart", {**CLAUDE, "hook_event_name": "SessionStart", "source": "startup"}),
    ]
    by_server = [hook(event, payload, own_store).stdout for event, payload in questions]
    assert read_log(own_store / "logs").count("server: ") == len(questions)
    assert FOUND in read_context(hook("UserPromptSubmit", CLAUDE, tmp_path / "no-store-here", HELIX_URL=server.url))
    assert "server: " in read_log(home)
    server.stop()
    assert not (own_store / "serve.json").exists()
    here = [hook(event, payload, own_store).stdout for event, payload in questions]
    assert read_log(own_store / "logs").count("here: ") == len(questions)
    assert by_server == here
    assert all(here)


def test_a_second_query_process_takes_over_and_a_killed_one_is_not_asked(
    hook: Hook, server: ServerProcess, own_store: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output, ServerProcess(own_store, stderr=output) as second:
        wait_until(60, lambda: "listening on" in log.read_text())
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())
        assert port
        second.url = f"http://127.0.0.1:{port[1]}"
        second.wait_for_status()
        assert read_fields(own_store)["pid"] == server.process.pid
        server.stop()
        wait_until(60, lambda: read_fields(own_store).get("pid") == second.process.pid)
        second.stop(signal.SIGKILL)
    assert read_fields(own_store)["port"] == int(port[1])
    with socket.create_server(("127.0.0.1", int(port[1]))) as stranger:  # another program has the port now
        stranger.settimeout(0.1)
        assert FOUND in read_context(hook("UserPromptSubmit", CLAUDE, own_store))
        with pytest.raises(TimeoutError):
            stranger.accept()
    assert "here: " in read_log(own_store / "logs")


class FakeServer:
    """A listener that answers with fixed bytes, or not at all."""

    def __init__(self, answer: bytes | None, close: bool) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self._answer, self._close = answer, close
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            if self._answer is not None:
                connection.recv(65_536)
                connection.sendall(self._answer)
            if self._close:
                connection.close()

    def stop(self) -> None:
        self._socket.close()
        for connection in self.connections:
            connection.close()


WRONG_SERVERS: dict[str, tuple[bytes | None, bool]] = {
    "hangs": (None, False),  # accepts, and never answers
    "closes": (None, True),
    "empty": (b"", True),
    "half": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", False),  # begins, and never ends
    "list": (b"HTTP/1.1 200 OK\r\n\r\n[]", True),
    "nonsense": (b"HTTP/1.1 200 OK\r\n\r\nnonsense", True),
    "503": (b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}", True),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", True),
}


def test_a_wrong_query_process_costs_no_more_than_its_time(hook: Hook, store: Path) -> None:
    for name, (answer, close) in WRONG_SERVERS.items():
        fake = FakeServer(answer, close)
        began = time.monotonic()
        try:
            done = hook("UserPromptSubmit", CLAUDE, store, HELIX_URL=fake.url)
        finally:
            fake.stop()
        assert FOUND in read_context(done), name  # from the store
        assert time.monotonic() - began < 60, name
        last = read_log(store / "logs").splitlines()[-1]
        assert "; here: " in last, name
        assert "server: " in last, name


def test_a_hook_gives_up_after_three_seconds_or_as_many_as_are_named(hook: Hook, store: Path) -> None:
    silent = FakeServer(None, close=False)
    try:
        done = hook("UserPromptSubmit", CLAUDE, store, HELIX_URL=silent.url, HELIX_HOOK_SECONDS="0.3")
        assert_silent(done)
        assert read_log(store / "logs").splitlines()[-1].endswith(" gave up after 0.3 s")
    finally:
        silent.stop()
    for wrong in ("soon", "0", "61", "nan"):
        done = hook("UserPromptSubmit", CLAUDE, store, HELIX_HOOK_SECONDS=wrong)
        assert (done.returncode, done.stderr) == (0, ""), wrong  # a loaded machine may need more than 3 s
        assert "HELIX_HOOK_SECONDS is no number from 0 to 60: 3 s" in read_log(store / "logs").splitlines()[-1]


def test_a_wrong_url_is_no_failure(hook: Hook, store: Path) -> None:
    for url in ("http://127.0.0.1:1", "https://x", "nonsense", "http://", "http://127.0.0.1:port"):
        assert FOUND in read_context(hook("UserPromptSubmit", CLAUDE, store, HELIX_URL=url)), url


SECRET = "tell-nobody-this-word"  # in prompts, and never in a log


BAD_INPUT = (
    *(b"", b"{", b"nonsense", b"[]", b"null", b'"text"', b"\xff\xfe\x00", b"[" * 100_000),
    b'{"prompt": 1e999999}',
)


def test_bad_input_is_no_failure(hook: Hook, store: Path) -> None:
    for event, payload in product(("UserPromptSubmit", "SessionStart", "Stop", "auto"), BAD_INPUT):
        assert_silent(hook(event, payload, store))
    fields = [*CLAUDE, "source", "workspace_roots", "turn_id", "agent_transcript_path"]
    values = (None, 1, [], {}, True, "\ud800", "x\0y")
    for event, value in product(("UserPromptSubmit", "SessionStart", "Stop"), values):
        done = hook(event, dict.fromkeys(fields, value), store)
        assert (done.returncode, done.stderr) == (0, ""), (event, value)


def test_another_event_or_a_wrong_setting_is_no_failure(hook: Hook, store: Path) -> None:
    for word in ("PreToolUse", "nonsense", "--wrong", "", "\udcff"):
        assert_silent(hook(word, {**CLAUDE, "hook_event_name": "PreToolUse"}, store))
    for environ in ({"HELIX_MAX_BUDGET": "lots"}, {"HELIX_MAX_BUDGET": "3"}, {"HELIX_PROFILES": "/nowhere"}):
        done = hook("UserPromptSubmit", CLAUDE, store, **environ)
        assert (done.returncode, done.stderr) == (0, ""), environ


def _replace_by_file(root: Path) -> None:
    shutil.rmtree(root)
    root.write_text("not a folder")


def _cut_manifest(root: Path) -> None:
    path = next((root / "manifests").glob("[0-9]*.json"))
    path.write_bytes(path.read_bytes()[:100])


def _zero_columns(root: Path) -> None:
    path = next(root.glob("segments/*/columns.arrow"))
    path.write_bytes(b"\0" * path.stat().st_size)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no store": shutil.rmtree,
    "a file": _replace_by_file,
    "no CURRENT": lambda root: (root / "CURRENT").unlink(),
    "wrong CURRENT": lambda root: (root / "CURRENT").write_text("00000009-0123456789abcdef.json\n"),
    "cut manifest": _cut_manifest,
    "no segment": lambda root: shutil.rmtree(next((root / "segments").iterdir())),
    "zeroed segment": _zero_columns,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_a_damaged_store_is_no_failure(hook: Hook, own_store: Path, home: Path, damage: str, event: str) -> None:
    DAMAGES[damage](own_store)
    assert_silent(hook(event, {**CLAUDE, "prompt": f"{PROMPT} {SECRET}"}, own_store))
    line = read_log(own_store / "logs" if (own_store / "manifests").is_dir() else home).splitlines()[-1]
    assert event in line
    assert " ms " in line
    assert SECRET not in line


def test_a_missing_encoder_leaves_the_lexical_legs(hook: Hook, own_store: Path) -> None:
    shutil.rmtree(own_store / "encoders")
    assert FOUND in read_context(hook("UserPromptSubmit", CLAUDE, own_store))
    assert "degraded" in read_log(own_store / "logs")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGALRM])
def test_an_interrupted_hook_ends_well(store: Path, home: Path, how: signal.Signals) -> None:
    fake = FakeServer(None, close=False)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environ = {**clean_environ(), "HELIX_CACHE": str(home), "HELIX_URL": fake.url}
    process = subprocess.Popen([HELIX, "hook", "UserPromptSubmit", "--store", str(store)], env=environ, **pipes)
    assert process.stdin
    process.stdin.write(json.dumps(CLAUDE).encode())
    process.stdin.close()
    process.stdin = None
    wait_until(60, lambda: fake.connections)
    process.send_signal(how)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0
    fake.stop()


def test_an_agent_that_does_not_read_the_answer_is_no_failure(store: Path, home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [HELIX, "hook", "UserPromptSubmit", "--store", str(store)],
        input=json.dumps(CLAUDE).encode(),
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**clean_environ(), "HELIX_CACHE": str(home)},
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_unwritable_log_is_no_failure(hook: Hook, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_silent(hook("UserPromptSubmit", CLAUDE, tmp_path / "none", HELIX_CACHE=str(tmp_path / "file" / "below")))


def test_the_log_is_private_and_bounded(hook: Hook, own_store: Path) -> None:
    log = own_store / "logs" / "hook.log"
    log.parent.mkdir()
    log.write_text("x" * (1 << 20) + "\n")
    hook("UserPromptSubmit", {**CLAUDE, "prompt": f"{PROMPT} {SECRET}"}, own_store)
    assert log.with_name("hook.log.1").stat().st_size == (1 << 20) + 1
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ UserPromptSubmit claude-code \d+ ms here: \d+ characters, project\n",
        log.read_text(),
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_pin_is_released(hook: Hook, own_store: Path) -> None:
    read_context(hook("UserPromptSubmit", CLAUDE, own_store))
    assert_silent(hook("UserPromptSubmit", CLAUDE, own_store, HELIX_MAX_BUDGET="3"))  # fails with the store open
    assert "UsageError" in read_log(own_store / "logs")
    assert not list((own_store / "pins").iterdir())


def test_help_lists_the_events(run_helix) -> None:
    done = run_helix("hook", "--help")
    assert done.returncode == 0
    assert all(event in done.stdout for event in ("SessionStart", "BeforeAgent", "PreCompact"))


def turn(number: int, text: str, session: int = 1) -> str:
    """Return a line of Claude Code's."""
    fields = {
        "type": "user",
        "uuid": f"00000000-0000-4000-8000-{session:06d}{number:06d}",
        "parentUuid": None,
        "sessionId": f"5e551017-0000-4000-8000-{session:012d}",
        "timestamp": f"2026-06-01T10:00:{number:02d}.000Z",
        "cwd": "/home/ana/bakery",
        "version": "2.1.0",
        "isSidechain": False,
        "message": {"role": "user", "content": text},
    }
    return json.dumps(fields) + "\n"


def read_items(store: Path, column: str = "text") -> list[str]:
    """Return one column of the store's items; nothing without a store."""
    with contextlib.suppress(StoreError), run_statement(store, f"SELECT {column} FROM items") as found:
        return [value for (value,) in found.rows]
    return []


def wait_for_items(store: Path, count: int) -> None:
    """Wait longer than elsewhere: a busy machine gives background ingest little time."""
    wait_until(200, lambda: len(read_items(store)) == count)


Submit = Callable[..., None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The path of a store that the first transcript makes."""
    return tmp_path / "store"


@pytest.fixture
def submit(
    hook: Hook, cache: Path, home: Path, log: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Submit]:
    """Hand a transcript over at an event, in a folder whose modules must not be imported."""
    ignored = shutil.ignore_patterns("hook*")  # of other tests
    shutil.copytree(cache, home, copy_function=os.symlink, ignore=ignored)  # with trained classifiers
    for name in ("helix", "query", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'hijacked')!r}, 'w')")
    monkeypatch.chdir(tmp_path)

    def run(event: str = "Stop", payload: dict[str, Any] = CLAUDE, **environ: str) -> None:
        payload = {**payload, "hook_event_name": event, "transcript_path": str(log)}
        assert_silent(hook(event, payload, new, **environ))

    yield run
    assert not (tmp_path / "hijacked").exists()


@pytest.mark.parametrize(
    "events",
    [["Stop", "AfterAgent"], pytest.param(["PreCompact", "SessionEnd", "PreCompress"], marks=pytest.mark.soak)],
)
def test_a_growing_transcript_is_ingested(submit: Submit, home: Path, log: Path, new: Path, events: list[str]) -> None:
    for number, event in enumerate(events, 1):
        with log.open("a") as file:
            file.write(turn(number, f"Walnut bread takes {number} hours. {SECRET}"))
        submit(event)
        wait_for_items(new, number)
    assert "1 handed to ingest" in read_log(new / "logs")
    assert SECRET not in read_log(new / "logs") + read_log(home)


def test_subagents_are_ingested_with_their_session(submit: Submit, log: Path, new: Path, tmp_path: Path) -> None:
    below, far = tmp_path / "log" / "subagents", tmp_path / "elsewhere.jsonl"
    below.mkdir(parents=True)
    log.write_text(turn(1, "Ask the baker."))
    (below / "agent-1.jsonl").write_text(turn(1, "Rye needs sourdough.", session=2))
    (below / "agent-1.meta.json").write_text("{}")
    far.write_text(turn(1, "Spelt is old.", session=3))
    submit("SubagentStop", {**CLAUDE, "agent_transcript_path": str(far)})
    wait_for_items(new, 3)


def test_cursors_transcripts_have_the_project_of_its_folder(submit: Submit, log: Path, new: Path) -> None:
    project = "--store"  # like an option of ingest
    lines = [("user", "<user_query>\nHow long does walnut bread take?\n</user_query>"), ("assistant", "An hour.")]
    entries = [{"role": role, "message": {"content": [{"type": "text", "text": text}]}} for role, text in lines]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    submit("stop", {**CURSOR, "workspace_roots": [f"/x/{project}"]})
    wait_for_items(new, 2)
    assert set(read_items(new, "project")) == {project}


def test_a_missing_transcript_is_no_failure(hook: Hook, store: Path) -> None:
    for path in ("/nowhere/at/all.jsonl", None, "", "/tmp"):
        assert_silent(hook("Stop", {**CODEX, "transcript_path": path}, store))
        assert "transcript" in read_log(store / "logs").splitlines()[-1]


def test_one_ingest_works_at_a_time_and_one_waits(submit: Submit, home: Path, log: Path, new: Path) -> None:
    """While this test holds the session's lock, of four hooks one waits; it then ingests everything."""

    def count_runs() -> int:
        return len(re.findall(r"documents? accepted", read_log(home) + read_log(new / "logs")))

    log.write_text("")
    name = hashlib.sha256(os.fsencode(f"{new}\0{log}")).hexdigest()[:16]
    (home / "hooks").mkdir()
    with (home / "hooks" / f"{name}.working").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for number in range(1, 5):
            with log.open("a") as file:
                file.write(turn(number, f"Loaf number {number} is baked."))
            submit()
            assert count_processes("ingest", new) == 0
        wait_until(60, lambda: count_processes("hook", new) == 1)
    wait_for_items(new, 4)
    wait_until(200, lambda: count_processes("ingest", new) == 0)
    assert count_runs() == 1


def count_processes(command: str, store: Path) -> int:
    """Count the running processes of a command for a store."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # the process ended
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            count += command in words and str(store) in words
    return count


def test_a_broker_gets_transcripts_enqueued(submit: Submit, home: Path, log: Path, new: Path) -> None:
    log.write_text(turn(1, "Walnut bread."))
    submit(HELIX_REDIS_URL="redis://127.0.0.1:1/0")
    wait_until(60, lambda: any((new / "inbox").glob("[0-9a-f]*")))  # a worker will find it
    assert "handed to enqueue" in read_log(new / "logs") + read_log(home)


def test_a_hook_imports_next_to_nothing() -> None:
    modules = list_imports("import helix.cli.main, query.hooks.command")
    heavy = {"numpy", "orjson", "dataclasses", "importlib.metadata", "http.client", "subprocess", "typing", "pathlib"}
    assert "query.hooks.command" in modules
    assert not modules & heavy
