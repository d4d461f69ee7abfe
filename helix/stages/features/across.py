"""Evidence of items in another language than the question: only its names can be in them, and its vector tells."""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.stages.features.relevance import Evidence
from helix.types import Bool

_OF_TERMS: Final = ("own", "near", "window", "session")  # bool[t, n]
_OF_ROWS: Final = (
    *("rows", "shared", "adjacent", "bm25", "z", "z_lean", "speaker", "date", "title", "role", "session_code"),
    *("length", "cues", "cues_before", "claims", "salience"),
)


def take_rows(found: Evidence, chosen: Bool) -> Evidence:
    """Return the evidence of some rows: bool[n]."""
    taken = {name: getattr(found, name)[chosen] for name in _OF_ROWS}
    return found._replace(**taken, **{name: getattr(found, name)[:, chosen] for name in _OF_TERMS})


def blind_words(found: Evidence) -> Evidence:
    """Return the evidence without words that are no names: they mean nothing in another language."""
    held = {name: getattr(found, name) & found.names[:, None] for name in _OF_TERMS}
    nothing = np.zeros(len(found.rows), np.float32)
    return found._replace(**held, adjacent=nothing, bm25=nothing)
