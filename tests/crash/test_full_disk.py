"""A full disk and a store that cannot be written: one clear line, the old generation serves, nothing accepted is lost."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from helix.cli import main
from helix.encoders.export import cached
from helix.encoders.onnx import Encoder
from helix.encoders.registry import choose
from helix.settings import Settings
from helix.snapshot import ledger, paths
from helix.snapshot.reader import Snapshot
from helix.snapshot.verify import verify
from pipelines.accept import accept
from pipelines.commit import commit
from pipelines.enrich import enrich
from helix.encoders.onnx import TokenCounter
from tests.crash.test_kill import write_log
from tests.unit.test_encoder import tiny_bert

# ---------------------------------------------------------------- a disk of our own


@dataclass(frozen=True, slots=True)
class Disk:
    """A small file system in a mount namespace of its own, which goes with the shell that made it."""

    folder: Path  # as it is reached from here
    inside: Path  # as the shell knows it
    shell: subprocess.Popen[str]

    def run(self, command: str) -> str:
        """Run a command in the namespace; "" where it went well, else what it said."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        try:
            self.shell.stdin.write(f"said=$({command} 2>&1) && echo || echo failed: $said\n")
            self.shell.stdin.flush()
            return self.shell.stdout.readline().strip() if self.shell.poll() is None else "failed: the shell ended"
        except OSError as error:
            return f"failed: {error}"

    def fill(self, leave: int) -> None:
        """Leave so many bytes free."""
        self.empty()
        state = os.statvfs(self.folder)
        with (self.folder / "ballast").open("wb") as file:
            file.write(bytes(max(0, state.f_bavail * state.f_frsize - leave)))

    def empty(self) -> None:
        """Take the ballast away."""
        (self.folder / "ballast").unlink(missing_ok=True)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Disk]:
    """A tmpfs, as root of a user namespace or as root; skips where the system allows neither."""
    why = []
    for unshare in (["unshare", "-rm"], ["unshare", "-m"]):
        if not shutil.which(unshare[0]):
            pytest.skip("no unshare(1)")
        shell = subprocess.Popen(
            [*unshare, "sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        made = Disk(Path(f"/proc/{shell.pid}/root") / folder.relative_to("/"), folder, shell)
        try:
            said = made.run(f"mount -t tmpfs -o size={size},mode=700 tmpfs '{folder}'")
            if not said:
                yield made
                return
            why.append(f"{' '.join(unshare)}: {said}")
        finally:
            shell.kill()
            shell.communicate()
    pytest.skip(f"no mount of our own: {'; '.join(why)}")


@pytest.fixture
def small(tmp_path: Path, prepared: Path) -> Iterator[Disk]:
    """A disk of 64 MB with a store on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder, "64m") as made:
        shutil.copytree(prepared, made.folder / "store")
        yield made


LOGS = {f"s{i}": [f"talk {i} is about walnut loaf {j}" for j in range(40)] for i in range(7)}
SECRET = ["the zorbified harp", "a zorbified lute"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Eight commits in eight segments: enough for a merge."""
    folder = tmp_path_factory.mktemp("prepared")
    root = folder / "store"
    settings = Settings(cache=str(cache), threads=1, encoder=str(tiny_bert(folder / "tiny")))
    encoder = Encoder(cached(choose(settings), cache), 1)
    paths.create(root)
    for session, texts in {**LOGS, "attic": SECRET}.items():
        document = accept(root, write_log(folder / f"{session}.jsonl", session, texts), settings).envelope.document
        enrich(root, document, encoder, TokenCounter(encoder.folder), settings)
        commit(root, encoder, settings)
    return root


def contents(root: Path) -> dict[str, str]:
    """Turn to text; nothing twice, and everything verified."""
    report = verify(root)
    assert report.problems == ()
    snapshot = Snapshot(root)
    rows = snapshot.text([row for row in range(snapshot.rows) if snapshot.alive[row]])
    found = {row["turns"][0]: row["text"] for row in rows}
    assert len(found) == len(rows)
    return found


def says(logs: dict[str, list[str]]) -> dict[str, str]:
    return {f"{session}:{i}": text for session, texts in logs.items() for i, text in enumerate(texts)}


@dataclass(frozen=True, slots=True)
class Said:
    """What a command gave."""

    status: int
    out: str
    err: str


@pytest.fixture
def helix(capsys: pytest.CaptureFixture[str], cache: Path) -> Callable[..., Said]:
    """Run a command in this process: an error that is none of Helix's would come through."""

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(status, said.out, said.err)

    return run


def assert_one_clear_line(said: Said, command: str, root: Path) -> None:
    assert said.status == 4, said
    *progress, line = said.err.strip().splitlines()
    assert all(told.startswith(("merging", "rewriting")) for told in progress), progress
    assert line.startswith(f"helix {command}: "), line
    assert str(root) in line
    assert "free space" in line
    print(line)
    assert said.out == ""


STEPS = [0, *(4096 * 2**i for i in range(9))]
"""Bytes left free: 0 to 1 MB."""


def test_an_ingest_that_does_not_fit(small: Disk, helix: Callable[..., Said], tmp_path: Path) -> None:
    root = small.folder / "store"
    before = contents(root)
    given: dict[str, list[str]] = {}
    failures = accepted = 0
    for i, leave in enumerate(STEPS):
        session = f"big{i}"
        texts = [f"remark {j} of {session}: " + "parsley and walnuts " * 10 for j in range(100)]
        log = write_log(tmp_path / f"{session}.jsonl", session, texts)
        small.fill(leave)
        said = helix("ingest", log, "--store", root, "--json")
        if len(ledger.accepted(root)) > 8 + accepted:
            accepted += 1
            given[session] = [text.strip() for text in texts]
        if said.status == 0:
            break
        failures += 1
        assert_one_clear_line(said, "ingest", root)
        assert contents(root) == before
        found = helix("recall", "walnut loaf", "--store", root, "--json")
        assert (found.status, bool(json.loads(found.out)["items"])) == (0, True)
        assert helix("status", "--store", root).status == 0
    assert failures >= 4
    assert accepted >= 2
    small.empty()
    log = write_log(tmp_path / "last.jsonl", "last", ["and that is all"])
    said = helix("ingest", log, "--store", root, "--json")
    assert (said.status, said.err) == (0, "")
    assert contents(root) == before | says(given) | {"last:0": "and that is all"}
    assert ledger.dead(root) == {}
    assert ledger.pending(root) == []


@pytest.mark.parametrize("command", [["compact"], ["compact", "--full"]])
def test_a_compaction_that_does_not_fit(command: list[str], small: Disk, helix: Callable[..., Said]) -> None:
    root = small.folder / "store"
    before = contents(root)
    failures = 0
    for leave in STEPS:
        small.fill(leave)
        said = helix(*command, "--store", root)
        if said.status == 0:
            break
        failures += 1
        assert_one_clear_line(said, "compact", root)
        assert contents(root) == before
        assert len(Snapshot(root).manifest.segments) == 8
    assert failures >= 3
    small.empty()
    assert helix(*command, "--store", root).status == 0
    assert len(Snapshot(root).manifest.segments) == 1
    assert contents(root) == before


def test_a_deletion_that_does_not_fit(small: Disk, helix: Callable[..., Said], tmp_path: Path) -> None:
    root = small.folder / "store"
    before = contents(root)
    after = {turn: text for turn, text in before.items() if not turn.startswith("attic")}
    failures = 0
    for leave in STEPS:
        small.fill(leave)
        said = helix("forget", "--session", "attic", "--store", root)
        if said.status == 0:
            break
        failures += 1
        assert_one_clear_line(said, "forget", root)
        assert contents(root) in (before, after)
    assert failures >= 3
    small.empty()
    assert helix("ingest", write_log(tmp_path / "last.jsonl", "last", ["so"]), "--store", root).status == 0
    assert contents(root) == after | {"last:0": "so"}
    assert not list((root / "purges").iterdir())
    assert len(list((root / "receipts").iterdir())) == 1
    assert not [p for p in root.rglob("*") if p.is_file() and b"zorbified" in p.read_bytes()]
