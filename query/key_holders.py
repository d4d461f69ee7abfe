"""All keys of one principal: list the live ones, or end them when a member leaves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from query.auth import edit_keys, format_moment, load_keys


def list_live(path: Path, principal: str) -> list[str]:
    """Return the ids of a principal's live keys.

    Raises:
        StoreError: the file cannot be read.
    """
    now = datetime.now(UTC)
    return [
        record.id for record in load_keys(path) if record.principal == principal and record.get_state(now) == "live"
    ]


def revoke_principal(path: Path, principal: str) -> list[str]:
    """End every live key of a principal at once; return their ids.

    Raises:
        StoreError: the file cannot be read or written.
    """
    now = datetime.now(UTC)
    with edit_keys(path) as records:
        ended = []
        for at, record in enumerate(records):
            if record.principal == principal and record.get_state(now) == "live":
                records[at] = record._replace(revoked=format_moment(now))
                ended.append(record.id)
    return ended
