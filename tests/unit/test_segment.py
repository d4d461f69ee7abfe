"""How a segment is read: its text as Arrow says it, value by value; its arrays as they were saved, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from helix.errors import StoreError
from helix.snapshot.segment import _reader, map_ipc, map_npy

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "", None, "naïve 漢字 🙂", None, "x" * 300, "last", None, "ninth", "z"]),
    "whole": (pa.string(), ["one", "two", "three", "", "é"]),
    "blank": (pa.string(), ["", "", ""]),
    "nothing": (pa.string(), [None, None]),
    "none": (pa.string(), []),
    "turns": (pa.list_(pa.string()), [["t1"], [], None, ["t2", None, "ü"], ["", "t3"], None, [], ["t4"], None, ["t5"]]),
    "no turns": (pa.list_(pa.string()), [[], [], []]),
    "parts": (pa.map_(pa.string(), pa.float32()), [[("fix", 0.5)], None, []]),
    "time": (pa.int64(), [5, None, -(2**62)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_reader_gives_what_arrow_gives(name: str, tmp_path: Path) -> None:
    kind, values = COLUMNS[name]
    made = pa.array(values, kind)
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, pa.schema([("a", kind)])) as writer:
        writer.write_batch(pa.record_batch([made], ["a"]))
    for column in (made, made[1:], made[3:9], map_ipc(tmp_path / "a.arrow")[0].column(0)):
        read = _reader(column)
        assert [read(row) for row in range(len(column))] == column.to_pylist()


@pytest.mark.parametrize("shape", [(0,), (3,), (0, 4), (2, 3)], ids=str)
@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float32])
def test_an_array_is_mapped_as_it_was_saved(shape: tuple[int, ...], kind: type, tmp_path: Path) -> None:
    first = np.arange(np.prod(shape), dtype=kind).reshape(shape)
    for i, array in enumerate((first, first + kind(1))):  # of one header
        np.save(tmp_path / f"{i}.npy", array)
        found = map_npy(tmp_path / f"{i}.npy")
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert np.array_equal(found, array)


def test_arrays_of_other_shapes_and_kinds_are_told_apart(tmp_path: Path) -> None:
    for array in (np.zeros(12, np.float32), np.ones(12, np.int32), np.ones((3, 4), np.int32), np.ones(11, np.int32)):
        np.save(tmp_path / "a.npy", array)
        found = map_npy(tmp_path / "a.npy")
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert np.array_equal(found, array)


def test_what_is_no_plain_array_is_refused_every_time(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    whole = path.read_bytes()
    broken = [b"", whole[:6], whole[:9], whole[:60], whole[:-1], b"X" + whole[1:], whole.replace(b"(2, 3)", b"(2, 3(")]
    np.save(path, np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)))
    broken.append(path.read_bytes())
    for odd in (np.array([None, 1], object), np.array([], object)):
        np.save(path, odd, allow_pickle=True)
        broken.append(path.read_bytes())
    for data in (*broken, *broken):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"a\.npy is damaged"):
            map_npy(path)
    with pytest.raises(StoreError, match="missing"):
        map_npy(tmp_path / "none.npy")
