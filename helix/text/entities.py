"""Entities of a text, found by shape, by lists and by context: people, places, software, paths, errors, dates."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from helix.text.commands import PLAIN_PROGRAMS, Mention, find_commands
from helix.text.dates import find_moments
from helix.text.gazetteer import COMMON_WORDS, KIN, PROJECTS
from helix.text.languages import CAPITALISED, ENGLISH
from helix.text.name_cues import starts_sentence
from helix.text.name_parts import KNOWN
from helix.text.names import read_name
from helix.text.packages import PACKAGE_WORDS, VERSION_AFTER, find_packages
from helix.text.shapes import MAX_MENTION, MENTION, read_shape
from helix.types import Entity

MAX_ENTITIES: Final = 64
"""Entities of one text: the first ones. A longer list is a listing, and would make a hub of the graph."""

EVERGREEN: Final = frozenset({"person", "place", "relationship"})
"""Kinds of entities that do not age."""

MAX_CHARS: Final = 16_000
"""Characters of a text that are searched; items are far shorter."""

_KIN: Final = "|".join(sorted(KIN, key=len, reverse=True))
_OWNED: Final = re.compile(
    r"(?<!\w)(?:(?P<own>[Mm]y|[Oo]ur)|(?P<owner>[A-ZÀ-Þ][\w-]{1,30}(?: [A-ZÀ-Þ][\w-]{1,30})?)['’]s) "
    r"(?:(?:older|younger|little|big|elder|eldest|youngest|baby|twin|late|dear|lovely|new|old|sweet|poor|own|ex) ){0,2}"
    rf"(?P<kin>{_KIN})(?:['’]s)?(?![\w-])"
)
_SIBLING: Final = re.compile(
    r"(?<![\w.:/$€£-])(?P<version>\d{1,3}\.\d{1,5})(?![\w%:/-]|\.\d| ?(?:s|ms|seconds|percent|x|GB|MB|times|million)\b)"
)
_SYSTEM: Final = re.compile(r"(?<!\w)(?:Windows|Android|iOS|macOS|Ubuntu) \d{1,2}(?:\.\d{1,2})?(?!\w)")
_LOWER_WORD: Final = re.compile(r"(?<![\w.@/$-])(?<!``)[a-z][a-z0-9]{1,30}(?:[.+#-][a-z0-9+#]{1,20}){0,3}")
_HEADINGS: Final = re.compile(r"(?m:^)[ \t>+\d→-]{0,12}#{1,6} [^\n]{1,200}|\*\*[^*\n]{1,100}\*\*")
_TECHNICAL: Final = frozenset(
    ["path", "identifier", "error", "command", "module", "package", "pin", "commit", "version"]
)


def find_entities(
    text: str, speaker: str | None = None, at: datetime | None = None, language: str = ENGLISH
) -> list[Entity]:
    """Return the entities of `text`, each (kind, key) once, in order of first appearance, at most `MAX_ENTITIES`.

    Keys are lower-cased and normalised:

    - a path without `./`, `a/`, `b/` and line number, with forward slashes; a URL as host and path;
    - an identifier without `()`, a version without `v`, a commit as its first seven digits;
    - a command as program and subcommand, a date in ISO 8601, a relationship as "sister of melanie".

    A single capitalised word at the start of a sentence counts only when it is no common English word. In another
    language only known names count, and what is found by its shape or in its lists of dates.

    Args:
        text: only the first `MAX_CHARS` characters are searched.
        speaker: the first entity, as a person.
        at: time of the text, from which dates count. Without it only dates with a year are found.
        language: of the text.
    """
    distinct: dict[tuple[str, str], Entity] = {}
    own = ""
    if speaker is not None and speaker.strip():
        name = " ".join(speaker.split())[:MAX_MENTION]
        own = name.lower()
        distinct["person", own] = Entity("person", own, name)
    for _, _, entities in _drop_overlaps(_find_mentions(text[:MAX_CHARS], own, at, language)):
        for entity in entities:
            if entity.key != own:  # speakers who name themselves
                distinct.setdefault((entity.kind, entity.key), entity)
        if len(distinct) >= MAX_ENTITIES:
            break
    return list(distinct.values())[:MAX_ENTITIES]


def _find_mentions(text: str, own: str, at: datetime | None, language: str) -> Iterator[list[Mention]]:
    """Yield mentions in passes. Where two overlap, the earlier pass wins."""
    words = frozenset(_LOWER_WORD.findall(text))
    code = "`" in text or "$ " in text or "❯" in text or "&& " in text
    if code or words & PLAIN_PROGRAMS:
        yield list(find_commands(text))
    if not words.isdisjoint(PACKAGE_WORDS) or "require(" in text:
        yield list(find_packages(text))
    shaped: list[Mention] = []
    listed: list[Mention] = []
    names: list[re.Match[str]] = []
    technical = False
    for match in MENTION.finditer(text):
        if match.lastgroup in ("name", "plain"):
            names.append(match)
        elif match.lastgroup and (entities := read_shape(match)):
            technical = technical or match.lastgroup in _TECHNICAL
            if entities[0].kind == "project":
                listed.extend(_add_version(text, match.start(), match.end(), entities[0]))
            else:
                shaped.append((match.start(), match.end(), entities))
    yield shaped
    yield listed
    yield [(*moment.where, (Entity("date", moment.key, moment.text),)) for moment in find_moments(text, at, language)]
    is_english = language == ENGLISH
    if is_english and not words.isdisjoint(KIN):
        yield list(_find_relationships(text, own))
    if "Windows " in text or "OS " in text or "Android " in text or "Ubuntu " in text:
        yield [(m.start(), m.end(), (Entity("project", m.group().lower(), m.group()),)) for m in _SYSTEM.finditer(text)]
    projects = _find_names(text, names, talk=bool(own) and not technical and not code and is_english)
    if not is_english:
        projects = [mention for mention in projects if _is_foreign_name(text, mention, language)]
    if not words.isdisjoint(PROJECTS):
        for match in _LOWER_WORD.finditer(text):
            if match.group() in PROJECTS:
                entity = Entity("project", match.group(), match.group())
                projects += _add_version(text, match.start(), match.end(), entity)
    yield projects
    known = [entity for mentions in (shaped, listed, projects) for *_, entities in mentions for entity in entities]
    yield list(_find_sibling_versions(text, known))


def _drop_overlaps(passes: Iterator[list[Mention]]) -> list[Mention]:
    """Return the mentions of all passes in order of appearance, without those that overlap one of an earlier pass."""
    free: list[Mention] = []
    for mentions in passes:
        new: list[Mention] = []
        for mention in mentions:
            start, end = mention[:2]
            place = bisect_left(free, (end,))
            if place == 0 or free[place - 1][1] <= start:
                new.append(mention)
        free = sorted(free + new, key=lambda mention: mention[:2])
    return free


def _find_names(text: str, matches: list[re.Match[str]], *, talk: bool) -> list[Mention]:
    """Return the entities of capitalised names, with the versions after them."""
    headings = [match.span() for match in _HEADINGS.finditer(text)] if "#" in text or "**" in text else []
    mentions: list[Mention] = []
    for match in matches:
        place = bisect_left(headings, (match.start(), len(text)))
        heading = place > 0 and headings[place - 1][1] > match.start()
        if entity := read_name(text, match.start(), match.group()[:MAX_MENTION], talk=talk, heading=heading):
            mentions += _add_version(text, match.start(), match.end(), entity)
    return mentions


def _is_foreign_name(text: str, mention: Mention, language: str) -> bool:
    """Return whether a capitalised run of another language is a name: a known one, a longer one, or inside a sentence.

    The lists of common words are English, and German capitalises every noun.
    """
    key = mention[2][0].key
    return key in KNOWN or " " in key or (language not in CAPITALISED and not starts_sentence(text, mention[0]))


def _add_version(text: str, start: int, end: int, entity: Entity) -> list[Mention]:
    """Return a project and the version after it: "DuckDB 1.0.0"."""
    mention: Mention = (start, end, (entity,))
    after = VERSION_AFTER.match(text, end) if entity.kind in ("project", "name") else None
    if after is None or ("." not in after[1] and (entity.kind == "name" or int(after[1]) > 99)):
        return [mention]
    return [mention, (after.start(1), after.end(), (Entity("version", after[1], after[1]),))]


def _find_sibling_versions(text: str, known: list[Entity]) -> Iterator[Mention]:
    """Yield bare numbers that share the major number of a known version: "from 3.11.4 to 3.12"."""
    majors = {entity.key.partition(".")[0] for entity in known if entity.kind == "version" and "." in entity.key}
    for match in _SIBLING.finditer(text) if majors else ():
        if match["version"].partition(".")[0] in majors:
            yield match.start(), match.end(), (Entity("version", match["version"], match.group()),)


def _find_relationships(text: str, own: str) -> Iterator[Mention]:
    """Yield relatives with an owner: the speaker for "my sister", Ana for "Ana's husband"."""
    for match in _OWNED.finditer(text):
        owner = own if match["own"] else match["owner"].lower()
        if owner and not (match["owner"] and (owner in COMMON_WORDS or owner in KIN)):
            key = f"{KIN[match['kin']]} of {owner}"
            yield match.start("kin"), match.end("kin"), (Entity("relationship", key, match.group()),)
