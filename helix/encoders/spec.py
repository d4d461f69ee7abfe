"""Description files of exported models: read, and checked against the files next to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from helix.errors import EncoderError
from helix.util.hashing import hash_file

FILES: Final = ("model.onnx", "tokenizer.json")
"""The files of an exported transformer."""

SpecT = TypeVar("SpecT")


def read_spec(kind: type[SpecT], path: Path, noun: str, remedy: str, version: int | None = None) -> SpecT:
    """Read a description as its dataclass; `version` is the only valid `format`, None for a description without one.

    Raises:
        EncoderError: the file is missing, unreadable or of another format.
    """
    if not path.is_file():
        raise EncoderError(f"{noun} missing: {path} does not exist", remedy)
    try:
        given = orjson.loads(path.read_bytes())
        spec = kind(**given)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise EncoderError(f"{noun} unreadable: {path}: {error}", remedy) from None
    if version is not None and given["format"] != version:
        raise EncoderError(f"{noun} of format {given['format']}, not {version}: {path}", remedy)
    return spec


def write_spec(path: Path, spec: Any) -> None:
    """Write a description as indented JSON."""
    path.write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))


def check_files(folder: Path, names: Iterable[str], digests: Mapping[str, str], noun: str, remedy: str) -> None:
    """Compare files with their recorded SHA-256 digests. Raises EncoderError if a file is missing or changed."""
    for name in names:
        if not (file := folder / name).is_file():
            raise EncoderError(f"{noun} missing: {file} does not exist", remedy)
        if (digest := hash_file(file)) != digests.get(name):
            raise EncoderError(f"{noun} changed: {file} has sha256 {digest[:12]}…, not the recorded one", remedy)


def hash_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Map the names of files to their hex digests."""
    return {name: hash_file(folder / name) for name in names}


def fingerprint_spec(spec: Any) -> str:
    """Return sixteen hex digits over every field of a description but `fingerprint`.

    A field with `later` in its metadata counts only where it is set, so that what was written without it is as it was.
    """
    unset = {one.name for one in fields(spec) if one.metadata.get("later") and getattr(spec, one.name) == one.default}
    values = {name: value for name, value in asdict(spec).items() if name != "fingerprint" and name not in unset}
    return shorten(orjson.dumps(values, option=orjson.OPT_SORT_KEYS))


def shorten(data: bytes) -> str:
    """Return the first sixteen hex digits of the SHA-256 digest."""
    return hashlib.sha256(data).hexdigest()[:16]
