"""Reading a segment: values as Arrow returns them; arrays as saved, or refused; zones of columns follow sessions."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from helix.errors import StoreError
from helix.native.zones import ZONE
from helix.snapshot.checked_arrays import ArrayKind, map_arrays, map_ipc, map_npy
from helix.snapshot.segment.columns import SnapshotColumns
from helix.snapshot.segment.open import _make_reader

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


def write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("name", COLUMNS)
def test_readers_return_the_values_of_arrow(name: str, tmp_path: Path) -> None:
    made = pa.array(COLUMNS[name][1], COLUMNS[name][0])
    write(tmp_path / "a.arrow", table := pa.table({"a": made}))
    for column in (made, made[1:], made[3:9], map_ipc(tmp_path / "a.arrow", table.schema)[0].column(0)):
        read = _make_reader(column)
        assert [read(row) for row in range(len(column))] == column.to_pylist()


def test_an_array_is_mapped_as_it_was_saved(tmp_path: Path) -> None:
    for kind, shape in product((np.int8, np.uint64, np.float32), ((0,), (3,), (0, 4), (2, 3))):
        first = np.arange(np.prod(shape), dtype=kind).reshape(shape)
        for i, array in enumerate((first, first + kind(1))):  # of one header
            path = tmp_path / f"{kind.__name__}-{shape}-{i}.npy"
            np.save(path, array)
            found = map_npy(path, ArrayKind(kind, ("n", "d")[: len(shape)]))
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert np.array_equal(found, array)


EXPECTED = ArrayKind(np.int32, ("n", 3))


def test_an_array_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    good = np.arange(6, dtype=np.int32).reshape(2, 3)
    others = {
        "holds <i8, not <i4": good.astype(np.int64),
        "holds <u4, not <i4": good.astype(np.uint32),
        "it has 1 dimensions, not 2": good.reshape(6),
        "it has 3 dimensions, not 2": good.reshape(2, 3, 1),
        r"its shape is \[3, 2\], not \[3, 3\]": np.zeros((3, 2), np.int32),
        r"its shape is \[2, 3\], not \[4, 3\]": np.zeros((2, 3), np.int32),
        "it has no header": np.asfortranarray(good),
        "it has no header of a .npy file": np.array([None, 1], object),
        "it has no header of": good.astype(">i4"),
    }
    for said, array in others.items():
        np.save(path, array, allow_pickle=True)
        with pytest.raises(StoreError, match=r"a\.npy is damaged: .*" + said):
            map_npy(path, EXPECTED, {"n": 4} if "4, 3" in said else {})


def test_a_malformed_array_is_refused_every_time(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    whole = path.read_bytes()
    broken = [b"", whole[:6], whole[:9], whole[:60], whole[:-1], b"X" + whole[1:], whole.replace(b"(2, 3)", b"(2, 3(")]
    broken += [whole + b"\0", whole + bytes(12), whole.replace(b"(2, 3)", b"(2, -3)"), whole[:8] + b"\1\0" + whole[10:]]
    # So many values that their number of bytes is none a machine can count, or is 24 again in 64 bits.
    broken += [whole.replace(b"(2, 3), }" + b" " * len(huge), b"(%s, 3), }" % huge) for huge in (b"9" * 19, b"4" * 16)]
    broken.append(whole.replace(b"(2, 3), }" + b" " * 20, b"(6148914691236517207, 3), } "[:29].ljust(29)))
    for data in (*broken, *broken):
        assert data != whole
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"a\.npy is damaged"):
            map_npy(path, EXPECTED)
    with pytest.raises(StoreError, match="missing"):
        map_npy(tmp_path / "none.npy", EXPECTED)
    os.mkfifo(tmp_path / "pipe.npy")
    for odd in (tmp_path, tmp_path / "pipe.npy", Path("/dev/zero")):
        with pytest.raises(StoreError, match="no regular file"):
            map_npy(odd, EXPECTED)


def test_arrays_that_belong_together_are_of_one_length(tmp_path: Path) -> None:
    sizes = {"ends": "t + 1", "key": "t", "rows": "p"}
    kinds = {name: ArrayKind(np.int64, (size,)) for name, size in sizes.items()}

    def map_rows(ends: list[int], key: int, rows: int) -> dict[str, Any]:
        for name, array in {"ends": np.array(ends), "key": np.arange(key), "rows": np.arange(rows)}.items():
            np.save(tmp_path / f"{name}.npy", array)
        return map_arrays(tmp_path, kinds, {"ends": "rows"})

    assert map_rows([0, 2, 5], 2, 5)["rows"].tolist() == [0, 1, 2, 3, 4]
    assert map_rows([0], 0, 0)["key"].tolist() == []
    for wrong in (([0, 2, 5], 3, 5), ([0, 2, 5], 2, 4), ([0, 2, 5], 2, 6), ([1, 2, 5], 2, 5), ([], 0, 0)):
        with pytest.raises(StoreError, match="is damaged"):
            map_rows(*wrong)


def test_columns_of_another_type_and_offsets_that_lead_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    names = pa.schema([("name", pa.string()), ("acl", pa.list_(pa.string()))])
    write(path, pa.table({"acl": [["ana"], []], "name": ["x", "y"], "later": [1, 2]}))
    assert map_ipc(path, names)[0].schema.names == ["acl", "name"]  # what a newer Helix added is left alone
    kinds = ({"name": ["x"]}, "no column 'acl'"), ({"name": [1], "acl": [["a"]]}, "holds int64, not string")
    for wrong, message in kinds:
        write(path, pa.table(wrong))
        with pytest.raises(StoreError, match=message):
            map_ipc(path, names)
    write(path, pa.table({"name": ["seven77", "x"], "acl": [["ana", "bo"], ["cy"]]}))
    data, found = path.read_bytes(), 0
    for offsets in (np.array([0, 7, 8], np.int32), np.array([0, 2, 3], np.int32)):
        at = data.index(offsets.tobytes())
        for middle in (-1, 1 << 30):
            bad = offsets.copy()
            bad[1] = middle
            path.write_bytes(data[:at] + bad.tobytes() + data[at + bad.nbytes :])
            with pytest.raises(StoreError, match="is damaged"):
                map_ipc(path, names, full=True)
            found += 1
    assert found == 4


def columns(sessions: list[int]) -> SnapshotColumns:
    """Return rows of sessions with the given numbers of rows; a row's time is its session's day."""
    session = np.repeat(np.arange(len(sessions), dtype=np.int32), sessions)
    nothing = np.full(len(session), -1, np.int32)
    found = SnapshotColumns([], session, nothing, nothing, np.ones(len(session), bool))
    found.__dict__["time"] = session.astype(np.int64) * 86_400
    found.__dict__["type"] = np.zeros(len(session), np.uint8)
    return found


def test_a_zone_is_of_one_session() -> None:
    long = ZONE + 8
    told = columns([long, 20, 40]).zones("time")
    assert told.begin.tolist() == [0, ZONE, long, long + 20, long + 60]
    assert told.least.tolist() == told.most.tolist() == [0, 0, 86_400, 2 * 86_400]
    assert columns([20, 40]).zones("type").begin.tolist() == [0, 60]  # types go by no session
    assert columns([]).zones("time").begin.tolist() == [0]


def test_short_sessions_share_a_zone() -> None:
    told = columns([1] * 100).zones("time")
    assert told.begin.tolist() == [*range(0, 100, 4), 100]
    assert (told.most - told.least).tolist() == [3 * 86_400] * 25
