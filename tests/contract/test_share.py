"""Machines with one memory: one folder under two names, or an S3 server and a store each."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import StoreError, UsageError
from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.replication import share
from helix.snapshot.replication.object_store import RemoteStore, connect, delete_file, list_files, put_file, read_blocks
from helix.snapshot.replication.part_archive import pack_part
from helix.snapshot.replication.pull import pull_store
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from pipelines.ingest.accept import accept
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.lineage import open_encoder, read_encoder_fingerprint
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import drop_dead, forget
from pipelines.maintain.replication import envelopes, member, primary
from tests.contract.test_sync import Bucket, bucket, server
from tests.crash.test_kill import items, write_log
from tests.support.fleet import count_done, expected_texts, list_turns, worker, write_documents
from tests.support.processes import start_helix, wait_until

__all__ = ["bucket", "server"]

WORD = b"document 1 says"


ENCODERS: dict[str | None, Encoder] = {}
"""The encoder of each lineage, which is the same in every store."""

open_counter = cache(TokenCounter)


@dataclass
class Machine:
    """A store, and the steps of a worker on it."""

    root: Path
    settings: Settings

    def accept(self, path: Path) -> list[str]:
        return list(accept(self.root, path, self.settings).documents)

    def enqueue(self, path: Path) -> list[str]:
        return member.hand_over(self.root, self.settings, self.accept(path))

    def encoder(self) -> Encoder:
        """Open the encoder once a lineage, as a worker does."""
        lineage = read_encoder_fingerprint(self.root)
        return ENCODERS.get(lineage) or ENCODERS.setdefault(lineage, open_encoder(self.root, self.settings))

    def fingerprint(self) -> str:
        return pipeline_fingerprint(self.encoder().spec.fingerprint, self.settings)

    def enrich(self, *documents: str) -> list[str]:
        """Do the work of the enrich task; return the documents made here."""
        return [document for document in documents if self._enrich(document)]

    def _enrich(self, document: str) -> bool:
        if not member.receive(self.root, self.settings, document) or not inbox.is_pending(self.root, document):
            return False
        encoder = self.encoder()
        tried = try_enrich(self.root, document, encoder, open_counter(encoder.folder), self.settings)
        member.hand_in(self.root, self.settings, document, self.fingerprint())
        return tried.part is not None

    def commit(self) -> primary.CollectedObjects:
        """Do the work of the commit task, on the primary."""
        found = primary.collect(self.root, self.settings, self.fingerprint())
        commit(self.root, self.encoder(), self.settings)
        primary.publish(self.root, self.settings)
        return found

    def keep_up(self) -> None:
        """Run a worker's round, as in a new process."""
        for known in (envelopes._offered, member._sent, primary._compared, share._applied):
            known.clear()
        member.keep_up(self.root, self.settings)

    def part(self, document: str) -> Path:
        return part_folder(self.root, document, self.fingerprint())


@dataclass
class Fleet:
    """The primary, another machine, and their share, read without Helix."""

    a: Machine
    b: Machine
    tmp: Path

    @property
    def remote(self) -> RemoteStore:
        return connect(self.a.settings.share)

    def read_objects(self, folder: str = "") -> dict[str, bytes]:
        return {name: b"".join(read_blocks(self.remote, name)) for name in list_files(self.remote, folder)}

    def find_word(self, word: bytes) -> list[str]:
        """Return the objects of the share that hold a word."""
        return [name for name, data in self.read_objects().items() if word in data]

    def put(self, name: str, data: bytes) -> None:
        put_file(self.remote, name, data)

    def log(self, i: int, turns: int = 3) -> Path:
        """Write the log of session `w{i}`."""
        return write_log(self.tmp / f"{i}.jsonl", f"w{i}", list_turns(i, turns))

    def grow(self, i: int) -> Path:
        """Append turn `i` to the log of session `g`."""
        return grow(self.tmp / "grown.jsonl", "g", [f"step {i} of the walnut loaf"], i)

    def enqueue_one(self, i: int = 0) -> tuple[Machine, Machine, str]:
        """Return both machines, and a document that the second one has accepted."""
        (document,) = self.b.enqueue(self.log(i))
        return self.a, self.b, document


def machine(root: Path, url: str, **settings: Any) -> Machine:
    paths.create_folders(root)
    return Machine(root, replace(load(), share=url, **settings))


@pytest.fixture
def two(bucket: Bucket, tmp_path: Path, cache: Path) -> Fleet:
    """Two machines that share an S3 server."""
    return fleet_at(bucket[0], tmp_path)


@pytest.fixture
def pair(tmp_path: Path, cache: Path) -> Fleet:
    """Two machines that share a folder."""
    return fleet_at(str(tmp_path / "share"), tmp_path)


def fleet_at(url: str, tmp: Path) -> Fleet:
    made = Fleet(machine(tmp / "a", url), machine(tmp / "b", url), tmp)
    primary.claim(made.a.root, made.a.settings)
    return made


def find_word(root: Path, word: bytes) -> list[Path]:
    """Return the files of a store that hold a word."""
    return [path for path in root.rglob("*") if path.is_file() and word in path.read_bytes()]


def test_one_machine_accepts_and_enriches_and_another_commits(two: Fleet, run_helix) -> None:
    a, b, document = two.enqueue_one()
    envelope = b.root / "inbox" / document
    assert two.read_objects() == {f"inbox/{document}": envelope.read_bytes(), f"new/{document}": b""}
    assert b.enrich(document) == [document]
    name = b.part(document).name
    assert list(two.read_objects("parts")) == [f"parts/{name}"]
    assert a.commit() == primary.CollectedObjects(1, 1, 0)
    assert items(a.root) == expected_texts(1)
    fetched = a.root / "inbox" / document
    assert fetched.read_bytes() == envelope.read_bytes()
    assert fetched.stat().st_mtime_ns == envelope.stat().st_mtime_ns
    left = {name.split("/")[0] for name in two.read_objects()}
    assert left == {"CURRENT", "LEDGER", "PRUNE", "files", "inbox", "manifests"}  # without its part and its mark
    assert list((a.root / "parts").iterdir()) == []
    # The other machine learns that it is done, without any item.
    assert b.part(document).is_dir()
    b.keep_up()
    assert inbox.list_pending(b.root) == []
    assert not b.part(document).exists()
    assert list((b.root / "segments").iterdir()) == []
    assert (read_status(b.root)["done"], read_status(b.root)["items"]) == (1, 0)
    assert b.enrich(document) == []
    (second,) = b.enqueue(two.log(1))
    assert b.enrich(second) == [second]
    assert b.enrich(second) == []  # a second message: the part is read_objects
    a.commit()
    # A third machine serves it.
    assert run_helix("pull", a.settings.share, "--store", two.tmp / "c").returncode == 0
    assert items(two.tmp / "c") == items(a.root) == expected_texts(2)
    for root in (a.root, b.root, two.tmp / "c"):
        assert verify_store(root).problems == ()


def test_the_same_document_of_two_machines_has_the_same_part_and_counts_once(pair: Fleet) -> None:
    a, b = pair.a, pair.b
    log = pair.log(0, turns=2)
    (document,) = a.enqueue(log)
    first = (a.root / "inbox" / document).read_bytes()
    assert b.enqueue(log) == [document]
    assert (b.root / "inbox" / document).read_bytes() == first  # the first one's time counts on both
    assert b.enrich(document) == a.enrich(document) == [document]
    one, two = ({path.name: path.read_bytes() for path in made.part(document).iterdir()} for made in (a, b))
    assert one == two
    a.commit()
    assert items(a.root) == expected_texts(1, 2)


def grow(path: Path, session: str, texts: list[str], start: int) -> Path:
    lines = [
        json.dumps({"session": session, "id": f"{session}:{i}", "speaker": "Ana", "text": text}) + "\n"
        for i, text in enumerate(texts, start)
    ]
    with path.open("a") as file:
        file.writelines(lines)
    return path


def test_increments_are_read_after_their_predecessors_of_other_machines(pair: Fleet) -> None:
    a, b = pair.a, pair.b
    links = [b.enqueue(pair.grow(i))[0] for i in range(3)]
    whole_log = a.accept(pair.tmp / "grown.jsonl")  # the same turns, as another document
    assert len({*links, *whole_log}) == 4
    assert a.enrich(links[2]) == [links[2]]  # the last one first: its predecessors are fetched
    assert set(inbox.list_accepted(a.root)) == {*links, *whole_log}
    for document in (links[1], links[0]):
        assert b.enrich(document) == [document]
    assert a.enrich(*member.hand_over(a.root, a.settings, whole_log)) == whole_log
    assert a.commit().waiting == 0
    assert items(a.root) == {f"g#g:{i}": f"step {i} of the walnut loaf" for i in range(3)}
    assert inbox.list_pending(a.root) == []


def test_an_increment_waits_for_its_missing_predecessor(pair: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair.a, pair.b
    one, two = (b.enqueue(pair.grow(i))[0] for i in range(2))
    assert b.enrich(two) == [two]
    delete_file(pair.remote, f"inbox/{one}")
    with pytest.raises(StoreError, match="offers it when its worker starts"):
        a.enrich(two)
    assert a.commit() == primary.CollectedObjects(0, 0, 1)
    assert inbox.load_current(a.root)[1] is None
    b.keep_up()  # it is offered again
    assert a.commit() == primary.CollectedObjects(1, 1, 0)
    assert inbox.list_pending(a.root) == [one, two]  # the second is published after the first
    assert a.enrich(one) == [one]
    a.commit()
    assert items(a.root) == {f"g#g:{i}": f"step {i} of the walnut loaf" for i in range(2)}
    # The wait for a lost predecessor ends.
    three = b.enqueue(pair.grow(2))[0]
    for root in (a.root, b.root):
        (root / "inbox" / two).unlink()
    delete_file(pair.remote, f"inbox/{two}")
    with pytest.raises(StoreError):
        b.enrich(three)
    monkeypatch.setattr(envelopes, "PATIENCE", timedelta(0))
    assert b.enrich(three) == [three]


def test_parts_of_other_settings_are_rejected_and_made_by_the_primary(pair: Fleet) -> None:
    a = pair.a
    b = machine(pair.b.root, a.settings.share, item_words=100)
    (document,) = b.enqueue(pair.log(0))
    assert b.enrich(document) == [document]  # no ledger before the first commit
    assert b.fingerprint() != a.fingerprint()
    assert a.commit() == primary.CollectedObjects(1, 0, 0)
    assert inbox.load_current(a.root)[1] is None
    assert a.enrich(document) == [document]
    a.commit()
    assert items(a.root) == expected_texts(1)
    assert list(pair.read_objects("parts")) == []
    (other,) = b.enqueue(pair.log(1))
    with pytest.raises(StoreError, match="HELIX_ITEM_WORDS"):
        b.enrich(other)
    b.keep_up()
    assert list((b.root / "parts").iterdir()) == []  # unusable
    again = machine(b.root, a.settings.share)
    assert again.enrich(other) == [other]  # with the primary's settings and encoder
    lineage = inbox.load_current(a.root)[1].lineage
    assert open_encoder(b.root, again.settings).folder == b.root / "encoders" / lineage.encoder
    a.commit()
    assert items(a.root) == expected_texts(2)


def test_one_machine_is_the_primary(pair: Fleet, run_helix) -> None:
    a, b, document = pair.enqueue_one()
    b.enrich(document)
    a.commit()
    for _ in range(2):
        with pytest.raises(UsageError, match="another store commits"):
            primary.claim(b.root, b.settings)
        b.keep_up()
    with pytest.raises(StoreError, match="only accepts and enriches"):
        commit(b.root, b.encoder(), b.settings)
    refused = run_helix("forget", "--session", "w0", "--store", b.root, HELIX_SHARE=b.settings.share)
    assert refused.returncode == 2
    assert "primary" in refused.stderr
    assert items(a.root) == expected_texts(1)
    # A store that only accepts and enriches may become a whole copy.
    assert run_helix("pull", a.settings.share, "--store", b.root).returncode == 0
    assert items(b.root) == expected_texts(1)
    b.keep_up()
    assert items(b.root) == expected_texts(1)
    # A whole copy may become the primary.
    a.enrich(*a.enqueue(pair.log(1)))
    a.commit()
    pull_store(a.settings.share, b.root)
    primary.claim(b.root, b.settings)
    b.keep_up()
    assert inbox.list_accepted(b.root) == inbox.list_accepted(a.root)
    assert items(b.root) == expected_texts(2)


def test_a_store_older_than_its_share_is_shared_whole(pair: Fleet) -> None:
    a, b = pair.a, pair.b
    first = a.accept(pair.grow(0))
    a.enrich(*first)
    commit(a.root, a.encoder(), a.settings)
    a.keep_up()
    assert list(pair.read_objects("inbox")) == [f"inbox/{first[0]}"]
    (second,) = a.enqueue(pair.grow(1))
    b.keep_up()
    assert b.enrich(second) == [second]
    a.commit()
    assert len(items(a.root)) == 2


@pytest.mark.parametrize("point", ["accept.envelope", "share.marked"])
def test_documents_not_offered_after_a_kill_are_offered_at_the_next_start(point: str, pair: Fleet, run_helix) -> None:
    a, b = pair.a, pair.b
    log = pair.log(0)
    environ = {"HELIX_SHARE": b.settings.share, "HELIX_FAILPOINT": point}
    assert run_helix("enqueue", log, "--store", b.root, **environ).returncode == -signal.SIGKILL
    (document,) = inbox.list_accepted(b.root)
    assert f"inbox/{document}" not in pair.read_objects()
    assert a.commit() == primary.CollectedObjects(0, 0, 0)
    b.keep_up()
    assert pair.read_objects()[f"inbox/{document}"] == (b.root / "inbox" / document).read_bytes()
    a.keep_up()
    assert inbox.list_pending(a.root) == [document]
    assert list(pair.read_objects("new")) == []


def test_parts_made_during_an_outage_are_handed_in_later(pair: Fleet, monkeypatch) -> None:
    a, b, document = pair.enqueue_one()

    def raise_away(*_: object, **__: object) -> None:
        raise StoreError("the share is away")

    with monkeypatch.context() as patched:
        patched.setattr("helix.snapshot.replication.object_store.put_blocks", raise_away)
        with pytest.raises(StoreError):
            b.enrich(document)
    assert list(pair.read_objects("parts")) == []
    b.keep_up()
    assert a.commit() == primary.CollectedObjects(1, 1, 0)
    assert items(a.root) == expected_texts(1)
    # A part that is handed in after the commit is removed.
    assert pair.read_objects("parts") == {}
    assert member.hand_in(b.root, b.settings, document, b.fingerprint())
    assert len(pair.read_objects("parts")) == 1
    a.keep_up()
    assert pair.read_objects("parts") == {}
    assert items(a.root) == expected_texts(1)


def test_damaged_envelopes_and_parts_are_rejected_and_replaced(pair: Fleet) -> None:
    a, b, document = pair.enqueue_one()
    name = f"inbox/{document}"
    data = pair.read_objects()[name]
    pair.put(name, data[:-4])
    with pytest.raises(StoreError):
        a.enrich(document)
    a.keep_up()
    assert inbox.list_accepted(a.root) == []
    envelopes.offer(b.root, pair.remote, [document])
    assert pair.read_objects()[name] == data
    b.enrich(document)
    name = f"parts/{b.part(document).name}"
    data = pair.read_objects()[name]
    of_another = data.replace(document.encode(), b"0" * 64)
    for fetched, broken in ((1, data[:-9] + b"?" + data[-8:]), (0, data[: len(data) // 2]), (0, of_another)):
        pair.put(name, broken)
        assert a.commit() == primary.CollectedObjects(fetched, 0, 0)
        assert list((a.root / "parts").iterdir()) == []
        assert inbox.list_pending(a.root) == [document]
        assert name not in pair.read_objects()
        assert b.enrich(document) == [document]  # the primary's reconciler queues it; the present part is sent
        assert pair.read_objects()[name] == data
    a.commit()
    assert items(a.root) == expected_texts(1)


def test_a_document_given_up_on_one_machine_is_dead_on_all_until_retried(pair: Fleet) -> None:
    a, b, document = pair.enqueue_one()
    inbox.give_up(b.root, document, "unreadable")
    member.hand_in(b.root, b.settings, document, b.fingerprint())
    a.commit()
    assert inbox.list_dead(a.root)[document]["error"] == "unreadable"
    assert inbox.list_pending(a.root) == []
    b.keep_up()
    assert inbox.is_dead(b.root, document)
    assert a.enqueue(pair.tmp / "0.jsonl") == [document]  # offering it again retries it
    assert not [name for name in pair.read_objects() if name.startswith("dead/")]
    b.keep_up()
    assert not inbox.is_dead(b.root, document)
    assert b.enrich(document) == [document]
    a.commit()
    assert items(a.root) == expected_texts(1)
    # A published document is not dead, also if a machine gave it up.
    pair.put(f"dead/{document}.json", b'{"document": "x", "error": "late"}')
    a.keep_up()
    assert not inbox.is_dead(a.root, document)


def test_forgotten_items_leave_no_byte_at_the_share_and_do_not_come_back(two: Fleet) -> None:
    a, b = two.a, two.b
    kept, gone = two.log(0), two.log(1)
    documents = [*b.enqueue(kept), *b.enqueue(gone)]
    b.enrich(*documents)
    a.commit()
    b.keep_up()
    late = b.part(documents[1])
    b_envelope = (b.root / "inbox" / documents[1]).read_bytes()
    data = b"".join(pack_part(a_part(b, documents[1]), documents[1], b.fingerprint(), b_envelope[:64].decode()))
    assert two.find_word(WORD)
    receipt = forget(a.root, Selection((), "w1", None), a.settings)
    assert [name for name, found in two.read_objects().items() if WORD in found or b"1.jsonl" in found] == []
    listed = {entry["path"]: entry["action"] for entry in receipt["share"]}
    assert listed[f"inbox/{documents[1]}"] == "replaced"
    removed = {name for name, action in listed.items() if action == "removed"}
    assert removed
    assert all(name.startswith("files/") for name in removed)
    assert not removed & two.read_objects().keys()
    assert items(a.root) == expected_texts(1)
    # A late part, and a machine that still has the text.
    two.put(f"parts/{late.name}", data)
    a.commit()
    assert f"parts/{late.name}" not in two.read_objects()
    assert WORD in (b.root / "inbox" / documents[1]).read_bytes()
    b.keep_up()
    assert find_word(b.root, WORD) == []
    assert (b.root / "inbox" / documents[1]).read_bytes() == (a.root / "inbox" / documents[1]).read_bytes()
    b.enqueue(gone)  # offered again, it stays forgotten
    a.keep_up()
    a.commit()
    assert two.find_word(WORD) == []
    assert items(a.root) == expected_texts(1)
    assert verify_store(a.root).problems == verify_store(b.root).problems == ()


def a_part(made: Machine, document: str) -> Path:
    """Make a part again, in a store that has not published it."""
    elsewhere = made.root.with_name("elsewhere")
    paths.create_folders(elsewhere)
    shutil.copy2(made.root / "inbox" / document, elsewhere / "inbox" / document)
    encoder = made.encoder()
    try_enrich(elsewhere, document, encoder, open_counter(encoder.folder), made.settings)
    return part_folder(elsewhere, document, made.fingerprint())


def test_uncommitted_documents_are_forgotten_at_the_share(pair: Fleet) -> None:
    """The share has its part, made of the text; its envelope is forgotten by now."""
    a, b = pair.a, pair.b
    b.enrich(*b.enqueue(pair.log(0)))
    a.commit()
    (document,) = b.enqueue(pair.log(1))
    b.keep_up()
    b.enrich(document)
    a.keep_up()
    part = (name := f"parts/{b.part(document).name}", pair.read_objects()[name])
    forget(a.root, Selection((), "w1", None), a.settings)
    assert pair.find_word(WORD) == []
    assert b.part(document).is_dir()
    b.keep_up()
    assert not b.part(document).exists()
    assert find_word(b.root, WORD) == []
    pair.put(*part)
    assert a.commit().parts == 0
    a.enrich(*inbox.list_pending(a.root))
    a.commit()
    assert items(a.root) == expected_texts(1)
    assert pair.find_word(WORD) == []


def test_the_error_of_a_failed_document_is_forgotten_with_its_text(pair: Fleet) -> None:
    a, b, document = pair.enqueue_one(1)
    inbox.give_up(b.root, document, "it quotes: document 1 says 0")
    member.hand_in(b.root, b.settings, document, b.fingerprint())
    a.keep_up()
    inbox.forget_text(a.root, document)
    inbox.give_up(a.root, document, "set aside")
    primary.forget(a.root, a.settings, [document])
    a.keep_up()
    b.keep_up()
    assert inbox.list_dead(b.root)[document]["error"] == "set aside"


@pytest.mark.parametrize("killed", [False, True])
def test_a_document_dropped_on_the_primary_is_removed_everywhere(killed: bool, pair: Fleet, run_helix) -> None:
    a, b, document = pair.enqueue_one(1)
    inbox.give_up(b.root, document, "it quotes: document 1 says 0")
    member.hand_in(b.root, b.settings, document, b.fingerprint())
    b.keep_up()
    a.keep_up()
    drop = ("drop", document, "--store")
    refused = run_helix(*drop, b.root, HELIX_SHARE=b.settings.share)
    assert refused.returncode == 2
    assert "primary" in refused.stderr
    if killed:  # before the share's objects are replaced
        drop_dead(a.root, document)
        assert pair.find_word(WORD)
        a.keep_up()
    else:
        assert run_helix(*drop, a.root, HELIX_SHARE=a.settings.share).returncode == 0
    b.keep_up()
    assert pair.find_word(WORD) == []
    for root in (a.root, b.root):
        assert find_word(root, WORD) == []
        assert inbox.list_dead(root) == {}


def test_a_deletion_killed_at_the_share_is_finished_by_the_next_run(pair: Fleet, run_helix) -> None:
    a = pair.a
    for i in range(3):
        a.enrich(*a.enqueue(pair.log(i)))
    a.commit()
    for i, point in ((2, "share.forgotten"), (1, "share.pushed")):
        command = ("forget", "--session", f"w{i}", "--store", a.root, "--json")
        killed = run_helix(*command, HELIX_SHARE=a.settings.share, HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL
        finished = run_helix(*command, HELIX_SHARE=a.settings.share)
        assert finished.returncode == 0, finished.stderr
        listed = {entry["path"] for entry in json.loads(finished.stdout)["share"]}
        assert any(name.startswith("inbox/") for name in listed)
        assert any(name.startswith("files/") for name in listed)
        assert pair.find_word(f"document {i} says".encode()) == []
        assert items(a.root) == expected_texts(i)


class Line:
    """A connection to the S3 server that can be cut, and counts requests."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._server = (host, int(port))
        with socket.socket() as probe:
            probe.bind((host, 0))
            self._here = probe.getsockname()
        self.sent: list[str] = []
        self.fetched = 0
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    @property
    def address(self) -> str:
        return f"{self._here[0]}:{self._here[1]}"

    def open(self) -> None:
        self._listener = socket.create_server(self._here, reuse_port=True)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        assert self._listener is not None
        for end in [self._listener, *self._ends]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._server)
                self._ends |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other, one is near), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, asking: bool) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if asking:
                    self.sent += re.findall(r"^(GET|PUT|HEAD|POST|DELETE) ", data.decode("latin-1"), re.MULTILINE)
                else:
                    self.fetched += len(data)
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def requests(self) -> int:
        """Return the requests since the last call."""
        self.sent, made = [], self.sent
        return len(made)


@pytest.fixture
def line(server: str) -> Iterator[Line]:
    made = Line(server)
    made.open()
    yield made
    made.cut()


def test_enriching_costs_few_requests(bucket: Bucket, server: str, line: Line, tmp_path: Path, cache: Path) -> None:
    url = bucket[0].replace(server, line.address)
    made = fleet_at(bucket[0], tmp_path)
    a, b = made.a, machine(tmp_path / "b", url)
    a.enrich(*(name for i in range(4) for name in a.enqueue(made.log(i))))
    a.commit()
    line.requests()
    member.keep_up(b.root, b.settings)
    first, line.fetched = line.fetched, 0
    encoder = sum(file.bytes for file in inbox.load_current(a.root)[1].encoder)
    assert first < encoder + 50_000  # the encoder and the ledger, without items
    line.requests()
    member.keep_up(b.root, b.settings)
    assert line.requests() <= 4  # no news
    (theirs,) = a.enqueue(made.log(4))
    line.requests()
    assert b.enrich(theirs) == [theirs]
    assert line.requests() <= 7
    (ours,) = b.accept(made.log(5))
    member.hand_over(b.root, b.settings, [ours])
    assert line.requests() <= 8
    assert b.enrich(ours) == [ours]
    assert line.requests() <= 5


@contextmanager
def following(url: str, root: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `helix pull --follow`."""
    process = start_helix(log, "pull", url, "--store", root, "--follow", "0.3")
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0  # S3 or not, it ends
    finally:
        process.kill()


@pytest.mark.soak
def test_a_fleet_works_over_an_s3_server(
    tmp_path: Path, redis_url: str, bucket: Bucket, server: str, line: Line, run_helix
) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    log, b_log, c_log = (tmp_path / f"{name}.log" for name in "abc")
    url = bucket[0].replace(server, line.address)
    environ = {"HELIX_SHARE": url}
    documents = write_documents(tmp_path / "in", 6, turns=30)

    def enqueue(path: Path, root: Path, queued: int) -> str:
        sent = run_helix("enqueue", path, "--store", root, "--json", HELIX_REDIS_URL=redis_url, **environ)
        assert sent.returncode == 0, sent.stderr
        assert json.loads(sent.stdout)["queued"] == queued
        return str(sent.stderr)

    want = expected_texts(6, turns=30)
    with worker(a, redis_url, "commit,maintain", log, **environ), following(url, c, c_log):
        with worker(b, redis_url, "enrich,bulk", b_log, **environ) as victim:
            enqueue(documents, b, 6)
            wait_until(90, lambda: any((b / "parts").glob("[0-9a-f]*-*")) or count_done(a) > 0, b_log)
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait(60)
        assert count_done(a) < 6
        with worker(b, redis_url, "enrich,bulk", b_log, **environ), worker(a, redis_url, "enrich,bulk", log, **environ):
            # A log that grows where it is, and is offered whole elsewhere.
            grown = documents / "00.jsonl"
            for n in range(2):
                enqueue(grow(grown, "w0", [f"and adds {n}"], 30 + n), b, 1)
                want[f"w0#w0:{30 + n}"] = f"and adds {n}"
            enqueue(grown, a, 1)
            wait_until(120, lambda: count_done(a) == 9, log)
            # Without the server, accepted documents stay, and work continues.
            line.cut()
            late = write_log(tmp_path / "late.jsonl", "late", ["accepted while the server was away"])
            assert "not offered to other machines yet" in enqueue(late, b, 0)
            own = write_log(tmp_path / "own.jsonl", "own", ["what home accepts and makes by itself"])
            enqueue(own, a, 1)
            wait_until(60, lambda: count_done(a) == 10, log)
            wait_until(60, lambda: "trying again" in c_log.read_text(), c_log)
            line.open()
            want |= {"late#late:0": "accepted while the server was away"}
            want |= {"own#own:0": "what home accepts and makes by itself"}
            wait_until(90, lambda: count_done(a) == 11, log)
            wait_until(60, lambda: items_of(c) == want, c_log)
            wait_until(60, lambda: inbox.list_pending(b) == [] and count_done(b) == 11, b_log)
            # What two machines made is handed in twice, and swept.
            kept = {"CURRENT", "LEDGER", "PRUNE", "files", "inbox", "manifests"}
            remote = connect(bucket[0])
            wait_until(60, lambda: {name.split("/")[0] for name in list_files(remote)} == kept, log)
    assert items(a) == want  # nothing lost; `items` itself fails on a double
    assert inbox.list_pending(a) == []
    for root in (a, b, c):
        assert verify_store(root).problems == ()
    for name in (log, b_log):
        assert '"enriched"' in name.read_text(errors="replace"), name


def items_of(root: Path) -> dict[str, str]:
    """Return the items served read_objects now."""
    return items(root) if (root / "CURRENT").exists() else {}
