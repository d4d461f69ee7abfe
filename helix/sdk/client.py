"""The SDK over HTTP: `helix.connect(url, key)` asks a server as `helix.open(store)` asks a store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx2

from helix.errors import AccessError, HelixError, StoreError, UsageError
from helix.sdk.recaller import Recaller
from helix.types import Bundle, Item, RecallOptions, Time
from helix.util.urls import find_http_url_fault
from helix.util.version import VERSION

if TYPE_CHECKING:
    pass


SECONDS: Final = 30.0
"""Seconds to wait for one answer."""

PROBLEM: Final = "application/problem+json"
_POLL: Final = 0.2  # seconds between two looks at a job
_ATTEMPTS: Final = 2  # to connect: a server that restarts is away for a moment
_TIMES: Final = ("since", "until", "as_of", "ingested_as_of", "now")
_SENT: Final = tuple(name for name in RecallOptions.__slots__ if name not in ("projects", "tier"))


class Remote(Recaller):
    """A server, by its address. Safe to share between threads.

    Args:
        url: `http://127.0.0.1:8765`, with a proxy's path prefix.
        key: an API key; not needed on the server's own machine.

    Raises:
        UsageError: the URL is invalid.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = SECONDS) -> None:
        name, example = "the URL of a query process", "http://127.0.0.1:8765"
        if fault := find_http_url_fault(url, name, example):
            raise UsageError(*fault)
        self.url = url.rstrip("/")
        headers = {"User-Agent": f"helix/{VERSION}", **({"Authorization": f"Bearer {key}"} if key else {})}
        transport = httpx2.HTTPTransport(retries=_ATTEMPTS)
        try:
            self._client = httpx2.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)
        except httpx2.InvalidURL:  # a host that no domain name can have, such as a superscript
            raise UsageError(f"{name} names no host", f"give one like {example}") from None

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def answer(self, query: str, options: RecallOptions) -> Bundle:
        """Answer one question; see `recall`. In the deep tier it waits until the job is done."""
        if options.tier not in ("fast", "deep"):
            raise UsageError(f"unknown tier {options.tier!r}", "there is fast, deep")
        if options.projects is not None:
            raise UsageError("a server takes the projects from the key", "leave projects out, or ask with another key")
        fields = {name: getattr(options, name) for name in _SENT}
        body = {"query": query, **fields, **{name: _format_time(fields[name]) for name in _TIMES}}
        if options.tier == "fast":
            return bundle_of(_parse_object(self._ask("POST", "/v1/recall", json=body)))
        report = _parse_object(self._ask("POST", "/v1/recall/deep", json=body))
        while report["status"] != "done":
            time.sleep(_POLL)
            report = self._get(f"/v1/recall/deep/{quote(str(report['job']), safe='')}")
        return bundle_of(report["answer"])

    def context(
        self,
        query: str | None = None,
        *,
        k: int | None = None,
        project: str | None = None,
        budget: int = 1800,
        profile: str = "helix",
        mode: str | None = None,
        look_back: float | None = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        principal: str | None = None,
    ) -> str:
        """Return a context as text: of a question, or a briefing."""
        named = {"project": project, "profile": profile, "mode": mode, "principal": principal}
        fields = {"query": query, "k": k, "budget": budget, "look_back": look_back, **named}
        fields |= _format_limits(as_of, ingested_as_of)
        return self._ask("GET", "/v1/context", params=_drop_none(fields)).text

    def item(self, identity: str, *, principal: str | None = None) -> dict[str, Any] | None:
        """Return an item as it is stored; None if no visible item has the id."""
        return self._find(f"/v1/items/{quote(identity, safe='')}", principal=principal)

    def around(
        self,
        identity: str,
        *,
        before: int = 3,
        after: int = 3,
        as_of: Time = None,
        ingested_as_of: Time = None,
        principal: str | None = None,
    ) -> dict[str, Any] | None:
        """Return an item with its neighbours in the session; None as for `item`."""
        path, limits = f"/v1/items/{quote(identity, safe='')}/around", _format_limits(as_of, ingested_as_of)
        return self._find(path, before=before, after=after, **limits, principal=principal)

    def neighbours(
        self, identity: str, *, as_of: Time = None, ingested_as_of: Time = None, principal: str | None = None
    ) -> dict[str, Any] | None:
        """Return the surroundings of an item as nodes and edges; None as for `item`."""
        path, limits = f"/v1/items/{quote(identity, safe='')}/graph", _format_limits(as_of, ingested_as_of)
        return self._find(path, **limits, principal=principal)

    def session(
        self,
        name: str,
        *,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 200,
        principal: str | None = None,
    ) -> dict[str, Any] | None:
        """Return a session in reading order; None if the caller can see none of it."""
        path, page = f"/v1/sessions/{quote(name, safe='')}", {"offset": offset, "limit": limit}
        return self._find(path, **_format_limits(as_of, ingested_as_of), **page, principal=principal)

    def timeline(
        self,
        *,
        project: str | None = None,
        since: Time = None,
        until: Time = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 50,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """List sessions, newest first."""
        within = {"project": project, "since": _format_time(since), "until": _format_time(until)}
        within |= _format_limits(as_of, ingested_as_of)
        return self._get("/v1/timeline", **within, offset=offset, limit=limit, principal=principal)

    def facts(
        self,
        entity: str,
        *,
        at: Time = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 100,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """List the facts about an entity, each with the time in which it holds."""
        fields = {"entity": entity, "at": _format_time(at), **_format_limits(as_of, ingested_as_of)}
        return self._get("/v1/facts", **fields, offset=offset, limit=limit, principal=principal)

    def decisions(
        self,
        project: str | None = None,
        *,
        as_of: Time = None,
        history: bool = False,
        limit: int = 50,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """List what holds now by topic, what it replaced, and what was rejected; see `Memory.decisions`."""
        within = {"project": project, "as_of": _format_time(as_of), "principal": principal}
        return self._get("/v1/decisions", **within, history=history, limit=limit)

    def entities(
        self,
        *,
        kind: str | None = None,
        query: str = "",
        project: str | None = None,
        as_of: Time = None,
        offset: int = 0,
        limit: int = 100,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """List people, files and other entities, the most named first; see `EntityViews.entities`."""
        within = {"project": project, "as_of": _format_time(as_of), "principal": principal}
        return self._get("/v1/entities", kind=kind, query=query, offset=offset, limit=limit, **within)

    def graph(
        self,
        *,
        kinds: Sequence[str] | str = (),
        around: str | None = None,
        project: str | None = None,
        as_of: Time = None,
        limit: int = 200,
        principal: str | None = None,
    ) -> dict[str, Any]:
        """Return the most telling entities, and which of them items name together; see `EntityViews.graph`."""
        within = {"project": project, "as_of": _format_time(as_of), "principal": principal}
        named = kinds if isinstance(kinds, str) else ",".join(kinds)
        return self._get("/v1/graph", kinds=named, around=around, limit=limit, **within)

    def subject(
        self, name: str, *, project: str | None = None, as_of: Time = None, principal: str | None = None
    ) -> dict[str, Any]:
        """Return what is known of a person, a file or a topic; see `EntityViews.subject`."""
        within = {"project": project, "as_of": _format_time(as_of), "principal": principal}
        return self._get("/v1/subject", name=name, **within)

    def choices(self, *, principal: str | None = None) -> dict[str, Any]:
        """List the values of filters."""
        return self._get("/v1/choices", principal=principal)

    def status(self) -> dict[str, Any]:
        """Return what is published, and which generation answers."""
        return self._get("/v1/status")

    def feedback(self, item: str, kind: str = "used", *, principal: str | None = None) -> None:
        """Report that an item was useful (`used`, `helpful`, `fetched`) or `wrong`.

        Raises:
            UsageError: no visible item has this id, or the kind is unknown.
        """
        fields = {"item": item, "kind": kind, "principal": principal}
        self._ask("POST", "/v1/feedback", json=_drop_none(fields))

    def _find(self, path: str, **given: Any) -> dict[str, Any] | None:
        answer = self._send("GET", path, params=_drop_none(given))
        # Another program at this address has another content type.
        absent = answer.status_code == 404 and answer.headers.get("content-type") == PROBLEM
        return None if absent else _parse_object(_check(answer))

    def _get(self, path: str, **given: Any) -> dict[str, Any]:
        return _parse_object(self._ask("GET", path, params=_drop_none(given)))

    def _ask(self, method: str, path: str, **how: Any) -> httpx2.Response:
        return _check(self._send(method, path, **how))

    def _send(self, method: str, path: str, **how: Any) -> httpx2.Response:
        try:
            return self._client.request(method, path, **how)
        except httpx2.TimeoutException:
            raise StoreError(f"{self.url} does not answer in time", "ask again, or give a longer timeout") from None
        except httpx2.HTTPError as error:
            raise StoreError(f"{self.url} cannot be reached: {error}", "start 'helix serve' there") from None


def _format_time(time: Time) -> str | None:
    """Format a moment for a request."""
    if isinstance(time, datetime):
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).isoformat()
    return time or None


def _format_limits(as_of: Time, ingested_as_of: Time) -> dict[str, str | None]:
    return {"as_of": _format_time(as_of), "ingested_as_of": _format_time(ingested_as_of)}


def _drop_none(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _parse_object(answer: httpx2.Response) -> dict[str, Any]:
    """Parse an answer.

    Raises:
        StoreError: it is no JSON; another program listens there.
    """
    try:
        fields: dict[str, Any] = answer.json()
    except ValueError:
        raise StoreError(f"{answer.url} is no query process", "give the address of 'helix serve'") from None
    return fields


def _check(answer: httpx2.Response) -> httpx2.Response:
    """Return an answer that is not an error.

    Raises:
        HelixError: the problem detail's text.
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
    """Read a recall's answer from its JSON."""
    every = [Item(**{**item, "turns": tuple(item["turns"])}) for item in (*found["items"], *found.get("beyond", ()))]
    items = tuple(every[: len(found["items"])])
    return Bundle(
        snapshot=found["snapshot"],
        profile=found["profile"],
        skipped=found["skipped"],
        degraded=tuple(found["degraded"]),
        items=items,
        packed=tuple(every[place] for place in found["packed"]),
        beyond=tuple(every[len(items) :]),
        answered=found.get("answered", 0.0),
        context=found["context"],
        tokens=found["tokens"],
        budget=found["budget"],
        counter=found["counter"],
        ms=found["ms"],
        trace=found.get("trace"),
        deep=found.get("deep"),
        notice=found.get("notice"),
        coverage=found.get("coverage"),
    )


def connect(url: str, key: str | None = None, *, timeout: float = SECONDS) -> Remote:
    """Connect to a server; see `Remote`."""
    return Remote(url, key, timeout=timeout)
