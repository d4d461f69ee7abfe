"""`helix up`: all of it on one machine, and nothing of it left behind; and what docker-compose.yml would start."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

import helix
from helix.errors import UsageError
from helix.snapshot.ledger import inbox as ledger
from tests.crash.test_kill import items, write_log
from tests.support.chat_server import chatting
from tests.support.fleet import FAST, HELIX, Redis, free_port, within
from tests.support.paths import ROOT
from workers.supervisor import SERVICES, Service, supervise

COMPOSE = ROOT / "docker-compose.yml"


def children(session: int) -> list[int]:
    """Every living process that goes back to one, by what it inherited."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"UP_TEST={session}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@contextmanager
def up(root: Path, log: Path, *options: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`helix up`, and the mark that all of its processes carry."""
    mark = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*HELIX, "up", "--store", str(root), *options],
            env={**os.environ, **FAST, "UP_TEST": str(mark), **environ},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process, mark
    finally:
        for left in children(mark):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process.wait(10)


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def standing(pid: int) -> tuple[int, int | None]:
    """How nice a process is, and its session; None where the kernel does not share out by them."""
    path = Path(f"/proc/{pid}/autogroup")
    return os.getpriority(os.PRIO_PROCESS, pid), int(path.read_text().split()[-1]) if path.exists() else None


def said(log: Path) -> str:
    return log.read_text(errors="replace")[-6_000:]


def texts(url: str) -> list[str]:
    with urllib.request.urlopen(url) as answer:
        return [item["text"] for item in json.load(answer)["items"]]


def ready(log: Path, workers: int = 6) -> bool:
    told = log.read_text(errors="replace")
    return told.count("ready.") == workers and "Application startup complete" in told


@pytest.fixture
def redis_is_there() -> None:
    import shutil

    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: run `make redis`")


def test_all_on_one_machine_and_nothing_left_of_it(tmp_path: Path, cache: Path, redis_is_there: None) -> None:
    root, log, port, metrics = tmp_path / "store", tmp_path / "log", free_port(), free_port()
    options = ("--port", str(port), "--metrics-port", str(metrics))
    with (
        chatting() as chat,
        up(root, log, *options, HELIX_DEEP_URL=chat.url, HELIX_DEEP_MODEL="good") as (process, mark),
    ):
        within(90, lambda: ready(log, workers=7), lambda: said(log))
        told = re.search(r"export HELIX_STORE=(\S+) HELIX_REDIS_URL=(\S+)", log.read_text())
        environ = {"HELIX_STORE": told[1], "HELIX_REDIS_URL": told[2]}
        path = write_log(tmp_path / "a.jsonl", "a", ["we chose parsley over dill"])
        sent = subprocess.run(
            [*HELIX, "enqueue", str(path), "--json"], env={**os.environ, **environ}, capture_output=True, text=True
        )
        assert json.loads(sent.stdout)["queued"] == 1, sent.stderr
        within(60, lambda: not ledger.pending(root), lambda: said(log))
        recall = f"http://127.0.0.1:{port}/v1/recall?query=parsley"
        within(10, lambda: texts(recall) == ["we chose parsley over dill"], lambda: said(log))
        deep = helix.connect(f"http://127.0.0.1:{port}").recall("which herb did we choose", tier="deep")
        assert (deep.degraded, len(chat.asked())) == ((), 3)  # nobody said that memories may be sent
        # What a socket of its own cannot be reached by: other users.
        assert Path(told[2].removeprefix("redis+socket://")).parent.stat().st_mode & 0o077 == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
            measured = answer.read().decode()
        assert "helix_items_enriched_total 1.0" in measured, measured
        assert 'helix_tasks_total{outcome="done",task="commit"}' in measured
        assert 'helix_documents{state="done"} 1.0' in measured
        assert 'helix_queue_messages{queue="bulk"} 0.0' in measured

        # What nobody waits for stands behind the rest, whatever the kernel shares the cores out by.
        for queue, nice in (("bulk", 19), ("maintain", 19), ("expand", 19), ("enrich", 0), ("commit", 0)):
            found = {standing(pid) for pid in children(mark) if f"--queues\0{queue}\0".encode() in command(pid)}
            assert found <= {(nice, nice), (nice, None)} != set(), (queue, found)

        # A process that dies is started again.
        worker = next(pid for pid in children(mark) if b"enrich" in command(pid))
        os.kill(worker, signal.SIGKILL)
        within(60, lambda: log.read_text().count("ready.") == 8, lambda: said(log))
        assert "enrich ended (signal 9)" in log.read_text()

        assert len(children(mark)) > 10
        began = time.monotonic()
        process.send_signal(signal.SIGINT)  # Ctrl-C
        assert process.wait(40) == 0
        took = time.monotonic() - began
        assert children(mark) == []
        assert took < 20, took
        assert "Traceback" not in log.read_text()
    assert items(root) == {"a#a:0": "we chose parsley over dill"}


@pytest.mark.soak
def test_a_kill_of_up_leaves_no_orphan(tmp_path: Path, cache: Path, redis_is_there: None) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    with up(root, log, "--port", str(free_port())) as (process, mark):
        within(90, lambda: ready(log), lambda: said(log))
        os.kill(process.pid, signal.SIGKILL)
        within(30, lambda: children(mark) == [], lambda: str(children(mark)))


class Until:
    """Told to stop once a file has so many lines."""

    def __init__(self, path: Path, lines: int) -> None:
        self.path, self.lines = path, lines

    @property
    def wanted(self) -> bool:
        return self.path.exists() and len(self.path.read_text().splitlines()) >= self.lines


def ending(starts: Path, *statuses: int) -> list[str]:
    """A command that notes each start and ends with the next status, the last of them for ever; -1: it stays."""
    code = (
        "import sys, time; from pathlib import Path; starts, *statuses = sys.argv[1:]\n"
        "with open(starts, 'a') as file: file.write('started\\n')\n"
        "begun = len(Path(starts).read_text().splitlines())\n"
        "status = int(statuses[min(begun, len(statuses)) - 1])\n"
        "time.sleep(600) if status < 0 else sys.exit(status)"
    )
    return [sys.executable, "-c", code, str(starts), *map(str, statuses)]


def test_what_cannot_run_as_it_is_called_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.supervisor.RESTART", (0.01, 600.0))
    wrong = Service("query", ending(tmp_path / "wrong", 2), os.environ, waits=0.01)
    other = Service("commit", ending(tmp_path / "other", -1), os.environ)
    with pytest.raises(UsageError, match=r"query ended 3 times in a row .*above; by hand: .* 2$") as told:
        supervise([other, wrong], Until(tmp_path / "wrong", 10))
    assert told.value.exit_status == 2
    assert len((tmp_path / "wrong").read_text().splitlines()) == 3
    assert other.process is not None
    assert other.process.poll() is not None


def test_what_fails_otherwise_is_started_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.supervisor.RESTART", (0.01, 0.01))
    for name, statuses in (("broken", (1,)), ("now and then", (1, 1, 4, 1, 1, 4))):
        supervise(
            [Service(name, ending(tmp_path / name, *statuses), os.environ, waits=0.01)], Until(tmp_path / name, 5)
        )
    monkeypatch.setattr("workers.supervisor.RESTART", (0.01, 600.0))
    service = Service("taken", ending(tmp_path / "taken", 2, 2, 1, 2, 2, -1), os.environ, waits=0.01)
    supervise([service], Until(tmp_path / "taken", 6))


def test_ports_are_checked_before_anything_starts(tmp_path: Path, run_helix) -> None:
    calls = [(*words, wrong) for words in PORTS for wrong in ("99999", "-1", "http", "１２", "")]
    found = {
        call: run_helix(*call, "--store", tmp_path / "store", HELIX_REDIS_URL="redis://127.0.0.1:1") for call in calls
    }
    said = {call: (done.returncode, done.stderr) for call, done in found.items()}
    assert {
        call: told for call, told in said.items() if told[0] != 2 or "give a number from 0 to 65535" not in told[1]
    } == {}
    assert not (tmp_path / "store").exists()


PORTS = [("up", "--port"), ("up", "--metrics-port"), ("worker", "--metrics-port"), ("serve", "--port")]


@pytest.mark.soak
def test_a_port_that_is_taken_ends_up(tmp_path: Path, cache: Path, redis_is_there: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with up(tmp_path / "store", tmp_path / "log", "--port", port) as (process, mark):
            assert process.wait(120) == 2, said(tmp_path / "log")
            assert children(mark) == []
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert "helix up: query ended 3 times in a row" in last
    assert f"cannot listen on 127.0.0.1:{port}" in (tmp_path / "log").read_text()


def test_without_a_redis_server_it_says_so(tmp_path: Path, run_helix) -> None:
    told = run_helix("up", "--store", tmp_path / "store", PATH=str(tmp_path))
    assert told.returncode == 2
    assert "redis-server is not installed" in told.stderr
    assert "HELIX_REDIS_URL" in told.stderr


def test_the_commands_of_the_compose_file_start(tmp_path: Path, cache: Path) -> None:
    """Each as it stands there, but for the places that are a container's own."""
    redis = Redis(tmp_path / "redis")
    redis.start()
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    running: dict[str, subprocess.Popen[bytes]] = {}
    port = free_port()
    try:
        for name in SERVICES:
            command = shlex.split(services[name]["command"])[1:]
            command = [str(free_port()) if word == "9808" else word for word in command]
            command = [{"0.0.0.0": "127.0.0.1", "8765": str(port)}.get(word, word) for word in command]
            own = {key: value for key, value in services[name]["environment"].items() if not value.startswith("$")}
            own = {key: value for key, value in own.items() if key not in ("HELIX_CACHE", "HF_HOME")}
            place = {"HELIX_STORE": str(tmp_path / "store"), "HELIX_REDIS_URL": redis.url}
            place["HELIX_ALIVE"] = str(tmp_path / f"{name}.alive")
            if name == "deep":
                place |= {"HELIX_DEEP_URL": "http://127.0.0.1:9/v1", "HELIX_DEEP_MODEL": "none"}
            with (tmp_path / f"{name}.log").open("wb") as output:
                running[name] = subprocess.Popen(
                    [*HELIX, *command],
                    env={**os.environ, **FAST, **own, **place},
                    stderr=output,
                    stdout=output,
                    start_new_session=True,
                )
        for name in set(SERVICES) - {"beat", "query"}:
            log = tmp_path / f"{name}.log"
            within(90, lambda log=log: "ready." in log.read_text(), log.read_text)
        within(60, lambda: "beat begins" in (tmp_path / "beat.log").read_text(), (tmp_path / "beat.log").read_text)
        within(60, lambda: "Application startup complete" in (tmp_path / "query.log").read_text())
        # The checks of their health are what they are in a container.
        for name in ("enrich", "beat", "query"):
            _, _, *check = services[name]["healthcheck"]["test"]
            code = check[-1].replace("8765", str(port)).replace("/tmp/alive", str(tmp_path / f"{name}.alive"))
            environ = {"QUEUE": name, "HELIX_REDIS_URL": redis.url, "HELIX_STORE": str(tmp_path / "store")}
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True)
            assert done.returncode == 0, (name, done.stderr)
        os.killpg(running["enrich"].pid, signal.SIGKILL)
        touched = tmp_path / "enrich.alive"
        os.utime(touched, (time.time() - 90,) * 2)  # as long ago as nobody touches it any more
        code = services["enrich"]["healthcheck"]["test"][-1].replace("/tmp/alive", str(touched))
        assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 1
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        redis.kill()
