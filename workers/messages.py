"""Validation of queue messages: a message names a task, its documents and their store, and nothing else of it is used.

Anybody with access to the broker can write there. So each message is checked as bytes, and a new one is built for
Celery. No time limit, schedule, expiry, retry count, callback or log text comes from the original.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
from kombu.serialization import dumps

from helix.snapshot.store_names import is_store_name
from workers.queues import ROUTES, TaskRoute

MAX_BYTES: Final = 16 << 10
"""Bytes of a message. Ours have about 1,000, signed ones 3,000. At this size the parser bounds nesting."""

_EMBED: Final = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class MessageRefused(Exception):
    """An invalid message. `reason` is one of few words and quotes nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The encoding of message bodies: a Celery serializer and its content type."""

    serializer: str = "json"
    content_type: str = "application/json"
    open_body: Callable[[bytes], bytes] = bytes
    """Return the JSON of a body; raise `MessageRefused` unless its signature is valid."""


def rebuild_message(queue: str, raw: bytes, form: MessageFormat) -> bytes:
    """Check a message and return a new one with its task and arguments; all else is as Helix sends it.

    Raises:
        MessageRefused: the message is invalid.
    """
    if len(raw) > MAX_BYTES:
        raise MessageRefused("size")
    message = _parse_json(raw, dict)
    task, route = _read_task(_read_section(message, "headers"), queue)
    if message.get("content-type") != form.content_type or message.get("content-encoding") != "utf-8":
        raise MessageRefused("encoding")
    return _build_message(queue, task, _read_arguments(form.open_body(_read_body(message)), route), form)


def _parse_json(raw: bytes, kind: type) -> Any:
    try:
        value = orjson.loads(raw)  # bounds nesting and requires UTF-8
    except orjson.JSONDecodeError:
        raise MessageRefused("form") from None
    if not isinstance(value, kind):
        raise MessageRefused("form")
    return value


def _read_section(message: dict[str, Any], name: str) -> dict[str, Any]:
    section = message.get(name)
    if not isinstance(section, dict):
        raise MessageRefused("form")
    return section


def _read_task(headers: dict[str, Any], queue: str) -> tuple[str, TaskRoute]:
    task = headers.get("task")
    route = ROUTES.get(task) if isinstance(task, str) else None
    if not isinstance(task, str) or route is None or queue not in route.queues:
        raise MessageRefused("task")
    return task, route


def _read_body(message: dict[str, Any]) -> bytes:
    body = message.get("body")
    if _read_section(message, "properties").get("body_encoding") != "base64" or not isinstance(body, str):
        raise MessageRefused("encoding")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise MessageRefused("encoding") from None


def _read_arguments(body: bytes, route: TaskRoute) -> list[str]:
    fields = _parse_json(body, list)
    names = fields[0] if len(fields) == 3 and fields[1] == {} else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MessageRefused("names")
    count = len(route.arguments)
    has_store = route.is_of_fleet and len(names) == count + 1
    is_valid = all(map(re.Pattern.fullmatch, route.arguments, names[:count]))
    if len(names) != count + has_store or not is_valid or (has_store and not is_store_name(names[-1])):
        raise MessageRefused("names")
    return names


def _build_message(queue: str, task: str, arguments: list[str], form: MessageFormat) -> bytes:
    """Encode a message as Celery (protocol 2) and kombu do. Ids are new: Celery takes equal ids for one message."""
    identity = str(uuid.uuid4())
    content_type, encoding, body = dumps([arguments, {}, _EMBED], form.serializer)
    headers: dict[str, Any] = {"lang": "py", "task": task, "id": identity, "root_id": identity, "retries": 0}
    headers |= {"ignore_result": True, "argsrepr": repr(arguments), "kwargsrepr": "{}", "timelimit": [None, None]}
    headers |= dict.fromkeys(("parent_id", "group", "eta", "expires"))
    properties: dict[str, Any] = {"correlation_id": identity, "reply_to": "", "delivery_mode": 2, "priority": 0}
    properties |= {"body_encoding": "base64", "delivery_tag": str(uuid.uuid4())}
    properties |= {"delivery_info": {"exchange": "", "routing_key": queue}}
    message = {
        "body": base64.b64encode(body if isinstance(body, bytes) else body.encode()).decode(),
        "content-encoding": encoding,
        "content-type": content_type,
        "headers": headers,
        "properties": properties,
    }
    return orjson.dumps(message)
