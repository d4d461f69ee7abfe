"""Hashes of titles, by which a text or question finds the documents it names.

A title is hashed as the ordered terms t₁ … t_n: Σ (t_i + 1) · Bⁱ mod 2⁶⁴ (a polynomial hash, Karp & Rabin 1987). Every
run of terms of a text is hashed likewise, so that one look-up finds its titles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.native.terms import find_ngrams
from helix.text.languages import ENGLISH
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import I64, U8, U32, U64

MAX_TERMS: Final = 8
"""Terms of a title; a longer title is not found."""

_BASE: Final = 0x9E3779B97F4A7C15  # odd: no power of it is 0 modulo 2**64
_POWERS: Final = np.array([pow(_BASE, i + 1, 1 << 64) for i in range(MAX_TERMS)], np.uint64)
_ASIDE: Final = re.compile(r"\([^()]{0,100}\)\s*$")


def find_title_runs(text: I64, terms: U32, known: U8) -> tuple[U64, I64, I64]:
    """Return the runs of up to `MAX_TERMS` terms of one text that may be titles.

    Args:
        text: int64[n], the text of each term; the terms of a text are adjacent.
        terms: short term ids in reading order, uint32[n].
        known: from `build_key_filter`.

    Returns:
        (key uint64[m], position of the first term int64[m], number of terms int64[m]).
    """
    return find_ngrams(text, terms, _POWERS, known)


def build_key_filter(keys: U64) -> U8:
    """Return uint8[2¹⁷]: a bit for each value of the lowest 20 bits of the keys (Bloom 1970, with one hash)."""
    present = np.zeros(1 << 20, bool)
    present[keys & np.uint64(len(present) - 1)] = True
    return np.packbits(present, bitorder="little")


def hash_title(terms: U32) -> int | None:
    """Return the hash of one title; None for none, or too many terms."""
    if not 0 < len(terms) <= MAX_TERMS:
        return None
    return int(((terms.astype(np.uint64) + np.uint64(1)) * _POWERS[: len(terms)]).sum(dtype=np.uint64))


def hash_titles(titles: Sequence[str | None], roles: Sequence[str], languages: Sequence[str] = ()) -> tuple[U64, I64]:
    """Return (key uint64[m], row int64[m]) of the documents with a title.

    Its terms are made by the rules of the document's language, English by default. A title with an aside at its end has
    two: "Alien (film)" and "Alien".
    """
    keys: list[int] = []
    rows: list[int] = []
    known: dict[tuple[str, str], list[int]] = {}
    for row, (title, role, language) in enumerate(
        zip(titles, roles, languages or [ENGLISH] * len(titles), strict=True)
    ):
        if not title or role != "document":
            continue
        if (title, language) not in known:
            forms = {title, _ASIDE.sub("", title)}
            hashes = {hash_title(shorten_ids(hash_terms(tokenise(form, language)))) for form in forms}
            known[title, language] = sorted(key for key in hashes if key is not None)
        keys += known[title, language]
        rows += [row] * len(known[title, language])
    return np.array(keys, np.uint64), np.array(rows, np.int64)
