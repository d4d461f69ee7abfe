"""Names of one session made consistent: each person once, under the fullest name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from helix.text.gazetteer import GIVEN_NAMES, NICKNAMES
from helix.text.names import NAME_KINDS
from helix.types import Entity

_LONGEST_GIVEN_NAME: Final = 20
_MAX_FITTING: Final = 8
"""Full names; a short form that fits more of them means none."""


def join_names(mentions: Sequence[Sequence[Entity]], speakers: Sequence[str | None]) -> list[list[Entity]]:
    """Make the names of one session consistent, with both the fullest form and the form used.

    "Mel" becomes Melanie where Melanie speaks, "Priya" and "Sharma" the one Priya Sharma. A `name` that is a person,
    place, organisation or project elsewhere in the session becomes that. A short form of two people stays as it is. The
    short form is retained next to the full one, since another session may know only that.

    Args:
        mentions: the entities of each item.
        speakers: the speaker of each item; as long as `mentions`.

    Returns:
        As many lists, each (kind, key) once in each.
    """
    spoken = {name.lower(): name for name in (" ".join(s.split()) for s in speakers if s) if name}
    kinds: dict[str, set[str]] = defaultdict(set)
    shown = dict(spoken)
    owners: set[str] = set()
    for entity in (entity for item in mentions for entity in item):
        if entity.kind in NAME_KINDS:
            kinds[entity.key].add(entity.kind)
            shown.setdefault(entity.key, entity.name)
        elif entity.kind == "relationship":
            owners.add(entity.key.partition(" of ")[2])
    people = set(spoken) | {key for key, of_key in kinds.items() if "person" in of_key}
    forms = people | owners | {key for key, of_key in kinds.items() if of_key == {"name"}}
    full = _resolve_aliases(forms, people, set(spoken))
    sure = {key: (of_key - {"name"}).pop() for key, of_key in kinds.items() if len(of_key - {"name"}) == 1}
    sure |= dict.fromkeys(people, "person") | dict.fromkeys(full, "person")
    return [_join_item(item, full, sure, spoken, shown) for item in mentions]


def _join_item(
    item: Iterable[Entity],
    full: Mapping[str, str],
    sure: Mapping[str, str],
    spoken: Mapping[str, str],
    shown: Mapping[str, str],
) -> list[Entity]:
    joined: dict[tuple[str, str], Entity] = {}
    for entity in item:
        kind = entity.kind
        # A speaker is a person, whatever the name looks like; otherwise only a name of no kind takes one.
        if kind == "name" or (kind in NAME_KINDS and entity.key in spoken):
            kind = sure.get(entity.key, kind)
        if kind == "person" and entity.key in full:
            key = full[entity.key]
            joined.setdefault(("person", key), Entity("person", key, shown.get(key, entity.name)))
        elif kind == "relationship":
            word, of, owner = entity.key.partition(" of ")
            if owner in full:
                key = f"{word}{of}{full[owner]}"
                joined.setdefault((kind, key), Entity(kind, key, entity.name))
        joined.setdefault((kind, entity.key), Entity(kind, entity.key, entity.name))
    return list(joined.values())


def _resolve_aliases(forms: set[str], people: set[str], spoken: set[str]) -> dict[str, str]:
    """Return short form → the one full name in `people` that it can mean. Forms that fit none or several are absent."""
    by_part: dict[str, set[str]] = defaultdict(set)
    by_given: dict[str, set[str]] = defaultdict(set)
    for name in people:
        parts = name.split()
        by_given[parts[0]].add(name)
        if len(parts) > 1:
            by_part[parts[0]].add(name)
            by_part[parts[-1]].add(name)
    prefixes: dict[str, set[str]] = defaultdict(set)
    for name in spoken:
        given = name.split()[0]
        for length in range(3, min(len(given), _LONGEST_GIVEN_NAME)):
            prefixes[given[:length]].add(name)
    full: dict[str, str] = {}
    for form in sorted(form for form in forms if " " not in form):
        nicknames = {name for given in NICKNAMES.get(form, ()) for name in by_given.get(given, ())}
        fitting = by_part.get(form, set()) | nicknames
        if not fitting and form not in spoken and form not in GIVEN_NAMES:
            fitting = prefixes.get(form, set())
        # Melanie and Melanie Park are one person; of two Melanies neither is meant.
        if len(fitting) <= _MAX_FITTING:
            fitting = {name for name in fitting if name != form and not any(_is_part(name, other) for other in fitting)}
        if len(fitting) == 1 and (form not in spoken or by_part.get(form)):
            full[form] = fitting.pop()
    return {form: full.get(name, name) for form, name in full.items()}


def _is_part(short: str, long: str) -> bool:
    return short != long and " " not in short and short in long.split()
