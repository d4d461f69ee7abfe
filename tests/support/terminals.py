"""Pseudo-terminals: what a command writes to one."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(handle: int) -> Iterator[bytearray]:
    """Collect the bytes of the other end until all of its writers have closed it."""
    written = bytearray()

    def read() -> None:
        while True:
            try:
                part = os.read(handle, 65_536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            written.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield written
    finally:
        reader.join(60)


def run_on_terminal(*arguments: object, columns: int = 100) -> str:
    """Run `helix` with stdout on a terminal; return what it writes there."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("helix")), *map(str, arguments)]
    environ = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with reading(ours) as written:
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environ, check=False, timeout=60)
        os.close(theirs)
    os.close(ours)
    assert done.returncode == 0
    return written.decode()


@contextmanager
def running_on_terminal(*arguments: object, **environ: str) -> Iterator[bytearray]:
    """Run `helix` with all its streams on a terminal; yield what it writes there; end it as Ctrl-C does."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("helix")), *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **environ}
    )
    os.close(theirs)
    with reading(ours) as written:
        try:
            yield written
            assert process.poll() is None, written.decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    os.close(ours)
