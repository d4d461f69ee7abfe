"""Titles found in running text: a document is known by the terms of its title in order, as one number, and so is every
run of terms of a text or question, so that one look-up finds the documents it names.

The number of terms t₁ … t_n is Σ (t_i + 1) · Bⁱ mod 2⁶⁴ (a polynomial hash, Karp & Rabin 1987).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.native.terms import find_ngrams
from helix.text.tokenize import hash_terms, short_ids, tokenise
from helix.types import I64, U32, U64

LONGEST: Final = 8
"""Terms of a title that can be found; a longer one is not looked for."""

_BASE: Final = 0x9E3779B97F4A7C15  # odd, so that no power of it is 0 modulo 2**64
_POWERS: Final = np.array([pow(_BASE, i + 1, 1 << 64) for i in range(LONGEST)], np.uint64)
_ASIDE: Final = re.compile(r"\([^()]{0,100}\)\s*$")


def runs(text: I64, terms: U32, known: npt.NDArray[np.uint8]) -> tuple[U64, I64, I64]:
    """The runs of up to `LONGEST` terms of one text that may be titles.

    Args:
        text: int64[n], which text each term is of; those of one lie together.
        terms: short term ids in reading order, uint32[n].
        known: of `bits`.

    Returns:
        (key uint64[m], where it begins int64[m], how many terms it has int64[m]).
    """
    return find_ngrams(text, terms, _POWERS, known)


def bits(keys: U64) -> npt.NDArray[np.uint8]:
    """uint8[2¹⁷]: which lowest 20 bits the keys of titles have, a bit each (Bloom 1970, with one hash)."""
    there = np.zeros(1 << 20, bool)
    there[keys & np.uint64(len(there) - 1)] = True
    return np.packbits(there, bitorder="little")


def key_of(terms: U32) -> int | None:
    """The number of one title; None for none, or too many terms."""
    if not 0 < len(terms) <= LONGEST:
        return None
    return int(((terms.astype(np.uint64) + np.uint64(1)) * _POWERS[: len(terms)]).sum(dtype=np.uint64))


def title_keys(titles: Sequence[str | None], roles: Sequence[str]) -> tuple[U64, npt.NDArray[np.int64]]:
    """(key uint64[m], row int64[m]) of the documents that have a title; twice where it ends in an aside: "Alien (film)"
    is also known as "Alien".
    """
    keys: list[int] = []
    rows: list[int] = []
    known: dict[str, list[int]] = {}
    for row, (title, role) in enumerate(zip(titles, roles, strict=True)):
        if not title or role != "document":
            continue
        if title not in known:
            forms = {title, _ASIDE.sub("", title)}
            found = {key_of(short_ids(hash_terms(tokenise(form)))) for form in forms}
            known[title] = sorted(key for key in found if key is not None)
        keys += known[title]
        rows += [row] * len(known[title])
    return np.array(keys, np.uint64), np.array(rows, np.int64)
