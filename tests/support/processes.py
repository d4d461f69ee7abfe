"""Processes of tests: ports, waits, and processes that are left."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.paths import ROOT

HELIX = (sys.executable, "-m", "helix.cli")
"""The command `helix`."""


def list_processes(mark: str) -> list[int]:
    """Return every living process whose environment has this `NAME=value`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{mark}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def start_helix(log: Path, *words: object, **environ: str) -> subprocess.Popen[bytes]:
    """Start `helix WORDS` in a session of its own; append its output to a log."""
    command = [*HELIX, *map(str, words)]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env={**os.environ, **environ}, stdout=output, stderr=output, start_new_session=True
        )


def compile_library(name: str, folder: Path) -> Path:
    """Compile `tests/support/NAME.c` to a library for LD_PRELOAD."""
    library, source = folder / f"{name}.so", ROOT / "tests" / "support" / f"{name}.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def pick_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_connect(port: int) -> bool:
    """Return whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


def wait_until(seconds: float, condition: Callable[[], object], log: Path | Callable[[], str] = str) -> float:
    """Wait until a condition holds; return the seconds it took. A failure shows the end of the log."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            text = log.read_text(errors="replace") if isinstance(log, Path) else log()
            raise AssertionError(f"not within {seconds} s\n{text[-8_000:]}")
        time.sleep(0.05)
    return time.monotonic() - began
