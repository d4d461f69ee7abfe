"""Kernels called with hostile arrays: those in NumPy, and the compiled ones under sanitisers (`make soak`).

The sanitisers are AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from tests.support.kernels import CALLS
from tests.support.marks import soak_all_but
from tests.support.paths import ROOT
from tests.support.sanitised import REPORTED, copy_sanitised, run

SECONDS = 60
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**copy_sanitised(tmp_path_factory.mktemp("sanitised")), "HELIX_KERNELS": "compiled"}


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


def check_calls(environment: dict[str, str], seed: int, seconds: int) -> None:
    """Check that every hostile call ends in an answer or an error, and that there are enough of them."""
    done = run(environment, "-m", "tests.support.kernels", seed, seconds, timeout=60 + 10 * seconds)
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-500:]}{done.stderr[-6_000:]}"
    counted = orjson.loads(done.stdout)
    assert counted["calls"].keys() == CALLS.keys()
    assert sum(counted["refused"].values()) > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_arrays_end_in_an_answer_or_an_error(environment: dict[str, str], seed: int) -> None:
    check_calls(environment, seed, SECONDS)


@pytest.mark.parametrize("seconds", soak_all_but([3, SECONDS], 3))
def test_hostile_arrays_end_in_an_answer_or_an_error_in_the_reference(seconds: int) -> None:
    check_calls({**os.environ, "PYTHONPATH": str(ROOT), "HELIX_KERNELS": "reference"}, SEEDS[0], seconds)
