"""Hints of a fleet for many stores, in the broker: requested tasks, fresh text by store, stores with imports.

All of them may be lost or wrong: the ledgers of the stores decide. So a lost hint costs seconds, never a document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from helix.snapshot.store_names import is_store_name

if TYPE_CHECKING:
    from kombu import Connection

IMPORTS: Final = "helix:imports"
"""The set of stores whose ledgers have new documents for `bulk`."""

REQUEST_SECONDS: Final = 60
"""Seconds for which a request suppresses another one like it. Its message may be lost."""

FRESH_SECONDS: Final = 4
"""Length of a window in which the fresh text of a store is counted."""

FRESH_COST: Final = 32 << 10
"""Cost of the fresh documents of one store in one window: two seconds of work at most."""

DOCUMENT_COST: Final = 2 << 10
"""Cost of a document in addition to its bytes: its parsing, its files and its share of a commit."""


def open_client(connection: Connection) -> Any:
    """Return the Redis client of a connection."""
    return connection.default_channel.client


def cost_document(size: int) -> int:
    """Return the cost of enriching a document of `size` bytes, in bytes."""
    return size + DOCUMENT_COST


def admit_fresh(client: Any, store: str, cost: int) -> bool:
    """Count documents as fresh if the window of their store has room for all of them; return whether it has."""
    if cost > FRESH_COST:
        return False
    key = f"helix:fresh:{store}"
    with client.pipeline() as pipe:
        pipe.set(key, 0, ex=FRESH_SECONDS, nx=True)
        pipe.incrby(key, cost)
        _, spent = pipe.execute()
    return int(spent) <= FRESH_COST


def add_import(client: Any, store: str) -> None:
    """Note that a store has new documents for `bulk`."""
    client.sadd(IMPORTS, store)


def take_imports(client: Any) -> list[str]:
    """Return and remove some of the stores with new documents; names that no store can have are dropped."""
    found = [raw.decode(errors="replace") for raw in client.spop(IMPORTS, 100) or ()]
    return [name for name in found if is_store_name(name)]


def claim_request(client: Any, task: str, queue: str, *names: str) -> bool:
    """Note that a task is requested; return False if it was already and has not begun."""
    return bool(client.set(_name_request(task, queue, *names), 1, nx=True, ex=REQUEST_SECONDS))


def end_request(client: Any, task: str, queue: str, *names: str) -> None:
    """Note that a requested task begins, so that it can be requested again."""
    client.delete(_name_request(task, queue, *names))


def _name_request(*words: str) -> str:
    return ":".join(("helix:request", *words))
