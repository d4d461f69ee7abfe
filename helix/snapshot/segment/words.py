"""Words and identifiers of a segment's texts, found by what is left of them without one letter.

Questions with typing errors are read by them. Letters are compared as `fold_word` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from helix.text.spelling import hash_variants, is_one_error, list_variants
from helix.text.tokenize import fold_word, hash_terms
from helix.types import AnyArray


def build_word_arrays(words: Iterable[tuple[str, str]]) -> dict[str, AnyArray]:
    """Build the arrays of words with their terms, by name; none without a word."""
    ordered = sorted(words)
    return _build([word for word, _ in ordered], hash_terms([term for _, term in ordered]))


def _build(words: Sequence[str], terms: AnyArray) -> dict[str, AnyArray]:
    if not words:
        return {}
    letters, folded = [word.encode() for word in words], [fold_word(word) for word in words]
    key = np.array(hash_variants(folded), np.uint32)
    counts = np.fromiter((len(list_variants(word)) for word in folded), np.int64, len(words))
    order = np.argsort(key, kind="stable")
    return {
        "words.text": np.frombuffer(b"".join(letters), np.uint8),
        "words.indptr": np.concatenate([np.zeros(1, np.int64), np.cumsum([len(word) for word in letters])]),
        "words.term": terms,
        "words.key": key[order],
        "words.word": np.repeat(np.arange(len(words), dtype=np.uint32), counts)[order],
    }


def read_words(segment: Mapping[str, AnyArray], places: Iterable[int]) -> list[str]:
    """Read some words of a segment."""
    text, indptr = segment["words.text"], segment["words.indptr"]
    return [bytes(text[indptr[i] : indptr[i + 1]]).decode() for i in places]


def merge_words(
    sources: Sequence[tuple[Mapping[str, AnyArray], Iterable[tuple[str, str]] | None]],
) -> dict[str, AnyArray]:
    """Merge the words of segments.

    Args:
        sources: arrays of each segment, and the words of its retained rows where some are left out; else None.
    """
    found: dict[tuple[str, int], None] = {}
    for arrays, retained in sources:
        if retained is not None:
            pairs = sorted(retained)
            terms = hash_terms([term for _, term in pairs]).tolist()
            found |= dict.fromkeys(zip((word for word, _ in pairs), terms, strict=True))
        elif len(arrays["words.term"]):
            words = read_words(arrays, range(len(arrays["words.term"])))
            found |= dict.fromkeys(zip(words, arrays["words.term"].tolist(), strict=True))
    ordered = sorted(found)
    return _build([word for word, _ in ordered], np.array([term for _, term in ordered], np.uint64))


def find_similar(segment: Mapping[str, AnyArray], word: str) -> list[tuple[str, int]]:
    """Return the words of a segment that one typing error makes of a word, each with its term."""
    key, folded = segment["words.key"], fold_word(word)
    if not len(key):
        return []
    wanted = np.unique(np.array(hash_variants([folded]), np.uint32))
    first, last = key.searchsorted(wanted), key.searchsorted(wanted, "right")
    places = {int(i) for low, high in zip(first, last, strict=True) for i in segment["words.word"][low:high]}
    found = zip(read_words(segment, sorted(places)), sorted(places), strict=True)
    return [(other, int(segment["words.term"][i])) for other, i in found if is_one_error(folded, fold_word(other))]
