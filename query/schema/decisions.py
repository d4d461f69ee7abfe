"""The answer about decisions: what holds, what it replaced, and what was rejected."""

from __future__ import annotations

from pydantic import BaseModel, Field


class AnsweredTurn(BaseModel):
    """The turn that a short one answers."""

    text: str
    by: str
    item: str


class ReplacedDecision(BaseModel):
    """An earlier value that an entry replaced."""

    value: str | None = Field(description="the object of the fact that says so")
    text: str | None = Field(description="a sentence of the item; null where only the change names it")
    since: str | None
    until: str | None
    by: str | None = Field(description="the speaker, else the role")
    item: str | None
    session: str | None
    turns: list[str]


class Decision(BaseModel):
    """An entry of one topic that holds."""

    topic: str | None = Field(description="null where only the sentence can say it")
    value: str | None = Field(description="the object of the fact that says so")
    text: str = Field(description="quoted data of the past: the sentence that set it, or a passage")
    answers: AnsweredTurn | None = Field(description="the turn before, where the item only agrees")
    since: str | None
    by: str = Field(description="the speaker, else the role")
    item: str
    session: str
    turns: list[str]
    project: str
    type: str
    certainty: float = Field(description="0 to 1")
    replaced: list[ReplacedDecision] = Field(description="newest first")


class Rejection(BaseModel):
    """A thing that was rejected."""

    what: str
    reason: str | None
    text: str = Field(description="quoted data of the past: the sentence that rejects it")
    date: str | None
    by: str
    item: str
    session: str
    turns: list[str]
    project: str
    type: str


class DecisionList(BaseModel):
    """Decisions that hold, and rejections, newest first."""

    project: str | None = Field(description="the only one; null: all")
    as_of: str | None = Field(description="the moment; null: now")
    decisions: list[Decision]
    rejected: list[Rejection]
    more: bool = Field(description="the limit leaves entries out")
    note: str | None = Field(description="why there is nothing, and a remedy")
