"""Messages: from any bytes in a queue comes a task with its names, and nothing else."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import element, name
from workers.messages import MAX_BYTES, MessageFormat, MessageRefused, rebuild_message
from workers.queues import ROUTES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.just(name(1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)
WHOLE = json.loads(element(names=[name(1)]))
BODY = json.loads(base64.b64decode(WHOLE["body"]))


def rebuild(queue: str, raw: bytes) -> bytes:
    return rebuild_message(queue, raw, MessageFormat())


USUAL = json.loads(rebuild("enrich", element(names=[name(1)])))
"""A rebuilt message: others differ by names, task, queue and ids."""


def read_rebuilt(raw: bytes, queue: str) -> tuple[str, list[str]]:
    """Return task and names of a rebuilt message, after a check of all other fields."""
    made, usual = json.loads(raw), copy.deepcopy(USUAL)
    names, named, embed = json.loads(base64.b64decode(made["body"]))
    usual["body"] = made["body"]
    task, identity = made["headers"]["task"], made["headers"]["id"]
    usual["headers"] |= {"task": task, "argsrepr": repr(names), "id": identity, "root_id": identity}
    usual["properties"] |= {
        "delivery_info": {"exchange": "", "routing_key": queue},
        "correlation_id": identity,
        "delivery_tag": made["properties"]["delivery_tag"],
    }
    assert made == usual
    assert named == {}
    assert not any(embed.values())
    return task, names


def check(queue: str, raw: bytes) -> None:
    try:
        made = rebuild(queue, raw)
    except MessageRefused:
        return
    task, names = read_rebuilt(made, queue)
    assert queue in ROUTES[task].queues
    assert all(form.fullmatch(name) for name, form in zip(names, ROUTES[task].arguments, strict=True))


def list_places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, child in inner for place in list_places(child, (*at, key)))]


def put(whole: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    whole = copy.deepcopy(whole)
    inner = whole
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return whole


@given(st.sampled_from(list_places(WHOLE)), st.sampled_from(list_places(BODY)), JSON)
def test_any_value_at_any_place_is_refused_or_ignored(at: tuple[Any, ...], body: tuple[Any, ...], value: Any) -> None:
    check("enrich", json.dumps(put(WHOLE, at, value)).encode())
    check("enrich", element(body=json.dumps(put(BODY, body, value)).encode()))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_ignored(raw: bytes) -> None:
    check("enrich", raw)
    check("enrich", element(body=raw))


def test_a_task_is_accepted_from_its_queues_only() -> None:
    for task, route in ROUTES.items():
        names = [_example(form.pattern) for form in route.arguments]
        for queue in ("accept", "enrich", "bulk", "commit", "expand", "maintain", "deep", "elsewhere"):
            if queue in route.queues:
                assert read_rebuilt(rebuild(queue, element(task, names)), queue) == (task, names)
            else:
                with pytest.raises(MessageRefused, match="task"):
                    rebuild(queue, element(task, names))


def _example(pattern: str) -> str:
    return "a" * int(pattern.partition("{")[2].rstrip("}"))


def test_the_size_is_checked_first() -> None:
    raw = element(names=[name(1)])
    assert rebuild("enrich", raw + b" " * (MAX_BYTES - len(raw)))
    with pytest.raises(MessageRefused, match="size"):
        rebuild("enrich", raw + b" " * (MAX_BYTES + 1 - len(raw)))


def test_a_rebuilt_message_is_valid() -> None:
    """Each worker that received it and died returns it."""
    once = rebuild("bulk", element(names=[name(1)]))
    assert read_rebuilt(rebuild("bulk", once), "bulk") == ("helix.enrich", [name(1)])
