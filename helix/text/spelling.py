"""Words and identifiers of texts, and those that one typing error makes of another.

A word and its misspelling share a variant with one letter left out, or one of them is such a variant of the other
(Garbe 2012, "SymSpell"; Mor & Fraenkel 1982). Candidates are compared letter by letter: one letter too many, one too
few, one wrong, or two swapped (Damerau 1964).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from helix.text.tokenize import UNSPACED, fold_word, tokenise

LEAST_LETTERS: Final = 4
"""Letters of a word that is compared: shorter ones are near too many others."""

MOST_LETTERS: Final = 24

IDENTIFIER: Final = re.compile(r"\b(?=\w{6,40}\b)(?=\w*(?:[^\W_]_+[^\W_]|[a-z][A-Z]))[^\W\d]\w*")
"""An identifier of several parts, as it is written."""

_RUN: Final = re.compile(rf"[^\W\d_{UNSPACED}]{{{LEAST_LETTERS},}}")
PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z\d_]+")


def list_words(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a text, folded, each with its term; repeats included, stop words and short words left out.

    Identifiers of several parts come first, as they are written. Their parts are words, English in every language.
    """
    yield from ((name, fold_word(name)) for name in IDENTIFIER.findall(text))
    for run in _RUN.findall(text):
        yield from _analyse(run, language)


def collect_words(texts: Iterable[str], languages: Iterable[str]) -> set[tuple[str, str]]:
    """Return the distinct words of texts, as `list_words` yields them: each run of letters is read once."""
    names, runs = set[str](), dict[str, set[str]]()
    for text, language in zip(texts, languages, strict=True):
        names.update(IDENTIFIER.findall(text))
        runs.setdefault(language, set()).update(_RUN.findall(text))
    words = {(name, fold_word(name)) for name in names}
    return words.union(pair for language, found in runs.items() for run in found for pair in _analyse(run, language))


def _analyse(run: str, language: str) -> Iterator[tuple[str, str]]:
    if run[1:].islower() or run.isupper():
        parts, code = [run], language
    else:
        parts, code = PART.findall(run), "en"
    for part in parts:
        word = fold_word(part)
        if LEAST_LETTERS <= len(word) <= MOST_LETTERS:
            terms = tokenise(part, code)
            if len(terms) == 1:
                yield word, terms[0]


def list_variants(word: str) -> set[str]:
    """Return a word and each form of it without one letter."""
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def hash_variants(words: Iterable[str]) -> list[int]:
    """Return the hash of each variant of each folded word, in order: CRC-32 of UTF-8."""
    return [zlib.crc32(variant.encode()) for word in words for variant in sorted(list_variants(word))]


def is_one_error(first: str, second: str) -> bool:
    """Return whether one typing error makes the second word of the first; not whether they are equal."""
    if first == second or abs(len(first) - len(second)) > 1:
        return False
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start]:
        start += 1
    a, b = first[start:], second[start:]
    if len(a) == len(b):
        swapped = len(a) > 1 and a[0] == b[1] and a[1] == b[0] and a[2:] == b[2:]
        return a[1:] == b[1:] or swapped
    return a[1:] == b if len(a) > len(b) else a == b[1:]
