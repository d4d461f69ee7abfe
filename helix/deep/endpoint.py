"""Client of a chat endpoint that speaks OpenAI's protocol: each prompt is sent once, all within one deadline."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import httpx2
import orjson

from helix.deep.prompts import Messages
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.util.urls import find_http_url_fault
from helix.util.version import VERSION

MAX_BYTES: Final = 1 << 20
"""Bytes of an answer."""

_GRACE: Final = 0.5  # seconds after the deadline to give requests up

_REMEDIES: Final = {
    400: ": HELIX_DEEP_OPTIONS may have to change a field for this model",
    401: ": check HELIX_DEEP_KEY",
    403: ": check HELIX_DEEP_KEY",
    404: ": check HELIX_DEEP_URL and HELIX_DEEP_MODEL",
    429: ": too many requests, or the quota is used up",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat endpoint and its model."""

    url: str  # up to /v1
    model: str
    key: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)  # of a request's body; None removes a field
    reply_tokens: int = 400


def read_endpoint(settings: Settings) -> Endpoint | None:
    """Return the endpoint the settings name; None where they name none.

    Raises:
        UsageError: the URL is invalid, no model is named, or the options are no JSON object.
    """
    if not settings.deep_url:
        return None
    url = settings.deep_url.rstrip("/").removesuffix("/chat/completions")
    if fault := find_http_url_fault(url, "HELIX_DEEP_URL", "http://127.0.0.1:11434/v1"):
        raise UsageError(*fault)
    if not settings.deep_model:
        raise UsageError("HELIX_DEEP_URL names an endpoint, but no model", "set HELIX_DEEP_MODEL")
    key = settings.deep_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("HELIX_DEEP_KEY has characters that no header may have", "set it again")
    return Endpoint(url, settings.deep_model, key, _parse_options(settings.deep_options), settings.deep_reply_tokens)


def _parse_options(text: str) -> dict[str, Any]:
    try:
        options = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        options = None
    if not isinstance(options, dict):
        raise UsageError("HELIX_DEEP_OPTIONS is no JSON object", 'give one like {"temperature": null}')
    return options


def ask(endpoint: Endpoint, prompts: Mapping[str, Messages], deadline: float) -> dict[str, str]:
    """Send all prompts at once; return the model's replies by name.

    Args:
        deadline: by `time.monotonic`; replies that are incomplete by then are given up.

    Raises:
        Unanswered: a prompt got no reply; the others are cancelled.
    """

    async def gather() -> dict[str, str]:
        async with (
            # One deadline covers everything.
            httpx2.AsyncClient(timeout=None, headers=_make_headers(endpoint), verify=_load_certificates()) as client,
            asyncio.timeout(deadline - time.monotonic()),
            asyncio.TaskGroup() as group,
        ):
            tasks = {name: group.create_task(_ask_one(client, endpoint, name, prompts[name])) for name in prompts}
        return {name: task.result() for name, task in tasks.items()}

    # In a thread: the caller may run an event loop, as a notebook does; and a name server that does not answer would
    # block a loop beyond the deadline.
    thread = ThreadPoolExecutor(1, "helix-deep")
    try:
        return thread.submit(asyncio.run, gather()).result(deadline - time.monotonic() + _GRACE)
    except TimeoutError:
        raise Unanswered(f"{', '.join(prompts)}: the endpoint does not answer in time") from None
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        thread.shutdown(wait=False)


@cache
def _load_certificates() -> ssl.SSLContext:
    """Load certificates once: it takes twenty milliseconds."""
    return httpx2.create_ssl_context()


def _make_headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"User-Agent": f"helix/{VERSION}", "Accept": "application/json", "Accept-Encoding": "identity"}
    return {**headers, **({"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {})}


async def _ask_one(client: httpx2.AsyncClient, endpoint: Endpoint, name: str, prompt: Messages) -> str:
    body = {
        "model": endpoint.model,
        "messages": list(prompt),
        "temperature": 0,
        "max_tokens": endpoint.reply_tokens,
        "stream": False,
        **endpoint.options,
    }
    body = {key: value for key, value in body.items() if value is not None}
    content = bytearray()
    try:
        async with client.stream("POST", f"{endpoint.url}/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                remedy = _REMEDIES.get(answer.status_code, "")
                raise Unanswered(f"{name}: the endpoint answers {answer.status_code}{remedy}")
            async for part in answer.aiter_raw():
                content += part
                if len(content) > MAX_BYTES:
                    raise Unanswered(f"{name}: the endpoint's answer has more than {MAX_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unanswered(f"{name}: the endpoint {_describe_fault(error)}") from None
    return parse_completion(bytes(content), name)


def _describe_fault(error: Exception) -> str:
    """Describe a connection's fault without the exception's words: they may hold the URL and its secrets."""
    if isinstance(error, httpx2.ConnectError):
        return "cannot be reached"
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "has no usable URL"
    return "broke the connection off"


def parse_completion(content: bytes, name: str) -> str:
    """Return the text of a chat completion.

    Raises:
        Unanswered: it is none, or empty.
    """
    try:
        choice = orjson.loads(content)["choices"][0]
        text = choice["message"]["content"]
    except orjson.JSONDecodeError:
        raise Unanswered(f"{name}: the endpoint's answer is no JSON") from None
    except (LookupError, TypeError):
        raise Unanswered(f"{name}: the endpoint's answer is no chat completion") from None
    if text is not None and not isinstance(text, str):
        raise Unanswered(f"{name}: the endpoint's answer is no text")
    if not (text or "").strip():
        truncated = isinstance(choice, dict) and choice.get("finish_reason") == "length"
        remedy = ": raise HELIX_DEEP_REPLY_TOKENS" if truncated else ""
        raise Unanswered(f"{name}: the model's answer is empty{remedy}")
    return str(text)
