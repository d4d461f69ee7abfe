"""The columns of a part, built from its item records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from helix.snapshot.segment.arrays import quantise_vectors
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, RowBatch, hash_parts
from helix.text.cues import read_cues
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, I64, U32


def build_rows(
    records: list[dict[str, Any]],
    texts: Sequence[str],
    mentions: Sequence[Sequence[tuple[str, str, str]]],
    vectors: F32,
    minhash: U32,
    *,
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
    facts: Sequence[Sequence[dict[str, Any]]] | None = None,
    fact_vectors: F32 | None = None,
) -> RowBatch:
    """Return the rows of n items.

    Args:
        records: one of ITEMS an item.
        texts: the indexed text of each item.
        mentions: (kind, key, name) of each item's entities.
        vectors: float32[n, d], unit length.
        minhash: uint32[n, 64].
        links: (key of an earlier item, position in LINKS) of each item; none by default.
        facts: records of FACTS of each item; none by default.
        fact_vectors: float32[f, d], unit length, of all facts in order; without them no search finds a fact.
    """
    links = links if links is not None else [()] * len(records)
    facts = facts if facts is not None else [()] * len(records)
    codes, scale = quantise_vectors(vectors)
    stated = [fact for row in facts for fact in row]
    nothing = np.zeros((len(stated), vectors.shape[1]), np.float32)
    fact_codes, fact_scale = quantise_vectors(nothing if fact_vectors is None else fact_vectors)
    tokens = [tokenise(text) for text in texts]
    counts = [Counter(terms) for terms in tokens]
    terms = [list(count) for count in counts]
    hashes = [[int(hash_parts(kind, key), 16) for kind, key, _ in entities] for entities in mentions]
    distinct = dict(zip(_flatten(hashes), _flatten(mentions), strict=True))
    return RowBatch(
        items=pa.Table.from_pylist(records, schema=ITEMS),
        codes=codes,
        scale=scale,
        exact=vectors.astype(np.float16),
        minhash=minhash,
        term_indptr=_offsets(terms),
        term_key=hash_terms(_flatten(terms)),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        order_indptr=_offsets(tokens),
        order_term=shorten_ids(hash_terms(_flatten(tokens))),
        cues=np.array([read_cues(record["text"], record["role"]) for record in records], np.uint8),
        mention_indptr=_offsets(hashes),
        mention_entity=np.array(_flatten(hashes), np.uint64),
        link_indptr=_offsets(links),
        link_key=np.array([key for key, _ in _flatten(links)], np.uint64),
        link_kind=np.array([kind for _, kind in _flatten(links)], np.uint8),
        fact_indptr=_offsets(facts),
        entities=pa.Table.from_pylist(
            [dict(zip(ENTITIES.names, (*row, number), strict=True)) for number, row in distinct.items()],
            schema=ENTITIES,
        ),
        facts=pa.Table.from_pylist(stated, schema=FACTS),
        fact_codes=fact_codes,
        fact_scale=fact_scale,
    )


def _flatten(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [value for row in lists for value in row]


def _offsets(lists: Sequence[Sequence[Any]]) -> I64:
    """Return where each list begins and the last one ends: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in lists], dtype=np.int64)])
