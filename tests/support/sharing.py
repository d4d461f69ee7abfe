"""The distribution of tests over processes (`pytest -n N --dist loadgroup`), the longest first.

A process collects the tests and knows their fixtures; the one that distributes knows their names only. So each process
writes the groups to a file that the other reads.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.marks import NEEDS

KEY: Final = "groups"
"""The name of the file's path in `workerinput`."""


class GroupScheduling(LoadScopeScheduling):
    """A scheduler that sends each group of tests to one process, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any, path: Path) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._path = path

    @functools.cached_property
    def _groups(self) -> dict[str, str]:
        groups: dict[str, str] = json.loads(self._path.read_text())
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]


def arrange(items: list[pytest.Item], path: Path) -> None:
    """Put long tests first, and write the group of each test to a file."""
    items.sort(key=_rank)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps({item.nodeid: _group(item) for item in items}))
    unfinished.replace(path)


def _group(item: pytest.Item) -> str:
    """Name a group: tests that share a fixture of their module, the quick tests of a file, or a test alone."""
    info = getattr(item, "_fixtureinfo", None)
    shared = [name for name, made in (info.name2fixturedefs if info else {}).items() if made[-1].scope == "module"]
    if shared:
        return f"{item.path}:{min(shared)}"
    return item.nodeid if _needs(item) else str(item.path)


def _needs(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in NEEDS)


def _rank(item: pytest.Item) -> tuple[bool, bool]:
    """Return false for what comes first: tests of crashes, then all that need something."""
    return "crash" not in item.path.parts, not _needs(item)
