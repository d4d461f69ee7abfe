"""A full disk and an unwritable store: one clear error, the old generation serves, no document is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import pipelines.maintain.compact as compact_jobs
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.settings import Settings
from helix.snapshot.index import dense
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from tests.crash.conftest import Helix, Output
from tests.crash.test_kill import write_log
from tests.support.forks import forking
from tests.support.processes import pick_port
from tests.support.publishing import publish_log
from tests.support.serving import ServerProcess
from tests.support.tiny import list_ids
from tests.support.walk import read_all


@dataclass(frozen=True, slots=True)
class Disk:
    """A small file system in a mount namespace of its own, which ends with its shell."""

    folder: Path  # as it is reached from here
    inside: Path  # as the shell knows it
    shell: subprocess.Popen[str]

    def run(self, command: str) -> str:
        """Run a command in the namespace; return its error output, empty on success."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        try:
            self.shell.stdin.write(f"said=$({command} 2>&1) && echo || echo failed: $said\n")
            self.shell.stdin.flush()
            return self.shell.stdout.readline().strip() if self.shell.poll() is None else "failed: the shell ended"
        except OSError as error:
            return f"failed: {error}"

    def fill(self, leave: int) -> None:
        """Leave that many bytes free."""
        self.empty()
        state = os.statvfs(self.folder)
        with (self.folder / "ballast").open("wb") as file:
            file.write(bytes(max(0, state.f_bavail * state.f_frsize - leave)))

    def empty(self) -> None:
        """Remove the ballast."""
        (self.folder / "ballast").unlink(missing_ok=True)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Disk]:
    """A tmpfs, as root of a user namespace or as root; skip where the system allows neither."""
    why = []
    for unshare in (["unshare", "-rm"], ["unshare", "-m"]):
        if not shutil.which(unshare[0]):
            pytest.skip("no unshare(1)")
        shell = subprocess.Popen(
            [*unshare, "sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        made = Disk(Path(f"/proc/{shell.pid}/root") / folder.relative_to("/"), folder, shell)
        try:
            done = made.run(f"mount -t tmpfs -o size={size},mode=700 tmpfs '{folder}'")
            if not done:
                yield made
                return
            why.append(f"{' '.join(unshare)}: {done}")
        finally:
            shell.kill()
            shell.communicate()
    pytest.skip(f"no mount of our own: {'; '.join(why)}")


@pytest.fixture
def small(tmp_path: Path, prepared_store: Path) -> Iterator[Disk]:
    """A disk of 64 MB with a store on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder, "64m") as made:
        shutil.copytree(prepared_store, made.folder / "store")
        yield made


@pytest.fixture
def root(small: Disk) -> Path:
    return small.folder / "store"


@pytest.fixture
def content_before(root: Path) -> dict[str, str]:
    """The content of the store at first."""
    return contents(root)


LOGS = {f"s{i}": [f"talk {i} is about walnut loaf {j}" for j in range(40)] for i in range(7)}
SECRET = ["the zorbified harp", "a zorbified lute"]


@pytest.fixture(scope="module")
def prepared_store(tmp_path_factory: pytest.TempPathFactory, cache: Path, tiny_encoders: list[str]) -> Path:
    """A store of eight segments: enough for a merge."""
    folder = tmp_path_factory.mktemp("prepared")
    root = folder / "store"
    settings = Settings(cache=str(cache), threads=1, encoder=tiny_encoders[0])
    encoder = Encoder(cache_encoder(choose_encoder(settings), cache), 1)
    for session, texts in {**LOGS, "attic": SECRET}.items():
        publish_log(root, write_log(folder / f"{session}.jsonl", session, texts), encoder, settings)
    return root


def contents(root: Path) -> dict[str, str]:
    """Return turn → text, after checking that the store is whole and no turn is doubled."""
    report = verify_store(root)
    assert report.problems == ()
    snapshot = Snapshot.open(root)
    rows = snapshot.text([row for row in range(snapshot.rows) if snapshot.alive[row]])
    found = {row["turns"][0]: row["text"] for row in rows}
    assert len(found) == len(rows)
    return found


def map_turns(logs: dict[str, list[str]]) -> dict[str, str]:
    return {f"{session}:{i}": text for session, texts in logs.items() for i, text in enumerate(texts)}


Contents = dict[str, str]


def assert_one_clear_line(done: Output, command: str, root: Path) -> None:
    """Check the last line of stderr; lines before it are progress."""
    assert done.status == 4, done
    *progress, last = done.err.strip().splitlines()
    assert all(line.startswith(("merging", "rewriting", "8 documents to go")) for line in progress), progress
    assert last.startswith(f"helix {command}: "), last
    assert str(root) in last
    assert "free space" in last
    assert "permission" in last
    assert done.out == ""


STEPS = [0, *(4096 * 2**i for i in range(9))]
"""Bytes left free: 0 to 1 MB."""


def test_an_ingest_on_a_full_disk_loses_nothing(
    small: Disk, root: Path, content_before: Contents, helix: Helix, tmp_path: Path
) -> None:
    given: dict[str, list[str]] = {}
    failures = accepted = 0
    for i, leave in enumerate(STEPS):
        session = f"big{i}"
        texts = [f"remark {j} of {session}: " + "parsley and walnuts " * 10 for j in range(100)]
        log = write_log(tmp_path / f"{session}.jsonl", session, texts)
        small.fill(leave)
        done = helix("ingest", log, "--store", root, "--json")
        if len(inbox.list_accepted(root)) > 8 + accepted:
            accepted += 1
            given[session] = [text.strip() for text in texts]
        if done.status == 0:
            break
        failures += 1
        assert_one_clear_line(done, "ingest", root)
        assert not list(root.rglob(".tmp-*"))
        assert not list((root / "building").iterdir())
        # At least the old generation, and of what was accepted whole documents: a large ingest publishes in batches.
        now = contents(root)
        assert content_before.items() <= now.items() <= (content_before | map_turns(given)).items()
        new = {session: sum(turn.startswith(f"{session}:") for turn in now) for session in given}
        assert all(count in (0, len(given[session])) for session, count in new.items())
        found = helix("recall", "walnut loaf", "--store", root, "--json")
        assert (found.status, bool(json.loads(found.out)["items"])) == (0, True)
        assert helix("status", "--store", root).status == 0
    assert failures >= 4
    assert accepted >= 2
    small.empty()
    log = write_log(tmp_path / "last.jsonl", "last", ["and that is all"])
    done = helix("ingest", log, "--store", root, "--json")
    assert (done.status, done.err) == (0, "")
    assert contents(root) == content_before | map_turns(given) | {"last:0": "and that is all"}
    assert inbox.list_dead(root) == {}
    assert inbox.list_pending(root) == []


def fill_step_by_step(small: Disk, helix: Helix, *words: object, check: Callable[[], object]) -> None:
    """Run a command with more and more free space until it succeeds; call `check` after each failure."""
    failures = 0
    for leave in STEPS:
        small.fill(leave)
        done = helix(*words, "--store", small.folder / "store")
        if done.status == 0:
            break
        failures += 1
        assert_one_clear_line(done, str(words[0]), small.folder / "store")
        check()
    assert failures >= 3
    small.empty()


@pytest.mark.parametrize("command", [["compact"], pytest.param(["compact", "--full"], marks=pytest.mark.soak)])
def test_a_compaction_on_a_full_disk_loses_nothing(
    command: list[str], small: Disk, root: Path, content_before: Contents, helix: Helix
) -> None:
    def check() -> None:
        assert contents(root) == content_before
        assert len(Snapshot.open(root).manifest.segments) == 8

    fill_step_by_step(small, helix, *command, check=check)
    assert helix(*command, "--store", root).status == 0
    assert len(Snapshot.open(root).manifest.segments) == 1
    assert contents(root) == content_before


def test_a_dense_index_on_a_full_disk_loses_nothing(
    small: Disk, root: Path, content_before: Contents, helix: Helix, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = compact_jobs._build_dense

    def full(segment: Path, folder: Path, tier: str) -> dict[str, object]:
        small.fill(0)
        return build(segment, folder, tier)

    monkeypatch.setattr(dense, "INDEXED_ROWS", 8)
    monkeypatch.setattr(compact_jobs, "_build_dense", full)
    assert_one_clear_line(helix("compact", "--store", root), "compact", root)
    assert contents(root) == content_before
    small.empty()
    monkeypatch.setattr(compact_jobs, "_build_dense", build)
    assert helix("compact", "--store", root).status == 0
    assert contents(root) == content_before


def test_a_deletion_on_a_full_disk_is_finished_later(
    small: Disk, root: Path, content_before: Contents, helix: Helix, tmp_path: Path
) -> None:
    after = {turn: text for turn, text in content_before.items() if not turn.startswith("attic")}

    def check() -> None:
        assert contents(root) in (content_before, after)

    fill_step_by_step(small, helix, "forget", "--session", "attic", check=check)
    assert helix("ingest", write_log(tmp_path / "last.jsonl", "last", ["so"]), "--store", root).status == 0
    assert contents(root) == after | {"last:0": "so"}
    assert not list((root / "purges").iterdir())
    assert len(list((root / "receipts").iterdir())) == 1
    assert not [path for path, data in read_all(root) if b"zorbified" in data]


def test_old_generations_can_be_removed_from_a_full_disk(
    small: Disk, root: Path, content_before: Contents, helix: Helix
) -> None:
    assert helix("compact", "--store", root).status == 0
    small.fill(0)
    done = helix("gc", "--keep", "1", "--grace", "0", "--store", root, "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["bytes"] > 100_000
    assert contents(root) == content_before
    assert verify_store(root).orphans == ()


@pytest.mark.parametrize("command", ["reindex", "rollback", "touch"])
def test_other_commands_on_a_full_disk_lose_nothing(
    command: str, small: Disk, root: Path, content_before: Contents, helix: Helix, monkeypatch: pytest.MonkeyPatch
) -> None:
    access_events.append_events(
        root, [access_events.AccessEvent(item, "used", 1_700_000_000) for item in list_ids(root)]
    )
    monkeypatch.setenv("HELIX_ITEM_WORDS", "5")
    for leave in (0, 65_536):
        small.fill(leave)
        done = helix(command, "--store", root)
        if leave == 0 or done.status:
            assert_one_clear_line(done, command, root)
            assert contents(root) == content_before
    small.empty()
    assert done.status == 0 or helix(command, "--store", root).status == 0
    assert verify_store(root).problems == ()


READING = (["recall", "walnut loaf"], ["status"], ["verify"], ["sql", "SELECT count(*) AS n FROM items"])
WRITING = (
    *(["ingest", "LOG"], ["enqueue", "LOG"], ["compact"], ["gc"]),
    *(["forget", "--session", "attic"], ["rollback"], ["reindex"], ["touch"]),
)


def test_a_store_on_a_read_only_disk_is_read_and_not_written(
    small: Disk, root: Path, helix: Helix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_ITEM_WORDS", "5")  # so that a reindex has something to do
    done = small.run(f"mount -o remount,ro '{small.inside}'")
    if done:
        pytest.skip(f"cannot be mounted read-only: {done}")
    log = write_log(tmp_path / "more.jsonl", "more", ["and more"])
    for command in READING:
        found = helix(*command, "--store", root, "--json")
        assert (found.status, found.err) == (0, ""), (command, found)
    server = ServerProcess(root, port=pick_port(), stderr=subprocess.PIPE, text=True).wait_for_status()
    assert len(httpx.get(f"{server.url}/v1/recall?query=walnut+loaf&k=3").json()["items"]) == 3
    server.process.terminate()
    assert "Traceback" not in server.process.communicate(timeout=240)[1]
    for command in WRITING:
        arguments = [str(log) if word == "LOG" else word for word in command]
        assert_one_clear_line(helix(*arguments, "--store", root), command[0], root)


NOBODY = 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a store away")
@pytest.mark.parametrize("readable", [True, False])
def test_a_store_of_another_user_is_refused(readable: bool, prepared_store: Path, tmp_path: Path) -> None:
    """It is readable where its owner allows that."""
    root = tmp_path / "store"
    shutil.copytree(prepared_store, root)
    log = write_log(tmp_path / "more.jsonl", "more", ["and more"])
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044) * readable)
        os.chown(path, NOBODY, NOBODY)

    # Root of a user namespace without the owner has no rights on these files.
    apart = ("unshare", "-r")
    if not shutil.which(apart[0]) or subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces")
    with forking(*apart) as call:

        def run(*arguments: str) -> Output:
            done = call(arguments, {**os.environ, "HELIX_ITEM_WORDS": "5"}, timeout=240)
            return Output(done.returncode, done.stdout, done.stderr)

        for command in READING:
            done = run(*command, "--store", str(root), "--json")
            if readable:
                assert (done.status, done.err) == (0, ""), command
            else:
                assert (done.status, len(done.err.splitlines())) == (4, 1), (command, done)
                assert str(root) in done.err
        for command in WRITING:
            arguments = [str(log) if word == "LOG" else word for word in command]
            done = run(*arguments, "--store", str(root))
            if readable:
                assert_one_clear_line(done, command[0], root)
            else:
                assert (done.status, done.out, len(done.err.splitlines())) == (4, "", 1), (command, done)
                assert str(root) in done.err
