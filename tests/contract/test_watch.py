"""`helix watch` as a process: written turns are recallable, across restarts, until it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import helix
from helix.errors import StoreError, UsageError
from helix.settings import load
from helix.snapshot.ledger.inbox import list_accepted, list_pending, load_current, read_envelope
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from pipelines.embedded.publisher import Publisher
from pipelines.ingest.accept import accept_source, prepare_store
from pipelines.ingest.source import AcceptOptions, Inbox
from tests.support.processes import wait_until

SOON = 60.0  # seconds: machines that test are busy


@pytest.fixture
def watching(cache: Path, tmp_path: Path) -> Callable[..., object]:
    @contextmanager
    def start(*arguments: object, ends: signal.Signals = signal.SIGTERM, **environ: str) -> Iterator[Path]:
        output = tmp_path / "output.txt"
        command = [sys.executable, "-m", "helix.cli", "watch", *map(str, arguments)]
        home = {"HOME": str(tmp_path / "home"), "HELIX_CACHE": str(cache)}
        with (
            output.open("a") as out,
            subprocess.Popen(command, stderr=out, stdout=out, env={**os.environ, **home, **environ}) as process,
        ):
            try:
                lines = output.read_text().count("watching ")
                wait_until(SOON, lambda: output.read_text().count("watching ") > lines)  # its signal handlers are set
                yield output
                assert process.poll() is None
            finally:
                process.send_signal(ends)
                assert process.wait(SOON) == 0
        assert "Traceback" not in output.read_text()

    return start


def write(log: Path, *turns: tuple[str, str]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.writelines(json.dumps({"session": "s", "id": turn, "text": text}) + "\n" for turn, text in turns)


def is_recalled(store: Path, text: str, project: str = "default") -> bool:
    """Return whether a recall finds the text; the filter keeps the router from skipping the question."""
    try:
        return any(text in item.text for item in helix.open(store).recall(text, k=3, project=project).items)
    except (StoreError, UsageError):  # no store yet, or no item of the project
        return False


def test_a_written_turn_is_recalled_also_after_a_restart(watching, tmp_path: Path) -> None:
    logs, store = tmp_path / "logs", tmp_path / "store"
    projects = tmp_path / "home" / ".claude" / "projects" / "-srv-loom"
    about = {"type": "user", "uuid": "u1", "sessionId": "s", "cwd": "/srv/loom"}
    projects.mkdir(parents=True)
    (projects / "s.jsonl").write_text(json.dumps({**about, "message": {"content": "Oil the loom"}}) + "\n")
    write(logs / "a.jsonl", ("1", "We keep walnuts in the pantry"))
    write(logs / "b.jsonl", ("0", "The bread is done at noon"))
    with watching(logs, "--store", store) as output:
        wait_until(SOON, lambda: is_recalled(store, "We keep walnuts in the pantry"))
        write(logs / "a.jsonl", ("2", "The thyme hangs by the window"))
        wait_until(SOON, lambda: is_recalled(store, "The thyme hangs by the window"))
        wait_until(SOON, lambda: is_recalled(store, "The bread is done at noon"))
        wait_until(SOON, lambda: is_recalled(store, "Oil the loom", "loom"))  # an agent's logs are found
        assert f"watching given: {logs}" in output.read_text()
        assert "watching claude-code" in output.read_text()
    write(logs / "a.jsonl", ("3", "Salt is in the blue tin"))
    (logs / "b.jsonl").unlink()
    with watching(logs, "--only", "--store", store, ends=signal.SIGINT) as output:
        wait_until(SOON, lambda: is_recalled(store, "Salt is in the blue tin"))
        assert output.read_text().count("watching claude-code") == 1  # of the first run
    assert is_recalled(store, "The bread is done at noon")
    documents = list_accepted(store)
    assert len(documents) == 5
    assert sum(read_envelope(store, document).text.count("\n") for document in documents) == 5
    assert verify_store(store).problems == ()


def test_with_a_broker_the_workers_do_the_work(watching, tmp_path: Path, redis_url: str) -> None:
    import redis

    logs, store = tmp_path / "logs", tmp_path / "store"
    write(logs / "a.jsonl", ("1", "We keep walnuts in the pantry"))
    client = redis.Redis.from_url(redis_url)
    with watching(logs, "--only", "--store", store, HELIX_REDIS_URL=redis_url):
        wait_until(SOON, lambda: bool(list_pending(store)) if (store / "inbox").is_dir() else False)
        (document,) = list_pending(store)
        wait_until(SOON, lambda: any(document in message.decode() for message in client.lrange("enrich", 0, -1)))
    client.flushdb()
    assert load_current(store)[1] is None


def test_bad_arguments_are_refused(call_helix, tmp_path: Path) -> None:
    for argument, message in (("nowhere", "does not exist"), ("--only", "name the folders to watch")):
        done = call_helix("watch", argument, "--store", tmp_path / "store")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_log_that_grew_gives_the_same_store_as_a_whole_one(tmp_path: Path, cache: Path) -> None:
    """Compare all fields of items that do not depend on the time of acceptance or the batch.

    int8 activations share one range in a batch, which decides between equally likely types.
    """
    whole = (Path(helix.__file__).parent / "sample" / "claude-code-session.jsonl").read_bytes()
    log = tmp_path / "logs" / "session.jsonl"
    log.parent.mkdir()
    for cut in (len(whole) // 3, 2 * len(whole) // 3 + 7, len(whole)):
        log.write_bytes(whole[:cut])
        os.utime(log, (1_700_000_000, 1_700_000_000))
        ingest(tmp_path / "parts", [log], load())
    ingest(tmp_path / "whole", [log], load())
    assert items(tmp_path / "parts") == items(tmp_path / "whole")
    apart = np.abs(worth(tmp_path / "parts") - worth(tmp_path / "whole")).max(axis=1)
    assert len(apart) == 45
    assert np.count_nonzero(apart > 0.04) <= 2  # 11 if later turns did not update earlier items
    assert verify_store(tmp_path / "parts").problems == ()
    again = ingest(tmp_path / "parts", [log], load())
    assert (again.accepted, again.duplicates, again.items) == (0, 1, 0)


def items(store: Path) -> list[tuple[object, ...]]:
    columns = "id, session, branch_of, turns::VARCHAR, text, role, origin, vouched, project, time, ord, pinned"
    with run_statement(store, f"SELECT {columns} FROM items ORDER BY id") as found:
        return list(found.rows)


def worth(store: Path) -> np.ndarray:
    """Return salience and confidence of each item: float64[n, 2]."""
    with run_statement(store, "SELECT salience, confidence FROM items ORDER BY id") as found:
        return np.array(list(found.rows), np.float64)


def test_segments_are_merged_while_turns_arrive(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit adds a segment, which slows the next commit."""
    monkeypatch.setattr("pipelines.embedded.publisher.MERGE", 4)
    log, settings = tmp_path / "a.jsonl", load()
    inbox = Inbox(tmp_path / "store", settings)
    prepare_store(inbox.root, "auto")
    publisher, most = Publisher(inbox.root, settings), 0
    for turn in range(24):
        write(log, (str(turn), f"The walnuts of day {turn}"))
        publisher.add(accept_source(inbox, log, AcceptOptions()).documents)
        assert publisher.step(busy=True)
        most = max(most, len(load_current(inbox.root)[1].segments))  # type: ignore[union-attr]
    publisher.close()
    assert most < 20  # a merge takes as long as some commits
    assert is_recalled(inbox.root, "The walnuts of day 0")
    assert verify_store(inbox.root).problems == ()
