"""The beginning of an input, parsed once for the format tests of all adapters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from helix.sources.common.json_text import sample_records, try_json

_HEAD_CHARS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of an input, as text and as JSON."""

    path: str
    head: str  # at least the first 64 kB, to the end of a line: half a record proves nothing
    records: list[dict[str, Any]] = field(default_factory=list)  # of JSON lines: the objects in the head
    value: Any = None  # of one JSON document: all of it


def take_sample(text: str, path: str) -> Sample:
    """Return the sample of a whole text."""
    end = text.find("\n", _HEAD_CHARS)
    head = text if end < 0 else text[:end]
    records = sample_records(head)
    value = None
    if len(records) == 1 and not text[len(head) :].strip():
        value = records[0]
    elif not records and text.lstrip()[:1] in ("{", "["):
        value = try_json(text)
    return Sample(path, head, records, value)
