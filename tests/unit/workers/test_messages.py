"""Messages: whatever an element of a queue holds, what is made of it says a task and names, and nothing else."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.crash.test_messages import element, name
from workers.messages import KINDS, MOST, Form, Refused, renew

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.just(name(1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)

MADE = json.loads(renew("enrich", element(names=[name(1)]), Form()))
"""A message as it leaves: others differ by their names, task, queue and ids."""


def same_but_for_names(raw: bytes, queue: str) -> tuple[str, list[str]]:
    """Task and names of a message in which all else is as it always is."""
    made, usual = json.loads(raw), copy.deepcopy(MADE)
    names, named, nothing = json.loads(base64.b64decode(made["body"]))
    usual["body"] = made["body"]
    identity = made["headers"]["id"]
    usual["headers"] |= {
        "task": made["headers"]["task"],
        "argsrepr": repr(names),
        "id": identity,
        "root_id": identity,
    }
    usual["properties"] |= {
        "delivery_info": {"exchange": "", "routing_key": queue},
        "correlation_id": identity,
        "delivery_tag": made["properties"]["delivery_tag"],
    }
    assert made == usual
    assert named == {}
    assert not any(nothing.values())
    return made["headers"]["task"], names


def check(queue: str, raw: bytes) -> None:
    try:
        made = renew(queue, raw, Form())
    except Refused:
        return
    task, names = same_but_for_names(made, queue)
    assert queue in KINDS[task].queues
    assert all(form.fullmatch(name) for name, form in zip(names, KINDS[task].names, strict=True))


def places(said: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


def put(said: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    said = copy.deepcopy(said)
    inner = said
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return said


WHOLE = json.loads(element(names=[name(1)]))
BODY = json.loads(base64.b64decode(WHOLE["body"]))


@given(st.sampled_from(places(WHOLE)), JSON)
def test_any_value_at_any_place(at: tuple[Any, ...], value: Any) -> None:
    check("enrich", json.dumps(put(WHOLE, at, value)).encode())


@given(st.sampled_from(places(BODY)), JSON)
def test_any_value_at_any_place_of_the_body(at: tuple[Any, ...], value: Any) -> None:
    check("enrich", element(body=json.dumps(put(BODY, at, value)).encode()))


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    check("enrich", raw)
    check("enrich", element(body=raw))


@given(st.sampled_from(sorted(KINDS)), st.sampled_from(["accept", "enrich", "bulk", "commit", "deep", "elsewhere"]))
def test_a_task_is_taken_from_its_queues_alone(task: str, queue: str) -> None:
    names = [{64: name(1), 32: "a" * 32, 16: "b" * 16}[_digits(form.pattern)] for form in KINDS[task].names]
    raw = element(task, names)
    if queue in KINDS[task].queues:
        assert same_but_for_names(renew(queue, raw, Form()), queue) == (task, names)
    else:
        with pytest.raises(Refused, match="task"):
            renew(queue, raw, Form())


def _digits(pattern: str) -> int:
    return int(pattern.partition("{")[2].rstrip("}"))


def test_the_size_is_looked_at_first() -> None:
    raw = element(names=[name(1)])
    assert renew("enrich", raw + b" " * (MOST - len(raw)), Form())
    with pytest.raises(Refused, match="size"):
        renew("enrich", raw + b" " * (MOST + 1 - len(raw)), Form())


def test_what_is_made_of_a_message_is_one() -> None:
    """Each worker that had it and died hands it back."""
    once = renew("bulk", element(names=[name(1)]), Form())
    assert same_but_for_names(renew("bulk", once, Form()), "bulk") == ("helix.enrich", [name(1)])
