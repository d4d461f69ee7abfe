"""The parts of rules: spans, ranks, keywords with what must follow, and patterns that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from helix.redact.values import is_literal, is_numeric, is_path, regex


class Secret(NamedTuple):
    """A secret at [start, stop) of a text. If two overlap, the kind of lower `rank` names both."""

    start: int
    stop: int
    kind: str
    rank: int


TOKEN, FORM, ASSIGNED, NAMED = -100, 0, 1, 2
"""Ranks: lower for a more specific kind. A token has TOKEN, less one for each fixed letter."""

Rule = Callable[[str, int], Iterator[Secret]]
"""A function that yields the secrets of a text where a keyword begins."""


class Trigger(NamedTuple):
    """Keywords, lower case, separated by `|`, and the rule to try at each. A rule's pattern begins with the keyword.

    `follows`: a pattern, over lower case, of what must follow the keyword.
    """

    keywords: str
    rule: Rule
    follows: str = ""


# A word begins after no letter or digit; after a JSON escape (\n, \u003d), %3D, or a terminal's colour (ESC[1;32m).
LEFT: Final = (
    r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\\x[0-9A-Fa-f]{2})|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)|(?<=;[0-9]{3}m))"
)
GAP: Final = r"(?:[\s→]|\\+[nrt]|\d{1,6}(?=→|\t|\\+t))"
"""White space between words or lines, also escaped in JSON, and line numbers."""

QUOTE: Final = r"(?:\\{0,16}[\"'`]|&quot;)"
OPEN: Final = rf"{QUOTE}(?![\s,:\]}}]|$)"
"""An opening quote: JSON has other characters after a closing one."""

WORD: Final = (
    r"(?:\\{0,16}\"(?P<double>(?![,:\]}])[^\"\\\s]{1,256}+)\\{0,16}\"|'(?P<single>[^'\"\\\n]{1,256}+)'"
    r"|(?P<bare>[^\s\"'`\\<>;|]{1,256}+))"
)
"""A word of a command line; the group that matches is the word without quotes."""

STRING: Final = (
    r"(?P<slashes>\\{0,16})\"(?P<string>(?![\s,:\]}])(?>(?:[^\"\\\r\n]{1,64}+"
    r"|(?P=slashes)\\(?:(?P=slashes)[\"\\]|[^\"\\\s])){1,128}))(?P=slashes)\""
)
"""A JSON string at any depth of escaping; the group is its content."""

NEWLINE: Final = r"(?:\r?\n|(?<!\\)(?:\\{1,4}r)?(?:\\{1,2}|\\{4})n)"
"""A line end, also in JSON and in JSON inside JSON; three backslashes continue a shell's line."""


def make_rule(
    pattern: str,
    kind: str,
    check: Callable[[str], bool],
    rank: int = FORM,
    flags: int = 0,
    context: tuple[str, int, int] | None = None,
) -> Rule:
    """Return the rule of a pattern. Its last group that matches is the secret if `check` accepts it.

    Args:
        context: a pattern that must match somewhere near, and the characters to search before and after the keyword.
    """

    def find(text: str, at: int) -> Iterator[Secret]:
        match = regex(pattern, flags).match(text, at)
        if match is None or not check(match[match.lastindex or 0]):
            return
        if context and not regex(context[0]).search(text, max(0, at - context[1]), at + context[2]):
            return
        yield Secret(*match.span(match.lastindex or 0), kind, rank)

    return find


def accept_any(value: str) -> bool:
    """Accept any value: its form suffices."""
    return True


def is_password(value: str) -> bool:
    """Return whether the argument of an option is a password: no option, reference, file or port."""
    is_word = len(value) > 3 and value[0] not in "$-%{" and is_literal(value)
    return is_word and not is_path(value) and not is_numeric(value)
