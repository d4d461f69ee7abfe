"""Asking a chat endpoint that speaks OpenAI's protocol. One request a question, none twice, all within one deadline."""

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

from helix import __version__
from helix.deep.prompts import Messages
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.util.urls import check_http_url

MOST_BYTES: Final = 1 << 20
"""Of an answer."""

_LATE: Final = 0.5
"""Seconds after the deadline that requests have to be given up in."""

_SAID: Final = {
    400: ": see HELIX_DEEP_OPTIONS for what this model wants said otherwise",
    401: ": check HELIX_DEEP_KEY",
    403: ": check HELIX_DEEP_KEY",
    404: ": check HELIX_DEEP_URL and HELIX_DEEP_MODEL",
    429: ": it is asked too often, or what was paid for is used up",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked, and how."""

    url: str  # up to /v1
    model: str
    key: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)  # of a request's body; None takes a field out
    reply_tokens: int = 400


def endpoint_of(settings: Settings) -> Endpoint | None:
    """The endpoint the settings name; None where they name none.

    Raises:
        UsageError: its URL is none, no model is named, or the options are no JSON object.
    """
    if not settings.deep_url:
        return None
    url = settings.deep_url.rstrip("/").removesuffix("/chat/completions")
    check_http_url(url, "HELIX_DEEP_URL", "http://127.0.0.1:11434/v1")
    if not settings.deep_model:
        raise UsageError("HELIX_DEEP_URL names an endpoint, but no model", "set HELIX_DEEP_MODEL")
    key = settings.deep_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("HELIX_DEEP_KEY has characters that no header may have", "set it anew")
    return Endpoint(url, settings.deep_model, key, _options(settings.deep_options), settings.deep_reply_tokens)


def _options(said: str) -> dict[str, Any]:
    try:
        options = orjson.loads(said or "{}")
    except orjson.JSONDecodeError:
        options = None
    if not isinstance(options, dict):
        raise UsageError("HELIX_DEEP_OPTIONS is no JSON object", 'give one like {"temperature": null}')
    return options


def ask(endpoint: Endpoint, prompts: Mapping[str, Messages], deadline: float) -> dict[str, str]:
    """What the model answers each prompt, by its name; all are asked at once.

    Args:
        deadline: by `time.monotonic`; whatever is not there by then is given up, however slowly it comes.

    Raises:
        Unanswered: one of them has no answer; the others are given up at once.
    """

    async def gathered() -> dict[str, str]:
        async with (
            # There is one deadline for all of it.
            httpx2.AsyncClient(timeout=None, headers=_headers(endpoint), verify=_certificates()) as client,
            asyncio.timeout(deadline - time.monotonic()),
            asyncio.TaskGroup() as group,
        ):
            tasks = {name: group.create_task(_one(client, endpoint, name, prompts[name])) for name in prompts}
        return {name: task.result() for name, task in tasks.items()}

    # In a thread: who asks may run an event loop of their own, as a notebook does; and a name that no server resolves
    # would hold a loop up beyond the deadline.
    thread = ThreadPoolExecutor(1, "helix-deep")
    try:
        return thread.submit(asyncio.run, gathered()).result(deadline - time.monotonic() + _LATE)
    except TimeoutError:
        raise Unanswered(f"{', '.join(prompts)}: the endpoint does not answer in time") from None
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        thread.shutdown(wait=False)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes twenty milliseconds."""
    return httpx2.create_ssl_context()


def _headers(endpoint: Endpoint) -> dict[str, str]:
    said = {"User-Agent": f"helix/{__version__}", "Accept": "application/json", "Accept-Encoding": "identity"}
    return {**said, **({"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {})}


async def _one(client: httpx2.AsyncClient, endpoint: Endpoint, name: str, prompt: Messages) -> str:
    body = {
        "model": endpoint.model,
        "messages": list(prompt),
        "temperature": 0,
        "max_tokens": endpoint.reply_tokens,
        "stream": False,
        **endpoint.options,
    }
    body = {key: value for key, value in body.items() if value is not None}
    said = bytearray()
    try:
        async with client.stream("POST", f"{endpoint.url}/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                remedy = _SAID.get(answer.status_code, "")
                raise Unanswered(f"{name}: the endpoint answers {answer.status_code}{remedy}")
            async for part in answer.aiter_raw():
                said += part
                if len(said) > MOST_BYTES:
                    raise Unanswered(f"{name}: the endpoint's answer has more than {MOST_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unanswered(f"{name}: the endpoint {_broken(error)}") from None
    return content_of(bytes(said), name)


def _broken(error: Exception) -> str:
    """What happened to a connection. Not in the words of the exception, which may hold the URL and what it carries."""
    if isinstance(error, httpx2.ConnectError):
        return "cannot be reached"
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "has no usable URL"
    return "broke the connection off"


def content_of(said: bytes, name: str) -> str:
    """The text of a chat completion.

    Raises:
        Unanswered: it is none, or empty.
    """
    try:
        choice = orjson.loads(said)["choices"][0]
        text = choice["message"]["content"]
    except orjson.JSONDecodeError:
        raise Unanswered(f"{name}: the endpoint's answer is no JSON") from None
    except (LookupError, TypeError):
        raise Unanswered(f"{name}: the endpoint's answer is no chat completion") from None
    if text is not None and not isinstance(text, str):
        raise Unanswered(f"{name}: the endpoint's answer is no text")
    if not (text or "").strip():
        cut = isinstance(choice, dict) and choice.get("finish_reason") == "length"
        raise Unanswered(f"{name}: the model's answer is empty" + (": raise HELIX_DEEP_REPLY_TOKENS" if cut else ""))
    return str(text)
