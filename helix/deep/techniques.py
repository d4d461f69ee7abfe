"""What a language model is asked for, and what its replies are taken for.

Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without Relevance Labels" (HyDE); Wang et al. 2023, "Query2doc";
Sun et al. 2023, "Is ChatGPT Good at Search?" (a list ordered by a language model).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from helix.deep.prompts import Messages, prompt, quoted
from helix.deep.replies import Unanswered
from helix.errors import UsageError
from helix.settings import Settings
from helix.text.tokenize import well_formed

TECHNIQUES: Final = ("rerank", "hyde", "synthesis", "query2doc")

REWRITES: Final = ("hyde", "synthesis", "query2doc")
"""Those that need the question alone: one round of requests, side by side."""

LEAST_TERMS, MOST_TERMS = 2, 5
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

_MOST_QUESTION: Final = 2_000
"""Characters of a question that a model is told: a whole log may be pasted into one."""

_MOST_CHARS: Final = 1_000
"""Of one wording: a model that goes on and on asks for nothing else by it."""

_MOST_REPLY: Final = 20_000
"""Characters of a reply, from its end, that are looked through for a list."""

_DECODER: Final = json.JSONDecoder()  # which says where a list ends: orjson wants nothing after it
_FENCE = re.compile(r"```\w*")


def chosen(settings: Settings) -> tuple[str, ...]:
    """The techniques that are switched on, as many as there may be requests.

    Raises:
        UsageError: there is none of that name, or a limit is out of its range.
    """
    for name, (low, high) in _LIMITS.items():
        if not low <= (value := getattr(settings, name)) <= high:
            raise UsageError(f"HELIX_{name.upper()} is {value:g}", f"give a number from {low} to {high}")
    named = tuple(dict.fromkeys(name.strip() for name in settings.deep_techniques.split(",") if name.strip()))
    if unknown := [name for name in named if name not in TECHNIQUES]:
        raise UsageError(f"HELIX_DEEP_TECHNIQUES names {unknown[0]!r}", f"there are {', '.join(TECHNIQUES)}")
    return named[: settings.deep_calls]


def rewriting(name: str, question: str, intent: str, today: str, phrases: Sequence[str]) -> Messages:
    """The prompt of a rewriting technique.

    Args:
        name: one of REWRITES.
        intent: what the question wants, of `helix.recipes.cems_intent`.
        today: ISO 8601.
        phrases: what users said of their own preferences; asked about in a synthesis only.
    """
    file = _VARIANTS.get(name, {}).get(intent, name)
    said = {"question": quoted(question[:_MOST_QUESTION]), "today": today, "phrases": _phrases(phrases)}
    return prompt(file, **said)


def _phrases(phrases: Sequence[str]) -> str:
    if not phrases:
        return ""
    lines = [f"<memory>{quoted(phrase)}</memory>" for phrase in phrases]
    return "\n".join(["What was said of such things before:", *lines, ""])


def wordings(name: str, question: str, reply: str) -> dict[str, str]:
    """The questions to the ordinary recall that a reply makes, by the names of their lists.

    Raises:
        Unanswered: there is none in it.
    """
    if name == "hyde":
        return {"hyde": _line(reply, name)}
    if name == "query2doc":
        return {"query2doc": f"{question}\n{_line(reply, name)}"}
    found = [said for said in _list(reply, name) if isinstance(said, str) and said.strip()]
    texts = list(dict.fromkeys(_line(said, name) for said in found))[:MOST_TERMS]
    if len(texts) < LEAST_TERMS:
        raise Unanswered(
            f"{name}: the model gives {len(texts)} queries where {LEAST_TERMS} to {MOST_TERMS} are asked for"
        )
    return {f"expansion {i}": text for i, text in enumerate(texts, 1)}


def ranking(question: str, texts: Sequence[str]) -> Messages:
    """The prompt that has memories ordered.

    Args:
        texts: of each memory, best first as it is; cut to what may be sent.
    """
    memories = "\n".join(f'<memory index="{i}">{quoted(text)}</memory>' for i, text in enumerate(texts))
    return prompt("rerank", question=quoted(question[:_MOST_QUESTION]), memories=memories)


def order_of(reply: str, n: int) -> list[int]:
    """The order a model gives n memories: those it names, then the others as they were.

    Raises:
        Unanswered: its reply is no list of indices, or names none of them.
    """
    found = _list(reply, "rerank")
    named = [int(one) for one in found if type(one) is int or (isinstance(one, str) and one.isdecimal())]
    best = [i for i in dict.fromkeys(named) if 0 <= i < n]
    if len(named) < len(found) or (found and not best):
        raise Unanswered("rerank: the model's reply is no list of indices")
    known = set(best)
    return [*best, *(i for i in range(n) if i not in known)]


def _list(reply: str, name: str) -> list[object]:
    """The JSON list in a reply: the last one, since a model that thinks aloud ends with it."""
    text = reply[-_MOST_REPLY:]
    found, at = None, text.find("[")
    while at >= 0:
        try:
            said, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found = said
        at = text.find("[", end)
    if not isinstance(found, list):
        raise Unanswered(f"{name}: the model's reply holds no JSON list")
    return found


def _line(reply: str, name: str) -> str:
    """A wording as it is asked: one line, without the quotes and fences models put around."""
    said = " ".join(_FENCE.sub(" ", well_formed(reply)).split())[:_MOST_CHARS].strip(" \"'`")
    if not any(letter.isalnum() for letter in said):
        raise Unanswered(f"{name}: the model's reply has no word in it")
    return said
