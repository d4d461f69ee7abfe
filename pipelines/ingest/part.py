"""A part: one document's enriched rows on disk, not yet published."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from helix.settings import Settings
from helix.snapshot.digests import FINGERPRINT, check_name
from helix.snapshot.segment.batch import hash_parts
from helix.types import Problem
from pipelines.training.router import types_fingerprint

VERSION: Final = 6
"""Of the enrichment; another number makes other parts."""


@dataclass(frozen=True, slots=True)
class EnrichedPart:
    """The description of a part; `folder` holds its rows."""

    folder: Path
    path: str  # of the source
    format: str
    accepted: datetime
    turns: int
    items: int
    sessions: int
    redacted: dict[str, int]
    problems: tuple[Problem, ...]
    unknown: dict[str, int]
    types: str = ""  # why the classifier was not used; empty where it was
    junk: dict[str, int] = field(default_factory=dict)  # characters left out, by rule
    chars: int = 0  # retained
    after: str = ""  # the document this one continues, which is published first
    leans_on: str = ""  # the version it replaces, whose items it does not repeat
    vanished: tuple[str, ...] = ()  # ids of items that its source no longer holds
    again: tuple[str, ...] = ()  # ids of earlier items whose salience or confidence the new text changes
    keys: tuple[str, ...] | None = None  # ids of all items in the document's text; None: those of its rows
    remember: bool = False  # forgotten items of it are accepted again


def pipeline_fingerprint(encoder: str, settings: Settings) -> str:
    """Return the digest of everything that decides the content of a part."""
    constants = (settings.item_words, settings.tool_chars, settings.vectors)
    return hash_parts(str(VERSION), types_fingerprint(), encoder, *map(str, constants))


def part_folder(root: Path, document: str, fingerprint: str) -> Path:
    """Return the folder of a document's part, present or not.

    Raises:
        UsageError: one of the two is no valid name.
    """
    return root / "parts" / f"{check_name(document)}-{check_name(fingerprint, FINGERPRINT)}"


def read_part(folder: Path) -> EnrichedPart:
    """Read the description of a part."""
    raw = orjson.loads((folder / "part.json").read_bytes())
    accepted = datetime.fromisoformat(raw.pop("accepted"))
    problems = tuple(Problem(*entry) for entry in raw.pop("problems"))
    raw["vanished"], raw["again"] = tuple(raw.get("vanished", ())), tuple(raw.get("again", ()))
    raw["keys"] = None if raw.get("keys") is None else tuple(raw["keys"])
    return EnrichedPart(folder=folder, accepted=accepted, problems=problems, **raw)
