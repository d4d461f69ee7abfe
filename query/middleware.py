"""Checks on every request, before the application sees it, and the problem detail of each refusal.

- **Host** names this server: a page from elsewhere, under a name that now leads here (DNS rebinding), is refused. An
  address is always accepted, a name only when allowed.
- **Origin**, which browsers send, is this server's own; no preflight is answered (CORS closed).
- One Host, one Authorization, one Content-Length, no Transfer-Encoding: two readers must not read one request in two
  ways. No header names the client or another target.
- **Key**, where this server requires one; `helix.caller` of the ASGI scope holds its caller.
- **Limits**: bytes of a body, running requests, seconds of a request, requests a second and key. `query.connections`
  limits how long a request may take to arrive, and how many may wait.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import orjson

from helix.errors import HelixError, UsageError
from helix.snapshot.store_names import STORE_NAME
from helix.util.sanitise import MAX_MESSAGE, sanitise_name
from query.auth import OWNER, AccessDenied, Caller, KeyRing, make_unknown_store
from query.rates import TokenBuckets

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from query.store_gate import StoreGate

PROBLEM: Final = "application/problem+json"
MAX_BODY: Final = 256 * 1024
"""Bytes; a query has at most 10,000 characters."""

CALLER: Final = "helix.caller"
"""Key of the ASGI scope for the `Caller`."""

OPEN: Final = ("/", "/healthz", "/readyz", "/openapi.json")
"""Paths that reveal nothing of the store; so do the paths under PAGE."""
PAGE: Final = "/page/"

STORES: Final = "/stores/"
"""Before the name of a store, on a server of many; the rest of the path is that of a server of one."""

_HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }.items()
)
"""Headers of every answer."""

_SCOPES: Final = {"/v1/feedback": "feedback", "/metrics": "admin", "/v1/rights": "", "/v1/kept-out": "forget"}
"""The scope that a path needs, empty for none; every other path needs `recall`."""
_POST_SCOPES: Final = {"/v1/notes": "remember", "/v1/forget": "forget", "/v1/sessions/keep-out": "forget"}
"""The scope of a POST: a GET of such a path may be of a session."""
_NOTED: Final = re.compile(r"/v1/items/[^/]+/(?:pin|correct)")
"""Paths of items whose POST writes a note."""

_SECONDS: Final = {"/v1/forget": 660.0}
"""Seconds for a path whose answer may not be lost: the receipt of a deletion, which takes as long as it takes."""

_ONCE: Final = (b"host", b"authorization", b"x-api-key", b"content-length", b"content-type", b"origin")
_MAX_WRONG_KEYS: Final = 10  # a minute and address; the next wrong key is not checked

NOBODY: Final = Caller("-", None, (), frozenset())
"""The caller of open paths, without any right."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How clients may reach this server.

    Args:
        hosts: lower-case names accepted in Host, in addition to this machine's addresses.
        loopback: the server listens on loopback only, so only loopback addresses are its own.
        keyless: requests without a key are the owner's.
        token: the key of the owner's own programs on this machine; empty: they have none.
    """

    hosts: frozenset[str] = frozenset({"localhost"})
    loopback: bool = True
    keyless: bool = True
    token: str = field(default="", repr=False)
    rate: float = 0.0  # requests a second and key; 0: no limit
    concurrent: int = 64
    seconds: float = 30.0
    processes: int = 1  # that share a rate
    fetched: bool = False  # another process fetches the stores
    many: bool = False  # the server of many stores: a path may begin with /stores/NAME


class Guard:
    """ASGI middleware that refuses requests with a problem detail.

    Args:
        gate: the limits of each store, on a server of many.
    """

    def __init__(self, app: ASGIApp, keys: KeyRing, policy: Policy, gate: StoreGate | None = None) -> None:
        self._app = app
        self._keys = keys
        self._policy = policy
        self._gate = gate
        self._running = 0
        self._rates = TokenBuckets(policy.rate, 2 * policy.rate)
        self._wrong_keys = TokenBuckets(_MAX_WRONG_KEYS / 60, _MAX_WRONG_KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then run the application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # this server speaks only HTTP
        try:
            headers = _read_headers(scope)
            _check_target(scope, headers, self._policy)
            store = _take_store(scope) if self._policy.many else None
            scope[CALLER] = self._identify(scope, headers, store)
            body = await _receive_body(receive) if headers.get(b"content-length", b"0") != b"0" else receive
            if body is None:
                return  # the client is gone
            if self._running >= self._policy.concurrent and not _is_open(scope["path"]):
                raise AccessDenied(503, f"{self._running} requests are under way", "ask again in a moment", wait=1)
            if self._gate and store:
                await self._gate.enter(store)
        except AccessDenied as error:
            await describe_error(error, scope["path"])(scope, receive, send)
            return
        except HelixError as error:  # the keys are unreadable, or a store cannot be fetched
            await ProblemResponse(503, error.what, scope["path"], error.remedy)(scope, receive, send)
            return
        try:
            await self._run_application(scope, body, send)
        finally:
            if self._gate and store:
                self._gate.leave(store)

    def _identify(self, scope: Scope, headers: dict[bytes, bytes], store: str | None) -> Caller:
        """Return the caller, once its key, scope and rate are checked."""
        path, key = scope["path"], _read_key(headers)
        if _is_open(path):
            return NOBODY
        if key is None:
            if self._policy.keyless:
                return OWNER if store is None else OWNER.enter(store)
            raise AccessDenied(401, "no API key", "send 'Authorization: Bearer hx_…'; 'helix keys create' makes one")
        if self._policy.token and hmac.compare_digest(key, self._policy.token.encode()):
            return OWNER if store is None else OWNER.enter(store)
        try:
            caller = self._keys.identify(key.decode("latin-1"))
        except AccessDenied:  # wrong keys of an address never keep its right ones out
            if wait := self._wrong_keys.take(group_address((scope.get("client") or ("",))[0])):
                text = "too many wrong keys from this address"
                raise AccessDenied(429, text, f"wait {wait:.0f} s", wait=wait) from None
            raise
        caller = caller if store is None else caller.enter(store)
        if needed := find_scope(scope["method"], path):
            caller.check_scope(needed)
        if path == "/metrics" and caller.grants is not None:
            raise AccessDenied(403, "the metrics are of every store", "use a key that opens all of them")
        if wait := self._rates.take(caller.key):
            raise AccessDenied(429, f"this key makes more than {self._policy.rate:g} requests a second", wait=wait)
        return caller

    async def _run_application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application within the time limit; a late answer is dropped."""
        is_private = scope["path"].startswith(("/v1/", "/mcp"))
        # no-cache: a browser checks the page's files again, so that they are of one version.
        headers = (*_HEADERS, (b"cache-control", b"no-store" if is_private else b"no-cache"))
        answer = _ClosableSend(send, headers)
        work = asyncio.ensure_future(self._app(scope, receive, answer))
        if not _is_open(scope["path"]):  # a health check is answered, however busy the server is
            self._running += 1
            work.add_done_callback(self._count_end)
        seconds = max(self._policy.seconds, _SECONDS.get(scope["path"], 0.0))
        done, _ = await asyncio.wait({work}, timeout=seconds)
        if done:
            if (error := work.exception()) is not None:
                raise error
            return
        if answer.close():
            text = f"no answer within {seconds:g} s"
            remedy = "ask for less, or raise HELIX_REQUEST_TIMEOUT"
            await ProblemResponse(503, text, scope["path"], remedy, wait=1)(scope, receive, send)

    def _count_end(self, work: asyncio.Future[None]) -> None:
        """Count the end of a request, a timed-out one included: it ran until now."""
        self._running -= 1
        if not work.cancelled():
            work.exception()


def find_scope(method: str, path: str) -> str:
    """Return the scope that a request needs; empty: any key will do."""
    if method == "POST" and path in _POST_SCOPES:
        return _POST_SCOPES[path]
    if method == "POST" and _NOTED.fullmatch(path):
        return "remember"
    return _SCOPES.get(path, "recall")


def _is_open(path: str) -> bool:
    """Return whether a path reveals nothing of the store."""
    return path in OPEN or path.startswith(PAGE)


def group_address(address: str) -> str:
    """Return the group that a client is counted in: its IPv4 address, or its IPv6 network of 64 bits."""
    if ":" not in address:
        return address
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or (int(parsed) >> 64))


def _take_store(scope: Scope) -> str | None:
    """Take /stores/NAME off the path; return the name, None without one. Raise AccessDenied for no name of a store."""
    if not scope["path"].startswith(STORES):
        return None
    path: str = scope["path"]
    store, _, rest = path.removeprefix(STORES).partition("/")
    if not STORE_NAME.fullmatch(store):
        raise make_unknown_store()
    scope["path"] = f"/{rest}"
    scope["raw_path"] = quote(scope["path"]).encode()
    return store


def _read_headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by lower-case name. Raise AccessDenied for an ambiguous or oversized request."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE and name in headers:
            raise AccessDenied(400, f"the header {name.decode('latin-1')} comes twice", "send it once")
        headers[name] = value
    if b"transfer-encoding" in headers:
        raise AccessDenied(411, "Transfer-Encoding is not accepted", "send Content-Length")
    length = headers.get(b"content-length")
    if length is None and scope["method"] in ("POST", "PUT", "PATCH"):
        raise AccessDenied(411, "the length of the body is not stated", "send Content-Length")
    if length is not None and (not length.isdigit() or int(length[:12]) > MAX_BODY):
        raise AccessDenied(413, f"a body has at most {MAX_BODY} bytes", "ask a shorter question")
    return headers


def _check_target(scope: Scope, headers: dict[bytes, bytes], policy: Policy) -> None:
    """Raise AccessDenied for a request to another server, or from another site's page."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name = _parse_host(host)
    if not name or not is_own_name(name, policy):
        raise AccessDenied(403, f"the host {name[:80]!r} is not served here", "add it with 'helix serve --allow-host'")
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
        remedy = "ask from the page this server serves, or without Origin"
        raise AccessDenied(403, "another site's page may not ask", remedy)
    site = headers.get(b"sec-fetch-site", b"none")
    is_link = scope["path"] == "/" and scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
    if site not in (b"none", b"same-origin") and not is_link:
        raise AccessDenied(403, "another site's page may not ask", "open this server's own page")


def _parse_host(host: str) -> str:
    """Return the name or address of a Host header, without port and brackets; empty if it is malformed."""
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    name, port = (name, port) if colon else (host, "")
    if (colon and not port.isdigit()) or name.startswith("[") != name.endswith("]"):
        return ""
    return name.strip("[]").rstrip(".")


def is_own_name(name: str, policy: Policy) -> bool:
    """Return whether a Host name is this server's: an address cannot be made to lead elsewhere."""
    if name in policy.hosts:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not policy.loopback


def _read_key(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the API key of a request. Raise AccessDenied for two keys, or one in an unknown form."""
    authorization, key = headers.get(b"authorization"), headers.get(b"x-api-key")
    if authorization is not None and key is not None:
        raise AccessDenied(400, "a key in Authorization and one in X-API-Key", "send one of them")
    if authorization is None:
        return key
    kind, _, key = authorization.partition(b" ")
    if kind.lower() != b"bearer" or not key.strip():
        raise AccessDenied(401, "Authorization is not of the form 'Bearer KEY'", "'helix keys create' makes a key")
    return key.strip()


async def _receive_body(receive: Receive) -> Receive | None:
    """Return a `receive` that gives the whole body at once; None if the client leaves first.

    h11 holds a body to the length that its head states.
    """
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    messages: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

    async def receive_whole() -> Message:
        return messages.pop() if messages else await receive()

    return receive_whole


class _ClosableSend:
    """A `send` that adds headers to the answer, and drops messages once closed."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self._is_closed = False
        self._has_begun = False

    async def __call__(self, message: Message) -> None:
        if not self._is_closed:
            if message["type"] == "http.response.start":
                self._has_begun = True
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await self._send(message)

    def close(self) -> bool:
        """Drop all later messages; return whether the answer had not begun."""
        self._is_closed = True
        return not self._has_begun


class ProblemResponse:
    """A problem detail (RFC 9457), as an ASGI application."""

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
        detail = sanitise_name(f"{what}; {remedy}" if remedy else what, MAX_MESSAGE)
        self.body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": path}
        self.headers = {**(headers or {})}
        if wait:
            self.headers["retry-after"] = str(max(1, round(wait)))
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = orjson.dumps(self.body)
        headers = {"content-type": PROBLEM, "content-length": str(len(body)), **self.headers}
        raw = [*((name.encode(), value.encode("latin-1")) for name, value in headers.items()), *_HEADERS]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def describe_error(error: HelixError, path: str) -> ProblemResponse:
    """Return the problem detail of an error."""
    if isinstance(error, AccessDenied):
        return ProblemResponse(error.status, error.what, path, error.remedy, wait=error.wait)
    return ProblemResponse(400 if isinstance(error, UsageError) else 503, error.what, path, error.remedy)
