"""The language of synthetic items, the same for every seed: words, names, the laws of their draw, and sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.snapshot.segment.arrays import expand_rows, flatten_rows
from helix.snapshot.segment.batch import ENTITIES, hash_parts
from helix.types import F64, I64, TYPES, AnyArray

VERSION: Final = 4
"""Version of the generator: another number means other items for a seed."""

DIM: Final = 384
"""Width of a vector."""

PROJECTS: Final = 100
SPEAKERS: Final = 400
PROJECT_ZIPF: Final = 1.7  # the largest has half of all items, some have about 1 %, the smallest 0.02 %
_WORDS: Final = 60_000  # of the vocabulary, without numbers, names, paths, identifiers and hashes

# The kinds of special words.
KINDS = ("number", "name", "path", "identifier", "error", "ticket", "version")

_POOL = {"number": 20_000, "name": 3_000, "path": 40_000, "identifier": 40_000, "error": 800, "ticket": 9_000,
         "version": 2_000}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All strings of a text. `surface` has each word in four forms, then the pools, kind by kind."""

    words: npt.NDArray[np.object_]
    surface: npt.NDArray[np.object_]
    pool: I64  # start of each kind in `surface`, and the end
    entity: I64  # [surface] row of the entity a string names, -1 for none
    entities: pa.Table  # ENTITIES; the speakers come last
    speakers: tuple[str, ...]
    projects: tuple[str, ...]
    zipf: F64  # cumulative, over words


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """Make the language: frequent words from the bundled questions, a long tail of syllables."""
    rng = np.random.default_rng(VERSION)
    words = _make_vocabulary(rng)
    forms = [words, [word.capitalize() for word in words], [f"{w}." for w in words], [f"{w}," for w in words]]
    first = _make_names(rng, SPEAKERS)
    pools = _make_pools(rng, words, first)
    surface = [word for form in forms for word in form]
    records: list[tuple[str, str, str]] = []
    entity = [-1] * len(surface)
    starts = [len(surface)]
    for kind in KINDS:
        for name in pools[kind]:
            entity.append(-1 if kind == "number" else len(records))
            if kind != "number":
                key = name.lower().removeprefix("v") if kind == "version" else name.lower()
                records.append((kind, key, name))
        surface += pools[kind]
        starts.append(len(surface))
    records += [("person", name.lower(), name) for name in first]
    columns: list[Sequence[Any]] = [*zip(*records, strict=True), [int(hash_parts(k, key), 16) for k, key, _ in records]]
    return Lexicon(
        words=np.array(words, object),
        surface=np.array(surface, object),
        pool=np.array(starts, np.int64),
        entity=np.array(entity, np.int64),
        entities=pa.table([pa.array(c, t) for c, t in zip(columns, ENTITIES.types, strict=True)], schema=ENTITIES),
        speakers=tuple(first),
        projects=tuple(name.lower() for name in _make_names(rng, PROJECTS)),
        zipf=cumulate_zipf(len(words), 1.15, 2.7),  # Mandelbrot's shift flattens the head, as in English
    )


def _make_vocabulary(rng: np.random.Generator) -> list[str]:
    bundled = files("pipelines.training") / "data" / "router"
    text = "".join((bundled / name).read_text("utf-8") for name in ("memory.txt", "no_memory.txt"))
    known = [word for word, _ in Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())).most_common()]
    made = list(islice(dict.fromkeys(_make_words(rng, 2 * _WORDS)), _WORDS))
    made = [made[i] for i in np.argsort([len(word) for word in made] + rng.normal(0, 1.5, len(made))).tolist()]
    return list(islice(dict.fromkeys([*known, *made]), _WORDS))  # frequent words are short


# Parts of a syllable.
_ONSETS = (*"bcdfghklmnprstvw", "br", "cl", "dr", "fl", "gr", "pl", "pr", "qu", "sh", "sl", "sp", "st", "th", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_CODAS = (*[""] * 12, "n", "r", "s", "t", "l", "m", "nd", "nt", "st", "rk")


def _make_words(rng: np.random.Generator, n: int) -> list[str]:
    """Make n words of one to four syllables; some are equal."""
    parts = [rng.choice(np.array(kind, object), (n, 4)) for kind in (_ONSETS, _VOWELS, _CODAS)]
    syllables = (parts[0] + parts[1] + parts[2]).tolist()
    counts = rng.choice(4, n, p=[0.05, 0.45, 0.4, 0.1]) + 1
    return ["".join(row[:count]) for row, count in zip(syllables, counts.tolist(), strict=True)]


def _make_names(rng: np.random.Generator, n: int) -> list[str]:
    """Make n distinct names of two syllables or more."""
    long = dict.fromkeys(word.capitalize() for word in _make_words(rng, 8 * n) if 5 <= len(word) <= 9)
    return list(islice(long, n))


def _make_pools(rng: np.random.Generator, words: list[str], first: list[str]) -> dict[str, list[str]]:
    """Make distinct strings by kind."""
    stems = [word for word in words[200:6_000] if word.isalpha() and 3 <= len(word) <= 9]
    last = _make_names(rng, 2_000)

    def pick(source: list[str], n: int) -> list[str]:
        return [source[i] for i in rng.integers(0, len(source), n).tolist()]

    def make_distinct(kind: str, made: list[str]) -> list[str]:
        # Keys are lower case: strings that differ only in case name one entity.
        return list(islice({name.lower(): name for name in made}.values(), _POOL[kind]))

    n = _POOL["path"] * 2
    tops, suffixes = ["src", "lib", "tests", "docs", "app", "scripts"], [".py", ".ts", ".go", ".rs", ".md", ".yaml"]
    path = map("{}/{}/{}_{}{}".format, pick(tops, n), pick(stems, n), pick(stems, n), pick(stems, n), pick(suffixes, n))
    a, b, c = pick(stems, n), pick(stems, n), pick(stems, n)
    snake = [f"{x}_{y}" for x, y in zip(a[::2], b[::2], strict=True)]
    camel = [f"{x}{y.title()}{z.title()}" for x, y, z in zip(a[1::2], b[1::2], c[1::2], strict=True)]
    endings = pick(["Error", "Error", "Exception", "Warning"], 4_000)
    causes, kinds = pick(stems, 4_000), pick(stems, 4_000)
    errors = [f"{x.title()}{y.title()}{z}" for x, y, z in zip(causes, kinds, endings, strict=True)]
    versions = rng.integers(0, 30, (8_000, 3)).tolist()
    return {
        "number": [str(i) for i in range(_POOL["number"])],
        "name": make_distinct("name", [*first, *map("{} {}".format, pick(first, 9_000), pick(last, 9_000))]),
        "path": make_distinct("path", list(path)),
        "identifier": make_distinct("identifier", [name for pair in zip(snake, camel, strict=True) for name in pair]),
        "error": make_distinct("error", errors),
        "ticket": [f"#{i}" for i in range(1, _POOL["ticket"] + 1)],
        "version": make_distinct("version", [f"v{major}.{minor}.{patch}" for major, minor, patch in versions]),
    }


def cumulate_zipf(n: int, exponent: float, shift: float = 0.0) -> F64:
    """Return the cumulative probabilities of ranks under Zipf and Mandelbrot's law: float64[n]."""
    weights = (np.arange(1, n + 1) + shift) ** -exponent
    return np.asarray(np.cumsum(weights / weights.sum()), np.float64)


def draw_ranks(rng: np.random.Generator, cumulative: F64, n: int) -> I64:
    """Draw n ranks by cumulative probabilities: int64[n]."""
    return np.minimum(np.searchsorted(cumulative, rng.random(n)), len(cumulative) - 1).astype(np.int64)


def draw_choices(rng: np.random.Generator, shares: F64, rows: AnyArray) -> I64:
    """Draw a choice for every entry of `rows`, by the probabilities in that row of `shares`."""
    cumulative = np.cumsum(shares, axis=1)[rows]
    chosen = (rng.random(len(rows))[:, None] > cumulative).sum(axis=1)
    return np.asarray(np.minimum(chosen, shares.shape[1] - 1), np.int64)


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
    owner = expand_rows(indptr)
    total = int(indptr[-1])

    word = draw_ranks(rng, language.zipf, total)
    own = np.flatnonzero(rng.random(total) < _TOPIC_SHARE)
    word[own] = list_topic_words(topic[owner[own]], draw_ranks(rng, cumulate_zipf(_TOPIC_WORDS, 1.0), len(own)))

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
        ranks = draw_ranks(rng, cumulate_zipf(max(20, size // 20), 0.9), len(here))
        mine = project[owner[here]] * (size // PROJECTS) + ranks
        shared = draw_ranks(rng, cumulate_zipf(size, 0.9), len(here))
        flat[here] = language.pool[i] + np.where(rng.random(len(here)) < _OWN, mine % size, shared)

    # Copies come last, so that they copy everything; two of three are changed a little.
    copy = np.flatnonzero(copied != np.arange(n))
    _, source = flatten_rows(indptr, copied[copy])
    target_indptr, target = flatten_rows(indptr, copy)
    flat[target] = flat[source]
    near = rng.random(len(copy)) < _NEAR / (_EXACT + _NEAR)
    changed = target[near[expand_rows(target_indptr)] & (rng.random(len(target)) < _CHANGED)]
    flat[changed] = draw_ranks(rng, language.zipf, len(changed))
    return flat, indptr


def list_topic_words(topic: I64, place: I64 | int) -> I64:
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
