"""Cached exports of models: each made once, by a process of its own, and moved into place complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from helix.errors import EncoderError


class ExportJob(NamedTuple):
    """An export to make."""

    module: str  # its main program takes the source, the target and options
    source: Path
    options: Sequence[str]
    name: str  # of the model, for messages
    remedy: str


def export_once(export: ExportJob, target: Path, mark: str, finish: Callable[[Path], None] | None = None) -> Path:
    """Fill a folder by an export unless it is complete; two processes may do so at once.

    Args:
        target: the folder; its name includes a digest of the source.
        mark: the file that the export writes last.
        finish: completes the folder in this process, `mark` included.

    Raises:
        EncoderError: the folder cannot be written, or the export failed.
    """
    if (target / mark).is_file():
        return target
    folder: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
        _run_export(export, folder)
        if finish:
            finish(folder)
        with contextlib.suppress(FileExistsError):  # another process was first
            folder.rename(target)
    except OSError as error:
        if not (target / mark).is_file():  # ENOTEMPTY: another process was first
            raise EncoderError(f"cannot write the exported model to {target}: {error}", "set HELIX_CACHE") from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return target


def _run_export(export: ExportJob, target: Path) -> None:
    """Export in a process of its own, which frees the memory of torch when it ends.

    Raises:
        EncoderError: it failed; the message has the last line of its output.
    """
    done = subprocess.run(
        [sys.executable, "-m", export.module, str(export.source), str(target), *export.options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise EncoderError(f"exporting {export.name} from {export.source} failed: {lines[-1]}", export.remedy)
