"""How a segment's text is read: as Arrow says it, value by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helix.snapshot.segment import _reader, map_ipc

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
