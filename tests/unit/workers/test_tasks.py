"""Tasks: what they let nobody read in a log, and the names they take."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helix.snapshot import paths
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from pipelines.ingest.enrich import Tried
from workers import tasks

DOCUMENT = "ab" * 32


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a document that waits, and no encoder to wait for."""
    paths.create(tmp_path)
    now = datetime.now(UTC)
    ledger.write(tmp_path, Envelope(DOCUMENT, "/a", "the zorbified harp", "jsonl", None, (), now, now, {}, ()))
    monkeypatch.setenv("HELIX_STORE", str(tmp_path))
    encoder = SimpleNamespace(spec=SimpleNamespace(fingerprint="f"))
    monkeypatch.setattr(tasks, "_encoder", lambda root: (encoder, None))
    return tmp_path


def raises(*_: Any) -> Tried:
    raise KeyError("the zorbified harp")


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (lambda *_: Tried(error="ValueError: 'the zorbified harp'", dead=True), "given up"),
        (lambda *_: Tried(error="ValueError: 'the zorbified harp'"), "failed, and tried again"),
        (raises, "failed: KeyError in test_tasks.py:"),
    ],
)
def test_what_went_wrong_is_said_without_the_words(
    tried: Any, said: str, store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "try_enrich", tried)
    tasks.enrich(DOCUMENT)
    assert said in caplog.text
    assert all("zorbified" not in str(vars(record)) for record in caplog.records)
    assert caplog.records[-1].document == DOCUMENT


@pytest.mark.parametrize("encoder", ["ab" * 8, "/tmp", "../encoders/x", ""])
def test_a_reindex_takes_an_encoder_of_the_store_and_no_folder(
    encoder: str, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a message names that is not there leaves nothing behind."""
    tasks.reindex(DOCUMENT, encoder)
    said = "there is nothing to reindex" if len(encoder) == 16 else "is no document name"
    assert said in caplog.text
    assert not tries.records(store)
    assert not list((store / "parts").iterdir())
