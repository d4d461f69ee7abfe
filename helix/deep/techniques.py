"""Techniques of the deep tier: their prompts, and how their replies are parsed.

Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE); Wang et al. 2023, "Query2doc";
Sun et al. 2023, "Is ChatGPT Good at Search?" (a list ordered by a language model).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from helix.deep.prompts import Messages, fill_prompt, quote
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.text.tokenize import make_well_formed

TECHNIQUES: Final = ("rerank", "hyde", "synthesis", "query2doc")

REWRITES: Final = ("hyde", "synthesis", "query2doc")
"""Techniques that need the question alone: one round of concurrent requests."""

MIN_QUERIES, MAX_QUERIES = 2, 5
"""Queries of a synthesis."""

_LIMITS: Final = {
    "deep_calls": (1, len(TECHNIQUES)),
    "deep_seconds": (0.1, 600),
    "deep_tokens": (1_000, 1_000_000),
    "deep_reply_tokens": (16, 100_000),
    "deep_concurrent": (1, 64),
}

_VARIANTS: Final = {
    "hyde": {"temporal": "hyde_temporal", "preference": "hyde_preference"},
    "synthesis": {"temporal": "synthesis_temporal", "preference": "synthesis_preference"},
}

MAX_QUESTION: Final = 2_000
"""Characters of a question sent to a model; it may be a pasted log."""

_MAX_WORDING: Final = 1_000  # characters of one wording; models may not stop
_MAX_REPLY: Final = 20_000  # characters of a reply, from its end, in which a list is searched

_DECODER: Final = json.JSONDecoder()  # it reports where a value ends; orjson refuses trailing text
_FENCE: Final = re.compile(r"```\w*")


def choose(settings: Settings) -> tuple[str, ...]:
    """Return the techniques that are switched on, as many as `deep_calls` allows.

    Where a rerank API is the only endpoint, they are those it can do.

    Raises:
        UsageError: a technique is unknown, a limit is out of its range, or the rerank API can do none of them.
    """
    for name, (low, high) in _LIMITS.items():
        if not low <= (value := getattr(settings, name)) <= high:
            raise UsageError(f"HELIX_{name.upper()} is {value:g}", f"give a number from {low} to {high}")
    named = tuple(dict.fromkeys(name.strip() for name in settings.deep_techniques.split(",") if name.strip()))
    if unknown := [name for name in named if name not in TECHNIQUES]:
        raise UsageError(f"HELIX_DEEP_TECHNIQUES names {unknown[0]!r}", f"there are {', '.join(TECHNIQUES)}")
    if settings.rerank_url and not settings.deep_url:
        if "rerank" not in named:
            raise UsageError(
                "HELIX_DEEP_TECHNIQUES has none that a rerank API does", "add rerank, or set HELIX_DEEP_URL"
            )
        return ("rerank",)
    return named[: settings.deep_calls]


def prompt_rewrite(name: str, question: str, intent: str, today: str, phrases: Sequence[str]) -> Messages:
    """Return the prompt of a rewriting technique.

    Args:
        name: one of REWRITES.
        intent: of the question, by `helix.recipes.cems_intent`.
        today: ISO 8601.
        phrases: what users said of their own preferences, for a synthesis.
    """
    variant = _VARIANTS.get(name, {}).get(intent, name)
    fields = {"question": quote(question[:MAX_QUESTION]), "today": today, "phrases": _format_phrases(phrases)}
    return fill_prompt(variant, **fields)


def _format_phrases(phrases: Sequence[str]) -> str:
    if not phrases:
        return ""
    lines = [f"<memory>{quote(phrase)}</memory>" for phrase in phrases]
    return "\n".join(["What was said of such things before:", *lines, ""])


def parse_wordings(name: str, question: str, reply: str) -> dict[str, str]:
    """Parse a reply into other wordings of the question, by the names of their lists.

    Raises:
        Unanswered: the reply holds none.
    """
    if name == "hyde":
        return {"hyde": _parse_line(reply, name)}
    if name == "query2doc":
        return {"query2doc": f"{question}\n{_parse_line(reply, name)}"}
    queries = [query for query in _parse_list(reply, name) if isinstance(query, str) and query.strip()]
    texts = list(dict.fromkeys(_parse_line(query, name) for query in queries))[:MAX_QUERIES]
    if len(texts) < MIN_QUERIES:
        wanted = f"{MIN_QUERIES} to {MAX_QUERIES}"
        raise Unanswered(f"{name}: the model gives {len(texts)} queries where {wanted} are asked for")
    return {f"expansion {i}": text for i, text in enumerate(texts, 1)}


def prompt_ranking(question: str, texts: Sequence[str]) -> Messages:
    """Return the prompt that asks for an order of memories.

    Args:
        texts: of each memory, in its present order, cut to size.
    """
    memories = "\n".join(f'<memory index="{i}">{quote(text)}</memory>' for i, text in enumerate(texts))
    return fill_prompt("rerank", question=quote(question[:MAX_QUESTION]), memories=memories)


def parse_order(reply: str, n: int) -> list[int]:
    """Parse the order of n memories: those the reply names, then the others as they were.

    Raises:
        Unanswered: the reply is no list of indices, or names none of them.
    """
    found = _parse_list(reply, "rerank")
    named = [int(one) for one in found if type(one) is int or (isinstance(one, str) and one.isdecimal())]
    best = [i for i in dict.fromkeys(named) if 0 <= i < n]
    if len(named) < len(found) or (found and not best):
        raise Unanswered("rerank: the model's reply is no list of indices")
    known = set(best)
    return [*best, *(i for i in range(n) if i not in known)]


def _parse_list(reply: str, name: str) -> list[object]:
    """Return the last JSON list in a reply, since a model that thinks aloud ends with it."""
    text = reply[-_MAX_REPLY:]
    found, at = None, text.find("[")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found = value
        at = text.find("[", end)
    if not isinstance(found, list):
        raise Unanswered(f"{name}: the model's reply holds no JSON list")
    return found


def _parse_line(reply: str, name: str) -> str:
    """Return a wording as one line, without surrounding quotes and code fences."""
    line = " ".join(_FENCE.sub(" ", make_well_formed(reply)).split())[:_MAX_WORDING].strip(" \"'`")
    if not any(letter.isalnum() for letter in line):
        raise Unanswered(f"{name}: the model's reply has no word in it")
    return line
