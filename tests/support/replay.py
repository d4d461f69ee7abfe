"""A store's items from a source, without embedding: accepted, read and applied like a commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from pipelines.ingest.accept import accept
from pipelines.ingest.items import Record, list_vanished, make_items
from pipelines.ingest.versions import read_document

FIELDS = (
    *("text", "source", "session", "branch_of", "turns", "piece", "ord", "speaker", "role", "origin", "project"),
    "time",
)
"""Fields of an item, without its id. A title may become known after its session's first items."""


class Replay:
    """A store's items by id, updated as its inbox grows."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root, self.settings = root, settings or Settings()
        self.items: dict[str, Record] = {}
        self.made: list[int] = []  # records of each document
        paths.create_folders(root)

    def offer(self, path: Path, **way: Any) -> tuple[str, ...]:
        """Accept and apply the new part of a file; return its documents."""
        documents = accept(self.root, path, self.settings, **way).documents
        for document in documents:
            self.apply(document)
        return documents

    def apply(self, document: str) -> None:
        """Change the items as the publication of a document does."""
        envelope = inbox.read_envelope(self.root, document)
        reading = read_document(self.root, envelope, self.settings)
        found = make_items(reading, envelope, self.settings, Counter())
        new = [record for record, state in zip(found.records, found.state, strict=True) if state == "new"]
        self.made.append(len(new))
        self.items |= {record["id"]: record for record in new}
        for item in list_vanished(reading, self.settings):
            self.items.pop(item, None)

    def compare_fields(self) -> dict[str, tuple[Any, ...]]:
        """Return the fields of every item, by id, that two ways of ingest must agree on."""
        return {item: tuple(map(str, _list_fields(record))) for item, record in self.items.items()}

    def texts(self) -> list[str]:
        """Return the items' texts in the order of their sessions."""
        ordered = sorted(self.items.values(), key=lambda record: (record["session"], record["ord"]))
        return [record["text"] for record in ordered]


def _list_fields(record: Record) -> list[Any]:
    # A time from the file depends on the moment of ingest.
    return [None if name == "time" and record["time_quality"] == "file" else record[name] for name in FIELDS]
