"""Results of the MCP tools."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from query.schema.answers import Replacement
from query.schema.fields import NOTICE


class ItemReference(BaseModel):
    """A recalled item without its text, which is in the context or comes by fetch."""

    id: str
    score: float
    relevance: float = Field(description="probability that it helps, 0 to 1")
    type: str
    session: str
    turns: list[str]
    speaker: str | None
    time: str | None
    project: str
    replaced_by: Replacement | None = Field(description="what supersedes it now; null for none")
    in_context: bool = Field(description="whether the context has it")


class RecallResult(BaseModel):
    """The result of recall."""

    context: str = Field(description="the relevant memories, ready to read, as quoted data; empty where none helps")
    answered: float = Field(description="probability that the answer helps, 0 to 1")
    items: list[ItemReference] = Field(description="every item, best first, relevant or not; fetch gives its text")
    tokens: int = Field(description="tokens of the context")
    degraded: list[str] = Field(description="each part that could not be searched")
    notice: str | None = NOTICE


class SearchHit(BaseModel):
    """One entry of a search."""

    id: str
    title: str
    url: str
    relevance: float = Field(description="probability that it helps, 0 to 1")
    text: str = Field(description="its first words")
    replaced_by: Replacement | None = Field(description="what supersedes it now; null for none")


class SearchResult(BaseModel):
    """The result of search, best first."""

    results: list[SearchHit]
    notice: str | None = NOTICE


class ItemDocument(BaseModel):
    """A whole item."""

    id: str
    title: str
    text: str = Field(description="quoted data of the past, with the requested turns around it")
    url: str
    metadata: dict[str, Any]


REFERENCE_FIELDS: Final = tuple(ItemReference.model_fields.keys() - {"in_context"})
"""Fields of a reference that a recalled item has."""


class NoteReceipt(BaseModel):
    """A note that was accepted, durably; it is found once it is published, mostly within seconds."""

    id: str = Field(description="the item's id")
    project: str | None = Field(description="its project; everywhere: for the user in all projects")
    corrects: str | None = Field(description="the item that it replaces")
    redacted: dict[str, int] = Field(description="secrets that were removed, by kind")


class ForgetAnswer(BaseModel):
    """The items that a deletion would remove, or its receipt."""

    forgotten: bool
    items: list[dict[str, str]] = Field(default=[], description="id and first words of what would go")
    confirm: str = Field(default="", description="the word that confirms it")
    receipt: dict[str, Any] | None = Field(default=None, description="the proof of the deletion")
