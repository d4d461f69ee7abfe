"""Record of what hooks gave a session: items, which are given once, and tokens, which are limited.

A tool call may be given once more what a briefing or a prompt was given: there it helps most.

A hook is a process of its own, so this is a small file of the user, one a session. `query.hooks.command` imports this
module while an agent waits, so it imports next to nothing.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from zlib import crc32

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from typing import Any

MOST = 2_000
"""Items that are remembered of a session."""

DAYS = 14
"""After so many days without an event a session is forgotten."""


def locate_record(folder: str, root: str, session: str) -> str:
    """Return the path of a session's record, below the user's cache folder."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in session)[:80]
    return f"{folder}/sessions/{crc32(root.encode()):08x}-{crc32(session.encode()):08x}-{name}.json"


def read_record(path: str) -> dict[str, Any]:
    """Return `seen` and `told`, item ids, and `tokens`; a missing or damaged record is an empty one.

    `told` are those of `seen` that were given at a tool call.
    """
    with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        record = json.load(file)
        record = {"told": [], **record} if isinstance(record, dict) else {}
        kinds = {"seen": list, "told": list, "tokens": int}
        if all(isinstance(record.get(name), kind) for name, kind in kinds.items()):
            return record
    return {"seen": [], "told": [], "tokens": 0}


def write_record(path: str, record: dict[str, Any]) -> None:
    """Write a whole record or none; delete those of forgotten sessions."""
    folder = os.path.dirname(path)  # noqa: PTH120
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    new = f"{path}.{os.getpid()}"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        lists = {name: record[name][-MOST:] for name in ("seen", "told")}
        json.dump({**lists, "tokens": record["tokens"]}, file)
    os.replace(new, path)  # noqa: PTH105
    oldest = time.time() - DAYS * 86_400
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat().st_mtime < oldest:
                os.unlink(entry.path)  # noqa: PTH108


def clear_record(path: str) -> None:
    """Forget what a session was given: its agent has lost it."""
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108
