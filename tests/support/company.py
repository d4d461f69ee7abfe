"""A company: a folder of stores, a redis-server and a fleet of workers that serves all of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from celery import Celery

from helix.settings import Settings, load
from helix.snapshot.ledger import inbox
from pipelines.ingest.accept_all import Backlog, IngestReport, accept_all
from tests.support.fleet import FAST, MARK, Redis
from tests.support.processes import start_helix, wait_until
from workers.app import create
from workers.dispatch import Sender

FRESH, IMPORTS = "enrich,commit", "accept,maintain,bulk,expand"
"""The queues of the two workers of a small fleet."""


@dataclass
class Company:
    """Processes around a folder of stores."""

    stores: Path
    redis: Redis
    log: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        return replace(load(), stores=str(self.stores), redis_url=self.redis.url)

    @property
    def app(self) -> Celery:
        return create(self.settings)

    def environ(self) -> dict[str, str]:
        place = {"HELIX_STORES": str(self.stores), "HELIX_REDIS_URL": self.redis.url, MARK: str(os.getpid())}
        return {**FAST, **place}

    def worker(self, name: str, queues: str, concurrency: int = 1, **environ: str) -> subprocess.Popen[bytes]:
        words = ("worker", "--queues", queues, "--concurrency", str(concurrency))
        self.running[name] = start_helix(self.log, *words, **{**self.environ(), **environ})
        return self.running[name]

    def wait_for_workers(self, count: int = 1) -> None:
        wait_until(60, lambda: len(self.events("ready")) >= count, self.log)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a worker and to its pool."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self.running):
            self.kill(name)
        if self.redis.process:
            self.redis.kill()

    def enqueue(self, store: str, path: Path, app: Celery | None = None) -> list[str]:
        """Accept a file or a folder into a store and send it to the workers, as `helix enqueue` does."""
        root, settings = self.stores / store, self.settings
        report, backlog = IngestReport(), Backlog(self.stores / store, settings)
        new = accept_all(root, [path], settings, report, project=None, format="auto", acl=(), backlog=backlog)
        assert not report.refused, report.refused
        Sender(app or self.app, root, store).send(new)
        return new

    def events(self, event: str, **about: object) -> list[dict[str, object]]:
        """Return the log lines of an event."""
        lines = self.log.read_text(errors="replace").splitlines()
        entries = [json.loads(line) for line in lines if line.startswith('{"time"')]
        return [entry for entry in entries if entry["event"] == event and about.items() <= entry.items()]

    def is_done(self, store: str) -> bool:
        """Return whether every accepted document of a store is published."""
        return not inbox.list_pending(self.stores / store)


@contextmanager
def company(folder: Path, workers: Sequence[str] = (), concurrency: int = 1) -> Iterator[Company]:
    """A folder of stores, a Redis, and a worker for each of `workers`, its queues; FRESH with so many processes."""
    folder.mkdir(exist_ok=True)
    made = Company(folder / "stores", Redis(folder / "redis"), folder / "log")
    made.stores.mkdir()
    made.log.touch()
    try:
        made.redis.start()
        for queues in workers:
            made.worker(queues, queues, concurrency if queues == FRESH else 1)
        made.wait_for_workers(len(workers))
        yield made
    finally:
        made.close()


@contextmanager
def temporary_company(*workers: str, concurrency: int = 1) -> Iterator[Company]:
    """A company in a temporary folder."""
    with tempfile.TemporaryDirectory() as place, company(Path(place) / "company", workers, concurrency) as made:
        yield made
