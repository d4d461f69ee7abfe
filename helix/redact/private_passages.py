"""Passages that their author keeps out of every store: `<private>…</private>`, in any letter case.

A passage ends at its closing tag, within the JSON string that holds its opening tag. A tag without a closing one is a
mention, not a passage.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from helix.redact.rules import TOKEN, Secret, Trigger
from helix.redact.values import regex

_LESS, _MORE = r"(?:<|\\+u003c)", r"(?:>|\\+u003e)"  # some writers of JSON escape both
_CLOSE: Final = rf"(?i){_LESS}/private{_MORE}"
_QUOTE: Final = r"(?<!\\)(?:\\\\)*(\")"
_STRING_ENDS: Final = r"\"\s*(?:[,:}\]]|\Z|[\r\n])"
_STRING_BEGINS: Final = r"(?:[:,\[{]\s*|(?:\A|[\r\n])\s*)\Z"
_BEFORE: Final = 40  # characters before a quote that tell whether it opens a string
_ESCAPED: Final = 2_000  # escaped quotes between the opening quote of a string and a passage

RANK: Final = TOKEN - 1_000
"""Below that of any secret in a passage: all of it is one placeholder."""


def _find_passage(text: str, at: int) -> Iterator[Secret]:
    """Find a private passage from its opening tag."""
    if at > _find_last_close(text):
        return
    close = regex(_CLOSE).search(text, at)
    if close is None:
        return
    stop = close.end()
    if _is_in_string(text, at):
        for quote in regex(_QUOTE).finditer(text, at, close.start()):
            if regex(_STRING_ENDS).match(text, quote.start(1)):
                stop = quote.start(1)
                break
    yield Secret(at, stop, "private", RANK)


@lru_cache(maxsize=1)  # it holds the text
def _find_last_close(text: str) -> int:
    """Return the start of the last closing tag, −1 without any: many opening tags search for it once."""
    return max((match.start() for match in regex(_CLOSE).finditer(text)), default=-1)


def _is_in_string(text: str, at: int) -> bool:
    """Return whether a place is inside a JSON string: the quote before it that is not escaped opens one."""
    quote = at
    for _ in range(_ESCAPED):
        quote = text.rfind('"', 0, quote)
        if quote < 0:
            return False
        slashes = 0
        while slashes < quote and text[quote - slashes - 1] == "\\":
            slashes += 1
        if slashes % 2 == 0:
            return regex(_STRING_BEGINS).search(text[max(0, quote - _BEFORE) : quote]) is not None
    return True


def list_triggers() -> Iterator[Trigger]:
    """Yield the rule with its keywords."""
    yield Trigger("<private>|\\u003cprivate\\u003e", _find_passage)
