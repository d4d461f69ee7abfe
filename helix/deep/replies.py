"""The replies of a language model to one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


class Unanswered(Exception):
    """The model was not asked, or gave no usable reply; the message goes into `degraded`."""


@dataclass(frozen=True, slots=True)
class Replies:
    """Everything a model replied to one question. It holds no text of a memory but what the model repeated."""

    wordings: Mapping[str, str] = field(default_factory=dict)  # by the name of their list
    order: tuple[str, ...] = ()  # keys of the items that were sent, best first
    techniques: tuple[str, ...] = ()  # that were used
    left_out: Mapping[str, str] = field(default_factory=dict)  # techniques that were not, and why
    model: str = ""  # of the chat endpoint; empty: only a rerank API was asked
    calls: int = 0
    sent: int = 0  # memories sent to the endpoint, in part or whole
    seconds: float = 0.0
    cached: bool = False
    rerank: Mapping[str, Any] = field(default_factory=dict)  # of the rerank API: model, documents, billed, ms

    def report(self) -> dict[str, Any]:
        """Return the fields that an answer shows; `rerank` only where a rerank API was asked."""
        left_out = {"order"} if self.rerank else {"order", "rerank"}
        fields = {name: value for name, value in asdict(self).items() if name not in left_out}
        return {**fields, "techniques": list(self.techniques)}


def parse_replies(fields: Mapping[str, Any]) -> Replies:
    """Read replies from JSON."""
    return Replies(**{**fields, "order": tuple(fields["order"]), "techniques": tuple(fields["techniques"])})
