"""A memory as the retriever of a framework.

Each adapter needs the extra that its error names:

>>> from helix.adapters.langchain import HelixRetriever  # helix-recall[langchain]
>>> from helix.adapters.llama_index import HelixRetriever  # helix-recall[llamaindex]
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from helix.types import Bundle, Item


@runtime_checkable
class Recalls(Protocol):
    """A memory, wherever it is: what `helix.open` or `helix.connect` gives."""

    def recall(self, query: str, *args: Any, **options: Any) -> Bundle:
        """Answer one question; the options are those of `helix.Memory.recall`."""


def metadata(item: Item, bundle: Bundle) -> dict[str, Any]:
    """Return the fields of a recalled item as JSON types; `degraded` lists what its recall lacked."""
    return {
        "id": item.id,
        "score": item.score,
        "relevance": item.relevance,
        "answered": bundle.answered,
        "type": item.type,
        "session": item.session,
        "turns": list(item.turns),
        "speaker": item.speaker,
        "time": item.time,
        "project": item.project,
        "source": item.source,
        "why": dict(item.why),
        "replaced_by": item.replaced_by and dict(item.replaced_by),
        "degraded": list(bundle.degraded),
    }
