"""Fields that several answers have."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

TIME_QUALITY: Final[Any] = Field(
    description="exact; derived: of a date or of the session's other turns; file: of the file's last change; or none"
)

VOICE: Final[Any] = Field(
    default="",
    description="who said it, for a person: the speaker, you, the agent's name, a role; empty for a document",
)

NOTICE: Final[Any] = Field(
    default=None, description="why there is nothing, where options of time (as_of, since …) are the reason"
)
