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

from helix.errors import EncoderError


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
