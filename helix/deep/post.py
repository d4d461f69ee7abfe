"""POST of JSON to an endpoint: each body is sent once, all within one deadline, and an answer has a maximum size."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar

import httpx2
import orjson

from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.util.version import VERSION

MAX_BYTES: Final = 1 << 20
"""Bytes of an answer."""

_GRACE: Final = 0.5  # seconds after the deadline to give requests up

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver of requests."""

    url: str
    key: str = field(default="", repr=False)  # empty: none is sent
    remedies: Mapping[int, str] = field(default_factory=dict)  # by the status of an answer


def post_all(
    target: Target, bodies: Mapping[str, Mapping[str, Any]], parse: Callable[[bytes, str], Reply], deadline: float
) -> dict[str, Reply]:
    """Send all bodies at once; return the parsed answers by name.

    Args:
        bodies: by the name of the technique; a field of None is left out.
        parse: called with an answer and its name; raises Unanswered for one that cannot be used.
        deadline: by `time.monotonic`; answers that are incomplete by then are given up.

    Raises:
        Unanswered: a body got no usable answer; the others are cancelled.
    """

    async def ask(client: httpx2.AsyncClient, name: str) -> Reply:
        return parse(await _post(client, target, name, bodies[name]), name)

    async def gather() -> dict[str, Reply]:
        async with (
            # One deadline covers everything.
            httpx2.AsyncClient(timeout=None, headers=_make_headers(target), verify=_load_certificates()) as client,
            asyncio.timeout(deadline - time.monotonic()),
            asyncio.TaskGroup() as group,
        ):
            tasks = {name: group.create_task(ask(client, name)) for name in bodies}
        return {name: task.result() for name, task in tasks.items()}

    # In a thread: the caller may run an event loop, as a notebook does; and a name server that does not answer would
    # block a loop beyond the deadline.
    thread = ThreadPoolExecutor(1, "helix-deep")
    try:
        return thread.submit(asyncio.run, gather()).result(deadline - time.monotonic() + _GRACE)
    except TimeoutError:
        raise Unanswered(f"{', '.join(bodies)}: the endpoint does not answer in time") from None
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        thread.shutdown(wait=False)


@cache
def _load_certificates() -> ssl.SSLContext:
    """Load certificates once: it takes twenty milliseconds."""
    return httpx2.create_ssl_context()


def _make_headers(target: Target) -> dict[str, str]:
    headers = {"User-Agent": f"helix/{VERSION}", "Accept": "application/json", "Accept-Encoding": "identity"}
    return {**headers, **({"Authorization": f"Bearer {target.key}"} if target.key else {})}


async def _post(client: httpx2.AsyncClient, target: Target, name: str, body: Mapping[str, Any]) -> bytes:
    fields = {key: value for key, value in body.items() if value is not None}
    content = bytearray()
    try:
        async with client.stream("POST", target.url, json=fields) as answer:
            if answer.status_code != 200:
                remedy = target.remedies.get(answer.status_code, "")
                raise Unanswered(f"{name}: the endpoint answers {answer.status_code}{remedy}")
            async for part in answer.aiter_raw():
                content += part
                if len(content) > MAX_BYTES:
                    raise Unanswered(f"{name}: the endpoint's answer has more than {MAX_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unanswered(f"{name}: the endpoint {_describe_fault(error)}") from None
    return bytes(content)


def _describe_fault(error: Exception) -> str:
    """Describe a connection's fault without the exception's words: they may hold the URL and its secrets."""
    if isinstance(error, httpx2.ConnectError):
        return "cannot be reached"
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "has no usable URL"
    return "broke the connection off"


def check_key(key: str, setting: str) -> str:
    """Return an API key without blanks around it.

    Raises:
        UsageError: it has characters that no header may have; the message does not repeat them.
    """
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{setting} has characters that no header may have", "set it again")
    return key


def parse_options(text: str, setting: str) -> dict[str, Any]:
    """Parse the further fields of a request's body. Raises UsageError if they are no JSON object."""
    try:
        options = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        options = None
    if not isinstance(options, dict):
        raise UsageError(f"{setting} is no JSON object", 'give one like {"temperature": null}')
    return options
