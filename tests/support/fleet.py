"""A fleet for fault tests: a redis-server that can be broken, workers that can be killed, a query process.

A thread asks the query process all the time and counts the answers: it must never be down.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from tests.crash.test_kill import items, write_log
from tests.support.processes import HELIX, can_connect, pick_port, start_helix, wait_until

FAST = {"HELIX_RECONCILE_INTERVAL": "1", "HELIX_RETRY_WAIT": "0.3", "HELIX_TIDY_INTERVAL": "2", "HELIX_THREADS": "1"}
Forks = Callable[[Sequence[str], Mapping[str, str], float], subprocess.CompletedProcess[str]]

MARK = "FLEET_OF"
"""A variable in the environment of every process that a test starts."""


def seed_store(logs: Path, root: Path) -> None:
    assert not ingest(root, [logs], replace(load(), threads=1)).refused


def list_turns(i: int, turns: int) -> list[str]:
    return [f"document {i} says {j}: walnuts and parsley" for j in range(turns)]


def expected_texts(n: int, turns: int = 3) -> dict[str, str]:
    """Return the texts of `write_documents`, by turn."""
    return {f"w{i}#w{i}:{j}": text for i in range(n) for j, text in enumerate(list_turns(i, turns))}


def write_documents(folder: Path, n: int, turns: int = 3) -> Path:
    folder.mkdir()
    for i in range(n):
        write_log(folder / f"{i:02}.jsonl", f"w{i}", list_turns(i, turns))
    return folder


def count_done(root: Path) -> int:
    return len(inbox.list_done(root, inbox.load_current(root)[1]))


@contextmanager
def worker(root: Path, url: str, queue: str, log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of some queues in a session of its own, so that a kill ends its children, too."""
    environ = {**FAST, "HELIX_REDIS_URL": url, **environ}
    process = start_helix(log, "worker", "--queues", queue, "--store", root, **environ)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


@dataclass
class Redis:
    """A real server, durable (AOF, every write), on a port that stays."""

    folder: Path
    port: int = field(default_factory=pick_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=5)

    def start(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("redis-server is not installed: run `make redis`")
        self.folder.mkdir(exist_ok=True)
        options = ("--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        command = [binary, "--port", str(self.port), "--dir", str(self.folder), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(60, lambda: can_connect(self.port))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wipe(self) -> None:
        shutil.rmtree(self.folder)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Accept connections, and never answer."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Refuse every command that takes memory."""
        self.client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            self.client.config_set("maxmemory", "0")


@dataclass
class Fleet:
    """Processes around one store."""

    root: Path
    redis: Redis
    log: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)  # answers of the query process
    expected: dict[str, str] = field(default_factory=dict)  # texts that must be in the store, by turn
    forks: Forks | None = None  # see `tests.support.forks`; without it, each command is a new interpreter
    _asking: threading.Thread | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self, name: str, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start `helix WORDS` in a session of its own, under a name."""
        self.running[name] = start_helix(self.log, *words, **{**self.command_environ(), **environ})
        return self.running[name]

    def command_environ(self) -> dict[str, str]:
        place = {"HELIX_STORE": str(self.root), "HELIX_REDIS_URL": self.redis.url, MARK: str(os.getpid())}
        return {**os.environ, **FAST, **self.environ, **place}

    def worker(self, name: str, queues: str | None = None, **environ: str) -> subprocess.Popen[bytes]:
        return self.start(name, "worker", "--queues", queues or name, **environ)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and to its pool."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str, patience: float = 25) -> float:
        """Send SIGTERM; return the seconds until the process ended."""
        process = self.running.pop(name)
        began = time.monotonic()
        process.terminate()
        process.wait(patience)
        return time.monotonic() - began

    def list_pool(self, name: str) -> list[int]:
        """Return the pool processes of a worker."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
                is_child = parent == self.running[name].pid
                if is_child and b"spawn_main" in (path.parent / "cmdline").read_bytes():
                    found.append(int(path.parent.name))
        return found

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self, event: str, **about: object) -> list[dict[str, object]]:
        """Return the log lines of an event."""
        entries = [json.loads(line) for line in self.read_log().splitlines() if line.startswith('{"time"')]
        return [entry for entry in entries if entry["event"] == event and about.items() <= entry.items()]

    # ------------------------------------------------------------ documents

    def write(self, folder: Path, name: str, documents: int, turns: int = 3) -> Path:
        """Write logs, and expect them in the store from now on."""
        folder.mkdir(exist_ok=True)
        for i in range(documents):
            session = f"{name}{i}"
            texts = [f"the word of {session} number {j} is {session}x{j} and walnuts" for j in range(turns)]
            write_log(folder / f"{session}.jsonl", session, texts)
            self.expected |= {f"{session}#{session}:{j}": text for j, text in enumerate(texts)}
        return folder

    def enqueue(self, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return self.helix("enqueue", str(path), "--json", *options)

    def helix(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        if self.forks:
            return self.forks(words, self.command_environ(), 120)
        return subprocess.run([*HELIX, *words], env=self.command_environ(), capture_output=True, text=True, timeout=120)

    def count_done(self) -> int:
        return count_done(self.root)

    def is_idle(self) -> bool:
        """Return whether no document is pending and no order is open."""
        orders = [path for path in (self.root / "orders").glob("*.json") if not path.stem.endswith(".done")]
        return not orders and not inbox.list_pending(self.root)

    def settle(self, seconds: float = 90) -> float:
        """Wait until all accepted documents are done, then check the store; return the seconds of the wait."""
        took = wait_until(seconds, self.is_idle, self.read_log)
        self.check()
        return took

    def check(self, dead: int = 0) -> None:
        """Check that every document is recallable once, the store is whole, and the query process was never down."""
        assert items(self.root) == self.expected  # `items` fails on a doubled turn
        assert verify_store(self.root).problems == ()
        assert len(inbox.list_dead(self.root)) == dead, inbox.list_dead(self.root)
        if "query" in self.running:
            self.wait_for_newest()
            for place in [place for place, text in self.expected.items() if _unique_word(place) in text][-5:]:
                self.check_recall(place)
            assert set(self.statuses) == {"200"}, self.statuses
            assert self.statuses["200"] > 5

    def wait_for_newest(self) -> None:
        """Wait until the query process serves the newest generation."""
        generation = inbox.load_current(self.root)[1].generation
        wait_until(60, lambda: self.get("/v1/status")["serving"] >= generation, self.read_log)

    def check_recall(self, place: str) -> None:
        """Check that a turn is found once by its unique word."""
        word = _unique_word(place)
        texts = [item["text"] for item in self.get(f"/v1/recall?query={quote(word)}&k=20")["items"]]
        assert texts.count(self.expected[place]) == 1, (word, texts)

    # ------------------------------------------------------------ the query process

    def serve(self) -> None:
        """Start the query process, and ask it all the time from now on."""
        self.port = pick_port()
        self.start("query", "serve", "--port", str(self.port))
        wait_until(60, lambda: self._read_status() == "200", self.read_log)
        self.statuses = Counter()  # a pending answer still counts in the old one
        if self._asking is None:
            self._asking = threading.Thread(target=self._ask_always, daemon=True)
            self._asking.start()

    def get(self, path: str) -> dict[str, object]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            return dict(json.load(answer))

    def _ask_always(self) -> None:
        while not self._stop.wait(0.2):
            self.statuses[self._read_status()] += 1

    def _read_status(self) -> str:
        try:
            answer = self.get("/v1/recall?query=walnuts")
            return "200" if answer["items"] and not answer["degraded"] else f"200 without {answer['degraded']}"
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError as error:
            return type(error).__name__

    def close(self) -> None:
        self._stop.set()
        for name in list(self.running):
            self.kill(name)
        if self.redis.process:
            with contextlib.suppress(ProcessLookupError):
                self.redis.process.send_signal(signal.SIGCONT)
                self.redis.kill()


def _unique_word(place: str) -> str:
    session, turn = place.split("#")
    return f"{session}x{turn.rpartition(':')[2]}"


@contextmanager
def fleet(
    folder: Path,
    workers: Sequence[str] = (),
    forks: Forks | None = None,
    seed: Callable[[Path, Path], object] = seed_store,
) -> Iterator[Fleet]:
    """A store with one document, a Redis, a query process, and workers.

    Args:
        workers: the queues of each.
        forks: the fixture of this name.
        seed: ingests a folder into a store.
    """
    folder.mkdir(exist_ok=True)
    made = Fleet(folder / "store", Redis(folder / "redis"), folder / "log", forks=forks)
    seed(made.write(folder / "seed", "seed", 1), made.root)
    try:
        made.redis.start()
        made.log.touch()
        made.serve()
        for queues in workers:
            made.worker(queues)
        yield made
    finally:
        made.close()
