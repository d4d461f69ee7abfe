"""What is left of a document after a part of it was forgotten: its other items, as records, in place of its text."""

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
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.batch import ITEMS
from helix.snapshot.segment.open import alive_of, read_table
from helix.snapshot.verify import require_whole
from pipelines.ingest.enrich import FAULTS, item_records

Record = dict[str, Any]

_MADE_ANEW = ("document", "t_ingested", "tokens", "near")  # known from the envelope, or made by enriching it


def dump(records: Sequence[Record]) -> str:
    """Records of ITEMS as JSON lines, times in seconds."""
    table = pa.Table.from_pylist(list(records), schema=ITEMS).drop_columns(list(_MADE_ANEW))
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
    return "".join(orjson.dumps(record).decode() + "\n" for record in table.to_pylist())


def kept_of(
    root: Path, documents: Collection[str], left_out: Mapping[str, Collection[str]], settings: Settings
) -> dict[str, list[Record]]:
    """The records each of the documents keeps.

    Of a published one, its live rows: cut as its readers know them. Of one that is not published, what its text gives,
    but for every turn any piece of which is left out: nobody can tell how the pieces that are meant were cut.

    Args:
        left_out: document → ids of the items that are forgotten.
    """
    _, manifest = ledger.current(root)
    published = ledger.done(root, manifest) & set(documents)
    kept: dict[str, list[Record]] = {document: [] for document in documents}
    if manifest and published:
        for record in _live(root, manifest, published):
            kept[record["document"]].append(record)
    for document in set(documents) - published:
        kept[document] = _left(root, document, set(left_out[document]), settings)
    return kept


def _live(root: Path, manifest: Manifest, documents: Collection[str]) -> Iterator[Record]:
    """The live rows of some documents, a batch at a time: a large segment never as a whole."""
    wanted = pa.array(sorted(documents), pa.string())
    for segment in manifest.segments:
        path = root / "segments" / segment.id / "items.parquet"
        require_whole(root, [file for file in segment.files if file.path.endswith("/items.parquet")])
        hit = np.asarray(pc.is_in(read_table(path, columns=["document"])["document"], wanted).to_numpy(), bool)
        hit &= alive_of(root, manifest, segment)
        if not hit.any():
            continue
        start = 0
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.filter(pa.array(hit[start : start + len(batch)])).to_pylist()
            start += len(batch)


def _left(root: Path, document: str, left_out: set[str], settings: Settings) -> list[Record]:
    """The records of an envelope without some."""
    try:
        envelope = ledger.read(root, document)
        records = item_records(root, envelope, settings)
    except FAULTS:  # nobody can read it, so nobody can tell what of it may stay
        return []
    if envelope.forgotten:
        return [record for record in records if record["id"] not in left_out]
    turns = {_turn(record) for record in records if record["id"] in left_out}
    return [record for record in records if _turn(record) not in turns]


def _turn(record: Record) -> tuple[str, ...]:
    return (record["source"], record["session"], *record["turns"])
