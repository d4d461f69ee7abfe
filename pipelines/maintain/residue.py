"""The residue of a partly forgotten document: its other items as records, which replace its text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.batch import ITEMS
from helix.snapshot.segment.open import load_alive, read_table
from helix.snapshot.verify import require_whole
from pipelines.ingest.enrich import FAULTS, read_item_records

Record = dict[str, Any]

_DERIVED = ("document", "t_ingested", "tokens", "near")  # from the envelope, or made by enriching it


def dump_records(records: Sequence[Record]) -> str:
    """Return records of ITEMS as JSON lines, times in seconds."""
    table = pa.Table.from_pylist(list(records), schema=ITEMS).drop_columns(list(_DERIVED))
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
    return "".join(orjson.dumps(record).decode() + "\n" for record in table.to_pylist())


def read_residue(
    root: Path, documents: Collection[str], left_out: Mapping[str, Collection[str]], settings: Settings
) -> dict[str, list[Record]]:
    """Return the remaining records of each document.

    A published document keeps its live rows. An unpublished one keeps the items of its text, without any turn that
    lost one of its items: the turn may be cut differently now.

    Args:
        left_out: document → ids of the forgotten items.
    """
    _, manifest = inbox.load_current(root)
    published = inbox.list_done(root, manifest) & set(documents)
    residue: dict[str, list[Record]] = {document: [] for document in documents}
    if manifest and published:
        for record in _read_live(root, manifest, published):
            residue[record["document"]].append(record)
    for document in set(documents) - published:
        residue[document] = _read_unpublished(root, document, set(left_out[document]), settings)
    return residue


def _read_live(root: Path, manifest: Manifest, documents: Collection[str]) -> Iterator[Record]:
    """Yield the live rows of some documents, a batch at a time to bound memory."""
    wanted = pa.array(sorted(documents), pa.string())
    for segment in manifest.segments:
        path = root / "segments" / segment.id / "items.parquet"
        require_whole(root, [file for file in segment.files if file.path.endswith("/items.parquet")])
        hit = np.asarray(pc.is_in(read_table(path, columns=["document"])["document"], wanted).to_numpy(), bool)
        hit &= load_alive(root, manifest, segment)
        if not hit.any():
            continue
        start = 0
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.filter(pa.array(hit[start : start + len(batch)])).to_pylist()
            start += len(batch)


def _read_unpublished(root: Path, document: str, left_out: set[str], settings: Settings) -> list[Record]:
    """Return the records of an envelope without the forgotten turns."""
    try:
        envelope = inbox.read_envelope(root, document)
        records = read_item_records(root, envelope, settings)
    except FAULTS:  # unreadable: no part of it is known to be safe
        return []
    if envelope.forgotten:
        return [record for record in records if record["id"] not in left_out]
    turns = {_turn(record) for record in records if record["id"] in left_out}
    return [record for record in records if _turn(record) not in turns]


def _turn(record: Record) -> tuple[str, ...]:
    return (record["source"], record["session"], *record["turns"])
