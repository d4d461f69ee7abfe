"""Garbage collection against a model that reads manifests as plain JSON."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.cli.main import main
from helix.errors import StoreError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.gc import GarbageReport, collect_garbage
from helix.snapshot.ledger.access_events import AccessTimes, dump_access
from helix.snapshot.manifest import describe_file, list_generations, make_id
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from pipelines.maintain.compact import compact
from pipelines.maintain.merge_policy import plan_merge as plan_of
from pipelines.maintain.rollback import rollback
from tests.compat.history import DIM, begin_next, current, delete, grow, publish
from tests.support.tiny import SETTINGS, make_store

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

OWNED = ("segments", "indexes", "deletes", "documents", "forgotten", "access", "encoders")
HOUR = 3_600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    make_store(folder, [f"remark {i} about walnut bread" for i in range(6)], np.ones((6, DIM)) / 2)
    return folder


def name_of(root: Path) -> str:
    return str(manifests.read_current(root))


def add_remarks(root: Path, n: int) -> list[str]:
    """Publish n generations; return the names of all, the newest first."""
    for i in range(n):
        grow(root, [f"remark {i}"], f"s{i}")
    return [name for name, _ in list_generations(root)]


def names(root: Path) -> set[str]:
    return {path.name for path in (root / "manifests").iterdir()}


def entries(root: Path) -> set[str]:
    """Return everything but manifests that gc may remove, as `<folder>/<entry>`."""
    return {f"{folder}/{path.name}" for folder in OWNED for path in (root / folder).iterdir()}


def age(root: Path, seconds: float) -> None:
    """Make every file old."""
    then = time.time() - seconds
    for folder in ("manifests", *OWNED):
        for path in (root / folder).iterdir():
            os.utime(path, (then, then))


def raw(root: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((root / "manifests" / name).read_bytes()))


def reachable(value: Any) -> set[str]:
    """Return the entries of all paths in a manifest."""
    if isinstance(value, dict):
        own = {"/".join(value["path"].split("/")[:2])} if "path" in value and "sha256" in value else set()
        return own.union(*map(reachable, value.values()))
    return set().union(*map(reachable, value)) if isinstance(value, list) else set()


def predict(root: Path, keep: int, grace: float, open_names: set[str]) -> tuple[set[str], set[str]]:
    """Return (manifests, entries) that must stay."""
    young = time.time() - grace
    pointers = [root / pointer for pointer in ("CURRENT", "NEXT")]
    stay = open_names | {path.read_text().strip() for path in pointers if path.exists()}
    name: str | None = name_of(root)
    for _ in range(keep):
        if name in names(root):
            stay.add(str(name))
            name = raw(root, str(name))["parent"]
    recent = {name for name in names(root) if (root / "manifests" / name).stat().st_mtime > young}
    stay |= (recent | {raw(root, name)["parent"] for name in recent}) & names(root)
    named = set[str]().union(*(reachable(raw(root, name)) for name in stay))
    fresh = {entry for entry in entries(root) if (root / entry).stat().st_mtime > young}
    return stay, (named | fresh) & entries(root)


def list_texts(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(entry["id"], entry["text"]) for entry in snapshot.text(np.flatnonzero(snapshot.alive))]


def open_texts(root: Path) -> tuple[Snapshot, list[tuple[str, str]]]:
    snapshot = Snapshot.open(root)
    return snapshot, list_texts(snapshot)


def change(root: Path, rng: random.Random, step: int) -> None:
    """Make one change as a writer does."""
    what = rng.choice(("grow", "grow", "delete", "access", "compact", "rollback", "next", "swap", "orphan"))
    manifest = current(root)
    if what == "grow":
        grow(root, [f"remark {j} of step {step} about parsley" for j in range(rng.randint(1, 3))], f"s{step}")
    elif what == "delete" and manifest.segments:
        place = rng.randrange(len(manifest.segments))
        before = {entry.segment: entry.rows for entry in manifest.deletes}
        segment = manifest.segments[place]
        delete(root, place, range(min(segment.rows, before.get(segment.id, 0) + 1)))
    elif what == "access":
        path = root / "access" / f"{make_id()}.npz"
        keys = np.arange(step, dtype=np.uint64)
        paths.write_file(path, dump_access(AccessTimes(keys, keys.astype(np.int64), keys.astype(np.uint32))))
        publish(root, access=describe_file(root, path, step))
    elif what == "compact":
        compact(root, SETTINGS, full=not plan_of(manifest))
    elif what == "rollback" and (earlier := list_generations(root)[1:]):
        rollback(root, SETTINGS, rng.choice(earlier)[1].generation)
    elif what == "next":
        begin_next(root, rng.choice(sorted(names(root))))
    elif what == "swap":
        (root / "NEXT").unlink(missing_ok=True)
    elif what == "orphan":  # as a kill before publishing leaves it
        writer.write_array(root, "deletes", np.arange(step, dtype=np.uint32))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40))])
def test_random_histories_match_the_model(root: Path, seed: int) -> None:
    rng = random.Random(seed)
    held: dict[str, tuple[Snapshot, list[tuple[str, str]]]] = {}
    for step in range(1, 26):
        change(root, rng, step)
        if rng.random() < 0.25:
            held[name_of(root)] = open_texts(root)
        if held and rng.random() < 0.2:
            del held[rng.choice(sorted(held))]
        if rng.random() < 0.4:
            age(root, 2 * HOUR)
        if rng.random() < 0.3:
            keep, grace = rng.randint(1, 4), rng.choice((0.0, HOUR))
            stay, left = predict(root, keep, grace, set(held))
            before = names(root), entries(root)
            done = collect_garbage(root, keep, grace, 5.0)
            said = f"seed {seed}, step {step}: keep {keep}, grace {grace}"
            assert names(root) == stay, said
            assert entries(root) == left, said
            gone = {f"manifests/{name}" for name in before[0] - stay} | (before[1] - left)
            assert set(done.removed) == gone, said
            assert (done.kept, done.pinned) == (len(stay), len(held)), said
            assert verify_store(root).problems == (), said
            assert all(list_texts(snapshot) == texts for snapshot, texts in held.values()), said
            assert all(list_texts(Snapshot.open(root, name)) == texts for name, (_, texts) in held.items()), said
            assert collect_garbage(root, keep, grace, 5.0) == GarbageReport((), 0, len(stay), len(held)), said
            for _, manifest in list_generations(root)[1:]:  # what can be returned to is whole
                assert all((root / file.path).exists() for file in manifest.files()), said


def test_the_newest_along_the_parents_stay_and_no_stranger(root: Path) -> None:
    chain = add_remarks(root, 5)
    # A generation that was written and never published: its writer found CURRENT moved on.
    with writer.acquire_lock(root, 5.0) as held:
        stray = writer.build_next(held, chain[1], list_generations(root)[1][1], watermarks={"stray": {}})
        name, data = manifests.dump(stray)
        paths.write_file(root / "manifests" / name, data)
    done = collect_garbage(root, 3, 0.0, 5.0)
    assert names(root) == set(chain[:3])
    assert f"manifests/{name}" in done.removed
    assert done.kept == 3
    assert len(list_generations(root)) == 3


def test_descendants_of_the_current_generation_stay(root: Path) -> None:
    """An older CURRENT was restored, so later generations are not superseded."""
    chain = add_remarks(root, 5)
    paths.write_file(root / "CURRENT", f"{chain[2]}\n".encode())
    collect_garbage(root, 1, 0.0, 5.0)
    assert names(root) == set(chain[:3])
    paths.write_file(root / "CURRENT", f"{chain[0]}\n".encode())
    assert verify_store(root).problems == ()
    assert len(list_texts(Snapshot.open(root))) == 6 + 5
    # One of them that cannot be read might be the parent of others.
    paths.write_file(root / "CURRENT", f"{chain[2]}\n".encode())
    (root / "manifests" / chain[1]).write_bytes(b"{}")
    with pytest.raises(StoreError, match=f"{chain[1]} is damaged"):
        collect_garbage(root, 1, 0.0, 5.0)
    assert names(root) == set(chain[:3])


POINTERS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "blank": lambda path: path.write_bytes(b"\n"),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:12]),
    "of zeros": lambda path: path.write_bytes(bytes(30)),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "of another folder": lambda path: path.write_bytes(b"../../../etc/passwd\n"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "without an end": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to("CURRENT")),
    "huge": lambda path: path.write_bytes(b"a" * 1_000_000),
    "of a manifest that is gone": lambda path: path.write_bytes(b"00000009-0123456789abcdef.json\n"),
}
"""What may become of CURRENT."""


def test_a_damaged_pointer_is_no_empty_store(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(root, ["the parsley is in the blue bowl"])
    for i, how in enumerate(POINTERS):
        own = root.with_name(f"store-{i}")
        shutil.copytree(root, own)
        check_pointer(own, how, capsys)


def check_pointer(root: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    serving, wanted = Memory(root), list_texts(Snapshot.open(root))
    before = names(root), entries(root)
    note = root.with_name("note.md")
    note.write_text("# A note\n\nabout walnuts")
    POINTERS[how](root / "CURRENT")
    commands = (
        *(["recall", "parsley"], ["status"], ["verify"], ["gc", "--keep", "1", "--grace", "0"], ["ingest", str(note)]),
        *(["push", str(root.with_name("copy"))], ["compact"], ["forget", "--project", "p"], ["sql", "SELECT 1"]),
    )
    for command in commands:
        assert main([*command, "--store", str(root)]) == 4, (how, command)
        said = capsys.readouterr()
        assert "CURRENT" in said.err + said.out, (how, command)
        assert "helix rollback" in said.err + said.out, (how, command)
    assert (names(root), entries(root)) == before, how
    assert not root.with_name("copy").exists() or not list(root.with_name("copy").rglob("*.json"))
    with pytest.raises(StoreError, match="CURRENT"):
        serving.refresh()
    assert list_texts(serving.snapshot) == wanted
    assert main(["rollback", "--json", "--store", str(root)]) == 0
    done = orjson.loads(capsys.readouterr().out)
    assert (done["generation"], done["set_aside"]) == (done["to"] + 1, [])
    assert list_texts(Snapshot.open(root)) == wanted
    assert serving.refresh()
    assert main(["gc", "--keep", "1", "--grace", "0", "--store", str(root)]) == 0
    assert verify_store(root).problems == ()
    assert list_texts(Snapshot.open(root)) == wanted


def test_a_crash_before_the_first_pointer_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "failpoint", stop_at("commit.checked"))
    with pytest.raises(KeyboardInterrupt):
        make_store(tmp_path / "new", ["the parsley is in the blue bowl"], np.ones((1, DIM)) / 2)
    monkeypatch.undo()
    assert (tmp_path / "new" / "CURRENT").read_text() == "-\n"
    assert len(names(tmp_path / "new")) == 1
    assert Snapshot.open(tmp_path / "new").generation == 0
    assert verify_store(tmp_path / "new").problems == ()
    assert collect_garbage(tmp_path / "new", 1, 0.0, 5.0).removed == ()


def stop_at(place: str) -> Callable[[str], None]:
    def stop(name: str) -> None:
        if name == place:
            raise KeyboardInterrupt

    return stop


def test_nothing_younger_than_the_grace_period_goes(root: Path) -> None:
    grow(root, ["the parsley is in the blue bowl"])
    compact(root, SETTINGS, full=True)
    before = names(root), entries(root)
    assert collect_garbage(root, 1, 60.0, 5.0).removed == ()
    age(root, 30.0)
    assert collect_garbage(root, 1, 60.0, 5.0).removed == ()
    assert (names(root), entries(root)) == before
    age(root, 90.0)
    sizes = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
    done = collect_garbage(root, 1, 60.0, 5.0)
    assert done.bytes == sum(size for path, size in sizes.items() if not path.exists())
    assert len(done.removed) == 2 + 2  # manifests, segments
    assert all(not (root / path).exists() for path in done.removed)


def test_the_grace_period_begins_when_a_generation_is_replaced(root: Path) -> None:
    """A reader without a pin may just have read its name in CURRENT."""
    age(root, 2 * HOUR)
    before = name_of(root)
    grow(root, ["the parsley is in the blue bowl"])
    assert collect_garbage(root, 1, HOUR, 5.0).removed == ()
    assert before in names(root)
    age(root, 2 * HOUR)
    assert f"manifests/{before}" in collect_garbage(root, 1, HOUR, 5.0).removed


def test_a_young_generation_keeps_old_files(root: Path) -> None:
    grow(root, ["the parsley is in the blue bowl"])
    before = name_of(root)
    compact(root, SETTINGS, full=True)
    age(root, 2 * HOUR)
    os.utime(root / "manifests" / before)
    collect_garbage(root, 1, HOUR, 5.0)
    assert names(root) == {raw(root, before)["parent"], before, name_of(root)}
    assert Snapshot.open(root, before).live == 7
    assert verify_store(root).problems == ()


def test_folders_of_living_builders_stay(root: Path) -> None:
    begin_next(root)
    target = str(manifests.read_current(root, "NEXT"))
    with paths.open_workplace(root) as folder:
        (folder / "half.npy").write_bytes(b"half")
        compact(root, SETTINGS, full=True)
        collect_garbage(root, 1, 0.0, 5.0)
        assert (folder / "half.npy").exists()
    assert names(root) == {name_of(root), target}
    assert Snapshot.open(root, target).live == 6
    with writer.acquire_lock(root, 1.0, "NEXT"), pytest.raises(StoreError, match="writes the store"):
        collect_garbage(root, 1, 0.0, 0.05)  # a commit to it may have written what nothing names yet


def test_a_damaged_manifest_that_has_to_stay_stops_it_and_another_one_goes(root: Path) -> None:
    chain = add_remarks(root, 3)
    (root / "manifests" / chain[1]).write_bytes(b"{}")
    before = entries(root)
    with pytest.raises(StoreError, match=chain[1]):
        collect_garbage(root, 3, 0.0, 5.0)
    assert (names(root), entries(root)) == (set(chain), before)
    done = collect_garbage(root, 1, 0.0, 5.0)
    assert names(root) == {chain[0]}
    assert f"manifests/{chain[1]}" in done.removed
    assert verify_store(root).problems == ()


def test_foreign_files_stay(root: Path) -> None:
    foreign = [root / path for path in ("README", "inbox/0abc", "dead/0abc.json", "receipts/0.json")]
    for path in foreign:
        path.write_text("x")
    age(root, 2 * HOUR)
    collect_garbage(root, 1, 0.0, 5.0)
    assert all(path.exists() for path in foreign)
    paths.create_folders(root / "new")  # a store to which nothing was published
    assert collect_garbage(root / "new", 1, 0.0, 1.0) == GarbageReport((), 0, 0, 0)


def test_a_kill_between_manifests_and_files_leaves_a_whole_store(root: Path, run_helix: Callable[..., Any]) -> None:
    grow(root, ["the parsley is in the blue bowl"])
    delete(root, 0, [1])
    compact(root, SETTINGS, full=True)
    texts = list_texts(Snapshot.open(root))
    before = entries(root)
    command = ("gc", "--keep", "1", "--grace", "0", "--store", root)
    assert run_helix(*command, HELIX_FAILPOINT="gc.manifests").returncode == -signal.SIGKILL
    assert names(root) == {name_of(root)}
    assert entries(root) == before  # no manifest names them
    report = verify_store(root)
    assert report.problems == ()
    assert len(report.orphans) == 3  # two segments, one file of deletes
    assert list_texts(Snapshot.open(root)) == texts
    done = run_helix(*command, "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["removed"]) == 3
    report = verify_store(root)
    assert (report.problems, report.orphans) == ((), ())
    assert list_texts(Snapshot.open(root)) == texts


def test_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory(root)
    grow(root, ["the parsley is in the blue bowl"])
    publish(root, watermarks={"x": {}})
    assert main(["gc", "--keep", "1", "--grace", "0", "--store", str(root)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 files and folders removed")
    assert "2 generations retained, 1 in use" in said
    assert memory.stale()
    for wrong in (["--keep", "0"], ["--grace", "-1"], ["--keep", "x"]):
        assert main(["gc", *wrong, "--store", str(root)]) == 2
    assert main(["gc", "--store", str(root / "nowhere")]) == 4
