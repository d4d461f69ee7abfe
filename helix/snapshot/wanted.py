"""The stores that a server of many wants from an object store: a file a name, in `.wanted/` of the folder of all.

Servers touch the file of a store that they use. The process that fetches (`helix pull --stores`) follows the stores
whose files are young, and writes into the file why a store does not arrive.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from helix.snapshot.paths import measure_age, write_file
from helix.snapshot.store_names import STORE_NAME

FOLDER: Final = ".wanted"

IDLE: Final = 600.0
"""Seconds without use after which a store is no longer followed."""


@dataclass(frozen=True, slots=True)
class ArrivalFault:
    """The reason why a store does not arrive."""

    at: float  # seconds since 1970 UTC
    text: str
    remedy: str
    is_missing: bool  # nothing is published there


def want(stores: Path, name: str) -> None:
    """Ask for a store, or say that it is still used."""
    path = stores / FOLDER / name
    try:
        os.utime(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)


def list_wanted(stores: Path) -> list[str]:
    """List the stores that were used within IDLE seconds."""
    with suppress(FileNotFoundError):
        files = [path for path in (stores / FOLDER).iterdir() if STORE_NAME.fullmatch(path.name)]
        return sorted(path.name for path in files if measure_age(path) < IDLE)
    return []


def report_fault(stores: Path, name: str, text: str = "", remedy: str = "", *, is_missing: bool = False) -> None:
    """Write why a store does not arrive; without a text, that it does. Its own time stays."""
    path = stores / FOLDER / name
    with suppress(FileNotFoundError):
        used = path.stat()
        fault = orjson.dumps(asdict(ArrivalFault(time.time(), text, remedy, is_missing))) if text else b""
        if fault or used.st_size:
            write_file(path, fault)
            os.utime(path, ns=(used.st_atime_ns, used.st_mtime_ns))


def read_fault(stores: Path, name: str) -> ArrivalFault | None:
    """Return the last reason why a store does not arrive; None without one."""
    try:
        return ArrivalFault(**orjson.loads((stores / FOLDER / name).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
