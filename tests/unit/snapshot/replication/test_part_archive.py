"""A part as one object: it is unpacked unchanged or refused."""

from __future__ import annotations

import hashlib
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


def unpack(data: bytes, target: Path, size: int = 1 << 20) -> str:
    target.mkdir()
    blocks = (data[i : i + size] for i in range(0, len(data), size))
    return unpack_part(blocks, target, DOCUMENT, FINGERPRINT, "there")


def test_a_part_comes_out_as_it_went_in(tmp_path: Path) -> None:
    data = pack(make(tmp_path / "part"))
    assert data == pack(make(tmp_path / "again", dict(reversed(FILES.items()))))  # equal parts give equal bytes
    for size in (1, 76, 1_000, 1 << 20):
        target = tmp_path / f"out{size}"
        assert unpack(data, target, size) == SEAL
        assert {path.name: path.read_bytes() for path in target.iterdir()} == FILES
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in target.iterdir())


def test_no_byte_can_change_unnoticed(tmp_path: Path) -> None:
    data = pack(make(tmp_path / "part"))
    places = [*range(0, 500, 7), *range(500, len(data), 97), len(data) - 1]
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in places]
    for n, damaged in enumerate((*changed, data[:-1], data[:100], b"", data + b"x")):
        with pytest.raises(Damaged, match="there"):
            unpack(damaged, tmp_path / f"out{n}")


def forge(header: object, body: bytes = b"") -> bytes:
    line = orjson.dumps(header) + b"\n"
    return f"{hashlib.sha256(line).hexdigest()} {len(line):010d}\n".encode() + line + body


def naming(*names: str, **told: str) -> dict[str, object]:
    files = [{"path": name, "bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()} for name in names]
    return {"document": DOCUMENT, "fingerprint": FINGERPRINT, "envelope": SEAL, "files": files, **told}


def test_no_name_leads_out_of_the_folder_and_a_false_header_is_refused(tmp_path: Path) -> None:
    names = ("../escaped.npy", "/tmp/escaped.npy", "a/b.npy", "..", ".hidden.npy", "codes.npy\n", "codes.pkl", "")
    for n, (header, message) in enumerate(
        (
            *((naming(name), "no file of a part") for name in names),
            (naming("a.npy", "a.npy"), "twice"),
            (naming("a.npy", document="d" * 64), "another document"),
            (naming("a.npy", fingerprint="d" * 16), "another document or pipeline"),
            ({"document": DOCUMENT}, "its header is malformed"),
            ([], "its header is malformed"),
        )
    ):
        target = tmp_path / f"in{n}" / "out"
        target.parent.mkdir()
        with pytest.raises(Damaged, match=message):
            unpack(forge(header, b"xx"), target)
        if n < len(names):
            assert [*target.parent.rglob("*")] == [target]


def test_a_part_removed_meanwhile_is_reported_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        pack(tmp_path / "nowhere")
    stream = pack_part(folder := make(tmp_path / "part"), DOCUMENT, FINGERPRINT, SEAL)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(MissingFile):
        b"".join(stream)
