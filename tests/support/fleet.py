"""A whole fleet for the fault tests: a redis-server that can be broken, workers that can be killed, a query process.

The query process is asked all the time, and every answer is kept: it must never be down.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.verify import verify
from tests.crash.test_kill import items, write_log

FAST = {
    "HELIX_RECONCILE_INTERVAL": "1",
    "HELIX_RETRY_WAIT": "0.3",
    "HELIX_TIDY_INTERVAL": "2",
    "HELIX_THREADS": "1",
}
HELIX = (sys.executable, "-m", "helix.cli")
Forks = Callable[[Sequence[str], Mapping[str, str], float], subprocess.CompletedProcess[str]]


MARK = "FLEET_OF"
"""In the environment of all that a test run has started."""


def left() -> list[int]:
    """Every living process that this test run has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={os.getpid()}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Redis:
    """A real server, durable (AOF, every write), on a port that stays."""

    folder: Path
    port: int = field(default_factory=free_port)
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
        self.process = subprocess.Popen(
            [binary, "--port", str(self.port), "--dir", str(self.folder), *options], stdout=subprocess.DEVNULL
        )
        within(10, lambda: _answers(self.port))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wipe(self) -> None:
        shutil.rmtree(self.folder)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Accepts connections, and never answers."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Refuses whatever takes memory."""
        self.client.config_set("maxmemory", "1")
        try:
            yield
        finally:
            self.client.config_set("maxmemory", "0")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


def within(seconds: float, condition: Callable[[], bool], told: Callable[[], str] = str) -> float:
    """Wait until something holds; how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds} s\n{told()}")
        time.sleep(0.1)  # to look takes a part of a core
    return time.monotonic() - began


@dataclass
class Fleet:
    """Processes around one store."""

    root: Path
    redis: Redis
    log: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    expected: dict[str, str] = field(default_factory=dict)  # what has to be in the store, by turn
    forks: Forks | None = None  # see `tests.support.forks`; where not given, each command starts from nothing
    _asking: threading.Thread | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self, name: str, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """`helix WORDS`, in a session of its own, known by a name."""
        with self.log.open("ab") as output:
            self.running[name] = subprocess.Popen(
                [*HELIX, *words],
                env={**os.environ, **FAST, **self.environ, **self.place(), **environ},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.running[name]

    def place(self) -> dict[str, str]:
        return {"HELIX_STORE": str(self.root), "HELIX_REDIS_URL": self.redis.url, MARK: str(os.getpid())}

    def worker(self, name: str, queues: str | None = None, **environ: str) -> subprocess.Popen[bytes]:
        return self.start(name, "worker", "--queues", queues or name, **environ)

    def kill(self, name: str) -> None:
        """kill -9, with every process of its pool."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str, patience: float = 25) -> float:
        """SIGTERM; how long it took to end."""
        process = self.running.pop(name)
        began = time.monotonic()
        process.terminate()
        process.wait(patience)
        return time.monotonic() - began

    def pool(self, name: str) -> list[int]:
        """The processes of a worker's pool, the one that works among them."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == self.running[name].pid and b"spawn_main" in (
                    (path.parent / "cmdline").read_bytes()
                ):
                    found.append(int(path.parent.name))
        return found

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-8_000:]

    def events(self, event: str, **about: object) -> list[dict[str, object]]:
        """Lines of the workers' logs."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith('{"time"'):
                entry = json.loads(line)
                if entry["event"] == event and about.items() <= entry.items():
                    found.append(entry)
        return found

    # ------------------------------------------------------------ documents

    def write(self, folder: Path, name: str, documents: int, turns: int = 3) -> Path:
        """Logs that are expected in the store from here on."""
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
        """A command that ends by itself."""
        environ = {**os.environ, **FAST, **self.environ, **self.place()}
        if self.forks:
            return self.forks(words, environ, 120)
        return subprocess.run([*HELIX, *words], env=environ, capture_output=True, text=True, timeout=120)

    def done(self) -> int:
        return len(ledger.done(self.root, ledger.current(self.root)[1]))

    def idle(self) -> bool:
        """Nothing is pending and no order waits."""
        return not ledger.pending(self.root) and not [
            path for path in (self.root / "orders").glob("*.json") if not path.stem.endswith(".done")
        ]

    def settles(self, seconds: float = 90) -> float:
        """Wait until everything that was accepted is done, then check what must hold after every fault."""
        took = within(seconds, self.idle, self.said)
        self.check()
        return took

    def check(self, dead: int = 0) -> None:
        """Every document recallable exactly once, the store whole, the query process never down."""
        assert items(self.root) == self.expected  # `items` itself fails on a double
        assert verify(self.root).problems == ()
        assert len(ledger.dead(self.root)) == dead, ledger.dead(self.root)
        if "query" in self.running:
            self.serves_newest()
            for place in [place for place, text in self.expected.items() if _word(place) in text][-5:]:
                self.recallable(place)
            assert set(self.asked) == {"200"}, self.asked
            assert self.asked["200"] > 5

    def serves_newest(self) -> None:
        """Wait until what is published now is what the query process answers from."""
        generation = ledger.current(self.root)[1].generation
        within(10, lambda: self.get("/v1/status")["serving"] >= generation, self.said)

    def recallable(self, place: str) -> None:
        """A turn is found by its own word, once."""
        word = _word(place)
        found = [item["text"] for item in self.get(f"/v1/recall?query={quote(word)}&k=20")["items"]]
        assert found.count(self.expected[place]) == 1, (word, found)

    # ------------------------------------------------------------ the query process

    def serve(self) -> None:
        """Start the query process, and ask it all the time from here on."""
        self.port = free_port()
        self.start("query", "serve", "--port", str(self.port))
        within(30, lambda: self._status() == "200", self.said)
        self.asked = Counter()  # an answer that is on its way still counts to the old one
        if self._asking is None:
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()

    def get(self, path: str) -> dict[str, object]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            return dict(json.load(answer))

    def _ask(self) -> None:
        while not self._stop.wait(0.2):
            self.asked[self._status()] += 1

    def _status(self) -> str:
        try:
            found = self.get("/v1/recall?query=walnuts")
            return "200" if found["items"] and not found["degraded"] else f"200 without {found['degraded']}"
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError as error:
            return type(error).__name__

    def close(self) -> None:
        self._stop.set()
        for name in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
        if self.redis.process:
            with contextlib.suppress(ProcessLookupError):
                self.redis.process.send_signal(signal.SIGCONT)
                self.redis.kill()


def _word(place: str) -> str:
    """The word that only one turn has."""
    session, turn = place.split("#")
    return f"{session}x{turn.rpartition(':')[2]}"


@contextmanager
def fleet(
    folder: Path, seed: Callable[[Path, Path], object], workers: Sequence[str] = (), forks: Forks | None = None
) -> Iterator[Fleet]:
    """A store with one document, a Redis, a query process that is asked all the time, and workers.

    Args:
        seed: takes in a file, into a store.
        workers: the queues of each.
        forks: calls `helix`, as the fixture of this name.
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
