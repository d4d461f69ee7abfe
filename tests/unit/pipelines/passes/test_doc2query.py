"""The doc2query pass with a real T5: its coverage, kills and errors."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import helix
from helix.cli.main import main
from helix.encoders import seq2seq
from helix.encoders.dense import Encoder
from helix.encoders.seq2seq_export import cache_seq2seq
from helix.enrich.doc2query import Generator
from helix.errors import EncoderError
from helix.settings import Settings, load
from helix.snapshot.index.doc2query import KIND, open_queries
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from pipelines.ingest.lineage import open_encoder
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from pipelines.passes import doc2query as module
from pipelines.passes import run as passes
from pipelines.passes.doc2query import count_waiting, expand
from tests.support.caching import EXPORTING, cache_folder, exclusive

TURNS = [
    "Priya booked the flight to Goa in March for vacation.",
    "The worker stopped at noon, and the queue was full by one.",
    "We keep the store in one folder and write a manifest.",
    "Marco said the rain stops the skis, so he stays home.",
    "The encoder is small and the vectors are quantised.",
    "Remember to call the bakery about the walnut bread.",
]


@pytest.fixture(scope="module")
def settings(copying_t5: Path, cache: Path) -> Settings:
    """Settings with a T5 whose export an earlier run may have made."""
    settings = replace(load(), doc2query=str(copying_t5))
    found = seq2seq.find_seq2seq(settings.doc2query, settings)
    assert not isinstance(found, str)

    def make(folder: Path) -> None:
        cache_seq2seq(found, folder)

    sources = ("helix/encoders/*.py", "tests/support/tiny_t5.py", "helix/sample/**/*")
    for export in (cache_folder("copying-t5-export", make, EXPORTING, sources) / "seq2seq").iterdir():
        with exclusive(cache / "seq2seq.lock"):
            if not (cache / "seq2seq" / export.name).exists():
                shutil.copytree(export, cache / f"{export.name}.new")
                (cache / "seq2seq").mkdir(exist_ok=True)
                (cache / f"{export.name}.new").rename(cache / "seq2seq" / export.name)
    return settings


@pytest.fixture(scope="module")
def model(settings: Settings) -> Generator:
    found = seq2seq.find_seq2seq(settings.doc2query, settings)
    assert not isinstance(found, str)
    return Generator(cache_seq2seq(found, Path(settings.cache)), 1)


@pytest.fixture(scope="module")
def template_store(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Path:
    folder = tmp_path_factory.mktemp("doc2query")
    take_in(folder / "store", folder / "log.jsonl", TURNS, settings)
    return folder


@pytest.fixture
def root(template_store: Path, tmp_path: Path) -> Path:
    shutil.copytree(template_store, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def take_in(root: Path, log: Path, texts: list[str], settings: Settings) -> None:
    lines = [{"session": "s", "id": f"t{i}", "role": "document", "text": text} for i, text in enumerate(texts)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not ingest(root, [log], settings).refused


@pytest.fixture(scope="module")
def encoder(template_store: Path, settings: Settings) -> Encoder:
    return open_encoder(template_store / "store", settings)


def read_questions(root: Path) -> dict[str, list[str]]:
    """Return the questions of every live item that has any."""
    snapshot = Snapshot.open(root)
    if snapshot.lexical.expansion is None:
        return {}
    rows = np.flatnonzero(snapshot.alive)
    found = zip(snapshot.text(rows), snapshot.lexical.expansion.questions_of(rows), strict=True)
    return {entry["text"]: queries for entry, queries in found if queries}


def coverage(root: Path) -> dict[str, object]:
    manifest = inbox.load_current(root)[1]
    assert manifest is not None
    return dict(manifest.coverage[KIND])


def test_without_weights_the_pass_is_off_with_a_reason(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "s"
    take_in(root, tmp_path / "log.jsonl", TURNS[:2], load())
    assert str(coverage(root)["off"]).startswith("no weights found for doc2query/msmarco-t5-small-v1")
    assert "doc2query" not in read_status(root)["backlog"]
    assert main(["expand", "--store", str(root)]) == 4
    assert "nothing to expand with: no weights found" in capsys.readouterr().err


def test_items_are_recallable_before_they_have_questions(
    root: Path, settings: Settings, model: Generator, encoder: Encoder
) -> None:
    memory = helix.open(root)
    assert coverage(root) == {"items": 0, "model": model.name}
    assert read_status(root)["backlog"] == {KIND: 6}
    assert memory.recall("flight to Goa").items[0].text == TURNS[0]
    done = expand(root, model, encoder, settings, limit=2)
    assert (done.items, done.waiting) == (2, 4)
    assert coverage(root) == {"items": 2, "model": model.name}
    assert read_status(root)["backlog"] == {KIND: 4}
    done = expand(root, model, encoder, settings)
    assert (done.items, done.waiting, count_waiting(root)) == (4, 0, 0)
    assert read_status(root)["backlog"] == {}
    found = read_questions(root)
    assert len(found) >= 4  # questions far from their item are dropped
    for text, queries in found.items():
        assert 1 <= len(queries) <= 3
        assert set(" ".join(queries).split()) & set(re.findall(r"\w+", text.lower()))
    memory.refresh()
    text, queries = next(iter(found.items()))
    item = next(item for item in memory.recall(queries[0]).items if item.text == text)
    assert item.why["doc2query"] is not None
    assert item.why["queries"] == queries
    assert expand(root, model, encoder, settings).items == 0  # no item is expanded twice
    assert verify_store(root).problems == ()


@pytest.mark.parametrize("point", ["expand.asked", "expand.published"])
def test_a_killed_run_is_continued(root: Path, copying_t5: Path, point: str, run_helix) -> None:
    died = run_helix("expand", "--store", root, HELIX_DOC2QUERY=str(copying_t5), HELIX_FAILPOINT=point)
    assert died.returncode < 0
    assert count_waiting(root) == (6 if point == "expand.asked" else 0)
    done = run_helix("expand", "--store", root, "--json", HELIX_DOC2QUERY=str(copying_t5))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["waiting"] == 0
    assert coverage(root)["items"] == 6
    assert verify_store(root).problems == ()


def test_many_small_indexes_become_one(
    root: Path, settings: Settings, model: Generator, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = expand(root, model, encoder, settings)
    before = read_questions(root)
    assert whole.items == 6
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(passes, "PUBLISH", 0.0)
    monkeypatch.setattr(passes, "MERGED", 4)
    again = root.with_name("again")
    take_in(again, root.with_name("log.jsonl"), TURNS, settings)
    assert expand(again, model, encoder, settings).items == 6
    manifest = inbox.load_current(again)[1]
    assert manifest is not None
    mine = [index for index in manifest.indexes if index.kind == KIND]
    assert len(mine) == 3  # four became one; two came after
    rows = np.concatenate([open_queries(again, index).rows for index in mine])
    assert sorted(rows.tolist()) == [0, 1, 2, 3, 4, 5]
    assert read_questions(again) == before  # of the same texts, whatever the batch
    compact(again, settings, full=True)
    assert read_questions(again) == before


def test_a_changed_item_gets_new_questions(root: Path, settings: Settings, model: Generator, encoder: Encoder) -> None:
    expand(root, model, encoder, settings)
    before = read_questions(root)
    changed = ["Priya booked the train to Rome in June for a conference.", *TURNS[1:]]
    take_in(root, root.with_name("log.jsonl"), changed, settings)
    assert count_waiting(root) == 1
    assert TURNS[0] not in read_questions(root)
    expand(root, model, encoder, settings)
    after = read_questions(root)
    assert {text: after[text] for text in TURNS[1:] if text in after} == {
        text: before[text] for text in TURNS[1:] if text in before
    }
    assert coverage(root)["items"] == 6


def test_a_reindex_carries_the_questions_over(
    root: Path, settings: Settings, model: Generator, encoder: Encoder
) -> None:
    expand(root, model, encoder, settings)
    before = read_questions(root)
    done = reindex(root, replace(settings, item_words=120))
    assert done.swapped
    assert read_questions(root) == before
    assert coverage(root)["items"] == 6
    assert count_waiting(root) == 0


def test_a_forgotten_item_leaves_no_question_behind(
    root: Path, settings: Settings, model: Generator, encoder: Encoder
) -> None:
    expand(root, model, encoder, settings)
    found = read_questions(root)
    text, queries = next((text, queries) for text, queries in found.items() if text != TURNS[1])
    snapshot = Snapshot.open(root)
    entry = next(entry for entry in snapshot.text(np.flatnonzero(snapshot.alive)) if entry["text"] == text)
    assert any(query.encode() in path.read_bytes() for query in queries for path in files(root))
    forget(root, Selection(items=(entry["id"],)), settings)
    assert text not in read_questions(root)
    assert {key: value for key, value in found.items() if key != text} == read_questions(root)
    others = {query for key, more in found.items() if key != text for query in more}
    left = [query for query in queries if query not in others and len(query.split()) > 1]
    assert left
    for path in files(root):
        data = path.read_bytes()
        assert not any(query.encode() in data for query in left), path


def files(root: Path) -> list[Path]:
    """Return the files with plain text: Parquet is compressed, and queries.arrow has the same queries."""
    return [path for path in root.rglob("*") if path.is_file() and path.suffix != ".onnx"]


def test_a_damaged_model_is_named_and_written_questions_stay(
    root: Path, settings: Settings, model: Generator, encoder: Encoder, tmp_path: Path
) -> None:
    expand(root, model, encoder, settings, limit=3)
    found = seq2seq.find_seq2seq(settings.doc2query, settings)
    assert not isinstance(found, str)
    broken = tmp_path / "broken"
    shutil.copytree(cache_seq2seq(found, Path(settings.cache)), broken)
    data = bytearray((broken / "encoder_model.onnx").read_bytes())
    data[-100] ^= 1
    (broken / "encoder_model.onnx").write_bytes(data)
    with pytest.raises(EncoderError, match=r"encoder_model\.onnx"):
        Generator(broken, 1)
    assert coverage(root)["items"] == 3


def test_a_model_that_fails_on_one_batch_loses_no_other(
    root: Path, settings: Settings, model: Generator, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(passes, "PUBLISH", 0.0)
    calls = []
    real = model.write_questions

    def failing(texts: list[str]) -> list[list[str]]:
        calls.append(texts)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return real(texts)

    monkeypatch.setattr(model, "write_questions", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        expand(root, model, encoder, settings)
    assert coverage(root)["items"] == 2
    assert expand(root, model, encoder, settings).items == 4
