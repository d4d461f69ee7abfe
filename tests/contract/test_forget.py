"""A deletion leaves no byte of its items in the store, keeps all others, and its receipt is true."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipelines.maintain.reindex as reindex_jobs
from helix.encoders.dense import Encoder
from helix.errors import StoreError, UsageError
from helix.sdk.open import open as open_store
from helix.settings import Settings, load
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.manifest import list_generations
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.sql import run_statement
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from helix.text.tokenize import hash_terms, tokenise
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept import accept
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.commit import commit
from pipelines.ingest.lineage import open_encoder
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.deletion_steps import load_manifests
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from pipelines.maintain.rollback import rollback
from pipelines.maintain.touch import touch
from tests.support.marks import soak_all_but
from tests.support.publishing import make_part, make_serially, publish_log
from tests.support.walk import decode, read_all

Receipt = dict[str, Any]
Turn = tuple[str, str, str]  # session, id, text

# Words and names of the forgotten items only; BOTH is also in another one.
TEXTS = {
    "t0": "Zephyrine keeps the quixotronic harpsichord in the attic, says Priya",
    "t1": "see vaultzed/lutebook.py and TICK-47113 about the harpsichord",
    "t2": "it is worth zwölfhundert guilders",
}
OLD = "the blorptronic spinet stands in the attic"  # an earlier version of t2
WORDS = ("quixotronic", "harpsichord", "vaultzed", "lutebook", "TICK-47113", "tick-47113", "zwölfhundert", "guilders")
WORDS += ("blorptronic", "spinet", "virginalist", "ottavinoid")
ENTITIES = [("name", "zephyrine"), ("path", "vaultzed/lutebook.py"), ("ticket", "tick-47113")]
BOTH = ("name", "priya")
SESSION, PROJECT = "s-organological", "p-curiosities"
KEPT = {"k0": "the walnut loaf is in the oven, says Priya", "k1": "take it out at noon"}


def turns(session: str, texts: dict[str, str], project: str | None = None) -> list[dict[str, Any]]:
    own = {"project": project} if project else {}
    return [
        {"session": session, "id": turn, "speaker": "Ana", "text": text, "ts": "2026-01-01T10:00:00Z", **own}
        for turn, text in texts.items()
    ]


def write(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path


def secret(texts: dict[str, str]) -> list[dict[str, Any]]:
    return turns(SESSION, texts, PROJECT)


GROWN = [*turns("kept", KEPT), *secret(TEXTS)]
TAIL = [*GROWN, *secret({"t9": "an ottavinoid coda"}), *turns("kept", {"k3": "with salt"})]  # rolled back


def item(turn: str, session: str = SESSION) -> str:
    return hash_parts("jsonl", session, turn, "0")


def needles(words: Sequence[str] = WORDS, entities: Sequence[tuple[str, str]] = ENTITIES) -> dict[str, bytes]:
    """Return the bytes that must be nowhere, by name."""
    wanted = {word: word.encode() for word in words}
    wanted |= {key: key.encode() for _, key in entities}
    for kind, key in entities:
        number = int(hash_parts(kind, key), 16)
        wanted |= {f"hash of {key}": number.to_bytes(8, "little"), f"hex of {key}": f"{number:016x}".encode()}
    kept = {term for text in KEPT.values() for term in tokenise(text)}
    for term in {term for word in words for term in tokenise(word)} - kept:
        (number,) = hash_terms([term])
        wanted[f"term {term}"] = int(number).to_bytes(8, "little")
    return wanted


def traces(root: Path, wanted: dict[str, bytes]) -> list[str]:
    """Return `<name> in <file>` for each that is in the store, its encoder apart."""
    found = []
    for path, data in read_all(root):
        if path.relative_to(root).parts[0] != "encoders":
            data = decode(path, data)
            found += [f"{name} in {path.relative_to(root)}" for name, needle in wanted.items() if needle in data]
    return found


def session_needles() -> dict[str, bytes]:
    number = int(hash_parts("jsonl", SESSION), 16)
    return {
        SESSION: SESSION.encode(),
        PROJECT: PROJECT.encode(),
        "session key": number.to_bytes(8, "little"),
        "session hex": f"{number:016x}".encode(),
        "whole": TEXTS["t0"].encode(),
    }


# ---------------------------------------------------------------- a store that holds it everywhere


@pytest.fixture(scope="module")
def settings(cache: Path) -> Settings:
    return load()


@pytest.fixture(scope="module")
def encoder(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    root = tmp_path_factory.mktemp("encoder")
    (root / "inbox").mkdir()
    return open_encoder(root, settings)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder, settings: Settings) -> Path:
    """A store with the secret session wherever it can be, next to another one in the same documents.

    It is in a log that grew twice, a replaced row, merged segments, access counts, events, a rolled-back generation, a
    dead document, and parts that a kill left.
    """
    work = tmp_path_factory.mktemp("full")
    root, log = work / "store", work / "diary-of-the-attic.jsonl"
    first = [*turns("kept", KEPT), *secret({"t0": TEXTS["t0"], "t2": OLD})]
    publish_log(root, write(log, first), encoder, settings)
    other = write(work / "other.jsonl", turns("other", {"o0": "an unrelated note about parsley"}))
    publish_log(root, other, encoder, settings)
    document = publish_log(root, write(log, GROWN), encoder, settings)
    access_events.append_events(root, [AccessEvent(item(turn), "used", 1_800_000_000) for turn in TEXTS])
    access_events.append_events(root, [AccessEvent(item("k0", "kept"), "used", 1_800_000_000)])
    touch(root, settings)
    compact(root, settings, full=True)
    publish_log(root, write(log, [*GROWN, *turns("kept", {"k2": "and slice it"})]), encoder, settings)
    back = inbox.load_current(root)[1]
    publish_log(root, write(log, TAIL), encoder, settings)
    rollback(root, settings, back.generation)
    access_events.append_events(root, [AccessEvent(item(turn), "helpful", 1_800_000_001) for turn in TEXTS])
    access_events.append_events(root, [AccessEvent(item("k1", "kept"), "helpful", 1_800_000_001)])
    write(log, secret({"t0": TEXTS["t0"], "t8": "and a virginalist"}))
    dead = accept(root, log, settings).documents[0]
    inbox.give_up(root, dead, f"ValueError: {TEXTS['t0']}")
    for left in (document, dead):
        make_part(root, left, encoder, replace(settings, item_words=40))
    log.unlink()
    where = {line.split(" in ")[-1].split("/")[0] for line in traces(root, needles())}
    assert where == {"segments", "inbox", "parts", "dead"}
    assert {line.split("/")[0] for line in traces(root, {"id": item("t0").encode()})} >= {"id in events"}
    assert len(list((root / "segments").iterdir())) == 6
    return root


@pytest.fixture
def store(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "store"))


def texts(root: Path) -> list[str]:
    snapshot = Snapshot.open(root)
    return sorted(entry["text"] for entry in snapshot.text(np.flatnonzero(snapshot.alive)))


REST = sorted([*KEPT.values(), "and slice it", "an unrelated note about parsley"])


# ---------------------------------------------------------------- nothing is left


def assert_true(root: Path, receipt: Receipt, before: dict[str, str]) -> None:
    assert receipt["files"]
    for file in receipt["files"]:
        path = root / file["path"]
        if file["path"] in before:
            assert file["before"] == before[file["path"]]
        else:  # of the generation with the items as deleted rows
            assert (file["path"].split("/")[0], file["after"]) in (("deletes", None), ("access", None))
        assert file["after"] == (sha256(path) if path.exists() else None)
        assert file["before"] != file["after"]
    assert receipt["removed"] == sum(file["after"] is None for file in receipt["files"])
    assert receipt["rewritten"] == len(receipt["files"]) - receipt["removed"]
    listed = {file["path"] for file in receipt["files"]}
    apart = ("manifests", "pins", "receipts", "forgotten", "CURRENT", "writer.lock", "reindex.lock", "events")
    changed = {name for name, was in before.items() if not (root / name).exists() or sha256(root / name) != was}
    assert {name for name in changed if name.split("/")[0] not in apart} <= listed
    name, manifest = inbox.load_current(root)
    assert (receipt["snapshot"], receipt["manifest"]) == (manifest.generation, name)
    kept = json.loads((root / "receipts" / f"{receipt['id']}.json").read_bytes())
    assert kept == receipt
    assert not any(word in json.dumps(receipt) for word in (*WORDS, SESSION, PROJECT))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hashes(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): hashlib.sha256(data).hexdigest() for path, data in read_all(root)}


SELECTIONS: dict[str, tuple[Selection, dict[str, bytes], list[str]]] = {
    "session": (Selection(session=SESSION), needles() | session_needles(), []),
    "project": (Selection(project=PROJECT), needles() | session_needles(), []),
    "items": (Selection(items=(item("t0"), item("t1"))), needles(WORDS[:6]), [TEXTS["t2"]]),
    "a replaced version": (Selection(items=(item("t2"),)), needles(WORDS[6:10], []), [TEXTS["t0"], TEXTS["t1"]]),
}
"""Selections, bytes that must be nowhere afterwards, and the session's texts that stay."""


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_selection_is_forgotten_without_a_trace(selection: str, store: Path, settings: Settings) -> None:
    how, gone, others = SELECTIONS[selection]
    before, generation = hashes(store), inbox.load_current(store)[1].generation
    receipt = forget(store, how, settings)
    if how.items:
        assert set(receipt["items"]) == set(how.items)
    else:
        assert {item(turn) for turn in (*TEXTS, "t8", "t9")} == set(receipt["items"])
        assert len(receipt["documents"]) == 4  # one increment holds none of it
        assert receipt["snapshot"] > generation
    assert traces(store, gone) == []
    assert texts(store) == sorted([*REST, *others])
    assert_true(store, receipt, before)
    whole(store)


def whole(root: Path) -> None:
    """Check that nothing is damaged or half forgotten, and that all counts agree."""
    collect_garbage(root, 10, 0.0, 10.0)  # files that only removed generations named
    assert verify_store(root).problems == verify_store(root).orphans == ()
    assert not list((root / "purges").iterdir())
    snapshot = Snapshot.open(root)
    assert snapshot.manifest.counts["items"] == snapshot.live == read_status(root)["items"]
    sessions = {entry["session"] for entry in snapshot.text(np.flatnonzero(snapshot.alive))}
    assert snapshot.manifest.counts["sessions"] == len(sessions) == read_status(root)["sessions"]
    with run_statement(root, "SELECT text FROM items ORDER BY text") as answer:
        assert [text for (text,) in answer.rows] == sorted(texts(root))
    assert {entity for (entity,) in sql(root, "SELECT key FROM entities")} >= {BOTH[1]}
    memory = open_store(root)
    assert memory.recall("walnut loaf").items[0].text == KEPT["k0"]
    for question in (*TEXTS.values(), OLD, "Zephyrine"):
        assert {found.text for found in memory.recall(question, k=50).items} <= set(texts(root))


def sql(root: Path, statement: str) -> list[tuple[Any, ...]]:
    with run_statement(root, statement) as answer:
        return list(answer.rows)


def test_ids_come_by_standard_input(store: Path, call_helix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    done = call_helix("forget", "--item", "-", "--store", store)
    assert (done.returncode, "standard input names no item" in done.stderr) == (2, True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{item('t0')}\n\n {SESSION}#t1\n"))
    done = call_helix("forget", "--item", "-", "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["items"]) == {item("t0"), item("t1")}
    assert texts(store) == sorted([*REST, TEXTS["t2"]])


# ---------------------------------------------------------------- nothing comes back, and nothing else is lost


def test_the_rest_of_a_rolled_back_document_waits_to_be_offered_again(
    store: Path, tmp_path: Path, settings: Settings
) -> None:
    forget(store, Selection(session=SESSION), settings)
    (dead,) = inbox.list_dead(store)
    assert inbox.list_dead(store)[dead]["error"] == "set aside before a part of it was forgotten"
    ingest(store, [], settings)
    assert texts(store) == REST
    report = ingest(store, [write(tmp_path / "again.jsonl", TAIL)], settings)
    assert report.items == 1
    assert texts(store) == sorted([*REST, "with salt"])
    assert inbox.list_dead(store) == {}
    assert traces(store, needles() | session_needles()) == []
    done = reindex(store, replace(settings, item_words=40), work=make_serially)
    assert (done.swapped, texts(store)) == (True, sorted([*REST, "with salt"]))
    whole(store)


@pytest.mark.parametrize("state", ["pending", "enriched", "dead"])
def test_the_rest_of_an_unpublished_document_survives(
    store: Path, tmp_path: Path, settings: Settings, encoder: Encoder, state: str
) -> None:
    """Also in two deletions, and with characters that split lines elsewhere."""
    rest = {"n0": "a new\u2028line about\x85parsley", "n1": "and thyme"}
    lines = [*turns("new", {**rest, "n2": "the duplex oboe"}), *secret({"t10": "an ottavinoid fugue"})]
    document = accept(store, write(tmp_path / "new.jsonl", lines), settings).documents[0]
    if state == "enriched":
        make_part(store, document, encoder, settings)
    if state == "dead":
        inbox.give_up(store, document, "OSError: the duplex oboe")
    forget(store, Selection(session=SESSION), settings)
    forget(store, Selection(items=(item("n2", "new"),)), settings)
    assert traces(store, needles() | session_needles() | {"oboe": b"oboe"}) == []
    assert texts(store) == REST
    if state == "dead":
        assert document not in inbox.list_pending(store)
        inbox.revive_document(store, document)
    assert document in inbox.list_pending(store)
    make_part(store, document, encoder, settings)
    commit(store, encoder, settings)
    assert texts(store) == sorted([*REST, *rest.values()])
    whole(store)


def test_a_pending_document_loses_every_item_of_a_forgotten_turn(
    store: Path, tmp_path: Path, settings: Settings, encoder: Encoder
) -> None:
    long = " ".join(f"word{i} is said." for i in range(200))
    lines = turns("new", {"n0": long, "n1": "and thyme"})
    document = accept(store, write(tmp_path / "new.jsonl", lines), settings).documents[0]
    assert len(forget(store, Selection(items=(item("n0", "new"),)), settings)["items"]) == 1
    assert "word" not in inbox.read_envelope(store, document).text
    make_part(store, document, encoder, settings)
    commit(store, encoder, settings)
    assert texts(store) == sorted([*REST, *TEXTS.values(), "and thyme"])


def test_a_turn_that_moved_during_a_reindex_is_forgotten_in_both_lineages(
    tmp_path: Path, settings: Settings, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, smaller = tmp_path / "store", replace(settings, item_words=40)
    old = turns("new", {"n0": "the quixotronic harpsichord"}, PROJECT)
    publish_log(root, write(tmp_path / "a.jsonl", [*old, *turns("kept", KEPT, "kitchen")]), encoder, settings)
    with monkeypatch.context() as patch:
        patch.setattr(reindex_jobs, "swap", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            reindex(root, smaller, work=make_serially)
    publish_log(root, write(tmp_path / "b.jsonl", turns("new", {"n0": "the piano"}, "kitchen")), encoder, settings)
    assert (root / "NEXT").exists()
    forget(root, Selection(project=PROJECT), settings)
    wanted = {"quixotronic": b"quixotronic", "harpsichord": b"harpsichord", PROJECT: PROJECT.encode()}
    assert traces(root, wanted) == []
    assert reindex(root, smaller, work=make_serially).swapped
    assert texts(root) == sorted([*KEPT.values(), "the piano"])
    assert traces(root, wanted) == []
    assert verify_store(root).problems == ()


def test_a_turn_whose_move_was_rolled_back_survives_where_it_was(
    tmp_path: Path, settings: Settings, encoder: Encoder
) -> None:
    root = tmp_path / "store"
    old = turns("new", {"n0": "the piano"}, "kitchen")
    publish_log(root, write(tmp_path / "a.jsonl", old), encoder, settings)
    new = turns("new", {"n0": "the quixotronic harpsichord"}, PROJECT)
    document = publish_log(
        root, write(tmp_path / "b.jsonl", [*new, *turns("kept", KEPT, "kitchen")]), encoder, settings
    )
    rollback(root, settings, 1)
    assert forget(root, Selection(project=PROJECT), settings)["items"] == []
    assert traces(root, {"quixotronic": b"quixotronic", PROJECT: PROJECT.encode()}) == []
    inbox.revive_document(root, document)
    ingest(root, [], settings)
    assert texts(root) == sorted([*KEPT.values(), "the piano"])


def test_a_replaced_row_is_not_in_the_residue(tmp_path: Path, settings: Settings, encoder: Encoder) -> None:
    """The deleted row is in a segment without forgotten items."""
    root = tmp_path / "store"
    first = turns("new", {"n0": TEXTS["t0"]})
    publish_log(root, write(tmp_path / "a.jsonl", first), encoder, settings)
    older = [*first, *turns("new", {"n1": "the piano", "n2": "and thyme"})]
    document = publish_log(root, write(tmp_path / "b.jsonl", older), encoder, settings)
    publish_log(root, write(tmp_path / "c.jsonl", turns("new", {"n1": "the spinet"})), encoder, settings)
    forget(root, Selection(items=(item("n0", "new"),)), settings)
    envelope = inbox.read_envelope(root, document)
    assert [json.loads(line)["text"] for line in envelope.text.splitlines()] == ["and thyme"]
    assert texts(root) == ["and thyme", "the spinet"]


@pytest.mark.parametrize("torn", ["segments/*/items.parquet", "documents/*.parquet", "access/*.npz", "purges/*.json"])
def test_a_torn_file_is_named(store: Path, settings: Settings, torn: str) -> None:
    if torn.startswith("purges"):
        (store / "purges" / "0123456789abcdef.json").write_bytes(b'{"id": "0123456789abcdef"}')
    for path in store.glob(torn):
        os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match=rf"{Path(torn).parts[0]}/.* is damaged: "):
        forget(store, Selection(session=SESSION), settings)


@pytest.mark.parametrize(
    ("compacted", "project"),
    soak_all_but(
        [(False, PROJECT), (False, "default"), (True, PROJECT), (True, "default")],
        *((False, PROJECT), (True, "default")),
    ),
)
def test_a_moved_turn_is_forgotten_only_where_it_was(
    tmp_path: Path, settings: Settings, encoder: Encoder, compacted: bool, project: str
) -> None:
    root = tmp_path / "store"
    old = turns(
        "new", {"n0": "the quixotronic harpsichord", "n1": "and thyme"}, None if project == "default" else project
    )
    publish_log(root, write(tmp_path / "a.jsonl", [*old, *turns("kept", KEPT, "kitchen")]), encoder, settings)
    new = turns("new", {"n0": "the piano", "n1": "and thyme"}, "kitchen")
    publish_log(root, write(tmp_path / "b.jsonl", new), encoder, settings)
    if compacted:
        compact(root, settings, full=True)
        collect_garbage(root, 1, 0.0, 1.0)
    wanted = {"quixotronic": b"quixotronic", "harpsichord": b"harpsichord", PROJECT: PROJECT.encode()}
    assert traces(root, wanted)
    receipt = forget(root, Selection(project=project), settings)
    assert receipt["items"] == []
    assert traces(root, wanted) == []
    after = sorted([*KEPT.values(), "the piano", "and thyme"])
    assert texts(root) == after
    with pytest.raises(UsageError, match="holds no project"):
        forget(root, Selection(project=project), settings)
    done = reindex(root, replace(settings, item_words=40), work=make_serially)
    assert (done.swapped, texts(root)) == (True, after)
    assert verify_store(root).problems == ()


def test_a_forgotten_item_does_not_come_back(store: Path, tmp_path: Path, settings: Settings) -> None:
    """Neither with equal bytes, a grown log, an old generation nor a new pipeline."""
    forget(store, Selection(session=SESSION), settings)
    log = tmp_path / "again.jsonl"
    same = ingest(store, [write(log, GROWN)], settings)
    assert (same.accepted, same.duplicates, same.items) == (0, 1, 0)
    assert texts(store) == REST
    more = [*secret({**TEXTS, "t2": "changed once more", "t8": "and a virginalist", "t10": "on another matter"})]
    again = ingest(store, [write(log, [*GROWN, *more[3:], *turns("kept", {"k4": "amen"})])], settings)
    assert (again.accepted, again.items) == (1, 2)
    after = sorted([*REST, "on another matter", "amen"])
    assert texts(store) == after
    done = reindex(store, replace(settings, item_words=40), work=make_serially)
    assert (done.swapped, done.items) == (True, len(after))
    assert texts(store) == after
    generation = inbox.load_current(store)[1].generation
    for earlier in list(list_generations(store))[1:]:
        rollback(store, settings, earlier[1].generation)
        assert not set(texts(store)) & {*TEXTS.values(), OLD, "and a virginalist", "an ottavinoid coda"}
        rollback(store, settings, generation)
        assert texts(store) == after
    ingest(store, [write(log, secret({"t1": TEXTS["t1"]}))], settings)
    assert texts(store) == after


# ---------------------------------------------------------------- remembering


def remember(root: Path, path: Path, settings: Settings, **how: Any) -> IngestReport:
    return ingest(root, [path], settings, remember=True, **how)


def test_paths_with_forgotten_items_are_reported(store: Path, tmp_path: Path, settings: Settings) -> None:
    forget(store, Selection(session=SESSION), settings)
    log, other = tmp_path / "again.jsonl", write(tmp_path / "other.jsonl", turns("o", {"o1": "on parsley"}))
    for _ in range(2):  # by its text, then by its cursor
        same = ingest(store, [write(log, GROWN), other], settings)
        assert (same.forgotten, same.stay_out, same.duplicates >= 1) == ([str(log)], 0, True)
    with log.open("a") as file:
        file.write(json.dumps(turns("kept", {"k4": "amen"})[0]) + "\n")
    more = ingest(store, [log], settings)
    assert (more.accepted, more.items, more.forgotten, more.stay_out) == (1, 1, [], 0)
    assert ingest(store, [log], settings).forgotten == [str(log)]  # in an earlier increment
    copy = write(tmp_path / "copy.jsonl", [*GROWN[::-1], *turns("kept", {"k5": "so be it"})])
    new = ingest(store, [copy], settings)
    assert (new.accepted, new.items, new.stay_out) == (1, 1, 3)
    assert ingest(store, [copy], settings).forgotten == [str(copy)]
    assert new.as_json(1.0)["forgotten"] == {"paths": [], "items": 3}
    assert texts(store) == sorted([*REST, "on parsley", "amen", "so be it"])

    three = tmp_path / "three.jsonl"  # it grew twice, and lost its first increment
    for session in ("x", "y", "z"):
        with three.open("a") as file:
            file.write(json.dumps(turns(session, {"1": f"of {session}"})[0]) + "\n")
        ingest(store, [three], settings)
    forget(store, Selection(session="y"), settings)
    assert ingest(store, [three], settings).forgotten == [str(three)]
    assert ingest(store, [three], settings, remember=True).items == 1
    assert {"of x", "of y", "of z"} <= set(texts(store))
    assert ingest(store, [three], settings).forgotten == []


@pytest.mark.parametrize("kind", ["jsonl", "whole"])
def test_a_forgotten_item_comes_back_when_it_is_remembered(
    kind: str, tmp_path: Path, settings: Settings, encoder: Encoder
) -> None:
    """No other item comes back; it works repeatedly, through a reindex, and a new deletion leaves no trace."""
    root, gone = tmp_path / "store", {f"t{i}": f"the quixotronic harpsichord number {i}" for i in range(3)}
    path, copy = tmp_path / f"diary.{kind}", tmp_path / f"copy.{kind}"
    if kind == "jsonl":
        write(path, [*turns("kept", KEPT), *secret(gone)])
        back = [*KEPT.values(), *gone.values()]
        meant = Selection(session=SESSION)
    else:
        path.write_text("# The attic\n\nthe quixotronic harpsichord\n\n# The oven\n\nthe walnut loaf\n")
    other = write(tmp_path / "other.jsonl", secret({"o0": "an ottavinoid coda", "o1": "and a virginalist"}))
    publish_log(root, path, encoder, settings)
    publish_log(root, other, encoder, settings)
    if kind == "whole":
        back = [text for text in texts(root) if not {"ottavinoid", "virginalist"} & set(text.split())]
        with run_statement(root, "SELECT id FROM items WHERE text ILIKE '%harpsichord%'") as answer:
            meant = Selection(items=tuple(identity for (identity,) in answer.rows))
    forget(root, Selection(items=(item("o0"),)), settings)
    for round in range(2):
        forget(root, meant, settings)
        assert traces(root, needles(["quixotronic", "harpsichord"], [])) == []
        plain = ingest(root, [path], settings)
        assert (plain.forgotten, plain.items) == ([str(path)], 0)
        found = remember(root, path, settings)
        assert found.accepted == 1
        held = [text for text in texts(root) if "virginalist" not in text]
        assert held == sorted(back)
        for offered in (path, Path(shutil.copy(path, copy))):
            for how in ({}, {"remember": True}):
                again = ingest(root, [offered], settings, **how)
                assert (again.accepted, again.duplicates, again.forgotten, again.items) == (0, 1, [], 0), (offered, how)
        done = reindex(root, replace(settings, item_words=40 + round), work=make_serially)
        assert done.swapped
        assert [text for text in texts(root) if "virginalist" not in text] == sorted(back)
        assert verify_store(root).problems == ()
        with run_statement(root, "SELECT id FROM items WHERE text ILIKE '%harpsichord%'") as answer:
            meant = meant if meant.session else Selection(items=tuple(identity for (identity,) in answer.rows))
    forget(root, meant, settings)
    assert traces(root, needles(["quixotronic", "harpsichord", "ottavinoid"], [])) == []


def test_remembering_repeats_nothing_where_nothing_was_forgotten(
    tmp_path: Path, settings: Settings, encoder: Encoder
) -> None:
    root, log, notes = tmp_path / "store", write(tmp_path / "a.jsonl", secret({"t0": TEXTS["t0"]})), tmp_path / "n.md"
    notes.write_text("# The oven\n\nthe walnut loaf\n")
    publish_log(root, log, encoder, settings)
    publish_log(root, notes, encoder, settings)
    with log.open("a") as file:
        file.write(json.dumps(secret({"t1": TEXTS["t1"]})[0]) + "\n")
    notes.write_text("# The oven\n\nthe rye loaf\n")
    before = len(inbox.list_accepted(root))
    for accepted in (2, 0):
        report = ingest(root, [log, notes], settings, remember=True)
        assert (report.accepted, report.duplicates, report.forgotten) == (accepted, 2 - accepted, [])
    assert len(inbox.list_accepted(root)) == before + 2
    assert not any("walnut" in text for text in texts(root))
    assert len(texts(root)) == 3


def test_a_kill_while_items_are_remembered_loses_nothing(
    tmp_path: Path, settings: Settings, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, log = tmp_path / "store", write(tmp_path / "a.jsonl", [*secret(TEXTS), *turns("kept", KEPT)])
    publish_log(root, log, encoder, settings)
    forget(root, Selection(session=SESSION), settings)
    for place in ("accept.envelope", "enrich.part", "commit.segment", "commit.documents"):
        with monkeypatch.context() as patch:
            for module in ("pipelines.ingest.source", "pipelines.ingest.enrich", "pipelines.ingest.commit"):
                patch.setattr(f"{module}.failpoint", lambda name, *_, wanted=place: stop(name == wanted))
            with pytest.raises(KeyboardInterrupt):
                remember(root, log, settings)
        assert texts(root) == sorted(KEPT.values())
    ingest(root, [], settings)
    assert texts(root) == sorted([*KEPT.values(), *TEXTS.values()])
    assert len(inbox.list_accepted(root)) == 2
    assert verify_store(root).problems == ()


def stop(now: bool) -> None:
    if now:
        raise KeyboardInterrupt


def test_items_of_an_unfinished_deletion_do_not_come_back(
    tmp_path: Path, settings: Settings, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from a pending document, nor from one that another process publishes during the deletion."""
    root, log = tmp_path / "store", write(tmp_path / "a.jsonl", [*secret(TEXTS), *turns("kept", KEPT)])
    publish_log(root, log, encoder, settings)
    forget(root, Selection(session=SESSION), settings)

    def offer(name: str) -> list[str]:
        report = IngestReport()
        path = Path(shutil.copy(log, tmp_path / name))
        how: dict[str, Any] = {"project": None, "format": "auto", "acl": (), "remember": True}
        documents = accept_all(root, [path], settings, report, **how)
        make_serially(root, documents, encoder, settings)
        return documents

    assert len(offer("waits.jsonl")) == 1
    forget(root, Selection(session=SESSION), settings)
    commit(root, encoder, settings)
    assert texts(root) == sorted(KEPT.values())
    assert traces(root, needles() | session_needles()) == []

    remember(root, log, settings)
    assert texts(root) == sorted([*KEPT.values(), *TEXTS.values()])
    places = []

    def commit_during(name: str, *_: object) -> None:
        if name.startswith("forget.") and name not in (*places, "forget.manifests"):  # that one is under a lock
            places.append(name)
            if list((root / "purges").glob("[0-9]*.json")):
                offer(f"{name}.jsonl")
                commit(root, encoder, settings)

    monkeypatch.setattr("pipelines.maintain.forget.failpoint", commit_during)
    forget(root, Selection(session=SESSION), settings)
    assert len(places) > 5
    assert texts(root) == sorted(KEPT.values())


def test_a_second_deletion_covers_the_new_document_too(store: Path, tmp_path: Path, settings: Settings) -> None:
    forget(store, Selection(session=SESSION), settings)
    ingest(store, [write(tmp_path / "a.jsonl", [*secret(TEXTS), *turns("kept", {"k4": "amen"})])], settings)
    assert texts(store) == sorted([*REST, "amen"])
    assert {line.split(" in ")[-1].split("/")[0] for line in traces(store, needles())} == {"inbox"}
    receipt = forget(store, Selection(items=(item("t0"), item("t1"), item("t2"))), settings)
    assert {file["path"].split("/")[0] for file in receipt["files"]} >= {"inbox"}
    assert traces(store, needles() | session_needles()) == []
    assert texts(store) == sorted([*REST, "amen"])
    whole(store)


def test_the_residue_of_a_document_survives_a_reindex(store: Path, settings: Settings) -> None:
    forget(store, Selection(items=(item("t0"),)), settings)
    left = sorted([*REST, TEXTS["t1"], TEXTS["t2"]])
    neighbours = reading(store)
    for words in (40, 150):
        assert reindex(store, replace(settings, item_words=words), work=make_serially).swapped
        assert texts(store) == left
        assert reading(store) == neighbours
        whole(store)
    before = hashes(store)
    receipt = forget(store, Selection(session=SESSION), settings)
    assert texts(store) == REST
    assert traces(store, needles() | session_needles()) == []
    assert_true(store, receipt, before)
    whole(store)


def reading(root: Path) -> dict[str, list[str]]:
    """Return the texts of each session in reading order."""
    snapshot = Snapshot.open(root)
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(snapshot.alive & (snapshot.columns.previous < 0)).tolist():
        (entry,) = snapshot.text([row])
        talk = [entry["text"]]
        while (row := int(snapshot.columns.next[row])) >= 0:
            talk.append(snapshot.text([row])[0]["text"])
        found[entry["session"]] = talk
    return found


LONG = " ".join(f"walnut{i} is counted here." for i in range(20))  # 60 words
SAID = f"{LONG} And the quixotronic harpsichord. {LONG}"


def cut_store(root: Path, log: Path, encoder: Encoder, settings: Settings) -> None:
    publish_log(root, write(log, turns("s", {"a": SAID, "b": "short"})), encoder, settings)


def read_meant(root: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the texts of all items, by id, and the ids of those about the harpsichord."""
    snapshot = Snapshot.open(root)
    held = {entry["id"]: entry["text"] for entry in snapshot.text(range(snapshot.rows))}
    return held, tuple(key for key, text in held.items() if "harpsichord" in text)


@pytest.mark.parametrize(("first", "then"), soak_all_but([(150, 30), (30, 150)], (150, 30)))
def test_an_older_cut_of_the_same_turn_goes_too(
    first: int, then: int, tmp_path: Path, encoder: Encoder, settings: Settings
) -> None:
    """Another pipeline has the words in other items: its generations and files are removed."""
    root = tmp_path / "store"
    cut_store(root, tmp_path / "log.jsonl", encoder, replace(settings, item_words=first))
    now = replace(settings, item_words=then)
    assert reindex(root, now, work=make_serially).swapped
    held, meant = read_meant(root)
    receipt = forget(root, Selection(items=meant), now)
    assert len(list_generations(root)) == 1
    assert traces(root, needles(["quixotronic", "harpsichord"], [])) == []
    assert texts(root) == sorted(text for key, text in held.items() if key not in meant)
    assert len([file for file in receipt["files"] if file["path"].endswith("items.parquet")]) >= 2
    assert reindex(root, replace(settings, item_words=first), work=make_serially).swapped
    assert "harpsichord" not in " ".join(texts(root))


@pytest.mark.parametrize("then", soak_all_but([30, 150], 150))
def test_a_deletion_covers_another_cut_in_a_running_reindex(
    then: int, tmp_path: Path, encoder: Encoder, settings: Settings
) -> None:
    root = tmp_path / "store"
    was, now = (replace(settings, item_words=words) for words in (180 - then, then))
    cut_store(root, tmp_path / "log.jsonl", encoder, was)
    (document,) = inbox.list_accepted(root)
    make_part(root, document, encoder, now)
    commit(root, encoder, now, "NEXT")
    held, meant = read_meant(root)
    forget(root, Selection(items=meant), was)
    assert traces(root, needles(["quixotronic", "harpsichord"], [])) == []
    left = sorted(text for key, text in held.items() if key not in meant)
    assert texts(root) == left
    assert reindex(root, now, work=make_serially).swapped
    assert texts(root) == left
    assert verify_store(root).problems == ()
    assert traces(root, needles(["quixotronic", "harpsichord"], [])) == []


def test_a_store_survives_the_deletion_of_everything(tmp_path: Path, encoder: Encoder, settings: Settings) -> None:
    root, log = tmp_path / "store", tmp_path / "diary-of-the-attic.jsonl"
    publish_log(root, write(log, secret(TEXTS)), encoder, settings)
    forget(root, Selection(project=PROJECT), settings)
    assert traces(root, needles() | session_needles() | {"file": b"diary-of-the-attic"}) == []
    assert texts(root) == []
    memory = open_store(root)
    assert memory.recall("harpsichord").items == ()
    assert (read_status(root)["items"], read_status(root)["sessions"], read_status(root)["done"]) == (0, 0, 1)
    assert sql(root, "SELECT count(*) FROM items") == [(0,)]
    assert verify_store(root).problems == verify_store(root).orphans == ()
    compact(root, settings, full=True)
    ingest(root, [write(log, turns("kept", KEPT))], settings)
    assert texts(root) == sorted(KEPT.values())
    assert memory.refresh()
    assert memory.recall("walnut").items[0].text == KEPT["k0"]


# ---------------------------------------------------------------- other processes


def test_events_of_a_living_process_are_blanked(store: Path, settings: Settings) -> None:
    """Its events file stays: lines about forgotten items are blanked, the others count."""
    memory = open_store(store)
    memory.feedback(item("t0"))
    memory.feedback(item("k0", "kept"))
    (path,) = [path for path in (store / "events").iterdir() if item("k0", "kept") in path.read_text()]
    assert item("t0") in path.read_text()
    receipt = forget(store, Selection(session=SESSION), settings)
    assert item("t0") not in path.read_text()
    (entry,) = [file for file in receipt["files"] if file["path"] == f"events/{path.name}"]
    assert entry["before"] != entry["after"] == sha256(path)
    memory.feedback(item("k1", "kept"))
    touch(store, settings)
    snapshot = Snapshot.open(store)
    rows = snapshot.row_map.by_key(np.array([int(item(turn, "kept"), 16) for turn in ("k0", "k1")], np.uint64))
    assert rows.min() >= 0
    assert snapshot.catalog.access_count[rows].tolist() == [2, 2]  # plus the earlier one of each


def test_unfinished_files_of_a_kill_are_removed(
    store: Path, tmp_path: Path, encoder: Encoder, settings: Settings
) -> None:
    """Half an envelope and half a part without a writer, and a part that is complete a moment later."""
    log = write(tmp_path / "n.jsonl", secret({"t20": "a quixotronic fugue"}))
    document = accept(store, log, settings).documents[0]
    part = make_part(store, document, encoder, settings)
    half = store / "parts" / ".tmp-0123456789ab"
    half.mkdir()
    shutil.copy(part / "rows.npz", half)
    envelope = store / "inbox" / ".tmp-0123456789ab"
    envelope.write_bytes((store / "inbox" / document).read_bytes()[:-20])
    for path in (half, envelope):
        os.utime(path, (time.time() - 100, time.time() - 100))
    young = store / "parts" / ".tmp-ba9876543210"
    part.rename(young)
    os.utime(young)
    late = threading.Timer(0.5, lambda: young.rename(part))
    late.start()
    receipt = forget(store, Selection(session=SESSION), settings)
    late.join()
    assert document in receipt["documents"]
    assert item("t20") in receipt["items"]
    assert not list(store.rglob(".tmp-*"))
    assert traces(store, needles() | session_needles()) == []
    assert texts(store) == REST
    whole(store)
    ingest(store, [], settings)
    assert texts(store) == REST


def test_an_unpublished_index_is_removed(store: Path, settings: Settings) -> None:
    """It may hold vectors of the items."""
    named = {path.name for path in (store / "indexes").iterdir()}
    left = store / "indexes" / "20260101000000-01234567" / "dense"
    left.mkdir(parents=True)
    (left / "ivf.faiss").write_bytes(b"vectors of the quixotronic harpsichord")
    before = hashes(store)
    receipt = forget(store, Selection(session=SESSION), settings)
    there = {path.name for path in (store / "indexes").iterdir()}
    rewritten = {index.id for manifest in load_manifests(store).values() for index in manifest.indexes} - named
    assert rewritten <= there <= named | rewritten
    assert not left.parent.exists()
    assert_true(store, receipt, before)
    assert f"indexes/{left.parent.name}/dense/ivf.faiss" in {file["path"] for file in receipt["files"]}


# ---------------------------------------------------------------- the command


def test_the_command_prints_its_receipt_as_json(store: Path, tmp_path: Path, run_helix) -> None:
    before = hashes(store)
    done = run_helix("forget", "--session", SESSION, "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert_true(store, receipt, before)
    assert traces(store, needles() | session_needles()) == []
    state = json.loads(run_helix("status", "--store", store, "--json").stdout)
    count = run_helix("sql", "SELECT count(*) AS n FROM items", "--store", store, "--json").stdout
    assert (state["items"], state["sessions"], state["dead"]) == (len(REST), 2, 1)  # the rolled-back document
    assert json.loads(count) == [{"n": len(REST)}]
    found = run_helix("recall", "quixotronic harpsichord", "--store", store, "--json")
    assert not any(word in found.stdout for word in ("harpsichord in the attic", "spinet stands"))
    assert run_helix("verify", "--store", store).returncode == 0
    again = run_helix("forget", "--session", SESSION, "--store", store)
    assert (again.returncode, again.stdout) == (2, "")
    assert f"the store holds no session {SESSION}" in again.stderr


def test_the_command_prints_its_receipt(store: Path, run_helix) -> None:
    done = run_helix("forget", "--item", item("t0"), item("t1"), "--item", item("t2"), "--store", store)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("3 items forgotten; ")
    assert {line.split()[0] for line in lines[:-1]} == {"rewritten", "removed"}
    assert texts(store) == REST


def on_a_terminal(answer: str, *arguments: object) -> tuple[int, str, str]:
    """Return status, stdout and stderr of the command on a terminal."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("helix")), "forget", *map(str, arguments)]
    streams = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, text=True) as process:  # type: ignore[call-overload]
        os.close(theirs)
        os.write(ours, answer.encode())
        output = process.communicate(timeout=240)
    os.close(ours)
    return process.returncode, *output


def hash_contents(root: Path) -> dict[str, str]:
    """Return the digests of the store's files without locks and pins."""
    return {name: was for name, was in hashes(root).items() if not name.startswith(("pins", "writer.lock"))}


def test_the_command_asks_on_a_terminal(store: Path) -> None:
    before = hash_contents(store)
    for answer in ("n\n", "\n", "\x04", "yes please\n"):
        status, printed, screen = on_a_terminal(answer, "--project", PROJECT, "--store", store)
        assert (status, printed) == (0, ""), screen
        assert f"project {PROJECT}: 5 items of 1 session, in 4 documents" in screen
        assert "  2026-01-01 10:00  s-organological " in screen
        assert TEXTS["t0"] in screen
        assert screen.endswith("Forget it? [y/N] nothing was forgotten\n")
        assert hash_contents(store) == before
    status, printed, screen = on_a_terminal("y\n", "--project", PROJECT, "--store", store, "--json")
    assert status == 0, screen
    assert len(json.loads(printed)["items"]) == 5
    assert traces(store, needles() | session_needles()) == []


def test_ingest_reports_forgotten_items_and_remembers_them(tmp_path: Path, run_helix) -> None:
    root, log = tmp_path / "store", write(tmp_path / "a.jsonl", secret(TEXTS))
    run_helix("ingest", log, "--store", root)
    run_helix("forget", "--project", PROJECT, "--store", root)
    again = run_helix("ingest", log, "--store", root, "--json")
    report = json.loads(again.stdout)
    assert (again.returncode, report["duplicates"], report["forgotten"]) == (0, 1, {"paths": [str(log)], "items": 0})
    remedy = "'helix ingest --remember PATH' accepts it again"
    assert f"{log}: a part of it was forgotten and stays out; {remedy}" in again.stderr
    queued = run_helix("enqueue", log, "--store", root, "--json")
    assert json.loads(queued.stdout)["forgotten"]["paths"] == [str(log)]
    assert "a part of it was forgotten and stays out" in queued.stderr
    back = run_helix("ingest", log, "--remember", "--store", root, "--json")
    assert (json.loads(back.stdout)["items"], back.stderr) == (3, "")


def test_a_script_is_not_asked(store: Path, run_helix) -> None:
    status, _, screen = on_a_terminal("", "--item", item("t0"), "--yes", "--store", store)
    assert (status, "[y/N]" in screen) == (0, False)
    assert item("t0") not in run_helix("sql", "SELECT id FROM items", "--store", store, "--json").stdout
    done = run_helix("forget", "--item", item("t1"), "--store", store)  # stdin is no terminal
    assert (done.returncode, "[y/N]" in done.stderr) == (0, False)


def test_a_dry_run_forgets_nothing(store: Path, tmp_path: Path, settings: Settings, run_helix) -> None:
    accept(store, write(tmp_path / "n.jsonl", secret({"t20": "a quixotronic fugue"})), settings)
    before = hash_contents(store)
    done = run_helix("forget", "--project", PROJECT, "--dry-run", "--store", store, "--json")
    found = json.loads(done.stdout)
    assert [found[name] for name in ("dry_run", "items", "sessions", "documents")] == [True, 6, 1, 5]
    (entry,) = [entry for entry in found["shown"] if entry["id"] == item("t0")]
    assert (entry["session"], entry["project"], entry["text"]) == (SESSION, PROJECT, TEXTS["t0"])
    preview = run_helix("forget", "--item", item("t0"), item("t1"), "--dry-run", "--store", store)
    assert preview.stdout.splitlines()[0] == "these items: 2 items of 1 session, in 4 documents"
    assert len(preview.stdout.splitlines()) == 3
    assert hash_contents(store) == before
    none = run_helix("forget", "--project", "nothing", "--dry-run", "--store", store)
    assert (none.returncode, none.stdout) == (2, "")
    assert "the store holds no project nothing" in none.stderr


def test_a_preview_cannot_steer_a_terminal(tmp_path: Path, settings: Settings, encoder: Encoder, run_helix) -> None:
    root = tmp_path / "store"
    hostile = turns("s\x1b[2J", {"n0": "the \x1b]0;owned\x07 harpsichord \u202e"}, "p\x9b31m")
    publish_log(root, write(tmp_path / "a.jsonl", hostile), encoder, settings)
    for arguments in (("--project", "p\x9b31m", "--dry-run"), ("--session", "s\x1b[2J", "--dry-run")):
        done = run_helix("forget", *arguments, "--store", root)
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert "harpsichord" in done.stdout


UNKNOWN = (
    ("--item", "0123456789abcdef", "the store holds no item 0123456789abcdef"),
    ("--item", "not-an-id", "an item id is 16 hex digits"),
    ("--item", "f" * 20, "an item id is 16 hex digits"),
    ("--session", "nobody", "the store holds no session nobody"),
    ("--project", "nothing", "the store holds no project nothing"),
)


def test_an_unknown_selection_is_refused(store: Path, run_helix) -> None:
    def hash_owned() -> dict[str, str]:
        return {name: was for name, was in hashes(store).items() if name.startswith(("segments", "CURRENT", "purges"))}

    before, failed = hash_owned(), []
    for option, value, message in UNKNOWN:
        done = run_helix("forget", option, value, "--store", store)
        if (done.returncode, done.stdout) != (2, "") or message not in done.stderr or hash_owned() != before:
            failed.append((option, value, done))
    assert failed == []
