"""Marks of tests, derived from the fixtures that each one uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pytest

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "needs_encoder": frozenset({"cache", "copying_t5", "encoders", "known_splade", "known_inference_free"}),
    "needs_store": frozenset({"sample_store", "stores"}),
    "needs_redis": frozenset({"redis_url"}),
    "needs_browser": frozenset({"browser"}),
    "needs_process": frozenset({"forks", "processes"}),
}
"""A mark and the fixtures that give it to a test, directly or through another fixture."""


def set_marks(items: Iterable[pytest.Item]) -> None:
    """Give each test the marks of its fixtures."""
    for item in items:
        fixtures = frozenset(getattr(item, "fixturenames", ()))
        for mark, names in NEEDS.items():
            if fixtures & names:
                item.add_marker(mark)
