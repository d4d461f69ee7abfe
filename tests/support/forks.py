"""The `helix` command without its start-up: a process with all imports forks one child for each call.

A call is a process of its own with its own environment, folder, output, status and end, a kill included. Imports would
take up to a second a call, and minutes over all tests.
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
    *("helix.sdk.memory", "helix.snapshot.sql", "helix.snapshot.replication.push", "helix.snapshot.verify"),
    *("pipelines.embedded.ingest", "pipelines.maintain.compact", "pipelines.maintain.forget"),
    "pipelines.maintain.reindex",
    *("celery", "faiss", "onnxruntime", "pyarrow.fs", "pyarrow.parquet", "sklearn.neural_network", "tokenizers"),
)
"""Modules to import once. None reads a setting, or starts a thread that a fork would lack."""

_INT = struct.Struct("i")


def run(
    server: socket.socket, arguments: Sequence[str], environ: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Call `helix` as `subprocess.run` would, in this folder, and capture its output.

    Args:
        server: the near end of the socket of `serve`.

    Raises:
        TimeoutExpired: the call took longer than `timeout` seconds, and was killed.
    """
    near, far = socket.socketpair()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, near:
        with far:
            socket.send_fds(server, [b"call"], [far.fileno(), out.fileno(), err.fileno()])
        call = orjson.dumps([list(arguments), dict(environ), str(Path.cwd())])
        near.sendall(_INT.pack(len(call)) + call)
        child = _read_int(near)
        near.settimeout(timeout)
        try:
            status = os.waitstatus_to_exitcode(_read_int(near))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["helix", *arguments], timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["helix", *arguments], status, out.read().decode(), err.read().decode())


@contextlib.contextmanager
def forking(*before: str) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Start a process that forks calls, and yield its `run`. Words of `before` precede its command."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [*before, sys.executable, "-m", "tests.support.forks", str(far.fileno())]
    with near:
        with far:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[far.fileno()])
        yield partial(run, near)
    process.wait(60)  # it ends when the socket closes


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += (more := connection.recv(size - len(data)))
        assert more, "the other side closed the connection"
    return data


def _read_int(connection: socket.socket) -> int:
    return int(*_INT.unpack(_read(connection, _INT.size)))


def serve(control: socket.socket) -> None:
    """Fork calls. It returns in the child that becomes a call, never in the process that was started."""
    for name in WARM:
        importlib.import_module(name)
    for command in entry_points(group="helix.commands"):
        if not command.value.startswith("workers"):  # the application reads its broker's address at import
            command.load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    while True:
        message, files, *_ = socket.recv_fds(control, 16, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            break
        for file in files:
            os.close(file)
    control.close()
    _answer(socket.socket(fileno=files[0]), files[1:])


def _answer(connection: socket.socket, files: Sequence[int]) -> None:
    """Read one call and fork; it returns in the child that runs the call."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    arguments, environ, folder = orjson.loads(_read(connection, _read_int(connection)))
    if child := os.fork():
        with contextlib.suppress(OSError):  # the caller has timed out
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
    """Run the console script with new streams, and exit.

    The exit skips the teardown of modules, which is slow and would wait for threads that were not forked.
    """
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 — open until the exit
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    try:
        from helix.cli.main import main

        status = main()
    except SystemExit as ended:  # argparse's
        status = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 — as Python does for any program
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    become()
