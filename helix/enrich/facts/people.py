"""Facts by the rules of people, tools and settings: a rule's pattern may match anywhere in a clause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from helix.enrich.facts.drafts import Draft, Voice, read_purpose, split_alternative, split_versions
from helix.enrich.facts.plausible import Groups, is_plausible
from helix.enrich.facts.rules import RULES, TRIGGERS, FactRule, compile_pattern
from helix.enrich.facts.sentences import is_denied
from helix.enrich.facts.slots import cut_clause, make_key, read_nothing, read_people
from helix.enrich.facts.subjects import place_use
from helix.enrich.facts.times import read_date, read_plan
from helix.enrich.facts.words import NOT_NAMES, PATTERNS, TITLES, VAGUE, WORDS
from helix.text.dates import Moment, find_moments

_DIGIT: Final = re.compile(r"\d")


def read_clause(clause: str, tokens: list[str], voice: Voice) -> Iterator[tuple[Draft, bool]]:
    """Yield the facts of a clause, and whether each holds in a doubtful one, too: "my sister Ana would hate that".

    Args:
        tokens: of the clause, from `split_tokens`.
    """
    candidates = {index for word in tokens for index in TRIGGERS.get(word, ())}
    numbered = _DIGIT.search(clause) is not None
    if numbered:
        candidates.update(TRIGGERS["#"])
    for index in sorted(candidates):
        rule = RULES[index]
        if rule.relation == "version_is" and not numbered:
            continue
        for match in compile_pattern(index).finditer(clause):
            if rule.presupposed or not is_denied(clause, match, rule.negative):
                spans = find_moments(clause, voice.at) if rule.relation == "plans" else []
                yield from ((draft, rule.presupposed) for draft in _build(rule, match, clause, spans, voice))


def _build(rule: FactRule, match: re.Match[str], clause: str, spans: list[Moment], voice: Voice) -> Iterator[Draft]:
    """Yield the facts of one match: first those that end, then its objects."""
    groups = match.groupdict()
    subjects = _read_subjects(rule, groups, voice)
    raw = (groups.get("o") or groups.get("thing") or "").strip()
    if not subjects or not (raw or rule.slot is read_nothing):
        return
    relation, weight = rule.relation, rule.confidence
    raw, qualifier, old = _split_qualifier(relation, raw)
    old = groups.get("old") or old
    begin = match.start("o") if "o" in groups else 0
    objects = _read_objects(rule, raw, spans, clause, begin, voice.at)
    former = rule.slot(old.strip()) if old else []
    if not is_plausible(rule, groups, objects, former, clause, voice):
        return
    if relation == "owned_by" and groups.get("thing"):
        subjects, objects = objects, subjects
    for subject in subjects:
        placed, purpose = place_use(subject, qualifier) if relation == "uses" else (subject, qualifier)
        yield from (Draft(placed, relation, object, purpose, True, weight) for object in former)
        many = relation == "uses" and len(objects) > 1
        drafts = [
            Draft(placed, relation, f"{rule.lead} {object}".strip(), purpose, rule.closes, weight, many)
            for object in objects
            if (make_key(object) or rule.slot is read_nothing) and make_key(object) != make_key(subject)
        ]
        yield from split_versions(drafts, bool(former)) if relation == "uses" else drafts


def _split_qualifier(relation: str, raw: str) -> tuple[str, str, str]:
    """Return the object, its purpose or the rejected alternative, and the object it replaces."""
    if relation == "prefers":
        border = PATTERNS["clause end"].search(raw)
        phrase, over = _split_at(PATTERNS["prefer over"], raw[: border.start()] if border else raw)
        if over:
            return phrase, f"over {make_key(cut_clause(over))}", ""
        return phrase + (raw[border.start() :] if border else ""), "", ""
    if relation == "uses":
        raw, old = split_alternative(raw)
        return raw, read_purpose(raw), old
    return raw, "", ""


def _split_at(border: re.Pattern[str], raw: str) -> tuple[str, str]:
    """Return the text before a border, and the text of the border's last group."""
    match = border.search(raw)
    return (raw[: match.start()], match[match.lastgroup or 0]) if match else (raw, "")


def _read_objects(rule: FactRule, raw: str, dates: list[Moment], clause: str, i: int, at: datetime | None) -> list[str]:
    """Return the objects at the begin of `raw`; an empty one for an ending without an object."""
    if rule.relation in ("born_on", "due"):
        return read_date(raw, rule.relation, at)
    if rule.relation == "plans":
        return read_plan(raw, dates, clause, i, at)
    return [""] if rule.slot is read_nothing else rule.slot(raw)


# ---------------------------------------------------------------- subjects


def _read_subjects(rule: FactRule, groups: Groups, voice: Voice) -> list[str]:
    """Return the subjects of a match; [] where they are unknown."""
    thing = groups.get("t") or groups.get("app")
    if thing:
        return _read_thing(thing, rule.relation, groups.get("det") is not None)
    if groups.get("we"):
        return ["team"] if "team" in str(groups["we"]) else ["we"]
    name = groups.get("kin") or groups.get("n")
    if name:
        title, _, rest = name.partition(" ")
        return read_people(name) or (read_people(rest) if title.lower() in TITLES else [])
    first = (groups.get("s") or groups.get("mine") or "").lower()
    if first in ("we", "our", "ours"):
        return ["we"]
    return [voice.first] if first and voice.first else []


_THING_ADVERB: Final = re.compile(r"(?: (?:already|now|also|currently|just|still|all|both|only|actually|mostly))+\Z")
_NO_BEGIN: Final = (NOT_NAMES - WORDS["thing names"]) | VAGUE | WORDS["quantifiers"]


def _read_thing(words: str, relation: str, determined: bool) -> list[str]:
    """Return the setting, service or document at the begin of a clause."""
    name = _THING_ADVERB.sub("", words.replace("`", "").replace('"', "").strip("' .,:"))
    parts = name.lower().split()
    if not parts or parts[0] in _NO_BEGIN or set(parts) & WORDS["thing verbs"]:
        return []
    if parts[-1] in WORDS["no thing"] and not (determined and relation == "due"):
        return []
    code = re.search(r"[\d_./A-Z]", name)
    return [name] if determined or code or len(parts) <= 2 else []
