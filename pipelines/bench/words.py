"""The words of synthetic items: topics, special words, sentences, copies."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from helix.snapshot.segment.arrays import flat_index, owners
from helix.types import I64, TYPES
from pipelines.bench.language import (
    KINDS,
    PROJECT_ZIPF,
    PROJECTS,
    Lexicon,
    cumulate_zipf,
    draw_choices,
    draw_ranks,
    load_lexicon,
)

TOPICS: Final = 1_000
_TOPIC_WORDS: Final = 60
_TOPIC_SHARE: Final = 0.6  # of the words of an item; with a lower share an encoder finds all items alike
_FIRST_TOPICAL, _TOPICAL = 500, 2_600  # ranks of topic words: after the function words, all of them real
_MEDIAN_WORDS, _SPREAD_WORDS, _MAX_WORDS = 35, 0.75, 150


_EXACT, _NEAR = 0.01, 0.02  # share of items that repeat an earlier one of their batch, exactly or nearly
_CHANGED = 0.05  # share of changed words in a near repeat
_HASHES = 0.04  # share of items with a unique word: commit, request id

# Share of special words by type of item, and their kinds.
_SPECIAL = np.array([0.05, 0.06, 0.09, 0.07, 0.16])

_KIND_SHARE = np.array(
    [
        [0.35, 0.40, 0.06, 0.10, 0.03, 0.04, 0.02],
        [0.30, 0.25, 0.10, 0.25, 0.02, 0.03, 0.05],
        [0.20, 0.10, 0.25, 0.30, 0.05, 0.05, 0.05],
        [0.25, 0.25, 0.10, 0.25, 0.03, 0.07, 0.05],
        [0.25, 0.02, 0.28, 0.30, 0.10, 0.02, 0.03],
    ]
)
_OWN: Final = 0.8  # share of mentions from the project's own part of a pool

_PLAIN, _CAPITAL, _FULL_STOP, _COMMA = range(4)  # forms of a word


def draw_copies(rng: np.random.Generator, n: int) -> I64:
    """Return the source row of each row's words: itself, or for a few an earlier row that is no copy."""
    source = np.arange(n)
    copy = rng.random(n) < _EXACT + _NEAR
    copy[0] = False
    originals = np.flatnonzero(~copy)
    before = np.searchsorted(originals, np.flatnonzero(copy))
    source[copy] = originals[(rng.random(len(before)) * before).astype(np.int64)]
    return source


def write_words(
    rng: np.random.Generator, language: Lexicon, kind: I64, topic: I64, project: I64, copied: I64
) -> tuple[I64, I64]:
    """Return (positions in `language.surface` int64[w], indptr int64[n + 1]): the words of every item, punctuated."""
    n, vocabulary = len(kind), len(language.words)
    lengths = np.exp(rng.normal(np.log(_MEDIAN_WORDS), _SPREAD_WORDS, n))
    lengths = np.clip(np.rint(lengths), 2, _MAX_WORDS).astype(np.int64)[copied]
    indptr = make_offsets(lengths)
    owner = owners(indptr)
    total = int(indptr[-1])

    word = draw_ranks(rng, language.zipf, total)
    own = np.flatnonzero(rng.random(total) < _TOPIC_SHARE)
    word[own] = topic_words(topic[owner[own]], draw_ranks(rng, cumulate_zipf(_TOPIC_WORDS, 1.0), len(own)))

    stops = rng.random(total) < 1 / 12  # words a sentence
    stops[indptr[1:] - 1] = True
    form = np.where(rng.random(total) < 0.06, _COMMA, _PLAIN)
    form[np.append(True, stops[:-1])] = _CAPITAL
    form[stops] = _FULL_STOP
    flat = form * vocabulary + word

    special = np.flatnonzero((rng.random(total) < _SPECIAL[kind[owner]]) & (form == _PLAIN))
    what = draw_choices(rng, _KIND_SHARE, kind[owner[special]])
    for i in range(len(KINDS)):
        here = special[what == i]
        size = int(language.pool[i + 1] - language.pool[i])
        mine = project[owner[here]] * (size // PROJECTS) + draw_ranks(
            rng, cumulate_zipf(max(20, size // 20), 0.9), len(here)
        )
        shared = draw_ranks(rng, cumulate_zipf(size, 0.9), len(here))
        flat[here] = language.pool[i] + np.where(rng.random(len(here)) < _OWN, mine % size, shared)

    # Copies come last, so that they copy everything; two of three are changed a little.
    copy = np.flatnonzero(copied != np.arange(n))
    _, source = flat_index(indptr, copied[copy])
    target_indptr, target = flat_index(indptr, copy)
    flat[target] = flat[source]
    near = rng.random(len(copy)) < _NEAR / (_EXACT + _NEAR)
    changed = target[near[owners(target_indptr)] & (rng.random(len(target)) < _CHANGED)]
    flat[changed] = draw_ranks(rng, language.zipf, len(changed))
    return flat, indptr


def topic_words(topic: I64, place: I64 | int) -> I64:
    """Return the ranks of a topic's words in the vocabulary, the most frequent first; topics share some."""
    return np.asarray(_FIRST_TOPICAL + (topic * 211 + place) % _TOPICAL, np.int64)


def insert_hashes(rng: np.random.Generator, words: I64, indptr: I64, base: int) -> npt.NDArray[np.object_]:
    """Put a unique word into some items, in place, numbered from `base`; return these words."""
    rows = np.flatnonzero(rng.random(len(indptr) - 1) < _HASHES)
    words[indptr[rows] + np.diff(indptr)[rows] // 2] = base + np.arange(len(rows))
    return np.array([f"{number:012x}" for number in rng.integers(1 << 44, 1 << 48, len(rows)).tolist()], object)


def write_texts(rng: np.random.Generator, topic: I64) -> list[str]:
    """Write a text on each topic, as items have them."""
    language, n = load_lexicon(), len(topic)
    project = draw_ranks(rng, cumulate_zipf(PROJECTS, PROJECT_ZIPF), n)
    words, indptr = write_words(rng, language, rng.integers(len(TYPES), size=n), topic, project, np.arange(n))
    tokens = language.surface.take(words).tolist()
    return [" ".join(tokens[a:b]) for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)]


def make_offsets(counts: npt.ArrayLike) -> I64:
    """Return CSR offsets: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
