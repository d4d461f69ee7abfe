"""Merges segments into one without their deleted rows, file by file: memory is bounded by the largest file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from helix.snapshot.segment import write
from helix.snapshot.segment.arrays import BANDS, flatten_rows, hash_bands, parse_hex
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, STEPS, complete_facts
from helix.snapshot.segment.open import OpenSegment, read_table
from helix.snapshot.segment.words import merge_words
from helix.text.languages import CODES
from helix.text.spelling import collect_words
from helix.types import I64, AnyArray, Bool
from helix.util.failpoints import failpoint

Source = tuple[OpenSegment, Bool]  # a segment and a mask of its retained rows, bool[rows]


def merge_rows(root: Path, sources: Sequence[Source], folder: Path) -> int:
    """Write one segment into `folder`: the retained rows of all sources, in order. Return their number."""
    _merge_items(root, sources, folder)
    _merge_text(sources, folder)
    failpoint("compact.half")
    columns = merge_columns(sources)
    write.write_ipc(columns, folder / "columns.arrow", max(1, columns.num_rows))
    n: int = columns.num_rows
    exact = ("vectors.f16",) if all(len(opened["vectors.f16"]) == opened.rows for opened, _ in sources) else ()
    for name in ("vectors.i8", "minhash", *exact):
        _copy_rows([(opened[name], keep) for opened, keep in sources], folder, name)
    codes = np.load(folder / "vectors.i8.npy", mmap_mode="r")
    scale = np.concatenate([opened["vectors.scale"][keep] for opened, keep in sources])
    write.save_arrays(
        folder, {"vectors.scale": scale, "vectors.sum": write.sum_vectors(codes, scale, columns["type"].to_numpy())}
    )
    write.save_arrays(folder, merge_postings(sources))
    names = ("order.indptr", "order.term")
    write.save_arrays(folder, dict(zip(names, _merge_lists(sources, *names), strict=True)))
    write.save_arrays(folder, _merge_titles(sources))
    for name in ("cues", "language", "claims", "alters", "former"):
        write.save_arrays(folder, {name: np.concatenate([opened[name][keep] for opened, keep in sources])})
    indptr, entity = _merge_lists(sources, "mentions.indptr", "mentions.entity")
    write.save_arrays(folder, {"mentions.indptr": indptr, "mentions.entity": entity})
    links = write.ItemLinks(*_merge_lists(sources, "links.indptr", "links.key", "links.kind"))
    write.save_arrays(folder, write.build_link_arrays(links))
    minhash = np.load(folder / "minhash.npy", mmap_mode="r")
    bands = [hash_bands(minhash[start : start + write.BATCH]) for start in range(0, n, write.BATCH)]
    hashes = np.concatenate([np.empty((BANDS, 0), np.uint32), *bands], axis=1)
    write.save_arrays(folder, write.build_lookup_arrays(columns, hashes, indptr, entity))
    tables = [
        pq.read_table(root / "segments" / opened.id / "entities.parquet", columns=ENTITIES.names)
        for opened, _ in sources
    ]
    entities = pa.concat_tables(tables)
    _, first = np.unique(entities["hash"].to_numpy(), return_index=True)
    write.write_graph(folder, columns, indptr, entity, entities.take(pa.array(first)), links)
    facts, row = _merge_facts(root, sources)
    write.write_facts(folder, facts, row)
    write.write_fact_index(folder, facts, _merge_fact_index(sources, facts, folder))
    write.write_steps(folder, *_merge_steps(root, sources))
    write.save_arrays(folder, merge_words([(opened.arrays, _list_retained(opened, keep)) for opened, keep in sources]))
    return n


def _list_retained(opened: OpenSegment, keep: Bool) -> set[tuple[str, str]] | None:
    """Return the words of the retained rows of a segment; None if all are retained, or it has no words at all."""
    if keep.all() or not len(opened["words.term"]):
        return None
    found: set[tuple[str, str]] = set()
    for start, batch in zip(opened.starts.tolist(), opened.text, strict=True):
        kept = keep[start : start + batch.num_rows]
        texts = batch.column("text").filter(pa.array(kept)).to_pylist()
        codes = [CODES[number] for number in opened["language"][start : start + batch.num_rows][kept].tolist()]
        found |= collect_words(texts, codes)
    return found


def _merge_items(root: Path, sources: Sequence[Source], folder: Path) -> None:
    with pq.ParquetWriter(folder / "items.parquet", ITEMS, **write.ITEM_PAGES) as out:
        for batch in _group_tables(_read_items(root, sources)):
            out.write_table(batch, row_group_size=write.BATCH)


def fill_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema`; those that an older format lacks are null."""
    missing = [name for name in schema.names if name not in table.column_names]
    for name in missing:
        table = table.append_column(name, pa.nulls(table.num_rows, schema.field(name).type))
    return table.select(schema.names).cast(schema)


def _read_items(root: Path, sources: Sequence[Source]) -> Iterator[pa.Table]:
    for opened, keep in sources:
        start = 0
        with pq.ParquetFile(root / "segments" / opened.id / "items.parquet") as file:
            for batch in file.iter_batches(write.BATCH):
                stop = start + batch.num_rows
                yield fill_columns(pa.Table.from_batches([batch]).filter(pa.array(keep[start:stop])), ITEMS)
                start = stop


def _group_tables(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Regroup the rows into tables of about BATCH rows."""
    group: list[pa.Table] = []
    rows = 0
    for table in tables:
        group.append(table)
        rows += table.num_rows
        if rows >= write.BATCH:
            yield pa.concat_tables(group)
            group, rows = [], 0
    if group:
        yield pa.concat_tables(group)


def _merge_text(sources: Sequence[Source], folder: Path) -> None:
    schema = pa.schema([ITEMS.field(name) for name in write.TEXT_COLUMNS])
    with pa.OSFile(str(folder / "text.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
        for table in _group_tables(_read_text(sources)):
            out.write_table(table.combine_chunks(), max_chunksize=write.BATCH)


def _read_text(sources: Sequence[Source]) -> Iterator[pa.Table]:
    for opened, keep in sources:
        for start, batch in zip(opened.starts.tolist(), opened.text, strict=True):
            kept = pa.Table.from_batches([batch]).filter(pa.array(keep[start : start + batch.num_rows]))
            yield fill_columns(kept, pa.schema([ITEMS.field(name) for name in write.TEXT_COLUMNS]))


def merge_columns(sources: Sequence[Source]) -> pa.Table:
    """Build columns.arrow of the merged segment."""
    table = pa.concat_tables([opened.columns.filter(pa.array(keep)) for opened, keep in sources]).unify_dictionaries()
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # rebuilt: a word that only deleted rows used must disappear
            plain = table.column(i).cast(field.type.value_type).combine_chunks()
            table = table.set_column(i, field.name, plain.dictionary_encode())
    return table.combine_chunks()


def _copy_rows(parts: Sequence[tuple[AnyArray, Bool]], folder: Path, name: str) -> None:
    """Copy the retained rows of large arrays, block by block, into one file."""
    first = parts[0][0]
    with (folder / f"{name}.npy").open("wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(first.dtype),
            "fortran_order": False,
            "shape": (sum(int(keep.sum()) for _, keep in parts), *first.shape[1:]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for array, keep in parts:
            for start in range(0, len(array), write.BATCH):
                block = slice(start, start + write.BATCH)
                file.write(array[block][keep[block]].tobytes())


def _merge_lists(sources: Sequence[Source], offsets: str, *names: str) -> list[AnyArray]:
    """Merge lists of the retained rows: [offsets, then the flat array of each name]."""
    counts, flats = [np.zeros(1, np.int64)], []
    for opened, keep in sources:
        indptr, flat = flatten_rows(opened[offsets], np.flatnonzero(keep))
        counts.append(np.diff(indptr))
        flats.append((opened, flat))
    merged = (np.concatenate([opened[name][flat] for opened, flat in flats]) for name in names)
    return [np.cumsum(np.concatenate(counts)), *merged]


def _merge_titles(sources: Sequence[Source]) -> dict[str, AnyArray]:
    keys, rows, start = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], 0
    for opened, keep in sources:
        kept = keep[opened["titles.row"]]
        keys.append(opened["titles.key"][kept])
        rows.append((start - 1 + np.cumsum(keep))[opened["titles.row"][kept]])
        start += int(keep.sum())
    return write.build_title_arrays(np.concatenate(keys), np.concatenate(rows))


def _merge_facts(root: Path, sources: Sequence[Source]) -> tuple[pa.Table, I64]:
    """Return the facts of the retained rows, and the merged row of each."""
    tables, rows, start = [FACTS.empty_table()], [np.empty(0, np.int64)], 0
    for opened, keep in sources:
        row = opened.facts["row"].to_numpy().astype(np.int64)
        if len(row):
            table = read_table(root / "segments" / opened.id / "facts.parquet")
            tables.append(complete_facts(table.filter(pa.array(keep[row]))))
            rows.append((start - 1 + np.cumsum(keep))[row[keep[row]]])
        start += int(keep.sum())
    return pa.concat_tables(tables), np.concatenate(rows)


def _merge_steps(root: Path, sources: Sequence[Source]) -> tuple[pa.Table, I64]:
    """Return the steps of the retained rows, and the merged row of each."""
    tables, rows, start = [STEPS.empty_table()], [np.empty(0, np.int64)], 0
    for opened, keep in sources:
        row = opened.steps["row"].to_numpy().astype(np.int64)
        if len(row):
            table = read_table(root / "segments" / opened.id / "steps.parquet")
            tables.append(table.filter(pa.array(keep[row])).cast(STEPS))
            rows.append((start - 1 + np.cumsum(keep))[row[keep[row]]])
        start += int(keep.sum())
    return pa.concat_tables(tables), np.concatenate(rows)


def _merge_fact_index(sources: Sequence[Source], facts: pa.Table, folder: Path) -> dict[str, AnyArray]:
    """Merge the fact indexes; empty if no source has one. Writes `facts.i8` block by block.

    Facts of a source without an index get neither vector nor postings.
    """
    kept = [(opened, keep[opened.facts["row"].to_numpy()]) for opened, keep in sources]
    if not any(opened["facts.scale"][keep].any() for opened, keep in kept if len(opened["facts.scale"])):
        return {}

    def numbers(name: str) -> AnyArray:
        parts = [(opened[name], keep) for opened, keep in kept]
        return np.concatenate(
            [array[keep] if len(array) else np.zeros(int(keep.sum()), array.dtype) for array, keep in parts]
        )

    dim = next(opened["facts.i8"].shape[1] for opened, _ in kept if len(opened["facts.i8"]))
    zero = np.zeros((1, dim), np.int8)  # broadcast, so that it takes no memory
    _copy_rows(
        [
            (opened["facts.i8"] if len(opened["facts.i8"]) else np.broadcast_to(zero, (len(keep), dim)), keep)
            for opened, keep in kept
        ],
        folder,
        "facts.i8",
    )
    return {
        "facts.key": parse_hex(facts["id"]),
        **{name: numbers(name) for name in ("facts.scale", "facts.length")},
        **merge_postings(kept, "facts.terms"),
    }


def merge_postings(sources: Sequence[Source], name: str = "terms") -> dict[str, AnyArray]:
    """Merge the postings of all sources under new row numbers, without a sort: each list is copied to its place.

    Args:
        sources: segments, each with a mask of the retained rows or facts.
        name: of the arrays: `terms` of items, or `facts.terms`.
    """
    start = 0
    parts: list[tuple[OpenSegment, Bool, I64, int]] = []
    for opened, keep in sources:
        kept = keep[opened[f"{name}.rows"]] if not keep.all() else np.ones(len(opened[f"{name}.rows"]), bool)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        counts = np.diff(before[opened[f"{name}.indptr"]])
        parts.append((opened, kept, counts, start))
        start += int(keep.sum())
    keys = np.unique(np.concatenate([opened[f"{name}.key"][counts > 0] for opened, _, counts, _ in parts]))
    total = np.zeros(len(keys), np.int64)
    for opened, _, counts, _ in parts:
        total[np.searchsorted(keys, opened[f"{name}.key"][counts > 0])] += counts[counts > 0]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(total)])
    rows, tf = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1], np.uint16)
    fill = indptr[:-1].copy()
    for (opened, kept, counts, base), (_, keep) in zip(parts, sources, strict=True):
        at, here = np.searchsorted(keys, opened[f"{name}.key"][counts > 0]), counts[counts > 0]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(here)])
        target = np.repeat(fill[at] - first[:-1], here) + np.arange(first[-1])
        new_row = (base - 1 + np.cumsum(keep)).astype(np.uint32)
        rows[target] = new_row[opened[f"{name}.rows"][kept]]
        tf[target] = opened[f"{name}.tf"][kept]
        fill[at] += here
    return {f"{name}.key": keys, f"{name}.indptr": indptr, f"{name}.rows": rows, f"{name}.tf": tf}
