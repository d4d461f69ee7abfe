"""The reference in NumPy against the compiled kernels: the same bits, the same errors."""

from __future__ import annotations

import copy
import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from helix.errors import StoreError
from helix.native import lists, pieces, postings, reference, rows, terms, vectors, zones
from helix.native.arrays import INT64, check_array
from helix.native.library import FLOAT, INT, POINTER, declare_kernel, describe_kernels
from helix.native.reference import kernels
from helix.native.reference.memory import view_array
from helix.snapshot.index import graph
from tests.support.kernels import CALLS, Given, distort, list_arrays, replace

CALLERS: tuple[ModuleType, ...] = (graph, lists, pieces, postings, rows, terms, vectors, zones)

pytestmark = pytest.mark.skipif(describe_kernels() == "reference", reason="no compiled kernels to compare with")


def is_kernel(value: Any) -> bool:
    return isinstance(value, ctypes._CFuncPtr)  # type: ignore[attr-defined]


def find_kernels() -> list[tuple[dict[Any, Any], Any, Any]]:
    """Return (namespace, key, kernel) of each compiled kernel that a module calls."""
    spaces = [vars(module) for module in CALLERS]
    spaces += [value for space in spaces for value in space.values() if isinstance(value, dict)]
    return [(space, key, value) for space in spaces for key, value in space.items() if is_kernel(value)]


KERNELS = find_kernels()


@contextmanager
def use_reference(at_a_time: int = 0) -> Iterator[None]:
    """Put the reference's functions in place of the compiled kernels.

    Args:
        at_a_time: unless it is 0, the numbers that a function reads at a time: so few that all are read in parts.
    """
    with pytest.MonkeyPatch.context() as patch:
        for space, key, kernel in KERNELS:
            patch.setitem(space, key, declare_kernel(None, kernel.__name__, *kernel.argtypes, result=kernel.restype))
        for module in (reference.lists, reference.postings, reference.vectors) if at_a_time else ():
            patch.setattr(module, "_AT_A_TIME", at_a_time)
        yield


def test_each_kernel_has_a_reference() -> None:
    assert sorted(kernel.__name__ for *_, kernel in KERNELS) == sorted(kernels.__all__)


def describe(value: Any) -> Any:
    """Return a value as bits: one number that is no number is as good as another."""
    if isinstance(value, np.ndarray):
        plain = np.where(np.isnan(value), np.nan, value).astype(value.dtype) if value.dtype.kind == "f" else value
        return value.dtype, value.shape, plain.tobytes()
    if isinstance(value, tuple | list):
        return [describe(each) for each in value]
    return repr(value)


def run_call(name: str, given: Given) -> Any:
    """Return the outcome of a call, as bits: its result and the arrays it wrote to, or its error."""
    given = copy.deepcopy(given)
    try:
        with np.errstate(all="ignore"):
            found = CALLS[name][1](**given)
    except (StoreError, TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)
    written = [given[each] for each in ("count", "follows", "passed") if isinstance(given.get(each), np.ndarray)]
    return describe([np.sort(found) if name == "search_lists" else found, written])


def compare(name: str, given: Given, seed: int) -> None:
    """Check that the kernels and the reference agree."""
    if "registers" in given:  # widths of this machine, which the reference lacks
        given["registers"] = min(given["registers"], 1)
    compiled = run_call(name, given)
    with use_reference(at_a_time=seed % 2 * 100):
        assert run_call(name, given) == compiled, f"{name}, seed {seed}"


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_same_bits(name: str) -> None:
    for seed in range(40):
        compare(name, CALLS[name][0](np.random.default_rng(seed)), seed)


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arrays_have_the_same_outcome(name: str) -> None:
    for seed in range(200):
        rng = random.Random(seed)
        given = CALLS[name][0](np.random.default_rng(seed))
        for _ in range(rng.choice([1, 1, 2, 3])):
            where, array = rng.choice([*list_arrays(given)] or [((), None)])
            if where and isinstance(array, np.ndarray):
                given = replace(given, where, distort(array, rng))
        compare(name, given, seed)


def test_registers_are_refused_as_by_a_machine_without_them() -> None:
    given = CALLS["search_lists"][0](np.random.default_rng(1))
    with use_reference(), pytest.raises(ValueError, match="this machine has no registers of 16 bytes"):
        CALLS["search_lists"][1](**{**given, "registers": 16})


def make_many_postings(rng: np.random.Generator) -> Given:
    """Make postings of rare and frequent terms in parts, some with a wrong row, norm or weight."""
    n, terms = int(rng.choice([60, 500, 5_000])), int(rng.integers(1, 7))
    start, rows, first = [], [], [0]
    for share in rng.choice([0.002, 0.01, 0.05, 0.2, 0.6], terms):
        held = np.flatnonzero(rng.random(n) < share)
        for low, high in pairwise([0, *np.sort(rng.integers(0, n + 1, int(rng.integers(0, 3)))).tolist(), n]):
            start.append(low)
            rows.append((held[(held >= low) & (held < high)] - low).astype(np.uint32))
        first.append(len(rows))
    weight = np.sort(rng.random(terms).astype(np.float32))[::-1].copy()
    rest = np.cumsum([0, *weight[::-1] * np.float32(1.001)])[::-1].astype(np.float32)
    norm = rng.random(n).astype(np.float32) + np.float32(0.2)
    wrong, part = rng.choice(["row", "norm", "weight", "", "", ""]), rows[int(rng.integers(len(rows)))]
    if wrong == "row" and len(part):
        part[rng.integers(len(part))] = rng.choice([part[0], part[-1], n])
    elif wrong == "norm":
        norm[rng.integers(0, n, 3)] = rng.choice([-1, -2, 0, np.inf, -np.inf, np.nan], 3)
    elif wrong == "weight":
        weight[rng.integers(terms)] *= -1
    return {
        "first": np.array(first), "start": np.array(start), "rows": rows,
        "tf": [rng.integers(0, 4, len(part)).astype(np.uint16) for part in rows], "weight": weight, "rest": rest,
        "allowed": None if rng.random() < 0.4 else rng.random(n) < 0.7, "norm": norm if rng.random() < 0.8 else n,
        "k": int(rng.choice([1, 2, 5, 50])), "slack": 0.999, "floor": float(rng.choice([0, 0, 0.3, 1, 5])),
    }  # fmt: skip


def test_postings_are_read_range_by_range_alike() -> None:
    """Terms that are listed, added without a list, or looked up, and rows that are dropped."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        given, width, look_up = make_many_postings(rng), rng.choice([1, 7, 64, 1_024]), rng.choice([0, 1, 2, 16])
        with patch.multiple(postings, RANGE=int(width), LOOK_UP=int(look_up)):
            compare("search_postings", given, seed)


def test_vocabularies_are_the_same() -> None:
    rng = np.random.default_rng(3)
    words = sorted({"".join(rng.choice(list("abcé"), rng.integers(1, 9))) for _ in range(500)})
    given = words[::2], words[1::2], ["<s>", "[cls]"]
    compiled = pieces.build_vocabulary(*given, lower=True, most=9)
    with use_reference():
        found = pieces.build_vocabulary(*given, lower=True, most=9)
    assert [describe(array) for array in found.arrays[:3]] == [describe(array) for array in compiled.arrays[:3]]


def test_numbers_are_converted_as_for_c() -> None:
    def give_back(*given: Any) -> Any:
        return given

    with patch.object(kernels, "find_distinct", give_back):
        call = declare_kernel(None, "find_distinct", POINTER, INT, FLOAT)
    assert call(b"", -(2**63) - 1, 0.1) == (b"", 2**63 - 1, float(np.float32(0.1)))
    for wrong in ((0, 1.5, 0), (0, 1, "x")):
        with pytest.raises(ctypes.ArgumentError):
            call(*wrong)


def test_an_array_at_an_address_is_not_copied() -> None:
    values = np.arange(6)
    address = check_array("", values, INT64, 6)
    view_array(address, INT64, 2, 3, written=True)[1] = 7
    assert values.tolist() == [0, 1, 2, 7, 7, 7]
    assert not view_array(address, INT64, 6).flags.writeable
    assert view_array(None, INT64, 6) is None
    assert view_array(0, INT64, 0).tolist() == []
