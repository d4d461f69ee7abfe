"""Constants of the eight stages, as a profile of the recipe `helix` names them (docs/explanation/recall.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from helix.types import TYPES

SIGNALS: Final = ("sim", "recency", "salience", "confidence", "graph")
EDGES: Final = ("next", "session", "reply", "same", "fact")
LEGS: Final = ("dense", "bm25", "doc2query", "sparse")


class Profile(Protocol):
    """The fields that every recipe's profile has."""

    @property
    def name(self) -> str:
        """Name of the file."""

    @property
    def recipe(self) -> str:
        """Name of the recipe."""


def keys(*names: str) -> Any:
    """Declare a field whose value is a table with exactly these keys."""
    return field(metadata={"keys": names})


def one_of(*values: str) -> Any:
    """Declare a field whose value is one of these."""
    return field(metadata={"values": values})


@dataclass(frozen=True, slots=True)
class QuestionConstants:
    """Rewriting of the question, before stage 1."""

    core: bool
    speaker: bool


@dataclass(frozen=True, slots=True)
class RouteConstants:
    """Stage 2: whether what the question hints at filters, and how sure a hint must be."""

    type_lead: float
    type_items: int
    days: float
    hints: str = one_of("boost", "filter")


@dataclass(frozen=True, slots=True)
class RetrieveConstants:
    """Stage 3: items of each leg, and BM25's k1 and b."""

    dense: int
    bm25: int
    doc2query: int
    sparse: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class FuseConstants:
    """Stage 4."""

    k: float
    top: int
    weights: Mapping[str, float] = keys(*LEGS)


@dataclass(frozen=True, slots=True)
class GraphConstants:
    """Stage 5."""

    seeds: int
    restart: float
    epsilon: float
    hops: int
    work: int
    entity_df: int
    session_size: int
    neighbours: int
    extra: int
    mass: float
    edges: Mapping[str, float] = keys(*EDGES)  # weight by kind; an entity's is its idf
    method: str = one_of("push", "bfs")


@dataclass(frozen=True, slots=True)
class SimilarityConstants:
    """Weights of the similarity features of stage 6."""

    rrf: float
    own: float
    window: float
    rare: float
    adjacent: float
    doc2query: float
    sparse: float
    dense: float
    lean: float
    mean: float
    session: float
    reply: float
    standing: float
    first_person: float
    salience: float
    speaker: float
    user: float
    date: float
    title: float
    type: float
    project: float
    across: float


@dataclass(frozen=True, slots=True)
class LinkConstants:
    """The step from the best items to those they name, in stages 5 and 6."""

    beside: int
    readers: int
    extra: int
    seeds: int
    title: float
    title_df: int
    walk: float
    walk_df: int
    walk_df_turns: int


@dataclass(frozen=True, slots=True)
class RankConstants:
    """Stage 6."""

    superseded: float
    narration: float
    recency: str = one_of("always", "asked")
    decay: Mapping[str, float] = keys(*TYPES)  # an hour


@dataclass(frozen=True, slots=True)
class ReadingConstants:
    """After stage 6, for questions of what holds now, then, or why."""

    top: int
    hops: int
    extra: int
    least: float


@dataclass(frozen=True, slots=True)
class RerankConstants:
    """Between stages 6 and 7, off by default."""

    weight: float


@dataclass(frozen=True, slots=True)
class CoverConstants:
    """Of a question that stretches of talk answer."""

    top: int
    reach: float


@dataclass(frozen=True, slots=True)
class DiversifyConstants:
    """Stage 7. `lambda_` is `lambda` in the file."""

    jaccard: float
    lambda_: float
    relevance: str = one_of("score", "sim")


@dataclass(frozen=True, slots=True)
class PackConstants:
    """Stage 8."""

    items: int
    full: float
    excerpt: float
    certain: float
    neighbours: int
    neighbour_tokens: int
    grouped: bool
    wide_items: int
    wide_excerpt: float
    standing: int


@dataclass(frozen=True, slots=True)
class HelixProfile:
    """A profile of the recipe `helix`: the eight stages."""

    name: str
    recipe: str
    ask: QuestionConstants
    route: RouteConstants
    retrieve: RetrieveConstants
    fuse: FuseConstants
    graph: GraphConstants
    sim: SimilarityConstants
    link: LinkConstants
    rank: RankConstants
    reading: ReadingConstants
    rerank: RerankConstants
    cover: CoverConstants
    diversify: DiversifyConstants
    pack: PackConstants
    weights: Mapping[str, Mapping[str, float]] = field(metadata={"keys": TYPES, "inner": SIGNALS})  # by type
    encoders: Mapping[str, Mapping[str, float]] = field(metadata={"tables": True})  # see helix.recipes.encoder_weights
