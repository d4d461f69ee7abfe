"""A rule of facts, and its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple


class FactRule(NamedTuple):
    """One pattern of a relation.

    Groups of the pattern:

    - subject: a person `s`, `n`, `kin`, `mine`, `we`, or a thing `t`, `app` with its determiner `det`;
    - object: `o`, cut by the slot; `old`, the object that ends; `thing`, a person's responsibility;
    - `agent`: the person who made a change.
    """

    relation: str
    slot: Callable[[str], list[str]]
    confidence: float  # in [0, 1]
    needs: frozenset[str]  # a clause without any of these tokens is not searched
    pattern: str
    closes: bool = False  # ends a fact
    presupposed: bool = False  # true even in a doubtful sentence: "my sister Ana would hate that"
    negative: bool = False  # the pattern itself has the negation


_TOKEN: Final = re.compile(r"[a-zß-öø-ÿ]+|[/_#]")


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text in any case, as in `FactRule.needs`, where "#" is a digit."""
    return _TOKEN.findall(text.lower())


def make_rule(
    relation: str, slot: Callable[[str], list[str]], confidence: float, needs: str, pattern: str, **flags: bool
) -> FactRule:
    """Build a rule whose needs are the tokens of a text."""
    return FactRule(relation, slot, confidence, frozenset(split_tokens(needs)), pattern, **flags)
