"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer, called with arrays that lie: `make soak`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.support.kernels import CALLS
from tests.support.sanitised import REPORTED, run, sanitised

SECONDS = 60
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return sanitised(tmp_path_factory.mktemp("sanitised"))


@pytest.mark.soak
def test_the_sanitisers_look(environment: dict[str, str], tmp_path: Path) -> None:
    """A kernel that is given an address, as none may be, and one entry too few, is ended by a report."""
    script = """
import numpy as np
from helix import native
from helix.native.checked import pointer
assert "sanitised" in native.__file__
values, out = np.arange(1_000), np.empty(1_000, np.int64)
table, place = np.empty(2_048, np.int64), np.empty(1_000, np.int64)
where = [pointer("", array, np.dtype(np.int64), len(array)) for array in (values, table, out, place)]
native._distinct(where[0], 1_001, where[1], 2_048, where[2], where[3])
"""
    done = run(environment, "-c", script)
    assert done.returncode == REPORTED, done.stderr[-2_000:]
    assert "heap-buffer-overflow" in done.stderr
    assert "in distinct" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_arrays_end_in_an_answer_or_an_error(environment: dict[str, str], seed: int) -> None:
    done = run(environment, "-m", "tests.support.kernels", seed, SECONDS, timeout=10 * SECONDS)
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-500:]}{done.stderr[-6_000:]}"
    counted = orjson.loads(done.stdout)
    assert counted["calls"].keys() == CALLS.keys()
    assert sum(counted["refused"].values()) > 100
