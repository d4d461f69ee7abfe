"""A replica's process: `helix pull --follow` next to a server, so that the server itself fetches and writes nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from helix.errors import UsageError
from helix.util.parents import PARENT
from helix.util.urls import find_store_url_fault

logger = logging.getLogger("helix.query")

INTERVAL: Final = 1.0
"""Seconds between two looks at the remote."""

_COMMAND: Final = (sys.executable, "-P", "-m", "helix.cli", "pull")
_AGAIN: Final = 2.0  # seconds before a process that ended is started again
_END: Final = 15.0  # seconds for a process to end


@contextmanager
def keep_replica(url: str, root: Path, *, many: bool = False) -> Iterator[None]:
    """Fetch the store published at a URL, words first, and follow it while the block runs.

    Args:
        many: `root` is the folder of many stores, each published at `url/NAME` and fetched when it is wanted.

    The process is started again where it ends, unless it is called wrongly, and ends with this one, however that ends.
    Its messages go to stderr.

    Raises:
        UsageError: no store can be at the URL.
    """
    if fault := find_store_url_fault(url, "--replica-of"):
        raise UsageError(*fault)
    stop = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    command = [*_COMMAND, url, "--stores" if many else "--store", str(root), "--follow", f"{INTERVAL:g}"]
    environ = {**os.environ, PARENT: str(os.getpid())}

    def watch() -> None:
        """Start the process, and again whenever it has ended."""
        while not stop.is_set():
            try:
                running[:] = [subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)]
            except OSError as error:  # memory or processes are short for the moment
                logger.error("the process that fetches the replica does not start: %s", error.strerror or error)
                stop.wait(_AGAIN)
                continue
            status = running[0].wait()
            if status == UsageError.exit_status:
                logger.error("no replica is fetched: see the message above")
                return
            if not stop.is_set():
                logger.error("the process that fetches the replica ended with status %d, and is started again", status)
                stop.wait(_AGAIN)

    thread = threading.Thread(target=watch, name="helix-replica", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        for process in running:
            process.terminate()
        thread.join(_END)
