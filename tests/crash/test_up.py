"""`helix up` runs everything on one machine and leaves no process; the commands of docker-compose.yml start."""

from __future__ import annotations

import json
import os
import shlex
import shutil
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
from helix.snapshot.ledger import inbox
from tests.crash.test_kill import items, write_log
from tests.support.chat_server import chatting
from tests.support.fleet import FAST, Redis
from tests.support.paths import ROOT
from tests.support.processes import HELIX, list_processes, pick_port, start_helix, wait_until
from workers.cli.up import SERVICES
from workers.supervisor import SupervisedProcess, supervise

COMPOSE = ROOT / "docker-compose.yml"


@contextmanager
def start_up(root: Path, log: Path, *options: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`helix up`, and the mark in the environment of all its processes."""
    mark = pick_port()
    process = start_helix(log, "up", "--store", root, *options, **{**FAST, "UP_TEST": str(mark), **environ})
    try:
        yield process, f"UP_TEST={mark}"
    finally:
        for left in list_processes(f"UP_TEST={mark}"):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process.wait(60)


def read_command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def read_priority(pid: int) -> tuple[int, int | None]:
    """Return the niceness of a process and of its session; None without autogroups."""
    path = Path(f"/proc/{pid}/autogroup")
    return os.getpriority(os.PRIO_PROCESS, pid), int(path.read_text().split()[-1]) if path.exists() else None


def is_ready(log: Path, workers: int = 6) -> bool:
    text = log.read_text(errors="replace")
    return text.count("ready.") == workers and "Application startup complete" in text


@pytest.fixture
def redis_is_installed() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: run `make redis`")


def test_up_runs_everything_and_leaves_no_process(tmp_path: Path, cache: Path, redis_is_installed: None) -> None:
    root, log, port, metrics = tmp_path / "store", tmp_path / "log", pick_port(), pick_port()
    options = ("--port", str(port), "--metrics-port", str(metrics))
    with (
        chatting() as chat,
        start_up(root, log, *options, HELIX_DEEP_URL=chat.url, HELIX_DEEP_MODEL="good") as (process, mark),
    ):
        wait_until(90, lambda: is_ready(log, workers=7), log)
        begun = next(json.loads(line) for line in log.read_text().splitlines() if '"logger":"helix.up"' in line)
        store, url = begun["store"], begun["broker"]
        environ = {**os.environ, "HELIX_STORE": store, "HELIX_REDIS_URL": url}
        path = write_log(tmp_path / "a.jsonl", "a", ["we chose parsley over dill"])
        sent = subprocess.run([*HELIX, "enqueue", str(path), "--json"], env=environ, capture_output=True, text=True)
        assert json.loads(sent.stdout)["queued"] == 1, sent.stderr
        wait_until(60, lambda: not inbox.list_pending(root), log)

        def recall() -> list[str]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/recall?query=parsley") as answer:
                return [item["text"] for item in json.load(answer)["items"]]

        wait_until(60, lambda: recall() == ["we chose parsley over dill"], log)
        deep = helix.connect(f"http://127.0.0.1:{port}").recall("which herb did we choose", tier="deep")
        assert (deep.degraded, len(chat.list_requests())) == ((), 3)  # no project's memories may be sent
        # Other users cannot reach the socket.
        assert Path(url.removeprefix("redis+socket://")).parent.stat().st_mode & 0o077 == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
            measured = answer.read().decode()
        assert "helix_items_enriched_total 1.0" in measured, measured
        assert 'helix_tasks_total{outcome="done",task="commit"}' in measured
        assert 'helix_documents{state="done"} 1.0' in measured
        assert 'helix_queue_messages{queue="bulk"} 0.0' in measured

        # Background queues have the lowest priority, by process or by session.
        for queue, nice in (("bulk", 19), ("maintain", 19), ("expand", 19), ("enrich", 0), ("commit", 0)):
            option = f"--queues\0{queue}\0".encode()
            found = {read_priority(pid) for pid in list_processes(mark) if option in read_command(pid)}
            assert found <= {(nice, nice), (nice, None)} != set(), (queue, found)

        # A process that dies is started again.
        worker = next(pid for pid in list_processes(mark) if b"enrich" in read_command(pid))
        os.kill(worker, signal.SIGKILL)
        wait_until(60, lambda: log.read_text().count("ready.") == 8, log)
        assert "enrich ended (signal 9)" in log.read_text()

        assert len(list_processes(mark)) > 10
        process.send_signal(signal.SIGINT)  # Ctrl-C
        assert process.wait(40) == 0
        wait_until(60, lambda: list_processes(mark) == [], lambda: str(list_processes(mark)))
        assert "Traceback" not in log.read_text()
    assert items(root) == {"a#a:0": "we chose parsley over dill"}


@pytest.mark.soak
def test_a_killed_up_leaves_no_orphan(tmp_path: Path, cache: Path, redis_is_installed: None) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    with start_up(root, log, "--port", str(pick_port())) as (process, mark):
        wait_until(90, lambda: is_ready(log), log)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(60, lambda: list_processes(mark) == [], lambda: str(list_processes(mark)))


class StopAtLines:
    """A stop flag that is set once a file has so many lines."""

    def __init__(self, path: Path, lines: int) -> None:
        self.path, self.lines = path, lines

    @property
    def is_set(self) -> bool:
        return self.path.exists() and len(self.path.read_text().splitlines()) >= self.lines


def make_process(name: str, starts: Path, *statuses: int, wait: float = 0.01) -> SupervisedProcess:
    """A process that notes each start and ends with the next status, the last one for ever; -1: it stays."""
    code = """
        echo >> "$0"; begun=$(wc -l < "$0"); shift $(((begun < $# ? begun : $#) - 1))
        [ "$1" -ge 0 ] || exec sleep 600; exit "$1"
    """
    command = ["sh", "-c", code, str(starts), *map(str, statuses)]
    return SupervisedProcess(name, command, os.environ, wait=wait)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits between starts and between looks."""
    monkeypatch.setattr("workers.supervisor.RESTART", (0.01, 600.0))
    monkeypatch.setattr("workers.supervisor._LOOK", 0.02)


def test_a_process_that_is_called_wrongly_ends_all(tmp_path: Path, hurry: None) -> None:
    wrong, other = make_process("query", tmp_path / "wrong", 2), make_process("commit", tmp_path / "other", -1)
    with pytest.raises(UsageError, match=r"query ended 3 times in a row .*above; by hand: .* 2$") as error:
        supervise([other, wrong], StopAtLines(tmp_path / "wrong", 10))
    assert error.value.exit_status == 2
    assert len((tmp_path / "wrong").read_text().splitlines()) == 3
    assert other.process.poll() is not None


def test_other_failures_are_started_again_and_again(
    tmp_path: Path, hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise([make_process("used", tmp_path / "used", 2, 2, 1, 2, 2, -1)], StopAtLines(tmp_path / "used", 6))
    monkeypatch.setattr("workers.supervisor.RESTART", (0.01, 0.01))
    for name, statuses in (("broken", (1,)), ("now and then", (1, 1, 4, 1, 1, 4))):
        supervise([make_process(name, tmp_path / name, *statuses)], StopAtLines(tmp_path / name, 5))


def test_ports_are_checked_before_anything_starts(tmp_path: Path, run_helix) -> None:
    failed = {}
    calls = [("up", "--port", wrong) for wrong in ("-1", "http", "１２", "")]
    calls += [(*words.split(), "99999") for words in ("up --metrics-port", "worker --metrics-port", "serve --port")]
    for call in calls:
        done = run_helix(*call, "--store", tmp_path / "store", HELIX_REDIS_URL="redis://127.0.0.1:1")
        if done.returncode != 2 or "give a number from 0 to 65535" not in done.stderr:
            failed[call] = (done.returncode, done.stderr)
    assert failed == {}
    assert not (tmp_path / "store").exists()


@pytest.mark.soak
def test_a_port_that_is_used_ends_up(tmp_path: Path, cache: Path, redis_is_installed: None) -> None:
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with start_up(tmp_path / "store", log, "--port", port) as (process, mark):
            assert process.wait(120) == 2, log.read_text()
            wait_until(60, lambda: list_processes(mark) == [], lambda: str(list_processes(mark)))
    assert "helix up: query ended 3 times in a row" in log.read_text().splitlines()[-1]
    assert f"cannot listen on 127.0.0.1:{port}" in log.read_text()


def test_without_a_redis_server_up_says_so(tmp_path: Path, run_helix) -> None:
    done = run_helix("up", "--store", tmp_path / "store", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "redis-server is not installed" in done.stderr
    assert "HELIX_REDIS_URL" in done.stderr


@pytest.mark.soak
def test_the_commands_of_the_compose_file_start(tmp_path: Path, cache: Path) -> None:
    """Each command and health check is as in the file, except for ports and paths."""
    redis = Redis(tmp_path / "redis")
    redis.start()
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    running: dict[str, subprocess.Popen[bytes]] = {}
    place = {"HELIX_STORE": str(tmp_path / "store"), "HELIX_REDIS_URL": redis.url}
    logs = {name: tmp_path / f"{name}.log" for name in SERVICES}
    port = pick_port()

    def run_check(name: str, alive: Path) -> subprocess.CompletedProcess[bytes]:
        code = services[name]["healthcheck"]["test"][-1].replace("8765", str(port)).replace("/tmp/alive", str(alive))
        return subprocess.run([sys.executable, "-c", code], env={**os.environ, **place}, capture_output=True)

    try:
        for name, log in logs.items():
            words = shlex.split(services[name]["command"])[1:]
            words = [{"0.0.0.0": "127.0.0.1", "8765": str(port), "9808": str(pick_port())}.get(w, w) for w in words]
            own = {key: value for key, value in services[name]["environment"].items() if not value.startswith("$")}
            own = {key: value for key, value in own.items() if key not in ("HELIX_CACHE", "HF_HOME")}
            own |= {**place, "HELIX_ALIVE": str(tmp_path / f"{name}.alive")}
            if name == "deep":
                own |= {"HELIX_DEEP_URL": "http://127.0.0.1:9/v1", "HELIX_DEEP_MODEL": "none"}
            running[name] = start_helix(log, *words, **{**FAST, **own})
        signs = {"beat": "beat begins", "query": "Application startup complete"}
        for name, log in logs.items():
            wait_until(90, lambda name=name, log=log: signs.get(name, "ready.") in log.read_text(), log)
        for name in ("enrich", "beat", "query"):
            done = run_check(name, tmp_path / f"{name}.alive")
            assert done.returncode == 0, (name, done.stderr)
        os.killpg(running["enrich"].pid, signal.SIGKILL)
        touched = tmp_path / "enrich.alive"
        os.utime(touched, (time.time() - 90,) * 2)  # as if it had died long ago
        assert run_check("enrich", touched).returncode == 1
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        redis.kill()
