"""Synthetic items at the cost of real ones: text, sessions, entities and vectors by stated distributions.

A batch is a function of (seed, index, size), so that two processes make a store of 10^6 items in minutes, and every
run makes the same store. Sessions do not cross batches. Terms and signatures are those of the text.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.enrich.neardup import compute_signatures
from helix.snapshot.segment.arrays import expand_rows, format_hex, parse_hex, quantise_vectors
from helix.snapshot.segment.batch import FACTS, ITEMS, STEPS, RowBatch, hash_parts
from helix.text.claims import CLAIMS, FORMER
from helix.text.cues import read_cues
from helix.text.languages import ENGLISH, NUMBERS
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import I64, TYPES, U8, U32, U64
from pipelines.bench.language import (
    PROJECT_ZIPF,
    PROJECTS,
    SPEAKERS,
    TOPICS,
    VERSION,
    Lexicon,
    cumulate_zipf,
    draw_choices,
    draw_copies,
    draw_ranks,
    insert_hashes,
    list_topic_words,
    load_lexicon,
    make_offsets,
    write_words,
)
from pipelines.bench.space import Space, default_space, draw_vectors

BATCH: Final = 20_000
"""Items of a batch."""

SOURCE: Final = "synthetic"
START: Final = 1_672_531_200
"""2023-01-01 UTC, in seconds: sessions begin in the two years after it."""
_SPAN: Final = 2 * 365 * 86_400
_MEDIAN_TURNS, _SPREAD_TURNS, _MAX_TURNS = 30, 1.0, 500
_ACL = 0.03  # share of sessions with an ACL
_LINKED = 0.15  # share of items that answer the one before them
_STATING = 0.1  # share of items with at least two entities that state a fact

# Kinds of session, and the roles in them.
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


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Sessions s, and the n items in them."""

    row: I64  # [n] session of an item
    ord: U32  # [n]
    kind: I64  # [s]
    project: I64  # [s]
    topics: I64  # [s, 3]
    start: I64  # [s] seconds
    speakers: I64  # [s, 5]
    identity: list[str]  # [s]


def make_batch(seed: int, index: int, size: int = BATCH, mixed: Space | None = None) -> RowBatch:
    """Make `size` items, at least one, the same for the same store's seed, index of the batch and space of vectors."""
    rng = np.random.default_rng([VERSION, seed, index])
    language = load_lexicon()
    sessions = _draw_sessions(rng, size, f"{seed}-{index}")
    role = draw_choices(rng, _ROLE_SHARE, sessions.kind[sessions.row])
    kind = draw_choices(rng, _TYPE_SHARE, role)
    topic = sessions.topics[sessions.row, rng.integers(0, 3, size)]
    copied = draw_copies(rng, size)
    topic = topic[copied]
    words, indptr = write_words(rng, language, kind, topic, sessions.project[sessions.row], copied)
    speaker = _draw_speakers(rng, sessions, role)
    tokens = np.append(language.surface, insert_hashes(rng, words, indptr, len(language.surface))).take(words).tolist()
    texts = [" ".join(tokens[a:b]) for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)]
    names = [language.speakers[i] if i >= 0 else None for i in speaker.tolist()]
    titles = _make_titles(language, sessions)
    heads = [
        f"{title}. " if who == "document" else f"{name}: " if name else ""
        for title, who, name in zip(_expand(titles, sessions.row), _expand(_ROLES, role), names, strict=True)
    ]
    spoken = [tokenise(head + text) for head, text in zip(heads, texts, strict=True)]
    counts = [Counter(terms) for terms in spoken]
    mention_indptr, mentioned = _find_mentions(language, words, indptr, speaker)
    codes, scale = quantise_vectors(draw_vectors(rng, topic, copied, mixed or default_space()))
    items = _make_items(rng, language, sessions, texts, names, titles, role, kind)
    link_indptr, link_key = _draw_links(rng, sessions.ord, parse_hex(items["id"]))
    fact_indptr, facts = _draw_facts(rng, language, items, mention_indptr, mentioned)
    return RowBatch(
        items=items,
        codes=codes,
        scale=scale,
        exact=np.empty((len(texts), 0), np.float16),
        minhash=compute_signatures(texts),
        term_indptr=make_offsets([len(count) for count in counts]),
        term_key=hash_terms([term for count in counts for term in count]),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        order_indptr=make_offsets([len(terms) for terms in spoken]),
        order_term=shorten_ids(hash_terms([term for terms in spoken for term in terms])),
        claims=_draw_claims(rng.spawn(1)[0], len(texts)),
        alters=np.zeros(len(texts), np.uint8),
        former=np.zeros((len(texts), FORMER), np.uint32),
        cues=np.array([read_cues(*said) for said in zip(texts, _expand(_ROLES, role), strict=True)], np.uint8),
        language=np.full(len(texts), NUMBERS[ENGLISH], np.uint8),
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
        step_indptr=np.zeros(len(texts) + 1, np.int64),
        steps=STEPS.empty_table(),
    )


def _draw_links(rng: np.random.Generator, order: U32, key: U64) -> tuple[I64, U64]:
    """Link some items to the one before them in their session; return CSR."""
    answers = (order > 0) & (rng.random(len(order)) < _LINKED)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(answers)]), key[np.flatnonzero(answers) - 1]


def _draw_facts(
    rng: np.random.Generator, language: Lexicon, items: pa.Table, indptr: I64, mentioned: I64
) -> tuple[I64, pa.Table]:
    """Let some items state a fact of their first entity, a tenth of which is repeated later; return CSR."""
    named = np.flatnonzero(np.diff(indptr) > 1)
    at = named[rng.random(len(named)) < _STATING]
    subject, object_ = mentioned[indptr[at]], mentioned[indptr[at] + 1]
    key, hashes = language.entities["key"], language.entities["hash"].to_numpy()
    words = {name: key.take(pa.array(which)) for name, which in (("subject", subject), ("object", object_))}
    chosen = items.take(pa.array(at))
    group = hashes[subject] ^ rng.integers(0, 10, len(at)).astype(np.uint64)
    columns: dict[str, Any] = {
        "id": format_hex(parse_hex(chosen["id"]) ^ np.uint64(1)),
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
        "reason": pa.array([""] * len(at), pa.string()),
    }
    counts = np.zeros(items.num_rows, np.int64)
    counts[at] = 1
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), pa.table(columns).cast(FACTS)


def _draw_sessions(rng: np.random.Generator, n: int, name: str) -> _Sessions:
    sizes = np.exp(rng.normal(np.log(_MEDIAN_TURNS), _SPREAD_TURNS, n // 20 + 8))
    sizes = np.clip(sizes, 1, _MAX_TURNS).astype(np.int64)
    while sizes.sum() < n:
        sizes = np.append(sizes, sizes)
    ends = np.cumsum(sizes)
    count = int(np.searchsorted(ends, n)) + 1
    sizes = sizes[:count]
    sizes[-1] -= ends[count - 1] - n
    project = draw_ranks(rng, cumulate_zipf(PROJECTS, PROJECT_ZIPF), count)
    own = (project[:, None] * 29 + draw_ranks(rng, cumulate_zipf(40, 1.0), 3 * count).reshape(count, 3)) % TOPICS
    anywhere = draw_ranks(rng, cumulate_zipf(TOPICS, 0.8), 3 * count).reshape(count, 3)
    return _Sessions(
        row=np.repeat(np.arange(count), sizes),
        ord=(np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.uint32),
        kind=rng.choice(3, count, p=_SESSION_KINDS),
        project=project,
        topics=np.where(rng.random((count, 3)) < 0.6, own, anywhere),
        start=START + rng.integers(0, _SPAN, count),
        speakers=(project[:, None] * 7 + draw_ranks(rng, cumulate_zipf(60, 0.8), 5 * count).reshape(count, 5))
        % SPEAKERS,
        identity=[_make_uuid(f"{VERSION}-{name}-{i}") for i in range(count)],
    )


def _make_uuid(text: str) -> str:
    h = hashlib.sha256(text.encode()).hexdigest()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:32]}"


def _draw_speakers(rng: np.random.Generator, sessions: _Sessions, role: I64) -> I64:
    """Return the speaker of each item, -1 for none: chats have speakers, half the coding sessions name their user."""
    n = len(role)
    kind = sessions.kind[sessions.row]
    talking = sessions.speakers[sessions.row, rng.integers(0, 5, n)]
    named = (sessions.row % 2 == 0) & (role == 0)
    return np.where(kind == _CHAT, talking, np.where((kind == _CODING) & named, sessions.speakers[sessions.row, 0], -1))


def _draw_claims(rng: np.random.Generator, n: int) -> U8:
    """Draw claims as of real logs, where every tenth item sets something."""
    claims = (rng.random((n, len(CLAIMS))) < 0.2).astype(np.uint8)
    claims[:, CLAIMS.index("sets")] = np.where(rng.random(n) < 0.1, 200, 20)
    return claims


def _make_titles(language: Lexicon, sessions: _Sessions) -> list[str | None]:
    """Return a title for each session: notes and most coding sessions have one."""
    heads = language.words[list_topic_words(sessions.topics, 0)].tolist()
    return [
        None if kind == _CHAT or (kind == _CODING and row[0] < "e") else " ".join(row).capitalize()
        for kind, row in zip(sessions.kind.tolist(), heads, strict=True)
    ]


def _find_mentions(language: Lexicon, words: I64, indptr: I64, speaker: I64) -> tuple[I64, I64]:
    """Return (indptr int64[n + 1], entity rows int64[m]): the speaker first, then each entity once, in order."""
    entity = np.where(words < len(language.entity), language.entity[np.minimum(words, len(language.entity) - 1)], -1)
    at = np.flatnonzero(entity >= 0)
    people = np.flatnonzero(speaker >= 0)
    row = np.concatenate([people, expand_rows(indptr)[at]])
    found = np.concatenate([speaker[people] + language.entities.num_rows - SPEAKERS, entity[at]])
    order = np.argsort(row, kind="stable")
    row, found = row[order], found[order]
    _, first = np.unique(row * language.entities.num_rows + found, return_index=True)
    first.sort()
    return make_offsets(np.bincount(row[first], minlength=len(speaker))), found[first]


def _make_items(
    rng: np.random.Generator,
    language: Lexicon,
    sessions: _Sessions,
    texts: list[str],
    names: list[str | None],
    titles: list[str | None],
    role: I64,
    kind: I64,
) -> pa.Table:
    """Return the table of ITEMS; other columns are null."""
    n, of = len(texts), sessions.row
    identity = _expand(sessions.identity, of)
    turns = [_make_uuid(f"{session}-{place}") for session, place in zip(identity, sessions.ord.tolist(), strict=True)]
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
        "id": [hash_parts(SOURCE, session, turn, "0") for session, turn in zip(identity, turns, strict=True)],
        "source": pa.repeat(pa.scalar(SOURCE), n),
        "path": _expand_column([f"logs/{p}/{s}.jsonl" for p, s in zip(project, sessions.identity, strict=True)], of),
        "document": _expand_column([hashlib.sha256(s.encode()).hexdigest() for s in sessions.identity], of),
        "session": _expand_column(sessions.identity, of),
        "turns": pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), pa.array(turns)),
        "piece": np.zeros(n, np.int32),
        "ord": sessions.ord,
        "speaker": pa.array(names, pa.string()),
        "role": _expand_column(_ROLES, role),
        "origin": _expand_column(_ORIGINS, role),
        "title": _expand_column(titles, of),
        "text": texts,
        "type": _expand_column(TYPES, kind),
        "type_confidence": rng.beta(3, 3, n).astype(np.float32),
        "project": _expand_column(project, of),
        "time": dated,
        "time_quality": _expand_column(quality, of),
        "t_valid": np.where(undated[of], accepted[of], time),
        "t_ingested": accepted[of] * 1_000_000 + rng.integers(0, 1_000_000, len(sessions.start))[of],
        "salience": np.where(pinned, 1.0, rng.beta(2, 4, n)).astype(np.float32),
        "confidence": _CONFIDENCE[role] * hedged,
        "priority": np.ones(n, np.float32),
        "pinned": pinned,
        "acl": _expand_column(_draw_acls(rng, language, len(sessions.start)), of),
        "tokens": np.array([-(-len(text) // 4) for text in texts], np.uint32),
        "content": [hash_parts(text) for text in texts],
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in ITEMS
    ]
    return pa.Table.from_arrays(arrays, schema=ITEMS)


def _draw_acls(rng: np.random.Generator, language: Lexicon, n: int) -> pa.Array:
    """Draw the ACL of each session: for most an empty list, which admits all."""
    counts = np.where(rng.random(n) < _ACL, rng.integers(1, 4, n), 0).tolist()
    chosen = rng.integers(0, 40, (n, 3)).tolist()
    names = [sorted({language.speakers[i].lower() for i in row[:k]}) for row, k in zip(chosen, counts, strict=True)]
    return pa.array(names, pa.list_(pa.string()))


def _expand_column(values: Any, rows: I64) -> pa.Array:
    return (values if isinstance(values, pa.Array) else pa.array(values, pa.string())).take(pa.array(rows))


def _expand(values: Sequence[Any], rows: I64) -> list[Any]:
    return [values[i] for i in rows.tolist()]


def make_batches(
    items: int, seed: int, size: int = BATCH, workers: int = 2, mixed: Space | None = None
) -> Iterator[RowBatch]:
    """Yield `items` items in batches of `size`, in order, made by `workers` processes (below two: in this one).

    At most one finished batch a process waits, so that memory stays bounded with a slow consumer.
    """
    todo = ((seed, index, min(size, items - start), mixed) for index, start in enumerate(range(0, items, size)))
    if workers < 2 or items <= size:
        for arguments in todo:
            yield make_batch(*arguments)
        return
    # spawn: the threads of Arrow and BLAS do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting: deque[Future[RowBatch]] = deque(pool.submit(make_batch, *a) for a in islice(todo, 2 * workers))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(pool.submit(make_batch, *a) for a in islice(todo, 1))
            yield done
