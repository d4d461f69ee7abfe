"""The text a cross-encoder reads of an item: its header, its best sentences, and what is around it.

An answer in a chat is read with the turns before and after. An item without such neighbours, as a short document is,
is read with the best item instead, since a question through a chain of documents names the first only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features.excerpt import excerpt
from helix.types import AnyArray

BEFORE_WORDS: Final = 40
"""Most words of the turn before, its last."""

AFTER_WORDS: Final = 20
"""Most words of the turn after, its first."""

ITEM_CHARS: Final = 380
"""Most characters of the item: about 90 tokens."""

OTHER_CHARS: Final = 200
"""Most characters of the best item, where it replaces neighbours."""

BREAK: Final = " [SEP] "
"""Between the item and its neighbours, as the tokenizers of BERT's family read it."""


def read_pair_texts(rows: AnyArray, snap: Snapshot, weights: Mapping[str, float]) -> list[str]:
    """Read what is compared with the question, for each row: "title. speaker: text", then what is around it.

    What comes last is cut first, where an item fills a model's window.

    Args:
        rows: integer[n], best first.
        weights: idf of the question's terms, by which the sentences of a long item are chosen.
    """
    columns = snap.columns
    before, after = columns.previous[rows], columns.next[rows]
    every = np.unique(np.concatenate([rows, before[before >= 0], after[after >= 0]]).astype(np.int64))
    entries = dict(zip(every.tolist(), snap.text(every), strict=True))
    best = [entries[row] for row in rows[:2].tolist()]
    languages = snap.lexical.languages_of(rows)
    around = zip(rows.tolist(), before.tolist(), after.tolist(), languages, strict=True)
    out = []
    for i, (row, left, right, language) in enumerate(around):
        parts = [_read_item(entries[row], weights, ITEM_CHARS, language)]
        if left >= 0:
            parts.append(_say(entries[left], " ".join(entries[left]["text"].split()[-BEFORE_WORDS:])))
        if right >= 0:
            parts.append(_say(entries[right], " ".join(entries[right]["text"].split()[:AFTER_WORDS])))
        if left < 0 and right < 0 and len(best) > 1:
            other = int(i == 0)
            parts.append(_read_item(best[other], weights, OTHER_CHARS, languages[other]))
        out.append(BREAK.join(parts))
    return out


def _read_item(entry: Mapping[str, Any], weights: Mapping[str, float], size: int, language: str) -> str:
    title = f"{entry['title']}. " if entry.get("title") else ""
    return title + _say(entry, excerpt(" ".join(entry["text"].split()), weights, size, size, language))


def _say(entry: Mapping[str, Any], text: str) -> str:
    text = text.replace("[SEP]", "").replace("[CLS]", "")
    who = entry.get("speaker") or ("" if entry["role"] == "document" else entry["role"])
    return f"{who}: {text}" if who else text
