"""Bounds on connections, so that clients that never finish cannot keep others out.

A query process spends nothing on a connection that waits for its client, so such connections cost the client nothing
either. Two rules bound them:

- Each wait has a time limit: for the head of a request, for its body, for reading the answer.
- Beyond the maximum, per address or in all, the connection that has waited longest is closed for a new one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
from dataclasses import dataclass
from typing import Any, Final

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from query.middleware import PROBLEM, ProblemResponse, group_address

log = logging.getLogger("helix.query")

_FILES: Final = 8_192
"""Open files of a query process, where the system allows it: a burst is accepted before it is cut down."""

_INTERVAL: Final = 1.0  # seconds between two checks of waiting connections
_WARN_INTERVAL: Final = 60.0  # seconds between two warnings about too many connections

_LENGTH: Final = re.compile(rb"\ncontent-length:[ \t]*([^\n]*?)[ \t]*\r?(?=\n([ \t]?))", re.IGNORECASE)
_END: Final = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of connections, in counts and seconds."""

    most: int  # connections in all
    of_one: int  # connections of one address
    receive: float  # for a head, and for a body
    take: float  # for reading an answer


class Connections:
    """The connections of one process by address, the longest waiting first."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._limits = {"head": bounds.receive, "body": bounds.receive, "reader": bounds.take}
        self._by_address: dict[str, dict[Protocol, None]] = {}
        self._count = 0
        self._is_scheduled = False
        self._warned = float("-inf")

    def add(self, new: Protocol) -> None:
        """Add a connection; without room, close another one or refuse this one."""
        group = self._by_address.setdefault(new.address, {})
        group[new] = None
        self._count += 1
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule_check(new.loop)
        if len(group) > self._bounds.of_one:
            self._make_room(group, new)
        elif self._count > self._bounds.most:
            self._make_room(max(self._by_address.values(), key=len), new)

    def remove(self, one: Protocol) -> None:
        """Remove a connection, if it is still there."""
        group = self._by_address.get(one.address, {})
        if one in group:
            del group[one]
            self._count -= 1
        if not group:
            self._by_address.pop(one.address, None)

    def renew(self, one: Protocol) -> None:
        """Move an answered connection to the end: it now starts to wait for its client."""
        group = self._by_address.get(one.address, {})
        if one in group:
            del group[one]
            group[one] = None

    def _make_room(self, group: dict[Protocol, None], new: Protocol) -> None:
        waiting = next((one for one in group if one is not new and one.find_wait()), None)
        now = new.loop.time()
        if now - self._warned > _WARN_INTERVAL:
            self._warned = now
            log.warning(
                "%d connections, %d of them of one address: those that wait longest are closed "
                "(HELIX_MAX_CONNECTIONS, HELIX_MAX_CONNECTIONS_OF_ADDRESS)",
                self._count,
                len(group),
            )
        if waiting is None:
            new.refuse(503, "too many connections", "ask again in a moment, or over one that is open")
        else:
            self.remove(waiting)
            waiting.transport.abort()

    def _schedule_check(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(min(_INTERVAL, max(0.05, self._bounds.receive / 4)), self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the connections that have waited too long."""
        now = loop.time()
        for one in [one for group in self._by_address.values() for one in group]:
            wait = one.find_wait()
            if one.measure_wait(wait, now) >= self._limits.get(wait, float("inf")):
                one.give_up(wait)
        self._is_scheduled = bool(self._by_address)
        if self._is_scheduled:
            self._schedule_check(loop)


class Protocol(H11Protocol):
    """HTTP/1.1 over one bounded connection, with problem details for its own refusals."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.conn = _StrictConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self.address = ""
        self._connections = connections
        self._wait: tuple[str, object] = ("head", None)  # the current wait, and the request before it
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = group_address(self.client[0] if self.client else "")
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._connections.renew(self)
        super().on_response_complete()

    def find_wait(self) -> str:
        """Return what the client owes: `head`, `body`, `reader` (read the answer) or `idle`; empty: nothing."""
        if self.transport.get_write_buffer_size():
            return "reader"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.cycle is not None and not self.cycle.response_complete:
            return ""
        return "head" if self.cycle is None or self.conn.trailing_data[0] else "idle"

    def measure_wait(self, wait: str, now: float) -> float:
        """Return the seconds since this wait was first seen."""
        current = (wait, self.cycle)
        if current != self._wait:
            self._wait, self._since = current, now
        return now - self._since

    def give_up(self, wait: str) -> None:
        """Close the connection, with an answer if a request has begun."""
        has_begun = wait == "body" or self.conn.trailing_data[0]
        is_answered = wait == "body" and self.cycle.response_started
        if wait == "reader" or not has_begun or is_answered:
            self.transport.abort()
            return
        remedy = "send it faster, or raise HELIX_RECEIVE_TIMEOUT"
        self.refuse(408, f"the {wait} of the request has not come in time", remedy)
        if wait == "body":  # wake the application, which waits for the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def refuse(self, status: int, text: str, remedy: str) -> None:
        """Answer with a problem detail instead of the application, and close."""
        body = orjson.dumps(ProblemResponse(status, text, "*", remedy).body)
        headers = [("content-type", PROBLEM), ("content-length", str(len(body))), ("connection", "close")]
        try:
            head = self.conn.send(h11.Response(status_code=status, headers=headers))
            parts = (head, self.conn.send(h11.Data(data=body)), self.conn.send(h11.EndOfMessage()))
        except h11.LocalProtocolError:  # the answer has begun already
            self.transport.abort()
            return
        self.transport.write(b"".join(part or b"" for part in parts))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "the request is not readable HTTP", "send what an HTTP client sends")


class _StrictConnection(h11.Connection):
    """An h11 connection that refuses a repeated Content-Length; h11 alone merges two equal ones."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            end = _END.search(head)
            lengths = _LENGTH.findall(head, 0, end.end() if end else len(head))
            if lengths and (len(lengths) > 1 or lengths[0][1] or not lengths[0][0].isdigit()):
                raise h11.RemoteProtocolError("Content-Length is repeated or malformed")
        return event


def raise_file_limit() -> int:
    """Raise the limit of open files to _FILES where possible; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else _FILES
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
