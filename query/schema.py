"""What is asked and what is answered, for every surface: one schema, so that none can drift.

Ranges and names are checked by the library, which says on every surface the same of what is wrong; a schema only tells
them to whoever reads it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helix.sdk.memory import MOST_AROUND, MOST_LISTED, MOST_NAME, Memory
from helix.snapshot.ledger.access_events import KINDS
from helix.types import TYPES, Bundle, Item


def _told(description: str, *examples: Any, **schema: Any) -> Any:
    """What a schema says of a field, without checking it."""
    return Field(description=description, examples=list(examples) or None, json_schema_extra=schema or None)


# ---------------------------------------------------------------- what is asked

Question = Annotated[
    str,
    _told(
        "the question, an error, a path or a name",
        "What did I tell Priya about vacation?",
        minLength=1,
        maxLength=10_000,
        pattern=r"\S",
    ),
]
Count = Annotated[int, _told("items to return", 10, minimum=1, maximum=1_000)]
Budget = Annotated[int, _told("tokens the context may take", 2000, minimum=0, maximum=100_000)]
Project = Annotated[str | None, _told("only this project", "ledgerline")]
Type = Annotated[str | None, _told(f"only items of this type: {', '.join(TYPES)}", "decision")]
Since = Annotated[str | None, _told("not before: ISO 8601, or an age like 7d", "2026-02-01", "30d")]
Until = Annotated[str | None, _told("not after: ISO 8601, or an age like 7d", "2026-02-28T12:00:00Z")]
Principal = Annotated[str | None, _told("who asks: items with an ACL are only for those it names", "ana")]
Offset = Annotated[int, _told("entries to leave out before the first", 0, minimum=0, maximum=1 << 40)]
Limit = Annotated[int, _told("entries to return", 50, minimum=1, maximum=MOST_LISTED)]
Steps = Annotated[int, _told("items of the same session", 3, minimum=0, maximum=MOST_AROUND)]
Name = Annotated[str, _told("a name, in any case", "Priya", minLength=1, maxLength=MOST_NAME, pattern=r"\S")]
ItemId = Annotated[str, _told("an item id, as recall shows it", "f1a3fa0659075602", maxLength=64)]
JobId = Annotated[str, _told("a job, as POST /v1/recall/deep gave it", "0" * 32, maxLength=64)]
Tier = Annotated[
    Literal["fast", "deep"],
    _told("fast: milliseconds, no model asked; deep: a language model rewrites and orders, for seconds"),
]
SessionId = Annotated[str, _told("a session, as recall shows it", "c3")]


class Asked(BaseModel):
    """A request. What nobody knows is refused."""

    model_config = ConfigDict(extra="forbid")

    principal: Principal = None


class RecallRequest(Asked):
    """The arguments of one recall."""

    query: Question
    k: Count = 10
    budget: Budget = 2000
    project: Project = None
    type: Type = None
    since: Since = None
    until: Until = None
    as_of: Annotated[str | None, _told("what was known and valid then: ISO 8601, or an age", "2026-02-10")] = None
    session: Annotated[str | None, _told("only this session", "c3")] = None
    speaker: Annotated[str | None, _told("only this speaker, in any case", "Ana")] = None
    current_only: Annotated[bool, _told("nothing whose facts no longer hold")] = False
    entities: Annotated[list[str], _told("names the graph walk starts from", ["Priya"])] = Field(default_factory=list)
    profile: Annotated[str, _told("the constants in force", "helix", "cems")] = "helix"
    now: Annotated[str | None, _told("the moment of asking, ISO 8601; the clock where not given")] = None
    rerank: Annotated[str | None, _told("late or cross: score the best items anew, at a price")] = None
    rerank_top: Annotated[int, _told("items that are scored anew", 20, minimum=1, maximum=30)] = 20
    explain: Annotated[bool, _told("say what every stage did, in `trace`")] = False
    why_not: Annotated[str | None, _told("an item id: say at which stage it fell out, in `trace.why_not`")] = None


class ContextRequest(Asked):
    """What is to be told as text: the answer to a question, or where the newest sessions of a project stand."""

    query: Annotated[str | None, _told("a question; without one, decisions, open work and next steps")] = None
    project: Project = None
    budget: Budget = 1800


class TimelineRequest(Asked):
    """Which sessions."""

    project: Project = None
    since: Since = None
    until: Until = None
    offset: Offset = 0
    limit: Limit = 50


class SessionRequest(Asked):
    """Which of a session's items."""

    offset: Offset = 0
    limit: Annotated[int, _told("entries to return", 200, minimum=1, maximum=MOST_LISTED)] = 200


class AroundRequest(Asked):
    """How far to look around an item."""

    before: Steps = 3
    after: Steps = 3


class FactsRequest(Asked):
    """About whom, and when."""

    entity: Name
    at: Annotated[str | None, _told("the moment at which a fact holds or not; now where not given")] = None
    offset: Offset = 0
    limit: Annotated[int, _told("entries to return", 100, minimum=1, maximum=MOST_LISTED)] = 100


class FeedbackRequest(Asked):
    """What became of one item."""

    item: Annotated[str, Field(max_length=64, description="an item id, as recall shows it")]
    kind: Annotated[str, _told("what became of it; wrong does not count as an access", "helpful", enum=list(KINDS))]


class HookRequest(BaseModel):
    """What an agent's hook tells of its session."""

    model_config = ConfigDict(extra="allow")  # an agent may say more tomorrow

    kind: Annotated[str, _told("prompt or start", "prompt")] = ""
    prompt: Annotated[str, _told("what the user wrote")] = ""
    folders: Annotated[list[Any], _told("that the agent works in, the likeliest first", ["/home/ana/ledgerline"])] = []
    session: Annotated[str, _told("the agent's session, which is left out")] = ""
    source: Annotated[str, _told("of a start: startup, resume, clear or compact")] = ""


# ---------------------------------------------------------------- what is answered


class RecalledItem(BaseModel):
    """One recalled item."""

    id: str = Field(description="stable: of the same turn it is always the same")
    score: float = Field(description="what the items are in the order of")
    type: str = Field(description=", ".join(TYPES))
    text: str = Field(description="quoted data of the past, as it was said, secrets replaced")
    session: str
    turns: list[str] = Field(description="the source's own ids of the turns")
    speaker: str | None
    time: str | None = Field(description="ISO 8601, UTC")
    project: str
    source: str = Field(description="the file it was read from")
    why: dict[str, Any] = Field(description="ranks by leg and signals by name; what its salience is made of")


class Recalled(BaseModel):
    """The answer to one recall."""

    snapshot: int = Field(description="the generation that answered")
    profile: str
    skipped: bool = Field(description="the question needs no memory, and nothing was searched")
    degraded: list[str] = Field(description="what could not be searched, and why")
    items: list[RecalledItem] = Field(description="best first, at most k")
    packed: list[int] = Field(description="places in `items`, from 0, of those in the context, in its order")
    context: str = Field(description="ready for a prompt: wrapped, sanitised, within the budget; may be empty")
    tokens: int = Field(description="of the context")
    budget: int
    counter: str = Field(description="what counted the tokens")
    ms: dict[str, float] = Field(description="milliseconds by stage, and in total")
    trace: dict[str, Any] | None = Field(default=None, description="with explain or why_not: stages and candidates")
    deep: dict[str, Any] | None = Field(
        default=None, description="of the tier deep: what the model was asked (`wordings`, `calls`, memories `sent`)"
    )


class DeepRecall(BaseModel):
    """A question of the tier deep, and the best answer there is yet."""

    job: str = Field(description="for GET /v1/recall/deep/{job}")
    status: Literal["waiting", "running", "done"]
    answer: Recalled = Field(
        description="without a model until the status is done, then with it, or `degraded` says why without"
    )


class StoredItem(BaseModel):
    """One item as it is stored, without a question."""

    id: str
    type: str
    role: str
    text: str
    session: str
    turns: list[str]
    speaker: str | None
    time: str | None
    project: str
    source: str
    title: str | None
    salience: float | None
    confidence: float | None
    vouched: str | None = Field(description="who vouches for it")
    tokens: int
    previous: str | None = Field(description="the item before it in its session")
    next: str | None = Field(description="the item after it in its session")


class SessionPage(BaseModel):
    """A session in reading order, some items at a time."""

    session: str
    project: str
    began: str | None
    ended: str | None
    total: int = Field(description="items of the session")
    offset: int
    items: list[StoredItem]


class ToldSession(BaseModel):
    """A session of a timeline."""

    session: str
    project: str
    title: str | None
    source: str
    began: str | None
    ended: str | None
    items: int
    types: dict[str, int] = Field(description="its items by type")
    speakers: list[str] = Field(description="who says most in it")
    first: str = Field(description="how it begins")


class Timeline(BaseModel):
    """Sessions, newest first."""

    total: int = Field(description="sessions there are")
    offset: int
    sessions: list[ToldSession]


class Around(BaseModel):
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
    """What connects two of them."""

    from_: str = Field(alias="from")
    to: str
    kind: str = Field(description="next, reply, same, mentions, states (something of it), or the relation of a fact")


class Neighbourhood(BaseModel):
    """What an item is connected with."""

    item: str
    nodes: list[Node]
    edges: list[Edge]


class ToldFact(BaseModel):
    """A fact with its validity."""

    subject: str
    relation: str
    object: str
    qualifier: str
    closes: bool = Field(description="it says that this holds no more")
    t_valid: str | None
    t_invalid: str | None = Field(description="since when it holds no more; null where it does hold")
    holds: bool
    confidence: float | None
    item: str = Field(description="the item that says it")


class Facts(BaseModel):
    """What is stated about an entity, newest first."""

    entity: str
    total: int
    offset: int
    facts: list[ToldFact]


class Choices(BaseModel):
    """What there is to filter by, with the number of items."""

    snapshot: int
    items: int
    sessions: int
    first: str | None
    last: str | None
    projects: dict[str, int]
    types: dict[str, int]
    speakers: dict[str, int]
    profiles: list[str]


class Feedback(BaseModel):
    """The event, as it was written."""

    item: str
    kind: str
    at: float = Field(description="seconds since 1970 UTC")


class HookAnswer(BaseModel):
    """What a hook adds to the agent's context."""

    context: str
    said: str = Field(description="what was done, without a word of what was asked")


class Status(BaseModel):
    """What is published and what answers; to the owner and to keys of scope `admin` also what waits and what failed."""

    model_config = ConfigDict(extra="allow")

    generation: int = Field(description="the newest")
    serving: int = Field(description="the one that answers here")
    items: int
    sessions: int
    encoder: str | None
    trouble: str | None = Field(description="why the newest generation is not the one that answers")


class Health(BaseModel):
    """It answers."""

    model_config = ConfigDict(extra="allow")

    status: Literal["ok", "ready"]


class Problem(BaseModel):
    """A problem detail (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what is wrong, where, and the remedy")
    instance: str


# ---------------------------------------------------------------- from one to the other


def answer(
    memory: Memory, request: RecallRequest, projects: tuple[str, ...] | None = None, tier: str = "fast"
) -> dict[str, Any]:
    """Run one recall and give the response every surface gives.

    Args:
        projects: the only ones that exist for who asks; None: all.
        tier: fast or deep; not for a query process, which may not ask a model (`query.deep_jobs`).

    Raises:
        UsageError: see `Memory.recall`.
    """
    arguments = request.model_dump()
    return response(memory.recall(arguments.pop("query"), projects=projects, tier=tier, **arguments))


def response(bundle: Bundle) -> dict[str, Any]:
    """The promised JSON shape."""
    place = {id(item): i for i, item in enumerate(bundle.items)}  # two facts of one item have its id in common
    found: dict[str, Any] = {
        "snapshot": bundle.snapshot,
        "profile": bundle.profile,
        "skipped": bundle.skipped,
        "degraded": list(bundle.degraded),
        "items": [item_response(item) for item in bundle.items],
        "packed": [place[id(item)] for item in bundle.packed],
        "context": bundle.context,
        "tokens": bundle.tokens,
        "budget": bundle.budget,
        "counter": bundle.counter,
        "ms": dict(bundle.ms),
    }
    if bundle.trace is not None:
        found["trace"] = dict(bundle.trace)
    if bundle.deep is not None:
        found["deep"] = dict(bundle.deep)
    return found


def item_response(item: Item) -> dict[str, Any]:
    """One item of the response."""
    return {
        "id": item.id,
        "score": item.score,
        "type": item.type,
        "text": item.text,
        "session": item.session,
        "turns": list(item.turns),
        "speaker": item.speaker,
        "time": item.time,
        "project": item.project,
        "source": item.source,
        "why": dict(item.why),
    }
