"""A flipped byte is found and named; an unusable store gives the reason and the remedy."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.errors import StoreError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.manifest import FORMAT
from helix.snapshot.verify import verify_store
from tests.crash.conftest import Helix, Output


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.chmod(0o600)
    path.write_bytes(data)


def list_stored(root: Path) -> list[Path]:
    """Return every file of the store but the lock."""
    return sorted(p for p in root.rglob("*") if p.is_file() and p.name != "writer.lock" and p.stat().st_size)


def test_a_whole_store_is_accepted(sample_store: Path) -> None:
    report = verify_store(sample_store)
    assert report.problems == ()
    assert report.orphans == ()
    assert report.files >= 20


def test_a_flipped_byte_anywhere_is_found_and_named(own_store: Path) -> None:
    rng = random.Random(1)
    for path in list_stored(own_store):
        before = path.read_bytes()
        flip(path, rng)
        report = verify_store(own_store)
        name = str(path.relative_to(own_store))
        assert report.problems, f"nothing found after a flip in {name}"
        assert any(name in problem or name == "CURRENT" for problem in report.problems), (name, report.problems)
        path.write_bytes(before)
    assert verify_store(own_store).problems == ()


def test_a_missing_and_a_truncated_file_are_named(own_store: Path) -> None:
    segment = next((own_store / "segments").iterdir())
    (segment / "minhash.npy").unlink()
    data = (segment / "text.arrow").read_bytes()
    (segment / "text.arrow").write_bytes(data[:-100])
    problems = verify_store(own_store).problems
    assert any("minhash.npy is missing" in problem for problem in problems)
    assert any("text.arrow is damaged" in problem and f"{len(data) - 100} bytes" in problem for problem in problems)
    with pytest.raises(StoreError, match=r"minhash\.npy is damaged: the file is missing"):
        Memory(own_store)


def test_verify_reports_damage_with_status_4(own_store: Path, helix: Helix) -> None:
    target = next((own_store / "segments").iterdir()) / "vectors.i8.npy"
    flip(target, random.Random(3))
    found, as_json = helix("verify", "--store", own_store), helix("verify", "--store", own_store, "--json")
    assert (found.status, as_json.status) == (4, 4)
    assert "vectors.i8.npy is damaged" in found.out
    assert "vectors.i8.npy" in json.loads(as_json.out)["problems"][0]


def newer(root: Path, **changes: object) -> None:
    """Rewrite the current manifest as another Helix version would, with a fitting name."""
    name = manifests.read_current(root)
    data = orjson.dumps(orjson.loads((root / "manifests" / str(name)).read_bytes()) | changes)
    new = f"00000099-{hashlib.sha256(data).hexdigest()[:16]}.json"
    (root / "manifests" / new).write_bytes(data)
    (root / "CURRENT").write_text(new + "\n")


def assert_refused(found: Output, *words: str) -> None:
    assert found.status == 4
    assert len(found.err.strip().splitlines()) == 1
    assert not [word for word in words if word not in found.err], found.err


def test_another_format_is_refused_and_an_unknown_writer_flag_only_stops_writing(
    own_store: Path, helix: Helix, tmp_path: Path
) -> None:
    (tmp_path / "note.md").write_text("# A note\n\nabout walnuts")
    recall, ingest = ["recall", "priya"], ["ingest", tmp_path / "note.md"]
    for changes, message, remedy in (
        ({"format": FORMAT + 1}, f"store format {FORMAT + 1}", "upgrade Helix"),
        ({"format": 1}, "store format 1", "into a new store"),
        ({"format": FORMAT, "reader_flags": ["sparse"]}, "sparse", "upgrade Helix"),
    ):
        newer(own_store, **changes)
        for command in (recall, ["status"], ingest):
            assert_refused(helix(*command, "--store", own_store), message, remedy)
    newer(own_store, reader_flags=[], writer_flags=["sparse"])
    assert helix(*recall, "--store", own_store).status == 0
    assert_refused(helix(*ingest, "--store", own_store), "sparse")


def test_a_newer_generation_that_cannot_be_opened_leaves_the_old_one_serving(own_store: Path) -> None:
    memory = Memory(own_store)
    newer(own_store, format=FORMAT + 1)
    with pytest.raises(StoreError, match=f"store format {FORMAT + 1}"):
        memory.refresh()
    assert memory.recall("Priya vacation").items


def test_a_missing_store_and_a_file_are_refused(tmp_path: Path, helix: Helix) -> None:
    (tmp_path / "file").write_text("# A note")
    for store in (tmp_path / "none", tmp_path / "file"):
        assert_refused(helix("recall", "x", "--store", store), str(store))
    # A file where a folder must be is unwritable for everybody, root included.
    refused = helix("ingest", tmp_path / "file", "--store", tmp_path / "file")
    assert_refused(refused, "cannot write the store", "--store")


def test_a_stale_writer_cannot_publish(own_store: Path) -> None:
    with writer.acquire_lock(own_store, 1.0) as held:
        name = manifests.read_current(own_store)
        manifest = manifests.load(own_store, str(name))
        # As if the lock had been taken over, say by a machine that saw the first one's lease end.
        data = orjson.dumps({"token": held.token + 1, "pid": 1, "host": "other"})
        (own_store / "writer.lock").write_bytes(data)
        with pytest.raises(StoreError, match="has taken over"):
            writer.publish_generation(held, manifest)
        assert manifests.read_current(own_store) == name


def test_a_second_writer_or_one_whose_parent_is_no_longer_current_publishes_nothing(own_store: Path) -> None:
    name = manifests.read_current(own_store)
    with writer.acquire_lock(own_store, 1.0) as held:
        with (
            pytest.raises(StoreError, match=f"process {os.getpid()} on .* writes the store"),
            writer.acquire_lock(own_store, 0.1),
        ):
            pass
        manifest = manifests.load(own_store, str(name))
        late = dataclasses.replace(manifest, parent="00000000-gone.json", generation=7, token=held.token)
        with pytest.raises(StoreError, match="nothing was published"):
            writer.publish_generation(held, late)
    assert manifests.read_current(own_store) == name


def test_the_token_never_decreases_even_without_the_lock_file(own_store: Path) -> None:
    with writer.acquire_lock(own_store, 1.0) as first:
        pass
    (own_store / "writer.lock").unlink()
    published = manifests.load(own_store, str(manifests.read_current(own_store))).token
    with writer.acquire_lock(own_store, 1.0) as second:
        assert second.token == published + 1
    assert first.token > published


def test_files_are_private(sample_store: Path) -> None:
    for path in sample_store.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_arrays_are_memory_mapped(sample_store: Path) -> None:
    snapshot = Memory(sample_store).snapshot
    for block in snapshot.vectors.blocks:
        assert isinstance(block.codes.base, np.memmap) or isinstance(block.codes, np.memmap) or block.codes.base.base


def test_a_sweep_leaves_the_inbox_unchanged(tmp_path: Path) -> None:
    paths.create_folders(tmp_path / "s")
    for folder in ("inbox", "segments"):
        (tmp_path / "s" / folder / ".tmp-abc").mkdir()
        os.utime(tmp_path / "s" / folder / ".tmp-abc", (0, 0))
    with writer.acquire_lock(tmp_path / "s", 1.0):
        pass
    assert (tmp_path / "s" / "inbox" / ".tmp-abc").exists()
    assert not (tmp_path / "s" / "segments" / ".tmp-abc").exists()
