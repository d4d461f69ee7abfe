"""The query process says in its store where it listens (see `query.discovery_read`)."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from query.discovery_read import FILE

_LOOK = 1.0  # seconds


class Place:
    """The file, as the query process writes it."""

    def __init__(self, root: Path, token: str = "") -> None:
        self._path = root / FILE
        self._token = token
        self._handle = -1

    def take(self, host: str, port: int) -> bool:
        """Say where, unless another process does; whether it is said now.

        A store that is not there yet, or cannot be written, is no error: then nobody finds this process by its store.
        """
        if self._handle >= 0 and self._holds():
            return True
        self.leave()
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._holds():  # who had it removed it between the two
                raise FileNotFoundError
            os.ftruncate(self._handle, 0)
            said = {"pid": os.getpid(), "host": host, "port": port, "token": self._token}
            os.pwrite(self._handle, json.dumps(said).encode(), 0)
        except OSError:
            self._close()
            return False
        return True

    def leave(self) -> None:
        """Say so no longer."""
        if self._handle >= 0:
            with suppress(OSError):
                if self._holds():
                    self._path.unlink()
            self._close()

    def _holds(self) -> bool:
        """Whether what is held open is what others find there."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


class Announced:
    """Says where this process listens as long as it does: also where the store comes later, is put back from a backup,
    or was served by another process before.

    Args:
        token: what it takes for the owner's: whoever may read the store's files is.
    """

    def __init__(self, root: Path, token: str = "") -> None:
        self._place = Place(root, token)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, host: str, port: int) -> None:
        """From now on."""
        self._thread = threading.Thread(target=self._keep, args=(host, port), name="helix-place", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """No longer."""
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=5)

    def _keep(self, host: str, port: int) -> None:
        self._place.take(host, port)
        while not self._stop.wait(_LOOK):
            self._place.take(host, port)
        self._place.leave()
