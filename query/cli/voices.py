"""The voices of items on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helix.util.sanitise import sanitise_name

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def find_voices(snapshot: Snapshot, items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return who said each item, by its id; "" for a document, and for an item that is no longer there."""
    import numpy as np

    from helix.work.voices import list_voices

    rows = {item["id"]: snapshot.find(item["id"]) for item in items}
    known = {identity: row for identity, row in rows.items() if row is not None}
    every = np.array([*known.values()], np.int64)
    found = dict(zip(known, map(sanitise_name, list_voices(snapshot, every, snapshot.text(every))), strict=True))
    return {item["id"]: found.get(item["id"], sanitise_name(item["speaker"] or "")) for item in items}
