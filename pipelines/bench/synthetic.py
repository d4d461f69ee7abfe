"""Synthetic items that cost what real ones cost: text, sessions, entities and vectors by stated distributions.

A batch is a function of (seed, index, size), so two processes can make a store of 10^6 items in minutes, and the
same store again tomorrow. Sessions do not cross batches. Terms and signatures are computed from the text for real.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.enrich.neardup import compute_signatures
from helix.snapshot.segment.arrays import flat_index, hexes, owners, quantise, unhexes
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, Rows, digest
from helix.text.cues import read_cues
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, I64, TYPES, U32, U64

VERSION: Final = 4
"""Of what a seed gives: another number means other items."""

BATCH: Final = 20_000
"""Items of a batch of `batches`."""

SOURCE: Final = "synthetic"
DIM: Final = 384
START: Final = 1_672_531_200
"""2023-01-01 UTC, in seconds: sessions begin within the two years after it."""
_SPAN: Final = 2 * 365 * 86_400

PROJECTS: Final = 100
_PROJECT_ZIPF: Final = 1.7  # the largest has half of all items, some have about 1 %, the smallest 0.02 %
_WORDS: Final = 60_000  # of the vocabulary; numbers, names, paths, identifiers and hashes come on top
_TOPICS: Final = 1_000
_TOPIC_WORDS: Final = 60
_TOPIC_SHARE: Final = 0.6  # of the words of an item; with less of them, an encoder finds all items alike
_FIRST_TOPICAL, _TOPICAL = 500, 2_600  # ranks of the words topics have: behind the function words, all of them real
_MEDIAN_WORDS, _SPREAD_WORDS, _MAX_WORDS = 35, 0.75, 150
_MEDIAN_TURNS, _SPREAD_TURNS, _MAX_TURNS = 30, 1.0, 500
_EXACT, _NEAR = 0.01, 0.02  # share of items that repeat an earlier one of their batch, word by word or nearly
_CHANGED = 0.05  # share of the words of a near repeat that are other ones
_HASHES = 0.04  # share of items that hold a word nobody else has: commit, request id
_ACL = 0.03  # share of sessions that only some may see
_LINKED = 0.15  # share of items that answer the one before them
_STATING = 0.1  # share of items with two entities at least that state a fact

# Kinds of session, and who speaks in them.
_CODING, _CHAT, _NOTES = 0, 1, 2
_SESSION_KINDS = (0.6, 0.3, 0.1)
_ROLES = ("user", "assistant", "tool", "document")
_ROLE_SHARE = np.array([[0.2, 0.45, 0.35, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
_ORIGINS = ("human", "assistant", "tool", "document")
_CONFIDENCE = np.array([0.8, 0.6, 0.5, 0.75], np.float32)  # by role; see helix.enrich.salience
_TYPE_SHARE = np.array(  # by role, in the order of TYPES
    [
        [0.6, 0.15, 0.08, 0.1, 0.07],
        [0.35, 0.2, 0.2, 0.1, 0.15],
        [0.1, 0.1, 0.1, 0.0, 0.7],
        [0.05, 0.6, 0.25, 0.05, 0.05],
    ]
)

# What stands in a text beside words: share of its words by type, and of which kind.
_KINDS = ("number", "name", "path", "identifier", "error", "ticket", "version")
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
_POOL = {"number": 20_000, "name": 3_000, "path": 40_000, "identifier": 40_000, "error": 800, "ticket": 9_000,
         "version": 2_000}  # fmt: skip
_SPEAKERS: Final = 400
_OWN: Final = 0.8  # share of mentions from the project's own part of a pool

_PLAIN, _CAPITAL, _FULL_STOP, _COMMA = range(4)  # how a word is written


# ---------------------------------------------------------------- the language, the same for every seed


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Everything that can stand in a text. `surface` holds each word in four ways, then the pools, kind by kind."""

    words: npt.NDArray[np.object_]
    surface: npt.NDArray[np.object_]
    pool: I64  # where each kind begins in `surface`, and the end
    entity: I64  # [surface] row of the entity a string names, -1 for none
    entities: pa.Table  # ENTITIES; the speakers come last
    speakers: tuple[str, ...]
    projects: tuple[str, ...]
    zipf: npt.NDArray[np.float64]  # cumulative, over words


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The language. Frequent words are those of the bundled questions, the long tail is made of syllables."""
    rng = np.random.default_rng(VERSION)
    words = _vocabulary(rng)
    forms = [words, [word.capitalize() for word in words], [f"{w}." for w in words], [f"{w}," for w in words]]
    first = _capitalised(rng, _SPEAKERS)
    pools = _pools(rng, words, first)
    surface = [word for form in forms for word in form]
    records: list[tuple[str, str, str]] = []
    entity = [-1] * len(surface)
    starts = [len(surface)]
    for kind in _KINDS:
        for name in pools[kind]:
            entity.append(-1 if kind == "number" else len(records))
            if kind != "number":
                key = name.lower().removeprefix("v") if kind == "version" else name.lower()
                records.append((kind, key, name))
        surface += pools[kind]
        starts.append(len(surface))
    records += [("person", name.lower(), name) for name in first]
    columns: list[Sequence[Any]] = [*zip(*records, strict=True), [int(digest(k, key), 16) for k, key, _ in records]]
    return Lexicon(
        words=np.array(words, object),
        surface=np.array(surface, object),
        pool=np.array(starts, np.int64),
        entity=np.array(entity, np.int64),
        entities=pa.table([pa.array(c, t) for c, t in zip(columns, ENTITIES.types, strict=True)], schema=ENTITIES),
        speakers=tuple(first),
        projects=tuple(name.lower() for name in _capitalised(rng, PROJECTS)),
        zipf=_zipf(len(words), 1.15, 2.7),  # Mandelbrot's shift flattens the head, as in English
    )


def _vocabulary(rng: np.random.Generator) -> list[str]:
    bundled = files("pipelines.training") / "data" / "router"
    text = "".join((bundled / name).read_text("utf-8") for name in ("memory.txt", "no_memory.txt"))
    known = [word for word, _ in Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())).most_common()]
    made = list(islice(dict.fromkeys(_made_up(rng, 2 * _WORDS)), _WORDS))
    made = [made[i] for i in np.argsort([len(word) for word in made] + rng.normal(0, 1.5, len(made))).tolist()]
    return list(islice(dict.fromkeys([*known, *made]), _WORDS))  # frequent words are short ones, as everywhere


_ONSETS = (*"bcdfghklmnprstvw", "br", "cl", "dr", "fl", "gr", "pl", "pr", "qu", "sh", "sl", "sp", "st", "th", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_CODAS = (*[""] * 12, "n", "r", "s", "t", "l", "m", "nd", "nt", "st", "rk")


def _made_up(rng: np.random.Generator, n: int) -> list[str]:
    """n words of one to four syllables; some are equal."""
    parts = [rng.choice(np.array(kind, object), (n, 4)) for kind in (_ONSETS, _VOWELS, _CODAS)]
    syllables = (parts[0] + parts[1] + parts[2]).tolist()
    counts = rng.choice(4, n, p=[0.05, 0.45, 0.4, 0.1]) + 1
    return ["".join(row[:count]) for row, count in zip(syllables, counts.tolist(), strict=True)]


def _capitalised(rng: np.random.Generator, n: int) -> list[str]:
    """n distinct names of two syllables or more."""
    long = dict.fromkeys(word.capitalize() for word in _made_up(rng, 8 * n) if 5 <= len(word) <= 9)
    return list(islice(long, n))


def _pools(rng: np.random.Generator, words: list[str], first: list[str]) -> dict[str, list[str]]:
    """Distinct strings by kind."""
    stems = [word for word in words[200:6_000] if word.isalpha() and 3 <= len(word) <= 9]
    last = _capitalised(rng, 2_000)

    def pick(source: list[str], n: int) -> list[str]:
        return [source[i] for i in rng.integers(0, len(source), n).tolist()]

    def distinct(kind: str, made: list[str]) -> list[str]:
        # Keys are lower case: two strings that differ in case alone name one entity.
        return list(islice({name.lower(): name for name in made}.values(), _POOL[kind]))

    n = _POOL["path"] * 2
    tops, suffixes = ["src", "lib", "tests", "docs", "app", "scripts"], [".py", ".ts", ".go", ".rs", ".md", ".yaml"]
    path = map("{}/{}/{}_{}{}".format, pick(tops, n), pick(stems, n), pick(stems, n), pick(stems, n), pick(suffixes, n))
    a, b, c = pick(stems, n), pick(stems, n), pick(stems, n)
    snake = [f"{x}_{y}" for x, y in zip(a[::2], b[::2], strict=True)]
    camel = [f"{x}{y.title()}{z.title()}" for x, y, z in zip(a[1::2], b[1::2], c[1::2], strict=True)]
    endings = pick(["Error", "Error", "Exception", "Warning"], 4_000)
    errors = [
        f"{x.title()}{y.title()}{z}" for x, y, z in zip(pick(stems, 4_000), pick(stems, 4_000), endings, strict=True)
    ]
    versions = rng.integers(0, 30, (8_000, 3)).tolist()
    return {
        "number": [str(i) for i in range(_POOL["number"])],
        "name": distinct("name", [*first, *map("{} {}".format, pick(first, 9_000), pick(last, 9_000))]),
        "path": distinct("path", list(path)),
        "identifier": distinct("identifier", [name for pair in zip(snake, camel, strict=True) for name in pair]),
        "error": distinct("error", errors),
        "ticket": [f"#{i}" for i in range(1, _POOL["ticket"] + 1)],
        "version": distinct("version", [f"v{major}.{minor}.{patch}" for major, minor, patch in versions]),
    }


def _zipf(n: int, exponent: float, shift: float = 0.0) -> npt.NDArray[np.float64]:
    """Cumulative probabilities of ranks under Zipf and Mandelbrot's law."""
    weights = (np.arange(1, n + 1) + shift) ** -exponent
    return np.asarray(np.cumsum(weights / weights.sum()), np.float64)


def _draw(rng: np.random.Generator, cumulative: npt.NDArray[np.float64], n: int) -> I64:
    return np.minimum(np.searchsorted(cumulative, rng.random(n)), len(cumulative) - 1).astype(np.int64)


def _draw_rows(rng: np.random.Generator, shares: npt.NDArray[np.float64], rows: npt.NDArray[Any]) -> I64:
    """A choice for every entry of `rows`, by the probabilities in that row of `shares`."""
    cumulative = np.cumsum(shares, axis=1)[rows]
    chosen = (rng.random(len(rows))[:, None] > cumulative).sum(axis=1)
    return np.asarray(np.minimum(chosen, shares.shape[1] - 1), np.int64)


# ---------------------------------------------------------------- one batch


@dataclass(frozen=True, slots=True)
class _Sessions:
    """s sessions and the n items in them."""

    of: I64  # [n] session of an item
    ord: U32  # [n]
    kind: I64  # [s]
    project: I64  # [s]
    topics: I64  # [s, 3]
    start: I64  # [s] seconds
    speakers: I64  # [s, 5]
    identity: list[str]  # [s]


def batch(seed: int, index: int, size: int = BATCH, mixed: Space | None = None) -> Rows:
    """`size` items, the same for the same arguments.

    Args:
        seed: of the store.
        index: of the batch within it.
        size: items, at least one.
        mixed: what vectors are mixed from; `space()` where not given.
    """
    rng = np.random.default_rng([VERSION, seed, index])
    language = lexicon()
    sessions = _sessions(rng, size, f"{seed}-{index}")
    role = _draw_rows(rng, _ROLE_SHARE, sessions.kind[sessions.of])
    kind = _draw_rows(rng, _TYPE_SHARE, role)
    topic = sessions.topics[sessions.of, rng.integers(0, 3, size)]
    copied = _copies(rng, size)
    topic = topic[copied]
    words, indptr = _words(rng, language, kind, topic, sessions.project[sessions.of], copied)
    speaker = _speakers(rng, sessions, role)
    tokens = np.append(language.surface, _hashes(rng, words, indptr, len(language.surface))).take(words).tolist()
    texts = [" ".join(tokens[a:b]) for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)]
    names = [language.speakers[i] if i >= 0 else None for i in speaker.tolist()]
    titles = _titles(language, sessions)
    heads = [
        f"{title}. " if who == "document" else f"{name}: " if name else ""
        for title, who, name in zip(_spread(titles, sessions.of), _spread(_ROLES, role), names, strict=True)
    ]
    spoken = [tokenise(head + text) for head, text in zip(heads, texts, strict=True)]
    counts = [Counter(terms) for terms in spoken]
    mention_indptr, mentioned = _mentions(language, words, indptr, speaker)
    codes, scale = quantise(_vectors(rng, topic, copied, mixed or space()))
    items = _items(rng, language, sessions, texts, names, titles, role, kind)
    link_indptr, link_key = _links(rng, sessions.ord, unhexes(items["id"]))
    fact_indptr, facts = _facts(rng, language, items, mention_indptr, mentioned)
    return Rows(
        items=items,
        codes=codes,
        scale=scale,
        exact=np.empty((len(texts), 0), np.float16),
        minhash=compute_signatures(texts),
        term_indptr=_offsets([len(count) for count in counts]),
        term_key=hash_terms([term for count in counts for term in count]),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        order_indptr=_offsets([len(terms) for terms in spoken]),
        order_term=shorten_ids(hash_terms([term for terms in spoken for term in terms])),
        cues=np.array([read_cues(*said) for said in zip(texts, _spread(_ROLES, role), strict=True)], np.uint8),
        mention_indptr=mention_indptr,
        mention_entity=language.entities["hash"].to_numpy()[mentioned],
        link_indptr=link_indptr,
        link_key=link_key,
        link_kind=np.zeros(len(link_key), np.uint8),
        fact_indptr=fact_indptr,
        entities=language.entities.take(pa.array(np.unique(mentioned))),
        facts=facts,
        fact_codes=np.zeros((len(facts), codes.shape[1]), np.int8),
        fact_scale=np.zeros(len(facts), np.float32),
    )


def _links(rng: np.random.Generator, order: U32, key: U64) -> tuple[I64, U64]:
    """CSR: some items answer the one before them in their session."""
    answers = (order > 0) & (rng.random(len(order)) < _LINKED)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(answers)]), key[np.flatnonzero(answers) - 1]


def _facts(
    rng: np.random.Generator, language: Lexicon, items: pa.Table, indptr: I64, mentioned: I64
) -> tuple[I64, pa.Table]:
    """CSR: some items state one thing of the first entity they name; a tenth of those is later said anew."""
    named = np.flatnonzero(np.diff(indptr) > 1)
    at = named[rng.random(len(named)) < _STATING]
    subject, object_ = mentioned[indptr[at]], mentioned[indptr[at] + 1]
    key, hashes = language.entities["key"], language.entities["hash"].to_numpy()
    words = {name: key.take(pa.array(which)) for name, which in (("subject", subject), ("object", object_))}
    chosen = items.take(pa.array(at))
    group = hashes[subject] ^ rng.integers(0, 10, len(at)).astype(np.uint64)
    columns: dict[str, Any] = {
        "id": hexes(unhexes(chosen["id"]) ^ np.uint64(1)),
        "item": chosen["id"],
        "project": chosen["project"],
        "subject": words["subject"],
        "subject_key": words["subject"],
        "relation": pa.array(["uses"] * len(at), pa.string()),
        "object": words["object"],
        "object_key": words["object"],
        "qualifier": pa.array([""] * len(at), pa.string()),
        "said": chosen["title"],
        "t_valid": chosen["t_valid"],
        "until": pa.nulls(len(at), FACTS.field("until").type),
        "t_ingested": chosen["t_ingested"],
        "confidence": chosen["confidence"],
        "functional": pa.array(np.ones(len(at), bool)),
        "closes": pa.array(np.zeros(len(at), bool)),
        "group": pa.array(group),
        "family": pa.array(group),
        "subject_entity": pa.array(hashes[subject]),
        "object_entity": pa.array(hashes[object_]),
    }
    counts = np.zeros(items.num_rows, np.int64)
    counts[at] = 1
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), pa.table(columns).cast(FACTS)


def _sessions(rng: np.random.Generator, n: int, name: str) -> _Sessions:
    sizes = np.exp(rng.normal(np.log(_MEDIAN_TURNS), _SPREAD_TURNS, n // 20 + 8))
    sizes = np.clip(sizes, 1, _MAX_TURNS).astype(np.int64)
    while sizes.sum() < n:
        sizes = np.append(sizes, sizes)
    ends = np.cumsum(sizes)
    count = int(np.searchsorted(ends, n)) + 1
    sizes = sizes[:count]
    sizes[-1] -= ends[count - 1] - n
    project = _draw(rng, _zipf(PROJECTS, _PROJECT_ZIPF), count)
    own = (project[:, None] * 29 + _draw(rng, _zipf(40, 1.0), 3 * count).reshape(count, 3)) % _TOPICS
    anywhere = _draw(rng, _zipf(_TOPICS, 0.8), 3 * count).reshape(count, 3)
    return _Sessions(
        of=np.repeat(np.arange(count), sizes),
        ord=(np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.uint32),
        kind=rng.choice(3, count, p=_SESSION_KINDS),
        project=project,
        topics=np.where(rng.random((count, 3)) < 0.6, own, anywhere),
        start=START + rng.integers(0, _SPAN, count),
        speakers=(project[:, None] * 7 + _draw(rng, _zipf(60, 0.8), 5 * count).reshape(count, 5)) % _SPEAKERS,
        identity=[_uuid(f"{VERSION}-{name}-{i}") for i in range(count)],
    )


def _uuid(text: str) -> str:
    h = hashlib.sha256(text.encode()).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:32]}"


def _copies(rng: np.random.Generator, n: int) -> I64:
    """The row each row takes its words from: itself, or for a few an earlier row that is no copy."""
    of = np.arange(n)
    copy = rng.random(n) < _EXACT + _NEAR
    copy[0] = False
    originals = np.flatnonzero(~copy)
    before = np.searchsorted(originals, np.flatnonzero(copy))
    of[copy] = originals[(rng.random(len(before)) * before).astype(np.int64)]
    return of


def _words(
    rng: np.random.Generator, language: Lexicon, kind: I64, topic: I64, project: I64, copied: I64
) -> tuple[I64, I64]:
    """(positions in `language.surface` int64[w], indptr int64[n + 1]): the words of every item, punctuated."""
    n, vocabulary = len(kind), len(language.words)
    lengths = np.exp(rng.normal(np.log(_MEDIAN_WORDS), _SPREAD_WORDS, n))
    lengths = np.clip(np.rint(lengths), 2, _MAX_WORDS).astype(np.int64)[copied]
    indptr = _offsets(lengths)
    owner = owners(indptr)
    total = int(indptr[-1])

    word = _draw(rng, language.zipf, total)
    own = np.flatnonzero(rng.random(total) < _TOPIC_SHARE)
    word[own] = _topical(topic[owner[own]], _draw(rng, _zipf(_TOPIC_WORDS, 1.0), len(own)))

    stops = rng.random(total) < 1 / 12  # words a sentence
    stops[indptr[1:] - 1] = True
    form = np.where(rng.random(total) < 0.06, _COMMA, _PLAIN)
    form[np.append(True, stops[:-1])] = _CAPITAL
    form[stops] = _FULL_STOP
    flat = form * vocabulary + word

    special = np.flatnonzero((rng.random(total) < _SPECIAL[kind[owner]]) & (form == _PLAIN))
    what = _draw_rows(rng, _KIND_SHARE, kind[owner[special]])
    for i in range(len(_KINDS)):
        here = special[what == i]
        size = int(language.pool[i + 1] - language.pool[i])
        mine = project[owner[here]] * (size // PROJECTS) + _draw(rng, _zipf(max(20, size // 20), 0.9), len(here))
        shared = _draw(rng, _zipf(size, 0.9), len(here))
        flat[here] = language.pool[i] + np.where(rng.random(len(here)) < _OWN, mine % size, shared)

    # Copies last, so that they take over everything; of every three two are changed a little.
    copy = np.flatnonzero(copied != np.arange(n))
    _, source = flat_index(indptr, copied[copy])
    target_indptr, target = flat_index(indptr, copy)
    flat[target] = flat[source]
    near = rng.random(len(copy)) < _NEAR / (_EXACT + _NEAR)
    changed = target[near[owners(target_indptr)] & (rng.random(len(target)) < _CHANGED)]
    flat[changed] = _draw(rng, language.zipf, len(changed))
    return flat, indptr


def _topical(topic: I64, place: I64 | int) -> I64:
    """Rank in the vocabulary of a topic's own words, the most frequent first; topics share some."""
    return np.asarray(_FIRST_TOPICAL + (topic * 211 + place) % _TOPICAL, np.int64)


def _hashes(rng: np.random.Generator, words: I64, indptr: I64, base: int) -> npt.NDArray[np.object_]:
    """Put words that nobody else has into some items, in place: they are numbered from `base`, and returned."""
    rows = np.flatnonzero(rng.random(len(indptr) - 1) < _HASHES)
    words[indptr[rows] + np.diff(indptr)[rows] // 2] = base + np.arange(len(rows))
    return np.array([f"{number:012x}" for number in rng.integers(1 << 44, 1 << 48, len(rows)).tolist()], object)


def _speakers(rng: np.random.Generator, sessions: _Sessions, role: I64) -> I64:
    """Speaker of each item, -1 for none: people talk in chats, and half the coding sessions name their user."""
    n = len(role)
    kind = sessions.kind[sessions.of]
    talking = sessions.speakers[sessions.of, rng.integers(0, 5, n)]
    named = (sessions.of % 2 == 0) & (role == 0)
    return np.where(kind == _CHAT, talking, np.where((kind == _CODING) & named, sessions.speakers[sessions.of, 0], -1))


def _titles(language: Lexicon, sessions: _Sessions) -> list[str | None]:
    """Of each session: notes and most coding sessions have one."""
    heads = language.words[_topical(sessions.topics, 0)].tolist()
    return [
        None if kind == _CHAT or (kind == _CODING and row[0] < "e") else " ".join(row).capitalize()
        for kind, row in zip(sessions.kind.tolist(), heads, strict=True)
    ]


def _mentions(language: Lexicon, words: I64, indptr: I64, speaker: I64) -> tuple[I64, I64]:
    """(indptr int64[n + 1], entity rows int64[m]): the speaker first, then each entity once, as it appears."""
    entity = np.where(words < len(language.entity), language.entity[np.minimum(words, len(language.entity) - 1)], -1)
    at = np.flatnonzero(entity >= 0)
    people = np.flatnonzero(speaker >= 0)
    row = np.concatenate([people, owners(indptr)[at]])
    found = np.concatenate([speaker[people] + language.entities.num_rows - _SPEAKERS, entity[at]])
    order = np.argsort(row, kind="stable")
    row, found = row[order], found[order]
    _, first = np.unique(row * language.entities.num_rows + found, return_index=True)
    first.sort()
    return _offsets(np.bincount(row[first], minlength=len(speaker))), found[first]


# ---------------------------------------------------------------- vectors

_LATENT: Final = 300
_SUBTOPICS: Final = 8  # of a topic
_COMMON, _CENTRE, _SUBCENTRE, _OWN_PART, _NOISE = 0.1, 0.4, 0.17, 0.27, 0.06  # shares of the squared length
_COPY_NOISE: Final = 0.1
_SUB_SHARE, _WIDTH = 0.25, 0.4  # of a learnt space: variance within a topic that its subtopics make; see Space
_TAUGHT: Final = 4  # texts a topic that its place is learnt from


@dataclass(frozen=True, slots=True)
class Space:
    """What vectors are mixed from; latent dimensions weigh less and less."""

    common: F32  # [d]
    centres: F32  # [topics, d]
    subcentres: F32  # [topics * subtopics, latent]
    spread: F32  # [latent] of what is an item's own
    basis: F32  # [latent, d]
    noise: float  # length of what is in all dimensions alike
    width: float  # deviation of the logarithm of how far items are from their subtopic


@lru_cache(maxsize=1)
def space() -> Space:
    """The same for every seed, and of no model.

    The shares were set so that cosines of random pairs and of nearest neighbours, the spectrum, and the share of the
    nearest 100 an inverted file finds with 1, 2, 4 … per cent of its lists are close to those of all-MiniLM-L6-v2 on
    16,000 passages of chats.
    """
    rng = np.random.default_rng([VERSION, DIM])
    basis = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0].astype(np.float32)
    steep, flat = (np.arange(1, _LATENT + 1) ** -exponent for exponent in (0.5, 0.3))
    centres = _unit(rng.normal(size=(_TOPICS, _LATENT)) * steep) @ basis[1 : _LATENT + 1]
    return Space(
        common=np.float32(_COMMON**0.5) * basis[0],
        centres=np.float32(_CENTRE**0.5) * centres,
        subcentres=np.float32(_SUBCENTRE**0.5) * _unit(rng.normal(size=(_TOPICS * _SUBTOPICS, _LATENT)) * flat),
        spread=(_OWN_PART**0.5 * flat / np.linalg.norm(flat)).astype(np.float32),
        basis=basis[1 : _LATENT + 1],
        noise=_NOISE**0.5,
        width=0.6,
    )


def learnt(embed: Callable[[list[str]], F32]) -> Space:
    """The space of an encoder: where it puts texts on each topic, and how texts on one topic differ.

    Share and width of the subtopics were set by the cosines of the 1st, 10th and 100th neighbour among real vectors.
    Then a question lies near the synthetic items of its topic as it does near real ones: that is what an index by
    neighbourhood lives on.

    Args:
        embed: texts → float32[n, DIM], unit length.
    """
    rng = np.random.default_rng([VERSION, DIM, _TAUGHT])
    found = embed(texts_about(rng, np.repeat(np.arange(_TOPICS), _TAUGHT))).reshape(_TOPICS, _TAUGHT, DIM)
    means = found.mean(axis=1)
    apart = (found - means[:, None]).reshape(-1, DIM)
    width, axes = np.linalg.eigh(apart.T @ apart / (len(apart) - _TOPICS))
    width, axes = np.maximum(width[::-1], 0), axes[:, ::-1]
    common = means.mean(axis=0)
    centres = means - common
    # A mean of few texts is off by a part of their spread: drawn back to all means by as much (James & Stein 1961).
    between = float((centres**2).sum(axis=1).mean())
    centres *= max(0.0, 1 - float(width.sum()) / _TAUGHT / between)
    deviation = np.sqrt(width[:_LATENT])
    return Space(
        common=common,
        centres=centres,
        subcentres=(_SUB_SHARE**0.5 * deviation * rng.normal(size=(_TOPICS * _SUBTOPICS, _LATENT))).astype(np.float32),
        spread=((1 - _SUB_SHARE) ** 0.5 / np.exp(_WIDTH**2) * deviation).astype(np.float32),
        basis=np.ascontiguousarray(axes[:, :_LATENT].T, np.float32),
        noise=float(np.sqrt(width[_LATENT:].sum())),
        width=_WIDTH,
    )


def texts_about(rng: np.random.Generator, topic: I64) -> list[str]:
    """A text on each topic, as items have them."""
    language, n = lexicon(), len(topic)
    project = _draw(rng, _zipf(PROJECTS, _PROJECT_ZIPF), n)
    words, indptr = _words(rng, language, rng.integers(len(TYPES), size=n), topic, project, np.arange(n))
    tokens = language.surface.take(words).tolist()
    return [" ".join(tokens[a:b]) for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)]


def _vectors(rng: np.random.Generator, topic: I64, copied: I64, mixed: Space) -> F32:
    """float32[n, d], unit length: topics of power-law weight, subtopics within them, and what is an item's own.

    Copies lie where their original does.
    """
    n = len(topic)
    subtopic = topic * _SUBTOPICS + (_SUBTOPICS * rng.random(n) ** 1.5).astype(np.int64)
    width = np.exp(rng.normal(0, mixed.width, (n, 1))).astype(np.float32)  # some are close to their topic, some far
    own = rng.standard_normal((n, _LATENT), np.float32) * mixed.spread * width
    noise = rng.standard_normal((n, DIM), np.float32) / np.float32(DIM**0.5)
    out = mixed.common + mixed.centres[topic]
    out += (mixed.subcentres[subtopic] + own) @ mixed.basis
    out += np.float32(mixed.noise) * noise
    copy = np.flatnonzero(copied != np.arange(n))
    out[copy] = out[copied[copy]] + np.float32(_COPY_NOISE) * noise[copy]
    return _unit(out)


def _unit(vectors: npt.NDArray[Any]) -> F32:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


# ---------------------------------------------------------------- columns


def _items(
    rng: np.random.Generator,
    language: Lexicon,
    sessions: _Sessions,
    texts: list[str],
    names: list[str | None],
    titles: list[str | None],
    role: I64,
    kind: I64,
) -> pa.Table:
    """The table of ITEMS; columns that are not named here are null."""
    n, of = len(texts), sessions.of
    identity = _spread(sessions.identity, of)
    turns = [_uuid(f"{session}-{place}") for session, place in zip(identity, sessions.ord.tolist(), strict=True)]
    project = [language.projects[i] for i in sessions.project.tolist()]
    gaps = rng.exponential(60.0, n).astype(np.int64) + 1
    passed = np.cumsum(gaps)
    time = sessions.start[of] + passed - passed[np.searchsorted(of, of)]
    accepted = sessions.start + 86_400 + rng.integers(0, 86_400, len(sessions.start))
    undated = (sessions.kind == _NOTES) & (sessions.project % 5 == 0)
    dated = pa.array(time, mask=undated[of])
    quality = np.where(undated, "none", np.where(sessions.kind == _NOTES, "file", "exact")).tolist()
    pinned = rng.random(n) < 0.001
    hedged = np.where(rng.random(n) < 0.15, np.float32(0.7), np.float32(1))
    columns: dict[str, Any] = {
        "id": [digest(SOURCE, session, turn, "0") for session, turn in zip(identity, turns, strict=True)],
        "source": pa.repeat(pa.scalar(SOURCE), n),
        "path": _column([f"logs/{p}/{s}.jsonl" for p, s in zip(project, sessions.identity, strict=True)], of),
        "document": _column([hashlib.sha256(s.encode()).hexdigest() for s in sessions.identity], of),
        "session": _column(sessions.identity, of),
        "turns": pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), pa.array(turns)),
        "piece": np.zeros(n, np.int32),
        "ord": sessions.ord,
        "speaker": pa.array(names, pa.string()),
        "role": _column(_ROLES, role),
        "origin": _column(_ORIGINS, role),
        "title": _column(titles, of),
        "text": texts,
        "type": _column(TYPES, kind),
        "type_confidence": rng.beta(3, 3, n).astype(np.float32),
        "project": _column(project, of),
        "time": dated,
        "time_quality": _column(quality, of),
        "t_valid": np.where(undated[of], accepted[of], time),
        "t_ingested": accepted[of] * 1_000_000 + rng.integers(0, 1_000_000, len(sessions.start))[of],
        "salience": np.where(pinned, 1.0, rng.beta(2, 4, n)).astype(np.float32),
        "confidence": _CONFIDENCE[role] * hedged,
        "priority": np.ones(n, np.float32),
        "pinned": pinned,
        "acl": _column(_acl(rng, language, len(sessions.start)), of),
        "tokens": np.array([-(-len(text) // 4) for text in texts], np.uint32),
        "content": [digest(text) for text in texts],
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in ITEMS
    ]
    return pa.Table.from_arrays(arrays, schema=ITEMS)


def _acl(rng: np.random.Generator, language: Lexicon, n: int) -> pa.Array:
    """Who may see a session: for most an empty list, which is everybody."""
    counts = np.where(rng.random(n) < _ACL, rng.integers(1, 4, n), 0).tolist()
    chosen = rng.integers(0, 40, (n, 3)).tolist()
    names = [
        sorted({language.speakers[i].lower() for i in row[:count]}) for row, count in zip(chosen, counts, strict=True)
    ]
    return pa.array(names, pa.list_(pa.string()))


def _column(values: Any, rows: I64) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values, pa.string())).take(pa.array(rows))


def _spread(values: Sequence[Any], rows: I64) -> list[Any]:
    return [values[i] for i in rows.tolist()]


def _offsets(counts: npt.ArrayLike) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


# ---------------------------------------------------------------- many batches


def batches(items: int, seed: int, size: int = BATCH, workers: int = 2, mixed: Space | None = None) -> Iterator[Rows]:
    """`items` items in batches of `size`, in order, made by `workers` processes (below two: in this one).

    At most one batch a process waits to be taken, so memory stays bounded however slow the taker is.
    """
    todo = ((seed, index, min(size, items - start), mixed) for index, start in enumerate(range(0, items, size)))
    if workers < 2 or items <= size:
        for arguments in todo:
            yield batch(*arguments)
        return
    # spawn: the threads of Arrow and BLAS do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting: deque[Future[Rows]] = deque(pool.submit(batch, *a) for a in islice(todo, 2 * workers))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(pool.submit(batch, *a) for a in islice(todo, 1))
            yield done
