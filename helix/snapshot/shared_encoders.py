"""One copy of an encoder's files for all stores of a folder, where the file system has hard links.

A store still holds all of its files, so it can be verified, copied and deleted by itself. Its encoder's files are links
to those in `.encoders/` of the folder of stores: an encoder of 23 MB would else be the largest part of a small store.
Nothing writes to these files once they exist.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from helix.encoders.dense import SPEC, load_spec
from helix.encoders.spec import FILES
from helix.errors import EncoderError
from helix.snapshot import paths

FOLDER: Final = ".encoders"
"""The folder in the folder of stores; no store can have its name."""

ENCODER_FILES: Final = (SPEC, *FILES)


def share_encoder(stores: Path, folder: Path, fingerprint: str) -> Path:
    """Return the shared folder of an encoder; the first call copies it from an exported one.

    Raises:
        OSError: it cannot be written.
    """
    shared = stores / FOLDER / fingerprint
    if shared.is_dir():
        try:
            load_spec(shared, fingerprint)
            return shared
        except EncoderError:  # damaged: a link would spread it
            paths.remove_path(shared)
    shared.parent.mkdir(mode=0o700, exist_ok=True)
    with paths.build_folder(shared) as new:
        for name in ENCODER_FILES:
            shutil.copyfile(folder / name, new / name)
    return shared


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system has no hard links or no more of them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
