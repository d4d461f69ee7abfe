"""Modules that a process must not load; `make imports` checks the floors of `[tool.importlinter]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

HEAVY = ("torch", "transformers", "sentence_transformers", "optimum", "celery", "sklearn", "kombu", "onnx")


def list_imports(statement: str) -> set[str]:
    """Return the modules that a new interpreter imports for a statement."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


QUERY = ("query.service", "query.rest", "query.cli.serve", "helix")
"""The modules of the query process."""


def test_the_query_process_loads_nothing_heavy(processes: None) -> None:
    statement = f"import {', '.join(QUERY)}; helix.open; from helix.cli.main import main; main(['--version'])"
    modules = list_imports(statement)
    assert modules >= set(QUERY)
    assert not {name for name in modules if name.split(".")[0] in (*HEAVY, "workers", "pipelines")}
    assert not modules & {"helix.snapshot.writer", "helix.encoders.dense_export", "helix.deep.endpoint"}
    assert "helix.snapshot.replication.object_store" not in modules


def test_a_whole_recall_loads_nothing_heavy(sample_store: Path) -> None:
    modules = list_imports(f"import helix; assert helix.open({str(sample_store)!r}).recall('Priya').items")
    assert "onnxruntime" in modules
    assert not {name for name in modules if name.split(".")[0] in HEAVY}


def test_importing_helix_loads_no_library(processes: None) -> None:
    assert not list_imports("import helix") & {"numpy", "pyarrow", "duckdb", "onnxruntime"}


def test_only_a_pull_loads_the_writer(processes: None) -> None:
    assert "helix.snapshot.writer" not in list_imports("import helix.snapshot.replication.pull")


def test_no_module_pickles() -> None:
    for package in ("helix", "pipelines", "workers", "query"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8")
            assert "import pickle" not in text, path
            assert "allow_pickle=True" not in text, path
