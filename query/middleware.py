"""What every request passes before anything looks at it: is it meant for us, may it, is it small and rare enough.

- **Host** names this server: a page that a browser loaded from elsewhere, under a name that now leads here (DNS
  rebinding), does not. Addresses are always good, a name only where it was allowed.
- **Origin**, where a browser sends it, is our own; other sites get nothing, and no preflight is answered (CORS closed).
- One Host, one Authorization, one Content-Length, no Transfer-Encoding: what two readers could read in two ways is
  refused, and no header says who the client is or what else is meant.
- A key, where this server asks for one; `helix.caller` of the ASGI scope says who it is.
- Limits: bytes of a body, requests under way, seconds of a request, requests a second of a key. How long a request may
  take to come, and how many may wait, `query.connections` says.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import orjson

from helix.errors import HelixError, UsageError
from helix.text.sanitise import MOST_SAID, sanitise_name
from query.auth import OWNER, Caller, Denied, Keys

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROBLEM: Final = "application/problem+json"
MAX_BODY: Final = 256 * 1024
"""Bytes; a query is at most 10,000 characters."""

CALLER: Final = "helix.caller"
"""Of an ASGI scope: who asks."""

OPEN: Final = ("/", "/healthz", "/readyz", "/openapi.json")
"""Paths that tell nothing of what is remembered, besides what lies under PAGE."""
PAGE: Final = "/page/"

_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }.items()
)
"""Of every answer."""

_SCOPES: Final = {"/v1/feedback": "feedback", "/metrics": "admin"}
"""Whoever asks for anything else needs the scope `recall`."""

_ONCE: Final = (b"host", b"authorization", b"x-api-key", b"content-length", b"content-type", b"origin")
_GUESSES: Final = 10  # a minute and address, before its next wrong key is not looked at
_KNOWN: Final = 10_000  # keys and addresses whose requests are counted


@dataclass(frozen=True, slots=True)
class Policy:
    """How this server is reached.

    Args:
        hosts: names in Host that are good besides addresses of this machine, lower case.
        loopback: it listens on loopback only: then only loopback's addresses are its own.
        keyless: requests without a key are the owner's.
        token: what the owner's own programs on this machine come with; empty: they have none.
    """

    hosts: frozenset[str] = frozenset({"localhost"})
    loopback: bool = True
    keyless: bool = True
    token: str = field(default="", repr=False)
    rate: float = 0.0  # requests a second and key; 0: no limit
    concurrent: int = 64
    seconds: float = 30.0


class Guard:
    """ASGI middleware: answers what may not pass, with a problem detail."""

    def __init__(self, app: ASGIApp, keys: Keys, policy: Policy) -> None:
        self._app = app
        self._keys = keys
        self._policy = policy
        self._under_way = 0
        self._rates = Buckets(policy.rate, 2 * policy.rate)
        self._guesses = Buckets(_GUESSES / 60, _GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the module."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nobody here speaks anything else
        try:
            head = _head(scope)
            _meant(scope, head, self._policy)
            scope[CALLER] = self._caller(scope, head)
            body = await _whole(receive) if head.get(b"content-length", b"0") != b"0" else receive
            if body is None:
                return  # it never came, and nobody is there to be told
            if self._under_way >= self._policy.concurrent and not _is_open(scope["path"]):
                raise Denied(503, f"{self._under_way} requests are under way", "ask again in a moment", wait=1)
        except Denied as error:
            await problem_of(error, scope["path"])(scope, receive, send)
            return
        except HelixError as error:  # the keys cannot be read: then nobody is let in
            await Answer(503, error.what, scope["path"], error.remedy)(scope, receive, send)
            return
        await self._timed(scope, body, send)

    def _caller(self, scope: Scope, head: dict[bytes, bytes]) -> Caller:
        """Who asks, and that they may."""
        path, key = scope["path"], _key(head)
        if _is_open(path):
            return NOBODY
        if key is None:
            if self._policy.keyless:
                return OWNER
            raise Denied(401, "no API key", "send one as 'Authorization: Bearer hx_…'; 'helix keys create' makes one")
        if self._policy.token and hmac.compare_digest(key, self._policy.token.encode()):
            return OWNER
        try:
            caller = self._keys.caller(key.decode("latin-1"))
        except Denied:  # a right key is let in, whoever else of its address guesses
            if wait := self._guesses.take(neighbourhood((scope.get("client") or ("",))[0])):
                raise Denied(429, "too many wrong keys from this address", f"wait {wait:.0f} s", wait=wait) from None
            raise
        caller.needs(_SCOPES.get(path, "recall"))
        if wait := self._rates.take(caller.key):
            raise Denied(429, f"this key makes more than {self._policy.rate:g} requests a second", wait=wait)
        return caller

    async def _timed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, within the time there is. What goes on after it goes on unheard."""
        secret = scope["path"].startswith(("/v1/", "/mcp"))
        # Of the page a browser asks whether it is still so: its parts go together.
        headers = (*_HEADERS, (b"cache-control", b"no-store" if secret else b"no-cache"))
        answer = _Once(send, headers)
        work = asyncio.ensure_future(self._app(scope, receive, answer))
        if not _is_open(scope["path"]):  # who asks whether it lives is not told that it is busy
            self._under_way += 1
            work.add_done_callback(self._done)
        done, _ = await asyncio.wait({work}, timeout=self._policy.seconds)
        if done:
            if (error := work.exception()) is not None:
                raise error
            return
        if answer.close():
            said = f"no answer within {self._policy.seconds:g} s"
            await Answer(503, said, scope["path"], "ask for less, or raise HELIX_REQUEST_TIMEOUT", wait=1)(
                scope, receive, send
            )

    def _done(self, work: asyncio.Future[None]) -> None:
        """Also of what nobody waited for any more: it was under way until now."""
        self._under_way -= 1
        if not work.cancelled():
            work.exception()


def _is_open(path: str) -> bool:
    """Return whether a path tells nothing of what is remembered."""
    return path in OPEN or path.startswith(PAGE)


def neighbourhood(address: str) -> str:
    """Return what a client is counted by: its address, or the network of 2^64 of them that a client of IPv6 has."""
    if ":" not in address:
        return address
    found = ipaddress.IPv6Address(address.partition("%")[0])
    return str(found.ipv4_mapped or (int(found) >> 64))


NOBODY: Final = Caller("-", None, (), frozenset())
"""Who asks for nothing that is remembered."""


# ---------------------------------------------------------------- what is asked


def _head(scope: Scope) -> dict[bytes, bytes]:
    """The headers, by lower-case name.

    Raises:
        Denied: one that may come once comes twice, or the body's length is not stated in one way.
    """
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE and name in found:
            raise Denied(400, f"the header {name.decode('latin-1')} comes twice", "send it once")
        found[name] = value
    if b"transfer-encoding" in found:
        raise Denied(411, "Transfer-Encoding is not taken", "send Content-Length")
    length = found.get(b"content-length")
    if length is None and scope["method"] in ("POST", "PUT", "PATCH"):
        raise Denied(411, "the length of the body is not stated", "send Content-Length")
    if length is not None and (not length.isdigit() or int(length[:12]) > MAX_BODY):
        raise Denied(413, f"a body has at most {MAX_BODY} bytes", "ask a shorter question")
    return found


def _meant(scope: Scope, head: dict[bytes, bytes], policy: Policy) -> None:
    """Raises Denied where a request is meant for another server, or comes from another site's page."""
    host = head.get(b"host", b"").decode("latin-1").lower()
    name = _name(host)
    if not name or not _ours(name, policy):
        raise Denied(403, f"the host {name[:80]!r} is not served here", "add it with 'helix serve --allow-host'")
    origin = head.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
        raise Denied(403, "another site's page may not ask", "ask from the page this server serves, or without Origin")
    site = head.get(b"sec-fetch-site", b"none")
    followed = scope["path"] == "/" and scope["method"] == "GET" and head.get(b"sec-fetch-mode") == b"navigate"
    if site not in (b"none", b"same-origin") and not followed:
        raise Denied(403, "another site's page may not ask", "open this server's own page")


def _name(host: str) -> str:
    """The name or address in a Host header, without its port and brackets; empty where it is malformed."""
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    name, port = (name, port) if colon else (host, "")
    if (colon and not port.isdigit()) or name.startswith("[") != name.endswith("]"):
        return ""
    return name.strip("[]").rstrip(".")


def _ours(name: str, policy: Policy) -> bool:
    """Whether a name is of this server: nobody can make an address lead elsewhere."""
    if name in policy.hosts:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not policy.loopback


def _key(head: dict[bytes, bytes]) -> bytes | None:
    """The key a request comes with.

    Raises:
        Denied: it comes with two, or in a form nobody knows.
    """
    said, other = head.get(b"authorization"), head.get(b"x-api-key")
    if said is not None and other is not None:
        raise Denied(400, "a key in Authorization and one in X-API-Key", "send one of them")
    if said is None:
        return other
    kind, _, key = said.partition(b" ")
    if kind.lower() != b"bearer" or not key.strip():
        raise Denied(401, "Authorization is not of the form 'Bearer KEY'", "'helix keys create' makes a key")
    return key.strip()


async def _whole(receive: Receive) -> Receive | None:
    """`receive`, once all of the body has come, so that nothing waits for it; None where the client goes before.

    A body is no longer than its head says, and h11 holds it to that.
    """
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    come: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

    async def again() -> Message:
        return come.pop() if come else await receive()

    return again


class _Once:
    """`send`, with headers of every answer, until the answer was given by somebody else."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self._closed = False
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if not self._closed:
            if message["type"] == "http.response.start":
                self.begun = True
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await self._send(message)

    def close(self) -> bool:
        """Take the word; whether nothing was said yet."""
        self._closed = True
        return not self.begun


# ---------------------------------------------------------------- what is answered


class Answer:
    """One problem detail (RFC 9457), as an ASGI application."""

    def __init__(
        self,
        status: int,
        what: str,
        path: str,
        remedy: str = "",
        *,
        wait: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        title = HTTPStatus(status).phrase
        detail = sanitise_name(f"{what}; {remedy}" if remedy else what, MOST_SAID)
        self.body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": path}
        self.headers = {**(headers or {})}
        if wait:
            self.headers["retry-after"] = str(max(1, round(wait)))
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        body = orjson.dumps(self.body)
        headers = {"content-type": PROBLEM, "content-length": str(len(body)), **self.headers}
        raw = [*((name.encode(), value.encode("latin-1")) for name, value in headers.items()), *_HEADERS]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def problem_of(error: HelixError, path: str) -> Answer:
    """The problem detail of an error of ours."""
    if isinstance(error, Denied):
        return Answer(error.status, error.what, path, error.remedy, wait=error.wait)
    return Answer(400 if isinstance(error, UsageError) else 503, error.what, path, error.remedy)


class Buckets:
    """Token buckets by name: `burst` requests at once, and `rate` a second on.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (tokens, when)

    def take(self, name: str) -> float:
        """Take one; where there is none, seconds until there is, and nothing is taken."""
        if not self._rate:
            return 0.0
        tokens = self._now(name)
        if tokens < 1:
            return (1 - tokens) / self._rate
        self._kept[name] = tokens - 1, self._clock()
        self._kept.move_to_end(name)
        if len(self._kept) > _KNOWN:
            self._kept.popitem(last=False)
        return 0.0

    def _now(self, name: str) -> float:
        tokens, when = self._kept.get(name, (self._burst, self._clock()))
        return min(self._burst, tokens + (self._clock() - when) * self._rate)
