"""Answers for a page of a store: its home, and the outline of a session."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from helix.types import ACTIONS, OUTCOMES, ROLES, TYPES
from query.schema.answers import Replacement
from query.schema.decisions import Decision, Rejection
from query.schema.fields import TIME_QUALITY, VOICE


class QuotedItem(BaseModel):
    """A text of an item."""

    text: str = Field(description="quoted data of the past")
    item: str


class RecentSession(BaseModel):
    """One of the newest sessions."""

    session: str
    project: str
    title: str | None
    agent: str | None = Field(description="the agent whose log it is; null: none")
    began: str | None = Field(description="null: no turn has a time of its own")
    ended: str | None
    time_quality: str | None = TIME_QUALITY
    file_time: str | None = Field(description="of an undated session: its file's last change, at most then")
    items: int
    speakers: list[str] = Field(description="its most frequent speakers")
    first: str = Field(description="its first words")
    decided: list[QuotedItem] = Field(description="what it decided and holds, newest first, at most three")


class Rule(BaseModel):
    """A rule of a user for all later work."""

    text: str = Field(description="quoted data of the past")
    item: str
    session: str
    project: str
    since: str | None
    by: str = Field(description="the speaker, else the role")
    kind: Literal["rule", "preference", "pinned"]


class Holding(BaseModel):
    """Rules and decisions that hold, and rejections."""

    rules: list[Rule] = Field(description="pinned ones first, then the newest")
    decisions: list[Decision] = Field(description="newest first, without an agent's reports on what is")
    rejected: list[Rejection] = Field(description="newest first")
    more: bool = Field(description="GET /v1/decisions lists others")


class LeftWork(BaseModel):
    """An open end of one of the newest sessions."""

    kind: Literal["failed", "asked", "left"] = Field(
        description="a check that failed and did not pass since; a question without an answer; what is left to do"
    )
    text: str = Field(description="quoted data of the past")
    item: str
    session: str
    project: str
    time: str | None


class NewDecision(BaseModel):
    """A decision of the week that holds."""

    text: str = Field(description="quoted data of the past")
    topic: str | None
    value: str | None
    item: str
    session: str
    since: str


class ReplacedValue(BaseModel):
    """A value of the week that replaced another."""

    topic: str | None
    was: str
    now: str
    item: str
    at: str


class Week(BaseModel):
    """The seven days before the moment; if nothing was said in them, those up to the newest item."""

    since: str | None
    until: str | None
    items: int
    sessions: int
    decided: list[NewDecision]
    replaced: list[ReplacedValue]


class SuggestedQuestion(BaseModel):
    """A question with a relevant answer in the store."""

    text: str
    about: str = Field(description="the topic, error, file, person or session")
    item: str = Field(description="the item that it was made from")


class HomePage(BaseModel):
    """The newest sessions, what holds, what is open, the last week, and questions to try."""

    snapshot: int
    items: int
    sessions: int
    first: str | None
    last: str | None
    project: str | None = Field(description="the only one; null: all")
    as_of: str | None = Field(description="the moment; null: now")
    recent: list[RecentSession]
    holds: Holding
    open: list[LeftWork]
    week: Week
    questions: list[SuggestedQuestion] = Field(description="at most six; those not checked yet come with the next call")


class OutlinedTurn(BaseModel):
    """An item of a session in a line."""

    id: str
    place: int = Field(description="in the session, from 0")
    piece: int = Field(description="in its turn, from 0: a long turn is several items")
    role: str = Field(description=", ".join(ROLES))
    voice: str = VOICE
    time: str | None
    head: str = Field(description="its first words, at most 90 characters")
    type: str = Field(description=", ".join(TYPES))
    marks: list[Literal["decision", "error", "fix", "edit", "commit", "asked"]]
    edited: int = Field(description="files that it edits")


class OutlinedStep(BaseModel):
    """A tool call, or its result."""

    action: str = Field(description=", ".join(ACTIONS))
    tool: str
    target: str = Field(description="the command, file, address or pattern; at most 400 characters")
    outcome: str = Field(description=", ".join(OUTCOMES))
    exit_code: int | None
    tests: list[int] | None = Field(description="passed and failed, where the result counts them")
    error: str = Field(description="the line that tells the failure; empty for none")
    commits: list[str]
    result_of: str | None = Field(description="of a result: the item of its call")


class OutlinedFix(BaseModel):
    """A failure, and what came of it in the session."""

    failed: str = Field(description="the item that tells the failure")
    error: str
    held: bool = Field(description="the same was tried again and passed")
    changes: list[str] = Field(description="items with the changes in between")
    shown: str | None = Field(description="the item that tried it again; null: none did")
    line: str = Field(description="all this in words; empty where nothing came of it")


class EditedFile(BaseModel):
    """A file that the session edited."""

    path: str
    edits: int
    items: list[str]


class MadeCommit(BaseModel):
    """A commit that the session made."""

    commit: str = Field(description="its digest, as far as it is written")
    item: str


class TellingEntity(BaseModel):
    """An entity that sets the session apart."""

    name: str
    kind: str
    items: int = Field(description="of the session that name it")
    first: str = Field(description="the first of them")


class OutlinedDecision(BaseModel):
    """A decision of the session."""

    item: str
    text: str = Field(description="quoted data of the past")
    topic: str | None
    value: str | None
    holds: bool
    replaced_by: Replacement | None


class Outline(BaseModel):
    """A session at a glance."""

    session: str
    project: str
    title: str | None
    agent: str | None = Field(description="the agent whose log it is; null: none")
    source: str = Field(description="the file it was read from")
    began: str | None
    ended: str | None
    total: int = Field(description="items of the session")
    more: bool = Field(description="the outline leaves items out: those after the first 5,000")
    turns: list[OutlinedTurn]
    steps: dict[str, list[OutlinedStep]] = Field(description="by item")
    fixes: list[OutlinedFix]
    files: list[EditedFile] = Field(description="the most often edited first")
    commits: list[MadeCommit]
    entities: list[TellingEntity] = Field(description="the most telling first, at most 30")
    decisions: list[OutlinedDecision]
