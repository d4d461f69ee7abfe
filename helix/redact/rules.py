"""What the rules on forms are made of: the word behind an option, the string of a pair, and a pattern as a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from helix.redact.kinds import FORM, Found, Rule
from helix.redact.values import literal, numbers, path, regex

QUOTE: Final = r"(?:\\{0,16}[\"'`]|&quot;)"
OPEN: Final = rf"{QUOTE}(?![\s,:\]}}]|$)"
"""A quote that opens: what follows is not what JSON has behind a string."""

WORD: Final = (
    r"(?:\\{0,16}\"(?P<double>(?![,:\]}])[^\"\\\s]{1,256}+)\\{0,16}\"|'(?P<single>[^'\"\\\n]{1,256}+)'"
    r"|(?P<bare>[^\s\"'`\\<>;|]{1,256}+))"
)
"""A word of a command line; the group that matches is the word without its quotes."""

STRING: Final = (
    r"(?P<slashes>\\{0,16})\"(?P<string>(?![\s,:\]}])(?>(?:[^\"\\\r\n]{1,64}+"
    r"|(?P=slashes)\\(?:(?P=slashes)[\"\\]|[^\"\\\s])){1,128}))(?P=slashes)\""
)
"""A string of JSON at any depth of escaping; the group is what stands between its quotes."""

NEWLINE: Final = r"(?:\r?\n|(?<!\\)(?:\\{1,4}r)?(?:\\{1,2}|\\{4})n)"
"""A line's end, in JSON and in JSON in a string of it, too; three backslashes are a line of a shell that goes on."""


class Row(NamedTuple):
    """Keywords, lower case, separated by `|`, and the rule to try where one stands; what it matches begins there.

    `behind`: what must follow the keyword, as a pattern over lower case.
    """

    keywords: str
    rule: Rule
    behind: str = ""


def matching(pattern: str, kind: str, check: Callable[[str], bool], rank: int = FORM, flags: int = 0) -> Rule:
    """The rule of a pattern of which the last group that matches is the secret, if `check` says so."""

    def find(text: str, at: int) -> Iterator[Found]:
        match = regex(pattern, flags).match(text, at)
        if match and check(match[match.lastindex or 0]):
            yield Found(*match.span(match.lastindex or 0), kind, rank)

    return find


def whatever(value: str) -> bool:
    """Return whether `value` is a secret where its form says it all."""
    return True


def given(value: str) -> bool:
    """Tell whether what follows an option is a password: any word, but no option, file or number of a port."""
    return len(value) > 3 and value[0] not in "$-%{" and literal(value) and not path(value) and not numbers(value)
