"""Batches of items as columns: the contents of a part, from which segments are written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.snapshot.segment.arrays import flatten_rows
from helix.types import F16, F32, I8, I64, U8, U16, U32, U64

NO_TIME = np.iinfo(np.int64).min

_time = pa.timestamp("s", tz="UTC")

ITEMS = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("document", pa.string()),
        ("session", pa.string()),
        ("branch_of", pa.string()),
        ("turns", pa.list_(pa.string())),
        ("piece", pa.int32()),
        ("ord", pa.uint32()),
        ("speaker", pa.string()),
        ("role", pa.string()),
        ("origin", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("type", pa.string()),
        ("type_confidence", pa.float32()),
        ("project", pa.string()),
        ("workspace", pa.string()),
        ("time", _time),
        ("time_quality", pa.string()),
        ("t_valid", _time),
        ("t_invalid", _time),
        ("t_ingested", pa.timestamp("us", tz="UTC")),
        ("salience", pa.float32()),
        ("confidence", pa.float32()),
        ("priority", pa.float32()),
        ("pinned", pa.bool_()),
        ("acl", pa.list_(pa.string())),
        ("tokens", pa.uint32()),
        ("content", pa.string()),
        ("near", pa.string()),
        ("vouched", pa.string()),
        ("salience_parts", pa.map_(pa.string(), pa.float32())),
    ]
)

ENTITIES = pa.schema([("kind", pa.string()), ("key", pa.string()), ("name", pa.string()), ("hash", pa.uint64())])

FACTS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "item", "project", "subject", "subject_key", "relation", "object")),
        *((name, pa.string()) for name in ("object_key", "qualifier", "said")),
        ("t_valid", _time),
        ("until", _time),
        ("t_ingested", pa.timestamp("us", tz="UTC")),
        ("confidence", pa.float32()),
        ("functional", pa.bool_()),
        ("closes", pa.bool_()),
        *((name, pa.uint64()) for name in ("group", "family", "subject_entity", "object_entity")),
        ("reason", pa.string()),
    ]
)

STEPS = pa.schema(
    [
        ("item", pa.string()),
        ("place", pa.int32()),
        ("call", pa.string()),
        ("pair", pa.uint64()),
        *((name, pa.string()) for name in ("action", "tool", "target", "outcome")),
        *((name, pa.int32()) for name in ("exit_code", "tests_passed", "tests_failed")),
        ("error", pa.string()),
        ("commits", pa.list_(pa.string())),
        ("keys", pa.list_(pa.uint64())),
    ]
)

LINKS = ("reply", "same")  # kinds of edges from an item to an earlier one; a kind's code is its position


def hash_parts(*parts: str) -> str:
    """Hash the parts, each ended by a NUL byte, to sixteen hex digits: ids, session keys, entity hashes."""
    return hashlib.sha256("".join(f"{part}\0" for part in parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def complete_facts(table: pa.Table) -> pa.Table:
    """Return a table of facts with the columns of FACTS; an earlier release wrote no reasons."""
    if "reason" not in table.column_names:
        table = table.append_column("reason", pa.array([""] * len(table), pa.string()))
    return table.select(FACTS.names).cast(FACTS)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """n items. CSR arrays have n + 1 offsets."""

    items: pa.Table  # ITEMS
    codes: I8  # [n, d]
    scale: F32  # [n]
    exact: F16  # [n, d], or [n, 0] if unknown
    minhash: U32  # [n, 64]
    term_indptr: I64
    term_key: U64
    term_tf: U16
    order_indptr: I64
    order_term: U32  # short term ids in reading order, with repeats
    cues: U8  # [n], see helix.text.cues
    language: U8  # [n], see helix.text.languages.CODES
    claims: U8  # [n, columns], see helix.text.claims
    alters: U8  # [n], how likely each item alters something, of 255
    former: U32  # [n, terms], short ids of what each item leaves
    mention_indptr: I64
    mention_entity: U64
    link_indptr: I64
    link_key: U64  # of the linked item
    link_kind: U8  # position in LINKS
    fact_indptr: I64
    entities: pa.Table  # ENTITIES, distinct
    facts: pa.Table  # FACTS, f in the order of the items
    fact_codes: I8  # [f, d], of their sentences
    fact_scale: F32  # [f]; 0 if the fact is not embedded
    step_indptr: I64
    steps: pa.Table  # STEPS, in the order of the items

    def __len__(self) -> int:
        return int(self.items.num_rows)

    def take(self, index: I64) -> RowBatch:
        """Return some of the rows, in the order of `index`."""
        kept: dict[str, Any] = {name: getattr(self, name)[index] for name in _BY_ROW}
        for name, flat_names in _LISTS.items():
            kept[name], flat = flatten_rows(getattr(self, name), index)
            kept |= {flat_name: _select(getattr(self, flat_name), flat) for flat_name in flat_names}
        return RowBatch(items=_select(self.items, index), entities=self.entities, **kept)


def _select(column: Any, index: I64) -> Any:
    return column.take(pa.array(index)) if isinstance(column, pa.Table) else column[index]


_BY_ROW = ("codes", "scale", "exact", "minhash", "cues", "language", "claims", "alters", "former")
_LISTS = {  # offsets, and the flat columns they index
    "term_indptr": ("term_key", "term_tf"),
    "order_indptr": ("order_term",),
    "mention_indptr": ("mention_entity",),
    "link_indptr": ("link_key", "link_kind"),
    "fact_indptr": ("facts", "fact_codes", "fact_scale"),
    "step_indptr": ("steps",),
}
_TABLES = {"items": ITEMS, "entities": ENTITIES, "facts": FACTS, "steps": STEPS}
_ARRAYS = tuple(name for name in RowBatch.__dataclass_fields__ if name not in _TABLES)


ROWS: Final = "rows.npz"
"""File of a part's rows: one, since each file of a part is synced to disk."""


def save_rows(rows: RowBatch, folder: Path) -> None:
    """Write the rows of a part: arrays, and tables as the bytes of Arrow streams."""
    columns: dict[str, Any] = {name: _pack_table(getattr(rows, name)) for name in _TABLES}
    columns |= {name: getattr(rows, name) for name in _ARRAYS}
    np.savez(folder / ROWS, **columns)


def load_rows(folder: Path) -> RowBatch:
    """Read the rows of a part."""
    with np.load(folder / ROWS, allow_pickle=False) as file:
        arrays: dict[str, Any] = {name: file[name] for name in _ARRAYS}
        return RowBatch(**{name: _unpack_table(file[name], schema) for name, schema in _TABLES.items()}, **arrays)


def _pack_table(table: pa.Table) -> U8:
    """Return the Arrow stream of a table: uint8[bytes]."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _unpack_table(data: U8, schema: pa.Schema) -> pa.Table:
    """Return the table of an Arrow stream.

    Raises:
        ValueError: it has another schema.
    """
    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    if table.schema != schema:
        raise ValueError(f"columns {table.schema.names} are not {schema.names}, or of other types")
    return table


def concat_rows(batches: Sequence[RowBatch]) -> RowBatch:
    """Concatenate batches, in order."""

    def offsets(name: str) -> I64:
        counts = [np.diff(getattr(batch, name)) for batch in batches]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts), dtype=np.int64)])

    tables = {name: pa.concat_tables([getattr(batch, name) for batch in batches]) for name in _TABLES}
    _, first = np.unique(tables["entities"]["hash"].to_numpy(), return_index=True)
    tables["entities"] = tables["entities"].take(pa.array(np.sort(first)))
    names = [name for name in _ARRAYS if name not in _LISTS]
    arrays: dict[str, Any] = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names}
    arrays |= {name: offsets(name) for name in _LISTS}
    return RowBatch(**tables, **arrays)
