"""Answers of a rerank API in the styles of Cohere, Jina and Voyage, right and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

STYLES = ("cohere", "jina", "voyage")

_RESULT = {"index": 0, "relevance_score": 0.5}

RERANK_FAULTS: dict[str, Callable[[int], object]] = {
    "bare": lambda _: [_RESULT],  # a list without an object around it
    "elsewhere": lambda _: {"documents": [_RESULT]},
    "no-list": lambda _: {"results": _RESULT},
    "none-listed": lambda _: {"results": []},
    "far": lambda n: {"results": [_RESULT, {"index": n, "relevance_score": 0.1}]},
    "before": lambda _: {"data": [_RESULT, {"index": -1, "relevance_score": 0.1}]},
    "twice": lambda _: {"results": [_RESULT, {"index": 1, "relevance_score": 0.4}, _RESULT]},
    "worded": lambda _: {"results": [{"index": 0, "relevance_score": "0.5"}]},
    "word-index": lambda _: {"results": [{"index": "0", "relevance_score": 0.5}]},
    "true-index": lambda _: {"results": [{"index": True, "relevance_score": 0.5}]},
    "unscored": lambda _: {"results": [{"index": 0}]},
    "null": lambda _: {"data": [{"index": 0, "relevance_score": None}]},
    "no-number": lambda _: {"results": [{"index": 0, "relevance_score": float("nan")}]},
    "endless": lambda _: {"results": [{"index": 0, "relevance_score": float("inf")}]},
    "flat": lambda _: {"results": [0, 1]},
}
"""Answers for n documents that are no ranking of them."""


def rank_documents(body: dict[str, Any]) -> bytes:
    """Return an answer in the style that the model's name begins with; `jina-3` lists the best three documents.

    Documents with the wanted word, which follows "wanted:" in the query, come first, then from the last to the first.
    """
    documents = body["documents"]
    if fault := RERANK_FAULTS.get(body["model"]):
        return json.dumps(fault(len(documents))).encode()
    style, _, most = body["model"].partition("-")
    wanted = body["query"].rpartition("wanted:")[2].strip().lower()
    order = sorted(range(len(documents)), key=lambda i: (wanted not in documents[i].lower(), -i))
    results = [{"index": i, "relevance_score": 1 / (2 + place)} for place, i in enumerate(order)]
    results = results[: int(most or len(results))]
    if style == "voyage":
        answer = {"object": "list", "data": results, "model": body["model"], "usage": {"total_tokens": 815}}
    elif style == "jina":
        documented = [{**result, "document": {"text": documents[result["index"]]}} for result in results]
        answer = {"model": body["model"], "usage": {"total_tokens": 815}, "results": documented}
    else:
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        answer = {"id": "7", "results": results, "meta": meta}
    return json.dumps(answer).encode()
