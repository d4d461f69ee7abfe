"""Orders: paths to accept, noted durably for a worker that sees the same files.

An order is the file `orders/<id>.json` until it is carried out. Its outcome is retained in `orders/<id>.done.json` for
a day.
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
from pipelines.ingest.accept import prepare_store
from pipelines.ingest.accept_all import Backlog, IngestReport, accept_all

RETAINED: Final = 86_400.0
"""Seconds for which the outcome of an order is retained."""

_DONE: Final = ".done.json"


@dataclass(frozen=True, slots=True)
class Order:
    """The paths to accept, and their options."""

    paths: tuple[str, ...]
    project: str | None = None
    format: str = "auto"
    acl: tuple[str, ...] = ()


def place(root: Path, order: Order) -> str:
    """Note an order durably; return its id.

    Raises:
        UsageError: no such format.
        StoreError: the store cannot be written.
    """
    prepare_store(root, order.format)
    identity = secrets.token_hex(16)
    try:
        paths.write_file(_locate(root, identity), orjson.dumps(asdict(order)))
    except OSError as error:
        raise paths.make_write_error(root, error) from None
    return identity


def _locate(root: Path, identity: str, end: str = ".json") -> Path:
    return root / "orders" / f"{check_name(identity, ORDER)}{end}"


def list_orders(root: Path) -> list[str]:
    """List the open orders, oldest first."""
    found = [path for path in (root / "orders").glob("*.json") if ORDER.fullmatch(path.stem)]
    return [path.stem for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]


def carry_out(
    root: Path, identity: str, settings: Settings, deliver: Callable[[Sequence[str]], object]
) -> IngestReport:
    """Accept the paths of an order. After a kill the order is still open and the accepted documents are durable.

    Args:
        deliver: called with the new documents of each path.

    Raises:
        InputRefused: the backlog is full; the order stays open.
        StoreError: the order is damaged, or the store cannot be written.
        UsageError: not the name of an order.
    """
    backlog = Backlog(root, settings)
    path = _locate(root, identity)
    report = IngestReport()
    try:
        raw = orjson.loads(path.read_bytes())
        order = Order(tuple(raw["paths"]), raw["project"], raw["format"], tuple(raw["acl"]))
    except FileNotFoundError:
        return report  # carried out already
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise StoreError(f"{path} is damaged", "remove it, and order its paths again") from None
    for given in order.paths:
        backlog.check()
        how = {"project": order.project, "format": order.format, "acl": order.acl, "retry": False}
        deliver(accept_all(root, [given], settings, report, **how))  # type: ignore[arg-type]
    counts = {"accepted": report.accepted, "duplicates": report.duplicates, "refused": report.refused}
    finish(root, identity, {**counts, "off": report.list_left_out()})
    return report


def finish(root: Path, identity: str, outcome: dict[str, Any]) -> None:
    """Note the outcome of an order, and remove the order."""
    done = orjson.dumps({**outcome, "when": datetime.now(UTC)})
    paths.write_file(_locate(root, identity, _DONE), done)
    _locate(root, identity).unlink(missing_ok=True)


def sweep(root: Path) -> None:
    """Remove old outcomes."""
    for path in (root / "orders").glob(f"*{_DONE}"):
        if paths.measure_age(path) > RETAINED:
            path.unlink(missing_ok=True)


def fail(root: Path, identity: str, error: HelixError | str) -> None:
    """Give an order up."""
    finish(root, identity, {"accepted": 0, "duplicates": 0, "refused": [{"path": "", "reason": str(error)}]})
