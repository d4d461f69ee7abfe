"""Options of time: an answer that they leave empty says so, and `why_not` names the one that hides an item."""

from __future__ import annotations

from typing import Any

import pytest

from helix.sdk.memory import Memory
from tests.support.tiny import BASE, make_store, memory_of

DAY = 86_400
GIVEN: list[dict[str, Any]] = [
    {"time": BASE, "t_ingested": BASE + 9 * DAY, "acl": ["boss"], "project": "vault"},  # 2023-11-14 22:13
    {"time": BASE + DAY, "t_ingested": BASE + 8 * DAY},
    {"time": BASE + 2 * DAY, "t_ingested": BASE + 7 * DAY, "project": "q"},
    {"time": None, "t_valid": BASE + 3 * DAY, "t_ingested": BASE + 7 * DAY, "project": "undated"},
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    root = tmp_path_factory.mktemp("limits") / "s"
    make_store(root, [f"walnut {i}" for i in range(4)], given=GIVEN)
    return memory_of(root)


@pytest.mark.parametrize(("options", "notice"), [
    ({"as_of": "2023-11-15"}, "nothing was said by 2023-11-15 (as_of); the earliest item is of 2023-11-15 22:13"),
    ({"as_of": "2023-11-14", "principal": "boss"},
     "nothing was said by 2023-11-14 (as_of); the earliest item is of 2023-11-14 22:13"),
    ({"as_of": "2023-11-16", "project": "q"}, "nothing was said by 2023-11-16 (as_of); "
     "the earliest item within the other filters is of 2023-11-16 22:13"),
    ({"ingested_as_of": "2023-11-20"},
     "nothing was ingested by 2023-11-20 (ingested_as_of); the earliest item was ingested 2023-11-21 22:13"),
    ({"as_of": "2023-11-15T23:00", "ingested_as_of": "2023-11-22"},
     "nothing was said by 2023-11-15 23:00 (as_of) and ingested by 2023-11-22 (ingested_as_of)"),
    ({"since": "2023-11-17"}, "nothing was said since 2023-11-17 (since); the latest item is of 2023-11-16 22:13"),
    ({"until": "2023-11-14"},
     "nothing was said until 2023-11-14 23:59 (until); the earliest item is of 2023-11-15 22:13"),
    ({"since": "2023-11-16T00:00", "until": "2023-11-16T09:00"},
     "nothing was said since 2023-11-16 (since) and until 2023-11-16 09:00 (until)"),
    ({"since": "2020-01-01", "project": "undated"},
     "nothing was said since 2020-01-01 (since); no item within the other filters has a time"),
    ({"as_of": "2023-11-16"}, None),
    ({"as_of": "2023-11-15", "type": "code"}, None),  # nothing is of that type, whenever it was said
    ({"type": "code"}, None),
])  # fmt: skip
def test_an_empty_answer_names_the_option_of_time_that_is_the_reason(
    memory: Memory, options: dict[str, Any], notice: str | None
) -> None:
    found = memory.recall("walnut", **options)
    assert found.notice == notice
    assert bool(found.items) == (notice is None and "type" not in options)


@pytest.mark.parametrize(("options", "reason"), [
    ({"as_of": "2023-11-16"}, "route: said 2023-11-16 22:13, after 2023-11-16 (as_of)"),
    ({"ingested_as_of": "2023-11-20"}, "route: ingested 2023-11-21 22:13, after 2023-11-20 (ingested_as_of)"),
    ({"as_of": "2023-11-16", "ingested_as_of": "2023-11-20"}, "route: said 2023-11-16 22:13, after 2023-11-16 (as_of) "
     "and ingested 2023-11-21 22:13, after 2023-11-20 (ingested_as_of)"),
])  # fmt: skip
def test_why_not_names_the_option_that_hides_an_item(memory: Memory, options: dict[str, Any], reason: str) -> None:
    (item,) = memory.recall("walnut", project="q").items
    found = memory.recall("walnut", why_not=item.id, **options)
    assert found.trace is not None
    assert found.trace["why_not"] == reason


def test_browsing_takes_the_same_options(memory: Memory) -> None:
    assert [memory.timeline(**more)["total"] for more in ({}, {"as_of": "2023-11-15"})] == [1, 0]
    empty = memory.timeline(ingested_as_of="2023-11-20", project="q")["notice"]
    assert (
        empty == "nothing was ingested by 2023-11-20 (ingested_as_of); the earliest item was ingested 2023-11-21 22:13"
    )
    assert memory.timeline()["notice"] is None
