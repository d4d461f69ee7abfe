"""Kept token vectors: the files against naive reading, and the pass with real encoders, from ingest to forgetting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli.main import main
from helix.encoders.rerank import LateEncoder, open_late
from helix.errors import StoreError, UsageError
from helix.sdk.memory import Memory
from helix.settings import Settings, load
from helix.snapshot.index import tokens as index_module
from helix.snapshot.index.tokens import KIND, TokenIndex, TokenVectors, merge_tokens, open_tokens, write_tokens
from helix.snapshot.manifest import Index, Lineage
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from helix.types import Bundle
from pipelines.embedded.ingest import ingest
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from pipelines.passes import run as passes
from pipelines.passes import tokens as module
from pipelines.passes.doc2query import has_model, has_waiting
from pipelines.passes.run import TOKENS
from pipelines.passes.tokens import count_waiting, keep_tokens, open_token_encoder
from tests.compat.history import current
from tests.conftest import copy_store
from tests.support import tiny_rerank
from tests.support.caching import EXPORTING, cache_folder
from workers import models, tasks

QUESTION = "who bakes walnut bread with salt?"
TURNS = [
    "walnut bread with olive oil",
    "who bakes the bread?",
    "olive oil, salt and more bread",
    "a walnut and a walnut and more salt",
    "the oil with the salt",
    "bread bread bread who bakes",
]
STEP = 0.01
"""Largest change of a score by 8-bit codes: of the 16 entries of a vector, each is off by half a step at most."""


# ---------------------------------------------------------------- the files


DIM = 3


def make_index(root: Path, rows: Sequence[int], rng: np.random.Generator, name: str = "i") -> TokenIndex:
    """Write an index with 0 to 4 tokens a row, and open it."""
    indptr = np.cumsum([0, *rng.integers(0, 5, len(rows))], dtype=np.int64)
    codes = rng.integers(-127, 128, (int(indptr[-1]), DIM)).astype(np.int8)
    folder = root / "indexes" / name / KIND
    write_tokens(folder, np.array(rows, np.uint32), indptr, codes, rng.random(len(codes)).astype(np.float32))
    return reopen(root, name)


def reopen(root: Path, name: str, dim: int = DIM) -> TokenIndex:
    return open_tokens(root, Index(name, KIND, ("s",), (), {"model": "m", "fingerprint": "f", "dim": dim}))


def read_naively(index: TokenIndex) -> dict[int, list[tuple[list[int], float]]]:
    """Return (codes, scale) of each token of each row, one after the other."""
    arrays, found = index.arrays, {}
    for i, row in enumerate(index.rows.tolist()):
        at = range(arrays["tokens.indptr"][i], arrays["tokens.indptr"][i + 1])
        found[row] = [(arrays["tokens.i8"][t].tolist(), float(arrays["tokens.scale"][t])) for t in at]
    return found


def test_rows_get_their_own_vectors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = {"a": (0, [0, 2, 5, 9]), "b": (0, [1, 3, 7]), "c": (10, [0, 1, 4]), "d": (20, [])}
    parts = [(start, make_index(tmp_path, rows, rng, name)) for name, (start, rows) in places.items()]
    wanted = {start + row: one for start, held in parts for row, one in read_naively(held).items()}
    vectors = TokenVectors({"model": "m", "fingerprint": "f", "dim": DIM}, parts)
    for _ in range(50):
        rows = rng.choice(30, rng.integers(0, 12), replace=False)
        position, indptr, codes, scale = vectors.gather(rows)
        assert sorted(position.tolist()) == [i for i, row in enumerate(rows.tolist()) if row in wanted]
        for i, row in enumerate(rows[position].tolist()):
            part = slice(indptr[i], indptr[i + 1])
            assert list(zip(codes[part].tolist(), scale[part].tolist(), strict=True)) == wanted[row]
        assert len(codes) == len(scale) == indptr[-1]


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_a_merge_copies_the_vectors_of_the_rows_that_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """In blocks of one row or of all; rows of two indexes alternate, one row is in both."""
    monkeypatch.setattr(index_module, "_AT_ONCE", block)
    rng = np.random.default_rng(1)
    first, second = (make_index(tmp_path, rows, rng, str(rows[0])) for rows in ([0, 2, 4, 6], [1, 3, 6]))
    new = {0: 3, 2: -1, 4: 0, 6: 5}, {1: 4, 3: -1, 6: 5}
    parts = [(held, np.array(list(to.values()), np.int64)) for held, to in zip((first, second), new, strict=True)]
    assert merge_tokens(tmp_path / "indexes" / "merged" / KIND, parts).tolist() == [0, 3, 4, 5]
    old, other = read_naively(first), read_naively(second)
    assert read_naively(reopen(tmp_path, "merged")) == {0: old[4], 3: old[0], 4: other[1], 5: old[6]}
    assert not len(merge_tokens(tmp_path / "none", [(first, np.full(4, -1))]))
    assert not (tmp_path / "none").exists()


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    make_index(tmp_path, [0, 1, 2], np.random.default_rng(2))
    with pytest.raises(StoreError, match=r"tokens\.i8\.npy is damaged: its shape is \[\d+, 3\], not \[\d+, 4\]"):
        reopen(tmp_path, "i", DIM + 1)
    path = tmp_path / "indexes" / "i" / KIND / "tokens.indptr.npy"
    np.save(path, np.load(path) + 1)
    with pytest.raises(StoreError, match=r"tokens\.indptr\.npy is damaged: it does not span"):
        reopen(tmp_path, "i")


# ---------------------------------------------------------------- the pass


@pytest.fixture(scope="module")
def colbert() -> Path:
    """A ColBERT of random weights in single precision: a text has the same vectors in every batch."""

    def make(root: Path) -> None:
        tiny_rerank.colbert(root / "colbert")
        tiny_rerank.export(root / "colbert", root / "colbert-fp32", "fp32")

    sources = ("helix/encoders/*.py", "tests/support/tiny_rerank.py")
    return cache_folder("late", make, EXPORTING, sources) / "colbert-fp32"


@pytest.fixture(scope="module")
def settings(colbert: Path, cache: Path) -> Settings:
    return replace(load(), token_vectors="on", late_encoder=str(colbert), doc2query="off", answers=0)


@pytest.fixture(scope="module")
def own_settings(settings: Settings) -> Settings:
    """Settings with the lineage's own encoder as the reranker."""
    return replace(settings, late_encoder="")


@pytest.fixture(scope="module")
def encoder(colbert: Path) -> LateEncoder:
    return open_late(colbert)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Path:
    """A store whose items have no token vectors. Read it only: `root` is a copy."""
    folder = tmp_path_factory.mktemp("tokens")
    add_log(folder / "store", folder / "log.jsonl", TURNS, settings)
    return folder / "store"


@pytest.fixture
def root(waiting: Path, tmp_path: Path) -> Path:
    return copy_store(waiting, tmp_path / "store")


@pytest.fixture(scope="module")
def kept_store(waiting: Path, settings: Settings, encoder: LateEncoder) -> Path:
    root = copy_store(waiting, waiting.with_name("kept"))
    keep_tokens(root, encoder, settings)
    return root


@pytest.fixture
def kept_root(kept_store: Path, tmp_path: Path) -> Path:
    """A store whose items have token vectors of the ColBERT."""
    return copy_store(kept_store, tmp_path / "store")


def add_log(root: Path, log: Path, texts: Sequence[str], settings: Settings, **given: Any) -> None:
    lines = [{"session": "s", "id": f"t{i}", "role": "document", "text": text, **given} for i, text in enumerate(texts)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not ingest(root, [log], settings).refused


def coverage(root: Path) -> dict[str, object]:
    return dict(current(root).coverage[KIND])


def own_indexes(root: Path) -> list[Index]:
    return [index for index in current(root).indexes if index.kind == KIND]


def read_kept(root: Path) -> dict[str, bytes]:
    """Return the codes and scales of each live item, by its text."""
    snap, found = Snapshot.open(root), {}
    for row in np.flatnonzero(snap.alive).tolist():
        gathered = snap.tokens.gather(np.array([row])) if snap.tokens else None
        if gathered and len(gathered.position):
            found[snap.text(np.array([row]))[0]["text"]] = gathered.codes.tobytes() + gathered.scale.tobytes()
    return found


def watch_encoder(memory: Memory) -> list[str]:
    """Return the list of passages that the late encoder is run on from now on."""
    seen: list[str] = []
    late = memory.models.late
    assert late is not None

    def passages(texts: Sequence[str]) -> Any:
        seen.extend(texts)
        return late.passages(texts)

    memory.models._late = replace(late, passages=passages)
    return seen


def ask(memory: Memory, question: str = QUESTION, **given: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the late scores by text, in the order of the answer, and the stage's record."""
    found: Bundle = memory.recall(question, rerank="late", explain=True, **given)
    assert found.degraded == ()
    assert found.trace is not None
    scores = {one["id"]: one["rerank"] for one in found.trace["candidates"]}
    stage = next(stage for stage in found.trace["stages"] if stage["stage"] == "rerank")
    return {item.text: scores[item.id] for item in found.items if scores[item.id] is not None}, stage


def test_it_is_off_by_default_with_a_reason(waiting: Path, capsys: Any) -> None:
    off = replace(load(), doc2query="off")
    assert open_token_encoder(waiting, off) == "token vectors are off by their setting"
    assert (count_waiting(waiting, off), has_model(off), has_waiting(waiting, off)) == (0, False, False)
    assert Snapshot.open(waiting).tokens is None
    assert main(["expand", "--store", str(waiting)]) == 4
    assert "token vectors are off by their setting" in capsys.readouterr().err
    with pytest.raises(UsageError, match="HELIX_TOKEN_VECTORS='yes' is neither on nor off"):
        load({"HELIX_TOKEN_VECTORS": "yes"})


def test_a_new_store_says_which_vectors_its_items_will_have(
    tmp_path: Path, settings: Settings, own_settings: Settings
) -> None:
    said = []
    missing = replace(settings, late_encoder="not-there")
    for i, given in enumerate((settings, own_settings, missing, replace(settings, token_vectors="off"))):
        add_log(tmp_path / str(i), tmp_path / "log.jsonl", TURNS[:1], given)
        said.append(coverage(tmp_path / str(i)))
    assert said[:2] == [{"items": 0, "model": "colbert"}, {"items": 0, "model": current(tmp_path / "1").lineage.name}]
    assert str(said[2]["off"]).startswith("no reranker 'not-there'")
    assert said[3] == {"off": "token vectors are off by their setting"}
    assert read_status(tmp_path / "0")["backlog"] == {KIND: 1}
    assert isinstance(open_token_encoder(tmp_path / "2", missing), str)


def test_a_recall_looks_the_vectors_up(root: Path, settings: Settings, encoder: LateEncoder) -> None:
    """The same order and scores as by the encoder, which is run only for items without vectors."""
    memory = Memory(root, settings)
    before, stage = ask(memory)
    assert (stage["kept"], stage["encoded"], len(before)) == (0, 6, 6)
    for limit, left in ((2, 4), (None, 0)):
        assert keep_tokens(root, encoder, settings, limit=limit).waiting == left
        memory.refresh()
        seen = watch_encoder(memory)
        after, stage = ask(memory)
        assert (stage["kept"], stage["encoded"], len(seen)) == (6 - left, left, left)
        assert not set(seen) & set(read_kept(root))
        assert list(after) == list(before)
        assert list(after.values()) == pytest.approx(list(before.values()), abs=STEP)
        assert list(after.values()) != list(before.values())
    assert coverage(root) == {"items": 6, "model": "colbert"}
    assert read_status(root)["backlog"] == {}
    assert keep_tokens(root, encoder, settings).items == 0  # nothing is embedded twice
    assert verify_store(root).problems == ()


def test_real_texts_have_the_encoders_scores(own_store: Path) -> None:
    """On the bundled sample, with the default encoder.

    Batches like those of the pass give the vectors before rounding to 8 bits: scores differ by .003 at most. Other
    batches of an int8 network differ by more, as its activations share a range.
    """
    settings = replace(load(), token_vectors="on", answers=0)
    late = open_token_encoder(own_store, settings)
    assert not isinstance(late, str)
    questions = ["What did I tell Priya about vacation?", "database is locked", "flights to Goa", "why sqlite"]
    before = [ask(Memory(own_store, settings), question, k=20)[0] for question in questions]
    keep_tokens(own_store, late, settings)
    memory, texts = Memory(own_store, settings), {}
    (opened,) = memory.snapshot.row_map.segments
    whole = [entry["text"] for entry in opened.texts(np.flatnonzero(memory.snapshot.alive))]
    for start in range(0, len(whole), module.BATCH):
        batch = whole[start : start + module.BATCH]
        texts |= dict(zip(batch, late.passages(batch), strict=True))
    for question, expected in zip(questions, before, strict=True):
        found, stage = ask(memory, question, k=20)
        assert (stage["encoded"], stage["kept"] > 3) == (0, True)
        query = late.query(question)
        exact = {text: float((query @ texts[text].T).max(axis=1).mean()) for text in found}
        assert list(found.values()) == pytest.approx(list(exact.values()), abs=0.003)
        ordered = sorted(found, key=lambda text: -found[text])
        for better, worse in pairwise(ordered):
            assert exact[better] > exact[worse] - 0.003
        common = set(found) & set(expected)
        assert len(common) > 3
        assert [found[text] for text in common] == pytest.approx([expected[text] for text in common], abs=0.06)


def test_hidden_rows_are_not_read(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "store"
    for name, acl in (("a", []), ("b", ["ana"])):
        texts = [f"{text} {name}" for text in TURNS[:3]]
        add_log(root, tmp_path / f"{name}.jsonl", texts, settings, session=name, project=name, acl=acl)
    encoder = open_token_encoder(root, settings)
    assert not isinstance(encoder, str)
    keep_tokens(root, encoder, settings)
    real, read = TokenVectors.gather, set[int]()
    monkeypatch.setattr(TokenVectors, "gather", lambda self, rows: read.update(rows.tolist()) or real(self, rows))
    memory = Memory(root, settings)
    for given, names in (({}, "a"), ({"principal": "ana"}, "ab"), ({"principal": "ana", "project": "b"}, "b")):
        read.clear()
        ask(memory, **given)
        assert {entry["text"][-1] for entry in memory.snapshot.text(np.array(sorted(read)))} == set(names)


def test_vectors_of_another_encoder_are_not_used(
    kept_root: Path, waiting: Path, settings: Settings, own_settings: Settings
) -> None:
    """The answer is that of a store without vectors, and the trace names both encoders."""
    found, stage = ask(Memory(kept_root, own_settings))
    plain, without = ask(Memory(waiting, own_settings))
    assert (found, stage["kept"], stage["encoded"]) == (plain, 0, 6)
    assert stage["unused"].startswith("the kept token vectors are of colbert (")
    assert (
        f"the reranker is {current(kept_root).lineage.name} ({current(kept_root).lineage.encoder})" in stage["unused"]
    )
    assert "unused" not in without
    other = open_token_encoder(kept_root, own_settings)
    assert not isinstance(other, str)
    assert [count_waiting(kept_root, each) for each in (settings, own_settings)] == [0, 6]
    keep_tokens(kept_root, other, own_settings, limit=2)
    assert len({index.params["fingerprint"] for index in own_indexes(kept_root)}) == 1  # never two encoders at once
    assert coverage(kept_root) == {"items": 2, "model": other.name}
    assert ask(Memory(kept_root, own_settings))[1]["kept"] == 2
    assert "unused" in ask(Memory(kept_root, settings))[1]


def test_compaction_carries_them_and_a_forgotten_item_leaves_none(kept_root: Path, settings: Settings) -> None:
    before = read_kept(kept_root)
    assert set(before) == set(TURNS)
    add_log(kept_root, kept_root.with_name("more.jsonl"), ["more oil and bread"], settings, session="more")
    assert len(current(kept_root).segments) == 2
    compact(kept_root, settings, full=True)
    assert (len(current(kept_root).segments), read_kept(kept_root)) == (1, before)
    assert coverage(kept_root)["items"] == 6
    snap = Snapshot.open(kept_root)
    entry = next(entry for entry in snap.text(np.arange(snap.rows)) if entry["text"] == TURNS[3])
    gone = before.pop(TURNS[3])
    codes = gone[: len(gone) * 16 // 20]  # of 16 dimensions, with 4 bytes of scale a token
    assert any(codes in path.read_bytes() for path in kept_root.glob(f"indexes/*/{KIND}/*"))
    forget(kept_root, Selection(items=(entry["id"],)), settings)
    assert read_kept(kept_root) == before
    assert not any(codes in path.read_bytes() for path in kept_root.rglob("*") if path.is_file())
    assert coverage(kept_root) == {"items": 5, "model": "colbert"}
    assert verify_store(kept_root).problems == ()
    memory = Memory(kept_root, settings)
    seen = watch_encoder(memory)
    assert ask(memory)[1]["kept"] == 5
    assert seen == ["more oil and bread"]


def test_a_reindex_copies_them_unless_their_encoder_goes(kept_root: Path, settings: Settings) -> None:
    before = read_kept(kept_root)
    assert reindex(kept_root, replace(settings, item_words=120)).swapped
    assert read_kept(kept_root) == before
    assert count_waiting(kept_root, settings) == 0
    (index,) = own_indexes(kept_root)
    old, new = Lineage("e1", "one", 4, "p"), Lineage("e2", "two", 4, "p")
    assert TOKENS.outlives(index, old, new)
    mine = replace(index, params={**index.params, "fingerprint": "e1"})
    assert (TOKENS.outlives(mine, old, new), TOKENS.outlives(mine, old, old)) == (False, True)


def test_many_small_indexes_become_one_and_large_ones_stay(
    root: Path, settings: Settings, encoder: LateEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(passes, "PUBLISH", 0.0)
    monkeypatch.setattr(passes, "MERGED", 2)
    monkeypatch.setattr(module, "TOKENS", TOKENS._replace(foldable=2))
    assert keep_tokens(root, encoder, settings).items == 6
    assert sorted(len(open_tokens(root, index).rows) for index in own_indexes(root)) == [2, 2, 2]
    before = read_kept(root)
    assert set(before) == set(TURNS)
    monkeypatch.setattr(module, "TOKENS", TOKENS)
    add_log(root, root.with_name("more.jsonl"), ["more oil"], settings, session="more")
    compact(root, settings, full=True)
    assert [len(open_tokens(root, index).rows) for index in own_indexes(root)] == [6]
    assert read_kept(root) == before


def test_the_command_and_a_worker_keep_vectors(
    root: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: Any
) -> None:
    for name in ("token_vectors", "late_encoder", "doc2query"):
        monkeypatch.setenv(f"HELIX_{name.upper()}", getattr(settings, name))
    monkeypatch.setenv("HELIX_STORE", str(root))
    assert main(["expand", "--limit", "1", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["tokens"], fields["sparse"]) == ({"items": 1, "waiting": 5}, {"off": "no sparse encoder is set"})
    assert main(["expand", "--limit", "1"]) == 0
    assert "1 item got token vectors of colbert" in capsys.readouterr().out
    sent: list[str] = []
    monkeypatch.setattr(tasks, "request_task", lambda app, name, store: sent.append(name))
    monkeypatch.setattr(tasks, "EXPAND_ITEMS", 3)
    opened = (models._load_token_encoder, models.open_document_encoder, models.open_generator)
    models._late_encoders.clear()
    for cached in opened:
        cached.cache_clear()
    assert (has_model(settings), has_waiting(root, settings)) == (True, True)
    tasks.expand()
    assert (count_waiting(root, settings), sent) == (1, ["helix.expand"])
    tasks.expand()
    assert (count_waiting(root, settings), has_waiting(root, settings), sent) == (0, False, ["helix.expand"])
    monkeypatch.setenv("HELIX_LATE_ENCODER", "not-there")
    models._load_token_encoder.cache_clear()
    models._late_encoders.clear()
    tasks.expand()
    assert "no token vectors are kept: no reranker 'not-there'" in caplog.text
    models._late_encoders.clear()
    for cached in opened:
        cached.cache_clear()
