"""Answers of every surface: their schemas, and the JSON of a recall."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helix.sdk.memory import Memory
from helix.stages.relevance import LEAST_ANSWERED
from helix.types import ROLES, TYPES, Bundle, Item, RecallOptions
from query.schema.coverage import Coverage
from query.schema.fields import NOTICE, TIME_QUALITY, VOICE
from query.schema.requests import RecallRequest


class Replacement(BaseModel):
    """The item that supersedes another."""

    id: str
    time: str | None = Field(description="ISO 8601, UTC")
    text: str = Field(description="the sentences nearest to the superseded item, sanitised, at most 200 characters")


class RecalledItem(BaseModel):
    """One recalled item."""

    id: str = Field(description="stable: the same turn always has the same id")
    score: float = Field(description="the score that orders the items of this answer")
    relevance: float = Field(description="probability that it helps, 0 to 1, comparable between answers")
    type: str = Field(description=", ".join(TYPES))
    text: str = Field(description="quoted data of the past, verbatim, with secrets replaced")
    session: str
    turns: list[str] = Field(description="the source's own ids of the turns")
    speaker: str | None
    role: str = Field(default="", description=f"who wrote the turn: {', '.join(ROLES)}")
    voice: str = VOICE
    time: str | None = Field(description="when it was said: ISO 8601, UTC")
    time_quality: str | None = TIME_QUALITY
    project: str
    source: str = Field(description="the file it was read from")
    title: str | None = Field(default=None, description="of its session, or the heading of its section")
    why: dict[str, Any] = Field(description="ranks by leg, signals by name, and the parts of its salience")
    replaced_by: Replacement | None = Field(description="what supersedes it at the moment of the answer; null for none")


class StoreShare(BaseModel):
    """A store's part in a recall over several."""

    snapshot: int = Field(description="the generation that answered")
    items: int = Field(description="items that it found")
    ms: float = Field(description="milliseconds of its own recall")


class FusedItem(RecalledItem):
    """An item of a recall over several stores."""

    store: str = Field(description="the store that has it")
    also_in: list[str] = Field(description="other stores with the same text")


class RecallAnswer(BaseModel):
    """The answer to one recall."""

    snapshot: int = Field(description="the generation that answered")
    profile: str
    skipped: bool = Field(description="the question needs no memory, so nothing was searched")
    degraded: list[str] = Field(description="each part that could not be searched, and why")
    answered: float = Field(description="probability that the answer helps, 0 to 1, comparable between answers")
    relevant: bool = Field(description="whether that is enough for a context; else `items` are only the nearest")
    items: list[FusedItem | RecalledItem] = Field(description="best first, at most k")
    beyond: list[FusedItem | RecalledItem] = Field(description="items after the k best that the context holds, too")
    packed: list[int] = Field(
        description="places, from 0, of those in the context, in its order: in `items`, then in `beyond`"
    )
    context: str = Field(
        description="relevant items, ready for a prompt: wrapped, sanitised, within the budget; empty if none helps"
    )
    tokens: int = Field(description="of the context")
    budget: int
    counter: str = Field(description="the token counter")
    ms: dict[str, float] = Field(description="milliseconds by stage, and in total")
    trace: dict[str, Any] | None = Field(
        default=None, description="with marks: `hints`, `matches`; with explain or why_not also stages and candidates"
    )
    deep: dict[str, Any] | None = Field(
        default=None, description="of the deep tier: the model's part (`wordings`, `calls`, memories `sent`)"
    )
    notice: str | None = NOTICE
    coverage: Coverage | None = Field(
        default=None, description="of a question that many turns answer, such as a summary: how many there are"
    )
    stores: dict[str, StoreShare] | None = Field(default=None, description="of a recall over several stores: each one")


class DeepAnswer(BaseModel):
    """A question of the deep tier, with the best answer so far."""

    job: str = Field(description="for GET /v1/recall/deep/{job}")
    status: Literal["waiting", "running", "done"]
    answer: RecallAnswer = Field(
        description="without a model until the status is done; then with it, or `degraded` says why not"
    )


class StoredItem(BaseModel):
    """One stored item, without a question."""

    id: str
    type: str
    role: str
    text: str
    session: str
    turns: list[str]
    speaker: str | None
    voice: str = VOICE
    time: str | None
    time_quality: str | None = TIME_QUALITY
    project: str
    source: str
    title: str | None
    salience: float | None
    confidence: float | None
    vouched: str | None = Field(description="who vouches for it")
    tokens: int
    previous: str | None = Field(description="the item before it in its session")
    next: str | None = Field(description="the item after it in its session")
    replaced_by: Replacement | None = Field(description="what supersedes it now; null for none")


class SessionPage(BaseModel):
    """A session in reading order, a page of items at a time."""

    session: str
    project: str
    began: str | None
    ended: str | None
    total: int = Field(description="items of the session")
    offset: int
    items: list[StoredItem]
    notice: str | None = NOTICE


class SessionSummary(BaseModel):
    """A session of a timeline."""

    session: str
    project: str
    title: str | None
    source: str
    agent: str | None = Field(default=None, description="the agent whose log it is; null: none")
    began: str | None = Field(description="null: no turn has a time of its own")
    ended: str | None
    time_quality: str | None = TIME_QUALITY
    file_time: str | None = Field(
        default=None, description="of an undated session: its file's last change, at most then"
    )
    items: int
    types: dict[str, int] = Field(description="its items by type")
    speakers: list[str] = Field(description="its most frequent speakers")
    first: str = Field(description="its first words")


class Timeline(BaseModel):
    """Sessions, newest first."""

    total: int = Field(description="all sessions that match")
    offset: int
    sessions: list[SessionSummary]
    notice: str | None = NOTICE


class ItemWindow(BaseModel):
    """An item among those before and after it."""

    session: str
    at: int = Field(description="place of the item in `items`, from 0")
    items: list[StoredItem]


class Node(BaseModel):
    """An item, or an entity that items name."""

    model_config = ConfigDict(extra="allow")

    id: str
    kind: Literal["item", "entity"]
    label: str


class Edge(BaseModel):
    """A connection of two nodes."""

    from_: str = Field(alias="from")
    to: str
    kind: str = Field(description="next, reply, same, mentions, states (something about it), or a fact's relation")


class Neighbourhood(BaseModel):
    """The connections of an item."""

    item: str
    nodes: list[Node]
    edges: list[Edge]


class DatedFact(BaseModel):
    """A fact with its validity."""

    text: str = Field(description="the fact as a sentence")
    subject: str
    relation: str
    object: str
    qualifier: str
    closes: bool = Field(description="it says that this no longer holds")
    t_valid: str | None
    t_invalid: str | None = Field(description="the end of its validity; null while it holds")
    holds: bool
    confidence: float | None
    item: str = Field(description="the item that states it")


class FactPage(BaseModel):
    """Facts about an entity, newest first."""

    entity: str
    total: int
    offset: int
    facts: list[DatedFact]
    notice: str | None = NOTICE


class FilterChoices(BaseModel):
    """The values of each filter, with the number of items."""

    snapshot: int
    items: int
    sessions: int
    first: str | None
    last: str | None
    projects: dict[str, int]
    old_projects: dict[str, list[str]] = Field(description="projects by each old name, which filters take too")
    types: dict[str, int]
    speakers: dict[str, int]
    profiles: list[str]


class FeedbackReceipt(BaseModel):
    """The event, as it was written."""

    item: str
    kind: str
    at: float = Field(description="seconds since 1970 UTC")


class HookAnswer(BaseModel):
    """A hook's addition to the agent's context."""

    context: str
    said: str = Field(description="a note on the recall, without a word of the prompt")
    items: list[str] = Field(default=[], description="ids of the items in the context")
    tokens: int = Field(default=0, description="of the context")


class StoreStatus(BaseModel):
    """The published and the answering generation; for the owner and scope `admin` also the queue and failures."""

    model_config = ConfigDict(extra="allow")

    generation: int = Field(description="the newest")
    serving: int = Field(description="the one that answers here")
    items: int
    sessions: int
    encoder: str | None
    trouble: str | None = Field(description="why the newest generation does not answer")


class Health(BaseModel):
    """A sign of life."""

    model_config = ConfigDict(extra="allow")

    status: Literal["ok", "ready"]


class ProblemDetail(BaseModel):
    """A problem detail (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="the fault, its place and the remedy")
    instance: str


def run_recall(
    memory: Memory, request: RecallRequest, projects: tuple[str, ...] | None = None, tier: str = "fast"
) -> dict[str, Any]:
    """Run one recall and return the JSON of every surface.

    Args:
        projects: the caller's visible projects; None: all.
        tier: fast or deep; a query process asks no model itself (`query.deep_jobs`).

    Raises:
        UsageError: see `Memory.recall`.
    """
    return render_bundle(memory.answer(request.query, make_options(request, projects, tier)))


def make_options(request: RecallRequest, projects: tuple[str, ...] | None = None, tier: str = "fast") -> RecallOptions:
    """Return the options of a request; see `run_recall`."""
    lists = {"entities": tuple(request.entities), "ignored": tuple(request.ignored)}
    return RecallOptions(**{**request.model_dump(exclude={"query", "stores"}), **lists}, projects=projects, tier=tier)


def render_bundle(bundle: Bundle) -> dict[str, Any]:
    """Return the promised JSON of a bundle."""
    every = (*bundle.items, *bundle.beyond)
    place = {id(item): i for i, item in enumerate(every)}  # by object: two facts of one item share its id
    answer: dict[str, Any] = {
        "snapshot": bundle.snapshot,
        "profile": bundle.profile,
        "skipped": bundle.skipped,
        "degraded": list(bundle.degraded),
        "answered": bundle.answered,
        "relevant": bundle.answered >= LEAST_ANSWERED,
        "items": [render_item(item) for item in bundle.items],
        "beyond": [render_item(item) for item in bundle.beyond],
        "packed": [place[id(item)] for item in bundle.packed],
        "context": bundle.context,
        "tokens": bundle.tokens,
        "budget": bundle.budget,
        "counter": bundle.counter,
        "ms": dict(bundle.ms),
        "notice": bundle.notice,
        "coverage": None if bundle.coverage is None else dict(bundle.coverage),
    }
    if bundle.trace is not None:
        answer["trace"] = dict(bundle.trace)
    if bundle.deep is not None:
        answer["deep"] = dict(bundle.deep)
    return answer


def render_item(item: Item) -> dict[str, Any]:
    """Return the promised JSON of an item."""
    fields = {name: getattr(item, name) for name in RecalledItem.model_fields}
    replaced_by = item.replaced_by and dict(item.replaced_by)
    return {**fields, "turns": list(item.turns), "why": dict(item.why), "replaced_by": replaced_by}
