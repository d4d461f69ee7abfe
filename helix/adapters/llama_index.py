"""A memory as a retriever of LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from helix.adapters import Recalls, metadata
from helix.sdk.extras import explain_missing_package
from helix.types import Bundle, Item

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise explain_missing_package(error) from None

READ_WITH_THE_TEXT: Final = frozenset({"session", "speaker", "time"})
"""The metadata that a language model is shown, as in the context that Helix packs."""


class HelixRetriever(BaseRetriever):
    """Recalled items as nodes, best first; their metadata are the fields of `helix.adapters.metadata`.

    >>> retriever = HelixRetriever(helix.open("memory"), {"k": 5, "project": "ledgerline"})
    >>> retriever.retrieve("why did we pick sqlite")

    Args:
        memory: what is asked.
        options: of `recall`, for every question.

    What `recall` raises goes through as it is. `aretrieve` asks from a thread.
    """

    def __init__(self, memory: Recalls, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.memory = memory
        self.options = dict(options or {})

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self.memory.recall(query_bundle.query_str, **self.options)
        return [NodeWithScore(node=_node(item, found), score=item.score) for item in found.items]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(item: Item, bundle: Bundle) -> TextNode:
    known = metadata(item, bundle)
    unread = [name for name in known if name not in READ_WITH_THE_TEXT]
    return TextNode(
        id_=item.id,
        text=item.text,
        metadata=known,
        excluded_llm_metadata_keys=unread,
        excluded_embed_metadata_keys=list(known),
    )
