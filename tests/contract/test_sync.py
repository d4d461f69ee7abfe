"""`helix push` and `helix pull`, against a real S3 server in its own process and a folder."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import httpx
import numpy as np
import orjson
import pytest

from helix.enrich.neardup import compute_signatures
from helix.errors import StoreError, UsageError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.manifest import Manifest
from helix.snapshot.pins import list_pinned
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.replication import object_store
from helix.snapshot.replication.object_store import connect
from helix.snapshot.replication.pull import _list_named_files, pull_store
from helix.snapshot.replication.push import push_store
from helix.snapshot.replication.transfer import RESTARTS
from helix.snapshot.segment.write import write_segment
from helix.snapshot.verify import verify_store
from helix.util.failpoints import failpoint
from pipelines.ingest.part import build_rows
from tests.support.processes import pick_port, wait_until
from tests.support.serving import get_status
from tests.support.tiny import make_store, record

FIRST = ["the walnut loaf is in the oven", "take it out at noon", "and slice it"]
SECOND = ["thanks for the loaf"]
SECRET = "notTheRealSecretOfAnybody/4711"
KEY = "AKIANOTREALLYAKEY000"
AWS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
AWS |= dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
OF_PUSHES = {"PRUNE", ".lock"}
"""What pushes exclude each other by; no store needs it."""
Bucket = tuple[str, Any]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Place:
    """A remote, read without Helix."""

    url: str
    names: Callable[[], set[str]]
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], Any]
    remove: Callable[[str], Any]

    def current(self) -> str | None:
        return self.read("CURRENT").decode().strip() if "CURRENT" in self.names() else None

    def is_untorn(self) -> bool:
        """Return whether every file has the digest in its name."""
        files = [name for name in self.names() if name.startswith("files/")]
        return all(name == f"files/{hashlib.sha256(self.read(name)).hexdigest()}" for name in files)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A real S3 server: host:port."""
    host, port = "127.0.0.1", str(pick_port())
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", host, "-p", port]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, env={**os.environ, **AWS})
    try:
        wait_until(60, lambda: process.poll() is not None or get_status(f"http://{host}:{port}/moto-api/") == 200)
        assert process.poll() is None
        yield f"{host}:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket and its client; the environment has the credentials."""
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=f"http://{server}", region_name="us-east-1")
    client.create_bucket(Bucket="memories")
    yield f"s3://memories/team/one?endpoint_override={server}&scheme=http", client
    httpx.post(f"http://{server}/moto-api/reset", timeout=10).raise_for_status()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return folder_place(tmp_path / "shared")
    url, client = request.getfixturevalue("bucket")
    prefix = "team/one/"

    def names() -> set[str]:
        listed = client.list_objects_v2(Bucket="memories", Prefix=prefix).get("Contents", ())
        return {entry["Key"].removeprefix(prefix) for entry in listed if not entry["Key"].endswith("/")} - OF_PUSHES

    return Place(
        url,
        names,
        lambda name: client.get_object(Bucket="memories", Key=prefix + name)["Body"].read(),
        lambda name, data: client.put_object(Bucket="memories", Key=prefix + name, Body=data),
        lambda name: client.delete_object(Bucket="memories", Key=prefix + name),
    )


def folder_place(base: Path) -> Place:
    return Place(
        str(base),
        lambda: {str(path.relative_to(base)) for path in base.rglob("*") if path.is_file()} - OF_PUSHES,
        lambda name: (base / name).read_bytes(),
        lambda name, data: (base / name).write_bytes(data),
        lambda name: (base / name).unlink(),
    )


def make(root: Path) -> Path:
    make_store(root, FIRST, np.eye(3, 8, dtype=np.float32))
    return root


def grow(root: Path, texts: list[str] = SECOND, drop: int = 0) -> str:
    """Publish the next generation: one more segment, without `drop` old ones."""
    with writer.acquire_lock(root, 1.0) as held:
        name = current(root)
        old = manifests.load(root, name)
        new = old.generation + 1
        given = [{"turn": f"g{new}-{i}-{text}"} for i, text in enumerate(texts)]
        rows = build_rows(
            [record(i, text, given[i]) for i, text in enumerate(texts)],
            texts,
            [[] for _ in texts],
            np.eye(len(texts), old.lineage.dim, new % 5, dtype=np.float32),
            compute_signatures(texts),
        )
        segments = (*old.segments[drop:], write_segment(root, rows))
        published: Manifest = replace(
            old, generation=new, parent=name, segments=segments, counts={**old.counts, "items": 0}, token=held.token
        )
        return writer.publish_generation(held, published)


def current(root: Path) -> str:
    name = manifests.read_current(root)
    assert name is not None
    return name


def texts(root: Path) -> list[str]:
    snapshot = Snapshot.open(root)
    return [entry["text"] for entry in snapshot.text(list(range(snapshot.rows)))]


def hashes(root: Path) -> set[str]:
    """Return the files the current generation needs there."""
    return {f"files/{file.sha256}" for file in manifests.load(root, current(root)).files()}


def whole(root: Path) -> bool:
    report = verify_store(root)
    assert report.problems == ()
    assert report.orphans == ()
    return True


def transfer(run_helix: Run, command: str, place: Place, root: Path) -> dict[str, Any]:
    done = run_helix(command, place.url, "--store", root, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read_refusal(run_helix: Run, *arguments: object, status: int = 4, **environ: str) -> str:
    """Return the one line of a command that failed as it should, within seconds."""
    started = time.monotonic()
    done = run_helix(*arguments, **environ)
    assert time.monotonic() - started < 60
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "; " in line
    assert SECRET not in line
    return str(line)


def refuse(transfer: Callable[..., Any], *given: Any, **options: Any) -> str:
    """Return the error of a push or a pull in this process."""
    with pytest.raises(StoreError) as caught:
        transfer(*given, **options)
    assert caught.value.remedy
    return str(caught.value)


def test_a_pushed_store_is_pulled_whole_and_incrementally(place: Place, tmp_path: Path, run_helix: Run) -> None:
    ours, theirs = make(tmp_path / "ours"), tmp_path / "deep" / "theirs"
    pushed = transfer(run_helix, "push", place, ours)
    assert set(pushed) == {"url", "generation", "manifest", "files", "transferred", "bytes", "removed", "seconds"}
    assert (pushed["url"], pushed["generation"], pushed["manifest"]) == (place.url, 1, current(ours))
    assert pushed["transferred"] == pushed["files"] == len(hashes(ours))
    assert place.names() == {"CURRENT", f"manifests/{current(ours)}", *hashes(ours)}
    assert place.is_untorn()
    pulled = transfer(run_helix, "pull", place, theirs)
    assert pulled["transferred"] == pulled["files"] == len(manifests.load(ours, current(ours)).files())
    assert whole(theirs)
    assert texts(theirs) == texts(ours) == FIRST
    assert current(theirs) == current(ours)
    for path in (theirs, *theirs.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    # Nothing new: nothing travels.
    for again in (push_store(ours, place.url), pull_store(place.url, theirs), push_store(theirs, place.url)):
        assert (again.transferred, again.bytes, again.removed) == (0, 0, 0)
    # One more generation: its files alone do.
    before = hashes(ours)
    grow(ours)
    new = hashes(ours) - before
    size = {f"files/{file.sha256}": file.bytes for file in manifests.load(ours, current(ours)).files()}
    second = push_store(ours, place.url)
    assert (second.generation, second.transferred) == (2, len(new))
    assert second.bytes == sum(size[name] for name in new)
    second = pull_store(place.url, theirs)
    assert (second.generation, second.files) == (2, len(manifests.load(ours, current(ours)).files()))
    assert second.files / 2 - 5 < second.transferred <= second.files / 2 + 5
    assert whole(theirs)
    assert texts(theirs) == texts(ours) == FIRST + SECOND
    # And the copy is a store to write to.
    grow(theirs, ["made there"])
    push_store(theirs, place.url)
    pull_store(place.url, ours)
    assert texts(ours) == [*FIRST, *SECOND, "made there"]
    assert whole(ours)


def test_a_copy_of_a_real_store_answers_the_same(sample_store: Path, tmp_path: Path, run_helix: Run) -> None:
    shared, theirs = tmp_path / "shared", tmp_path / "theirs"
    done = run_helix("push", shared, "--store", sample_store)
    n = len(hashes(sample_store))
    assert done.stdout.startswith(f"generation 1 of {sample_store} is published at {shared}: {n} of {n} files sent, ")
    done = run_helix("pull", shared.as_uri(), "--store", theirs)  # file:// is the same place
    assert done.stdout.startswith(f"{theirs} is at generation 1 of {shared}: ")
    assert verify_store(theirs).problems == ()

    def answer(root: Path) -> object:
        found = Memory(root).recall("What did I tell Priya about vacation?", now="2026-06-01")  # recency is of then
        return found.items, found.context, found.degraded

    assert answer(theirs) == answer(sample_store)
    assert "push" in run_helix("--help").stdout


def test_a_killed_push_is_finished_by_the_next(place: Place, tmp_path: Path, run_helix: Run) -> None:
    ours, theirs, published = make(tmp_path / "ours"), tmp_path / "theirs", [*FIRST]
    push_store(ours, place.url)
    for point in ("push.begin", "push.manifest", "push.file"):
        first, before = place.current(), hashes(ours)
        grow(ours, [point])
        killed = run_helix("push", place.url, "--store", ours, HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        assert place.current() == first
        assert place.is_untorn()
        pull_store(place.url, theirs)
        assert texts(theirs) == published
        assert whole(theirs)
        new = len(hashes(ours) - before)
        sent = push_store(ours, place.url).transferred
        assert {"push.begin": sent == new, "push.file": sent < new, "push.manifest": sent == 0}[point]
        published.append(point)
        pull_store(place.url, theirs)
        assert texts(theirs) == published
        assert point == "push.file" or not [name for name in place.names() if ".tmp-" in name]


def test_a_killed_pull_is_continued_by_the_next(place: Place, tmp_path: Path, run_helix: Run) -> None:
    ours, theirs, fetched = make(tmp_path / "ours"), tmp_path / "theirs", [*FIRST]
    push_store(ours, place.url)
    pull_store(place.url, theirs)
    for point in ("pull.file", "pull.manifest"):
        first = current(theirs)
        before = {file.path for file in manifests.load(ours, first).files()}
        grow(ours, [point])
        push_store(ours, place.url)
        killed = run_helix("pull", place.url, "--store", theirs, HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        assert current(theirs) == first
        assert verify_store(theirs).problems == ()
        assert texts(theirs) == fetched
        new = {file.path for file in manifests.load(ours, current(ours)).files()} - before
        left = pull_store(place.url, theirs).transferred
        assert left < len(new) if point == "pull.file" else left == 0
        fetched.append(point)
        assert texts(theirs) == fetched
        assert whole(theirs)
        assert list((theirs / "building").iterdir()) == []


def test_a_damaged_remote_file_is_named_and_rejected(place: Place, tmp_path: Path) -> None:
    ours, theirs = make(tmp_path / "ours"), tmp_path / "theirs"
    push_store(ours, place.url)
    pull_store(place.url, theirs)
    first = hashes(ours)
    grow(ours)
    push_store(ours, place.url)
    victim = max(hashes(ours) - first, key=lambda name: len(place.read(name)))
    data = place.read(victim)
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for how, damaged in {"changed": flipped, "cut": data[:middle], "grown": data + b"x", "gone": None}.items():
        if damaged is None:
            place.remove(victim)
        else:
            place.write(victim, damaged)
        elsewhere = tmp_path / f"elsewhere-{how}"
        for copy in (theirs, theirs, elsewhere):
            message = refuse(pull_store, place.url, copy)
            assert victim in message
            assert ("missing" if how == "gone" else "damaged") in message
        assert texts(theirs) == FIRST
        assert verify_store(theirs).problems == ()
        assert manifests.read_current(elsewhere) is None
        if how == "changed":  # of the right size: a push does not read it
            place.remove(victim)
        assert push_store(ours, place.url).transferred == 1
    pull_store(place.url, theirs)
    assert texts(theirs) == FIRST + SECOND
    assert whole(theirs)


def test_a_damaged_local_file_is_not_published(place: Place, tmp_path: Path, run_helix: Run) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, place.url)
    first = place.current()
    grow(ours)
    path = next(path for path in (ours / "segments").glob("*/text.arrow") if b"thanks" in path.read_bytes())
    data = path.read_bytes()
    for damaged in (data[:-9] + b"?" + data[-8:], data[:-9], None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert str(path) in refuse(push_store, ours, place.url)
        assert place.current() == first
        assert place.is_untorn()
    assert str(path) in read_refusal(run_helix, "push", place.url, "--store", ours)
    path.write_bytes(data)
    push_store(ours, place.url)
    assert place.current() == current(ours)


def test_a_damaged_file_of_many_blocks_is_not_published_either(place: Place, tmp_path: Path) -> None:
    """Its first blocks are sent before the damage is seen: their remains must not look like the file."""
    ours = make(tmp_path / "ours")
    big = ours / "access" / "big.npz"
    data = os.urandom(24 << 20)  # more than a part of a multipart upload
    big.write_bytes(data)
    name = current(ours)
    with writer.acquire_lock(ours, 1.0) as held:
        old = manifests.load(ours, name)
        file = manifests.describe_file(ours, big)
        new = replace(old, generation=2, parent=name, access=file, token=held.token)
        writer.publish_generation(held, new)
    big.write_bytes(data[:-5] + b"????" + data[-1:])
    assert str(big) in refuse(push_store, ours, place.url)
    assert place.is_untorn()
    assert place.current() is None
    big.write_bytes(data)
    push_store(ours, place.url)
    pull_store(place.url, tmp_path / "theirs")
    assert (tmp_path / "theirs" / "access" / "big.npz").read_bytes() == data


def test_a_push_pins_what_it_reads_and_shows_no_torn_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, place = make(tmp_path / "ours"), folder_place(tmp_path / "shared")
    seen: list[tuple[bool, set[str]]] = []

    def write_slowly(temporary: Path, target: Path, blocks: Iterator[bytes]) -> None:
        def watch_blocks() -> Iterator[bytes]:
            for block in blocks:
                yield block
                seen.append((target.exists(), list_pinned(ours)))

        real(temporary, target, watch_blocks())
        assert target.exists()

    real = object_store.write_blocks
    monkeypatch.setattr("helix.snapshot.replication.transfer.BLOCK", 64)
    monkeypatch.setattr(object_store, "write_blocks", write_slowly)
    push_store(ours, place.url)
    assert len(seen) > len(hashes(ours))
    assert all(one == (False, {current(ours)}) for one in seen)
    assert list_pinned(ours) == set()


def test_files_a_manifest_names_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs, place = make(tmp_path / "ours"), tmp_path / "theirs", folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    pull_store(place.url, theirs)
    grow(ours)
    push_store(ours, place.url)
    files = manifests.load(ours, current(ours)).files()
    read: list[Path] = []

    def forget_manifests() -> None:
        (theirs / "CURRENT").unlink()
        for path in (theirs / "manifests").iterdir():
            path.unlink()

    with monkeypatch.context() as patch:
        patch.setattr("helix.snapshot.replication.pull.hash_file", lambda path: read.append(path) or "")
        pull_store(place.url, theirs)
        assert read == []
        forget_manifests()
        pull_store(place.url, theirs)  # nothing here vouches for the files now
        assert len(read) == len(files)
    assert whole(theirs)
    forget_manifests()
    damaged = next(file for file in files if file.path.endswith("items.parquet"))
    (theirs / damaged.path).write_bytes(bytes(damaged.bytes))
    assert pull_store(place.url, theirs).transferred == 1
    assert whole(theirs)


def replace_all(root: Path, text: str) -> None:
    """Merge all segments into one of this text, then collect garbage."""
    old = manifests.load(root, current(root))
    grow(root, [text], drop=len(old.segments))
    for file in old.files():
        (root / file.path).unlink()


def test_a_push_starts_over_when_its_generation_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, place = make(tmp_path / "ours"), folder_place(tmp_path / "shared")
    begun, most = [], RESTARTS

    def collect(point: str) -> None:
        if point == "push.begin" and len(begun) < most:
            begun.append(point)
            replace_all(ours, f"remark {len(begun)}")

    monkeypatch.setattr("helix.snapshot.replication.push.failpoint", collect)
    assert "run the command again" in refuse(push_store, ours, place.url)  # it never catches up
    assert len(begun) == RESTARTS
    assert place.current() is None
    begun, most = [], 1
    assert push_store(ours, place.url).generation == 2 + RESTARTS
    assert begun
    pull_store(place.url, tmp_path / "theirs")
    assert texts(tmp_path / "theirs") == ["remark 1"]
    assert whole(tmp_path / "theirs")


def test_a_pull_starts_over_when_its_generation_is_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, place = make(tmp_path / "ours"), folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    real, moved = _list_named_files, []

    def move_on(root: Path) -> object:
        if not moved:
            moved.append(root)
            grow(ours, ["all in one"], drop=1)
            push_store(ours, place.url, prune=True, keep=1)
        return real(root)

    monkeypatch.setattr("helix.snapshot.replication.pull._list_named_files", move_on)
    assert pull_store(place.url, tmp_path / "theirs").generation == 2
    assert moved
    assert texts(tmp_path / "theirs") == ["all in one"]
    assert verify_store(tmp_path / "theirs").problems == ()


def test_two_pushes_at_once_do_not_overwrite_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other, place = make(tmp_path / "ours"), tmp_path / "other", folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    pull_store(place.url, other)
    grow(other, ["made there"])
    grow(ours)

    def overtake(point: str) -> None:
        if point == "push.manifest":
            monkeypatch.setattr("helix.snapshot.replication.push.failpoint", failpoint)
            push_store(other, place.url)

    monkeypatch.setattr("helix.snapshot.replication.push.failpoint", overtake)
    assert "another push" in refuse(push_store, ours, place.url)
    assert place.current() == current(other)


def test_a_pull_waits_for_the_writer(tmp_path: Path, run_helix: Run) -> None:
    ours, theirs, place = make(tmp_path / "ours"), make(tmp_path / "theirs"), folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    with writer.acquire_lock(theirs, 1.0):
        message = read_refusal(run_helix, "pull", place.url, "--store", theirs, "--force", HELIX_LOCK_WAIT="0.1")
    assert f"process {os.getpid()}" in message
    assert pull_store(place.url, theirs, force=True).manifest == current(ours)


def test_a_push_never_replaces_another_history_unless_forced(place: Place, tmp_path: Path) -> None:
    ours, theirs, behind = make(tmp_path / "ours"), make(tmp_path / "theirs"), tmp_path / "behind"
    grow(theirs, ["of another store"])
    push_store(ours, place.url)
    pull_store(place.url, behind)
    # Larger by number, but all of its ancestors are known, and this is none of them.
    message = refuse(push_store, theirs, place.url)
    assert place.url in message
    assert "--force" in message
    assert place.current() == current(ours)
    grow(ours)
    push_store(ours, place.url)
    assert "pull it first" in refuse(push_store, behind, place.url)  # an older generation
    grow(behind, ["went its own way"])
    assert "pull it first" in refuse(push_store, behind, place.url)
    assert place.current() == current(ours)
    push_store(theirs, place.url, force=True)
    assert place.current() == current(theirs)
    assert place.url in refuse(push_store, ours, place.url)
    assert place.current() == current(theirs)


def test_a_push_continues_after_gc_deleted_the_ancestors(tmp_path: Path) -> None:
    ours, other, place = make(tmp_path / "ours"), make(tmp_path / "other"), folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    names = [current(ours), *(grow(ours, [text]) for text in ("second", "third", "fourth"))]
    for name in names[:2]:
        (ours / "manifests" / name).unlink()
    assert push_store(ours, place.url).generation == 4
    for i in range(3):
        grow(other, [f"other {i}"])
    # The number known to be its ancestor's is another's.
    assert "is no ancestor of" in refuse(push_store, other, place.url)


def test_a_pull_loses_no_local_commit_unless_forced(tmp_path: Path) -> None:
    ours, theirs, place = make(tmp_path / "ours"), tmp_path / "theirs", folder_place(tmp_path / "shared")
    stranger = make(tmp_path / "stranger")
    push_store(ours, place.url)
    pull_store(place.url, theirs)
    mine = grow(theirs, ["made there"])
    message = refuse(pull_store, place.url, theirs)  # ahead of the remote
    assert place.url in message
    assert "--force" in message
    for i in range(3):
        grow(ours, [f"remark {i}"])
        grow(stranger, [f"strange {i}"])
    push_store(ours, place.url)  # 2 and 3 are not there, so the line of ancestors ends at 3
    for root in (theirs, stranger):
        assert "does not have" in refuse(pull_store, place.url, root)
    assert current(theirs) == mine
    assert texts(theirs) == [*FIRST, "made there"]
    pull_store(place.url, theirs, force=True)
    assert texts(theirs) == texts(ours)
    assert verify_store(theirs).problems == ()
    assert grow(theirs, ["goes on"]).startswith("00000005-")


def test_an_outdated_copy_is_updated(tmp_path: Path) -> None:
    ours, place = make(tmp_path / "ours"), folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    known, forgotten, foreign = (tmp_path / name for name in ("known", "forgotten", "foreign"))
    for copy in (known, forgotten, foreign):
        pull_store(place.url, copy)
    for i in range(4):
        grow(ours, [f"remark {i}"])
        if i % 2:
            push_store(ours, place.url)
    assert pull_store(place.url, known).generation == 5  # its manifest is there still
    push_store(ours, place.url, prune=True, keep=1)
    assert pull_store(place.url, forgotten).generation == 5  # smaller, and of the same lineage
    assert whole(forgotten)
    with writer.acquire_lock(foreign, 1.0) as held:
        old = manifests.load(foreign, current(foreign))
        other = replace(old, parent=current(foreign), lineage=replace(old.lineage, encoder="other"), token=held.token)
        writer.publish_generation(held, other)
    assert "does not have" in refuse(pull_store, place.url, foreign)


def test_prune_removes_files_the_newest_manifests_do_not_name(place: Place, tmp_path: Path, run_helix: Run) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, place.url)
    names, needed = [current(ours)], [hashes(ours)]
    for text in ("all in one", "all in another", "all in a third"):
        names.append(grow(ours, [text], drop=1))
        needed.append(hashes(ours))
        push_store(ours, place.url)
    for name in ("notes.txt", "files/.keep", *([] if place.url.startswith("s3:") else [".tmp-0011"])):
        place.write(name, b"not ours")  # the last is left by a kill
    held = place.names()
    assert push_store(ours, place.url).removed == 0  # only with --prune
    assert place.names() == held
    removed = push_store(ours, place.url, prune=True).removed
    kept = {"CURRENT", "notes.txt", "files/.keep", *(f"manifests/{name}" for name in names[2:]), *needed[2], *needed[3]}
    assert place.names() == kept
    assert removed == len(held - kept)
    assert run_helix("push", place.url, "--store", ours, "--prune", "--keep", "1").returncode == 0
    assert place.names() == kept - {f"manifests/{names[2]}"} - (needed[2] - needed[3])
    pull_store(place.url, tmp_path / "theirs")
    assert texts(tmp_path / "theirs") == ["all in a third"]
    assert "keep" in read_refusal(run_helix, "push", place.url, "--store", ours, "--prune", "--keep", "0", status=2)


def test_an_empty_remote_is_reported(place: Place, tmp_path: Path) -> None:
    message = refuse(pull_store, place.url, tmp_path / "theirs")
    assert place.url in message
    assert "helix push" in message
    assert not (tmp_path / "theirs").exists()
    assert str(tmp_path / "nowhere") in refuse(push_store, tmp_path / "nowhere", place.url)
    assert place.names() == set()


def test_an_unreadable_remote_is_refused(tmp_path: Path) -> None:
    ours, place = make(tmp_path / "ours"), folder_place(tmp_path / "shared")
    push_store(ours, place.url)
    name = current(ours)
    data = place.read(f"manifests/{name}")
    newer, escaping = orjson.loads(data), orjson.loads(data)
    newer["format"] = 99
    escaping["segments"][0]["files"][0]["path"] = "segments/../../escaped"

    def check_refusal(message: str) -> None:
        refusal = refuse(pull_store, place.url, tmp_path / "theirs")
        assert place.url in refusal
        assert message in refusal
        assert not (tmp_path / "theirs").exists()
        assert not (tmp_path / "escaped").exists()

    place.write(f"manifests/{name}", data[:-30])
    check_refusal("damaged")
    for raw, message in ((newer, "upgrade"), (escaping, "escaped")):
        data = orjson.dumps(raw)
        name = f"00000001-{hashlib.sha256(data).hexdigest()[:16]}.json"
        place.write(f"manifests/{name}", data)
        place.write("CURRENT", f"{name}\n".encode())
        check_refusal(message)
    place.write("CURRENT", b"../../etc/passwd\n")
    check_refusal("CURRENT")


def test_an_unreachable_endpoint_fails_in_seconds(bucket: Bucket, tmp_path: Path, run_helix: Run) -> None:
    ours, theirs = make(tmp_path / "ours"), tmp_path / "theirs"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"s3://memories/one?endpoint_override=127.0.0.1:{closed.getsockname()[1]}&scheme=http"
        for command, root in (("push", ours), ("pull", theirs)):
            started = time.monotonic()
            message = read_refusal(run_helix, command, url, "--store", root)
            assert time.monotonic() - started < 60
            assert url in message
            assert "endpoint_override" in message
    assert not theirs.exists()


@pytest.mark.soak
def test_an_endpoint_that_never_answers_is_given_up(bucket: Bucket, tmp_path: Path, run_helix: Run) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        url = f"s3://memories/one?endpoint_override=127.0.0.1:{silent.getsockname()[1]}&scheme=http"
        assert url in read_refusal(run_helix, "pull", url, "--store", tmp_path / "theirs")


def test_wrong_credentials_and_buckets_are_named(server: str, bucket: Bucket, tmp_path: Path, run_helix: Run) -> None:
    ours, (url, client) = make(tmp_path / "ours"), bucket
    missing = url.replace("memories", "no-such-bucket")
    message = read_refusal(run_helix, "push", missing, "--store", ours)
    assert missing in message
    assert "bucket" in message
    assert missing in refuse(pull_store, missing, tmp_path / "theirs")

    def demand_rights(since: str) -> None:
        httpx.post(f"http://{server}/moto-api/reset-auth", content=since, timeout=10).raise_for_status()

    demand_rights("0")
    try:
        for command, root in (("push", ours), ("pull", tmp_path / "theirs")):
            message = read_refusal(run_helix, command, url, "--store", root)
            assert url in message
            assert "AWS_SECRET_ACCESS_KEY" in message
            assert KEY not in message
    finally:
        demand_rights("inf")
    assert not (tmp_path / "theirs").exists()
    # The endpoint may come from the environment.
    done = run_helix("push", "s3://memories", "--store", ours, AWS_ENDPOINT_URL=f"http://{server}/")
    assert done.returncode == 0, done.stderr
    listed = client.list_objects_v2(Bucket="memories")["Contents"]
    assert {entry["Key"] for entry in listed} - OF_PUSHES == {"CURRENT", f"manifests/{current(ours)}", *hashes(ours)}


MALFORMED = [
    f"s3://AKIANOTREALLYAKEY000:{SECRET}@memories/one", f"s3://memories/one?secret_key={SECRET}",
    f"s3://memories/one?endpoint_override=me:{SECRET}@host", "s3://memories/one?scheme=ftp", "s3:///one",
    "s3:/memories/one", f"https://me:{SECRET}@host/one", "file://host/one", "s3://[half", "",
]  # fmt: skip


def test_no_error_has_a_secret_of_its_url_or_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for url in MALFORMED:
        with pytest.raises(UsageError) as caught:
            connect(url)
        assert caught.value.remedy, url
        assert not any(part in str(caught.value) for part in (*SECRET.split("/"), "AKIA")), url
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    error = OSError(f"no key {KEY}\n here")
    message = refuse(object_store.fail, connect(str(tmp_path)), "read", error)
    assert message.startswith(f"cannot read {tmp_path}: no key … here; ")


def test_a_push_into_a_store_is_refused(tmp_path: Path) -> None:
    ours, other = make(tmp_path / "ours"), make(tmp_path / "other")
    for there in (ours, ours / "shared", tmp_path, other):
        with pytest.raises(UsageError):
            push_store(ours, str(there))
        with pytest.raises(UsageError):
            pull_store(str(there), ours)
    assert whole(ours)
    assert whole(other)


def test_a_folder_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_helix: Run) -> None:
    ours = make(tmp_path / "ours")
    (tmp_path / "file").write_text("not a folder")
    message = read_refusal(run_helix, "push", tmp_path / "file", "--store", ours)
    assert str(tmp_path / "file") in message

    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(object_store, "make_folder", deny)  # the tests may run as root, whom nothing is denied
    with pytest.raises(StoreError, match="permissions of the folder"):
        push_store(ours, str(tmp_path / "shared"))
