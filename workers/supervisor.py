"""Supervision of processes for `helix up`: start, restart and end them."""

from __future__ import annotations

import ctypes
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from helix.errors import UsageError

PATIENCE: Final = 20.0
"""Seconds for a process to end by itself: more than a worker's soft shutdown."""

RESTART: Final = (1.0, 30.0)
"""Seconds before an ended process restarts: the first and the longest wait."""

MAX_REFUSALS: Final = 3
"""Ends in a row with the status of wrong usage, each soon after the start, that end `helix up`."""

log = logging.getLogger("helix.up")

_LOOK: Final = 0.2  # seconds
_PDEATHSIG: Final = 1  # prctl(2)


class StopFlag:
    """A flag that Ctrl-C, SIGTERM and SIGHUP set."""

    def __init__(self) -> None:
        self.is_set = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self.is_set = True


@dataclass
class SupervisedProcess:
    """One process, restarted when it ends."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    wait: float = RESTART[0]  # seconds before the next start
    due: float = 0.0
    refusals: int = 0  # ends in a row by wrong usage

    def check(self, now: float) -> None:
        """Start the process if it does not run and its wait is over.

        Raises:
            UsageError: it ended by wrong usage several times in a row.
        """
        if self.process is not None and (status := self.process.poll()) is not None:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            log.warning("%s ended (%s)", self.name, how)
            lasted = now - self.began > RESTART[1]
            self.wait = RESTART[0] if lasted else min(2 * self.wait, RESTART[1])
            self.refusals = self.refusals + 1 if status == UsageError.exit_status and not lasted else 0
            self.due, self.process = now + self.wait, None
            if self.refusals == MAX_REFUSALS:
                raise UsageError(
                    f"{self.name} ended {MAX_REFUSALS} times in a row because it cannot run as it is called",
                    f"it says why above; by hand: {shlex.join(self.command)}",
                )
        if self.process is None and now >= self.due:
            self.process, self.began = start_process(self.command, self.environ), now


def start_process(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one. Its own session keeps Ctrl-C from it; `end` stops it."""
    return subprocess.Popen(
        command,
        env=dict(environ),
        stdout=subprocess.DEVNULL,  # messages go to stderr
        start_new_session=True,
        preexec_fn=_end_with(os.getpid()),
    )


def _end_with(parent: int) -> Callable[[], None] | None:
    """Let Linux end a process with its parent; elsewhere only an orderly end of the parent does."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def request_signal() -> None:
        libc.prctl(_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent has already ended
            os._exit(1)

    return request_signal


def supervise(processes: Sequence[SupervisedProcess], stop: StopFlag) -> None:
    """Run all processes until the flag is set, then end them and all that they started.

    Raises:
        UsageError: one of them cannot start as it is called; the others are ended, too.
    """
    try:
        while not stop.is_set:
            for process in processes:
                process.check(time.monotonic())
            time.sleep(_LOOK)
        log.info("ending")
    finally:
        # The broker ends last: workers return their unfinished messages.
        end([process.process for process in processes if process.process and process.name != "redis"])
        end([process.process for process in processes if process.process and process.name == "redis"])


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and all that they started, by force after PATIENCE."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("process %d is killed: it did not end", process.pid)
        _kill_session(process.pid)
        process.wait()


def _kill_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
