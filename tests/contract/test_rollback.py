"""`helix rollback`: the newest generation gets the content of an earlier one, and later documents are set aside."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from helix.cli.main import main
from helix.errors import StoreError, UsageError
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept import accept
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.rollback import rollback
from pipelines.maintain.touch import touch
from tests.support.walk import read_all

Capture = pytest.CaptureFixture[str]
Log = Sequence[tuple[str, str]]
BREAD: Log = (
    ("b1", "the walnut loaf is in the oven"),
    ("b2", "take it out at noon"),
    ("b3", "the flour comes from the mill in Évora"),
    ("b4", "we are out of honey"),
    ("b5", "the recipe lies on the shelf"),
)
LATER: Log = (("b2", "take it out at one, not at noon"), ("b6", "and slice it"))
GARDEN: Log = (("g1", "the tomatoes are watered at seven"),)


def write(folder: Path, session: str, turns: Log) -> Path:
    path = folder / f"{session}-{len(list(folder.iterdir()))}.jsonl"
    path.write_text("".join(json.dumps({"session": session, "id": i, "text": text}) + "\n" for i, text in turns))
    return path


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A store of three generations with a document each, and its logs.

    The second changes one turn of the first: too few for a compaction, which would publish one more.
    """
    base = tmp_path_factory.mktemp("rollback")
    (base / "logs").mkdir()
    for session, turns in (("bread", BREAD), ("bread", LATER), ("garden", GARDEN)):
        assert not ingest(base / "store", [write(base / "logs", session, turns)], load()).refused
    return base


@pytest.fixture
def root(history: Path, tmp_path: Path) -> Path:
    shutil.copytree(history / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def logs(history: Path) -> list[Path]:
    return sorted((history / "logs").iterdir(), key=lambda path: path.stem[-1])


def manifest_of(root: Path) -> Manifest:
    return inbox.load_current(root)[1]


def texts(root: Path) -> list[str]:
    """Return the texts of the live items, after checking the manifest's counts."""
    snapshot, manifest = Snapshot.open(root), manifest_of(root)
    rows = np.flatnonzero(snapshot.alive)
    counts = {
        "items": len(rows),
        "sessions": len(np.unique(snapshot.columns.session[rows])),
        "documents": len(inbox.list_done(root, manifest)),
    }
    assert manifest.counts == counts
    assert {entry["items"] for entry in manifest.coverage.values() if "items" in entry} <= {len(rows)}
    return sorted(entry["text"] for entry in snapshot.text(rows))


def words(*logs: Log) -> list[str]:
    """Return the texts of some logs; a later version of a turn replaces an earlier one."""
    return sorted({turn: text for log in logs for turn, text in log}.values())


def load_generation(root: Path, number: int) -> Manifest:
    (path,) = (root / "manifests").glob(f"{number:08d}-*.json")
    return manifests.load(root, path.name)


def states(root: Path) -> tuple[int, int, int, int]:
    """Return the numbers of accepted, done, pending and dead documents."""
    found = read_status(root)
    return found["accepted"], found["done"], found["pending"], found["dead"]


def test_the_default_is_the_generation_before(root: Path, capsys: Capture) -> None:
    assert texts(root) == words(BREAD, LATER, GARDEN)
    newest = inbox.list_done(root, manifest_of(root)) - inbox.list_done(root, load_generation(root, 2))
    assert main(["rollback", "--json", "--store", str(root)]) == 0
    assert json.loads(capsys.readouterr().out) == {"generation": 4, "to": 2, "set_aside": sorted(newest)}
    assert texts(root) == words(BREAD, LATER)
    manifest = manifest_of(root)
    assert manifest.parent.startswith("00000003-")
    assert (manifest.generation, manifest.segments) == (4, load_generation(root, 2).segments)
    assert manifest.token > load_generation(root, 3).token
    assert verify_store(root).problems == ()


def test_an_unknown_generation_is_refused_with_the_known_ones(root: Path, capsys: Capture) -> None:
    """Generation 1 is collected, 3 is the current one."""
    collect_garbage(root, keep=2, grace=0.0, wait=5.0)
    before = (root / "CURRENT").read_bytes()
    for number in ("1", "3", "0", "9", "-1"):
        assert main(["rollback", "--store", str(root), "--", number]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert f"no generation {number} to return to; there are: 2 (the current is 3)" in line
    assert (root / "CURRENT").read_bytes() == before
    assert inbox.list_dead(root) == {}
    assert texts(root) == words(BREAD, LATER, GARDEN)


def test_a_rollback_without_earlier_generations_is_refused(root: Path, tmp_path: Path, capsys: Capture) -> None:
    collect_garbage(root, keep=1, grace=0.0, wait=5.0)
    with pytest.raises(UsageError, match="there are: none"):
        rollback(root, load())
    paths.create_folders(tmp_path / "empty")
    with pytest.raises(StoreError, match="nothing was published") as error:
        rollback(tmp_path / "empty", load())
    assert "ingest something" in error.value.remedy
    assert main(["rollback", "--store", str(tmp_path / "nowhere")]) == 4
    assert main(["rollback", "soon", "--store", str(root)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 2


def test_earlier_generations_are_listed(root: Path, capsys: Capture) -> None:
    rollback(root, load(), 1)
    assert main(["rollback", "--list", "--json", "--store", str(root)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["generation"] for entry in found] == [4, 3, 2, 1]
    assert [entry["items"] for entry in found] == [5, 7, 6, 5]
    assert [entry["documents"] for entry in found] == [1, 3, 2, 1]
    assert [entry["sessions"] for entry in found] == [1, 2, 1, 1]
    assert {entry["encoder"] for entry in found} == {manifest_of(root).lineage.name}
    assert main(["rollback", "--list", "--store", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["4", "3", "2", "1"]
    assert "7 items, 3 documents" in lines[1]
    assert manifest_of(root).generation == 4  # asking changes nothing
    # A damaged manifest ends the list.
    (path,) = (root / "manifests").glob("00000001-*.json")
    path.write_bytes(b"{}")
    assert main(["rollback", "--list", "--json", "--store", str(root)]) == 0
    assert [entry["generation"] for entry in json.loads(capsys.readouterr().out)] == [4, 3, 2]
    assert main(["rollback", "1", "--store", str(root)]) == 2
    assert main(["rollback", "--store", str(root)]) == 0
    assert texts(root) == words(BREAD, LATER, GARDEN)


def test_documents_ingested_since_are_set_aside_with_the_reason(root: Path, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    accept(root, write(tmp_path / "logs", "other", (("o1", "parsley"),)), load())  # pending: it is not set aside
    assert states(root) == (4, 3, 1, 0)
    assert main(["rollback", "1", "--store", str(root)]) == 0
    output = capsys.readouterr()
    assert "generation 4 holds the content of 1; 2 documents ingested since are set aside" in output.out
    assert "ingests a set-aside document again" in output.err
    assert states(root) == (4, 1, 1, 2)
    assert main(["status", "--all", "--store", str(root)]) == 0
    output = capsys.readouterr().out
    assert re.search(r"4 accepted, 1 done, 1 pending of [\d.]+ kB, 2 dead", output)
    assert "2 documents, set aside by a rollback; 'helix ingest PATH' takes one back" in output
    assert output.count("rolled back from generation 3 to 1") == 2
    assert "given up" not in output
    # They stay aside through other ingests.
    assert ingest(root, [], load()).items == 1
    assert texts(root) == words(BREAD, (("o1", "parsley"),))
    assert states(root) == (4, 2, 0, 2)


def test_a_set_aside_document_offered_again_is_published(root: Path, logs: list[Path]) -> None:
    rollback(root, load(), 1)
    report = ingest(root, [logs[2]], load())
    assert (report.accepted, report.duplicates, report.items) == (1, 0, 1)
    assert texts(root) == words(BREAD, GARDEN)
    assert states(root) == (3, 2, 0, 1)
    report = ingest(root, logs, load())
    assert (report.accepted, report.duplicates, report.items) == (1, 2, 2)
    assert texts(root) == words(BREAD, LATER, GARDEN)
    assert states(root) == (3, 3, 0, 0)
    assert verify_store(root).problems == ()


def test_rolling_back_a_rollback_brings_everything_back(root: Path, capsys: Capture) -> None:
    first = rollback(root, load(), 1)
    assert (first.generation, first.to, len(first.set_aside)) == (4, 1, 2)
    assert texts(root) == words(BREAD)  # with the turn as it was before the change
    second = rollback(root, load())  # the newest before the current is the one that was left
    assert (second.generation, second.to, second.set_aside) == (5, 3, ())
    assert texts(root) == words(BREAD, LATER, GARDEN)
    assert states(root) == (3, 3, 0, 0)  # what the first set aside is published again
    third = rollback(root, load(), 4)
    assert (third.generation, third.set_aside) == (6, first.set_aside)
    assert texts(root) == words(BREAD)
    assert states(root) == (3, 1, 0, 2)
    assert main(["status", "--all", "--store", str(root)]) == 0
    assert capsys.readouterr().out.count("rolled back from generation 5 to 4") == 2


def test_documents_that_failed_stay_dead(root: Path) -> None:
    accepted = inbox.read_envelope(root, inbox.list_accepted(root)[0]).accepted
    given_up, why = "0" * 64, "nothing in it can be read"
    inbox.accept_envelope(root, inbox.Envelope(given_up, "x", "", "jsonl", None, (), None, accepted, {}, ()))
    inbox.give_up(root, given_up, why)
    rollback(root, load(), 1)
    rollback(root, load(), 3)
    assert {name: record["error"] for name, record in inbox.list_dead(root).items()} == {given_up: why}


def test_a_rollback_after_a_compaction_restores_the_content(root: Path) -> None:
    settings = load()
    compact(root, settings, full=True)
    compacted = manifest_of(root)
    assert len(compacted.segments) == 1
    collect_garbage(root, keep=10, grace=0.0, wait=5.0)
    done = rollback(root, settings, 2)
    assert (done.generation, len(done.set_aside)) == (5, 1)
    assert texts(root) == words(BREAD, LATER)
    assert manifest_of(root).segments == load_generation(root, 2).segments
    rollback(root, settings, 4)
    assert texts(root) == words(BREAD, LATER, GARDEN)
    assert manifest_of(root).segments == compacted.segments
    compact(root, settings, full=True)
    collect_garbage(root, keep=1, grace=0.0, wait=5.0)
    assert texts(root) == words(BREAD, LATER, GARDEN)
    report = verify_store(root)
    assert (report.problems, report.orphans) == ((), ())


def test_a_merge_is_no_generation_to_undo(root: Path) -> None:
    before, now = texts(root), manifest_of(root)
    assert compact(root, load(), full=True).generation > now.generation
    done = rollback(root, load())
    assert done.to == now.generation - 1  # not to the one the merge came from, which holds the same
    assert texts(root) != before
    assert len(done.set_aside) == 1


def test_forgotten_items_stay_forgotten(root: Path, logs: list[Path], tmp_path: Path) -> None:
    settings = load()
    snapshot = Snapshot.open(root)
    slice_it = next(e["id"] for e in snapshot.text(np.flatnonzero(snapshot.alive)) if e["text"] == "and slice it")
    del snapshot
    forget(root, Selection(items=(slice_it,)), settings)
    after = manifest_of(root).generation
    kept = [text for text in words(BREAD, LATER, GARDEN) if text != "and slice it"]
    assert texts(root) == kept
    for number in (2, 3):  # they load_generation the removed items
        with pytest.raises(UsageError, match=f"no generation {number} "):
            rollback(root, settings, number)
    parsley = write(tmp_path, "other", (("o1", "parsley"),))
    ingest(root, [parsley, *logs], settings)
    assert texts(root) == sorted([*kept, "parsley"])
    assert len(rollback(root, settings, after).set_aside) == 1
    assert texts(root) == kept
    ingest(root, logs, settings)
    assert texts(root) == kept
    assert manifest_of(root).forgotten is not None
    assert not any(b"slice" in data for path, data in read_all(root) if "encoders" not in path.parts)


def test_access_counts_survive_a_rollback(root: Path) -> None:
    memory = Memory(root)
    item = memory.recall("walnut loaf").items[0]
    memory.feedback(item.id, "helpful")
    assert touch(root, load()).items == 1
    rollback(root, load(), 1)
    snapshot = Snapshot.open(root)
    row = snapshot.find(item.id)
    assert snapshot.catalog.access_count[row] == 1
    assert touch(root, load()).items == 0  # and none is counted twice


def test_a_damaged_generation_is_refused_and_nothing_changes(root: Path, capsys: Capture) -> None:
    segment = load_generation(root, 2).segments[-1]
    target = root / next(file.path for file in segment.files if file.path.endswith("text.arrow"))
    target.write_bytes(target.read_bytes()[:-8])
    before = (root / "CURRENT").read_bytes()
    assert main(["rollback", "--store", str(root)]) == 4
    assert f"{target} is damaged" in capsys.readouterr().err
    assert (root / "CURRENT").read_bytes() == before
    assert inbox.list_dead(root) == {}
    assert main(["rollback", "1", "--store", str(root)]) == 0
    assert texts(root) == words(BREAD)


@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_a_damaged_document_table_sets_all_other_documents_aside(root: Path, damage: str, logs: list[Path]) -> None:
    target = root / manifest_of(root).documents[-1].path
    if damage == "torn":
        target.write_bytes(target.read_bytes()[:-8])
    else:
        target.unlink()
    done = rollback(root, load())
    assert len(done.set_aside) == 1
    assert texts(root) == words(BREAD, LATER)
    assert states(root) == (3, 2, 0, 1)
    assert ingest(root, [logs[2]], load()).items == 1
    assert texts(root) == words(BREAD, LATER, GARDEN)


def test_damaged_access_counts_are_replaced_by_the_earlier_ones(root: Path) -> None:
    memory = Memory(root)
    for _ in range(2):
        memory.feedback(memory.recall("walnut loaf").items[0].id)
        touch(root, load())
    newest = manifest_of(root)
    (root / newest.access.path).write_bytes(b"PK")
    with pytest.raises(StoreError, match="access/"):
        Memory(root)
    rollback(root, load())
    then = load_generation(root, newest.generation - 1)
    assert (manifest_of(root).access, manifest_of(root).watermarks) == (then.access, then.watermarks)
    assert Snapshot.open(root).catalog.access_count.sum() == 1
    rollback(root, load(), 1)
    assert texts(root) == words(BREAD)
