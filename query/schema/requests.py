"""Requests of every surface (REST, MCP, hook, command line), so that none can drift from the others.

The library checks ranges and names, with the same message on every surface; a schema only documents them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helix.errors import UsageError
from helix.sdk.memory import MAX_AROUND, MAX_LISTED, MAX_NAME
from helix.snapshot.ledger.access_events import KINDS
from helix.types import TYPES


def _describe(description: str, *examples: Any, **schema: Any) -> Any:
    """Describe a field in its schema, without a check."""
    return Field(description=description, examples=list(examples) or None, json_schema_extra=schema or None)


Question = Annotated[
    str,
    _describe(
        "the question, an error, a path or a name",
        "What did I tell Priya about vacation?",
        minLength=1,
        maxLength=10_000,
        pattern=r"\S",
    ),
]
Count = Annotated[int, _describe("items to return", 10, minimum=1, maximum=1_000)]
OptionalCount = Annotated[
    int | None, _describe("items to return; default: the profile's number, 10 or 5", 10, minimum=1, maximum=1_000)
]
Profile = Annotated[str, _describe("the set of constants", "helix", "cems")]
Mode = Annotated[
    str | None, _describe("of profile cems: auto, hybrid or vector; default: as the profile says", "vector")
]
LookBack = Annotated[
    float | None,
    _describe("of profile annie: hours of its BM25 list; 0: all; default: as the profile says", 168, minimum=0),
]
Budget = Annotated[int, _describe("tokens the context may take", 2000, minimum=0, maximum=100_000)]
Project = Annotated[str | None, _describe("only this project", "ledgerline")]
CurrentProject = Annotated[
    str | None, _describe("only this project; default: that of the agent's folder, else all", "ledgerline")
]
Type = Annotated[str | None, _describe(f"only items of this type: {', '.join(TYPES)}", "decision")]
Since = Annotated[
    str | None, _describe("not before: ISO 8601, an age like 7d, or words", "2026-02-01", "30d", "last week")
]
Until = Annotated[str | None, _describe("not after: ISO 8601, an age like 7d, or words", "2026-02-28T12:00:00Z")]
AsOf = Annotated[
    str | None,
    _describe("what was said by then and held then, whenever it was ingested: ISO 8601, or an age", "2026-02-10"),
]
IngestedAsOf = Annotated[
    str | None, _describe("what this store had ingested by then: ISO 8601, or an age like 7d", "2026-02-10")
]
_HINTS = _describe("names to start the graph walk from", ["Priya"])
Entities = Annotated[list[str], _HINTS]
MaybeEntities = Annotated[list[str] | None, _HINTS]
Principal = Annotated[str | None, _describe("the caller's name in ACLs; an item's ACL names its readers", "ana")]
History = Annotated[bool, _describe("with everything that was replaced, not the last three of each topic")]
Offset = Annotated[int, _describe("entries to leave out before the first", 0, minimum=0, maximum=1 << 40)]
Limit = Annotated[int, _describe("entries to return", 50, minimum=1, maximum=MAX_LISTED)]
Steps = Annotated[int, _describe("items of the same session", 3, minimum=0, maximum=MAX_AROUND)]
Name = Annotated[str, _describe("a name, in any case", "Priya", minLength=1, maxLength=MAX_NAME, pattern=r"\S")]
ItemId = Annotated[str, _describe("an item id, as recall shows it", "f1a3fa0659075602", maxLength=64)]
JobId = Annotated[str, _describe("a job, as POST /v1/recall/deep gave it", "0" * 32, maxLength=64)]
Tier = Annotated[
    Literal["fast", "deep"],
    _describe("fast: milliseconds, without a model; deep: a language model rewrites and orders, for seconds"),
]
MinRelevance = Annotated[
    float | None,
    _describe(
        "least relevance of an item in the context; 0: every item; default: as measured", 0.05, minimum=0, maximum=1
    ),
]
Quality = Annotated[
    Literal["fast", "best"] | None,
    _describe("best: a network reads question and items together, some 50 ms more; default: as the server is set"),
]
SessionId = Annotated[str, _describe("a session, as recall shows it", "c3")]


class PrincipalRequest(BaseModel):
    """A request as a principal. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")

    principal: Principal = None


class RecallRequest(PrincipalRequest):
    """The arguments of one recall."""

    query: Question
    k: OptionalCount = None
    budget: Budget = 2000
    project: Project = None
    type: Type = None
    since: Since = None
    until: Until = None
    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None
    session: Annotated[str | None, _describe("only this session", "c3")] = None
    speaker: Annotated[str | None, _describe("only this speaker, in any case", "Ana")] = None
    current_only: Annotated[bool, _describe("leave out superseded items, and items whose facts no longer hold")] = False
    min_relevance: MinRelevance = None
    entities: Entities = Field(default_factory=list)
    ignored: Annotated[
        list[str],
        _describe("words of the query that set no project, days or person", ["last week"]),
    ] = Field(default_factory=list)
    profile: Profile = "helix"
    mode: Mode = None
    look_back: LookBack = None
    now: Annotated[str | None, _describe("the time of the question, ISO 8601; default: the clock")] = None
    quality: Quality = None
    rerank: Annotated[str | None, _describe("late or cross: score the best items again, more slowly")] = None
    rerank_top: Annotated[int, _describe("items to score again", 20, minimum=1, maximum=30)] = 20
    marks: Annotated[
        bool, _describe("report the query's hints, and the places of its words in each item, in `trace`")
    ] = False
    explain: Annotated[bool, _describe("report that and every stage, in `trace`")] = False
    why_not: Annotated[str | None, _describe("an item id: name the stage that left it out, in `trace.why_not`")] = None


class WideRecallRequest(RecallRequest):
    """The arguments of a recall that may be over several stores."""

    stores: Annotated[
        list[str],
        _describe("on a server of many stores: search these, and fuse their answers; default: all of the key", ["ana"]),
    ] = Field(default_factory=list)


class ContextRequest(PrincipalRequest):
    """A context as text: for a question, or a briefing about the newest sessions of a project."""

    query: Annotated[str | None, _describe("a question; default: decisions, open work and next steps")] = None
    k: OptionalCount = None
    limit: Annotated[int | None, _describe("the same as k", 10, minimum=1, maximum=1_000)] = None
    project: Project = None
    budget: Budget = 1800
    profile: Profile = "helix"
    mode: Mode = None
    look_back: LookBack = None
    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None


def list_context_options(request: ContextRequest) -> dict[str, Any]:
    """Return the options of a context by name.

    Raises:
        UsageError: k and limit differ.
    """
    options = request.model_dump(exclude={"principal", "query", "project", "limit"})
    if request.limit is not None:
        if request.k not in (None, request.limit):
            raise UsageError(f"k is {request.k} and limit is {request.limit}", "give one of them: both mean the same")
        options["k"] = request.limit
    return options


class TimelineRequest(PrincipalRequest):
    """A part of the timeline."""

    project: Project = None
    since: Since = None
    until: Until = None
    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None
    offset: Offset = 0
    limit: Limit = 50


class SessionRequest(PrincipalRequest):
    """A part of a session."""

    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None
    offset: Offset = 0
    limit: Annotated[int, _describe("entries to return", 200, minimum=1, maximum=MAX_LISTED)] = 200


class MomentRequest(PrincipalRequest):
    """The moments of a view."""

    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None


class AroundRequest(MomentRequest):
    """The width of an item's surroundings."""

    before: Steps = 3
    after: Steps = 3


class FactsRequest(PrincipalRequest):
    """An entity and a time."""

    entity: Name
    at: Annotated[str | None, _describe("the time to judge facts at; default: that of as_of, else now")] = None
    as_of: AsOf = None
    ingested_as_of: IngestedAsOf = None
    offset: Offset = 0
    limit: Annotated[int, _describe("entries to return", 100, minimum=1, maximum=MAX_LISTED)] = 100


class DecisionsRequest(PrincipalRequest):
    """A project and a moment."""

    project: Project = None
    as_of: AsOf = None
    history: History = False
    limit: Limit = 50


class HomeRequest(PrincipalRequest):
    """A project and a moment."""

    project: Project = None
    as_of: AsOf = None


class OutlineRequest(PrincipalRequest):
    """A session and a moment."""

    session: SessionId
    as_of: AsOf = None


class FeedbackRequest(PrincipalRequest):
    """Feedback on one item."""

    item: Annotated[str, Field(max_length=64, description="an item id, as recall shows it")]
    kind: Annotated[str, _describe("the item's outcome; wrong is not an access", "helpful", enum=list(KINDS))]


class HookRequest(BaseModel):
    """An event of an agent's session, from its hook."""

    model_config = ConfigDict(extra="allow")  # agents may add fields

    kind: Annotated[str, _describe("prompt, start, before or after (a tool call)", "prompt")] = ""
    prompt: Annotated[str, _describe("the user's prompt")] = ""
    tool: Annotated[Any, _describe("the tool that is called", "Bash")] = ""
    input: Annotated[Any, _describe("its arguments that name a command or a file", {"command": "make test"})] = None
    output: Annotated[Any, _describe("what it returned, of a call that is over")] = ""
    failed: Annotated[Any, _describe("whether the agent says that it failed; null: it does not say")] = None
    folders: Annotated[list[Any], _describe("the agent's folders, the likeliest first", ["/home/ana/ledgerline"])] = []
    repositories: Annotated[
        dict[str, Any],
        _describe(
            "of each folder in a repository: its top folder, and its remote or an empty text",
            {"/home/ana/ledgerline/docs": ["/home/ana/ledgerline", "github.com/ana/ledgerline"]},
        ),
    ] = {}
    session: Annotated[str, _describe("the agent's session, which is left out")] = ""
    source: Annotated[str, _describe("of a start: startup, resume, clear or compact")] = ""
    seen: Annotated[list[Any], _describe("ids of items that the session was given, which are left out")] = []
    left: Annotated[Any, _describe("tokens that may still be added to the session; null: no limit", 6000)] = None
