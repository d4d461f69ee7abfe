"""Items that may be in the language of the question: others cannot have its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.text.languages import NUMBERS
from helix.types import I64, Bool, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def find_shared(rows: I64, query: Query, snap: Snapshot) -> Bool:
    """Return which rows are in the question's language, or in one that is not known: bool[n]."""
    if snap.lexical.languages == (query.language,):
        return np.ones(len(rows), bool)
    numbers = snap.lexical.language_numbers(rows)
    return np.asarray((numbers == NUMBERS.get(query.language, 0)) | (numbers == 0))
