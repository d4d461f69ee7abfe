"""A question as the JSON of a job, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from helix.redact.redact import redact
from helix.types import RecallOptions

_OF_THE_CALL: Final = ("explain", "why_not", "tier")
_STORED: Final = tuple(field.name for field in fields(RecallOptions) if field.name not in _OF_THE_CALL)
"""Options that a job stores."""


def redact_question(query: str, options: RecallOptions) -> tuple[str, RecallOptions]:
    """Return a question without secrets, with its moment: this may reach the disk and the endpoint."""
    entities = tuple(redact(str(name))[0] for name in options.entities)
    ignored = tuple(redact(words)[0] for words in options.ignored)
    now = options.now or datetime.now(UTC)
    return redact(query)[0], replace(options, entities=entities, ignored=ignored, now=now)


def to_arguments(query: str, options: RecallOptions) -> dict[str, Any]:
    """Return a question as the JSON of a job: arguments of `Memory.recall`."""
    return {"query": query, **{name: getattr(options, name) for name in _STORED}}


def from_arguments(arguments: Mapping[str, Any]) -> tuple[str, RecallOptions]:
    """Read a question from the JSON of a job."""
    given = dict(arguments)
    query = str(given.pop("query"))
    given |= {name: tuple(given.get(name) or ()) for name in ("entities", "ignored")}
    given["projects"] = None if given.get("projects") is None else tuple(given["projects"])
    return query, RecallOptions(**given)
