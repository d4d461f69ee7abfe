"""The language of a question, and its search terms: stemmed as the items of the store are, each in its language."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final

import numpy as np

from helix.text.language_words import CODES, list_stop_words
from helix.text.languages import CERTAIN, ENGLISH, identify, rank_languages
from helix.text.tokenize import STOP_WORDS, find_rules, hash_terms, is_stop_word, tokenise
from helix.types import U64

_WORD: Final = re.compile(r"[^\W\d_]+")
_LIKELY: Final = 0.5
"""Probability from which a question with function words of a language is in it, though the store has no such items."""

_FOREIGN: Final = 0.4
"""Share of a question's words that are function words of another language, from which its language is identified."""


def find_language(text: str, stored: Sequence[str]) -> str:
    """Return the language of a question, one of `helix.text.languages.CODES`.

    A question to a store in English is English, unless its letters or its function words are of another language. One
    to any other store is in a language of the store, unless it is certainly in another, or likely so by its words.

    Args:
        stored: languages of the store's items, the most common first.
    """
    if tuple(stored) == (ENGLISH,):
        return identify(text)[0] or ENGLISH if _looks_foreign(text) else ENGLISH
    ranked = rank_languages(text)
    if not ranked:
        return stored[0]
    code, chance = ranked[0]
    known = {*stored, ENGLISH}
    if code in known or chance >= CERTAIN or (chance >= _LIKELY and _has_own_words(text, code, known)):
        return code
    return next(code for code, _ in ranked if code in known)


def _has_own_words(text: str, language: str, others: Collection[str]) -> bool:
    """Return whether a text has a function word of a language that none of the others has."""
    own = set(list_stop_words(language)).difference(*(_list_stops(code) for code in others))
    return any(word in own for word in _WORD.findall(text.lower()))


def _list_stops(language: str) -> Collection[str]:
    return STOP_WORDS if language == ENGLISH else list_stop_words(language)


def _looks_foreign(text: str) -> bool:
    words = _WORD.findall(text.lower())
    if not text.isascii() and any(not word.isascii() for word in words):
        return True
    return sum(word in _list_foreign() for word in words) >= max(2.0, _FOREIGN * len(words))


@cache
def _list_foreign() -> frozenset[str]:
    """Return the function words of other languages that are none of English."""
    words = {word for code in CODES for word in list_stop_words(code) if word.isascii() and len(word) > 1}
    return frozenset(words - STOP_WORDS - {"man", "die", "war", "all", "son", "plus", "pour", "use", "come", "per"})


def hash_question(text: str, language: str, stored: Sequence[str]) -> tuple[U64, U64]:
    """Return a question's distinct term ids, uint64[t] ascending, and those of its own language in reading order."""
    own, others = list_terms(text, language, stored)
    order = hash_terms(own)
    return np.unique(np.concatenate([order, hash_terms(others)]) if others else order), order


def list_terms(text: str, language: str, stored: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the terms of a question by the rules of its own language, in order, and those by the other rules only.

    Args:
        stored: languages of the store's items. Names and loan words of another language are stemmed by its rules.
    """
    own = tokenise(text, language)
    rules = {find_rules(code) for code in stored} - {find_rules(language)}
    if not rules:
        return own, []
    kept = " ".join(word for word in text.split() if not is_stop_word(word.strip(".,;:!?¿¡\"'()"), language))
    others = dict.fromkeys(term for code in sorted(rules) for term in tokenise(kept, code))
    return own, [term for term in others if term not in set(own)]
