"""Plausibility of the slots of a rule: "we switched to tea" uses no tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from helix.enrich.facts.canonical import find_kind
from helix.enrich.facts.drafts import Voice
from helix.enrich.facts.rules import FactRule
from helix.enrich.facts.slots import NAMED, read_number, read_path
from helix.enrich.facts.values import is_known_tool
from helix.enrich.facts.words import AMBIGUOUS_JOBS, PATTERNS
from helix.text.gazetteer import (
    AMBIGUOUS_PLACES,
    COMMON_WORDS,
    GIVEN_NAMES,
    LONG_PLACES,
    ORGANISATIONS,
    PLACES,
)

Groups = Mapping[str, str | None]
"""Groups of a matched pattern."""

_UPGRADES: Final = re.compile(r"\b(?:upgraded|bumped|updated|downgraded|pinned)\b", re.IGNORECASE)
_DOTTED: Final = re.compile(r"v?\d+(?:\.\d+)+")
_OF_THINGS: Final = frozenset(("set_to", "version_is", "runs_on", "located_at"))
_GENERIC: Final = re.compile(
    r"\b(?:usually|commonly|normally|often|typically|generally|sometimes|always|by default|your?)\b"
)
# An assistant's "we use" explains, its "we now use" reports.
_NOW: Final = re.compile(r"\b(?:now|already|currently|instead|no longer|switched|in this (?:repo|project|codebase))\b")
# Verbs of places and habits, too.
_LOOSE: Final = re.compile(r"\b(?:moved|went(?! with| for)|changed)\b")
_RID: Final = re.compile(r"rid of|phased out|off|away")


def is_plausible(rule: FactRule, groups: Groups, objects: list[str], former: list[str], clause: str, by: Voice) -> bool:
    """Return whether `objects`, and the former objects they end, fit the relation of `rule`."""
    if not objects and not former:
        return False
    relation = rule.relation
    if relation in _OF_THINGS and _GENERIC.search(clause):
        return False
    if relation == "works_as" and groups.get("n") and "working" not in rule.needs:
        return not {object.lower().split()[-1] for object in objects} & AMBIGUOUS_JOBS
    if relation == "works_at" and "joined" in rule.needs and "joined" in clause:
        return " as " in clause or any(name.lower() in ORGANISATIONS for name in objects)
    if relation == "lives_in" and "moved" in rule.needs:
        homes = [*objects, *former]
        own = (groups.get("s") or "").lower() != "we"  # a team moves to tools and offices
        return not any(map(is_known_tool, homes)) and (own or any(map(_is_place, homes)))
    if relation == "uses":
        return _can_be_used(rule, groups, objects, former, clause, by)
    if relation in ("set_to", "version_is"):
        return _can_be_set(rule, groups, objects, former, clause, by)
    return True


def _can_be_used(rule: FactRule, groups: Groups, objects: list[str], former: list[str], clause: str, by: Voice) -> bool:
    """Return whether the objects are tools, not habits, places or examples."""
    tools = [*objects, *former]
    old = groups.get("old")
    if "ditched" in rule.needs and old:
        return bool(former and objects) and all(is_known_tool(tool) or NAMED.search(tool) for tool in former)
    if old or "switched" in rule.needs:
        if not objects or (old and not former) or any(map(_is_place, tools)):
            return False
        if _LOOSE.search(clause):
            return any(map(is_known_tool, tools))
        return by.role != "user" or PATTERNS["software"].search(clause) is not None or any(map(_has_name, tools))
    if by.role == "assistant" and not (former or _NOW.search(clause)):
        return False
    if "ditched" in rule.needs and rule.closes and not _RID.search(clause):
        return all(is_known_tool(tool) or NAMED.search(tool[1:]) for tool in objects)
    if (groups.get("s") or "").lower() == "i":
        return all(_has_name(tool) or "." in tool or "_" in tool for tool in objects)
    if groups.get("n"):
        return (groups["n"] or "").lower().split()[0] in GIVEN_NAMES and all(map(is_known_tool, objects))
    return True


def is_tool_change(tools: list[str], clause: str, *, change: bool, alone: bool, plain: bool) -> bool:
    """Return whether the objects of a choice are tools, not habits, places, dates or files.

    Args:
        change: the clause names the tool that ends, or ends one.
        plain: a thing uses the tool, which needs no name of its own: "the watcher uses polling".
        alone: one person chose, and no thing is named: "I moved to Kubernetes" may be a role.
    """
    if any(map(_is_place, tools)) or any(read_path(tool) for tool in tools):
        return False
    if alone and _LOOSE.search(clause):
        return False
    kinds = {find_kind(tool.lower()) for tool in tools}
    if len(tools) > 1 and len(kinds) == 1 and "" not in kinds:
        return True
    if _LOOSE.search(clause) and not any(is_known_tool(tool) or find_kind(tool.lower()) for tool in tools):
        return False
    if PATTERNS["software"].search(clause) is not None and change:
        return True
    return all(
        _has_name(tool) or (change and not tool.isalpha()) or (plain and tool not in COMMON_WORDS) for tool in tools
    )


def _can_be_set(rule: FactRule, groups: Groups, objects: list[str], former: list[str], clause: str, by: Voice) -> bool:
    """Return whether a setting is set or a package upgraded, not the other way round."""
    if _UPGRADES.search(clause):
        setting = PATTERNS["setting"].search((groups.get("t") or "").lower()) is not None
        dotted = any(_DOTTED.fullmatch(value) for value in objects)
        if setting == (rule.relation == "version_is") and (setting or dotted):
            return False
    if rule.relation == "set_to" and rule.slot is read_number and by.role == "assistant" and not groups.get("agent"):
        return False
    return not groups.get("old") or bool(objects and former)


def _has_name(tool: str) -> bool:
    """Return whether it is written like a name, or is a known tool."""
    return any(c.isupper() or c.isdigit() for c in tool) or is_known_tool(tool)


def _is_place(name: str) -> bool:
    low = name.lower()
    return low in PLACES or low in LONG_PLACES or low in AMBIGUOUS_PLACES
