"""Signals of relevance: what tells, in any store, whether an item helps with a question, and whether anything does.

All of them mean the same in every store: cosines are compared with those of a sample of the store's own items, words
are weighed by how common they are in the store and in English, and the rest is yes or no. An item is compared with
the best of its list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.enrich.changes import weigh_terms
from helix.native.rows import find_distinct
from helix.ranking.bm25 import compute_idf
from helix.ranking.membership import is_one_of
from helix.stages.features.background import compare_vectors
from helix.stages.features.languages import find_shared
from helix.stages.features.lexical import RARE, TermCounts, count_terms, row_lengths
from helix.text.claims import CLAIMS
from helix.text.cues import ASKS, FIRST_PERSON, STANDING
from helix.text.languages import CAPITALISED, ENGLISH
from helix.text.reading import HINTS, read_hints, read_kind
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, I64, ROLES, U64, AnyArray, Bool, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

LISTED: Final = 30
"""Best rows that are compared with each other; signals of a list are those of so many."""

_TOP: Final = 5  # items whose logits describe the answer
_FAR: Final = 10  # places below the first where the rest begins
_TINY: Final = 1e-6
_K1, _B = 0.9, 0.6  # of BM25

ITEM_FEATURES: Final = (
    *("own_english", "own_idf", "own", "near", "window", "session", "own_less", "near_less"),
    *("names_own", "names_window", "names_session", "bm25", "rare", "adjacent"),
    *("z", "z_lean", "z_session", "z_less", "lean_less", "z_expected", "by_vector", "by_words", "place"),
    *("speaker", "user", "assistant", "document", "tool", "user_asked", "date", "title", "length"),
    *("asks", "first_person", "standing", "reply", "salience"),
    *(f"value_{name}" for name in ("date", "time", "num", "kv", "name", "url")),
    *("sets", "fits", "fits_not"),
)
"""Signals of an item, in order."""

ANSWER_FEATURES: Final = (
    *(f"logit_{i}" for i in range(1, _TOP + 1)),
    *("sum", "any", "found", "found_english", "names_found", "missing", "missing_most", "terms", "weight"),
    *("z_best", "z_fifth", "z_gap", "bm25_best", "bm25_gap", "agree", "no_speaker", "dated", "day_found"),
    *("general", "needless", "first_person", "recent", "names"),
    *(f"asked_{name}" for name in HINTS),
    *(f"about_{name}" for name in ("now", "then", "why")),
)
"""Signals of a whole answer, in order."""

_NAME: Final = re.compile(r"\b\w[\w'’./-]*")
_QUESTION_WORDS: Final = re.compile(
    r"(?:what|who|whom|whose|which|when|where|why|how|is|are|was|were|do|does|did|can|could|should|would|will|has|have|"
    r"had|i|tell|show|give|list|please|the|a|an|in|on|at|for|if)\b",
    re.I,
)


class QuestionSigns(NamedTuple):
    """Signs of a question with t terms that need no row; read while it is embedded."""

    english: F32  # float32[t], weight of the term in English
    idf: F32  # float32[t], idf in the store, 1 for a term of one item
    names: Bool  # bool[t], the question writes the term as a name, an identifier or a number
    speakers: list[int]  # codes of the speakers it names
    hints: F32
    kind: str


class Evidence(NamedTuple):
    """The best n rows of an answer, best first, and what they hold of a question of t terms."""

    rows: I64
    shared: Bool  # bool[n], the item may be in the language of the question
    own: Bool  # bool[t, n], the item has the term
    near: Bool  # with the turns before and after
    window: Bool  # with two turns on either side
    session: Bool  # the rows of its session among the first LISTED, with theirs
    english: F32  # float32[t], weight of the term in English
    idf: F32  # float32[t], idf in the store, 1 for a term of one item
    names: Bool  # bool[t], the question writes the term as a name, an identifier or a number
    adjacent: F32  # float32[n], share of the question's neighbouring terms that follow each other in the item
    bm25: F32  # float32[n], share of the BM25 of a text that holds every term often
    z: F32  # float32[n], cosine in deviations of the background; NaN without an encoder
    z_lean: F32  # of the item's vector leaned to its neighbours
    expected: float  # z of the best of so many unrelated items
    speaker: F32  # float32[n], 1 the question names the speaker, −1 it names another, 0 none
    date: F32  # float32[n], the item is of a day the question names
    title: Bool
    role: AnyArray
    session_code: I64
    length: F32
    cues: AnyArray
    cues_before: AnyArray
    claims: AnyArray
    salience: F32
    first_person: bool
    recent: bool
    dated: bool
    hints: F32
    kind: str
    general: float  # log-odds of the router that the question needs no memory; NaN without one
    needless: float  # log-odds of the prompt's wording and vector that it needs none


def read_signs(query: Query, snap: Snapshot) -> QuestionSigns:
    """Read the signs of a question; no vector and no rows."""
    df = np.array([snap.lexical.df(term) for term in query.terms], np.int64)
    weights = np.float32(1) if query.term_weights is None else query.term_weights
    return QuestionSigns(
        weigh_terms(shorten_ids(query.terms)),
        np.minimum(compute_idf(df, snap.live) / compute_idf(1, snap.live), np.float32(1)) * weights,
        find_names(query.text, query.terms, query.language),
        _find_named_speakers(query, snap),
        read_hints(query.text, query.language),
        read_kind(query.text, query.language),
    )


def read_evidence(
    rows: I64, signs: QuestionSigns, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan
) -> Evidence:
    """Read what the best rows hold of a question; no text.

    Args:
        rows: int64[n], n ≥ 1, best first.
        signs: of the question.
        vector: of the question, float32[d]; None without an encoder.
    """
    columns, counted = snap.columns, count_terms(rows, query.terms, query.term_order, snap, query.term_weights)
    own, near, window = _find_terms(counted)
    sessions = columns.session[rows].astype(np.int64)
    z, z_lean, expected = compare_vectors(counted, vector, snap, plan)
    by = np.isin(columns.speaker[rows], signs.speakers)
    times = columns.time[rows]
    within = [np.float32(weight) * ((times >= first) & (times <= last)) for first, last, weight in plan.days]
    pairs = max(counted.pairs.shape[1], 1)
    return Evidence(
        rows,
        find_shared(rows, query, snap),
        own,
        near,
        window,
        _find_in_sessions(window, sessions),
        signs.english,
        signs.idf,
        signs.names,
        np.asarray((counted.follows.take(counted.ring[2], axis=1) > 0).sum(axis=0) / pairs, np.float32),
        _score_words(counted, snap),
        z,
        z_lean,
        expected,
        np.where(by, np.float32(1), np.float32(-1)) if signs.speakers else np.zeros(len(rows), np.float32),
        np.max(within, axis=0) if within else np.zeros(len(rows), np.float32),
        np.zeros(len(rows), bool) if plan.titled is None else is_one_of(rows, plan.titled),
        columns.role[rows],
        sessions,
        columns.length[rows],
        snap.lexical.cues(rows),
        np.where(columns.previous[rows] >= 0, snap.lexical.cues(np.maximum(columns.previous[rows], 0)), 0),
        snap.lexical.claims(rows),
        columns.salience[rows],
        plan.first_person,
        plan.recent,
        bool(plan.days),
        signs.hints,
        signs.kind,
        float(to_logit(np.array(plan.skip_score, np.float32))) if snap.router else np.nan,
        plan.needless,
    )


def _find_named_speakers(query: Query, snap: Snapshot) -> list[int]:
    """Return the codes of the live speakers that the question names: a hidden one is as good as unknown."""
    named = [code for word in query.words for code in snap.catalog.speaker_codes.get(word, ())]
    live = set(snap.catalog.live_speakers) if named else set()
    return [code for code in named if code in live]


def _find_terms(counted: TermCounts) -> tuple[Bool, Bool, Bool]:
    """Return which terms each row has, alone, with one turn on either side, and with two: bool[t, n] each."""
    has, ring = counted.counts > 0, counted.ring
    own = has.take(ring[2], axis=1)
    near = own | has.take(ring[1], axis=1) | has.take(ring[3], axis=1)
    return own, near, near | has.take(ring[0], axis=1) | has.take(ring[4], axis=1)


def _find_in_sessions(window: Bool, sessions: I64) -> Bool:
    """Return which terms the listed rows of each row's session have: bool[t, n]."""
    codes, at = find_distinct(sessions)
    found = np.zeros((len(window), len(codes)), bool)
    for place in range(min(LISTED, len(at))):
        found[:, at[place]] |= window[:, place]
    return found.take(at, axis=1) | window


def _score_words(counted: TermCounts, snap: Snapshot) -> F32:
    """Return BM25 of each row as a share of its limit, that of a text with every term often: float32[n]."""
    idf = compute_idf(counted.df, snap.live)
    counts, lengths = counted.counts.take(counted.ring[2], axis=1), row_lengths(counted, snap)[counted.ring[2]]
    norm = np.float32(_K1) * (np.float32(1 - _B) + np.float32(_B / snap.lexical.mean_length) * lengths)
    total = np.float32(max(float(idf.sum()), _TINY))
    return np.asarray(idf @ (counts / np.maximum(counts + norm, np.float32(_TINY))) / total, np.float32)


def find_names(text: str, terms: U64, language: str = ENGLISH) -> Bool:
    """Return which terms a question writes as a name, an identifier or a number: bool[t].

    A capital tells a name, except at the start of a sentence and in German, where all nouns have one; inside a word, or
    with digits or marks, an identifier.
    """
    found: list[str] = []
    for match in _NAME.finditer(text):
        word = match[0].rstrip(".'’-/")
        begins = (
            not text[: match.start()].rstrip(" \"'(").rstrip() or text[: match.start()].rstrip(" \"'(")[-1:] in ".?!:"
        )
        tells = language not in CAPITALISED and not (begins or _QUESTION_WORDS.fullmatch(word))
        is_capital = word[:1].isupper() and tells
        if is_capital or any(c.isdigit() or c in "_/." or c.isupper() for c in word[1:]) or word[:1].isdigit():
            found += tokenise(word, language)
    return is_one_of(terms, hash_terms(found))


def to_logit(probability: AnyArray) -> F32:
    """Return log-odds, at most 8 either way."""
    p = np.clip(probability, np.float32(3.3e-4), np.float32(1 - 3.3e-4))
    return np.asarray(np.log(p / (1 - p)), np.float32)


# ---------------------------------------------------------------- items


def compute_item_features(found: Evidence) -> F32:
    """Return float32[n, ITEM_FEATURES]. Without an encoder, those of vectors are NaN."""
    n, both = len(found.rows), found.english * found.idf
    own, near, window, session = (_share(both, has) for has in (found.own, found.near, found.window, found.session))
    names = found.english * found.names
    values = found.claims[:, _VALUES].astype(np.float32)
    asked = dict(zip(HINTS, found.hints.tolist(), strict=True))
    dated = np.maximum(values[:, 0], values[:, 1]) > 0
    fits = asked["when"] * dated + asked["number"] * (values[:, 2] > 0) + asked["who"] * (values[:, 4] > 0)
    fits_not = asked["when"] * ~dated + asked["number"] * (values[:, 2] == 0)
    is_user = found.role == ROLES.index("user")
    z, lean = found.z, found.z_lean
    columns: list[AnyArray] = [
        *(_share(found.english, found.own), _share(found.idf, found.own), own, near, window, session),
        *(own - own[:LISTED].max(), near - near[:LISTED].max()),
        *(_share_names(names, found.own), _share_names(names, found.window), _share_names(names, found.session)),
        *(found.bm25, _find_rarest(found), found.adjacent),
        *(z, lean, _find_best_of_session(z, found.session_code), z - z[:LISTED].max(), lean - lean[:LISTED].max()),
        *(z - np.float32(found.expected), _rank(z), _rank(found.bm25), np.log1p(np.arange(n))),
        *(found.speaker, is_user, *(found.role == ROLES.index(role) for role in ("assistant", "document", "tool"))),
        *(is_user & found.first_person, found.date, found.title, np.log1p(found.length)),
        *(found.cues & cue > 0 for cue in (ASKS, FIRST_PERSON, STANDING)),
        *(found.cues_before & ASKS > 0, found.salience, *values.T, found.claims[:, _SETS] / np.float32(255)),
        *(fits, fits_not),
    ]
    return _stack(columns, n, len(ITEM_FEATURES))


_VALUES: Final = slice(CLAIMS.index("date"), CLAIMS.index("url") + 1)
_SETS: Final = CLAIMS.index("sets")


def _share(weight: F32, has: Bool) -> F32:
    """Return the share of a weight that each row has: float32[n]; 0 without terms."""
    return np.asarray(weight @ has.astype(np.float32) / np.float32(max(float(weight.sum()), _TINY)), np.float32)


def _share_names(weight: F32, has: Bool) -> F32:
    """Return the share of the names that each row has: float32[n]; 1 where the question names nothing."""
    return _share(weight, has) if weight.any() else np.ones(has.shape[1], np.float32)


def _find_rarest(found: Evidence) -> F32:
    """Return how rare the question's rarest term in each row is; see `RARE`."""
    return np.asarray((found.own * (found.idf**RARE)[:, None]).max(axis=0, initial=0), np.float32)


def _find_best_of_session(values: F32, sessions: I64) -> F32:
    """Return the best value of each row's session among the listed rows, its own included: float32[n]."""
    if np.isnan(values).any():
        return values
    codes, at = find_distinct(sessions)
    best = np.full(len(codes), -np.inf, np.float32)
    np.maximum.at(best, at[:LISTED], values[:LISTED])
    return np.maximum(best[at], values)


def _rank(values: F32) -> F32:
    """Return 1 / rank of each value, from 1; ties keep their order."""
    rank = np.empty(len(values), np.float32)
    rank[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return np.asarray(1 / rank, np.float32)


def _stack(columns: list[AnyArray], n: int, width: int) -> F32:
    out = np.empty((n, width), np.float32)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


# ---------------------------------------------------------------- the whole answer


def compute_answer_features(found: Evidence, logits: F32) -> F32:
    """Return float32[ANSWER_FEATURES]. Without an encoder, those of vectors are NaN.

    Args:
        logits: float32[n], log-odds of the items.
    """
    n = min(LISTED, len(found.rows))
    best = np.sort(logits[:n])[::-1]
    chance = 1 / (1 + np.exp(-best))
    both, names = found.english * found.idf, found.english * found.names
    held: Bool = np.asarray(found.window[:, :n].any(axis=1, keepdims=True))
    z, bm25 = np.sort(found.z[:n])[::-1], np.sort(found.bm25[:n])[::-1]
    far = min(_FAR, n) - 1
    nearest = set(np.argsort(-found.z[:n], kind="stable")[:_FAR].tolist())
    agree = len(nearest.intersection(np.argsort(-found.bm25[:n], kind="stable")[:_FAR].tolist())) / max(far + 1, 1)
    missing = both * ~held[:, 0]
    values = [
        *(best[min(i, n - 1)] for i in range(_TOP)),
        *(
            chance.sum(),
            1 - np.prod(1 - chance),
            _share(both, held)[0],
            _share(found.english, held)[0],
        ),
        *(_share_names(names, held)[0], missing.sum(), missing.max(initial=0), len(both), found.english.sum()),
        *(z[0], z[min(4, n - 1)], z[0] - z[far], bm25[0], bm25[0] - bm25[far], agree),
        *(found.speaker[:n].max() < 0, found.dated, found.date[:n].max()),
        *(found.general, found.needless, found.first_person, found.recent, found.names.sum()),
        *(*found.hints, *(found.kind == kind for kind in ("now", "then", "why"))),
    ]
    return np.array(values, np.float32)
