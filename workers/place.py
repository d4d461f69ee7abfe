"""The store of a task: the one of HELIX_STORE, or the one of HELIX_STORES that its message names."""

from __future__ import annotations

from pathlib import Path

from helix.settings import Settings, load
from helix.snapshot.store_names import check_store_name


class StoreGone(Exception):
    """A store that a message names and that does not exist: it was deleted, or the message is not for these workers."""


def read_place(store: str) -> tuple[Settings, Path]:
    """Return the settings and the folder of a store; `store` is its name among many, or empty.

    Raises:
        StoreGone: there is no such store.
        UsageError: no store can have that name.
    """
    settings = load()
    if not settings.stores and not store:
        return settings, Path(settings.store)
    if not settings.stores or not store or not store_exists(store):
        raise StoreGone
    return settings, Path(settings.stores) / store


def store_exists(store: str) -> bool:
    """Return whether one of many stores exists.

    Raises:
        UsageError: no store can have that name.
    """
    return (Path(load().stores) / check_store_name(store)).is_dir()
