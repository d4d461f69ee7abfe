"""Orders: paths that somebody wants taken in, noted durably, to be read by a worker that sees the same files.

An order is a file `orders/<id>.json`, there as long as it is not carried out. What became of it is in
`orders/<id>.done.json` for a day.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import HelixError, StoreError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.digests import ORDER, check_name
from pipelines.ingest.accept import check
from pipelines.ingest.backpressure import Backlog
from pipelines.ingest.ingest import Report, accept_all

KEPT: Final = 86_400.0
"""Seconds for which it is told what became of an order."""

_DONE: Final = ".done.json"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be taken in, and as what."""

    paths: tuple[str, ...]
    project: str | None = None
    format: str = "auto"
    acl: tuple[str, ...] = ()


def place(root: Path, order: Order) -> str:
    """Note an order durably; its id.

    Raises:
        UsageError: no such format.
        StoreError: the store cannot be written.
    """
    check(root, order.format)
    identity = secrets.token_hex(16)
    try:
        paths.write_file(_path(root, identity), orjson.dumps(asdict(order)))
    except OSError as error:
        raise paths.unwritable(root, error) from None
    return identity


def _path(root: Path, identity: str, end: str = ".json") -> Path:
    return root / "orders" / f"{check_name(identity, ORDER)}{end}"


def waiting_orders(root: Path) -> list[str]:
    """Orders that are not carried out yet, the oldest first."""
    found = [path for path in (root / "orders").glob("*.json") if ORDER.fullmatch(path.stem)]
    return [path.stem for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]


def carry_out(root: Path, identity: str, settings: Settings, deliver: Callable[[Sequence[str]], object]) -> Report:
    """Accept what an order names. A kill loses nothing: what is accepted stays so, and the order is there until it is
    all read.

    Args:
        deliver: called with the new documents of each path.

    Raises:
        InputRefused: too much waits for the workers; the order stays.
        StoreError: the order is damaged, or the store cannot be written.
        UsageError: that is no name of an order.
    """
    backlog = Backlog(root, settings)
    path = _path(root, identity)
    report = Report()
    try:
        raw = orjson.loads(path.read_bytes())
        order = Order(tuple(raw["paths"]), raw["project"], raw["format"], tuple(raw["acl"]))
    except FileNotFoundError:
        return report  # carried out already
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise StoreError(f"{path} is damaged", "remove it, and order again what it named") from None
    for given in order.paths:
        backlog.check()
        how = {"project": order.project, "format": order.format, "acl": order.acl, "retry": False}
        deliver(accept_all(root, [given], settings, report, **how))  # type: ignore[arg-type]
    end(root, identity, {"accepted": report.accepted, "duplicates": report.duplicates, "refused": report.refused})
    return report


def end(root: Path, identity: str, said: dict[str, Any]) -> None:
    """Note what became of an order, and take it away."""
    done = orjson.dumps({**said, "when": datetime.now(UTC)})
    paths.write_file(_path(root, identity, _DONE), done)
    _path(root, identity).unlink(missing_ok=True)


def sweep(root: Path) -> None:
    """Forget what became of orders long ago."""
    for path in (root / "orders").glob(f"*{_DONE}"):
        if paths.age(path) > KEPT:
            path.unlink(missing_ok=True)


def fail(root: Path, identity: str, error: HelixError | str) -> None:
    """Give an order up."""
    end(root, identity, {"accepted": 0, "duplicates": 0, "refused": [{"path": "", "reason": str(error)}]})
