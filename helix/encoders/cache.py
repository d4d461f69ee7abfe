"""Exported models, made once and kept: by a process of their own, moved into place whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from helix.errors import EncoderError

PROBES: Final = (
    "The nightly backup failed because the disk was full, so we moved it to the larger volume and kept seven days.",
    "To restart the queue, stop the worker, wait until running tasks have finished, then start it with two processes.",
    "She said the flight to Lisbon leaves at nine on Friday and that the hotel near the station is already paid.",
    "def retry(call, times=3): tries the call again after a timeout and raises the last error when none succeeded.",
    "We chose a single file database over a server, since one writer is enough and nobody has to run it.",
    "The report is due on the last working day of the month; finance needs the figures two days before.",
)
"""What the int8 form of a model and its float one are compared on."""


def made_once(target: Path, mark: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` filled; two processes may do it at once.

    Args:
        target: the folder; its name says what it was made from.
        mark: the file whose presence says the folder is whole.
        make: fills an empty folder, `mark` included.

    Raises:
        EncoderError: the folder cannot be written; what `make` raises.
    """
    if (target / mark).is_file():
        return target
    folder: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
        make(folder)
        with contextlib.suppress(FileExistsError):  # the first one to finish wins
            folder.rename(target)
    except OSError as error:
        if not (target / mark).is_file():  # ENOTEMPTY: the other process won
            raise EncoderError(f"cannot keep the exported model in {target}: {error}", "set HELIX_CACHE") from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return target


def export_apart(module: str, source: Path, target: Path, *options: str, name: str, remedy: str) -> None:
    """Run a module's export from `source` to `target`, so that what it loads leaves with it.

    Raises:
        EncoderError: it failed; the last line of its output is in the message.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, str(source), str(target), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise EncoderError(f"exporting {name} from {source} failed: {lines[-1]}", remedy)
