"""Weights that packages of the Python index carry: where their files are, whether they are the known ones, unpacked.

Nothing here imports a package: its code never runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from helix.errors import EncoderError
from helix.util.hashing import hash_file_once
from helix.util.wordlists import read_toml


class Package(NamedTuple):
    """The files of a model in one package or several."""

    install: str  # what to give to pip
    licence: str
    form: str  # folder: the model's own; packed: in Helix itself; blocks: see `helix.encoders.blocks`; parts: a zip
    files: Mapping[str, str]  # path in a folder of packages → sha256; the model's folder is that of the first


def _read_packages() -> dict[str, Package]:
    return {
        name: Package(**{**entry, "files": {file["path"]: file["sha256"] for file in entry["files"]}})
        for name, entry in read_toml("helix.encoders", "packages").items()
    }


PACKAGES: Final[dict[str, Package]] = _read_packages()
"""By the model's name."""


def find_package(name: str) -> list[Path]:
    """Return the installed files of a model; empty if there is no package of it, or one is not installed.

    Raises:
        EncoderError: a file is not the known one.
    """
    known = PACKAGES.get(name)
    paths = [_locate(path) for path in known.files] if known else []
    if known is None or not all(path and path.is_file() for path in paths):
        return []
    found = [path for path in paths if path]
    for path, expected in zip(found, known.files.values(), strict=True):
        if (digest := hash_file_once(path)) != expected:
            raise EncoderError(
                f"the packaged weights of {name} are not the known ones: {path} has sha256 {digest[:12]}…, expected "
                f"{expected[:12]}…",
                f"install {known.install} again",
            )
    return found


def _locate(path: str) -> Path | None:
    package, _, rest = path.partition("/")
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent / rest if spec and spec.origin else None


def is_folder(name: str) -> bool:
    """Return whether a package has the model as a folder, which needs no unpacking."""
    return PACKAGES[name].form == "folder"


def name_float(name: str) -> str:
    """Return the name of the package that has the float32 weights of a packed model; `name` for any other."""
    floats = f"{name}-float32"
    return floats if floats in PACKAGES else name


def digest_package(name: str) -> str:
    """Return one hex digest over the known digests of a model's files."""
    return hashlib.sha256("".join(PACKAGES[name].files.values()).encode()).hexdigest()


@contextmanager
def unpack_package(name: str) -> Iterator[Path]:
    """Yield the folder of a packaged model; an unpacked one is removed afterwards.

    Raises:
        EncoderError: it is not installed, or its files are damaged.
    """
    found, form = find_package(name), PACKAGES[name].form
    if not found:
        raise EncoderError(f"the weights of {name} are not installed", f"install {PACKAGES[name].install}")
    if form in ("folder", "packed"):
        yield found[0].parent
        return
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, name)
        if form == "blocks":
            from helix.encoders.blocks import unpack_blocks

            unpack_blocks(found[0], folder)
        else:
            _join_parts(found, Path(work))
        yield folder


def _join_parts(parts: list[Path], target: Path) -> None:
    """Extract a zip, which has a folder with the model's name, from its parts."""
    whole = target / "whole.zip"
    with whole.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
    with zipfile.ZipFile(whole) as archive:
        archive.extractall(target)
    whole.unlink()
