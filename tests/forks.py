"""The `helix` command without its start: a process that has imported what commands import forks one for each call.

A call is a process of its own as ever: its own environment, folder, output, status and end, a kill included. What it
does not do is import for up to a second, which over five hundred calls was minutes of the tests' time.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

import orjson

WARM = (
    *("helix.memory", "helix.snapshot.sql", "helix.snapshot.sync", "helix.snapshot.verify"),
    *("pipelines.compact", "pipelines.forget", "pipelines.ingest", "pipelines.reindex"),
    *("celery", "faiss", "onnxruntime", "pyarrow.fs", "pyarrow.parquet", "sklearn.neural_network", "tokenizers"),
)
"""Imported once; none of them reads a setting, or starts a thread that a call would miss before it ends."""

_INT = struct.Struct("i")


def run(
    place: Path, arguments: Sequence[str], environ: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Call `helix` as `subprocess.run` would: in this folder, with its output caught.

    Args:
        place: where `serve` listens.

    Raises:
        TimeoutExpired: it took longer than `timeout` seconds, and was killed.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, socket.socket(socket.AF_UNIX) as server:
        server.connect(str(place))
        asked = orjson.dumps([list(arguments), dict(environ), str(Path.cwd())])
        socket.send_fds(server, [_INT.pack(len(asked))], [out.fileno(), err.fileno()])
        server.sendall(asked)
        (child,) = _INT.unpack(_read(server, _INT.size))
        server.settimeout(timeout)
        try:
            (status,) = _INT.unpack(_read(server, _INT.size))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["helix", *arguments], timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            ["helix", *arguments], os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()
        )


@contextlib.contextmanager
def forking(place: Path, *before: str) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Listen at `place` for a while; gives `run` for there. `before` are words to put before the server's command."""
    command = [*before, sys.executable, "-m", "tests.forks", str(place)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not place.exists():
            assert process.poll() is None, "see stderr"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield partial(run, place)
    finally:
        process.terminate()
        process.wait(10)


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += (more := connection.recv(size - len(found)))
        assert more, "the other side went away"
    return found


def serve(place: Path) -> None:
    """Accept calls; returns in the process that is to be one, never in the one that was started."""
    for name in WARM:
        importlib.import_module(name)
    for command in entry_points(group="helix.commands"):
        if not command.value.startswith("workers"):  # the application takes its broker's address when it is imported
            command.load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what waits for a call is waited for by nobody
    with socket.socket(socket.AF_UNIX) as listening:
        unheard = place.with_suffix(".unheard")
        listening.bind(str(unheard))
        listening.listen(64)
        unheard.rename(place)
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                break
            connection.close()
    _answer(connection)


def _answer(connection: socket.socket) -> None:
    """In a process that waits for one call; returns in the call's own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, *_ = socket.recv_fds(connection, _INT.size, 2)
    arguments, environ, folder = orjson.loads(_read(connection, *_INT.unpack(size)))
    if child := os.fork():
        connection.sendall(_INT.pack(child))
        connection.sendall(_INT.pack(os.waitpid(child, 0)[1]))
        os._exit(0)
    connection.close()
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    sys.argv = [str(Path(sys.executable).with_name("helix")), *arguments]


def become() -> NoReturn:
    """The console script, with fresh streams, to its end. To take down what was imported would take longer than most
    calls, and threads that were not forked would be waited for.
    """
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 — till the end
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    try:
        from helix.cli import main

        status = main()
    except SystemExit as ended:  # argparse's
        status = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 — as at the top of any program
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
    become()
