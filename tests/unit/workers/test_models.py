"""Models of a worker process: one session for all stores of an encoder, each with files of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from workers import models


@pytest.fixture
def stores(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HELIX_STORES", str(tmp_path))
    monkeypatch.setenv("HELIX_THREADS", "1")
    monkeypatch.setattr(models, "_encoders", {})
    models._locate_new.cache_clear()
    return tmp_path


def test_a_hundred_stores_open_one_session(stores: Path) -> None:
    opened = []
    for number in range(100):
        paths.create_folders(stores / f"s{number}")
        opened.append(models.open_encoder(stores / f"s{number}"))
    assert len({id(encoder._session) for encoder, _ in opened}) == 1
    assert len({id(counter) for _, counter in opened}) == 1
    assert len(models._encoders) == 1


def test_a_store_with_a_lineage_shares_the_session_and_names_its_own_files(
    stores: Path, sample_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        shutil.copytree(sample_store, stores / name, ignore=shutil.ignore_patterns("pins"))
    (first, _), (second, _) = (models.open_encoder(stores / name) for name in ("one", "two"))
    assert first._session is second._session
    assert first.folder.parents[1] == stores / "one"
    shutil.rmtree(stores / "one")
    again, _ = models.open_encoder(stores / "two")
    assert again.folder == stores / "two" / "encoders" / again.spec.fingerprint
    assert again.folder.is_dir()
    assert again.query("walnuts").shape == (again.dim,)


def test_the_cached_lists_of_done_documents_are_bounded(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "_done_cache", {})
    for number in range(inbox._MAX_CACHED + 10):
        paths.create_folders(stores / f"s{number}")
        assert not inbox.is_done(stores / f"s{number}", "ab" * 32)
    assert len(inbox._done_cache) == inbox._MAX_CACHED
    assert stores / f"s{inbox._MAX_CACHED + 9}" in inbox._done_cache
    assert stores / "s0" not in inbox._done_cache
