"""Handing transcripts to `helix ingest`, or to `helix enqueue` with a broker, in a process that outlives the hook.

An agent hands the same transcript over after every answer. Per transcript one process works and one waits. The waiting
one will read everything written by then, so a third has nothing to do.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from helix.util.priority import lower_priority
from query.hooks.protocol import ENQUEUE, get_cache_folder, open_log

_POLL = 0.02  # seconds
_NICE = 10  # below the agent's own work


def start_ingest(root: str, paths: Sequence[str], project: str = "") -> str:
    """Start to ingest transcripts and return a note for the log. The first path names the session.

    Args:
        project: of every transcript; empty: as each transcript says.
    """
    has_broker = bool(os.environ.get("HELIX_REDIS_URL"))
    child = os.fork()
    if not child:
        command = ["enqueue" if has_broker else "ingest", *paths, "--store", root]
        _become_helix(root, paths[0], [*command, f"--project={project}"] if project else command)
    if not has_broker:
        return f"{len(paths)} handed to ingest"
    until = time.monotonic() + ENQUEUE
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return f"{len(paths)} handed to enqueue, status {os.waitstatus_to_exitcode(status)}"
        time.sleep(_POLL)
    return f"{len(paths)} handed to enqueue, still running"


def _become_helix(root: str, session: str, command: Sequence[str]) -> None:
    """Wait for this session's turn and become `helix`, in the child. Never return."""
    with suppress(BaseException):
        os.setsid()  # an agent that ends kills its own group
        _redirect_streams(root)
        lower_priority(_NICE)
        name = hashlib.sha256(os.fsencode(f"{root}\0{session}")).hexdigest()[:16]
        waiting = _lock_file(f"{name}.waiting", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if waiting is None:
            os._exit(0)
        working = _lock_file(f"{name}.working", fcntl.LOCK_EX)
        os.close(waiting)
        if working is not None:
            os.set_inheritable(working, True)  # held until `helix` ends
        # -P: modules in the agent's folder are not imported.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "helix.cli", *command])
    os._exit(70)


def _redirect_streams(root: str) -> None:
    """Release the agent's streams, and write to the log instead."""
    null, log = os.open(os.devnull, os.O_RDONLY), open_log(root)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _lock_file(name: str, operation: int) -> int | None:
    """Return a locked file of this user; None where another process holds it."""
    folder = f"{get_cache_folder()}/hooks"
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    handle = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
