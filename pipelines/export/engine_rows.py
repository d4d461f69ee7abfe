"""Items as an engine holds them, and a digest of each."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.engines.base import FIELDS, PUBLIC
from helix.snapshot.reader.conditions import find_ends
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.projects import NameColumn
from helix.types import F32, I64, ROLES, TYPES, U64, AnyArray

_FORMAT: Final = 1  # of what is written; another number sends every item again


def make_batch(snap: Snapshot, rows: I64, text: bool) -> pa.RecordBatch:
    """Return items with their vectors: FIELDS of `helix.engines.base`, and `vector`.

    Args:
        rows: int64[n] of live items.
        text: with their texts.
    """
    columns, shown = snap.columns, snap.text(rows)
    moments = {name: getattr(columns, name)[rows] for name in ("time", "t_valid", "accepted")}
    arrays: dict[str, Any] = {
        "id": format_hex(columns.key[rows]),
        "digest": format_hex(make_digests(snap, rows, text)),
        "session": [entry["session"] for entry in shown],
        "session_key": format_hex(snap.sessions[columns.session[rows]]),
        "project": _take_names(columns.project[rows], columns.projects),
        "project_key": _take_stored(columns.stored_projects, rows),
        "speaker": _take_names(columns.speaker[rows], columns.speakers),
        "type": _take_names(columns.type[rows], TYPES),
        "role": _take_names(columns.role[rows], ROLES),
        "title": [entry["title"] for entry in shown],
        "source": [entry["path"] for entry in shown],
        "near": [f"{key:016x}" if key else None for key in columns.near[rows].tolist()],
        "text": [entry["text"] if text else None for entry in shown],
        "turns": [list(entry["turns"]) for entry in shown],
        "readers": list_readers(snap, rows),
        **{name: pa.array(values, mask=values == NO_TIME) for name, values in moments.items()},
        "valid_until": find_ends(columns.t_invalid[rows]),
        "tokens": columns.tokens[rows].astype(np.int64),
        **{name: getattr(columns, name)[rows] for name in ("salience", "confidence", "priority")},
    }
    vectors = read_vectors(snap, rows)
    fields = [pa.array(arrays[field.name], field.type) for field in FIELDS]
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    return pa.RecordBatch.from_arrays([*fields, flat], schema=FIELDS.append(pa.field("vector", flat.type)))


def read_vectors(snap: Snapshot, rows: I64) -> F32:
    """Return the vectors of rows in half precision where the lineage stores them, else of the 8-bit codes."""
    vectors = snap.vectors.dequantise(rows)
    for segment, here, local in snap.row_map.split(rows):
        if len(segment["vectors.f16"]):
            vectors[here] = segment["vectors.f16"][local].astype(np.float32)
    return vectors


def list_readers(snap: Snapshot, rows: I64) -> list[list[str]]:
    """Return the principals that may read each item; PUBLIC for everyone."""
    generation, restricted = snap.files, snap.files.restricted[rows]
    readers: dict[int, list[str]] = {row: [] for row in rows[restricted].tolist()}
    if readers:
        at = np.flatnonzero(np.isin(generation.acl_rows, rows[restricted]))
        for row, name in zip(generation.acl_rows[at].tolist(), generation.acl_names.take(at).to_pylist(), strict=True):
            readers[row].append(name)
    return [sorted(readers[row]) if row in readers else [PUBLIC] for row in rows.tolist()]


def make_digests(snap: Snapshot, rows: I64, text: bool) -> U64:
    """Return a digest of each item: uint64[n]. An item whose digest is the same is the same in an engine.

    A text is digested by the stored hash of its content, a vector by its codes.
    """
    columns = snap.columns
    parts: list[AnyArray] = [
        np.full(len(rows), 2 * _FORMAT + text, np.uint64),
        columns.key[rows],
        snap.sessions[columns.session[rows]],
        _hash_names(columns.projects)[columns.project[rows]],
        _hash_names(columns.stored_projects.names)[columns.stored_projects.codes[rows]],
        _hash_names(columns.speakers)[columns.speaker[rows]],
        columns.type[rows],
        columns.role[rows],
        columns.near[rows],
        columns.tokens[rows],
        *(getattr(columns, name)[rows] for name in ("time", "t_valid", "t_invalid", "accepted")),
        *(getattr(columns, name)[rows].view(np.uint32) for name in ("salience", "confidence", "priority")),
        _hash_readers(snap, rows),
        _read_contents(snap, rows),
        _digest_codes(snap, rows),
    ]
    digest = np.zeros(len(rows), np.uint64)
    for part in parts:
        digest = _mix(digest ^ np.asarray(part).astype(np.uint64))
    return digest


def _mix(values: U64) -> U64:
    """Mix the bits of numbers, as splitmix64 does (Steele, Lea & Flood 2014, "Fast splittable generators")."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _read_contents(snap: Snapshot, rows: I64) -> U64:
    """Return the stored hash of each text: uint64[n]."""
    out = np.empty(len(rows), np.uint64)
    for segment, here, local in snap.row_map.split(rows):
        out[here] = segment.column("content")[local]
    return out


def _digest_codes(snap: Snapshot, rows: I64) -> U64:
    """Return a digest of each vector's codes and scale: uint64[n]."""
    out = np.empty(len(rows), np.uint64)
    for segment, here, local in snap.row_map.split(rows):
        codes = segment["vectors.i8"].take(local, axis=0)
        padded = np.zeros((len(local), -(-codes.shape[1] // 8) * 8), np.int8)
        padded[:, : codes.shape[1]] = codes
        words = padded.view(np.uint64)
        factors = _mix(np.arange(words.shape[1], dtype=np.uint64)) | np.uint64(1)
        scale = segment["vectors.scale"][local].view(np.uint32).astype(np.uint64)
        out[here] = (words * factors).sum(axis=1, dtype=np.uint64) ^ scale
    return out


def _hash_names(names: Sequence[str]) -> U64:
    """Return a hash of each name, and at the end one for −1: no name."""
    return np.array([_hash(name) for name in names] + [0], np.uint64)


def _hash_readers(snap: Snapshot, rows: I64) -> U64:
    """Return a hash of each item's ACL: uint64[n]; 0 without one."""
    out, restricted = np.zeros(len(rows), np.uint64), snap.files.restricted[rows]
    if restricted.any():
        out[restricted] = [_hash("\0".join(names)) for names in list_readers(snap, rows[restricted])]
    return out


def _hash(text: str) -> int:
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _take_names(codes: AnyArray, names: Sequence[str]) -> list[str]:
    """Return the name of each code; an empty one for −1."""
    return [names[code] if code >= 0 else "" for code in codes.tolist()]


def _take_stored(column: NameColumn, rows: I64) -> list[str]:
    return _take_names(column.codes[rows], column.names)
