"""Checked-in stores of earlier releases are read unchanged; the generation before a broken one serves."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import helix
from helix.cli.main import main
from helix.errors import StoreError
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment import open as segment
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from pipelines.ingest.commit import commit
from pipelines.maintain.compact import compact
from query.schema.requests import RecallRequest
from query.service import QueryService
from tests.compat.history import current
from tests.compat.make import NOW, QUESTIONS, STORES, make, stub_encoder, take_in
from tests.support.processes import wait_until

FORMATS = sorted(folder.name for folder in STORES.iterdir())
BROKEN = sorted((path.parts[-3], path.parts[-2]) for path in STORES.glob("*/*/overlay.json"))
UNREADABLE = ("manifest", "newer")  # what the current generation holds cannot be known

STATEMENTS = (
    "SELECT id, session, turns, speaker, role, project, type, time, acl, near, text FROM items ORDER BY time, id",
    "SELECT kind, key, name, items FROM entities ORDER BY kind, key",
    # Not `next`: those are of one segment, and the neighbours of an item are given above.
    "SELECT kind, count(*) AS edges FROM edges WHERE kind <> 'next' GROUP BY kind ORDER BY kind",
    "SELECT session, projects, items, turns, speakers, first_time, last_time FROM sessions ORDER BY session",
    "SELECT subject, relation, object, t_valid, t_invalid, item FROM facts ORDER BY t_valid, subject",
    "SELECT id, vouched, queries FROM items WHERE vouched IS NOT NULL OR len(queries) > 0 ORDER BY id",
)
_LATER = (
    "order.indptr",
    "order.term",
    "cues",
    "language",
    "titles.key",
    "titles.row",
    "claims",
    "alters",
    "former",
    "words.text",
    "words.indptr",
    "words.term",
    "words.key",
    "words.word",
)
SINCE = {f"{name}.npy" for name in _LATER}
"""What a segment of format 3 has since a later release."""

NO_MODELS = {
    "pipelines.ingest.enrich.load_type_model": lambda *_: "there is no encoder",
    "pipelines.ingest.enrich._embed_facts": lambda *_: None,
    "pipelines.ingest.commit.load_router": lambda *_: "there is no encoder",
    "helix.snapshot.writer.copy_encoder": lambda *_: (),
}
ADDED = (("cellar", "c1", "I keep the yeast in the cellar?", {"speaker": "Ana"}),)
LATER = (
    "vouched",
    "salience_parts",
    "time_quality",
    "role",
    "ord",
)  # of an item; null in older stores, or asked in SQL above


def copy(source: Path, target: Path) -> Path:
    """Copy a checked-in store, with the folders git omits, private and writable."""
    shutil.copytree(source, target)
    paths.create_folders(target)
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


@pytest.fixture(params=FORMATS)
def format_folder(request: pytest.FixtureRequest) -> Path:
    return STORES / str(request.param)


@pytest.fixture
def whole(format_folder: Path, tmp_path: Path) -> Path:
    return copy(format_folder / "whole", tmp_path / "store")


class Broken:
    """A store whose newest generation is broken, and how it was before."""

    def __init__(self, format: str, variant: str, root: Path) -> None:
        self.variant = variant
        self.folder = STORES / format / variant
        self.root = copy(STORES / format / "whole", root)
        self.overlay = orjson.loads((self.folder / "overlay.json").read_bytes())
        self.newest = str(manifests.read_current(self.root))
        self.good = str(manifests.load(self.root, self.newest).parent)
        if variant == "newer":  # the broken one came after the newest
            self.good = self.newest
        self.damaged = str(self.overlay["damaged"])
        self._before = self.root.with_name("before")
        shutil.copytree(self.root, self._before)

    def point(self, name: str) -> None:
        paths.write_file(self.root / "CURRENT", f"{name}\n".encode())

    def apply(self) -> None:
        """Break the store and publish the result."""
        for path in self.overlay["remove"]:
            (self.root / path).unlink()
        self._put(self.folder)
        if not (self.folder / "CURRENT").exists():
            self.point(self.newest)

    def repair(self) -> None:
        self._put(self._before)

    def _put(self, source: Path) -> None:
        """Copy files atomically, CURRENT last: a reader may have mapped them."""
        for path in sorted(source.rglob("*"), key=lambda path: path.name == "CURRENT"):
            if path.is_file() and path.name != "overlay.json":
                paths.write_file(self.root / path.relative_to(source), path.read_bytes())


@pytest.fixture(params=BROKEN, ids=lambda param: "-".join(param))
def damage(request: pytest.FixtureRequest, tmp_path: Path) -> Broken:
    format, variant = request.param
    return Broken(format, variant, tmp_path / "store")


def describe_store(root: Path) -> dict[str, Any]:
    """Describe everything a reader of the store sees."""
    memory = helix.open(root)
    snapshot = memory.snapshot
    rows = np.flatnonzero(snapshot.alive)
    at, entities = snapshot.graph.entities_of(rows)
    key = [f"{key:016x}" for key in snapshot.columns.key.tolist()]
    items = []
    for i, (row, entry) in enumerate(zip(rows.tolist(), snapshot.text(rows), strict=True)):
        before, after = int(snapshot.columns.previous[row]), int(snapshot.columns.next[row])
        items.append(
            {
                **{name: value for name, value in entry.items() if name not in LATER},
                "time": entry["time"].isoformat(),
                "previous": key[before] if before >= 0 else None,
                "next": key[after] if after >= 0 else None,
                "near": f"{int(snapshot.columns.near[row]):016x}",
                "entities": sorted(f"{hashed:016x}" for hashed in entities[at == i].tolist()),
                "accesses": int(snapshot.catalog.access_count[row]),
                "last_access": int(snapshot.catalog.last_access[row]),
                "restricted": bool(snapshot.files.restricted[row]),
            }
        )
    manifest = snapshot.manifest
    assert manifest is not None
    return {
        "generation": snapshot.generation,
        "counts": dict(manifest.counts),
        "rows": snapshot.rows,
        "live": snapshot.live,
        "segments": [[segment.id, segment.rows] for segment in manifest.segments],
        "items": items,
        "vectors": [[round(value, 4) for value in row] for row in snapshot.vectors.dequantise(rows).tolist()],
        "recall": {question: recall_items(memory, question) for question in QUESTIONS},
        "sql": {statement: run_sql(root, statement) for statement in STATEMENTS},
    }


def recall_items(memory: Memory, question: str) -> list[dict[str, Any]]:
    """Return the lexical hits by rank; the weights of ranks depend on the profile."""
    found = memory.recall(question, now=NOW)
    hits = [item for item in found.items if item.why["bm25"] is not None]
    return [{"id": item.id, "bm25": item.why["bm25"]} for item in sorted(hits, key=lambda item: item.why["bm25"] or 0)]


def run_sql(root: Path, statement: str) -> list[dict[str, Any]]:
    with run_statement(root, statement) as found:
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_an_undamaged_store_returns_its_contents(whole: Path, format_folder: Path) -> None:
    assert verify_store(whole).problems == ()
    assert describe_store(whole) == orjson.loads((format_folder / "golden.json").read_bytes())


def test_without_an_encoder_recall_is_lexical_and_reports_it(whole: Path) -> None:
    found = helix.open(whole).recall(QUESTIONS[0], now=NOW)
    assert "sixty minutes" in found.context
    assert "fifty minutes" not in found.context
    assert any("encoder missing" in line for line in found.degraded)
    assert all(item.why["dense"] is None for item in found.items)


def test_acls_and_forgotten_items_hold(whole: Path) -> None:
    memory = helix.open(whole)
    texts = [item.text for item in memory.recall("where is the oven key", now=NOW).items]
    assert not any("blue pot" in text for text in texts)
    asked = memory.recall("where is the oven key", principal="ana", now=NOW)
    assert "blue pot" in asked.items[0].text
    assert not any("gnome" in item.text for item in memory.recall("gnome", now=NOW).items)


def test_a_read_only_store_can_be_read(format_folder: Path) -> None:
    before = sorted(path.name for path in (format_folder / "whole").iterdir())
    assert Snapshot.open(format_folder / "whole").live
    assert sorted(path.name for path in (format_folder / "whole").iterdir()) == before


def test_an_old_store_can_be_written(whole: Path) -> None:
    before = describe_store(whole)
    assert main(["compact", "--full", "--store", str(whole)]) == 0
    after = describe_store(whole)
    assert len(after["segments"]) == 1
    assert after["rows"] == after["live"] == before["live"]
    for name in ("items", "counts", "vectors", "recall", "sql"):
        assert after[name] == before[name], name
    assert main(["gc", "--keep", "1", "--grace", "0", "--store", str(whole)]) == 0
    assert describe_store(whole)["items"] == after["items"]
    report = verify_store(whole)
    assert (report.problems, report.orphans, report.generations) == ((), (), 1)


def test_the_generator_reproduces_the_checked_in_store(tmp_path: Path) -> None:
    """Only for the newest format; older stores are never made again."""
    made = tmp_path / "made"
    make(made)
    assert verify_store(made).problems == ()
    folder = STORES / f"format-{manifests.FORMAT}" / "whole"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    new = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    # The digest in a manifest's name follows the bytes, and those the versions of NumPy and pyarrow.
    found = {re.sub(r"-[0-9a-f]{16}\.json", "", name) for name in new if Path(name).name not in SINCE}
    assert found == {re.sub(r"-[0-9a-f]{16}\.json", "", name) for name in there}
    assert {Path(name).name for name in new} >= SINCE


def test_a_store_without_later_arrays_is_read_and_written(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store lacks term order, cues, titles and claims; a new segment has them."""
    snapshot = Snapshot.open(whole)
    rows = np.arange(snapshot.rows)
    assert [len(found) for found in snapshot.lexical.order_of(rows)] == [0, 0]
    assert snapshot.lexical.cues(rows).tolist() == [0] * snapshot.rows
    assert not snapshot.lexical.claims(rows).any()
    assert not len(snapshot.changes.links.old)
    assert [len(found) for found in snapshot.lexical.find_titled(np.arange(9, dtype=np.uint64))] == [0, 0]
    before = describe_store(whole)
    for name, value in NO_MODELS.items():
        monkeypatch.setattr(name, value)
    take_in(whole, stub_encoder(), ADDED, 2)
    commit(whole, stub_encoder(), Settings())
    for _ in range(2):  # the second time of one segment
        after = describe_store(whole)
        known = {item["id"] for item in before["items"]}
        assert [item for item in after["items"] if item["id"] in known and item["session"] == "garden"] == [
            item for item in before["items"] if item["session"] == "garden"
        ]
        snapshot = Snapshot.open(whole)
        at = np.flatnonzero(snapshot.lexical.cues(np.flatnonzero(snapshot.alive)) != 0)
        said = [entry["text"] for entry in snapshot.text(np.flatnonzero(snapshot.alive)[at])]
        assert said == [text for _, _, text, _ in ADDED]
        claims = snapshot.lexical.claims(np.flatnonzero(snapshot.alive))
        assert np.flatnonzero(claims.any(axis=1)).tolist() == at.tolist()
        owner, _ = snapshot.lexical.order_of(np.flatnonzero(snapshot.alive))
        assert np.unique(owner).tolist() == at.tolist()
        for question in (*QUESTIONS, "what about the yeast in the cellar"):
            bundle = helix.open(whole).recall(question, now=NOW, explain=True)
            assert bundle.items
            assert all(np.isfinite(item.score) for item in bundle.items)
        assert bundle.items[0].text == ADDED[0][2]
        assert main(["compact", "--full", "--store", str(whole)]) == 0
    assert len(describe_store(whole)["segments"]) == 1
    assert verify_store(whole).problems == ()


def test_an_item_of_an_old_store_is_explained(whole: Path) -> None:
    bundle = helix.open(whole).recall(QUESTIONS[1], now=NOW, explain=True)
    assert bundle.items[0].text == "The tomatoes are watered at seven in the morning."
    assert bundle.items[0].why["bm25"] in (1, 2)  # one says nearly the same
    assert bundle.items[0].why["sim"] == 1
    assert bundle.trace is not None
    assert bundle.trace["candidates"]


def test_a_flipped_bit_without_a_digest_check_is_refused_or_harmless(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the size of large files is checked on opening."""
    monkeypatch.setattr(segment, "DIGEST_UP_TO", -1)
    target = next((whole / "segments").iterdir()) / "mentioned.key.npy"
    data = target.read_bytes()
    remedies = []
    for bit in range(0, 8 * 96, 5):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        paths.write_file(target, bytes(changed))
        try:
            Snapshot.open(whole).warm()
        except StoreError as error:
            remedies.append(error.remedy)
    assert len(remedies) > 60
    assert all("'helix verify'" in remedy for remedy in remedies)


@pytest.mark.parametrize(("name", "value"), [("sessions.rows.npy", 200), ("vectors.sum.npy", None)])
def test_values_out_of_range_are_damage(
    whole: Path, name: str, value: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query process stays on the previous generation."""
    memory = helix.open(whole)
    compact(whole, Settings(), full=True)
    monkeypatch.setattr(segment, "DIGEST_UP_TO", -1)
    manifest = current(whole)
    target = whole / "segments" / manifest.segments[0].id / name
    array = np.load(target)
    if value is None:  # as many bytes of another shape
        array = array.reshape(-1, array.shape[0])
    else:
        array[-1] = value
    np.save(target, array)
    with pytest.raises(
        StoreError, match=rf"{manifests.read_current(whole)} .* cannot be opened|{name} is damaged"
    ) as error:
        memory.refresh()
    assert "helix rollback" in error.value.remedy
    assert memory.recall(QUESTIONS[0], now=NOW).items


def test_an_open_memory_stays_on_the_last_good_generation(damage: Broken, capsys: pytest.CaptureFixture[str]) -> None:
    """The broken one is refused with its damaged file and a remedy, and `helix verify` names the file."""
    damage.point(damage.good)
    memory = helix.open(damage.root)
    served, answer = memory.snapshot, recall_items(memory, QUESTIONS[1])
    assert answer
    damage.apply()
    with pytest.raises(StoreError) as error:
        helix.open(damage.root)
    assert f"{damage.damaged} {damage.overlay['says']}" in str(error.value)
    assert ("upgrade Helix" if damage.variant == "newer" else "'helix rollback'") in str(error.value.remedy)
    for _ in range(3):
        assert memory.stale()
        with pytest.raises(StoreError, match=re.escape(damage.damaged)):
            memory.refresh()
        assert memory.snapshot is served
        assert recall_items(memory, QUESTIONS[1]) == answer
    assert len(list((damage.root / "pins").iterdir())) == 1  # a generation that is not open is not claimed
    assert main(["verify", "--store", str(damage.root)]) == 4
    said = capsys.readouterr().out
    assert damage.damaged in said
    assert len([line for line in said.splitlines() if "damaged" in line or "missing" in line]) <= 1
    damage.repair()
    if damage.variant != "newer":
        assert main(["verify", "--store", str(damage.root)]) == 0
    assert memory.refresh() is (damage.variant != "newer")
    assert memory.snapshot.name == damage.newest
    assert "sixty minutes" in memory.recall(QUESTIONS[0], now=NOW).context


Serve = Callable[[Path], QueryService]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[QueryService] = []

    def start(root: Path) -> QueryService:
        running.append(QueryService(root, replace(Settings(), reload_interval=0.01)))
        running[-1].start()
        return running[-1]

    yield start
    for service in running:
        service.stop()


def test_the_query_process_serves_reports_and_recovers(damage: Broken, serve: Serve) -> None:
    damage.point(damage.good)
    service = serve(damage.root)
    assert service.is_ready
    assert service.trouble is None
    request = RecallRequest(query=QUESTIONS[1], now=NOW)
    good = manifests.load(damage.root, damage.good).generation
    damage.apply()
    wait_until(60, lambda: service.trouble is not None)
    assert damage.damaged in str(service.trouble)
    assert service.is_ready
    answer = service.recall(request)
    assert answer["snapshot"] == good
    assert answer["items"]
    if damage.variant in UNREADABLE:  # there is no state to tell
        with pytest.raises(StoreError, match=re.escape(damage.damaged)):
            service.status()
    else:
        state = service.status()
        assert (state["serving"], state["trouble"]) == (good, service.trouble)
    late = serve(damage.root)  # on the broken store
    assert not late.is_ready
    assert damage.damaged in str(late.trouble)
    with pytest.raises(StoreError, match=re.escape(damage.damaged)):
        late.recall(request)
    damage.repair()
    wait_until(60, lambda: service.trouble is None and late.is_ready)
    assert late.recall(request)["items"]
    newest = manifests.load(damage.root, damage.newest).generation
    assert service.recall(request)["snapshot"] == newest
    assert service.status()["trouble"] is None


def test_a_rollback_repairs_a_store_of_known_content(damage: Broken, capsys: pytest.CaptureFixture[str]) -> None:
    damage.point(damage.good)
    before = describe_store(damage.root)
    damage.apply()
    status = main(["rollback", "--json", "--store", str(damage.root)])
    said = capsys.readouterr()
    if damage.variant == "newer":
        assert status == 4
        assert damage.damaged in said.err
        assert "upgrade Helix" in said.err
        damage.point(damage.good)  # what that one published is given up, by hand
        assert main(["gc", "--keep", "1", "--grace", "0", "--store", str(damage.root)]) == 4  # its content is unknown
        (damage.root / damage.damaged).unlink()
    else:
        assert status == 0
        done = orjson.loads(said.out)
        # The documents of a damaged manifest are unknown: they are pending, and published again.
        assert (done["to"], len(done["set_aside"])) == (before["generation"], damage.variant != "manifest")
        assert done["generation"] == before["generation"] + 2
    after = describe_store(damage.root)
    assert {**after, "generation": before["generation"]} == before
    # The broken generation goes as every other one does.
    assert main(["gc", "--keep", "1", "--grace", "0", "--store", str(damage.root)]) == 0
    assert verify_store(damage.root).problems == ()
    assert {**describe_store(damage.root), "generation": before["generation"]} == before
