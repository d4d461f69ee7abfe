"""What a language model said of one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


class Unanswered(Exception):
    """A language model was not asked, or gave no answer that is of use. Says why, as `degraded` does."""


@dataclass(frozen=True, slots=True)
class Replies:
    """What a language model said of one question: all there is to be known of it, and no word of a memory's own but
    what the model took over.
    """

    wordings: Mapping[str, str] = field(default_factory=dict)  # by the name of their list
    order: tuple[str, ...] = ()  # keys of the items that were sent, the best first
    techniques: tuple[str, ...] = ()  # that were used
    left_out: Mapping[str, str] = field(default_factory=dict)  # those that were not, and why
    model: str = ""
    calls: int = 0
    sent: int = 0  # memories that left for the endpoint, phrases of some among them
    seconds: float = 0.0
    cached: bool = False

    def told(self) -> dict[str, Any]:
        """What an answer says of it."""
        told = {name: value for name, value in asdict(self).items() if name != "order"}
        return {**told, "techniques": list(self.techniques)}


def replies_of(found: Mapping[str, Any]) -> Replies:
    """From JSON."""
    return Replies(**{**found, "order": tuple(found["order"]), "techniques": tuple(found["techniques"])})
