"""Requests and answers about entities: people, files and other names."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from helix.sdk.entities.views import MAX_NAME, MAX_NODES, MAX_PAGE
from query.schema.fields import NOTICE
from query.schema.requests import AsOf, Name, Offset, PrincipalRequest, Project

_KINDS: Final = "only these kinds, with commas; default: those that say who or what"


def _limit(most: int, default: int) -> Any:
    """Describe the number of entries, which the library checks."""
    within: dict[str, Any] = {"minimum": 1, "maximum": most}
    return Field(description="entries to return", examples=[default], json_schema_extra=within)


def _text(description: str, most: int, *examples: str) -> Any:
    """Describe a text, which the library checks."""
    return Field(description=description, examples=list(examples), json_schema_extra={"maxLength": most})


class EntitiesRequest(PrincipalRequest):
    """A part of the list of entities."""

    kind: Annotated[str | None, _text("only this kind", MAX_NAME, "person", "path")] = None
    query: Annotated[str, _text("a part of the name, in any case", MAX_NAME, "pri")] = ""
    project: Project = None
    as_of: AsOf = None
    offset: Offset = 0
    limit: Annotated[int, _limit(MAX_PAGE, 100)] = 100


class GraphRequest(PrincipalRequest):
    """A part of the graph of entities."""

    kinds: Annotated[str, _text(_KINDS, MAX_NAME, "person,path")] = ""
    around: Annotated[str | None, _text("only the neighbourhood of this entity: its id or name", MAX_NAME)] = None
    project: Project = None
    as_of: AsOf = None
    limit: Annotated[int, _limit(MAX_NODES, 200)] = 200


class SubjectRequest(PrincipalRequest):
    """A name."""

    name: Name
    project: Project = None
    as_of: AsOf = None


class NamedEntity(BaseModel):
    """A person, a file or another thing that items name."""

    id: str
    name: str = Field(description="as it is written; of a file the shortest end that no other file has")
    kind: str = Field(description="person, path, project, name, …")
    items: int = Field(description="that name it, or that the person says")
    facts: int = Field(description="about it")
    first: str | None = Field(description="time of the first item; null: none has a time")
    last: str | None
    speaker: bool = Field(description="the person is a speaker")
    turns: int = Field(description="that the person says")


class EntityPage(BaseModel):
    """Entities, the most named first."""

    total: int = Field(description="all that match")
    offset: int
    kinds: dict[str, int] = Field(description="entities that match by kind, whatever the kind asked for")
    entities: list[NamedEntity]
    notice: str | None = NOTICE


class GraphNode(BaseModel):
    """An entity."""

    id: str
    label: str
    kind: str
    items: int
    group: int | None = Field(description="id of its group; null: nothing is connected with it")


class GraphEdge(BaseModel):
    """Two entities that items name together more often than by chance."""

    from_: str = Field(alias="from")
    to: str
    weight: float = Field(description="mutual information in nats, the more the stronger")
    items: int = Field(description="that name both")


class GraphGroup(BaseModel):
    """Entities that hang together."""

    id: int
    label: str = Field(description="its most named entity")
    nodes: int


class EntityGraph(BaseModel):
    """The most telling entities, and the strongest edges between them."""

    total: int = Field(description="entities that a larger limit would show")
    nodes: list[GraphNode] = Field(description="the most telling first; with `around` the closest")
    edges: list[GraphEdge] = Field(description="the strongest first")
    groups: list[GraphGroup] = Field(description="the largest first")
    notice: str | None = NOTICE


class Span(BaseModel):
    """One value, and the time in which it held."""

    value: str | None
    text: str | None = Field(description="quoted data of the past; null where only a later item names it")
    since: str | None
    until: str | None
    holds: bool
    by: str | None = Field(description="the speaker, else the role")
    item: str | None
    session: str | None
    turns: list[str]
    kind: Literal["fact", "decision", "rejected"]


class Track(BaseModel):
    """A topic: what held, one after the other."""

    topic: str = Field(description="the relation in words, or the decision's topic")
    spans: list[Span] = Field(description="in the order of time")


class RelatedEntity(BaseModel):
    """An entity that the same items name."""

    id: str
    name: str
    kind: str
    items: int


class NamingSession(BaseModel):
    """A session that names the subject."""

    session: str
    project: str
    title: str | None
    time: str | None = Field(description="of the last item that names it")
    items: int


class Subject(BaseModel):
    """A name with all that is known of it."""

    name: str
    kind: str | None = Field(description="null: no item names it as an entity")
    items: int
    first: str | None
    last: str | None
    tracks: list[Track] = Field(description="the last changed first")
    related: list[RelatedEntity] = Field(description="the closest first")
    sessions: list[NamingSession] = Field(description="the newest first")
    notice: str | None = NOTICE
