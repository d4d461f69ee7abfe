"""Copies of a JSON value with one value replaced by one of another type, for each place and each type."""

import copy
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (None, True, 7, -1.5, "", "x", [], [[]], ["x", 7], {}, {"a": {"b": []}})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def replace_values(value: Any) -> Iterator[Any]:
    for path in places(value):
        for wrong in WRONG:
            whole: Any = copy.deepcopy({"": value})
            at: Any
            at, *rest = "", *path
            parent = whole
            for key in rest:
                parent, at = parent[at], key
            parent[at] = wrong
            yield whole[""]
