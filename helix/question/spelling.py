"""Typing errors of a question: a word that no item has is read as the words of items that one error makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.text.gazetteer import COMMON_WORDS
from helix.text.spelling import IDENTIFIER, PART, list_words
from helix.text.tokenize import fold_word, hash_terms, is_stop_word
from helix.types import F32, U64, AnyArray

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

WEIGHT: Final = 0.9
"""Weight of a corrected term, next to 1 of a term as written."""

MOST: Final = 3
"""Words that one word may mean."""

_LEAST_SHARE: Final = 0.1
"""Share of the items of the commonest reading that another reading must have."""

_MOST_WORDS: Final = 8
"""Words of a question that are looked up."""


class Correction(NamedTuple):
    """A word of a question that no item has, and one that a typing error makes of it."""

    written: str
    meant: str  # folded; an identifier as it is written
    term: int  # its term id


def find_corrections(text: str, language: str, snap: Snapshot) -> tuple[Correction, ...]:
    """Return the readings of the words that no live item has, the commonest first for each word.

    A word that is English, or a stop word of the question's language, is written as it is meant. An identifier is read
    as a whole where that is possible, else by its parts.
    """
    found: list[Correction] = []
    looked, wholes = 0, ""
    for word, term in dict.fromkeys(list_words(text, language)):
        if word in COMMON_WORDS or is_stop_word(word, language) or snap.lexical.df(hash_terms([term])[0]):
            continue
        if word in wholes:
            continue
        looked += 1
        if looked > _MOST_WORDS:
            break
        similar = snap.lexical.find_similar(word)
        items = {other: snap.lexical.df(key) for other, key in similar.items()}
        readings = sorted(items, key=lambda other: (-items[other], other))[:MOST]
        seen: set[int] = set()
        if readings and IDENTIFIER.fullmatch(word):
            wholes += f" {fold_word(word)}"
        for other in readings:
            key = int(similar[other])
            if key not in seen and items[other] >= _LEAST_SHARE * items[readings[0]]:
                seen.add(key)
                found.append(Correction(word, other, key))
    return tuple(found)


_WORD: Final = re.compile(r"[^\W\d_]+")
_RUN: Final = re.compile(r"\w+")


def correct_text(text: str, corrections: Sequence[Correction]) -> str:
    """Return a text with the commonest reading of each corrected word."""
    meant: dict[str, str] = {}
    for one in corrections:
        meant.setdefault(one.written, one.meant)
    if not meant:
        return text

    return _RUN.sub(lambda match: _correct_run(match.group(), meant), text)


def _correct_run(run: str, meant: Mapping[str, str]) -> str:
    """Return a word or an identifier as it is meant, else with its parts as they are meant, in their case."""
    whole = meant.get(run) or meant.get(fold_word(run))
    return whole or _WORD.sub(lambda word: _correct_word(word.group(), meant), run)


def _correct_word(word: str, meant: Mapping[str, str]) -> str:
    return meant.get(fold_word(word)) or PART.sub(lambda part: _correct_part(part.group(), meant), word)


def _correct_part(part: str, meant: Mapping[str, str]) -> str:
    other = meant.get(fold_word(part), part)
    return other.capitalize() if part[:1].isupper() else other


def add_terms(written: U64, meant: U64, corrections: Sequence[Correction]) -> tuple[U64, F32]:
    """Return the terms of a corrected question, ascending, and their weights: [t] each.

    Args:
        written: uint64, terms of the question as it is written; they weigh 1.
        meant: uint64, those of `correct_text`.
    """
    every = np.union1d(meant, np.array([one.term for one in corrections], np.uint64))
    return every, np.where(np.isin(every, written), np.float32(1), np.float32(WEIGHT))


def list_corrected(corrections: Sequence[tuple[str, str, int]], rows: AnyArray, snap: Snapshot) -> list[dict[str, str]]:
    """Return for each row the words of the question that it has in a corrected form: meant by written."""
    terms = np.unique(np.array([term for *_, term in corrections], np.uint64))
    found, _ = snap.lexical.occurrences(rows.astype(np.int64), terms, np.empty((2, 0), np.int64))
    has = {term: found[i] > 0 for i, term in enumerate(terms.tolist())}
    wanted = list(reversed(corrections))  # the commonest reading of a word last
    return [{written: meant for written, meant, term in wanted if has[term][i]} for i in range(len(rows))]
