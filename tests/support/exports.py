"""Made-up exports of chats, and their ingest as a whole, as it was before they were split into conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from helix.redact.redact import redact
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.sources import registry as sources
from helix.sources.common.decode import decode, unescape_ascii
from helix.types import Document


def chatgpt(name: str | None, *texts: str, id: str = "m") -> dict[str, Any]:
    """A conversation of ChatGPT: consecutive messages, a person's first."""
    nodes: dict[str, Any] = {}
    parent = None
    for number, text in enumerate(texts):
        node = f"{id}-{number}"
        message = {
            "author": {"role": ("user", "assistant")[number % 2]},
            "create_time": 1_700_000_000 + number,
            "content": {"content_type": "text", "parts": [text]},
        }
        nodes[node] = {"id": node, "parent": parent, "children": [], "message": message}
        parent = node
    named = {"conversation_id": name} if name is not None else {}
    return {"title": "A talk", "mapping": nodes, "current_node": parent, **named}


def claude_ai(name: str | None, *texts: str) -> dict[str, Any]:
    """A conversation of Claude.ai."""
    messages = [
        {"sender": ("human", "assistant")[number % 2], "created_at": "2026-05-04T10:00:00Z", "text": text}
        for number, text in enumerate(texts)
    ]
    return {"name": "A talk", "chat_messages": messages, **({"uuid": name} if name is not None else {})}


def write(path: Path, values: Sequence[Any], **how: Any) -> Path:
    """Write an export."""
    path.write_text(json.dumps(values, **how))
    return path


def whole(root: Path, path: Path) -> str:
    """Write one envelope of a whole file; return its document."""
    text, _ = decode(path.read_bytes(), 1 << 24)
    format = sources.detect(Document(str(path), text)).NAME
    text, redacted = redact(unescape_ascii(text))
    document = inbox.name_document(text, format, None, ())
    now = datetime.now(UTC)
    inbox.accept_envelope(root, Envelope(document, str(path), text, format, None, (), now, now, dict(redacted), ()))
    return document
