"""How much a question of many turns bears on, as an answer says it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Coverage(BaseModel):
    """How much a question of many turns bears on."""

    extent: Literal["order", "count", "comparison", "summary", "list", "about"]
    turns: int = Field(description="turns that it bears on")
    sessions: int = Field(description="their sessions")
    shown: int = Field(description="items of them in the context")
