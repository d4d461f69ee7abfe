"""Pins: a reader's claim on the generation it has open, which dies with the reader."""

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
    """Claim a generation: the pin and the descriptor that holds it; None where the store cannot be written.

    Such a reader (a read-only volume) relies on the grace period of `gc`, and on having every file mapped already.
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
        hidden.rename(path)  # seen by gc only once it is held and says what it holds
    except OSError:
        os.close(handle)
        hidden.unlink(missing_ok=True)
        return None
    return path, handle


def release_pin(path: Path, handle: int) -> None:
    """Give a claim up. A fork of this process may hold it too: it goes with the last of them."""
    os.close(handle)
    with contextlib.suppress(OSError):
        if not is_held(path):
            path.unlink(missing_ok=True)


def list_pinned(root: Path) -> set[str]:
    """Manifests that living readers have open; the pins of dead ones are removed."""
    names: set[str] = set()
    for path in (root / "pins").glob("*"):
        hidden = path.name.startswith(TEMPORARY)  # about to become a pin, or left by a kill
        with contextlib.suppress(FileNotFoundError):  # given up this very moment
            if is_held(path):
                names.update([] if hidden else [str(orjson.loads(path.read_bytes())["manifest"])])
            elif not hidden or time.time() - path.stat().st_mtime > STALE:
                path.unlink()
    return names
