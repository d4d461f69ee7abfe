"""The state of every store in a folder of stores: work that waits, runs or failed, and the last commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helix.errors import HelixError
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.store_names import list_stores


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """The state of one store. Counts are of documents."""

    store: str
    error: str = ""  # why the store cannot be read; the rest is then empty
    waiting: int = 0  # accepted, neither published nor dead
    waiting_bytes: int = 0
    running: int = 0  # of these, in work now
    retrying: int = 0  # of these, failed at least once
    dead: int = 0  # given up: the store's dead letters
    lag: float = 0.0  # seconds since the oldest waiting document was accepted
    generation: int = 0
    items: int = 0
    committed: str | None = None  # time of the last generation


def summarise_stores(stores: Path) -> Iterator[StoreSummary]:
    """Yield the state of each store, by name. A store that is deleted meanwhile is left out."""
    for name in list_stores(stores):
        try:
            yield summarise_store(stores / name)
        except HelixError as error:
            yield StoreSummary(name, error=error.what)
        except FileNotFoundError:
            if (stores / name).is_dir():
                raise


def summarise_store(root: Path) -> StoreSummary:
    """Read the state of a store from its ledger and manifest; no item is read.

    Raises:
        StoreError: the store is damaged or newer.
    """
    _, manifest = inbox.load_current(root)
    pending = inbox.list_waiting(root, inbox.list_done(root, manifest))
    waiting = set(pending)
    records = {name: record for name, record in attempts.list_records(root).items() if name in waiting}
    running = {name for name in records if attempts.is_running(root, name)}
    return StoreSummary(
        root.name,
        waiting=len(pending),
        waiting_bytes=inbox.measure_envelopes(root, pending),
        running=len(running),
        retrying=sum(bool(record.failed or record.vanished) for name, record in records.items() if name not in running),
        dead=sum(1 for _ in (root / "dead").glob("[0-9a-f]*.json")),
        lag=round(paths.measure_age(root / "inbox" / pending[0]), 1) if pending else 0.0,
        generation=manifest.generation if manifest else 0,
        items=manifest.counts["items"] if manifest else 0,
        committed=manifest.created if manifest else None,
    )
