"""What a message of the queue may say: which task, and the names it is about. Whatever else it holds is not read.

Anybody who can write to the broker writes there. So each element is checked while it is bytes, and what goes on to
Celery is made here, anew: no limit of time, no moment to run at or to expire, no count of retries, nothing that is to
run before or after, and no name of a log line comes from a message.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from kombu.serialization import dumps

from helix.snapshot.digests import DOCUMENT, FINGERPRINT, ORDER

MOST: Final = 16 << 10
"""Bytes of a message. Ours have about one thousand, signed ones three; below this, the parser bounds what is nested."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The queues of a task, the first unless another is named, and the form of what its messages name."""

    queues: tuple[str, ...]
    names: tuple[re.Pattern[str], ...] = ()


KINDS: Final[Mapping[str, Kind]] = {
    "helix.accept": Kind(("accept",), (ORDER,)),  # read what was ordered, and put it into the inbox
    "helix.enrich": Kind(("enrich", "bulk"), (DOCUMENT,)),  # a fresh turn; `bulk` where it is a part of an import
    "helix.reindex": Kind(("bulk",), (DOCUMENT, FINGERPRINT)),
    "helix.commit": Kind(("commit",)),  # one at a time
    "helix.expand": Kind(("expand",)),  # doc2query, of what is recallable already
    "helix.maintain": Kind(("maintain",)),  # merge, finish deletions, remove what nobody needs
    "helix.touch": Kind(("maintain",)),
    "helix.train": Kind(("maintain",)),
    "helix.deep": Kind(("deep",), (ORDER,)),  # ask a language model, where an endpoint is named
}

_NOTHING_ELSE: Final = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class Refused(Exception):
    """An element that is no message of ours. `why` is one of few words, and quotes nothing."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which the bodies of messages are written: as Celery's serializer of that name does."""

    serializer: str = "json"
    content_type: str = "application/json"
    opened: Callable[[bytes], bytes] = bytes
    """The JSON that a body holds; raises `Refused` where it is not signed by whom it should be."""


def renew(queue: str, raw: bytes, form: Form) -> bytes:
    """The message that an element of a queue is, with the task and its names taken over and all else as Helix sends it.

    Raises:
        Refused: it is none.
    """
    if len(raw) > MOST:
        raise Refused("size")
    message = _json(raw, dict)
    task, kind = _task(_part(message, "headers"), queue)
    if message.get("content-type") != form.content_type or message.get("content-encoding") != "utf-8":
        raise Refused("encoding")
    return _made(queue, task, _names(form.opened(_body(message)), kind), form)


def _json(raw: bytes, of: type) -> Any:
    try:
        found = orjson.loads(raw)  # which bounds what is nested, and takes nothing but UTF-8
    except orjson.JSONDecodeError:
        raise Refused("form") from None
    if not isinstance(found, of):
        raise Refused("form")
    return found


def _part(message: dict[str, Any], name: str) -> dict[str, Any]:
    found = message.get(name)
    if not isinstance(found, dict):
        raise Refused("form")
    return found


def _task(headers: dict[str, Any], queue: str) -> tuple[str, Kind]:
    task = headers.get("task")
    kind = KINDS.get(task) if isinstance(task, str) else None
    if not isinstance(task, str) or kind is None or queue not in kind.queues:
        raise Refused("task")
    return task, kind


def _body(message: dict[str, Any]) -> bytes:
    body = message.get("body")
    if _part(message, "properties").get("body_encoding") != "base64" or not isinstance(body, str):
        raise Refused("encoding")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):  # or it is not ASCII
        raise Refused("encoding") from None


def _names(body: bytes, kind: Kind) -> list[str]:
    said = _json(body, list)
    names = said[0] if len(said) == 3 and said[1] == {} else None
    if not isinstance(names, list) or len(names) != len(kind.names):
        raise Refused("names")
    for name, form in zip(names, kind.names, strict=True):
        if not isinstance(name, str) or not form.fullmatch(name):
            raise Refused("names")
    return names


def _made(queue: str, task: str, names: list[str], form: Form) -> bytes:
    """As Celery (protocol 2) and kombu write it. The ids are new: two messages of one id would be taken for one."""
    identity = str(uuid.uuid4())
    content_type, encoding, body = dumps([names, {}, _NOTHING_ELSE], form.serializer)
    headers = {
        "lang": "py",
        "task": task,
        "id": identity,
        "root_id": identity,
        "parent_id": None,
        "group": None,
        "eta": None,
        "expires": None,
        "retries": 0,
        "timelimit": [None, None],
        "argsrepr": repr(names),
        "kwargsrepr": "{}",
        "ignore_result": True,
    }
    properties = {
        "correlation_id": identity,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid.uuid4()),
    }
    return orjson.dumps(
        {
            "body": base64.b64encode(body if isinstance(body, bytes) else body.encode()).decode(),
            "content-encoding": encoding,
            "content-type": content_type,
            "headers": headers,
            "properties": properties,
        }
    )
