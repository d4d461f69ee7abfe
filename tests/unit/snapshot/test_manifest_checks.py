"""Bounds of a manifest: a field outside them is refused by name, whatever the digest."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.npz import read_npz
from helix.snapshot.paths import read_regular
from tests.support.paths import STORES

WHOLE = STORES / "format-3" / "whole"
Raw = dict[str, Any]
NUMBERS = (-1, 1.0, "1", None, True, (1 << 64) - 1, [], {})


@pytest.fixture(scope="module")
def whole() -> Raw:
    """Return a manifest with every field."""
    raw: Raw = orjson.loads((WHOLE / "manifests" / str(manifests.read_current(WHOLE))).read_bytes())
    assert all(raw[name] for name in ("segments", "deletes", "indexes", "documents", "forgotten", "access", "coverage"))
    return raw


def parse(raw: Any) -> manifests.Manifest:
    data = orjson.dumps(raw)
    return manifests.parse(f"00000009-{hashlib.sha256(data).hexdigest()[:16]}.json", data)


def change(*path: Any, to: Any) -> Callable[[Raw], None]:
    def apply(raw: Raw) -> None:
        for step in path[:-1]:
            raw = raw[step]
        raw[path[-1]] = to

    return apply


def forge_manifests() -> dict[str, Callable[[Raw], None]]:
    """Return forged manifests, by a word of the error."""
    cases: dict[str, Callable[[Raw], None]] = {}

    def add(said: str, *path: Any, to: Any) -> None:
        cases[f"{said} :: {path} = {str(to)[:40]}"] = change(*path, to=to)

    for value in NUMBERS:
        add("rows of segment", "segments", 0, "rows", to=value)
        add("generation", "generation", to=value)
        add("token", "token", to=value)
        add("counts.items", "counts", "items", to=value)
        add("lineage.dim", "lineage", "dim", to=value)
        add("deleted rows", "deletes", 0, "rows", to=value)
        add("for its size", "segments", 0, "files", 0, "bytes", to=value)
        add("rows of documents/", "documents", 0, "rows", to=value)
        add("watermarks", "watermarks", to={"events": {"x": value}})
    add("generation", "generation", to=0)
    for value in (0, 1 << 40):
        add("lineage.dim", "lineage", "dim", to=value)
    add("rows of segment", "segments", 0, "rows", to=1 << 32)
    for name in ("../../etc", "/etc", "", "a/b", ".", "x" * 200, 5, None, "a\x1b[2J"):
        add("segments.id", "segments", 0, "id", to=name)
        add("indexes.id", "indexes", 0, "id", to=name)
        add("lineage.encoder", "lineage", "encoder", to=name)
        if name is not None:
            add("parent", "parent", to=name)
    for path in ("../../../etc/passwd", "/etc/passwd", "inbox/x", "segments/other/x.npy", "manifests/x", 5, ""):
        add("files of segment", "segments", 0, "files", 0, "path", to=path)
        add("forgotten", "forgotten", "path", to=path)
        add("access", "access", "path", to=path)
        add("documents", "documents", 0, "path", to=path)
        add("deletes.file", "deletes", 0, "file", "path", to=path)
        add("files of index", "indexes", 0, "files", 0, "path", to=path)
    lists = ("segments", "deletes", "indexes", "documents", "encoder", "reader_flags", "writer_flags")
    for field, value in product(lists, (5, "x", {}, [5], [[]])):
        add("", field, to=value)
    for field, value in (
        *product(("counts", "coverage", "lineage", "watermarks"), (5, "x", ["x"])),
        *product(("created",), ("x", "\x1b[2J", 5, None)),
    ):
        add(field, field, to=value)
    add("coverage", "coverage", to={"x" * 1_000: {}})
    add("coverage", "coverage", to={"x": {"items": "many"}})
    add("lineage.vectors", "lineage", "vectors", to="x")
    add("SHA-256", "segments", 0, "files", 0, "sha256", to="x")
    add("covers", "indexes", 0, "covers", to=["nope"])
    add("0 segments instead of one", "indexes", 0, "covers", to=[])
    add("do not name its columns", "segments", 0, "files", to=[])
    cases["named twice"] = lambda raw: raw["segments"].append(raw["segments"][0])
    cases["named twice "] = lambda raw: raw["deletes"].append(raw["deletes"][0])
    cases["which is none of them"] = change("deletes", 0, "segment", to="nope")
    cases["a list of at most 10000 belongs"] = lambda raw: raw.update(segments=raw["segments"] * 5_001)
    cases["more than 4294967295"] = lambda raw: raw["segments"].append(
        {**raw["segments"][0], "id": "other", "rows": (1 << 32) - 1}
        | {"files": [{**raw["segments"][0]["files"][0], "path": "segments/other/columns.arrow"}]}
    )
    for field in ("generation", "lineage", "segments", "counts", "token", "encoder"):
        cases[f"{field} :: missing"] = lambda raw, field=field: raw.pop(field)
    return cases


def test_a_field_out_of_bounds_is_refused_by_name(whole: Raw) -> None:
    parse(whole)
    failed = []
    for name, apply in forge_manifests().items():
        raw = copy.deepcopy(whole)
        apply(raw)
        try:
            parse(raw)
        except StoreError as error:
            if name.split(" ::")[0].strip() not in str(error) or "is damaged" not in str(error):
                failed.append(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001
            failed.append(f"{name}: {error!r}")
        else:
            failed.append(f"{name}: taken")
    assert failed == []


def test_a_manifest_that_is_no_object_or_is_nested_without_end_is_refused(whole: Raw, tmp_path: Path) -> None:
    for data in (b"[]", b"5", b"null", b'"x"', b"[" * 500_000, b'{"a":' * 5_000):
        name = f"00000009-{hashlib.sha256(data).hexdigest()[:16]}.json"
        with pytest.raises(StoreError, match=f"{name} is damaged"):
            manifests.parse(name, data)
    (tmp_path / "manifests").mkdir()
    with pytest.raises(StoreError, match="is no manifest's name"):
        manifests.load(tmp_path, "../../etc/passwd")
    os.mkfifo(tmp_path / "manifests" / "00000001-x.json")
    with pytest.raises(StoreError, match="no regular file"):
        manifests.load(tmp_path, "00000001-x.json")


def test_only_small_regular_files_are_read_without_blocking(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    for path, most in ((tmp_path / "file", 4), (tmp_path, 5), (tmp_path / "pipe", 5), (Path("/dev/zero"), 5)):
        with pytest.raises(OSError, match=r"no regular file|more than|directory"):
            read_regular(path, most)


def test_arrays_of_a_small_file_are_of_their_kind_and_as_large_as_they_say(tmp_path: Path) -> None:
    path, kinds = tmp_path / "a.npz", {"key": (np.uint64, 1), "level": (np.float32, 0)}
    good = {"key": np.arange(3, dtype=np.uint64), "level": np.float32(1)}

    def check_refused(message: str = r"a\.npz is damaged") -> None:
        with pytest.raises(StoreError, match=message):
            read_npz(path, kinds)

    check_refused("missing")
    np.savez(path, **good)
    assert read_npz(path, kinds)["key"].tolist() == [0, 1, 2]
    data = path.read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        check_refused()
    odd = (np.arange(3), np.arange(3.0), np.ones((3, 1), np.uint64), np.array([None], object), np.uint64(1))
    for arrays in (*({**good, "key": key} for key in odd), {**good, "level": np.zeros(1, np.float32)}):
        np.savez(path, **arrays)
        check_refused()
    np.savez(path, key=good["key"])
    check_refused()
    np.savez_compressed(path, key=np.zeros(1 << 20, np.uint64), level=np.float32(1))  # it may swell
    check_refused("compressed")
