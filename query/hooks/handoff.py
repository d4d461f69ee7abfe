"""Handing a transcript over: `helix ingest`, or `helix enqueue` where there is a broker, outlives the hook.

An agent comes with the same transcript after every answer. One process a transcript works at a time, and one more
waits for it: that one will read whatever is there by then, so whoever finds somebody waiting has nothing to do.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from helix.util.priority import stand_behind
from query.hooks.command import ENQUEUE, cache, open_log

_POLL = 0.02  # seconds
_NICE = 10  # the agent's own work goes first


def hand_over(root: str, paths: Sequence[str], project: str = "") -> str:
    """Begin to take transcripts in, the first of which names the session; what was done, in words.

    Args:
        project: of all of them; what each says where empty.
    """
    queue = bool(os.environ.get("HELIX_REDIS_URL"))
    child = os.fork()
    if not child:
        command = ["enqueue" if queue else "ingest", *paths, "--store", root]
        _work(root, paths[0], [*command, f"--project={project}"] if project else command)
    if not queue:
        return f"{len(paths)} handed to ingest"
    until = time.monotonic() + ENQUEUE
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return f"{len(paths)} handed to enqueue, status {os.waitstatus_to_exitcode(status)}"
        time.sleep(_POLL)
    return f"{len(paths)} handed to enqueue, which is still at work"


def _work(root: str, session: str, command: Sequence[str]) -> None:
    """In a process of its own: wait for the turn, and become `helix`. Never returns."""
    status = 70
    with suppress(BaseException):
        os.setsid()  # the agent ends its hooks when it ends
        _quiet(root)
        stand_behind(_NICE)
        name = hashlib.sha256(os.fsencode(f"{root}\0{session}")).hexdigest()[:16]
        waiting = _locked(f"{name}.waiting", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if waiting is None:
            os._exit(0)
        working = _locked(f"{name}.working", fcntl.LOCK_EX)
        os.close(waiting)
        if working is not None:
            os.set_inheritable(working, True)  # held until `helix` ends
        # -P: the folder the agent works in has no say in what is imported.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "helix.cli", *command])
    os._exit(status)


def _quiet(root: str) -> None:
    """Let go of what the agent waits for, and write to the log instead."""
    nothing, log = os.open(os.devnull, os.O_RDONLY), open_log(root)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _locked(name: str, how: int) -> int | None:
    """A lock file of this user, held; None where another process holds it."""
    folder = f"{cache()}/hooks"
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    handle = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
