"""The table of rules, in order of precedence: the first rule that finds a fact gives its confidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from helix.enrich.facts.rules.people import PEOPLE
from helix.enrich.facts.rules.plans import PLANS
from helix.enrich.facts.rules.rare import ENDINGS, RARE
from helix.enrich.facts.rules.rule import FactRule
from helix.enrich.facts.rules.tastes import TASTES
from helix.enrich.facts.rules.things import SETTINGS, TOOLS

RULES: Final[tuple[FactRule, ...]] = (*PEOPLE, *TASTES, *TOOLS, *SETTINGS, *PLANS, *ENDINGS, *RARE)

TRIGGERS: Final[Mapping[str, tuple[int, ...]]] = {
    word: tuple(index for index, rule in enumerate(RULES) if word in rule.needs)
    for word in sorted({word for rule in RULES for word in rule.needs})
}
"""Word → positions of the rules that need it."""


@cache
def compile_pattern(index: int) -> re.Pattern[str]:
    """Compile the pattern of a rule on first use: all of them take half a second."""
    return re.compile(RULES[index].pattern)
