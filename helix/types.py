"""Data types of Helix. All are frozen; no stage changes its input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.util.workspaces import Workspace

AnyArray = npt.NDArray[Any]
Bool = npt.NDArray[np.bool_]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

TYPES: Final = ("episodic", "semantic", "procedural", "decision", "code")
"""Item types; a type's code in the columns is its position here."""

ROLES: Final = ("user", "assistant", "tool", "system", "document")
"""Who wrote a turn; a role's code in the columns is its position here."""

ACTIONS: Final = ("run", "edit", "read", "search", "fetch", "other", "result", "correct")
"""What a step does; its code in the columns is its position here."""

OUTCOMES: Final = ("unknown", "passed", "failed")
"""What came of a tool call; its code in the columns is its position here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that a tool's result tells (see `helix.text.failures`)."""

    line: str  # as written, shortened
    kind: str
    message: str  # normalised
    loose: str  # without the names in it
    place: str  # file, or file and function


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call of a turn, or the result of one."""

    call: str  # id that a call and its result share, unique in the session
    action: str  # one of ACTIONS
    tool: str = ""
    target: str = ""  # of a call: the command, file, address or pattern; of a correction: the item it replaces
    outcome: str = "unknown"  # one of OUTCOMES; of a result
    exit_code: int | None = None
    tests: tuple[int, int] | None = None  # (passed, failed), where the result counts them
    faults: tuple[Fault, ...] = ()
    commits: tuple[str, ...] = ()  # digests of commits that the call made, as far as they are written


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, as an adapter reads it. `id` is the source's own, unique within its session."""

    id: str
    text: str
    role: str = "user"  # one of ROLES
    origin: str = "human"  # human | assistant | tool | runtime_context | summary | subagent | document | note
    speaker: str | None = None
    time: datetime | None = None  # aware, UTC
    time_quality: str = "exact"  # exact | derived (a date, other turns of the session) | file (its last change) | none
    parent: str | None = None
    title: str | None = None  # a section's own heading path; the session's title otherwise
    type: str | None = None  # of the input; overrides the classifier
    acl: tuple[str, ...] = ()
    pinned: bool = False
    priority: float | None = None  # 1–2
    confidence: float | None = None  # 0–1
    project: str | None = None
    unique: bool = False  # `id` is unique across sessions (a uuid): a copy in another session is the same turn
    steps: tuple[Step, ...] = ()  # tool calls it makes, or results it holds
    pieces: tuple[tuple[int, int, int], ...] = ()  # number, start, end of items in `text`; empty: `chunk` cuts it
    types: tuple[tuple[str, float], ...] = ()  # (type, certainty) of each item, as an exporting store judged it


@dataclass(frozen=True, slots=True)
class Session:
    """A session, its turns in reading order. The caller's project overrides `project`."""

    source: str  # name of the adapter
    id: str
    turns: tuple[Turn, ...]
    project: str | None = None
    title: str | None = None
    branch_of: str | None = None
    workspace: Workspace | None = None  # where it worked, as the log tells; it names `project`
    exported: bool = False  # a store gave it: its turns are dated and free of noise, and stay as they are


class Problem(NamedTuple):
    """A part of an input that was refused. `line` counts from 1; 0 is the whole input."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing one document."""

    sessions: tuple[Session, ...]
    problems: tuple[Problem, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=Counter)  # counts of unknown record types
    junk: Mapping[str, int] = field(default_factory=Counter)  # characters left out, by rule


@dataclass(frozen=True, slots=True)
class Document:
    """One input, decoded, secrets already redacted. `mtime` is UTC."""

    path: str
    text: str
    mtime: datetime | None = None


class Entity(NamedTuple):
    """A named thing in a text. `kind` and the normalised `key` identify it."""

    # person place organisation project name (capitalised, kind unknown) path module identifier error package version
    # command url ticket commit date relationship
    kind: str
    key: str
    name: str  # as written


Time = datetime | str | None
"""A moment as callers give it: aware, ISO 8601, or in words such as "yesterday"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """The options of one recall.

    Args:
        k: items to return; None: the number of the profile (10; annie and cems 5).
        budget: tokens of the context.
        project, type, session, speaker, since, until: filters; only these rows are searched.
        as_of, ingested_as_of: answer with what was said, or ingested, by this moment, and held then.
        current_only: leave out superseded items, and items of whose facts none holds.
        min_relevance: least relevance of an item in the context, 0 to 1; 0 packs every item. None: the setting's.
        entities: names where the graph walk starts, added to those in the question.
        ignored: words of the question that name no project, days or person for this recall; they are searched.
        principal: the caller; an ACL names the readers of its item.
        projects: the only projects that exist for the caller; None: all. A server takes them from the key.
        profile: a packaged profile, or one in the folder `HELIX_PROFILES`.
        mode, look_back: of the profiles cems and annie: vector, hybrid or auto; hours of the BM25 list, 0 for all.
        quality: `fast`, or `best`: a cross-encoder scores the best items again. None: the setting's.
        rerank: `late` (token by token) or `cross`, whatever the quality, for the `rerank_top` best, at most 30.
        now: the moment of the question, for recency; by default the clock's.
        marks, explain, why_not: `trace` has its marks; also what every stage did; what dropped an item, by id.
        tier: `deep`: a language model, if set, rewrites the question and orders items; `degraded` says if it fails.
    """

    k: int | None = None
    budget: int = 2000
    project: str | None = None
    type: str | None = None
    since: Time = None
    until: Time = None
    as_of: Time = None
    ingested_as_of: Time = None
    session: str | None = None
    speaker: str | None = None
    current_only: bool = False
    min_relevance: float | None = None
    entities: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    principal: str | None = None
    projects: tuple[str, ...] | None = None
    profile: str = "helix"
    mode: str | None = None
    look_back: float | None = None
    quality: str | None = None
    rerank: str | None = None
    rerank_top: int = 20
    now: Time = None
    marks: bool = False
    explain: bool = False
    why_not: str | None = None
    tier: str = "fast"


class Sparse(NamedTuple):
    """A text as learned weights over an encoder's vocabulary."""

    terms: U32  # uint32[t], ascending
    weights: F32  # float32[t], above 0


@dataclass(frozen=True, slots=True)
class Query:
    """One question, checked (see `helix.question.build.build_query`)."""

    text: str
    k: int
    budget: int  # tokens
    now: datetime  # aware, UTC
    project: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    ingested_as_of: datetime | None = None
    session: str | None = None
    sessions: tuple[int, ...] = ()  # codes of the sessions of that name, in the snapshot
    speaker: str | None = None
    speakers: tuple[int, ...] = ()
    current_only: bool = False  # exclude superseded items, and items of whose facts none holds
    min_relevance: float | None = None  # least relevance in the context; None: as measured
    entities: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # words of the text that hint at nothing
    principal: str | None = None
    mode: str | None = None  # of the recipe cems; None: the profile's
    look_back: float | None = None  # hours, of the recipe annie; None: the profile's
    rerank: str | None = None  # late | cross
    rerank_top: int = 20  # items to rerank
    terms: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))  # distinct term hashes
    mentions: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))  # entity hashes
    term_order: U64 = field(default_factory=lambda: np.empty(0, np.uint64))  # terms in reading order, with repeats
    embedded: str = ""  # the text to embed
    language: str = "en"  # one of `helix.text.languages.CODES`
    stored: tuple[str, ...] = ("en",)  # languages of the items, the most common first
    words: frozenset[str] = frozenset()  # of the question, lower case
    corrections: tuple[tuple[str, str, int], ...] = ()  # words that no item has: as written, as meant, term id
    term_weights: F32 | None = None  # float32[len(terms)], next to 1 of a term as written; None: all 1
    days: tuple[tuple[int, int, float], ...] = ()  # (first second, last second, weight) the question names
    sparse: Sparse | None = None  # weights by the store's sparse encoder
    rewrite: Callable[[str], Mapping[str, str]] | None = None  # deep tier: intent → other wordings by name

    @property
    def moment(self) -> int:
        """The moment of the answer in seconds: `as_of`, else `now`."""
        return int((self.as_of or self.now).timestamp())


@dataclass(frozen=True, slots=True)
class Plan:
    """The router's decisions: which rows may be searched, and hints of the question."""

    allowed: Bool | None  # bool[rows]; None allows every row
    allowed_rows: int
    skip: bool = False
    skip_score: float = 0.0
    needless: float = nan  # log-odds that the prompt needs no memory, as "run the tests"; NaN: unknown
    first_person: bool = False  # the question is about the caller
    asker_speaks: bool = False  # "what did I tell …": the named person is the listener
    recent: bool = False  # the question asks for what is recent
    days: tuple[tuple[int, int, float], ...] = ()  # (first second, last second, weight) the question names
    type_scores: F32 | None = None  # float32[len(TYPES)], cosine to each type's centroid
    projects: tuple[int, ...] = ()  # codes of the projects the question names
    extent: str = ""  # one of `helix.text.asks.Extent`: whether many turns answer
    advice: bool = False  # the question asks for advice, on which the user's rules bear
    titled: I64 | None = None  # rows of the documents whose titles the question names; None: not looked up
    conditions: tuple[Any, ...] = ()  # those of `helix.engines.base` that all allowed rows meet, for an engine


@dataclass(frozen=True, slots=True)
class Leg:
    """One retrieval leg's answer, best first. `rows` uint32[n], `scores` float32[n]."""

    name: str
    rows: U32
    scores: F32


@dataclass(frozen=True, slots=True)
class Pool:
    """A recipe's ranking, best first: arrays of one length. NaN: not found by that leg, or not computed."""

    row: U32  # row in the snapshot
    final: F32  # the order of the pool
    ranks: Mapping[str, F32]  # by leg, from 1
    signals: Mapping[str, F32]  # by name

    def __len__(self) -> int:
        return len(self.row)

    def take(self, index: npt.NDArray[np.intp]) -> Pool:
        """Return the pool in another order, or a part of it."""
        return Pool(
            self.row[index],
            self.final[index],
            {name: values[index] for name, values in self.ranks.items()},
            {name: values[index] for name, values in self.signals.items()},
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """The pool as arrays of one length. NaN: not found by that leg, or not yet computed."""

    row: U32  # row in the snapshot
    dense: F32  # rank in the dense leg, from 1
    bm25: F32  # rank in the lexical leg, from 1
    doc2query: F32  # rank by the questions a model wrote for items, from 1
    sparse: F32  # rank by the weights a sparse encoder gave items, from 1
    rrf: F32  # reciprocal rank fusion score
    ppr: F32  # personalised PageRank mass
    sim: F32  # signals after min-max over the pool, [0, 1]
    recency: F32
    salience: F32
    confidence: F32
    graph: F32
    rerank: F32  # score of a reranker
    final: F32  # the blended score; the order of the pool

    def __len__(self) -> int:
        return len(self.row)

    def take(self, index: npt.NDArray[np.intp]) -> Candidates:
        """Return the pool in another order, or a part of it."""
        return Candidates(**{name: getattr(self, name)[index] for name in self.__slots__})

    def join(self, other: Candidates) -> Candidates:
        """Return the rows of both, those of the other last."""
        return Candidates(
            **{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__slots__}
        )

    def append(self, rows: npt.NDArray[Any]) -> Candidates:
        """Return the pool with more rows at its end, all NaN."""
        nothing = np.full(len(rows), np.nan, np.float32)
        known = {name: np.concatenate([getattr(self, name), nothing]) for name in self.__slots__ if name != "row"}
        return Candidates(row=np.concatenate([self.row, rows.astype(np.uint32)]), **known)

    def pool(self) -> Pool:
        """Return the pool in the form of every recipe."""
        has_sparse = not np.isnan(self.sparse).all()
        legs = ("dense", "bm25", "doc2query", *(("sparse",) if has_sparse else ()))
        has_rerank = not np.isnan(self.rerank).all()
        signals = ("rrf", "sim", "recency", "salience", "confidence", "graph", *(("rerank",) if has_rerank else ()))
        ranks, scores = ({name: getattr(self, name) for name in names} for names in (legs, signals))
        return Pool(self.row, self.final, ranks, scores)


@dataclass(frozen=True, slots=True)
class Item:
    """One recalled item, as every surface shows it."""

    id: str
    score: float
    type: str
    text: str
    session: str
    turns: tuple[str, ...]
    speaker: str | None
    time: str | None  # ISO 8601, UTC
    project: str
    source: str
    why: Mapping[str, Any]  # ranks and signals by name, parts of its salience, questions that found it
    replaced_by: Mapping[str, Any] | None = None  # id, time and shortened text of the item that supersedes it
    time_quality: str | None = None  # of `Turn`; None: written by an earlier release
    relevance: float = 0.0  # probability that it helps with the question, comparable between answers
    title: str | None = None  # of its session, or the heading of its section
    role: str = ""  # one of ROLES; empty: an earlier release answered
    voice: str = ""  # who said it, for a person: the speaker, "you", the agent's name, a role; of a document empty


@dataclass(frozen=True, slots=True)
class Bundle:
    """The answer of one recall."""

    snapshot: int
    profile: str
    skipped: bool
    degraded: tuple[str, ...]
    items: tuple[Item, ...]  # best first, at most k
    packed: tuple[Item, ...]  # in the context, in its order; of `items` and `beyond`
    context: str
    tokens: int
    budget: int
    counter: str
    ms: Mapping[str, float]
    trace: Mapping[str, Any] | None = None
    deep: Mapping[str, Any] | None = None  # of the deep tier: the model's part, and its cost
    notice: str | None = None  # why nothing was found, where options of time are the reason
    answered: float = 0.0  # probability that any item helps
    beyond: tuple[Item, ...] = ()  # items after the k best that the context holds, too
    coverage: Mapping[str, Any] | None = None  # of a question of many turns: extent, turns, sessions, shown
