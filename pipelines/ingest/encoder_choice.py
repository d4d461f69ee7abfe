"""The encoder of a new store where the settings name none: by the language of what was accepted first, decided once.

All processes of a store must decide alike, so the first decision is written down; the first commit makes it the
lineage's.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from helix.encoders.registry import Weights, choose_encoder, find_encoder
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.digested_file import read_digested, write_digested
from helix.text.languages import CERTAIN, ENGLISH, identify
from pipelines.ingest.enrich import FAULTS
from pipelines.ingest.versions import read_document

MULTILINGUAL: Final = "multilingual-e5-small"

LEAST_SHARE: Final = 0.2
"""Share of the turns in other languages from which a store begins with the multilingual encoder."""

_DOCUMENTS: Final = 12  # that are read, spread over all that wait
_TURNS: Final = 40  # of each
_MOST_CHARS: Final = 2_000_000  # of a document that is read


class EncoderChoice(NamedTuple):
    """The encoder of a new store, and why it is not the default, or should not be."""

    weights: Weights
    why: str


def choose_for_store(root: Path, settings: Settings) -> EncoderChoice:
    """Choose the encoder of a new store: the configured one, that of an earlier decision, or by language.

    Raises:
        EncoderError: it is not available.
    """
    if settings.encoder:
        return EncoderChoice(choose_encoder(settings), "")
    if (decided := _read_decision(root)) is None:
        decided = _decide(root, settings)
        decided = _write_decision(root, decided)
    name, why = decided
    return EncoderChoice(choose_encoder(replace(settings, encoder=name)), why)


def _decide(root: Path, settings: Settings) -> tuple[str, str]:
    """Return the name of the encoder, and why."""
    default, share = choose_encoder(settings).model.name, measure_foreign(root, settings)
    if share < LEAST_SHARE:
        return default, ""
    told = f"{share:.0%} of what was read is in other languages than English"
    if find_encoder(MULTILINGUAL, settings):
        return MULTILINGUAL, told
    return default, f"{told}; {MULTILINGUAL} would find it across languages: install helix-recall[multilingual]"


def measure_foreign(root: Path, settings: Settings) -> float:
    """Return the share of the waiting documents' turns that are certainly in another language than English."""
    waiting = inbox.list_pending(root)
    found: Counter[bool] = Counter()
    for document in waiting[:: max(1, len(waiting) // _DOCUMENTS)][:_DOCUMENTS]:
        for text in _read_turns(root, document, settings):
            code, chance = identify(text)
            if chance >= CERTAIN:
                found[code != ENGLISH] += 1
    return found[True] / max(1, found.total())


def _read_turns(root: Path, document: str, settings: Settings) -> list[str]:
    """Read some turns of a document that people or agents wrote; none of one that cannot be read."""
    try:
        envelope = inbox.read_envelope(root, document)
        if envelope.forgotten or len(envelope.text) > _MOST_CHARS:
            return []
        parsed = read_document(root, envelope, settings).parsed
    except (*FAULTS, OSError):
        return []  # the ingest itself says what is wrong
    turns = [turn.text for session in parsed.sessions for turn in session.turns if turn.role != "tool"]
    return turns[:: max(1, len(turns) // _TURNS)][:_TURNS]


def _read_decision(root: Path) -> tuple[str, str] | None:
    try:
        found = orjson.loads(read_digested(root / paths.ENCODER_CHOICE) or b"")
        return str(found["encoder"]), str(found["why"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _write_decision(root: Path, decided: tuple[str, str]) -> tuple[str, str]:
    """Write a decision, unless another process was first: then return that one."""
    temporary = root / f"{paths.TEMPORARY}{os.getpid()}-{paths.ENCODER_CHOICE}"
    write_digested(temporary, orjson.dumps({"encoder": decided[0], "why": decided[1]}))
    try:
        os.link(temporary, root / paths.ENCODER_CHOICE)  # fails where it exists
    except FileExistsError:
        if first := _read_decision(root):
            return first
        temporary.replace(root / paths.ENCODER_CHOICE)  # that one is damaged
    finally:
        temporary.unlink(missing_ok=True)
    return decided
