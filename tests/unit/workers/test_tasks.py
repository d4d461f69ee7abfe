"""Tasks: they log no text of a document, and check their arguments."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.ledger.inbox import Envelope
from pipelines.ingest.enrich import EnrichAttempt
from workers import tasks

DOCUMENT = "ab" * 32


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a pending document, and a fake encoder."""
    paths.create_folders(tmp_path)
    now = datetime.now(UTC)
    inbox.accept_envelope(tmp_path, Envelope(DOCUMENT, "/a", "the zorbified harp", "jsonl", None, (), now, now, {}, ()))
    monkeypatch.setenv("HELIX_STORE", str(tmp_path))
    encoder = SimpleNamespace(spec=SimpleNamespace(fingerprint="f"))
    monkeypatch.setattr(tasks.models, "open_encoder", lambda root: (encoder, None))
    return tmp_path


def fail(*_: Any) -> EnrichAttempt:
    raise KeyError("the zorbified harp")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda *_: EnrichAttempt(error="ValueError: 'the zorbified harp'", dead=True), "given up"),
        (lambda *_: EnrichAttempt(error="ValueError: 'the zorbified harp'"), "failed, and tried again"),
        (fail, "failed: KeyError in test_tasks.py:"),
    ],
)
def test_a_failure_is_logged_without_the_words_of_the_document(
    attempt: Any, message: str, store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "try_enrich", attempt)
    tasks.enrich(DOCUMENT)
    assert message in caplog.text
    assert all("zorbified" not in str(vars(record)) for record in caplog.records)
    assert caplog.records[-1].document == DOCUMENT


def test_a_reindex_accepts_only_an_encoder_of_the_store(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    for encoder in ("ab" * 8, "/tmp", "../encoders/x", ""):
        caplog.clear()
        tasks.reindex(DOCUMENT, encoder)
        message = "there is nothing to reindex" if len(encoder) == 16 else "is no document name"
        assert message in caplog.text, encoder
    assert not attempts.list_records(store)
    assert not list((store / "parts").iterdir())
