"""Claims: what kind of statement an item makes, whether it sets something, and whether it alters what was set before.

A turn such as "we moved CI to Buildkite" sets a value that holds until another turn changes it; "what if we moved?"
and "Jenkins was slow today" set none. An item's claims are counts of cues and kinds of values, and the probability that
it sets something; the probability that it alters something is a column of its own. Both are by logistic regression over
the cues and hashed words (Weinberger et al. 2009, Feature Hashing).
"""

from __future__ import annotations

import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice, pairwise, repeat
from typing import Final, NamedTuple

import numpy as np

from helix.text.candidates import find_candidates
from helix.text.gazetteer import COMMON_WORDS
from helix.text.language_words import find_pattern, read_words
from helix.text.languages import ENGLISH
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, ROLES, U8, U32, Bool
from helix.util.wordlists import read_toml

CUES: Final = (
    *("change", "end", "now", "then", "set", "hypo", "ask", "quote", "other", "plan", "cancel", "agree", "reason"),
)
"""Cues that are counted, up to `MOST`."""

VALUES: Final = ("date", "time", "num", "kv", "name", "url")
"""Kinds of values that are there or not."""

CLAIMS: Final = (*CUES, *VALUES, "asks", "sets")
"""Columns of an item's claims; `asks`: it ends with a question mark; `sets`: the probability times 255."""

FORMER: Final = 4
"""Terms of what a change leaves."""

MOST: Final = 3
MAX_CHARS: Final = 2_000
"""Characters of a text that are read."""

_LIMITS: Final = (MOST,) * len(CUES) + (1,) * len(VALUES)

BUCKETS: Final = 1 << 15
"""Weights of hashed words and pairs of words."""

_WORD_SCALE: Final = 4.0  # of the normalised counts of words, next to cues
_TOKEN: Final = re.compile(r"\w+'?\w*|[?!:=`|+]")
_DIGITS: Final = re.compile(r"\d+")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")


class ClaimsModel(NamedTuple):
    """Two logistic regressions over `read_features` and hashed words: an item sets something; it alters something."""

    features: F32  # float32[2, f]
    words: F32  # float32[2, BUCKETS]
    bias: F32  # float32[2]


@cache
def _compile() -> tuple[re.Pattern[str], ...]:
    """Compile the pattern of each cue and kind of value."""
    tables = read_toml("helix.text", "claims")
    found: dict[str, re.Pattern[str]] = {}
    for table, before, after in (("words", r"(?<![\w-])", r"(?![\w-])"), ("parts", r"\b", r"\b")):
        for name, text in tables[table].items():
            words = text.replace("\n", "")
            found[name] = re.compile(f"{_look_ahead(words)}{before}(?:{words}){after}", re.I)
    for table, flags in (("patterns", re.I | re.M), ("exact", re.M)):
        for name, text in tables[table].items():
            found[name] = re.compile(text.replace("\n", ""), flags)
    return tuple(found[name] for name in (*CUES, *VALUES))


def _look_ahead(words: str) -> str:
    """Return a pattern of the characters with which an alternative may begin: it rules out most places at once."""
    return "(?=[" + "".join(sorted(set(re.findall(r"(?:^|\||\(\?:)([a-z'])", words)))) + "])"


_CHANGES: Final = [CUES.index(name) for name in ("change", "end", "then")]


def has_change(claims: U8) -> Bool:
    """Return which claims have a cue of change: bool[n]."""
    return np.asarray(claims[:, _CHANGES].any(axis=1), np.bool_)


def count_cues(text: str, language: str = ENGLISH, may: Sequence[bool] = ()) -> list[int]:
    """Return all columns of a text's claims but `sets`.

    Args:
        may: whether each cue and kind of value may be in an English text; unknown by default.
    """
    text = text[:MAX_CHARS]
    if language != ENGLISH:
        return _count_foreign(text, language)
    counts = [
        sum(1 for _ in islice(pattern.finditer(text), limit)) if possible else 0
        for pattern, limit, possible in zip(_compile(), _LIMITS, may or repeat(True), strict=False)
    ]
    return [*counts, int(text.rstrip().endswith(("?", "？", "؟")))]


def count_all(texts: Sequence[str], languages: Sequence[str]) -> list[list[int]]:
    """Return `count_cues` of each text."""
    may = find_candidates([text[:MAX_CHARS] for text in texts], _compile()).tolist()
    return [count_cues(*each) for each in zip(texts, languages, may, strict=True)]


def _count_foreign(text: str, language: str) -> list[int]:
    """Count the cues of a language; dates and names are not read, the other values are the same in every language."""
    counts = []
    for name in CUES:
        pattern = find_pattern(language, "claims", name)
        counts.append(sum(1 for _ in islice(pattern.finditer(text), MOST)) if pattern else 0)
    asks = int(text.rstrip().endswith(("?", "？", "؟")))
    counts[CUES.index("ask")] = asks
    known = dict(zip(VALUES, _compile()[len(CUES) :], strict=True))
    digits = _NUMBER.search(text) is not None
    kinds = [*(0, 0), int(digits), *(int(known[name].search(text) is not None) for name in ("kv",)), 0]
    return [*counts, *kinds, int(known["url"].search(text) is not None), asks]


def hash_words(text: str) -> tuple[list[int], list[float]]:
    """Return the buckets of a text's words and pairs of words, and their weights: counts of unit length."""
    tokens = _TOKEN.findall(_DIGITS.sub("0", text[:MAX_CHARS].lower()))
    counts = Counter(zlib.crc32(gram.encode()) % BUCKETS for gram in (*tokens, *map(" ".join, pairwise(tokens))))
    norm = sum(n * n for n in counts.values()) ** 0.5 or 1.0
    return list(counts), [_WORD_SCALE * n / norm for n in counts.values()]


@cache
def _compile_former(language: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """Compile the pattern of what a change leaves, and the words that end it."""
    words = read_toml("helix.text", "claims") if language == ENGLISH else read_words(language)
    table = words.get("former", {"leads": r"(?!)", "ends": ""})  # a pattern that nothing matches
    leads, ends = (table[name].replace("\n", "") for name in ("leads", "ends"))
    phrase = r"(?P<words>(?:[ \t]+[\w.+#/@'=-]+){1,5})"
    removed = r"^-[ \t]*(?P<line>\S[^\n]{0,80})"
    return re.compile(rf"(?<![\w-])(?:{leads}){phrase}|{removed}", re.I | re.M), frozenset(
        re.findall(r"[^\W\d_]+", ends)
    )


def find_former(text: str, language: str = ENGLISH) -> list[str]:
    """Return the terms of what a text says is left: "from Jenkins", "instead of 30 s", a removed line of a diff."""
    pattern, ends = _compile_former(language)
    found: dict[str, None] = {}
    for match in pattern.finditer(text[:MAX_CHARS]):
        words: list[str] = []
        for word in (match["words"] or match["line"]).split():
            if match["words"] and word.lower().strip(".,'") in ends and words:
                break
            words.append(word)
        terms = tokenise(" ".join(words), language)
        found |= dict.fromkeys(term for term in terms if term not in COMMON_WORDS)
    return list(found)[:FORMER]


def hash_former(texts: Sequence[str], languages: Sequence[str] = ()) -> U32:
    """Return the short ids of what each text leaves, 0 where there are fewer: uint32[n, FORMER]."""
    out = np.zeros((len(texts), FORMER), np.uint32)
    languages = languages or [ENGLISH] * len(texts)
    may = find_candidates([text[:MAX_CHARS] for text in texts], [_compile_former(ENGLISH)[0]])[:, 0]
    for i, (text, language) in enumerate(zip(texts, languages, strict=True)):
        terms = find_former(text, language) if may[i] or language != ENGLISH else []
        out[i, : len(terms)] = shorten_ids(hash_terms(terms))
    return out


def read_features(counts: Sequence[Sequence[int]], texts: Sequence[str], roles: Sequence[str]) -> F32:
    """Return the features of the model next to words: float32[n, f].

    Args:
        counts: of `count_cues`.
    """
    cues = np.array(counts, np.float32).reshape(len(counts), len(CLAIMS) - 1)
    scale = np.where(np.arange(cues.shape[1]) < len(CUES), np.float32(0.5), np.float32(1))
    length = np.log([max(1, text[:MAX_CHARS].count(" ") + 1) for text in texts]) / 2
    role = np.array([ROLES.index(role) for role in roles])
    more = [length, role == ROLES.index("assistant"), role == ROLES.index("tool")]
    return np.column_stack([cues * scale, *(np.asarray(column, np.float32) for column in more)])


def read_claims(
    texts: Sequence[str], roles: Sequence[str], model: ClaimsModel, languages: Sequence[str] = ()
) -> tuple[U8, U8]:
    """Return the claims of n items, and how likely each alters something, of 255: (uint8[n, CLAIMS], uint8[n]).

    The model knows English words; of another language only the cues count.

    Args:
        languages: of each text; English by default.
    """
    languages = languages or [ENGLISH] * len(texts)
    counts = count_all(texts, languages)
    logits = read_features(counts, texts, roles) @ model.features.T + model.bias
    for i, text in enumerate(texts):
        buckets, weights = hash_words(text) if languages[i] == ENGLISH else ([], [])
        if buckets:
            logits[i] += model.words[:, buckets] @ np.array(weights, np.float32)
    sets, alters = np.round(255 / (1 + np.exp(-logits))).astype(np.uint8).T
    return np.column_stack([np.array(counts, np.uint8).reshape(len(texts), len(CLAIMS) - 1), sets]), alters


@cache
def load_model() -> ClaimsModel:
    """Load the shipped models."""
    from importlib.resources import files  # slow to import

    data = files("helix.text").joinpath("data", "claims.npz").read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return ClaimsModel(*(np.asarray(arrays[name], np.float32) for name in ClaimsModel._fields))
