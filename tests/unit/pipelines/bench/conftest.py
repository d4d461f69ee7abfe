"""Synthetic stores, kept over runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helix.settings import load
from pipelines.bench.synthetic_store import build_store
from tests.conftest import STORE_SOURCES
from tests.support.caching import INDEXING, cache_folder

ITEMS, REAL = 2_000, 300


@pytest.fixture(scope="session")
def synthetic_store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A store of so many items of seed 7, with so many real vectors."""
    return copy_synthetic(tmp_path_factory.mktemp("synthetic"), ITEMS, REAL)


def copy_synthetic(folder: Path, items: int, real: int) -> Path:
    def make(root: Path) -> None:
        build_store(root, items, 7, load(), lambda _: None, real=real)

    made = cache_folder(f"synthetic-{items}", make, INDEXING, (*STORE_SOURCES, "pipelines/bench/data/*"))
    return shutil.copytree(made, folder / "store")
