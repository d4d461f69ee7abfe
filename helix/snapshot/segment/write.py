"""Writes segments: the files that FORMAT.md describes, from a batch of items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.snapshot import paths
from helix.snapshot.manifest import Segment, describe_tree, make_id
from helix.snapshot.segment.arrays import BANDS, expand_rows, format_hex, hash_bands, invert_csr, parse_hex
from helix.snapshot.segment.batch import LINKS, NO_TIME, RowBatch, hash_parts
from helix.snapshot.segment.fact_arrays import build_fact_arrays
from helix.snapshot.segment.layout import FACT_TEXT, NO_NUMBER, STEP_COLUMNS
from helix.snapshot.segment.words import build_word_arrays
from helix.text.languages import CODES
from helix.text.spelling import collect_words
from helix.text.titles import hash_titles
from helix.types import ACTIONS, F32, F64, I8, I64, OUTCOMES, ROLES, TYPES, U8, U32, U64, AnyArray, Bool
from helix.util.failpoints import failpoint

BATCH = 65_536  # rows of a record batch of text.arrow, and of a row group of items.parquet

ITEM_PAGES: Final = {"compression": "zstd", "write_page_checksum": True}
"""Options of items.parquet. A commit reads single values without checking the file's digest, hence the checksums."""

TEXT_COLUMNS = [
    "id",
    "text",
    "session",
    "turns",
    "speaker",
    "time",
    "project",
    "path",
    "title",
    "vouched",
    "salience_parts",
    "time_quality",
]


def write_segment(root: Path, rows: RowBatch, exact: bool = False) -> Segment:
    """Write one segment and make it durable. No manifest names it yet.

    Args:
        exact: store the vectors in half precision too, for scores without the rounding to 8 bits.
    """
    identity = make_id()
    target = root / "segments" / identity
    with paths.open_workplace(root) as folder:
        pq.write_table(rows.items, folder / "items.parquet", row_group_size=BATCH, **ITEM_PAGES)
        write_ipc(rows.items.select(TEXT_COLUMNS), folder / "text.arrow", BATCH)
        columns = _build_columns(rows)
        write_ipc(columns, folder / "columns.arrow", max(1, len(rows)))
        failpoint("commit.segment_half")
        save_arrays(folder, _build_arrays(rows, columns))
        if exact and rows.exact.shape[1]:
            save_arrays(folder, {"vectors.f16": rows.exact})
        links = ItemLinks(rows.link_indptr, rows.link_key, rows.link_kind)
        write_graph(folder, columns, rows.mention_indptr, rows.mention_entity, rows.entities, links)
        write_facts(folder, rows.facts, expand_rows(rows.fact_indptr))
        write_fact_index(folder, rows.facts, build_fact_arrays(rows.facts, rows.fact_codes, rows.fact_scale))
        write_steps(folder, rows.steps, expand_rows(rows.step_indptr))
        words = collect_words(rows.items["text"].to_pylist(), _list_languages(rows))
        save_arrays(folder, build_word_arrays(words))
        paths.move_into_place(folder, target)
    return Segment(identity, len(rows), describe_tree(root, target))


class ItemLinks(NamedTuple):
    """Edges from items to earlier ones: CSR over n rows."""

    indptr: I64  # [n + 1]
    key: U64  # of the linked item
    kind: U8  # position in LINKS


def save_arrays(folder: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays of a segment or an index, by name."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)


def write_ipc(table: pa.Table, path: Path, batch: int) -> None:
    """Write an uncompressed Arrow file of `batch` rows a record batch, whose columns map to one buffer each."""
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)


def _build_arrays(rows: RowBatch, columns: pa.Table) -> dict[str, AnyArray]:
    term_key, term_indptr, term_rows, order = invert_csr(rows.term_indptr, rows.term_key)
    return {
        "vectors.i8": rows.codes,
        "vectors.scale": rows.scale,
        "vectors.sum": sum_vectors(rows.codes, rows.scale, columns["type"].to_numpy()),
        "minhash": rows.minhash,
        "terms.key": term_key,
        "terms.indptr": term_indptr,
        "terms.rows": term_rows,
        "terms.tf": rows.term_tf[order],
        "order.indptr": rows.order_indptr,
        "order.term": rows.order_term,
        "cues": rows.cues,
        "language": rows.language,
        "claims": rows.claims,
        "alters": rows.alters,
        "former": rows.former,
        **_build_titles(rows),
        "mentions.indptr": rows.mention_indptr,
        "mentions.entity": rows.mention_entity,
        **build_link_arrays(ItemLinks(rows.link_indptr, rows.link_key, rows.link_kind)),
        **build_lookup_arrays(columns, hash_bands(rows.minhash), rows.mention_indptr, rows.mention_entity),
    }


def _build_titles(rows: RowBatch) -> dict[str, AnyArray]:
    titles, roles = rows.items["title"].to_pylist(), rows.items["role"].to_pylist()
    return build_title_arrays(*hash_titles(titles, roles, _list_languages(rows)))


def _list_languages(rows: RowBatch) -> list[str]:
    return [CODES[number] for number in rows.language.tolist()]


def build_title_arrays(key: U64, row: AnyArray) -> dict[str, AnyArray]:
    """Build the index of documents by title: each row appears under every title it has."""
    order = np.lexsort((row, key))
    return {"titles.key": key[order], "titles.row": row[order].astype(np.uint32)}


def sum_vectors(codes: I8, scale: F32, kinds: Any) -> F64:
    """Sum the vectors by type: float64[types + 1, d], in the last row all."""
    out = np.zeros((len(TYPES) + 1, codes.shape[1]), np.float64)
    for start in range(0, len(codes), BATCH):
        part = slice(start, start + BATCH)
        vectors = codes[part].astype(np.float32) * scale[part, None]
        for kind in range(len(TYPES)):
            out[kind] += vectors[kinds[part] == kind].sum(axis=0, dtype=np.float64)
    out[-1] = out[:-1].sum(axis=0)
    return out


def build_lookup_arrays(columns: pa.Table, bands: U32, mention_indptr: I64, mention_entity: U64) -> dict[str, AnyArray]:
    """Build the look-up arrays: rows by id, by session, by signature band and by entity."""
    key = columns["key"].to_numpy()
    by_key = np.argsort(key, kind="stable")
    session, order = columns["session"].to_numpy(), columns["ord"].to_numpy()
    reading = np.lexsort((order, session))
    sessions, first = np.unique(session[reading], return_index=True)
    by_band = np.empty((BANDS, len(key)), np.uint32)
    for band in range(BANDS):
        by_band[band] = np.argsort(bands[band], kind="stable")
    entity_key, entity_indptr, entity_rows, _ = invert_csr(mention_indptr, mention_entity)
    return {
        "ids.key": key[by_key],
        "ids.row": by_key.astype(np.uint32),
        "sessions.key": sessions,
        "sessions.indptr": np.append(first, len(key)).astype(np.int64),
        "sessions.rows": reading.astype(np.uint32),
        "bands.key": np.take_along_axis(bands, by_band.astype(np.int64), axis=1),
        "bands.row": by_band,
        "mentioned.key": entity_key,
        "mentioned.indptr": entity_indptr,
        "mentioned.rows": entity_rows,
    }


def build_link_arrays(links: ItemLinks) -> dict[str, AnyArray]:
    """Build the arrays of links, by either end."""
    order = np.argsort(links.key, kind="stable")
    return {
        "links.indptr": links.indptr,
        "links.key": links.key,
        "links.kind": links.kind,
        "linked.key": links.key[order],
        "linked.row": expand_rows(links.indptr)[order].astype(np.uint32),
        "linked.kind": links.kind[order],
    }


def write_facts(folder: Path, facts: pa.Table, row: AnyArray) -> None:
    """Write facts.parquet for SQL, and facts.arrow with the same facts as numbers, to be mapped.

    Args:
        facts: FACTS.
        row: the segment's row that states each fact, integers[f].
    """
    pq.write_table(facts, folder / "facts.parquet", compression="zstd")
    objects = [int(hash_parts("object", key), 16) if key else 0 for key in facts["object_key"].to_pylist()]
    numbers = pa.table(
        {
            "row": pa.array(row.astype(np.uint32)),
            "object": pa.array(objects, pa.uint64()),
            **{name: facts[name] for name in ("group", "family", "subject_entity", "object_entity")},
            **{name: pa.array(_to_seconds(facts[name])) for name in ("t_valid", "until")},
            "t_ingested": facts["t_ingested"].cast(pa.int64()),
            "confidence": facts["confidence"],
            **{name: facts[name].cast(pa.uint8()) for name in ("functional", "closes")},
        }
    )
    write_ipc(numbers, folder / "facts.arrow", max(1, len(numbers)))


def write_fact_index(folder: Path, facts: pa.Table, arrays: Mapping[str, AnyArray]) -> None:
    """Write the files for a search of the facts; none if there are no arrays.

    Args:
        facts: FACTS.
        arrays: from `build_fact_arrays`.
    """
    save_arrays(folder, arrays)
    if arrays:
        write_ipc(facts.select(FACT_TEXT.names), folder / "facts.text.arrow", max(1, len(facts)))


def write_steps(folder: Path, steps: pa.Table, row: AnyArray) -> None:
    """Write steps.parquet for SQL, steps.arrow with the same steps to be mapped, and their keys; nothing for no step.

    Args:
        steps: STEPS.
        row: the segment's row of each step, integers[a].
    """
    if not len(steps):
        return
    pq.write_table(steps, folder / "steps.parquet", compression="zstd")
    known = {name: pc.fill_null(steps[name], NO_NUMBER) for name in ("exit_code", "tests_passed", "tests_failed")}
    columns = {
        "row": pa.array(row.astype(np.uint32)),
        "pair": steps["pair"],
        "action": pa.array(_encode_names(steps["action"], ACTIONS)),
        "outcome": pa.array(_encode_names(steps["outcome"], OUTCOMES)),
        **known,
        **{name: steps[name] for name in ("tool", "target", "error", "commits")},
    }
    write_ipc(pa.table(columns, schema=STEP_COLUMNS), folder / "steps.arrow", len(steps))
    keys = steps["keys"].combine_chunks()
    keys = keys.chunk(0) if isinstance(keys, pa.ChunkedArray) else keys
    counts = np.diff(keys.offsets.to_numpy())
    flat = np.asarray(keys.flatten().to_numpy(), np.uint64)
    pairs = np.asarray(steps["pair"].to_numpy(), np.uint64)
    key = np.concatenate([flat, pairs])
    step = np.concatenate([np.arange(len(steps)).repeat(counts), np.arange(len(steps))])
    order = np.lexsort((step, key))
    save_arrays(folder, {"steps.key": key[order], "steps.step": step[order].astype(np.uint32)})


def _encode_names(column: pa.ChunkedArray, names: tuple[str, ...]) -> U8:
    return np.asarray(pc.index_in(column, pa.array(names)).to_numpy(), np.uint8)


def _to_seconds(column: pa.ChunkedArray) -> I64:
    whole = column.cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64())
    return np.asarray(pc.fill_null(whole, NO_TIME).to_numpy(), np.int64)


def hash_sessions(items: pa.Table) -> U64:
    """Hash each item's session to its key: uint64[n]."""
    cache: dict[tuple[str, str], int] = {}
    out = np.empty(items.num_rows, np.uint64)
    pairs = zip(items["source"].to_pylist(), items["session"].to_pylist(), strict=True)
    for row, pair in enumerate(pairs):
        key = cache.get(pair)
        if key is None:
            key = cache[pair] = int(hash_parts(*pair), 16)
        out[row] = key
    return out


def _build_columns(rows: RowBatch) -> pa.Table:
    items = rows.items
    lengths = np.bincount(expand_rows(rows.term_indptr), weights=rows.term_tf, minlength=len(rows))
    return pa.table(
        {
            "key": pa.array(parse_hex(items["id"])),
            "content": pa.array(parse_hex(items["content"])),
            "near": pa.array(parse_hex(pc.fill_null(items["near"], "0" * 16))),
            "accepted": items["t_ingested"].cast(pa.int64()),
            "time": pa.array(np.where(_mark_of_file(items), NO_TIME, _to_seconds(items["time"]))),
            **{name: pa.array(_to_seconds(items[name])) for name in ("t_valid", "t_invalid", "t_ingested")},
            **{name: items[name] for name in ("salience", "confidence", "priority")},
            "type": pa.array(_encode_names(items["type"], TYPES)),
            "role": pa.array(_encode_names(items["role"], ROLES)),
            "tokens": items["tokens"],
            "length": pa.array(lengths.astype(np.uint32)),
            "ord": items["ord"],
            "session": pa.array(hash_sessions(items)),
            "project": items["project"].combine_chunks().dictionary_encode(),
            "workspace": items["workspace"].combine_chunks().dictionary_encode(),
            "speaker": items["speaker"].combine_chunks().dictionary_encode(),
            "acl": items["acl"],
        }
    )


def _mark_of_file(items: pa.Table) -> Bool:
    """Return which items have the time of their file, by which nothing is ordered or filtered: bool[n]."""
    return np.asarray(pc.fill_null(pc.equal(items["time_quality"], "file"), False).to_numpy(), bool)


ENTITY_COUNT = ("items", pa.int64())


def write_graph(folder: Path, columns: pa.Table, indptr: I64, entity: U64, names: pa.Table, links: ItemLinks) -> None:
    """Write entities.parquet and edges.parquet, for SQL only.

    Args:
        columns: of the whole segment.
        indptr, entity: CSR, the entities of each row.
        names: entities, distinct, at least the mentioned ones; others are left out.
        links: of the rows to earlier items.
    """
    mentioned, counts = np.unique(entity, return_counts=True)
    here = names.filter(pc.is_in(names["hash"], pa.array(mentioned)))
    place = np.searchsorted(mentioned, here["hash"].to_numpy())
    counted = here.append_column("items", pa.array(counts[place]))
    pq.write_table(counted, folder / "entities.parquet", compression="zstd")

    key, session = columns["key"].to_numpy(), columns["session"].to_numpy()
    reading = np.lexsort((columns["ord"].to_numpy(), session))
    follows = np.flatnonzero(session[reading][1:] == session[reading][:-1])
    n = len(key)
    with pq.ParquetWriter(folder / "edges.parquet", _EDGES, compression="zstd") as out:
        for start in range(0, n, BATCH):  # in blocks: a million items have several million edges
            stop = min(start + BATCH, n)
            part = entity[indptr[start] : indptr[stop]]
            source = start + expand_rows(indptr[start : stop + 1] - indptr[start])
            idf = np.log1p(n / counts[np.searchsorted(mentioned, part)])
            out.write_table(_build_edges(key[source], "mentions", part, idf))
        for start in range(0, len(follows), BATCH):
            left = follows[start : start + BATCH]
            out.write_table(_build_edges(key[reading[left]], "next", key[reading[left + 1]], np.ones(len(left))))
        linking = expand_rows(links.indptr)
        for kind, name in enumerate(LINKS):
            chosen = np.flatnonzero(links.kind == kind)
            for start in range(0, len(chosen), BATCH):
                at = chosen[start : start + BATCH]
                out.write_table(_build_edges(key[linking[at]], name, links.key[at], np.ones(len(at))))
        for start in range(0, n, BATCH):
            out.write_table(
                _build_edges(
                    key[start : start + BATCH],
                    "session",
                    session[start : start + BATCH],
                    np.ones(min(BATCH, n - start)),
                )
            )


_EDGES = pa.schema([("src", pa.string()), ("kind", pa.string()), ("dst", pa.string()), ("weight", pa.float32())])


def _build_edges(src: U64, kind: str, dst: U64, weight: AnyArray) -> pa.Table:
    kinds = pa.array([kind] * len(dst), pa.string())
    columns: Mapping[str, Any] = {
        "src": format_hex(src),
        "kind": kinds,
        "dst": format_hex(dst),
        "weight": pa.array(weight.astype(np.float32)),
    }
    return pa.table(columns, schema=_EDGES)
