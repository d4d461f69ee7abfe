"""Evidence of a context: the rare terms of the agent's next work that it holds.

Terms are what a text writes as a name, an identifier, a file, a command's option or a number, in lower case. The
*needed* terms of a prompt are those of the agent's reply and its tool calls up to the next prompt which neither the
prompt nor the session so far hold, and which an item of an earlier session holds: what memory could have given. A term
of more than COMMON of the earlier items is left out. Each weighs its idf over the earlier items, ln(n / df). The
evidence of a context is the share of that weight that the context holds, or one that the session was given before.

It does not ask whether the agent would have found a term by itself, nor whether it needed it. So figures compare rows
of one replay; they are no share of work saved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import Final

import numpy as np

from helix.types import I64, Bool

COMMON: Final = 0.01
"""Share of the earlier items above which a term is not rare."""

_WORD: Final = re.compile(r"-{0,2}[^\W_][\w.@#+-]*|[@#_]\w[\w.-]*")
_ENDS: Final = "-.+#@_"
_LEAST: Final = 3  # characters; of digits alone as well
_INSIDE: Final = re.compile(r"[a-z,;] \Z")
"""The end of a text after which a capital is the sign of a name: a sentence precedes it."""


@lru_cache(maxsize=100_000)
def find_terms(text: str) -> frozenset[str]:
    """Return the names, identifiers, files, options and numbers of a text, in lower case; parts of a path each."""
    found: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].rstrip(_ENDS)
        if len(word) >= _LEAST and (is_identifier(word) or _is_name(word, text, match.start())):
            found.add(word.lower().lstrip("-"))
    return frozenset(found)


def is_identifier(word: str) -> bool:
    """Return whether a word is written as no word of a sentence: digits, marks or capitals inside it, an option."""
    if word.startswith("--"):
        return True
    if any(c in "_.@#" for c in word[1:]):
        return any(len(part) > 1 for part in re.split(r"[_.@#]", word))  # not "e.g."
    if any(c.isdigit() for c in word):
        return sum(c.isdigit() for c in word) >= _LEAST or any(c.isalpha() for c in word)
    return any(a.islower() and b.isupper() for a, b in pairwise(word))


def _is_name(word: str, text: str, start: int) -> bool:
    """Return whether a word is a capital inside a sentence."""
    return word[0].isupper() and _INSIDE.search(text[max(0, start - 2) : start]) is not None


class TermIndex:
    """Rows of the items that hold each term."""

    def __init__(self, texts: Mapping[int, str], rows: int) -> None:
        self.terms = {row: find_terms(text) for row, text in texts.items()}
        self._rows = rows
        found: dict[str, list[int]] = {}
        for row, terms in self.terms.items():
            for term in terms:
                found.setdefault(term, []).append(row)
        self._postings = {term: np.array(rows, np.int64) for term, rows in found.items()}

    def join(self, rows: Iterable[int]) -> frozenset[str]:
        """Return the terms of some rows."""
        return frozenset().union(*(self.terms[row] for row in rows))

    def weigh(self, terms: Collection[str], earlier: I64, common: float = COMMON) -> dict[str, float]:
        """Return the idf of the rare ones among some terms which an earlier item holds.

        Args:
            earlier: rows, int64[n].
            common: share of these above which a term is not rare.
        """
        held: Bool = np.zeros(self._rows, bool)
        held[earlier] = True
        n, weights = len(earlier), dict[str, float]()
        for term in terms:
            count = int(held[self._postings[term]].sum()) if term in self._postings else 0
            if 0 < count <= max(1.0, common * n):
                weights[term] = log(n / count) if n > 1 else 1.0
        return weights


def find_needed(
    index: TermIndex, prompt: str, before: Sequence[int], reply: Sequence[int], earlier: I64
) -> dict[str, float]:
    """Return the needed terms of a prompt with their weights.

    Args:
        before: rows of the session that were said before the prompt.
        reply: rows of the agent, up to the next prompt.
        earlier: rows of other sessions that were said before the prompt: int64[n].
    """
    fresh = index.join(reply) - index.join(before) - find_terms(prompt)
    return index.weigh(fresh, earlier)


def measure_evidence(needed: Mapping[str, float], given: Collection[str]) -> float:
    """Return the share of the needed terms' weight that is given; 0 where nothing is needed."""
    total = sum(needed.values())
    return sum(weight for term, weight in needed.items() if term in given) / total if total else 0.0
