"""Sentences of a segment's facts, and the arrays that search them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from helix.snapshot.segment.arrays import invert_csr, parse_hex
from helix.snapshot.segment.layout import FACT_TEXT
from helix.text.relations import describe_fact
from helix.text.tokenize import hash_terms, tokenise
from helix.types import F32, I8, AnyArray


def format_fact(subject: str, relation: str, object: str, qualifier: str, closes: bool) -> str:
    """Format a fact as one sentence, which is embedded, searched by BM25 and shown.

    >>> format_fact("Ana", "lives_in", "Oslo", "", False), format_fact("we", "uses", "Redis", "the queue", True)
    ('Ana lives in Oslo', 'we no longer use Redis for the queue')
    """
    return describe_fact(subject, relation, object, qualifier, closes)


def format_facts(facts: pa.Table) -> list[str]:
    """Format each fact of a table with the columns of FACT_TEXT."""
    return [format_fact(*row) for row in zip(*(facts[name].to_pylist() for name in FACT_TEXT.names), strict=True)]


def build_fact_arrays(facts: pa.Table, codes: I8, scale: F32) -> dict[str, AnyArray]:
    """Build the arrays of a segment's facts, by name; none if no fact has a vector.

    Args:
        facts: FACTS, f of them.
        codes: int8[f, d].
        scale: float32[f]; 0 for a fact that is not embedded: it gets no postings either.
    """
    known = scale > 0
    if not known.any():
        return {}
    texts = zip(format_facts(facts), known.tolist(), strict=True)
    counts = [Counter(tokenise(text)) if embedded else Counter[str]() for text, embedded in texts]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(count) for count in counts], dtype=np.int64)])
    hashes = hash_terms([term for count in counts for term in count])
    tf = np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16)
    key, term_indptr, rows, order = invert_csr(indptr, hashes)
    return {
        "facts.key": parse_hex(facts["id"]),
        "facts.i8": codes,
        "facts.scale": scale,
        "facts.length": np.array([sum(count.values()) for count in counts], np.uint32),
        "facts.terms.key": key,
        "facts.terms.indptr": term_indptr,
        "facts.terms.rows": rows,
        "facts.terms.tf": tf[order],
    }
