"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer, called with hostile arrays: `make soak`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.support.kernels import CALLS
from tests.support.sanitised import REPORTED, copy_sanitised, run

SECONDS = 60
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return copy_sanitised(tmp_path_factory.mktemp("sanitised"))


@pytest.mark.soak
def test_a_sanitiser_reports_a_read_beyond_an_array(environment: dict[str, str], tmp_path: Path) -> None:
    script = """
import numpy as np
from helix.native import library, rows
from helix.native.arrays import check_array
assert "sanitised" in library.__file__
values, out = np.arange(1_000), np.empty(1_000, np.int64)
table, place = np.empty(2_048, np.int64), np.empty(1_000, np.int64)
at = [check_array("", array, np.dtype(np.int64), len(array)) for array in (values, table, out, place)]
rows._find_distinct(at[0], 1_001, at[1], 2_048, at[2], at[3])
"""
    done = run(environment, "-c", script)
    assert done.returncode == REPORTED, done.stderr[-2_000:]
    assert "heap-buffer-overflow" in done.stderr
    assert "in find_distinct" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_arrays_end_in_an_answer_or_an_error(environment: dict[str, str], seed: int) -> None:
    done = run(environment, "-m", "tests.support.kernels", seed, SECONDS, timeout=10 * SECONDS)
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-500:]}{done.stderr[-6_000:]}"
    counted = orjson.loads(done.stdout)
    assert counted["calls"].keys() == CALLS.keys()
    assert sum(counted["refused"].values()) > 100
