"""Pruned equals exhaustive, bit for bit, whatever the postings, the filter and k."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from helix.native import postings as native
from helix.stages import lexical
from helix.stages.lexical import search_lexical
from helix.types import Plan
from tests.oracle.test_lexical_maxscore import invert
from tests.support.bench.lexical import Store, exhaustive

K1_B = st.sampled_from([(0.9, 0.6), (1.2, 0.75), (1.2, 0.0), (0.9, 1.0), (0.0, 0.5)])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Store, Any, Any]:
    """(store, term hashes, allowed rows)."""
    terms, rows = draw(st.integers(1, 6)), draw(st.integers(1, 50))
    most = draw(st.sampled_from([1, 1, 4, 65_535]))  # mostly small, often all tied
    tf = draw(arrays.arrays(np.uint16, (terms, rows), elements=st.integers(0, most), fill=st.just(0)))
    length = draw(arrays.arrays(np.float32, rows, elements=st.sampled_from([1.0, 7.0, 40.0]), fill=st.just(7.0)))
    alive = draw(arrays.arrays(np.bool_, rows, fill=st.just(True)))
    allowed = alive & draw(arrays.arrays(np.bool_, rows, fill=st.booleans()))
    key = np.array(draw(st.permutations(range(rows))), np.uint64)
    return build(tf, length, key, alive, draw(st.sets(st.integers(1, rows)))), allowed


def build(tf: Any, length: Any, key: Any, alive: Any, cuts: set[int]) -> tuple[Store, Any]:
    hashes = np.arange(10, 10 * len(tf) + 1, 10, dtype=np.uint64)
    bounds = sorted({0, *cuts, tf.shape[1]})
    segments = [(low, invert(hashes, tf[:, low:high])) for low, high in pairwise(bounds)]
    return Store(segments, length, key, alive), hashes


TIED = build(np.ones((3, 40), np.uint16), np.full(40, 7, np.float32), np.arange(40, 0, -1), np.ones(40, bool), {9, 20})


CHOICES: dict[Any, dict[str, list[int]]] = {
    lexical: {"_LOOK_UP": [1, 3, 25], "_SMALL": [0, 3, 32_768], "_RARE": [1, 2, 16]},
    native: {"RANGE": [1, 4, 7, 32_768], "LOOK_UP": [0, 1, 16]},
}
COSTS = st.fixed_dictionaries(
    {
        module: st.fixed_dictionaries({name: st.sampled_from(values) for name, values in choices.items()})
        for module, choices in CHOICES.items()
    }
)
AS_IT_IS: dict[Any, dict[str, int]] = {lexical: {}, native: {}}


@given(worlds(), st.integers(0, 60), K1_B, COSTS)
@example((TIED, np.ones(40, bool)), 7, (1.2, 0.75), AS_IT_IS)
@example((TIED, np.arange(40) % 2 == 0), 50, (1.2, 0.75), AS_IT_IS)
@example((TIED, np.zeros(40, bool)), 7, (1.2, 0.75), AS_IT_IS)
def test_pruned_search_equals_the_exhaustive_one(
    world: Any, k: int, k1_b: tuple[float, float], costs: dict[Any, dict[str, int]]
) -> None:
    (store, hashes), allowed = world
    query: Any = SimpleNamespace(terms=np.append(hashes, np.uint64(5)), term_weights=None)  # no row has the last
    plan = Plan(None, store.rows) if allowed.all() else Plan(allowed, int(allowed.sum()))
    with ExitStack() as patched:
        for module, values in costs.items():
            for name, value in values.items():
                patched.enter_context(patch.object(module, name, value))
        found = search_lexical(query, store, plan, k, *k1_b)  # type: ignore[arg-type]
    expected = exhaustive(query, store, plan, k, *k1_b)
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.scores.tolist() == expected.scores.tolist()
