"""Arrays of a wrong kind, length or content, given to every kernel: each call ends in an error."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from helix.errors import StoreError
from helix.native.rows import find_distinct
from tests.support.kernels import CALLS, COPIED, list_arrays, list_other_kinds, replace


@pytest.mark.parametrize("name", CALLS)
def test_an_array_of_another_kind_is_refused(name: str) -> None:
    make, call = CALLS[name]
    arguments, accepted = make(np.random.default_rng(5)), []
    call(**arguments)
    for where, array in list_arrays(arguments):
        for kind, other in list_other_kinds(array):
            try:
                call(**replace(arguments, where, other))
                accepted.append((where, kind))
            except (TypeError, ValueError, StoreError):
                pass
            except AttributeError:
                assert kind == "a list", (where, kind)
    wrong = [entry for entry in accepted if (name, entry[0][0]) not in COPIED and (name, entry[1]) not in ANY_SHAPE]
    assert wrong == []


ANY_SHAPE = {("round_to_steps", "one axis more")}
"""Kinds that a kernel accepts: it reads number after number, of any shape."""

SAME_LENGTH = {
    "search_postings": ("first", "start", "tf", "rest"),
    "score_vectors": ("scale", "query"),
    "score_tokens": ("scale",),
    "score_neighbours": ("codes", "rows", "query"),
    "search_lists": ("codes", "near", "table"),
    "build_code_table": ("query",),
    "filter_range": ("begin", "least", "most", "passed"),
    "count_terms": ("slot", "right", "follows"),
    "score_joined": ("weight", "length"),
    "find_ngrams": ("text", "wanted"),
    "list_neighbours": ("following",),
    "read_edges": ("named", "session", "alive", "key", "session_size", "other", "confidence", "row", "hub_rows"),
}


@pytest.mark.parametrize("change", [-1, 1])
def test_arrays_of_different_lengths_are_refused(change: int) -> None:
    accepted = set()
    for name, names in SAME_LENGTH.items():
        make, call = CALLS[name]
        arguments = make(np.random.default_rng(6))
        for where, array in list_arrays(arguments):
            if where[0] in names:
                other = np.resize(array, (len(array) + change, *array.shape[1:]))
                with suppress(ValueError):
                    call(**replace(arguments, where, other))
                    accepted.add((name, *where))
    assert accepted == set()


PLACES = (
    ("score_vectors", ("rows",)), ("score_neighbours", ("rows",)), ("score_tokens", ("indptr",)),
    ("count_terms", ("rows",)),
    ("count_terms", ("slot",)), ("score_joined", ("place",)), ("list_neighbours", ("rows",)),
    ("filter_range", ("begin",)), ("search_postings", ("first",)), ("search_postings", ("start",)),
    ("search_lists", ("chosen",)), ("search_lists", ("rows", 0)),
    ("read_edges", ("session",)), ("read_edges", ("nodes",)),
    ("read_edges", ("segments", 0, "mentions.indptr")), ("read_edges", ("segments", 1, "mentioned.indptr")),
    ("read_edges", ("segments", 0, "sessions.indptr")), ("read_edges", ("segments", 1, "links.indptr")),
)  # fmt: skip
"""Arguments that say where to read, by call."""


@pytest.mark.parametrize("wrong", [-9, 10**6, 2**31 - 1, 2**62, -(2**63)])
def test_a_place_outside_the_arrays_is_an_error(wrong: int) -> None:
    """The wrong one is the last of many, so that the others are checked, too."""
    read = set()
    for name, where in PLACES:
        make, call = CALLS[name]
        arguments = make(np.random.default_rng(8))
        array = next(array for place, array in list_arrays(arguments) if place == where)
        low, high = (int(bound) for bound in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
        array.reshape(-1)[-1] = min(max(wrong, low), high)
        with suppress(StoreError, ValueError):
            call(**arguments)
            read.add((name, where))
    assert read == set()


def test_an_array_to_write_to_must_be_writeable() -> None:
    for name, written in (("filter_range", ["passed"]), ("count_terms", ["count", "follows"])):
        make, call = CALLS[name]
        for each in written:
            arguments = make(np.random.default_rng(7))
            arguments[each].flags.writeable = False
            with pytest.raises(TypeError, match=f"{each} is not writeable"):
                call(**arguments)


def test_an_error_names_the_array_and_the_kind_it_must_have() -> None:
    values = np.arange(6)
    for wrong, why in (
        (values.astype(np.int32), "values is an array of int32, not of int64"),
        (values[::2], "values is not contiguous: pass it through np.ascontiguousarray"),
        (values[None], r"values has the shape \(1, 6\), not \(1,\)"),
        ([1, 2], "values is a list, not an array of int64"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            find_distinct(wrong)  # type: ignore[arg-type]
