"""The SDK over HTTP: `helix.connect(url, key)` asks a query process as `helix.open(store)` asks a store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx2

from helix import __version__
from helix.errors import AccessError, HelixError, StoreError, UsageError
from helix.types import Bundle, Item
from helix.util.urls import check_http_url

if TYPE_CHECKING:
    from types import TracebackType

    from helix.question.build import Time

SECONDS: Final = 30.0
"""For one answer."""

PROBLEM: Final = "application/problem+json"
_POLL: Final = 0.2  # seconds between two looks for what came of a job
_TRIES: Final = 2  # to connect: a server that is started anew is away for a moment


class Remote:
    """A query process, by its address. Safe to share between threads.

    Args:
        url: `http://127.0.0.1:8765`, with the path a proxy puts before ours.
        key: an API key; not needed on the query process's own machine.

    Raises:
        UsageError: the URL is none.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = SECONDS) -> None:
        check_http_url(url, "the URL of a query process", "http://127.0.0.1:8765")
        self.url = url.rstrip("/")
        headers = {"User-Agent": f"helix/{__version__}", **({"Authorization": f"Bearer {key}"} if key else {})}
        transport = httpx2.HTTPTransport(retries=_TRIES)
        self._client = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def recall(
        self,
        query: str,
        *,
        k: int = 10,
        budget: int = 2000,
        project: str | None = None,
        type: str | None = None,
        since: Time = None,
        until: Time = None,
        as_of: Time = None,
        session: str | None = None,
        speaker: str | None = None,
        current_only: bool = False,
        entities: Sequence[str] = (),
        principal: str | None = None,
        profile: str = "helix",
        rerank: str | None = None,
        rerank_top: int = 20,
        now: Time = None,
        explain: bool = False,
        why_not: str | None = None,
        tier: str = "fast",
    ) -> Bundle:
        """Answer one question; see `helix.sdk.memory.Memory.recall`. Of the tier deep it waits for the job to be done.

        Raises:
            UsageError: an argument is out of range or names what is not there.
            AccessError: the key is missing, unknown, or not for this.
            StoreError: nobody answers, or no generation is open there.
        """
        asked = {
            "query": query,
            "k": k,
            "budget": budget,
            "project": project,
            "type": type,
            "since": _said(since),
            "until": _said(until),
            "as_of": _said(as_of),
            "session": session,
            "speaker": speaker,
            "current_only": current_only,
            "entities": list(entities),
            "principal": principal,
            "profile": profile,
            "rerank": rerank,
            "rerank_top": rerank_top,
            "now": _said(now),
            "explain": explain,
            "why_not": why_not,
        }
        if tier == "fast":
            return bundle_of(_object(self._ask("POST", "/v1/recall", json=asked)))
        if tier != "deep":
            raise UsageError(f"unknown tier {tier!r}", "there is fast, deep")
        found = _object(self._ask("POST", "/v1/recall/deep", json=asked))
        while found["status"] != "done":
            time.sleep(_POLL)
            found = self._all(f"/v1/recall/deep/{quote(str(found['job']), safe='')}")
        return bundle_of(found["answer"])

    def context(
        self, query: str | None = None, *, project: str | None = None, budget: int = 1800, principal: str | None = None
    ) -> str:
        """A context as text: of a question, or of where things stand."""
        asked = {"query": query, "project": project, "budget": budget, "principal": principal}
        return self._ask("GET", "/v1/context", params=_given(asked)).text

    def item(self, identity: str, *, principal: str | None = None) -> dict[str, Any] | None:
        """One item as it is stored; None where there is none that may be seen."""
        return self._one(f"/v1/items/{quote(identity, safe='')}", principal=principal)

    def around(
        self, identity: str, *, before: int = 3, after: int = 3, principal: str | None = None
    ) -> dict[str, Any] | None:
        """An item with those before and after it in its session; None as for `item`."""
        path = f"/v1/items/{quote(identity, safe='')}/around"
        return self._one(path, before=before, after=after, principal=principal)

    def neighbours(self, identity: str, *, principal: str | None = None) -> dict[str, Any] | None:
        """What an item is connected with, as nodes and edges; None as for `item`."""
        return self._one(f"/v1/items/{quote(identity, safe='')}/graph", principal=principal)

    def session(
        self, name: str, *, offset: int = 0, limit: int = 200, principal: str | None = None
    ) -> dict[str, Any] | None:
        """A session in reading order; None where there is none that may be seen."""
        return self._one(f"/v1/sessions/{quote(name, safe='')}", offset=offset, limit=limit, principal=principal)

    def timeline(
        self,
        *,
        project: str | None = None,
        since: Time = None,
        until: Time = None,
        offset: int = 0,
        limit: int = 50,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """Sessions, newest first."""
        within = {"project": project, "since": _said(since), "until": _said(until)}
        return self._all("/v1/timeline", **within, offset=offset, limit=limit, principal=principal)

    def facts(
        self, entity: str, *, at: Time = None, offset: int = 0, limit: int = 100, principal: str | None = None
    ) -> dict[str, Any]:
        """What is stated about an entity, and from when to when each fact holds."""
        return self._all("/v1/facts", entity=entity, at=_said(at), offset=offset, limit=limit, principal=principal)

    def choices(self, *, principal: str | None = None) -> dict[str, Any]:
        """What there is to filter by."""
        return self._all("/v1/choices", principal=principal)

    def status(self) -> dict[str, Any]:
        """What is published, and which generation answers."""
        return self._all("/v1/status")

    def feedback(self, item: str, kind: str = "used", *, principal: str | None = None) -> None:
        """Say that an item was of use (`used`, `helpful`, `fetched`) or `wrong`.

        Raises:
            UsageError: no live item that may be seen has this id, or nobody knows the kind.
        """
        said = {"item": item, "kind": kind, "principal": principal}
        self._ask("POST", "/v1/feedback", json=_given(said))

    def _one(self, path: str, **given: Any) -> dict[str, Any] | None:
        answer = self._sent("GET", path, params=_given(given))
        # Of Helix, and no page of somebody else who listens there.
        absent = answer.status_code == 404 and answer.headers.get("content-type") == PROBLEM
        return None if absent else _object(_checked(answer))

    def _all(self, path: str, **given: Any) -> dict[str, Any]:
        return _object(self._ask("GET", path, params=_given(given)))

    def _ask(self, method: str, path: str, **how: Any) -> httpx2.Response:
        return _checked(self._sent(method, path, **how))

    def _sent(self, method: str, path: str, **how: Any) -> httpx2.Response:
        try:
            return self._client.request(method, path, **how)
        except httpx2.TimeoutException:
            raise StoreError(f"{self.url} does not answer in time", "ask again, or give a longer timeout") from None
        except httpx2.HTTPError as error:
            raise StoreError(f"{self.url} cannot be reached: {error}", "start 'helix serve' there") from None


def _said(time: Time) -> str | None:
    """A moment as it is sent."""
    if isinstance(time, datetime):
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).isoformat()
    return time or None


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _object(answer: httpx2.Response) -> dict[str, Any]:
    """What is answered.

    Raises:
        StoreError: it is no JSON: somebody else listens there.
    """
    try:
        found: dict[str, Any] = answer.json()
    except ValueError:
        raise StoreError(f"{answer.url} is no query process", "give the address of 'helix serve'") from None
    return found


def _checked(answer: httpx2.Response) -> httpx2.Response:
    """An answer that is none of an error.

    Raises:
        HelixError: what the problem detail says.
    """
    if answer.status_code < 400:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, LookupError, TypeError):
        detail = f"{answer.url} answers {answer.status_code} and is no query process"
    raise _error_of(answer.status_code)(detail)


def _error_of(status: int) -> type[HelixError]:
    if status in (401, 403, 429):
        return AccessError
    return UsageError if status < 500 else StoreError


def bundle_of(found: Mapping[str, Any]) -> Bundle:
    """What a recall returned, from its JSON."""
    items = tuple(Item(**{**item, "turns": tuple(item["turns"])}) for item in found["items"])
    return Bundle(
        snapshot=found["snapshot"],
        profile=found["profile"],
        skipped=found["skipped"],
        degraded=tuple(found["degraded"]),
        items=items,
        packed=tuple(items[place] for place in found["packed"]),
        context=found["context"],
        tokens=found["tokens"],
        budget=found["budget"],
        counter=found["counter"],
        ms=found["ms"],
        trace=found.get("trace"),
        deep=found.get("deep"),
    )


def connect(url: str, key: str | None = None, *, timeout: float = SECONDS) -> Remote:
    """Ask a query process; see `Remote`."""
    return Remote(url, key, timeout=timeout)
