"""The limits of each store of one server, from `stores.toml` in the folder of all stores.

```toml
[limits]               # of every store
rate = 50              # requests a second, of all its keys together; bursts of twice as many
concurrent = 8         # requests at once
items = 200_000        # no note and no document is accepted above

[stores.team-atlas]    # of this one
rate = 200
```
A limit that is left out is none.
"""

from __future__ import annotations

import threading
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from helix.errors import StoreError
from helix.snapshot.store_names import STORE_NAME

FILE: Final = "stores.toml"


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of one store; 0 is no limit."""

    rate: float = 0.0  # requests a second
    concurrent: int = 0  # requests at once
    items: int = 0  # live items above which nothing is accepted


NO_LIMITS: Final = StoreLimits()


@dataclass(frozen=True, slots=True)
class LimitTable:
    """The limits of every store, and those of stores that have their own."""

    common: StoreLimits
    own: dict[str, StoreLimits]

    def find(self, store: str) -> StoreLimits:
        """Return the limits of a store."""
        return self.own.get(store, self.common)


def read_limits(stores: Path) -> LimitTable:
    """Read the limits of the stores in a folder; without the file there are none.

    Raises:
        StoreError: the file cannot be read, or holds something else.
    """
    path = stores / FILE
    try:
        raw = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return LimitTable(NO_LIMITS, {})
    except (OSError, ValueError) as error:
        raise _make_error(path, str(error)) from None
    if unknown := sorted(set(raw) - {"limits", "stores"}):
        raise _make_error(path, f"there is no table {unknown[0]!r}")
    common = _parse_limits(path, "limits", raw.get("limits", {}), NO_LIMITS)
    own = raw.get("stores", {})
    if not isinstance(own, dict):
        raise _make_error(path, "stores is no table")
    for name in own:
        if not STORE_NAME.fullmatch(name):
            raise _make_error(path, f"{name!r} is not the name of a store")
    parsed = {name: _parse_limits(path, f"stores.{name}", value, common) for name, value in own.items()}
    return LimitTable(common, parsed)


def _parse_limits(path: Path, table: str, raw: Any, base: StoreLimits) -> StoreLimits:
    if not isinstance(raw, dict):
        raise _make_error(path, f"{table} is no table")
    for name, value in raw.items():
        if name not in StoreLimits.__slots__:
            raise _make_error(path, f"{table} has no limit {name!r}; there are {', '.join(StoreLimits.__slots__)}")
        kinds = (int, float) if name == "rate" else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < 1e12:
            raise _make_error(path, f"{table}.{name} is {value!r}, not a number from 0")
    return replace(base, **raw)


def _make_error(path: Path, fault: str) -> StoreError:
    return StoreError(f"{path}: {fault}", "correct the file; docs/how-to/stores.md shows one")


class LimitReader:
    """The limits of the stores in a folder, read again when the file changes. Safe to share between threads.

    A file that became unreadable leaves the last limits in force, and `fault` says why.
    """

    def __init__(self, stores: Path) -> None:
        self._stores = stores
        self._stamp: tuple[int, int, int] | None = None
        self._table = read_limits(stores)
        self._lock = threading.Lock()
        self.fault: str | None = None

    def find(self, store: str) -> StoreLimits:
        """Return the limits of a store."""
        try:
            stat = (self._stores / FILE).stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except FileNotFoundError:
            stamp = (0, 0, 0)
        with self._lock:
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._table, self.fault = read_limits(self._stores), None
                except StoreError as error:
                    self.fault = str(error)
            return self._table.find(store)
