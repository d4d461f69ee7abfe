"""Coverage-guided fuzzing of every adapter, for a while: `make soak`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property.test_fuzz import SEEDS

SECONDS = 30  # of each adapter


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make soak tries to")
@pytest.mark.parametrize("name", SEEDS)
def test_no_crash_no_hang_no_unbounded_memory(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i, text in enumerate(SEEDS[name]):
        (corpus / f"seed-{i}").write_text(text)
    limits = [f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=40000"]
    command = [
        sys.executable,
        "-m",
        "tests.support.fuzz_adapter",
        name,
        str(corpus),
        *limits,
        f"-artifact_prefix={tmp_path}/",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 10, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    runs = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
    assert runs, done.stderr[-1_000:]  # it did fuzz
    assert int(runs[0].split()[1]) > 50
