"""The publisher of accepted notes: `helix ingest --pending` in a process of its own."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

logger = logging.getLogger("helix.query")

_COMMAND: Final = (sys.executable, "-P", "-m", "helix.cli", "ingest", "--pending", "--store")


class NotePublisher:
    """Publishes what waits in a store's inbox: one process at a time, and one more for what came meanwhile.

    So many notes in a row do not start as many processes. What no process publishes stays in the inbox, for the next
    ingest.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._is_due = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Publish what was accepted until now, soon."""
        with self._lock:
            if self._process is not None:
                self._is_due = True
                return
            self._process = self._open()
            if self._process is None:
                return
        threading.Thread(target=self._follow, name="helix-publish", daemon=True).start()

    def stop(self) -> None:
        """Leave what is due to a process that outlives this one."""
        with self._lock:
            if self._is_due:
                self._is_due = False
                self._open()

    def _follow(self) -> None:
        """Wait for the process, and start another while something is due."""
        while True:
            process = self._process
            if process is not None:
                process.wait()
            with self._lock:
                self._process = self._open() if self._is_due else None
                self._is_due = False
                if self._process is None:
                    return

    def _open(self) -> subprocess.Popen[bytes] | None:
        """Start a process; None where none can be started: what is accepted waits in the inbox."""
        log, command, nothing = self._root / "logs", [*_COMMAND, str(self._root)], subprocess.DEVNULL
        try:
            log.mkdir(mode=0o700, exist_ok=True)
            with (log / "publish.log").open("ab") as out:
                return subprocess.Popen(command, stdin=nothing, stdout=out, stderr=out, start_new_session=True)
        except OSError as error:
            logger.warning("notes wait for 'helix ingest --pending': %s", error)
            return None
