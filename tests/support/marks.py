"""Marks of tests, derived from the fixtures that each one uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pytest

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "needs_encoder": frozenset({"cache", "copying_t5", "encoders", "known_splade", "known_inference_free"}),
    "needs_store": frozenset({"sample_store", "stores"}),
    "needs_redis": frozenset({"redis_url"}),
    "needs_browser": frozenset({"browser", "firefox"}),
    "needs_process": frozenset({"forks", "processes"}),
}
"""A mark and the fixtures that give it to a test, directly or through another fixture."""


def soak_all_but(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Return parameters, tuples for several names, of which `make test` runs the chosen ones, and `make soak` all."""
    rows = [(value, value if isinstance(value, tuple) else (value,)) for value in values]
    return [pytest.param(*row, marks=() if value in chosen else pytest.mark.soak) for value, row in rows]


def kill_in_turn(*chains: Sequence[str]) -> list[Any]:
    """Return lists of failpoints as parameters: a store meets all kills of a chain, and in `make soak` also each alone.

    A chain has its points in the order of a run, so that each run resumes the one before.
    """
    longer = [point for chain in chains if len(chain) > 1 for point in chain]
    alone = [pytest.param((point,), id=point, marks=pytest.mark.soak) for point in longer]
    return [*(pytest.param(chain, id=" to ".join({chain[0]: 0, chain[-1]: 0})) for chain in chains), *alone]


def set_marks(items: Iterable[pytest.Item]) -> None:
    """Give each test the marks of its fixtures."""
    for item in items:
        fixtures = frozenset(getattr(item, "fixturenames", ()))
        for mark, names in NEEDS.items():
            if fixtures & names:
                item.add_marker(mark)
