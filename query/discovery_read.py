"""Where the query process of a store listens: a file in the store says so for as long as its lock is held.

Whoever reads it needs no configuration, and never takes a port for Helix's that another program has got since: the
lock goes with the process that held it, however that ended.
"""

from __future__ import annotations

import fcntl
import json
import os

FILE = "serve.json"


def listening(root: str) -> tuple[str, int, str] | None:
    """(host, port, the owner's token) of the process that serves this store; None where there is none."""
    try:
        handle = os.open(f"{root}/{FILE}", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # nobody holds it
    except BlockingIOError:
        said = json.loads(os.pread(handle, 4096, 0))
        return str(said["host"]), int(said["port"]), str(said.get("token", ""))
    finally:
        os.close(handle)
