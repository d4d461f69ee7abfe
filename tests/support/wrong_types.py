"""Copies of a JSON value with one value replaced by one of another type, for each place and each type."""

import copy

WRONG = (None, True, 7, -1.5, "", "x", [], [[]], ["x", 7], {}, {"a": {"b": []}})


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def replace_values(value):
    for path in places(value):
        for wrong in WRONG:
            whole = copy.deepcopy({"": value})
            at, *rest = "", *path
            parent = whole
            for key in rest:
                parent, at = parent[at], key
            parent[at] = wrong
            yield whole[""]
