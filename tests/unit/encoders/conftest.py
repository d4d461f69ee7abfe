"""Fixtures of the tests of encoders, which export models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import tiny_rerank
from tests.support.tiny_rerank import export


@pytest.fixture(autouse=True)
def encoders() -> None:
    """The mark of tests that export or load an encoder, for all tests of this folder."""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources, and next to them their exports. Read it only."""
    root = tmp_path_factory.mktemp("rerankers")
    for name in ("stanford", "pylate"):
        tiny_rerank.colbert(root / name, name)
    for name in ("random", "walnut", "constant"):
        tiny_rerank.cross(root / name, name)
    for name in ("stanford-fp32", "stanford-int8", "pylate-fp32", "random-fp32", "random-int8", "walnut-int8"):
        export(root / name[:-5], root / name, name[-4:])
    export(root / "constant", root / "constant-int8", "int8")
    return root
