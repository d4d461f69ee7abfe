"""Client of a rerank API as Cohere, Jina and Voyage have it: it scores documents by how well they answer a question.

Request: `model`, `query`, `documents`. All three score every document without a `top_n` (Cohere, Jina) or `top_k`
(Voyage), so none is sent. The answer lists `index` and `relevance_score` of documents, under `results` (Cohere, Jina)
or `data` (Voyage).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeGuard

import orjson

from helix.deep.post import Target, check_key, parse_options, post_all
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.util.sanitise import sanitise_text
from helix.util.urls import find_http_url_fault

_EXAMPLE: Final = "https://api.voyageai.com/v1/rerank"

_REMEDIES: Final = {
    400: ": HELIX_RERANK_OPTIONS may have to change a field for this model",
    401: ": check HELIX_RERANK_KEY",
    403: ": check HELIX_RERANK_KEY",
    404: ": check HELIX_RERANK_URL and HELIX_RERANK_MODEL",
    422: ": HELIX_RERANK_OPTIONS may have to change a field for this model",
    429: ": too many requests, or the quota is used up",
}

_BILLED: Final = {"search_units": ("meta", "billed_units"), "total_tokens": ("usage",)}
"""Amounts that an answer may report, and the objects they are in: Cohere's; Jina's and Voyage's."""


@dataclass(frozen=True, slots=True)
class RerankEndpoint:
    """A rerank API and its model."""

    url: str  # up to /rerank
    model: str
    key: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)  # of a request's body; None removes a field


class Ranking(NamedTuple):
    """An order of documents, and its price."""

    order: Sequence[int]  # every document once, best first
    billed: Mapping[str, float]  # by unit; empty where the answer has none
    ms: float


def read_rerank_endpoint(settings: Settings) -> RerankEndpoint | None:
    """Return the rerank API the settings name; None where they name none.

    Raises:
        UsageError: the URL is invalid, no model is named, or the options are no JSON object.
    """
    if not settings.rerank_url:
        return None
    url = settings.rerank_url.rstrip("/").removesuffix("/rerank")
    if fault := find_http_url_fault(url, "HELIX_RERANK_URL", _EXAMPLE):
        raise UsageError(*fault)
    if not settings.rerank_model:
        raise UsageError("HELIX_RERANK_URL names a rerank API, but no model", "set HELIX_RERANK_MODEL")
    key = check_key(settings.rerank_key, "HELIX_RERANK_KEY")
    options = parse_options(settings.rerank_options, "HELIX_RERANK_OPTIONS")
    return RerankEndpoint(f"{url}/rerank", settings.rerank_model, key, options)


def rank_documents(endpoint: RerankEndpoint, question: str, texts: Sequence[str], deadline: float) -> Ranking:
    """Ask for an order of documents.

    Args:
        texts: in their present order, cut to size.
        deadline: by `time.monotonic`; an answer that is incomplete by then is given up.

    Raises:
        Unanswered: there is no usable answer.
    """
    began = time.monotonic()
    body = {
        "model": endpoint.model,
        "query": _clean(question),
        "documents": [_clean(text) for text in texts],
        **endpoint.options,
    }

    def parse(content: bytes, name: str) -> tuple[list[int], dict[str, float]]:
        return parse_ranking(content, name, len(texts))

    target = Target(endpoint.url, endpoint.key, _REMEDIES)
    order, billed = post_all(target, {"rerank": body}, parse, deadline)["rerank"]
    return Ranking(order, billed, round((time.monotonic() - began) * 1000, 1))


def _clean(text: str) -> str:
    """Return a text as one line without hidden characters."""
    return " ".join(sanitise_text(text).split())


def parse_ranking(content: bytes, name: str, n: int) -> tuple[list[int], dict[str, float]]:
    """Parse the order of n documents, by score, and the amounts that were billed.

    Ties keep their present order, and documents that the answer leaves out follow as they were.

    Raises:
        Unanswered: the answer is no ranking of these documents.
    """
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise Unanswered(f"{name}: the endpoint's answer is no JSON") from None
    entries = next((answer[key] for key in ("results", "data") if key in answer), None) if _is_object(answer) else None
    if not isinstance(entries, list):
        raise Unanswered(f"{name}: the endpoint's answer has no list of results")
    if not entries:
        raise Unanswered(f"{name}: the endpoint's answer lists no document")
    scores: dict[int, float] = {}
    for entry in entries:
        index, score = _parse_entry(entry, name)
        if not 0 <= index < n:
            raise Unanswered(f"{name}: the endpoint's answer lists document {index} of {n}")
        if index in scores:
            raise Unanswered(f"{name}: the endpoint's answer lists document {index} twice")
        scores[index] = score
    best = sorted(scores, key=lambda index: (-scores[index], index))
    return [*best, *(i for i in range(n) if i not in scores)], _read_billed(answer)


def _parse_entry(entry: Any, name: str) -> tuple[int, float]:
    """Return index and score of a result."""
    index, score = (entry.get(key) for key in ("index", "relevance_score")) if _is_object(entry) else (None, None)
    if type(index) is not int or not _is_number(score):
        raise Unanswered(f"{name}: the endpoint's answer has a result without an index and a relevance_score")
    return index, float(score)


def _read_billed(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the amounts that an answer reports, by unit."""
    billed = {}
    for unit, path in _BILLED.items():
        place: Any = answer
        for key in (*path, unit):
            place = place.get(key) if _is_object(place) else None
        if _is_number(place) and place >= 0:
            billed[unit] = place
    return billed


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a JSON value is a number: a finite one, since orjson refuses others."""
    return isinstance(value, int | float) and not isinstance(value, bool)
