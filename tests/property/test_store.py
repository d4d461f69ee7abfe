"""Random sequences of growing, changing and repeated logs against a dictionary of their items."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
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
from pipelines.embedded.ingest import ingest
from pipelines.ingest.commit import commit
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import build_rows, part_folder, pipeline_fingerprint
from tests.support.draws import draw_share
from tests.support.tiny import BASE, record

TURN = st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from(["walnut", "parsley", "saffron", "thyme"]))
LOG = st.lists(TURN, min_size=1, max_size=6, unique_by=lambda turn: turn[:2])


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Leave fsync and training out, for dozens of stores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(pipelines.ingest.commit, "load_router", lambda *_: "not in this test")
        yield


@draw_share(0.05, HealthCheck.function_scoped_fixture)
@given(logs=st.lists(LOG, min_size=1, max_size=4))
def test_the_store_holds_the_newest_version_of_every_turn(cache: Path, logs: list[list[tuple[int, int, str]]]) -> None:
    with tempfile.TemporaryDirectory() as work:
        root, model, seen = Path(work) / "store", {}, set()
        for i, log in enumerate(logs):
            path = Path(work) / f"{i}.jsonl"
            lines = [
                {"session": f"s{s}", "id": f"t{t}", "text": f"{word} in turn {t}", "ts": "2026-01-01T00:00:00Z"}
                for s, t, word in log
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            report = ingest(root, [path], load())
            content = path.read_text()
            assert (report.accepted, report.duplicates) == ((0, 1) if content in seen else (1, 0))
            if content not in seen:  # the same bytes again change nothing, not even back
                model |= {(f"s{s}", f"t{t}"): f"{word} in turn {t}" for s, t, word in log}
            seen.add(content)
        snapshot = open_store(root).snapshot
        rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
        entries = snapshot.text(rows)
        assert len(entries) == len(model)
        assert {(entry["session"], entry["turns"][0]): entry["text"] for entry in entries} == model
        assert verify_store(root).problems == ()


# ---------------------------------------------------------------- in whatever order they are committed

SAID = st.tuples(
    st.integers(0, 4),  # turn, whose id is unique by itself: a resumed log repeats it under another session
    st.integers(0, 2),  # session
    st.booleans(),  # changed since the log before, or changed back
)
LOGS = st.lists(st.lists(SAID, min_size=1, max_size=4, unique_by=lambda turn: turn[0]), min_size=1, max_size=6)


@draw_share(0.08, HealthCheck.function_scoped_fixture)
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
            records.append(make_record(i, f"t{turn}", f"s{session}", text, place))
        documents.append((i, records))
    model = {f"t{turn}": f"turn {turn} in version {version}" for turn, version in versions.items()}
    where = {f"t{turn}": first[turn, version] for turn, version in versions.items()}
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
            assert {entry["turns"][0]: entry["session"] for entry in entries} == where
        assert verify_store(root).problems == ()


def make_record(i: int, turn: str, session: str, text: str, place: int) -> dict[str, Any]:
    given = {"id": hash_parts("unique", turn), "turn": turn, "session": session, "ord": place, "t_ingested": BASE + i}
    return record(place, text, given)


Commit = Callable[[Path, Sequence[tuple[int, list[dict[str, Any]]]]], None]


@pytest.fixture
def commit_parts(cache: Path, tmp_path: Path) -> Commit:
    """Publish documents, given as (order of acceptance, records), in one commit, without embedding."""
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
            part = {
                **{"path": f"{i}.jsonl", "format": "jsonl", "accepted": accepted.isoformat()},
                **{"turns": len(texts), "items": len(texts), "sessions": 1},
                **{"redacted": {}, "problems": [], "unknown": {}},
            }
            with paths.build_folder(part_folder(root, name, fingerprint)) as folder:
                save_rows(build_rows(records, texts, [[] for _ in texts], vectors, compute_signatures(texts)), folder)
                (folder / "part.json").write_text(json.dumps(part))
        assert len(commit(root, encoder, load()).documents) == len(documents)

    return run
