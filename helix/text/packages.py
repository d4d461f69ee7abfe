"""Libraries in a text: imported, installed, upgraded or listed as dependencies, with their versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from helix.text.commands import Mention
from helix.text.gazetteer import COMMON_WORDS, HEADING_WORDS
from helix.types import Entity
from helix.util.wordlists import fill_pattern, read_groups, read_patterns

_WORDS: Final = read_groups("helix.text", "packages")
PACKAGE_WORDS: Final = _WORDS["package words"]
"""A text without any of them, and without "require(", mentions no package."""
_LOCAL: Final = _WORDS["local modules"]
_NO_PACKAGES: Final = _WORDS["no packages"]

_PIECES, _TABLES = read_patterns("helix.text", "mentions")
_IMPORTED: Final = [(row["needs"], re.compile(fill_pattern(row["pattern"], _PIECES))) for row in _TABLES["imported"]]
_PATTERNS: Final = {name: re.compile(fill_pattern(text, _PIECES)) for name, text in _TABLES["packages"].items()}
_UPGRADES: Final = ("ump", "pgrad", "pdat", "owngrad", "Pin", "pin")
_INSTALLS: Final = (" install ", " add ", " get ", " remove ", " uninstall ")
_DEPENDENCIES: Final = ("ependenc", "requirements", "package.json")
VERSION_AFTER: Final = re.compile(r" v?(\d{1,4}(?:\.\d{1,6}){0,3})(?![\w%:/-]|\.\d|,\d)")


def find_packages(text: str) -> Iterator[Mention]:
    """Yield imported, upgraded, installed and listed libraries, with the version next to them."""
    for needs, pattern in _IMPORTED:
        for match in pattern.finditer(text) if any(word in text for word in needs) else ():
            name = match["name"].lower()
            if name.startswith(".") or name in _LOCAL or name.partition(".")[0] in sys.stdlib_module_names:
                continue
            kind = "module" if "." in name and not name.startswith("@") else "package"
            yield match.start("name"), match.end("name"), (Entity(kind, name, match["name"]),)
    for match in _PATTERNS["upgraded"].finditer(text) if any(stem in text for stem in _UPGRADES) else ():
        name = match["name"]
        version = VERSION_AFTER.match(" " + text[match.end() : match.end() + 30])
        if version and not any(name in words for words in (COMMON_WORDS, HEADING_WORDS, _NO_PACKAGES)):
            versions = [Entity("version", v, v) for v in (match["former"], version[1]) if v]
            yield match.start("name"), match.end() + version.end() - 1, (Entity("package", name, name), *versions)
    for needs, pattern in ((_INSTALLS, _PATTERNS["installed"]), (_DEPENDENCIES, _PATTERNS["dependency"])):
        for match in pattern.finditer(text) if any(word in text for word in needs) else ():
            yield from _read_list(match)


def _read_list(match: re.Match[str]) -> Iterator[Mention]:
    """Yield the packages of an install line or a list, up to the first word that is no package."""
    for item in _PATTERNS["item"].finditer(match.string, *match.span("names")):
        name = item["name"].rstrip(".,").lower()
        if name == "and":
            continue
        if name in _NO_PACKAGES:
            return
        entities = [Entity("package", name, item["name"])]
        if item["version"] and item["version"][0].isdigit():
            entities.append(Entity("version", item["version"], item["version"]))
        yield item.start(), item.end(), tuple(entities)
