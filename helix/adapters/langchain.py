"""A memory as a retriever of LangChain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helix.adapters import Recalls, metadata
from helix.sdk.extras import explain_missing_package

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise explain_missing_package(error) from None


class HelixRetriever(BaseRetriever):
    """Recalled items as documents, best first; their metadata are the fields of `helix.adapters.metadata`.

    >>> retriever = HelixRetriever(memory=helix.open("memory"), options={"k": 5, "project": "ledgerline"})
    >>> retriever.invoke("why did we pick sqlite")

    What `recall` raises goes through as it is. `ainvoke` and `batch` ask from threads.
    """

    memory: Recalls
    options: Mapping[str, Any] = {}
    """Of `recall`, for every question."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = self.memory.recall(query, **self.options)
        return [Document(item.text, id=item.id, metadata=metadata(item, found)) for item in found.items]
