"""Stores of random items, and the same items as plain lists for a naive second implementation."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from helix.text.tokenize import tokenise
from tests.support.tiny import make_store


class World:
    """A store of several segments with deleted rows, and its items."""

    def __init__(self, folder: Path, items: Sequence[dict[str, Any]], cuts: Sequence[int], vectors: Any = None) -> None:
        """Make the store.

        Args:
            items: fields of a record with `text` and `alive`, and where wanted `mentions`, `links` and `facts`.
        """
        self.items, self.n = items, len(items)
        self.live = [row for row, item in enumerate(items) if item["alive"]]
        self.texts = [item["text"] for item in items]
        self.terms = [Counter(tokenise(text)) for text in self.texts]
        deleted: dict[int, list[int]] = {}
        for row in sorted(set(range(self.n)) - set(self.live)):
            segment = bisect_right(cuts, row)
            deleted.setdefault(segment, []).append(row - [0, *cuts][segment])
        mentions, links, facts = ([item.get(name, []) for item in items] for name in ("mentions", "links", "facts"))
        self.snap = make_store(folder, self.texts, vectors, items, mentions, cuts, deleted, links, facts)
        self.keys: list[int] = self.snap.columns.key.tolist()
        self.df = Counter(term for row in self.live for term in self.terms[row])

    def list_session(self, session: str) -> list[int]:
        """Return the live rows of a session in reading order."""
        rows = [row for row in self.live if self.items[row]["session"] == session]
        return sorted(rows, key=lambda row: (self.items[row].get("ord", row), row))

    def find_neighbours(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the row before and the row after each live one that has such."""
        pairs = [
            pair for name in {item["session"] for item in self.items} for pair in pairwise(self.list_session(name))
        ]
        return {right: left for left, right in pairs}, dict(pairs)

    def idf(self, term: str) -> float:
        return math.log(1 + (len(self.live) - self.df[term] + 0.5) / (self.df[term] + 0.5))

    def score_bm25(
        self, terms: Sequence[str], k1: float, b: float, documents: Mapping[int, Mapping[str, int]] | None = None
    ) -> dict[int, float]:
        """Return BM25 by row, of the live rows' texts or of other documents."""
        documents = documents or {row: self.terms[row] for row in self.live}
        lengths = {row: sum(counts.values()) for row, counts in documents.items()}
        mean = max(1.0, sum(lengths.values()) / len(lengths))
        return {
            row: sum(
                self.idf(term) * counts[term] * (k1 + 1) / (counts[term] + k1 * (1 - b + b * lengths[row] / mean))
                for term in sorted(set(terms))
                if counts.get(term)
            )
            for row, counts in documents.items()
        }
