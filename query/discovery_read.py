"""The address of a store's query process, read from a file in the store that counts while its lock is held.

Readers need no configuration. A dead process holds no lock, so a reader never takes a port that another program reuses.
"""

from __future__ import annotations

import fcntl
import json
import os

FILE = "serve.json"


def read_address(root: str) -> tuple[str, int, str] | None:
    """Return (host, port, owner's token) of the process that serves this store; None without one."""
    try:
        handle = os.open(f"{root}/{FILE}", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # the lock is free: its process ended
    except BlockingIOError:
        fields = json.loads(os.pread(handle, 4096, 0))
        return str(fields["host"]), int(fields["port"]), str(fields.get("token", ""))
    finally:
        os.close(handle)


def get_local_address(host: str) -> str:
    """Return the address to dial for a host that a process of this machine listens on."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
