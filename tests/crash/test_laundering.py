"""No rewrite gives damaged bytes a digest that fits: it names them and continues without them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helix.cli.main import main
from helix.errors import Damaged, StoreError
from helix.snapshot import paths, writer
from helix.snapshot.index import dense
from helix.snapshot.ledger import access_events
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from pipelines.ingest.dedupe import read_retained
from pipelines.maintain import merge_policy
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget, resume
from pipelines.maintain.touch import touch
from tests.compat.history import DIM, current, grow, publish
from tests.crash.test_damage import flip
from tests.support.paths import STORES
from tests.support.tiny import SETTINGS, make_store

WHOLE = STORES / "format-3" / "whole"


def item_of(root: Path) -> str:
    """Return a live, useful item."""
    snapshot = Snapshot.open(root)
    return f"{snapshot.columns.key[np.flatnonzero(snapshot.alive & (snapshot.catalog.access_count > 0))[0]]:016x}"


def fold(root: Path, item: str) -> None:
    access_events.append_events(root, [AccessEvent(item, "used", 1_772_500_000)])
    touch(root, SETTINGS)


OPERATIONS: dict[str, Callable[[Path, str], object]] = {
    "compact": lambda root, item: compact(root, SETTINGS, full=True),
    "forget": lambda root, item: forget(root, Selection(items=(item,)), SETTINGS),
    "touch": fold,
}


def content(root: Path) -> Any:
    """Return everything a reader gets from the store, independent of file names."""
    snapshot = Snapshot.open(root)
    opened = [
        (
            {name: array.tobytes() for name, array in segment.arrays.items()},
            segment.columns.to_pylist(),
            segment.texts(np.arange(segment.rows)),
            segment.facts.to_pylist(),
        )
        for segment in snapshot.files.segments
    ]
    return opened, snapshot.alive.tolist(), snapshot.catalog.access_count.tolist(), documents(root)


def questions(root: Path) -> list[list[str]]:
    """Return the doc2query questions of each row."""
    snapshot = Snapshot.open(root)
    field = snapshot.lexical.expansion
    return field.questions_of(np.arange(snapshot.rows)) if field else [[] for _ in range(snapshot.rows)]


def documents(root: Path) -> list[Any]:
    tables = [pq.read_table(root / file.path) for file in current(root).documents]
    return sorted(map(repr, pa.concat_tables(tables).to_pylist()))


def spoil(path: Path, rng: random.Random) -> None:
    """Damage a file so that it stays readable, where its format has checksums or compression."""
    path.chmod(0o600)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            changed = {name: arrays[name].copy() for name in arrays.files}
        changed["count"] += np.uint32(1)
        np.savez(path, **changed)
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        name = "path" if "path" in table.column_names else table.column_names[0]
        first = table[name].slice(0, 1) if name != "path" else pa.chunked_array([["elsewhere.md"]], table[name].type)
        other = pa.chunked_array([*table[name].slice(1).chunks, *first.chunks], table[name].type)
        pq.write_table(table.set_column(table.column_names.index(name), name, other), path)
    elif path.suffix == ".npy" and path.stat().st_size > 128:
        data = bytearray(path.read_bytes())
        data[128] ^= 1  # the first value
        path.write_bytes(data)
    else:
        flip(path, rng)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_damage_stays_visible_through_every_operation(operation: str, step: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(WHOLE, whole)
    paths.create_folders(whole)
    item = item_of(whole)
    good = tmp_path / "good"
    shutil.copytree(whole, good)
    OPERATIONS[operation](good, item)
    assert verify_store(good).problems == ()
    wanted, asked, failed = content(good), questions(good), []
    for i, file in enumerate(current(whole).files()[::step]):
        root = tmp_path / f"store-{i}"
        shutil.copytree(whole, root)
        spoil(root / file.path, random.Random(i))
        try:
            OPERATIONS[operation](root, item)
        except StoreError as error:
            if file.path not in str(error):
                failed.append(f"{file.path}: {error}")
        if file in current(root).files():
            laundered = not any(file.path in problem for problem in verify_store(root).problems)
        else:
            left_out = file.path.startswith("indexes/") and not any(questions(root))  # they are indexed again
            laundered = content(root) != wanted or (not left_out and questions(root) != asked)
        if laundered:
            failed.append(file.path)
        shutil.rmtree(root)
    assert failed == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of three segments, each of one session and project, and three document tables."""
    folder = tmp_path / "store"
    make_store(folder, [f"remark {i} about walnut bread" for i in range(6)], np.ones((6, DIM)) / 2)
    for text in ("the parsley is in the blue bowl", "the saffron is in the jar"):
        grow(folder, [text, f"{text}, says Priya"], "s")
    return folder


def test_a_merge_leaves_a_damaged_segment_out(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = current(root).segments[1]
    target = root / bad.files[3].path
    before = target.read_bytes()
    flip(target, random.Random(5))
    damaged = target.read_bytes()
    assert main(["compact", "--full", "--store", str(root)]) == 4
    assert bad.files[3].path in capsys.readouterr().err
    after = current(root)
    assert [segment.id == bad.id for segment in after.segments] == [False, True]
    assert [segment.rows for segment in after.segments] == [6 + 2, 2]
    assert target.read_bytes() == damaged
    assert [problem for problem in verify_store(root).problems if bad.files[3].path not in problem] == []
    target.write_bytes(before)
    done = compact(root, SETTINGS, full=True)
    assert (done.damaged, [segment.rows for segment in current(root).segments]) == ((), [10])
    assert verify_store(root).problems == ()


def test_damaged_vectors_get_no_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "INDEXED_ROWS", 2)
    first, bad, last = current(root).segments
    flip(root / f"segments/{bad.id}/vectors.i8.npy", random.Random(5))
    done = compact(root, SETTINGS)
    assert done.indexed == 2
    assert len(done.damaged) == 1
    assert f"segments/{bad.id}/vectors.i8.npy" in done.damaged[0]
    assert {index.covers for index in current(root).indexes} == {(first.id,), (last.id,)}


def test_damaged_document_tables_are_not_joined(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_policy, "FANOUT", 3)
    table = pa.table({"document": ["d" * 64], "path": ["a.md"], "accepted": pa.array([0], pa.timestamp("us", "UTC"))})
    files = [writer.write_documents(root, table) for _ in range(4)]
    publish(root, documents=tuple(files))
    flip(root / files[0].path, random.Random(5))
    done = compact(root, SETTINGS)
    assert files[0].path in done.damaged[0]
    assert files[0] in current(root).documents
    assert len(current(root).documents) == 2  # the others are joined


def test_a_deletion_leaves_a_damaged_segment_and_does_the_rest(root: Path) -> None:
    bad = current(root).segments[1]
    target = root / f"segments/{bad.id}/minhash.npy"
    before = target.read_bytes()
    flip(target, random.Random(5))
    damaged = target.read_bytes()
    with pytest.raises(Damaged, match=f"{bad.id}/minhash.npy is damaged.*still holds forgotten items"):
        forget(root, Selection(session="s"), SETTINGS)
    assert target.read_bytes() == damaged
    assert [segment.id for segment in current(root).segments] == [bad.id]
    assert [(entry.segment, entry.rows) for entry in current(root).deletes] == [(bad.id, 2)]  # no recall finds it
    target.write_bytes(before)
    (receipt,) = resume(root, SETTINGS)
    assert f"segments/{bad.id}/minhash.npy" in {entry["path"] for entry in receipt["files"]}
    assert not list((root / "purges").glob("*.json"))
    assert current(root).segments == ()
    assert not (root / "segments" / bad.id).exists()


def test_a_retained_value_is_read_with_its_page_checksum(root: Path) -> None:
    """A commit reads one page of a large file: its whole digest would take longer than the commit."""
    segment = current(root).segments[0]
    path = root / f"segments/{segment.id}/items.parquet"
    whole = read_retained(root, segment.id, 3)
    refused, data = 0, path.read_bytes()
    meta = pq.ParquetFile(path).metadata.row_group(0)
    columns = {meta.column(i).path_in_schema: meta.column(i) for i in range(meta.num_columns)}
    for name in ("document", "type", "type_confidence"):
        start = columns[name].dictionary_page_offset or columns[name].data_page_offset
        for at in range(start, start + columns[name].total_compressed_size):
            path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
            try:
                assert read_retained(root, segment.id, 3) == whole, (name, at)
            except StoreError as error:
                assert "items.parquet is damaged" in str(error)  # noqa: PT017
                refused += 1
    assert refused > 100
