"""Writes segments and publishes generations. One writer at a time; see FORMAT.md, "Publishing"."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.encoders.registry import sha256
from helix.errors import StoreError
from helix.failpoints import failpoint
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.arrays import invert, owners
from helix.snapshot.manifest import Deletes, File, Index, Manifest, Segment
from helix.snapshot.rows import NO_TIME, Rows, digest
from helix.types import ROLES, TYPES


@dataclass(frozen=True, slots=True)
class Lock:
    """The right to publish, while `token` stands in the lock file."""

    root: Path
    token: int

    def check(self) -> None:
        """Raises StoreError if another writer has taken over."""
        found = _holder(self.root).get("token")
        if found != self.token:
            raise StoreError(
                f"this writer holds token {self.token} of {self.root}, but token {found} has taken over",
                "nothing was published; run the command again",
            )


def _holder(root: Path) -> dict[str, Any]:
    try:
        return dict(orjson.loads((root / "writer.lock").read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return {}


@contextmanager
def lock(root: Path, wait: float) -> Iterator[Lock]:
    """Be the one writer. The kernel frees the lock when its holder dies.

    Args:
        root: the store.
        wait: seconds to wait for another writer.

    Raises:
        StoreError: another process still writes after that time, or the store cannot be written.
    """
    try:
        handle = os.open(root / "writer.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise paths.unwritable(root, error) from None
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    raise paths.unwritable(root, error) from None
                if time.monotonic() >= deadline:
                    holder = _holder(root)
                    raise StoreError(
                        f"process {holder.get('pid')} on {holder.get('host')} writes the store {root}",
                        "wait for it, or raise HELIX_LOCK_WAIT",
                    ) from None
                time.sleep(0.02)
        token = max(int(_holder(root).get("token") or 0), _published_token(root)) + 1
        data = orjson.dumps({"token": token, "pid": os.getpid(), "host": socket.gethostname()})
        os.pwrite(handle, data.ljust(256), 0)
        os.fsync(handle)
        paths.sweep(root)
        yield Lock(root, token)
    finally:
        os.close(handle)


def _published_token(root: Path) -> int:
    name = manifests.current_name(root)
    return manifests.load(root, name, write=True).token if name else 0


def describe(root: Path, path: Path, rows: int = 0) -> File:
    """A file of the store as a manifest names it."""
    return File(str(path.relative_to(root)), path.stat().st_size, sha256(path), rows)


def describe_tree(root: Path, folder: Path) -> tuple[File, ...]:
    """Every file below a folder, by name."""
    return tuple(describe(root, path) for path in sorted(folder.rglob("*")) if path.is_file())


def new_id() -> str:
    """A name no other segment or index has."""
    return f"{time.strftime('%Y%m%d%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


# ---------------------------------------------------------------- segments


def write_segment(root: Path, rows: Rows) -> Segment:
    """Write one segment and make it durable; nothing refers to it yet."""
    identity = new_id()
    target = root / "segments" / identity
    with paths.new_folder(target) as folder:
        pq.write_table(rows.items, folder / "items.parquet", compression="zstd")
        _write_ipc(_text(rows.items), folder / "text.arrow")
        lengths = np.zeros(len(rows), np.int64)
        np.add.at(lengths, owners(rows.term_indptr), rows.term_tf)
        _write_ipc(_columns(rows.items, lengths), folder / "columns.arrow")
        failpoint("commit.segment_half")
        for name, array in _arrays(rows).items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        mentioned, counts = np.unique(rows.mention_entity, return_counts=True)
        _write_graph(rows, mentioned, counts, folder)
    return Segment(identity, len(rows), describe_tree(root, target))


def _arrays(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    term_key, term_indptr, term_rows, order = invert(rows.term_indptr, rows.term_key)
    entity_key, entity_indptr, entity_rows, _ = invert(rows.mention_indptr, rows.mention_entity)
    vectors = rows.codes.astype(np.float32) * rows.scale[:, None]
    kinds = _codes(rows.items["type"], TYPES)
    sums = np.zeros((len(TYPES) + 1, vectors.shape[1]), np.float64)
    np.add.at(sums, kinds, vectors)
    sums[-1] = sums[:-1].sum(axis=0)
    return {
        "vectors.i8": rows.codes,
        "vectors.scale": rows.scale,
        "vectors.sum": sums,
        "minhash": rows.minhash,
        "terms.key": term_key,
        "terms.indptr": term_indptr,
        "terms.rows": term_rows,
        "terms.tf": rows.term_tf[order],
        "mentions.indptr": rows.mention_indptr,
        "mentions.entity": rows.mention_entity,
        "mentioned.key": entity_key,
        "mentioned.indptr": entity_indptr,
        "mentioned.rows": entity_rows,
    }


def _write_ipc(table: pa.Table, path: Path) -> None:
    # One record batch, so that every column is one contiguous buffer when mapped.
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(1, table.num_rows))


def _codes(column: pa.ChunkedArray, names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    return np.asarray(pc.index_in(column, pa.array(names)).to_numpy(), np.uint8)


def _seconds(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    whole = column.cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64())
    return np.asarray(pc.fill_null(whole, NO_TIME).to_numpy(), np.int64)


def _text(items: pa.Table) -> pa.Table:
    return items.select(["id", "text", "session", "turns", "speaker", "time", "project", "path", "title"])


def session_keys(items: pa.Table) -> npt.NDArray[np.uint64]:
    """The key of each item's session: uint64[n]."""
    pairs = zip(items["source"].to_pylist(), items["session"].to_pylist(), strict=True)
    cache: dict[tuple[str, str], int] = {}
    out = np.empty(items.num_rows, np.uint64)
    for row, pair in enumerate(pairs):
        key = cache.get(pair)
        if key is None:
            key = cache[pair] = int(digest(*pair), 16)
        out[row] = key
    return out


def _columns(items: pa.Table, lengths: npt.NDArray[np.int64]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(np.array([int(identity, 16) for identity in items["id"].to_pylist()], np.uint64)),
            **{name: pa.array(_seconds(items[name])) for name in ("time", "t_valid", "t_invalid", "t_ingested")},
            **{name: items[name] for name in ("salience", "confidence", "priority")},
            "type": pa.array(_codes(items["type"], TYPES)),
            "role": pa.array(_codes(items["role"], ROLES)),
            "tokens": items["tokens"],
            "length": pa.array(lengths.astype(np.uint32)),
            "ord": items["ord"],
            "session": pa.array(session_keys(items)),
            "project": items["project"].combine_chunks().dictionary_encode(),
            "speaker": items["speaker"].combine_chunks().dictionary_encode(),
            "acl": items["acl"],
        }
    )


def _write_graph(rows: Rows, mentioned: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], folder: Path) -> None:
    """entities.parquet and edges.parquet: the graph for SQL; serving reads the arrays."""
    here = rows.entities.filter(pc.is_in(rows.entities["hash"], pa.array(mentioned)))
    found = np.searchsorted(mentioned, here["hash"].to_numpy())
    pq.write_table(
        here.append_column("items", pa.array(counts[found])), folder / "entities.parquet", compression="zstd"
    )

    ids = np.array(rows.items["id"].to_pylist(), dtype=object)
    sessions, order = session_keys(rows.items), np.asarray(rows.items["ord"].to_numpy())
    reading = np.lexsort((order, sessions))
    follows = np.flatnonzero(sessions[reading][1:] == sessions[reading][:-1])
    source = owners(rows.mention_indptr)
    idf = np.log1p(len(rows) / np.maximum(counts[np.searchsorted(mentioned, rows.mention_entity)], 1))
    edges = pa.concat_tables(
        [
            _edges(ids[source], "mentions", [f"{e:016x}" for e in rows.mention_entity.tolist()], idf),
            _edges(ids[reading[follows]], "next", list(ids[reading[follows + 1]]), np.ones(len(follows))),
            _edges(ids, "session", [f"{s:016x}" for s in sessions.tolist()], np.ones(len(ids))),
        ]
    )
    pq.write_table(edges, folder / "edges.parquet", compression="zstd")


def _edges(src: Any, kind: str, dst: list[str], weight: Any) -> pa.Table:
    return pa.table(
        {
            "src": pa.array(list(src), pa.string()),
            "kind": pa.array([kind] * len(dst), pa.string()),
            "dst": pa.array(dst, pa.string()),
            "weight": pa.array(np.asarray(weight, np.float32)),
        }
    )


# ---------------------------------------------------------------- other files of a generation


def write_deletes(root: Path, segment: str, rows: npt.NDArray[np.uint32]) -> Deletes:
    """All deleted rows of one segment, as a new file."""
    path = root / "deletes" / f"{new_id()}.npy"
    paths.write_file(path, _npy(np.sort(rows).astype(np.uint32)))
    return Deletes(segment, len(rows), describe(root, path, len(rows)))


def write_documents(root: Path, table: pa.Table) -> File:
    """The documents one commit took in."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = root / "documents" / f"{new_id()}.parquet"
    paths.write_file(path, sink.getvalue().to_pybytes())
    return describe(root, path, table.num_rows)


def write_index(root: Path, kind: str, files: Mapping[str, bytes], params: Mapping[str, Any]) -> Index:
    """An index made of whole files."""
    identity = new_id()
    target = root / "indexes" / identity
    with paths.new_folder(target) as folder:
        for name, data in files.items():
            path = folder / kind / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(data)
    return Index(identity, kind, (), describe_tree(root, target), params)


def adopt_encoder(root: Path, folder: Path, fingerprint: str) -> tuple[File, ...]:
    """Copy an exported encoder into the store, so that a query node needs nothing else."""
    target = root / "encoders" / fingerprint
    if not target.is_dir():
        with paths.new_folder(target) as new:
            for name in ("encoder.json", "model.onnx", "tokenizer.json"):
                (new / name).write_bytes((folder / name).read_bytes())
    return describe_tree(root, target)


def _npy(array: npt.NDArray[Any]) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def publish(held: Lock, manifest: Manifest) -> str:
    """Make a manifest the current generation; returns its file name.

    Raises:
        StoreError: CURRENT is no longer the parent, or another writer has taken over; nothing was published.
    """
    root = held.root
    name, data = manifests.dump(manifest)
    paths.write_file(root / "manifests" / name, data)
    failpoint("commit.manifest")
    held.check()
    found = manifests.current_name(root)
    if found != manifest.parent:
        raise StoreError(
            f"CURRENT of {root} was {manifest.parent} when this commit began and is {found} now",
            "nothing was published; run the command again",
        )
    failpoint("commit.checked")
    paths.write_file(root / "CURRENT", f"{name}\n".encode())
    failpoint("commit.current")
    return name
