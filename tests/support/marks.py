"""Marks and groups of tests, derived from the fixtures that each one uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pytest

NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "needs_encoder": frozenset({"cache", "copying_t5", "known_splade", "known_inference_free"}),
    "needs_store": frozenset({"sample_store"}),
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


def set_groups(items: list[pytest.Item]) -> None:
    """Say which tests run in one process, and put those first that take long.

    Tests that share a fixture of their module stay together.
    """
    for item in items:
        if name := _group(item):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}:{name}"))
    items.sort(key=_rank)


def _group(item: pytest.Item) -> str:
    info = getattr(item, "_fixtureinfo", None)
    shared = [name for name, made in (info.name2fixturedefs if info else {}).items() if made[-1].scope == "module"]
    return min(shared, default="")


def _needs(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in NEEDS)


def _rank(item: pytest.Item) -> tuple[bool, bool]:
    """Return false for what comes first: tests of crashes, then all that need something."""
    return "crash" not in item.path.parts, not _needs(item)
