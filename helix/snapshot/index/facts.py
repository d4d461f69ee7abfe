"""Search of the facts of a snapshot: vector and terms of each fact's sentence.

The arrays are part of the segment. A segment of an earlier release has none; its facts are read, but no search finds
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from helix.ranking.bm25 import FieldNorms
from helix.ranking.topk import select_top
from helix.snapshot.segment.fact_arrays import format_fact
from helix.snapshot.segment.layout import FACT_TEXT
from helix.snapshot.segment.open import OpenSegment
from helix.types import F32, I64, U16, U32, U64, AnyArray, Bool, Leg

_STEP: Final = 65_536  # facts converted to float32 at a time


class _FactPart(NamedTuple):
    """The facts of one segment that has an index."""

    segment: OpenSegment
    kept: I64  # facts of the segment whose row is live, ascending
    first: int  # place of the first of them in the field
    place: I64  # of each fact of the segment in the field, −1 if its row is not live


class FactField:
    """The facts of the live rows of a snapshot: a lexical field for `search_lexical`, and vectors.

    Fact i is entry i of `Snapshot.facts`. Only indexed facts of live rows count in postings, statistics and answers.
    """

    def __init__(self, segments: Sequence[OpenSegment], starts: I64, alive: Bool) -> None:
        self._parts: list[_FactPart] = []
        total = 0
        for segment, start in zip(segments, starts.tolist(), strict=True):
            keep = alive[start + segment.facts["row"].to_numpy().astype(np.int64)]
            kept = np.flatnonzero(keep)
            if len(segment["facts.scale"]) and len(kept):
                place = np.where(keep, total - 1 + np.cumsum(keep), -1)
                self._parts.append(_FactPart(segment, kept, total, place))
            total += len(kept)
        self.rows = total
        self.key: U64 = np.zeros(total, np.uint64)
        self.length: F32 = np.zeros(total, np.float32)
        self.indexed: Bool = np.zeros(total, bool)
        for segment, kept, first, _ in self._parts:
            here = slice(first, first + len(kept))
            self.key[here] = segment["facts.key"][kept]
            self.length[here] = segment["facts.length"][kept]
            self.indexed[here] = segment["facts.scale"][kept] > 0
        self.live = int(self.indexed.sum())
        self.mean_length = max(1.0, float(self.length[self.indexed].mean())) if self.live else 1.0
        self.norm = FieldNorms(self.length, self.mean_length)

    @property
    def share(self) -> float:
        """Share of the facts that can be searched, 0 to 1; 1 without facts."""
        return self.live / self.rows if self.rows else 1.0

    def term(self, term: np.uint64) -> list[tuple[int, U32, U16]]:
        """Return the postings of a term by segment: (0, facts ascending, term frequencies)."""
        postings: list[tuple[int, U32, U16]] = []
        for segment, _, _, place in self._parts:
            keys = segment["facts.terms.key"]
            at = int(keys.searchsorted(term))
            if at < len(keys) and keys[at] == term:
                low, high = segment["facts.terms.indptr"][at : at + 2]
                fact = place[segment["facts.terms.rows"][low:high]]
                seen = np.flatnonzero(fact >= 0)
                if len(seen):
                    postings.append((0, fact[seen].astype(np.uint32), segment["facts.terms.tf"][low:high][seen]))
        return postings

    def df(self, term: np.uint64) -> int:
        """Count the facts whose sentence contains the term."""
        return sum(len(facts) for _, facts, _ in self.term(term))

    def nearest(self, vector: F32, k: int, allowed: Bool | None = None) -> Leg:
        """Scan for the k facts nearest to a vector by inner product, best first, ties by smaller id.

        Args:
            vector: float32[d].
            allowed: bool[facts]; None allows every one.
        """
        chosen = np.flatnonzero(self.indexed if allowed is None else self.indexed & allowed)
        scores = self.scores(vector, chosen)
        best = select_top(scores, self.key[chosen], k)
        return Leg("dense", chosen[best].astype(np.uint32), scores[best])

    def scores(self, vector: F32, facts: I64) -> F32:
        """Return inner products with indexed facts, given in ascending order: float32[len(facts)]."""
        out = [np.empty(0, np.float32)]
        for segment, kept, first, _ in self._parts:
            low, high = np.searchsorted(facts, (first, first + len(kept)))
            local = kept[facts[low:high] - first]
            for start in range(0, len(local), _STEP):
                part = local[start : start + _STEP]
                whole = len(part) == part[-1] - part[0] + 1  # contiguous: a view, not a copy
                at = slice(part[0], part[-1] + 1) if whole else part
                out.append((segment["facts.i8"][at].astype(np.float32) @ vector) * segment["facts.scale"][at])
        return np.concatenate(out)

    def text(self, facts: AnyArray) -> list[dict[str, Any]]:
        """Return the columns of FACT_TEXT and the sentence (`text`) of indexed facts."""
        which = np.searchsorted([part.first for part in self._parts], facts, side="right") - 1
        out = []
        for fact, part in zip(facts.tolist(), (self._parts[i] for i in which.tolist()), strict=True):
            local = int(part.kept[fact - part.first])
            entry = {name: part.segment.fact_text[name][local].as_py() for name in FACT_TEXT.names}
            out.append({**entry, "text": format_fact(**entry)})
        return out
