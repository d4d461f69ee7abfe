"""Fixtures of the tests of encoders, which export models."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from helix.encoders import onnx_export
from helix.encoders.onnx_export import ExportJob
from tests.support import tiny_rerank
from tests.support.caching import EXPORTING, cache_folder
from tests.support.tiny_rerank import export


@pytest.fixture
def exports_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export in this process, which has imported torch; in `test_dense.py` one export starts a process."""

    def run_export(export: ExportJob, target: Path) -> None:
        monkeypatch.setattr(sys, "argv", [export.module, str(export.source), str(target), *export.options])
        runpy.run_module(export.module, run_name="__main__")

    monkeypatch.setattr(onnx_export, "_run_export", run_export)


@pytest.fixture(autouse=True)
def encoders() -> None:
    """The mark of tests that export or load an encoder, for all tests of this folder."""


@pytest.fixture(scope="session")
def models() -> Path:
    """Sources of rerankers, and next to them their exports. Read it only: other runs use it."""

    def make(root: Path) -> None:
        for name in ("stanford", "pylate"):
            tiny_rerank.colbert(root / name, name)
        for name in ("random", "walnut", "constant"):
            tiny_rerank.cross(root / name, name)
        exports = ("stanford-fp32", "stanford-int8", "pylate-fp32", "random-fp32", "random-int8", "walnut-int8")
        for name in (*exports, "constant-int8"):
            export(root / name[:-5], root / name, name[-4:])

    sources = ("helix/encoders/*.py", "tests/support/tiny_rerank.py", "tests/unit/encoders/conftest.py")
    return cache_folder("rerankers", make, EXPORTING, sources)
