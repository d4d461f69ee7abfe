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

from helix.text import hash_terms, short_ids, tokenise
from helix.types import I64, U32, U64

LONGEST: Final = 8
"""Terms of a title that can be found; a longer one is not looked for."""

_BASE: Final = 0x9E3779B97F4A7C15  # odd, so that no power of it is 0 modulo 2**64
_POWERS: Final = np.array([pow(_BASE, i + 1, 1 << 64) for i in range(LONGEST)], np.uint64)
_ASIDE: Final = re.compile(r"\([^()]{0,100}\)\s*$")


def runs(terms: U32, longest: int = LONGEST) -> tuple[U64, I64, I64]:
    """Every run of up to `longest` terms.

    Args:
        terms: short term ids in reading order, uint32[n].

    Returns:
        (key uint64[m], where it begins int64[m], how many terms it has int64[m]).
    """
    one = terms.astype(np.uint64) + np.uint64(1)
    keys, starts, sizes = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    so_far = np.zeros(len(one), np.uint64)
    for size in range(1, min(longest, len(one)) + 1):
        count = len(one) - size + 1
        so_far = so_far[:count] + one[size - 1 :] * _POWERS[size - 1]
        keys.append(so_far)
        starts.append(np.arange(count))
        sizes.append(np.full(count, size))
    return np.concatenate(keys), np.concatenate(starts), np.concatenate(sizes)


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
