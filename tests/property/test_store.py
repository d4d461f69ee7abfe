"""Documents in whatever order they are committed, against a dictionary of their items."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import pipelines.ingest.commit
from helix.enrich.neardup import compute_signatures
from helix.sdk.open import open as open_store
from helix.settings import load
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import hash_parts, save_rows
from helix.snapshot.verify import verify_store
from pipelines.ingest.commit import commit
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import build_rows, part_folder, pipeline_fingerprint
from tests.support.draws import draw_share
from tests.support.tiny import BASE, record

SAID = st.tuples(
    st.integers(0, 4),  # turn, whose id is unique by itself: a resumed log repeats it under another session
    st.integers(0, 2),  # session
    st.booleans(),  # changed since the log before, or changed back
)
LOGS = st.lists(st.lists(SAID, min_size=1, max_size=4, unique_by=lambda turn: turn[0]), min_size=1, max_size=6)


@draw_share(0.06, HealthCheck.function_scoped_fixture)
@given(logs=LOGS, order=st.randoms(use_true_random=False), cuts=st.sets(st.integers(1, 5)))
def test_the_order_of_commits_does_not_matter(
    commit_parts: Commit, logs: list[list[tuple[int, int, bool]]], order: random.Random, cuts: set[int]
) -> None:
    """Documents are committed as they become ready: the last accepted version still wins.

    An item that moves from session to session with it is counted where it is.
    """
    versions: dict[int, bool] = {}
    first: dict[tuple[int, bool], str] = {}  # turn, version → session of the first log with it
    documents = []
    for i, log in enumerate(logs):
        records = []
        for place, (turn, session, changed) in enumerate(log):
            versions[turn] = versions.get(turn, False) ^ changed
            first.setdefault((turn, versions[turn]), f"s{session}")
            text = f"turn {turn} in version {versions[turn]}"
            where = {"id": hash_parts("unique", f"t{turn}"), "turn": f"t{turn}", "session": f"s{session}", "ord": place}
            records.append(record(place, text, {**where, "t_ingested": BASE + i}))
        documents.append((i, records))
    model = {f"t{turn}": f"turn {turn} in version {version}" for turn, version in versions.items()}
    sessions_at_once = {f"t{turn}": first[turn, version] for turn, version in versions.items()}
    order.shuffle(documents)
    bounds = sorted({0, len(documents), *(cut for cut in cuts if cut < len(documents))})
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "store"
        for start, stop in pairwise(bounds):
            commit_parts(root, documents[start:stop])
        snapshot = open_store(root).snapshot
        entries = snapshot.text([row for row in range(snapshot.rows) if snapshot.alive[row]])
        assert len(entries) == len(model)
        assert {entry["turns"][0]: entry["text"] for entry in entries} == model
        sessions = {entry["session"] for entry in entries}
        assert snapshot.manifest is not None
        assert snapshot.manifest.counts == {"items": len(model), "sessions": len(sessions), "documents": len(logs)}
        if len(bounds) == 2:  # at once: of equal copies the earliest stays; else the one that was there already
            assert {entry["turns"][0]: entry["session"] for entry in entries} == sessions_at_once
        assert verify_store(root).problems == ()


Commit = Callable[[Path, Sequence[tuple[int, list[dict[str, Any]]]]], None]


@pytest.fixture
def commit_parts(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Publish documents, given as (order of acceptance, records), in one commit, without embedding and training."""
    monkeypatch.setattr(pipelines.ingest.commit, "load_router", lambda *_: "not in this test")
    (tmp_path / "inbox").mkdir()
    encoder = open_encoder(tmp_path, load())
    fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, load())

    def run(root: Path, documents: Sequence[tuple[int, list[dict[str, Any]]]]) -> None:
        paths.create_folders(root)
        for i, records in documents:
            name, accepted = f"{i:064x}", datetime.fromtimestamp(BASE + i, UTC)
            inbox.accept_envelope(root, Envelope(name, f"{i}.jsonl", "", "jsonl", None, (), None, accepted, {}, ()))
            texts = [entry["text"] for entry in records]
            vectors = np.random.default_rng(i).normal(size=(len(texts), encoder.dim)).astype(np.float32)
            part = {"path": f"{i}.jsonl", "format": "jsonl", "accepted": accepted.isoformat(), "sessions": 1}
            part |= {"turns": len(texts), "items": len(texts), "redacted": {}, "problems": [], "unknown": {}}
            with paths.build_folder(part_folder(root, name, fingerprint)) as folder:
                save_rows(build_rows(records, texts, [[] for _ in texts], vectors, compute_signatures(texts)), folder)
                (folder / "part.json").write_text(json.dumps(part))
        assert len(commit(root, encoder, load()).documents) == len(documents)

    return run
