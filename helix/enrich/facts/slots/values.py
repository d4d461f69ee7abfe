"""Slots of values: settings, versions, paths, hosts, and clauses left as written."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.slots.people import NO_PLACE
from helix.enrich.facts.slots.phrases import TRAILING, cut_at
from helix.enrich.facts.words import NOT_NAMES, PATTERNS, VAGUE, WORDS
from helix.text.gazetteer import PROJECTS

_VALUE_ENDS: Final = re.compile(
    r"[`\"']?(?:[.,;:!?)(]|\Z| (?:in|on|for|by|so|and|now|everywhere|again|since|to make|from|at|as)\b)"
)
_PORT: Final = re.compile(r"(?:the )?port (\d{2,5})\b", re.IGNORECASE)
_NO_HOST: Final = NO_PLACE - {"docker", "linux", "windows"}


def read_value(raw: str) -> list[str]:
    """Return the value of a setting, with its unit: "30 s", "true", "eu-west-1"."""
    match = PATTERNS["value"].match(raw)
    if not match or match[1].lower() in VAGUE or (match[1].isalpha() and not _VALUE_ENDS.match(raw, match.end())):
        return []
    return [(match[1].rstrip(".,:") + (match["unit"] or "")).strip("`\"'")]


def read_number(raw: str) -> list[str]:
    """Return a value that begins with a digit."""
    return read_value(raw) if re.match(r"[`\"']?[$€£]?-?\d", raw) else []


def read_version(raw: str) -> list[str]:
    """Return a version without its "v", and no quantity: "3.12", not "3 minutes"."""
    match = PATTERNS["version"].match(raw)
    return [match[1]] if match and not PATTERNS["unit"].match(raw, match.end()) else []


def read_path(raw: str) -> list[str]:
    """Return a path, or a file name with a known ending."""
    match = PATTERNS["path"].match(re.sub(r"\A(?:the )?(?:file|folder|directory|dir|repo root at) ", "", raw))
    if not match:
        return []
    name = match[1].rstrip(".,")
    # "and/or" and "CI/CD" are no paths.
    return [] if len(name) < 2 or re.fullmatch(r"[A-Za-z]{1,4}/[A-Za-z]{1,4}", name) else [name]


def read_host(raw: str) -> list[str]:
    """Return a machine, a platform or a port."""
    port = _PORT.match(raw)
    if port:
        return [f"port {port[1]}"]
    match = PATTERNS["host"].match(raw)
    if not match:
        return []
    name = match[1].rstrip(".,-")
    first = name.split()[0].lower()
    if first in NOT_NAMES or first in WORDS["hours"] or name.lower() in _NO_HOST:
        return []
    return [name] if first in PROJECTS or re.search(r"\d|[A-Z]|\w\.\w|\w-\w", name) else []


def read_action(raw: str) -> list[str]:
    """Return an infinitive or a clause, up to its end."""
    phrase = cut_at(PATTERNS["clause end"], raw).strip(TRAILING)
    words = phrase.lower().split()
    vague = set(words) & {"you", "your", "it", "this", "them", "these", "those"}
    if not 1 < len(words) <= 18 or vague or words[0] in VAGUE - {"not", "getting", "having"}:
        return []
    return [phrase]


def read_nothing(raw: str) -> list[str]:
    """Return no object, for an ending without one."""
    return []


def read_verbatim(raw: str) -> list[str]:
    """Return the text unchanged; `helix.enrich.facts.times` reads its date."""
    return [raw]
