"""The fair queue: every document once, each store in order, and shares that differ by the paper's bound at most."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.fair_queue import FairQueue, WaitingDocument

QUANTUM = 50
COSTS = st.lists(st.integers(1, 120), max_size=12)
STORES = st.dictionaries(st.sampled_from("abcde"), COSTS, max_size=5)


def fill(costs: dict[str, list[int]]) -> FairQueue:
    queue = FairQueue(QUANTUM)
    for store, values in costs.items():
        queue.replace(store, [WaitingDocument(f"{store}{i}", cost) for i, cost in enumerate(values)])
    return queue


def take_naively(costs: dict[str, list[int]]) -> list[str]:
    """Return the order of the algorithm in the paper: rounds over all stores, one service opportunity each."""
    waiting = {store: deque(enumerate(values)) for store, values in costs.items() if values}
    credit = dict.fromkeys(waiting, 0)
    order = []
    while waiting:
        for store in list(waiting):
            credit[store] += QUANTUM
            while waiting[store] and waiting[store][0][1] <= credit[store]:
                number, cost = waiting[store].popleft()
                credit[store] -= cost
                order.append(f"{store}{number}")
            if not waiting[store]:
                del waiting[store]
    return order


@given(STORES, st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_the_order_is_that_of_the_paper_however_many_are_taken_at_once(
    costs: dict[str, list[int]], counts: list[int]
) -> None:
    queue, taken, calls = fill(costs), list[str](), 0
    while True:
        some = queue.take(counts[calls % len(counts)])
        assert len(some) <= counts[calls % len(counts)]
        if not some:
            break
        taken += [job.document for _, job in some]
        calls += 1
    assert taken == take_naively(costs)


@given(st.lists(st.integers(1, 120), min_size=60, max_size=60), st.lists(st.integers(1, 120), min_size=60, max_size=60))
def test_two_imports_share_evenly_at_every_moment(first: list[int], second: list[int]) -> None:
    queue, spent = fill({"first": first, "second": second}), Counter[str]()
    largest = max(first + second)
    while queue.count("first") and queue.count("second"):
        ((store, job),) = queue.take(1)
        spent[store] += job.cost
        assert abs(spent["first"] - spent["second"]) <= QUANTUM + 2 * largest


def test_a_new_import_begins_within_one_turn_of_the_others() -> None:
    queue = fill({"old": [10] * 1_000, "older": [10] * 1_000})
    queue.take(300)
    queue.replace("new", [WaitingDocument("new0", 40)])
    served = [store for store, _ in queue.take(2 * QUANTUM // 10 + 1)]
    assert "new" in served


def test_a_large_document_saves_credit_and_gets_its_turn() -> None:
    queue = fill({"large": [10 * QUANTUM], "small": [QUANTUM] * 30})
    stores = [store for store, _ in queue.take(31)]
    assert stores.index("large") in (9, 10)  # after ten turns of each


def test_replacing_keeps_the_place_and_the_credit_of_a_store() -> None:
    queue = fill({"a": [40] * 5, "b": [40] * 5})
    assert [store for store, _ in queue.take(1)] == ["a"]
    queue.replace("a", [WaitingDocument("a9", 30)])  # 10 of credit are left in this turn
    assert [job.document for _, job in queue.take(3)] == ["b0", "a9", "b1"]


@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_dropped_store_gives_nothing_more_and_the_turn_passes(when: int) -> None:
    queue = fill({"a": [40] * 3, "b": [40] * 3})
    queue.take(when)
    queue.drop("a")
    queue.drop("a")
    assert {store for store, _ in queue.take(10)} == {"b"}
    assert queue.take(10) == []
