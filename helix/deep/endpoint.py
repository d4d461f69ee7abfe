"""Client of a chat endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from helix.deep.post import Target, check_key, parse_options, post_all
from helix.deep.prompts import Messages
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.util.urls import find_http_url_fault

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
    key = check_key(settings.deep_key, "HELIX_DEEP_KEY")
    options = parse_options(settings.deep_options, "HELIX_DEEP_OPTIONS")
    return Endpoint(url, settings.deep_model, key, options, settings.deep_reply_tokens)


def ask(endpoint: Endpoint, prompts: Mapping[str, Messages], deadline: float) -> dict[str, str]:
    """Send all prompts at once; return the model's replies by name.

    Args:
        deadline: by `time.monotonic`; replies that are incomplete by then are given up.

    Raises:
        Unanswered: a prompt got no usable reply; the others are cancelled.
    """
    target = Target(f"{endpoint.url}/chat/completions", endpoint.key, _REMEDIES)
    bodies = {name: _make_body(endpoint, prompt) for name, prompt in prompts.items()}
    return post_all(target, bodies, parse_completion, deadline)


def _make_body(endpoint: Endpoint, prompt: Messages) -> dict[str, Any]:
    return {
        "model": endpoint.model,
        "messages": list(prompt),
        "temperature": 0,
        "max_tokens": endpoint.reply_tokens,
        "stream": False,
        **endpoint.options,
    }


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
