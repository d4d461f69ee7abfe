"""Requests and answers of the paths that write: rights, notes, deletions, and sessions that are kept out."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from helix.sdk.notes import MAX_NOTE, SCOPES, WRITERS
from helix.util.sanitise import MAX_NAME
from query.schema.requests import PrincipalRequest, Project, Type

_WORDS: Final[Any] = {"minLength": 1, "pattern": r"\S"}  # documented here, and checked by the library

NoteText = Annotated[
    str,
    Field(
        description="what to remember, in whole sentences",
        examples=["Never edit codegen.py by hand: make codegen writes it."],
        json_schema_extra={**_WORDS, "maxLength": MAX_NOTE},
    ),
]
Writer = Annotated[
    str,
    Field(
        description="who wrote it: user (a person) or agent, which weighs less", json_schema_extra={"enum": [*WRITERS]}
    ),
]
SessionName = Annotated[
    str,
    Field(
        description="a session, as recall shows it",
        examples=["c3"],
        json_schema_extra={**_WORDS, "maxLength": MAX_NAME},
    ),
]


class NoteRequest(PrincipalRequest):
    """A note to remember."""

    text: NoteText
    project: Annotated[Project, Field(description="its project; default: none")] = None
    scope: Annotated[
        str, Field(description="project, or user: for all projects", json_schema_extra={"enum": [*SCOPES]})
    ] = "project"
    type: Annotated[Type, Field(description="its type; default: found by the text")] = None
    pinned: Annotated[StrictBool, Field(description="show it at the top of every briefing")] = False
    private: Annotated[StrictBool, Field(description="only your principal may read it")] = False
    by: Writer = "agent"


class PinRequest(PrincipalRequest):
    """A pin of an item."""

    by: Writer = "agent"


class CorrectionRequest(PrincipalRequest):
    """A correction of an item."""

    text: NoteText
    by: Writer = "agent"


class ForgetRequest(PrincipalRequest):
    """A deletion of some items or of one session: a preview, and with its word the deletion."""

    items: Annotated[
        list[Annotated[str, Field(max_length=64)]],
        Field(
            default_factory=list,
            description="item ids, or places such as s1#t2; at most 50",
            examples=[["f1a3fa0659075602"]],
        ),
    ]
    session: Annotated[str | None, Field(description="a whole session, of any size", examples=["c3"])] = None
    confirm: Annotated[str, Field(max_length=64, description="the word of the preview; empty: only preview")] = ""


class KeepOutRequest(PrincipalRequest):
    """A switch of a session."""

    session: SessionName
    off: Annotated[StrictBool, Field(description="true: store nothing more that is said in it; false: store it again")]


class Rights(BaseModel):
    """The rights of the caller, and the part of the store that it sees."""

    key: bool = Field(description="whether a key was sent; without one the caller is the owner")
    principal: str | None
    projects: list[str] | None = Field(description="the visible ones; null: all")
    scopes: list[str] = Field(description="recall, feedback, remember, forget, admin: those that the caller has")


class ForgettableItem(BaseModel):
    """An item that a deletion would remove."""

    id: str
    text: str = Field(description="its first words; quoted data of the past")
    session: str
    time: str | None = Field(description="when it was said: ISO 8601, UTC")


class ForgetPreview(BaseModel):
    """The extent of a deletion. Nothing has changed."""

    forgotten: Literal[False]
    total: int = Field(description="items that it would remove")
    items: list[ForgettableItem] = Field(description="the newest 50 of them, newest first")
    confirm: str = Field(description="the word that confirms the deletion of exactly these items")


class ForgetDone(BaseModel):
    """A deletion that was carried out."""

    forgotten: Literal[True]
    receipt: dict[str, Any] = Field(description="its proof: items, documents, and each file before and after")


class SwitchedSession(BaseModel):
    """The switch of a session, as it is now."""

    session: str
    off: bool
    changed: bool = Field(description="whether this request changed it")
    message: str = Field(description="what it means, for a person")


class KeptOut(BaseModel):
    """A session or a project that is kept out of the store; an unknown part is left out."""

    model_config = ConfigDict(extra="forbid")

    session: str = ""
    project: str = ""
    folder: str = ""
    remote: str = ""
    since: str = Field(description="ISO 8601, UTC")


class KeptOutList(BaseModel):
    """Everything that is kept out of the store now, as far as the caller sees it."""

    off: list[KeptOut]
