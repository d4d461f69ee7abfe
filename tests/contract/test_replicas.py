"""Replicas of an object store: what answers while files arrive, and what a kill, a fault or a rival leaves."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helix.errors import StoreError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.partial import MARK, read_partial
from helix.snapshot.replication import object_store, prune
from helix.snapshot.replication.pull import follow_store, pull_store
from helix.snapshot.replication.push import push_store
from helix.snapshot.replication.replica import (
    complete_replica,
    follow_replica,
    list_later,
    list_remote_stores,
    open_replica,
)
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from tests.conftest import SAMPLE
from tests.contract.test_sync import FIRST, Bucket, bucket, current, grow, hashes, make, refuse, server, texts, whole
from tests.support.marks import soak_all_but
from tests.support.processes import compile_library, pick_port, start_helix, wait_until
from tests.support.s3_proxy import Fault, Request, S3Proxy, run_proxy
from tests.support.serving import get_status

__all__ = ["bucket", "server"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
DAY = 86_400


@pytest.fixture
def proxy(server: str, bucket: Bucket) -> Iterator[S3Proxy]:
    """A proxy before the S3 server, which has an empty bucket."""
    with run_proxy(server) as made:
        yield made


@pytest.fixture
def url(proxy: S3Proxy) -> str:
    """The URL of a store, through the proxy."""
    return f"s3://memories/team/one?endpoint_override={proxy.address}&scheme=http"


def check_remote(client: Any, prefix: str = "team/one/") -> str:
    """Return what CURRENT names, after a check that every file it needs is there and undamaged."""

    def read(name: str) -> bytes:
        return bytes(client.get_object(Bucket="memories", Key=prefix + name)["Body"].read())

    name = read("CURRENT").decode().strip()
    for file in manifests.parse(name, read(f"manifests/{name}")).files():
        assert hashlib.sha256(read(f"files/{file.sha256}")).hexdigest() == file.sha256
    return name


# ------------------------------------------------------------ words first


def test_a_replica_answers_from_words_until_the_rest_is_here(
    sample_store: Path, tmp_path: Path, url: str, proxy: S3Proxy, run_helix: Run
) -> None:
    root, question = tmp_path / "replica", "What did I tell Priya about vacation?"

    def ask(memory: Memory) -> Any:
        return memory.recall(question, now="2026-06-01")  # recency is of then

    push_store(sample_store, url)
    manifest = manifests.load(sample_store, current(sample_store))
    later = list_later(manifest)
    digests = {file.sha256 for file in manifest.files() if file.path in later}
    digests -= {file.sha256 for file in manifest.files() if file.path not in later}
    assert sum(file.bytes for file in manifest.files() if file.path in later) > 20e6  # with the encoder
    assert open_replica(url, root)
    assert not open_replica(url, root)
    assert not digests & {request.name.rpartition("/")[2] for request in proxy.seen if request.method == "GET"}
    memory, whole_answer = Memory(root), ask(Memory(sample_store))
    found = ask(memory)
    assert found.degraded[0].startswith("dense: generation 1 is still arriving: ")
    assert found.items[0].id in {item.id for item in whole_answer.items}
    assert not memory.refresh()
    # Nothing takes it for a whole store.
    (problem,) = verify_store(root).problems
    assert f"{len(later)} files are missing" in problem
    for arguments in (("gc",), ("sql", "SELECT count(*) FROM items"), ("push", tmp_path / "copy"), ("ingest", SAMPLE)):
        refused = run_helix(*arguments, "--store", root)
        assert refused.returncode == 4, arguments
        assert "still arriving" in refused.stderr, arguments
    assert run_helix("status", "--store", root).returncode == 0
    report = complete_replica(url, root)
    assert report is not None
    assert report.transferred == len(later)
    assert not (root / MARK).exists()
    assert memory.refresh()
    found = ask(memory)
    assert (found.items, found.context, found.degraded) == (
        whole_answer.items,
        whole_answer.context,
        whole_answer.degraded,
    )
    assert complete_replica(url, root) is None
    assert whole(root)


def test_a_replica_that_is_killed_anywhere_resumes(tmp_path: Path, url: str, run_helix: Run) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, url)
    for point in ("pull.file", "pull.marked", "pull.manifest", "pull.current"):
        root = tmp_path / f"first-{point}"
        killed = run_helix("pull", url, "--store", root, "--follow", "9", HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        if point == "pull.current":
            assert texts(root) == FIRST
        else:
            assert manifests.read_current(root) is None
        assert open_replica(url, root) == (point != "pull.current")
        assert len(verify_store(root).problems) == 1
        complete_replica(url, root)
        assert texts(root) == FIRST
        assert whole(root)
    for point in ("pull.file", "pull.marked", "pull.manifest", "pull.current"):
        root = tmp_path / f"rest-{point}"
        open_replica(url, root)
        killed = run_helix("pull", url, "--store", root, HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        assert texts(root) == FIRST
        with pytest.raises(StoreError, match="still arriving"), writer.acquire_lock(root, 1.0):
            pytest.fail("a writer got the lock")
        assert follow_store(url, root) is not None
        assert whole(root)


def test_a_generation_that_moves_on_meanwhile_replaces_the_partial_one(
    tmp_path: Path, url: str, run_helix: Run
) -> None:
    ours, root = make(tmp_path / "ours"), tmp_path / "replica"
    push_store(ours, url)
    open_replica(url, root)
    grow(ours, ["all in one"], drop=1)
    push_store(ours, url, prune=True, keep=1)  # the files that the replica lacks are gone
    memory = Memory(root)
    # A second replica is killed after its manifest, and begins with another generation.
    second = tmp_path / "second"
    assert run_helix("pull", url, "--store", second, "--follow", "9", HELIX_FAILPOINT="pull.manifest").returncode < 0
    grow(ours, ["all in another"], drop=1)
    push_store(ours, url, prune=True, keep=1)
    assert open_replica(url, second)
    assert len(verify_store(second).problems) == 1
    assert complete_replica(url, root) is not None
    assert memory.refresh()
    assert texts(root) == ["all in another"]
    assert verify_store(root).problems == ()
    with run_statement(root, "SELECT text FROM items") as found:
        assert [row[0] for row in found.rows] == ["all in another"]


def test_a_server_with_nothing_serves_and_follows(tmp_path: Path, url: str, proxy: S3Proxy) -> None:
    ours, root, log, port = make(tmp_path / "ours"), tmp_path / "replica", tmp_path / "log", pick_port()
    push_store(ours, url)
    address = f"http://127.0.0.1:{port}"

    def recall(text: str) -> str:
        import httpx

        return str(httpx.get(f"{address}/v1/recall", params={"query": text}, timeout=60).text)

    serving = start_helix(log, "serve", "--replica-of", url, "--store", root, "--port", port)
    try:
        wait_until(120, lambda: get_status(f"{address}/readyz") == 200, log)
        assert "walnut" in recall("walnut loaf")
        wait_until(60, lambda: "2 of 2" in log.read_text() or read_partial(root) is None, log)
        grow(ours, ["the marmalade is in the cellar"])
        push_store(ours, url, prune=True)
        wait_until(60, lambda: "marmalade" in recall("marmalade"), log)
        serving.send_signal(signal.SIGTERM)
        serving.wait(60)
        looks = len(proxy.seen)
        wait_until(60, lambda: not find_followers(root), log)
        assert len(proxy.seen) < looks + 5
    finally:
        serving.kill()


def find_followers(root: Path) -> list[int]:
    """Return the processes that follow a remote for this store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--follow" in words and str(root).encode() in words:
            found.append(int(path.parent.name))
    return found


def test_a_look_without_news_is_one_request(tmp_path: Path, url: str, proxy: S3Proxy) -> None:
    ours, root, waits = make(tmp_path / "ours"), tmp_path / "replica", list[float]()
    push_store(ours, url)
    events = follow_replica(url, root, 10.0, waits.append)
    assert "answers from words" in str(next(events))
    assert waits == []
    assert next(events) is not None
    assert whole(root)
    proxy.seen.clear()
    for _ in range(4):
        assert next(events) == ""
    assert [(request.method, request.name) for request in proxy.seen] == [("GET", "team/one/CURRENT")] * 4
    assert len(set(waits)) == len(waits)  # replicas that start together do not look together
    assert all(8 <= wait <= 12 for wait in waits)
    proxy.fault = lambda _: "skew"
    assert isinstance(next(events), StoreError)
    proxy.fault = lambda _: None
    grow(ours)
    push_store(ours, url)
    assert next(events) is not None
    assert current(root) == current(ours)


# ------------------------------------------------------------ several publishers


PUBLISHER = """
import sys
from pathlib import Path
from helix.errors import StoreError
from helix.snapshot.replication.pull import pull_store
from helix.snapshot.replication.push import push_store
from tests.contract.test_sync import grow

root, url = Path(sys.argv[1]), sys.argv[2]
pull_store(url, root)
print("ready", flush=True)
for line in sys.stdin:
    try:
        if line.strip() == "pull":
            pull_store(url, root, force=True)
        else:
            grow(root, [line.strip()], drop=1)
            push_store(root, url, prune=True)
        print("done", flush=True)
    except StoreError as error:
        print(error, flush=True)
"""


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("turns", soak_all_but([3, 50], 3))
def test_of_two_publishers_at_once_one_wins_whole(turns: int, tmp_path: Path, url: str, bucket: Bucket) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, url)
    command = [sys.executable, "-c", PUBLISHER]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    rivals = [subprocess.Popen([*command, str(tmp_path / name), url], **pipes) for name in ("a", "b")]
    try:
        assert [rival.stdout.readline() for rival in rivals] == ["ready\n"] * 2
        for turn in range(turns):
            for name, rival in zip("ab", rivals, strict=True):
                rival.stdin.write(f"remark {turn} of {name}\n")
            said = [rival.stdout.readline().strip() for rival in rivals]
            assert sorted(line == "done" for line in said) == [False, True], said
            (reason,) = (line for line in said if line != "done")
            assert "no ancestor" in reason or "another push" in reason
            winner = "ab"[said.index("done")]
            assert check_remote(bucket[1]) == current(tmp_path / winner)
            loser = rivals["ba".index(winner)]
            loser.stdin.write("pull\n")
            assert loser.stdout.readline() == "done\n"
            assert texts(tmp_path / "a") == texts(tmp_path / "b")
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()


def test_a_push_between_reading_and_replacing_is_noticed(
    tmp_path: Path, url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CURRENT keeps its name when another process removes old files: its new mark alone shows that."""
    ours, other = make(tmp_path / "ours"), tmp_path / "other"
    push_store(ours, url)
    pull_store(url, other)
    grow(ours)
    begun: list[str] = []

    def remove_old_files(point: str) -> None:
        if point == "push.manifest" and not begun:
            begun.append(point)
            assert push_store(other, url, prune=True).removed > 10  # those that `ours` has just sent

    monkeypatch.setattr("helix.snapshot.replication.push.failpoint", remove_old_files)
    push_store(ours, url)
    assert begun
    assert check_remote(bucket[1]) == current(ours)


def test_a_push_waits_while_files_are_removed(
    tmp_path: Path, url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = make(tmp_path / "ours"), tmp_path / "other"
    push_store(ours, url)
    pull_store(url, other)
    remote = object_store.connect(url)
    free = object_store.read_pointer(remote, prune.PRUNE)
    waits: list[float] = []
    grow(other)
    with prune.hold_prune(remote, free) as renew:

        def end(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                raise TimeoutError

        monkeypatch.setattr(prune, "time", SimpleNamespace(sleep=end, monotonic=time.monotonic))
        with pytest.raises(TimeoutError):
            push_store(other, url)
        renew()
    assert check_remote(bucket[1]) == current(ours)
    push_store(other, url)
    assert check_remote(bucket[1]) == current(other)


def test_the_removal_of_a_killed_push_is_taken_over(
    tmp_path: Path, url: str, bucket: Bucket, run_helix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, url)
    for point in ("push.current", "prune.batch"):
        grow(ours, [point], drop=1)
        killed = run_helix("push", url, "--store", ours, "--prune", "--keep", "1", HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        assert check_remote(bucket[1]) == current(ours)
        monkeypatch.setattr(prune, "LEASE", 0.3)
        push_store(ours, url, prune=True, keep=1)
        assert check_remote(bucket[1]) == current(ours)
    # The one that was thought dead stops.
    remote = object_store.connect(url)
    monkeypatch.setattr(prune, "RENEWAL", 0.0)
    with prune.hold_prune(remote, object_store.read_pointer(remote, prune.PRUNE)) as renew:
        renew()
        prune.wait_for_prune(remote)
        with pytest.raises(StoreError, match="taken over"):
            renew()


def test_a_server_without_conditional_writes_is_refused(tmp_path: Path, url: str, proxy: S3Proxy) -> None:
    proxy.ignores_conditions = True
    assert "ignores the condition" in refuse(push_store, make(tmp_path / "ours"), url)


@pytest.mark.parametrize("fault", ["lost", "conflict"])
def test_a_write_that_has_to_be_repeated_does_not_lose_the_push(
    fault: Fault, tmp_path: Path, url: str, proxy: S3Proxy, bucket: Bucket
) -> None:
    ours = make(tmp_path / "ours")

    def fail_first_write(request: Request) -> Fault | None:
        return fault if request.method == "PUT" and request.before == 0 and request.name.endswith("/CURRENT") else None

    for _ in range(2):  # the first one creates CURRENT, the second replaces it
        proxy.seen.clear()
        proxy.fault = fail_first_write
        push_store(ours, url)
        assert proxy.count("PUT", "CURRENT") > 1
        assert check_remote(bucket[1]) == current(ours)
        grow(ours)


# ------------------------------------------------------------ lists that are wrong


def test_nothing_rests_on_a_list(tmp_path: Path, url: str, proxy: S3Proxy, bucket: Bucket) -> None:
    ours, theirs, behind = make(tmp_path / "ours"), tmp_path / "theirs", tmp_path / "behind"
    push_store(ours, url)
    pull_store(url, theirs)
    pull_store(url, behind)
    grow(ours)
    manifest = manifests.load(ours, current(ours))
    # A list names files that were never sent, or deleted since.
    proxy.ghosts = [(f"team/one/files/{file.sha256}", file.bytes) for file in manifest.files()]
    proxy.ghosts.append((f"team/one/manifests/{current(ours)}", len((ours / "manifests" / current(ours)).read_bytes())))
    push_store(ours, url, prune=True)
    assert check_remote(bucket[1]) == current(ours)
    pull_store(url, theirs)
    assert whole(theirs)
    # A list lacks all that is there.
    proxy.ghosts, proxy.hides = [], lambda _: True
    proxy.seen.clear()
    assert push_store(ours, url, prune=True).transferred == 0
    assert proxy.count("HEAD", "files/") == len(hashes(ours))
    grow(ours, ["all in one"], drop=1)
    push_store(ours, url, prune=True)
    assert check_remote(bucket[1]) == current(ours)
    for root in (theirs, behind):
        pull_store(url, root)
        assert texts(root) == texts(ours)
    grow(theirs, ["made there"])
    assert "does not have" in refuse(pull_store, url, theirs)  # nor is a local commit lost by it
    proxy.hides = lambda key: key.endswith(".json")
    grow(ours, ["on its own way"])
    push_store(ours, url, prune=True, keep=1)
    assert check_remote(bucket[1]) == current(ours)


def test_the_stores_of_a_bucket_are_listed(tmp_path: Path, url: str, proxy: S3Proxy) -> None:
    ours = make(tmp_path / "ours")
    base = url.replace("/team/one", "/team")
    for name in ("one", "two", "Not-A-Name"):
        push_store(ours, url.replace("/team/one", f"/team/{name}"))
        push_store(ours, str(tmp_path / "shared" / name))
    (tmp_path / "shared" / "empty").mkdir()
    assert list_remote_stores(base) == list_remote_stores(str(tmp_path / "shared")) == ["one", "two"]


# ------------------------------------------------------------ faults


def test_each_fault_ends_whole(tmp_path: Path, url: str, proxy: S3Proxy) -> None:
    ours = make(tmp_path / "ours")
    push_store(ours, url)
    faults: tuple[Fault, ...] = ("throttle", "error", "reset", "lost")
    for fault in faults:
        proxy.seen.clear()
        proxy.fault = lambda request, fault=fault: fault if request.before == 0 and request.name != "?" else None
        root = tmp_path / fault
        assert open_replica(url, root)
        complete_replica(url, root)
        assert whole(root)
        assert current(root) == current(ours)
        grow(ours)
        push_store(ours, url, prune=True)


def test_a_fault_that_stays_is_one_error_and_the_old_generation_answers(
    tmp_path: Path, url: str, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix.snapshot.replication.s3.RETRIES", 3)
    ours, root = make(tmp_path / "ours"), tmp_path / "replica"
    push_store(ours, url)
    pull_store(url, root)
    grow(ours)
    push_store(ours, url)
    wanted: dict[Fault, str] = {
        "throttle": "SlowDown (injected); the server asks for fewer requests",
        "error": "InternalError",
        "reset": "check endpoint_override, scheme and the network",
        "cut": "is damaged: its size is not the recorded",
        "skew": "RequestTimeTooSkewed (injected); set this machine's clock",
    }
    from helix.snapshot.replication import s3

    s3._open_bucket.cache_clear()
    for fault, message in wanted.items():
        proxy.seen.clear()
        proxy.fault = lambda request, fault=fault: fault if "/files/" in request.name else None
        for pull in (pull_store, follow_store):
            assert message in refuse(pull, url, root)
        assert texts(root) == FIRST
        assert whole_but_for_orphans(root)
        asked = Counter(request.name for request in proxy.seen if "/files/" in request.name)
        assert max(asked.values()) <= 2 * (3 + 1)
    s3._open_bucket.cache_clear()
    proxy.fault = lambda _: None
    assert follow_store(url, root) is not None
    assert current(root) == current(ours)


def whole_but_for_orphans(root: Path) -> bool:
    return verify_store(root).problems == ()


# ------------------------------------------------------------ clocks


@pytest.mark.parametrize("shift", [-DAY, DAY])
def test_a_clock_that_is_off_by_a_day_changes_nothing(
    shift: int, tmp_path: Path, url: str, proxy: S3Proxy, bucket: Bucket, run_helix: Run
) -> None:
    ours, root, offset = make(tmp_path / "ours"), tmp_path / "replica", tmp_path / "offset"
    push_store(ours, url)
    offset.write_bytes(shift.to_bytes(8, sys.byteorder, signed=True))
    wrong = {"LD_PRELOAD": str(compile_library("clock", tmp_path)), "CLOCK_OFFSET": str(offset)}
    for turn, environ in enumerate((wrong, {}, wrong)):  # the machines take turns, the server's clock is off as well
        proxy.shift = -shift if environ else shift
        grow(ours, [f"remark {turn}"], drop=1)
        done = run_helix("push", url, "--store", ours, "--prune", **environ)
        assert done.returncode == 0, done.stderr
        assert check_remote(bucket[1]) == current(ours)
        done = run_helix("pull", url, "--store", root, **environ)
        assert done.returncode == 0, done.stderr
        assert current(root) == current(ours)
        assert verify_store(root).problems == ()
    done = run_helix("gc", "--store", root, "--keep", "1", **wrong)
    assert done.returncode == 0, done.stderr
    assert texts(root) == ["remark 2"]
