"""Access events: appending, folding and removal of files."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.errors import StoreError, UsageError
from helix.snapshot import paths
from helix.snapshot.ledger import access_events
from helix.snapshot.ledger.access_events import (
    AccessEvent,
    AccessTimes,
    EventAppender,
    append_events,
    combine_access,
    make_event,
    read_events,
    remove_read_files,
)
from helix.snapshot.manifest import read_current
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from pipelines.maintain.touch import touch
from tests.compat.history import current, delete
from tests.support.processes import wait_until
from tests.support.tiny import SETTINGS, list_ids, make_store

AT = 1_700_000_000.5


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "s", ["walnut loaf", "parsley", "saffron"])
    return tmp_path / "s"


def counts(root: Path) -> dict[str, tuple[int, int]]:
    """Read the published accesses: id → (last, count)."""
    found = access_events.load_access(root, current(root).access)
    assert np.array_equal(found.key, np.unique(found.key))
    assert (found.key.dtype, found.last.dtype, found.count.dtype) == (np.uint64, np.int64, np.uint32)
    entries = zip(found.key.tolist(), found.last.tolist(), found.count.tolist(), strict=True)
    return {f"{key:016x}": (last, count) for key, last, count in entries}


def files(root: Path) -> list[Path]:
    return sorted((root / "events").iterdir())


def is_locked(path: Path) -> bool:
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


AB, CD, EF = ("0" * 14 + name for name in ("ab", "cd", "ef"))
USED = AccessEvent("0" * 16, "used", AT)


@pytest.fixture
def appender(tmp_path: Path) -> Iterator[EventAppender]:
    appender = EventAppender(tmp_path)
    yield appender
    appender.close()


def test_a_line_holds_item_kind_and_time_only(tmp_path: Path, appender: EventAppender) -> None:
    assert not (tmp_path / "events").exists()  # a process that has nothing to say leaves nothing
    events = [make_event(item, kind, AT) for item, kind in ((AB, "used"), (CD, "wrong"), (AB, "fetched"))]
    appender.append(events[:2])
    appender.append(events[2:])
    [path] = files(tmp_path)
    expected = [{"item": event.item, "kind": event.kind, "at": AT} for event in events]
    assert [json.loads(line) for line in path.read_text().splitlines()] == expected
    assert path.name.startswith(time.strftime("%Y-%m-%d", time.gmtime()) + f"-{os.getpid()}-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert is_locked(path)
    appender.close()
    assert not is_locked(path)


def test_a_malformed_event_is_refused_and_the_time_defaults_to_now() -> None:
    for item, kind in (("", "used"), ("AB" * 8, "used"), ("0" * 17, "used"), ("0" * 16, "liked")):
        with pytest.raises(UsageError):
            make_event(item, kind)
    assert abs(make_event("0" * 16, "used").at - time.time()) < 5


def test_a_batch_is_one_write(appender: EventAppender, monkeypatch) -> None:
    written = []
    appender.append([USED])
    file = appender._file
    assert file is not None

    class Spy:
        def __getattr__(self, name):
            return getattr(file, name)

        def write(self, data):
            written.append(data.count(b"\n"))
            return file.write(data)

    monkeypatch.setattr(appender, "_file", Spy())
    appender.append([USED] * 7)
    assert written == [7]
    monkeypatch.undo()


def test_threads_share_an_appender(tmp_path: Path, appender: EventAppender) -> None:
    def work(i: int) -> None:
        for _ in range(50):
            appender.append([AccessEvent(f"{i:016x}", "used", AT)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    appender.close()
    assert len(files(tmp_path)) == 1
    assert read_events(tmp_path, {}).access.count.tolist() == [50] * 4


def test_events_are_synced_soon_and_at_close(tmp_path: Path, monkeypatch) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(access_events, "SYNC_EVERY", 0.05)
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_size), fsync(handle)))
    appender = EventAppender(tmp_path)
    for _ in range(3):
        appender.append([USED])
    [path] = files(tmp_path)
    wait_until(60, lambda: path.stat().st_size in synced)  # it is synced without another append
    appender.append([USED])
    appender.close()
    assert path.stat().st_size in synced


def test_a_single_append_uses_its_own_file(tmp_path: Path) -> None:
    append_events(tmp_path, [USED])
    [path] = files(tmp_path)
    assert not is_locked(path)
    append_events(tmp_path, [])
    assert files(tmp_path) == [path]


def test_an_unwritable_store_is_reported(tmp_path: Path, appender: EventAppender) -> None:
    (tmp_path / "events").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"cannot append access events to .*events.*write access"):
        appender.append([USED])
    (tmp_path / "events").unlink()
    appender.append([USED])  # works after the repair
    assert read_events(tmp_path, {}).lines == 1


def refuse_append(appender: EventAppender, size: int, item: str) -> None:
    """Fail to append while a file may hold `size` bytes only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(StoreError):
            appender.append([AccessEvent(item, "used", AT)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_short_write_is_refused_and_harms_no_other_event(tmp_path: Path, appender: EventAppender) -> None:
    for _ in range(5):
        refuse_append(appender, 0, CD)
    assert files(tmp_path) == []  # not even an empty one
    appender.append([AccessEvent(AB, "used", AT)])
    refuse_append(appender, files(tmp_path)[0].stat().st_size + 20, CD)
    assert [path.read_bytes()[-1:] for path in files(tmp_path)] != [b"\n"]  # it was cut in the middle
    appender.append([AccessEvent(EF, "used", AT)])
    appender.close()
    news = read_events(tmp_path, {})
    assert [f"{key:016x}" for key in news.access.key.tolist()] == [AB, EF]
    assert (news.lines, news.access.count.tolist()) == (2, [1, 1])
    assert remove_read_files(tmp_path, news.marks) == 2  # a torn line does not retain its file


def test_a_new_day_a_full_file_and_a_removed_one_each_begin_another(
    tmp_path: Path, appender: EventAppender, monkeypatch
) -> None:
    appender.append([USED])
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2031, 5, 6, 0, 0, 0, 1, 126, 0)))
    appender.append([USED])
    old, new = files(tmp_path)
    assert new.name.startswith("2031-05-06-")
    assert (is_locked(old), is_locked(new)) == (False, True)
    monkeypatch.setattr(access_events, "ROTATE", 1)
    appender.append([USED])
    monkeypatch.undo()
    assert len(files(tmp_path)) == 3
    appender.append([USED])  # back to today: a fourth
    for path in files(tmp_path):
        path.unlink()
    appender.append([USED])
    assert read_events(tmp_path, {}).lines == 1


def test_a_forked_child_uses_its_own_file(tmp_path: Path, appender: EventAppender) -> None:
    appender.append([AccessEvent(AB, "used", AT)])
    [path] = files(tmp_path)
    child = os.fork()
    if not child:
        appender.append([AccessEvent(CD, "used", AT)])
        os._exit(0 if appender._timer and appender._timer.is_alive() else 1)  # a fork copies no threads
    assert os.waitpid(child, 0)[1] == 0
    assert is_locked(path)  # the child let go of its copy, not of the lock
    assert len(files(tmp_path)) == 2
    appender.append([AccessEvent(AB, "used", AT)])
    appender.close()
    assert read_events(tmp_path, {}).access.count.tolist() == [2, 1]


def test_a_torn_last_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    path = tmp_path / "events" / "2026-01-01-1-x.jsonl"
    line = b'{"item":"00000000000000ab","kind":"used","at":5.9}\n'
    path.write_bytes(line + line[:30])
    first = read_events(tmp_path, {})
    assert (first.lines, first.access.count.tolist(), dict(first.marks)) == (1, [1], {path.name: len(line)})
    again = read_events(tmp_path, first.marks)
    assert (again.lines, dict(again.marks)) == (0, dict(first.marks))
    path.write_bytes(line + line)
    rest = read_events(tmp_path, first.marks)
    assert (rest.access.last.tolist(), rest.access.count.tolist()) == ([5], [1])
    assert dict(rest.marks) == {path.name: 2 * len(line)}
    path.write_bytes(line)  # what a power failure took from a file is not read again, and not missed
    assert read_events(tmp_path, rest.marks).lines == 0


def test_a_malformed_line_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    good, whole = b'{"item":"00000000000000cd","kind":"helpful","at":7}\n', {"item": AB, "kind": "used", "at": 5}
    changes = (
        *({"item": AB.upper()}, {"item": 5}, {"kind": ["used"]}, {"kind": "of tomorrow"}, {"kind": "wrong"}),
        *({"at": "5"}, {"at": -1}, {"at": 1e300}),
    )
    entries = ({"item": AB, "kind": "used"}, *(whole | one for one in changes))
    lines = [json.dumps(fields, separators=(",", ":")).encode() for fields in entries]
    for line in (b"\0" * 60, b"{", b"[]", b"5", b'"used"', *lines):
        (tmp_path / "events" / "x.jsonl").write_bytes(good + line + b"\n" + good)
        news = read_events(tmp_path, {})
        assert (news.lines, news.access.key.tolist(), news.access.count.tolist()) == (3, [0xCD], [2]), line


def test_combine_by_hand() -> None:
    def access(*entries: tuple[int, int, int]) -> AccessTimes:
        key, last, count = zip(*entries, strict=True)
        return AccessTimes(np.array(key, np.uint64), np.array(last, np.int64), np.array(count, np.uint32))

    found = combine_access(
        [access((9, 5, 2), (2**63, 1, 1)), access_events.NO_ACCESS, access((9, 3, 4), (1, 8, 2**32 - 1), (1, 7, 6))]
    )
    assert found.key.tolist() == [1, 9, 2**63]
    assert found.last.tolist() == [8, 5, 1]
    assert found.count.tolist() == [2**32 - 1, 6, 1]
    assert combine_access([access_events.NO_ACCESS]) is access_events.NO_ACCESS


def test_a_file_removed_before_its_lock_loses_no_event(tmp_path: Path, appender: EventAppender, monkeypatch) -> None:
    """`touch` locks the new, empty file first and removes it."""
    flock, removed = fcntl.flock, []

    def late(file, how):
        if not removed:
            monkeypatch.setattr(fcntl, "flock", flock)
            removed.append(remove_read_files(tmp_path, {}))
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    appender.append([USED])
    assert removed == [1]
    assert read_events(tmp_path, {}).lines == 1


def test_only_files_read_and_released_are_removed(tmp_path: Path) -> None:
    living, gone = EventAppender(tmp_path), EventAppender(tmp_path)
    for appender in (living, gone):
        appender.append([USED])
    news = read_events(tmp_path, {})
    gone.append([USED])
    gone.close()
    assert remove_read_files(tmp_path, news.marks) == 0  # one is locked, the other has an unread line
    news = read_events(tmp_path, news.marks)
    assert news.lines == 1
    assert remove_read_files(tmp_path, news.marks) == 1
    living.close()
    assert remove_read_files(tmp_path, news.marks) == 1
    assert files(tmp_path) == []


def test_folding(store: Path) -> None:
    first, second, third = list_ids(store)
    before = current(store)
    appender = EventAppender(store)
    appender.append(
        [AccessEvent(first, "used", AT), AccessEvent(first, "fetched", AT - 9), AccessEvent(second, "helpful", AT + 1)]
    )
    appender.append([AccessEvent(third, "wrong", AT), AccessEvent("f" * 16, "used", AT)])
    done = touch(store, SETTINGS)
    assert (done.generation, done.events, done.items, done.ignored) == (2, 3, 2, 2)
    assert counts(store) == {first: (int(AT), 2), second: (int(AT) + 1, 1)}
    name, after = read_current(store), current(store)
    [path] = files(store)  # still held
    assert after.watermarks == {"events": {path.name: path.stat().st_size}}
    new = {field: getattr(after, field) for field in ("parent", "created", "access", "watermarks", "token")}
    assert after == replace(before, generation=2, **new)  # no segment, nor anything else
    assert after.access is not None
    assert (after.access.rows, stat.S_IMODE((store / after.access.path).stat().st_mode)) == (2, 0o600)
    assert verify_store(store).problems == ()

    assert touch(store, SETTINGS).generation == 2  # nothing to fold: no generation
    assert read_current(store) == name

    appender.append([AccessEvent(second, "used", AT - 50)])
    done = touch(store, SETTINGS)
    assert (done.generation, done.events, done.items, done.ignored) == (3, 1, 1, 0)
    assert counts(store) == {first: (int(AT), 2), second: (int(AT) + 1, 2)}  # an older one does not turn time back
    appender.close()
    assert touch(store, SETTINGS).generation == 3
    assert files(store) == []
    append_events(store, [AccessEvent(third, "wrong", AT)])
    assert touch(store, SETTINGS).generation == 4
    assert counts(store) == {first: (int(AT), 2), second: (int(AT) + 1, 2)}
    assert path.name not in current(store).watermarks["events"]  # the mark goes with the file
    assert files(store) == []


def test_a_clock_that_runs_ahead(store: Path) -> None:
    first = list_ids(store)[0]
    append_events(store, [AccessEvent(first, "used", time.time() + 1e6)])
    touch(store, SETTINGS)
    assert abs(counts(store)[first][0] - time.time()) < 60


def test_items_that_are_gone_leave_the_sidecar(store: Path) -> None:
    first, second, third = list_ids(store)
    append_events(store, [AccessEvent(item, "used", AT) for item in (first, second, third)])
    touch(store, SETTINGS)
    delete(store, 0, [1])
    append_events(store, [AccessEvent(second, "used", AT), AccessEvent(third, "used", AT)])
    done = touch(store, SETTINGS)
    assert (done.events, done.ignored) == (1, 1)
    assert counts(store) == {first: (int(AT), 1), third: (int(AT), 2)}


def test_an_item_that_was_replaced_keeps_its_accesses(tmp_path: Path) -> None:
    root, same = tmp_path / "s", "00000000000000ab"
    make_store(root, ["old", "other", "new"], given=[{"id": same}, {}, {"id": same}], cuts=[2], deleted={0: [0]})
    append_events(root, [AccessEvent(same, "used", AT)])
    assert touch(root, SETTINGS).events == 1
    assert counts(root) == {same: (int(AT), 1)}


def test_a_store_nothing_was_published_to(tmp_path: Path) -> None:
    paths.create_folders(tmp_path / "s")
    append_events(tmp_path / "s", [USED])
    assert touch(tmp_path / "s", SETTINGS).generation == 0
    assert len(files(tmp_path / "s")) == 1
    with pytest.raises(StoreError, match="no Helix store"):
        touch(tmp_path, SETTINGS)


def test_a_damaged_sidecar_is_named(store: Path) -> None:
    first = list_ids(store)[0]
    append_events(store, [AccessEvent(first, "used", AT)])
    touch(store, SETTINGS)
    access = current(store).access
    assert access is not None
    path = store / access.path
    append_events(store, [AccessEvent(first, "used", AT)])
    whole = path.read_bytes()
    for damage in (whole[:-40], b"", b"\0" * len(whole)):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match=r"access/.*npz is damaged"):
            touch(store, SETTINGS)
    path.unlink()
    with pytest.raises(StoreError, match="missing"):
        touch(store, SETTINGS)
    path.write_bytes(whole)
    assert touch(store, SETTINGS).events == 1
    assert counts(store) == {first: (int(AT), 2)}


def test_the_reader_sees_folded_accesses(store: Path) -> None:
    first, _, third = list_ids(store)
    now = int(time.time()) - 1000
    events = ((third, now), (third, now - 5), (first, 5))
    append_events(store, [AccessEvent(item, "used", at) for item, at in events])
    before = Snapshot.open(store)
    touch(store, SETTINGS)
    after = Snapshot.open(store)
    assert after.catalog.access_count.tolist() == [1, 0, 2]
    # Never earlier than the item itself.
    assert after.catalog.last_access.tolist() == [before.catalog.last_access[0], before.catalog.last_access[1], now]
