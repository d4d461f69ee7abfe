"""A part as one object: it is unpacked unchanged or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from helix.errors import Damaged
from helix.snapshot.replication.object_store import MissingFile
from helix.snapshot.replication.part_archive import pack_part, unpack_part

DOCUMENT, FINGERPRINT, SEAL = "a" * 64, "b" * 16, "c" * 64
FILES = {"items.parquet": b"PAR1" * 700, "codes.npy": b"", "part.json": b'{"path": "x"}'}


def make(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def pack(folder: Path) -> bytes:
    return b"".join(pack_part(folder, DOCUMENT, FINGERPRINT, SEAL))


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def unpack(data: bytes, target: Path, size: int = 1 << 20) -> str:
    target.mkdir()
    return unpack_part(blocks(data, size), target, DOCUMENT, FINGERPRINT, "there")


@pytest.mark.parametrize("size", [1, 76, 1_000, 1 << 20])
def test_a_part_comes_out_as_it_went_in(size: int, tmp_path: Path) -> None:
    data = pack(make(tmp_path / "part"))
    assert unpack(data, tmp_path / "out", size) == SEAL
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == FILES
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "out").iterdir())


def test_equal_parts_give_equal_bytes(tmp_path: Path) -> None:
    one = pack(make(tmp_path / "one"))
    assert one == pack(make(tmp_path / "two", dict(reversed(FILES.items()))))


def test_no_byte_can_change_unnoticed(tmp_path: Path) -> None:
    data = pack(make(tmp_path / "part"))
    for n, at in enumerate([*range(0, 500, 7), *range(500, len(data), 97), len(data) - 1]):
        with pytest.raises(Damaged, match="there"):
            unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], tmp_path / f"out{n}")


@pytest.mark.parametrize("how", ["cut", "headless", "empty", "grown"])
def test_a_damaged_part_is_refused(how: str, tmp_path: Path) -> None:
    data = pack(make(tmp_path / "part"))
    broken = {"cut": data[:-1], "headless": data[:100], "empty": b"", "grown": data + b"x"}[how]
    with pytest.raises(Damaged, match="there"):
        unpack(broken, tmp_path / "out")


def forge(header: object, body: bytes = b"") -> bytes:
    line = orjson.dumps(header) + b"\n"
    return f"{hashlib.sha256(line).hexdigest()} {len(line):010d}\n".encode() + line + body


def naming(*names: str, **told: str) -> dict[str, object]:
    files = [{"path": name, "bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()} for name in names]
    return {"document": DOCUMENT, "fingerprint": FINGERPRINT, "envelope": SEAL, "files": files, **told}


@pytest.mark.parametrize(
    "name", ["../escaped.npy", "/tmp/escaped.npy", "a/b.npy", "..", ".hidden.npy", "codes.npy\n", "codes.pkl", ""]
)
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="no file of a part"):
        unpack(forge(naming(name), b"x"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (naming("a.npy", "a.npy"), "twice"),
        (naming("a.npy", document="d" * 64), "another document"),
        (naming("a.npy", fingerprint="d" * 16), "another document or pipeline"),
        ({"document": DOCUMENT}, "its header is malformed"),
        ([], "its header is malformed"),
    ],
)
def test_a_header_that_lies_is_refused(header: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=said):
        unpack(forge(header, b"xx"), tmp_path / "out")


def test_a_part_removed_meanwhile_is_reported_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        pack(tmp_path / "nowhere")
    stream = pack_part(folder := make(tmp_path / "part"), DOCUMENT, FINGERPRINT, SEAL)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(MissingFile):
        b"".join(stream)
