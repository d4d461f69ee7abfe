"""The query process's announcement of its address in its store (read by `query.discovery_read`)."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from query.discovery_read import FILE

_INTERVAL = 1.0  # seconds between two claims


class AddressFile:
    """The address file of one store, held by at most one process.

    Args:
        token: the owner's key for this process; the file's reader may read the whole store anyway.
    """

    def __init__(self, root: Path, token: str = "") -> None:
        self._path = root / FILE
        self._token = token
        self._handle = -1

    def claim(self, host: str, port: int) -> bool:
        """Write the address unless another process holds the file; return whether this process holds it.

        A missing or unwritable store is no error: then readers cannot find this process by its store.
        """
        if self._handle >= 0 and self._is_current():
            return True
        self.release()
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_current():  # its last holder removed it between the open and the lock
                raise FileNotFoundError
            os.ftruncate(self._handle, 0)
            fields = {"pid": os.getpid(), "host": host, "port": port, "token": self._token}
            os.pwrite(self._handle, json.dumps(fields).encode(), 0)
        except OSError:
            self._close()
            return False
        return True

    def release(self) -> None:
        """Remove the file if this process holds it."""
        if self._handle >= 0:
            with suppress(OSError):
                if self._is_current():
                    self._path.unlink()
            self._close()

    def _is_current(self) -> bool:
        """Return whether the open file is the one at the path."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


class Announcer:
    """A thread that claims the address file again and again.

    So it also announces in a store that appears later, returns from a backup, or loses its previous server.
    """

    def __init__(self, root: Path, token: str = "") -> None:
        self._file = AddressFile(root, token)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> None:
        """Announce an address from now on."""
        thread = threading.Thread(target=self._run, args=(host, port), name="helix-place", daemon=True)
        thread.start()
        self._thread = thread  # once it runs, so that a stop at the same moment joins a started one

    def stop(self) -> None:
        """End the announcement."""
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=5)

    def _run(self, host: str, port: int) -> None:
        self._file.claim(host, port)
        while not self._stop.wait(_INTERVAL):
            self._file.claim(host, port)
        self._file.release()
