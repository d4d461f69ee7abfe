"""What a store comes to hold of a source, without embedding it: accepted, read and applied as a commit would."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest.accept import accept
from pipelines.ingest.items import Record, list_vanished, make_items
from pipelines.ingest.versions import read_document

SAID = (
    "text",
    "source",
    "session",
    "branch_of",
    "turns",
    "piece",
    "ord",
    "speaker",
    "role",
    "origin",
    "project",
    "time",
)
"""What makes an item, besides its id. A title may become known after its session's first items."""


class Replay:
    """A store's items by id, kept up as its inbox grows."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root, self.settings = root, settings or Settings()
        self.items: dict[str, Record] = {}
        self.made: list[int] = []  # records of each document
        paths.create(root)

    def offer(self, path: Path, **way: Any) -> tuple[str, ...]:
        """Take in what is new of a file; the new documents."""
        documents = accept(self.root, path, self.settings, **way).documents
        for document in documents:
            self.apply(document)
        return documents

    def apply(self, document: str) -> None:
        """What publishing a document does to the items."""
        envelope = ledger.read(self.root, document)
        reading = read_document(self.root, envelope, self.settings)
        found = make_items(reading, envelope, self.settings, Counter())
        new = [record for record, state in zip(found.records, found.state, strict=True) if state == "new"]
        self.made.append(len(new))
        self.items |= {record["id"]: record for record in new}
        for item in list_vanished(reading, self.settings):
            self.items.pop(item, None)

    def said(self) -> dict[str, tuple[Any, ...]]:
        """Every item, by id, as far as two ways in have to agree about it."""
        return {item: tuple(map(str, _said(record))) for item, record in self.items.items()}

    def texts(self) -> list[str]:
        """The items' texts, in the order of their sessions."""
        ordered = sorted(self.items.values(), key=lambda record: (record["session"], record["ord"]))
        return [record["text"] for record in ordered]


def _said(record: Record) -> list[Any]:
    # What only its file dates is dated by when it was taken in.
    return [None if name == "time" and record["time_quality"] == "file" else record[name] for name in SAID]
