"""Queue messages as Celery writes them, with chosen differences."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any, Final

MARK: Final = "zorbified harp"
"""Text of every invalid message, which no log may quote."""


def name(number: int) -> str:
    """Return the name of a document."""
    return f"{number:064x}"


def element(
    task: str = "helix.enrich",
    names: Any = (),
    *,
    headers: Any = (),
    properties: Any = (),
    embed: Any = (),
    body: bytes | None = None,
    **top: Any,
) -> bytes:
    """Return a message as Celery writes it, with the given differences."""
    identity = str(uuid.uuid4())
    nothing = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body = json.dumps([names, {}, {**nothing, **dict(embed)}]).encode() if body is None else body
    message = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py", "task": task, "id": identity, "shadow": None, "eta": None, "expires": None, "retries": 0,
            "timelimit": [None, None], "root_id": identity, "parent_id": None, "argsrepr": MARK, "kwargsrepr": "{}",
            "origin": "elsewhere", "ignore_result": True, **dict(headers),
        },
        "properties": {
            "correlation_id": identity, "reply_to": identity, "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "enrich"}, "priority": 0, "body_encoding": "base64",
            "delivery_tag": identity, **dict(properties),
        },
        **top,
    }  # fmt: skip
    return json.dumps(message).encode()
