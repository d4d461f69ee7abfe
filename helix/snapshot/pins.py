"""Pins: claims of readers on the generations they have open, which end with the reader's process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import time
from pathlib import Path

import orjson

from helix.snapshot.paths import STALE, TEMPORARY, is_held


def pin_generation(root: Path, manifest: str) -> tuple[Path, int] | None:
    """Pin a generation: return (file of the pin, descriptor that holds it); None if the store cannot be written.

    Without a pin (read-only volume) a reader relies on the grace period of `gc`, and on its files being mapped.
    """
    path = root / "pins" / secrets.token_hex(8)
    hidden = path.with_name(f"{TEMPORARY}{path.name}")
    try:
        handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, orjson.dumps({"manifest": manifest, "pid": os.getpid(), "host": socket.gethostname()}))
        hidden.rename(path)  # gc sees it only when it is locked and complete
    except OSError:
        os.close(handle)
        hidden.unlink(missing_ok=True)
        return None
    return path, handle


def release_pin(path: Path, handle: int) -> None:
    """Release a pin. A forked process may still hold it: the last holder removes it."""
    os.close(handle)
    with contextlib.suppress(OSError):
        if not is_held(path):
            path.unlink(missing_ok=True)


def list_pinned(root: Path) -> set[str]:
    """Return the manifests that living readers have pinned, and remove the pins of dead readers."""
    names: set[str] = set()
    for path in (root / "pins").glob("*"):
        hidden = path.name.startswith(TEMPORARY)  # a pin in the making, or a leftover of a kill
        with contextlib.suppress(FileNotFoundError):  # just released
            if is_held(path):
                names.update([] if hidden else [str(orjson.loads(path.read_bytes())["manifest"])])
            elif not hidden or time.time() - path.stat().st_mtime > STALE:
                path.unlink()
    return names
