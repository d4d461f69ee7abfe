"""The text a cross-encoder reads of an item: its header, the item, and the turns to either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from helix.snapshot.reader.snapshot import Snapshot
from helix.types import I64

BEFORE_WORDS: Final = 40
"""Most words of the turn before, its last."""

AFTER_WORDS: Final = 20
"""Most words of the turn after, its first."""

BREAK: Final = " [SEP] "
"""Between the item and its neighbours, as the tokenizers of BERT's family read it."""


def read_pair_texts(rows: I64, snap: Snapshot) -> list[str]:
    """Read what is compared with the question, for each row: "title. speaker: text", then the turns around it.

    What comes last is cut first, where an item fills a model's window.
    """
    columns = snap.columns
    before, after = columns.previous[rows], columns.next[rows]
    every = np.unique(np.concatenate([rows, before[before >= 0], after[after >= 0]]))
    entries = dict(zip(every.tolist(), snap.text(every), strict=True))
    around = zip(rows.tolist(), before.tolist(), after.tolist(), strict=True)
    return [format_pair(entries[row], entries.get(left), entries.get(right)) for row, left, right in around]


def format_pair(entry: Mapping[str, Any], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Format an item and its neighbours."""
    title = f"{entry['title']}. " if entry.get("title") else ""
    parts = [title + _say(entry, entry["text"].split())]
    if before:
        parts.append(_say(before, before["text"].split()[-BEFORE_WORDS:]))
    if after:
        parts.append(_say(after, after["text"].split()[:AFTER_WORDS]))
    return BREAK.join(parts)


def _say(entry: Mapping[str, Any], words: Sequence[str]) -> str:
    text = " ".join(words).replace("[SEP]", "").replace("[CLS]", "")
    who = entry.get("speaker") or ("" if entry["role"] == "document" else entry["role"])
    return f"{who}: {text}" if who else text
