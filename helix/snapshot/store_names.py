"""Names of the stores of one server: each is a folder of that name in the folder of all stores."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from helix.errors import UsageError

STORE_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
"""One folder's name on every file system: no separator, no hidden folder, no capital that another name could equal."""


def check_store_name(name: str) -> str:
    """Return a store's name.

    Raises:
        UsageError: it cannot be one.
    """
    if not STORE_NAME.fullmatch(name) or ".." in name:
        remedy = "a name has 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins and ends with a letter or digit"
        raise UsageError(f"{name[:64]!r} is not the name of a store", remedy)
    return name


def locate_store(stores: Path, name: str) -> Path:
    """Return the folder of a store.

    Raises:
        UsageError: the name cannot be one.
    """
    return stores / check_store_name(name)


def list_stores(stores: Path) -> list[str]:
    """List the folders of `stores` that can be stores, by name."""
    if not stores.is_dir():
        return []
    return sorted(path.name for path in stores.iterdir() if STORE_NAME.fullmatch(path.name) and path.is_dir())


def is_store_name(name: str) -> bool:
    """Return whether a store can have a name."""
    return bool(STORE_NAME.fullmatch(name)) and ".." not in name


def name_store(stores: str, root: Path) -> str:
    """Return the name of a store in the folder of all stores; empty without such a folder, or for a store elsewhere."""
    if not stores:
        return ""
    place = Path(os.path.abspath(root))  # noqa: PTH100 — a link in the folder of stores stays a store of it
    return place.name if is_store_name(place.name) and place.parent.resolve() == Path(stores).resolve() else ""
