"""Connections within bounds: none waits for its client for ever, and none that waits keeps another one out.

A query process does nothing for a connection while its client is to send or to take something, so that costs a client
nothing, either. Two rules hold for such connections, whatever they wait for:

- There is a time for it: for the head of a request, for its body, for taking the answer.
- When there are too many, of one address or in all, the one that has waited longest makes room for the new one. Who
  asks at once is answered, whoever else holds connections open.
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

from query.middleware import PROBLEM, Answer, neighbourhood

log = logging.getLogger("helix.query")

_DESCRIPTORS: Final = 8_192
"""Files that a query process may have open, where the system lets it: a burst is accepted before it is cut down."""

_LOOK: Final = 1.0  # seconds between two looks at what waits
_TELL: Final = 60.0  # seconds before it is said again that there are too many

_LENGTH: Final = re.compile(rb"\ncontent-length:[ \t]*([^\n]*?)[ \t]*\r?(?=\n([ \t]?))", re.IGNORECASE)
_END: Final = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of connections.

    Args:
        most: connections in all.
        of_one: of one address.
        receive: seconds for a head, and for a body.
        take: seconds for taking an answer.
    """

    most: int
    of_one: int
    receive: float
    take: float


class Connections:
    """The connections of one process, by address, those that have waited longest first."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._times = {"head": bounds.receive, "body": bounds.receive, "reader": bounds.take}
        self._by_address: dict[str, dict[Protocol, None]] = {}
        self._count = 0
        self._looks = False
        self._told = float("-inf")

    def enter(self, one: Protocol) -> None:
        """Take a new one in; where there is no room, another one goes, or else this one."""
        group = self._by_address.setdefault(one.address, {})
        group[one] = None
        self._count += 1
        if not self._looks:
            self._looks = True
            self._look_later(one.loop)
        if len(group) > self._bounds.of_one:
            self._make_room(group, one)
        elif self._count > self._bounds.most:
            self._make_room(max(self._by_address.values(), key=len), one)

    def leave(self, one: Protocol) -> None:
        """Forget one; that may be said twice."""
        group = self._by_address.get(one.address, {})
        if one in group:
            del group[one]
            self._count -= 1
        if not group:
            self._by_address.pop(one.address, None)

    def renew(self, one: Protocol) -> None:
        """Note that one was answered: from now on it waits for its client."""
        group = self._by_address.get(one.address, {})
        if one in group:
            del group[one]
            group[one] = None

    def _make_room(self, group: dict[Protocol, None], new: Protocol) -> None:
        waiting = next((one for one in group if one is not new and one.waits_for()), None)
        now = new.loop.time()
        if now - self._told > _TELL:
            self._told = now
            log.warning(
                "%d connections, %d of them of one address: those that wait longest are closed "
                "(HELIX_MAX_CONNECTIONS, HELIX_MAX_CONNECTIONS_OF_ADDRESS)",
                self._count,
                len(group),
            )
        if waiting is None:
            new.refuse(503, "too many connections", "ask again in a moment, or over one that is open")
        else:
            self.leave(waiting)
            waiting.transport.abort()

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(min(_LOOK, max(0.05, self._bounds.receive / 4)), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what has waited too long."""
        now = loop.time()
        for one in [one for group in self._by_address.values() for one in group]:
            waits = one.waits_for()
            if one.waited(waits, now) >= self._times.get(waits, float("inf")):
                one.give_up(waits)
        self._looks = bool(self._by_address)
        if self._looks:
            self._look_later(loop)


class Protocol(H11Protocol):
    """HTTP/1.1 over one connection, within bounds, whose refusals are problem details, too."""

    def __init__(self, kept: Connections, **given: Any) -> None:
        super().__init__(**given)
        self.conn = _Framed(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self.address = ""
        self._kept = kept
        self._seen: tuple[str, object] = ("head", None)  # what it waits for, and after which request
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See uvicorn."""
        super().connection_made(transport)
        self.address = neighbourhood(self.client[0] if self.client else "")
        self._kept.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See uvicorn."""
        self._kept.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """See uvicorn."""
        self._kept.renew(self)
        super().on_response_complete()

    def waits_for(self) -> str:
        """Return what its client has to do: send a `head` or a `body`, be a `reader` of the answer, or be `idle`.

        Empty where the client waits for us.
        """
        if self.transport.get_write_buffer_size():
            return "reader"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        if self.cycle is not None and not self.cycle.response_complete:
            return ""
        return "head" if self.cycle is None or self.conn.trailing_data[0] else "idle"

    def waited(self, what: str, now: float) -> float:
        """Seconds it has been seen to wait for this."""
        seen = (what, self.cycle)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since

    def give_up(self, what: str) -> None:
        """Close it; where its client has begun to ask, with an answer."""
        begun = what == "body" or self.conn.trailing_data[0]
        answered = what == "body" and self.cycle.response_started
        if what == "reader" or not begun or answered:
            self.transport.abort()
            return
        self.refuse(
            408, f"the {what} of the request has not come in time", "send it faster, or raise HELIX_RECEIVE_TIMEOUT"
        )
        if what == "body":  # who waits for it is told that nobody is there any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def refuse(self, status: int, what: str, remedy: str) -> None:
        """Answer in the application's place, and close."""
        body = orjson.dumps(Answer(status, what, "*", remedy).body)
        headers = [("content-type", PROBLEM), ("content-length", str(len(body))), ("connection", "close")]
        try:
            head = self.conn.send(h11.Response(status_code=status, headers=headers))
            told = (head, self.conn.send(h11.Data(data=body)), self.conn.send(h11.EndOfMessage()))
        except h11.LocalProtocolError:  # it is past that
            self.transport.abort()
            return
        self.transport.write(b"".join(part or b"" for part in told))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """See uvicorn."""
        self.refuse(400, "this is no HTTP request that could be read", "send what an HTTP client sends")


class _Framed(h11.Connection):
    """HTTP/1.1 whose bodies are of one length, said once: h11 makes one header of two that say the same."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """See h11."""
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            end = _END.search(head)
            said = _LENGTH.findall(head, 0, end.end() if end else len(head))
            if said and (len(said) > 1 or said[0][1] or not said[0][0].isdigit()):
                raise h11.RemoteProtocolError("Content-Length is not said once")
        return event


def descriptors() -> int:
    """Have as many files as may be needed, and return how many this process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else _DESCRIPTORS
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
