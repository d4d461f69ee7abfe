"""What adapters look at to tell their format: read and parsed once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from helix.sources.common.shared import json_sample, load_json

_HEAD_CHARS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of an input, as text and as JSON."""

    path: str
    head: str  # at least the first 64 kB, to the end of a line: half a record would tell nothing
    records: list[dict[str, Any]] = field(default_factory=list)  # of JSON lines: the objects in the head
    value: Any = None  # of one JSON document: all of it


def sample(text: str, path: str) -> Sample:
    """The sample of a whole text."""
    end = text.find("\n", _HEAD_CHARS)
    head = text if end < 0 else text[:end]
    records = json_sample(head)
    value = None
    if len(records) == 1 and not text[len(head) :].strip():
        value = records[0]
    elif not records and text.lstrip()[:1] in ("{", "["):
        try:
            value = load_json(text)
        except ValueError:
            value = None
    return Sample(path, head, records, value)
