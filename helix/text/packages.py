"""Libraries in a text: imported, installed, upgraded or listed as dependencies, with their versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from helix.text.commands import Mention
from helix.text.gazetteer import COMMON_WORDS, HEADING_WORDS
from helix.types import Entity
from helix.util.wordlists import read_groups

_WORDS: Final = read_groups("helix.text", "packages")
PACKAGE_WORDS: Final = _WORDS["package words"]
"""A text without any of them, and without "require(", mentions no package."""
_LOCAL: Final = _WORDS["local modules"]
_NO_PACKAGES: Final = _WORDS["no packages"]

_NAME: Final = r"@?[A-Za-z][\w.-]{0,60}(?:/[\w.-]{1,60})?"
_INSTALLED: Final = re.compile(
    r"(?<![\w-])(?:pip3?|pipx|conda|mamba|npm|pnpm|yarn|bun|cargo|uv|poetry|brew|apt|apt-get|gem|go)(?: pip)? "
    r"(?:install|add|get|remove|uninstall)((?: -{1,2}[\w-]{1,30}(?:=\S{1,40})?){0,4})"
    r"(?P<names>(?: ['\"]?@?[A-Za-z][\w./@-]{0,60}(?:\[[\w,]{1,40}\])?(?:(?:[=<>~!^]="
    r"|@)[\w.^]{1,20})?['\"]?(?=[\s`,.;:)]|\Z)){1,12})"
)
# Words, and the pattern that is searched only in a text with one of them.
_IMPORTED: Final = (
    ((" import ",), re.compile(r"(?m:^|[`;])\s{0,8}from (?P<name>[A-Za-z_][\w.]{0,60}) import ")),
    (
        ("import ",),
        re.compile(
            r"(?m:^|[`;])(?:>>> )?[ \t]{0,8}import (?P<name>[A-Za-z_][\w.]{0,60})(?= as \w|[ \t]{0,4}(?:$|[\n`;#,]))"
        ),
    ),
    (
        ("No module named", "Cannot find module"),
        re.compile(r"(?:No module named|Cannot find module) ['\"](?P<name>@?[A-Za-z_][\w./-]{0,60})['\"]"),
    ),
    (
        tuple(f"{word}{quote}" for word in ("from", "import", "require(") for quote in ("'", '"', " '", ' "')),
        re.compile(r"(?<!@)(?:from|import|require\() ?['\"](?P<name>@?[a-z][\w.-]{0,60}(?:/[\w.-]{1,60})?)['\"]"),
    ),
)
_UPGRADED: Final = re.compile(
    "(?:[Bb]ump|[Uu]pgrad|[Uu]pdat|[Dd]owngrad|[Pp]in)(?:e|ed|es|ing|ned|ning|s)? (?:to "
    r")?(?P<name>[a-z][a-z0-9_-]{1,40})(?: from v?(?P<former>\d[\w.]{0,20}))? (?:to )?(?=v?\d{1,4}\.\d)"
)
_UPGRADES: Final = ("ump", "pgrad", "pdat", "owngrad", "Pin", "pin")
_INSTALLS: Final = (" install ", " add ", " get ", " remove ", " uninstall ")
_DEPENDENCIES: Final = ("ependenc", "requirements", "package.json")
_DEPENDENCY: Final = re.compile(
    rf"\b(?:[Aa]dd|[Rr]emove|[Dd]rop|[Ii]nstall|[Uu]ninstall)(?:ed|d|ing)? (?P<names>{_NAME}(?:(?:, and |, | and "
    f"){_NAME}){{0,6}}) (?:to|from|in|as) (?:an? |the |our |your )?(?:dev |runtime |new )?(?:dependenc|requirements|"
    r"devDependenc|package\.json)"
)
_ITEM: Final = re.compile(
    r"['\"]?(?P<name>@?[A-Za-z][\w.-]{0,60}(?:/[\w.-]{1,60}){0,5})(?:\[[\w,]{1,40}\])?(?:(?:[=<>~!^]="
    r"|@\^?)v?(?P<version>[\w.]{1,20}))?"
)
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
    for match in _UPGRADED.finditer(text) if any(stem in text for stem in _UPGRADES) else ():
        name = match["name"]
        version = VERSION_AFTER.match(" " + text[match.end() : match.end() + 30])
        if version and not any(name in words for words in (COMMON_WORDS, HEADING_WORDS, _NO_PACKAGES)):
            versions = [Entity("version", v, v) for v in (match["former"], version[1]) if v]
            yield match.start("name"), match.end() + version.end() - 1, (Entity("package", name, name), *versions)
    for needs, pattern in ((_INSTALLS, _INSTALLED), (_DEPENDENCIES, _DEPENDENCY)):
        for match in pattern.finditer(text) if any(word in text for word in needs) else ():
            yield from _read_list(match)


def _read_list(match: re.Match[str]) -> Iterator[Mention]:
    """Yield the packages of an install line or a list, up to the first word that is no package."""
    for item in _ITEM.finditer(match.string, *match.span("names")):
        name = item["name"].rstrip(".,").lower()
        if name == "and":
            continue
        if name in _NO_PACKAGES:
            return
        entities = [Entity("package", name, item["name"])]
        if item["version"] and item["version"][0].isdigit():
            entities.append(Entity("version", item["version"], item["version"]))
        yield item.start(), item.end(), tuple(entities)
