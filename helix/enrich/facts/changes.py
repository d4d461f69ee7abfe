"""Slots of a clause: choices, settings, owners, dates, names and places, and their changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from helix.enrich.facts.canonical import find_kind, find_purpose
from helix.enrich.facts.drafts import Draft, Voice, read_purpose, split_alternative, split_versions
from helix.enrich.facts.plausible import is_tool_change
from helix.enrich.facts.rules import split_tokens
from helix.enrich.facts.sentences import is_attributed, is_denied
from helix.enrich.facts.slot_rules import SLOT_RULES, SLOT_TRIGGERS, SlotRule, compile_slot
from helix.enrich.facts.slots import NAMED, make_key, read_path, read_tool
from helix.enrich.facts.subjects import (
    get_head,
    is_no_thing,
    is_part,
    is_person,
    is_setting,
    make_name,
    place_use,
    read_subject,
    split_purpose,
)
from helix.enrich.facts.values import is_known_tool, pick_nearest, read_duty, read_part_place, read_when, split_wish
from helix.enrich.facts.words import JOBS, PATTERNS, VALUES, WORDS
from helix.text.gazetteer import GIVEN_NAMES
from helix.text.relations import inflect_verb, is_plural

_FUTURE: Final = re.compile(
    r"\b(?:will|going to|let me|let us|plan(?:s|ned|ning)? to|to be|shall|about to|next step|ready to)\b"
)

Groups = Mapping[str, str | None]


class Clause(NamedTuple):
    """A clause of a statement."""

    whole: str  # without its lead-in
    head: str  # without "no longer" or "anymore", either
    closes: bool  # it had one of them
    purpose: str = ""  # named by its lead-in


def cut_lead(clause: str) -> tuple[str, str]:
    """Return a clause without its lead-in, and the purpose that the lead-in names: "for the queue, we …"."""
    match = PATTERNS["lead"].match(clause)
    head, purpose = (clause[match.end() :], match["purpose"] or "") if match else (clause, "")
    if "(" in head:
        head = _ASIDE.sub("", head)
    report = _REPORT.match(head)
    if report and report[1].lower() not in GIVEN_NAMES:
        head = head[0].lower() + head[1:]
    return head, purpose


_ASIDE: Final = re.compile(r" \([^()]{1,80}\)(?=[ .,;:]|\Z)")
_REPORT: Final = re.compile(r"([A-Z][a-z]+ed) ")  # "Replaced X with Y."


def read_slots(clause: Clause, voice: Voice) -> Iterator[Draft]:
    """Yield the facts of the first rule that fits a clause."""
    found = list(_match_rules(clause, clause.head, clause.purpose, voice))
    label = PATTERNS["label"].match(clause.head) if not found and ": " in clause.head else None
    if label:
        body, purpose = cut_lead(clause.head[label.end() :])
        found = list(_match_rules(clause, body, purpose or label["label"], voice))
    yield from found


def _match_rules(clause: Clause, head: str, purpose: str, voice: Voice) -> Iterator[Draft]:
    words = [*split_tokens(head), "longer"] if clause.closes else split_tokens(head)
    candidates = {index for word in words for index in SLOT_TRIGGERS.get(word, ())}
    future = _FUTURE.search(head) is not None
    for index in sorted(candidates):
        rule = SLOT_RULES[index]
        if (rule.roles and voice.role not in rule.roles) or (future and not (rule.future and voice.role == "user")):
            continue
        own = rule.relation == "does"
        match = compile_slot(index).match(clause.whole if own else head)
        found = list(_build(rule, match.groupdict(), head, purpose, voice)) if match else []
        if match and found:
            ends = match.groupdict().get("when") == "no longer"
            if is_attributed(match) or (not rule.modal and is_denied(match.string, match, ends)):
                continue
            yield from (draft._replace(closes=draft.closes or (clause.closes and not own)) for draft in found)
            return


def _build(rule: SlotRule, groups: Groups, head: str, purpose: str, voice: Voice) -> Iterator[Draft]:
    if rule.relation == "uses":
        return _build_use(rule, groups, head, purpose, voice)
    if rule.relation == "rejected":
        return _build_rejection(rule, groups, purpose, voice)
    if rule.relation in ("has", "does"):
        return _build_part(rule, groups, voice)
    if rule.swap:
        return _build_holding(rule, groups, voice)
    if rule.relation in ("works_as", "prefers"):
        return _build_person(rule, groups, voice)
    return _build_value(rule, groups, voice)


def _read_actor(groups: Groups, voice: Voice) -> str:
    """Return the person or the team that acts; "" for an unknown one. A report of an assistant is of "we"."""
    name = groups.get("n")
    if name:
        return name if is_person(name) else ""
    if (groups.get("s") or "").lower() == "i":
        return voice.first or "we"
    return "we"


def _read_thing(groups: Groups, relation: str) -> str:
    """Return the thing of a match as written, "" where it is none of the relation."""
    thing = groups.get("t") or ""
    name = read_subject(make_name(thing), groups.get("det") is not None) if thing else ""
    return "" if not name or is_no_thing(name, relation) else name


# ---------------------------------------------------------------- choices


def _build_use(rule: SlotRule, groups: Groups, head: str, purpose: str, voice: Voice) -> Iterator[Draft]:
    raw, instead = split_alternative((groups.get("o") or "").strip())
    old = groups.get("old") or instead
    tools, former = rule.read(raw), read_tool(old) if old else []
    if not tools or (groups.get("old") and not former) or (groups.get("n") and not is_person(groups["n"] or "")):
        return
    if groups.get("verb") and _is_general(groups.get("det"), groups.get("t") or "", tools, raw):
        return
    both = [*tools, *former]
    found = _place_thing(rule, groups, tools)
    subject, qualifier = found or (
        rule.subject or _read_actor(groups, voice),
        read_purpose(raw) or ("" if groups.get("t") else purpose),
    )
    if groups.get("t") and not found:
        thing = _read_thing(groups, rule.relation)
        if not thing or rule.purpose or is_known_tool(thing) or not _agree(thing, groups.get("verb") or ""):
            return
        subject = subject if thing.lower() in WORDS["everything"] else thing
    alone = groups.get("s") == "I" and not (former or groups.get("t"))
    if not subject or not is_tool_change(
        both, head, change=bool(former) or rule.closes, alone=alone, plain=bool(groups.get("verb"))
    ):
        return
    subject, qualifier = place_use(subject, qualifier)
    ended = tools if rule.closes else former
    yield from (Draft(subject, "uses", tool, qualifier, True, rule.confidence) for tool in ended)
    if not rule.closes:
        many, chosen = len(tools) > 1, "use" not in rule.needs
        drafts = [Draft(subject, "uses", tool, qualifier, False, rule.confidence, many, chosen) for tool in tools]
        yield from split_versions(drafts, bool(former))


def _is_general(determiner: str | None, thing: str, tools: list[str], raw: str) -> bool:
    """Return whether "X uses Y" is of no system: "designers use grids", or a heading such as "Cache uses counter"."""
    named = raw.startswith("`") or any(NAMED.search(name, 1) or is_known_tool(name) for name in [thing, *tools])
    return determiner is None and not named and (is_plural(thing) or thing.istitle())


def _place_thing(rule: SlotRule, groups: Groups, tools: list[str]) -> tuple[str, str] | None:
    """Return (subject, purpose) where the thing of a match names a purpose that the tools fit, or None."""
    thing = make_name(groups.get("t") or "")
    found = split_purpose(thing) if thing else None
    if found is None:
        return None
    kinds = {find_kind(make_key(tool)) for tool in tools} - {""}
    subject, purpose = found
    if rule.purpose and find_purpose(purpose) not in kinds:
        return None
    return subject, purpose.lower() if purpose.istitle() else purpose


def _build_rejection(rule: SlotRule, groups: Groups, purpose: str, voice: Voice) -> Iterator[Draft]:
    raw = (groups.get("o") or "").strip()
    subject = rule.subject or _read_actor(groups, voice)
    qualifier = groups.get("q") or read_purpose(raw) or purpose
    if subject and not read_path(raw):
        yield from (Draft(subject, "rejected", option, qualifier, False, rule.confidence) for option in rule.read(raw))


def _build_action(rule: SlotRule, groups: Groups, raw: str, voice: Voice) -> Iterator[Draft]:
    """Yield what a thing does now, or no longer does, and the habit of a person."""
    speaks = (groups.get("s") or "") == "I"
    name = groups.get("n") or ""
    if name and name.lower().partition(" ")[0] not in GIVEN_NAMES:  # "Nudge me on Mondays" is an order
        return
    subject = (
        "we"
        if (groups.get("us") or groups.get("t") or "").lower() == "we"
        else voice.first
        if speaks
        else name or _read_thing(groups, "does")
    )
    changed = groups.get("change") is not None  # "updated X to accept Y"
    if not subject or not (speaks or name or changed or _agree(subject, raw)):
        return
    if rule.fits == "component" and not is_part(groups.get("t") or ""):
        return
    for part in rule.read(raw):
        verb, _, rest = part.partition(" ")
        action = f"{inflect_verb(verb)} {rest}" if speaks or (changed and not is_plural(subject)) else part
        yield Draft(subject, "does", action, "", groups.get("when") == "no longer", rule.confidence)


def _agree(subject: str, predicate: str) -> bool:
    """Return whether a verb agrees with its subject: "the guard and the check now live" is cut to "the check"."""
    verb = predicate.partition(" ")[0]
    if not verb:
        return True
    if verb in ("is", "are"):
        return is_plural(subject) == (verb == "are")
    return is_plural(subject) != verb.endswith("s") or subject == "we"


def _build_part(rule: SlotRule, groups: Groups, voice: Voice) -> Iterator[Draft]:
    """Yield what there is now, or no longer is, and what a thing does now."""
    raw = (groups.get("o") or "").strip()
    if not _read_actor(groups, voice):
        return
    if rule.relation == "does":
        yield from _build_action(rule, groups, raw, voice)
        return
    where = read_part_place(raw)
    yield from (Draft("we", "has", part, where, rule.closes, rule.confidence) for part in rule.read(raw))


# ---------------------------------------------------------------- people


def _build_holding(rule: SlotRule, groups: Groups, voice: Voice) -> Iterator[Draft]:
    """Yield the holder of a duty or a thing: "Marta owns the import pipeline"."""
    person = groups.get("person") or groups.get("s") or ""
    holder = voice.first if person == "I" else person.lower() if person.lower() == "we" else person
    if not holder or (holder == person and person.lower() != "we" and not is_person(person)):
        return
    raw = (groups.get("o") or "").strip()
    bare = rule.relation == "owned_by" and "over" not in rule.needs and not raw.startswith(("the ", "our ", "all "))
    if bare and person.lower().partition(" ")[0] not in GIVEN_NAMES:  # "Atlas manages tiles" is of a system
        return
    for thing in rule.read(raw):
        if not is_no_thing(thing, rule.relation):
            yield _place_duty(Draft(thing, rule.relation, holder, "", False, rule.confidence))


def _build_person(rule: SlotRule, groups: Groups, voice: Voice) -> Iterator[Draft]:
    """Yield the role or the wish of a person."""
    name = groups.get("n") or ""
    subject = (name if is_person(name) else "") if name else voice.first
    if (groups.get("s") or "").lower() == "we":
        subject = "we"
    raw, over = (
        split_wish((groups.get("o") or "").strip()) if rule.relation == "prefers" else (groups.get("o") or "", "")
    )
    if subject:
        yield from (
            Draft(subject, rule.relation, each, over, False, rule.confidence) for each in rule.read(raw.strip())
        )


# ---------------------------------------------------------------- values


def _build_value(rule: SlotRule, groups: Groups, voice: Voice) -> Iterator[Draft]:
    raw = (groups.get("o") or "").strip()
    subject = rule.subject or _read_thing(groups, rule.relation)
    if groups.get("q"):  # "on call for search"
        subject = read_duty(groups["q"] or "")[0]
    if not subject or not raw:
        return
    of_day = get_head(subject) == "day"
    read = (lambda text: read_when(text, voice.at, of_day)) if rule.dated else rule.read
    objects, former = read(raw)[:1], read(old)[:1] if (old := groups.get("old")) else []
    if former and rule.dated:
        former = pick_nearest(former[0], objects, voice.at)
    if objects == ["me"]:
        objects = [voice.first]
    if not objects or not objects[0] or not _is_fitting(rule, subject, objects[0], groups, voice):
        return
    if groups.get("attr"):
        subject = f"{groups['attr']} of the {subject}" if groups.get("det") else f"{groups['attr']} of {subject}"
    subject, qualifier = _split_scope(subject, raw, objects[0]) if rule.relation in _SCOPED else (subject, "")
    yield from (Draft(subject, rule.relation, thing, qualifier, True, rule.confidence) for thing in former)
    if make_key(objects[0]) != make_key(subject):
        yield _place_duty(Draft(subject, rule.relation, objects[0], qualifier, rule.closes, rule.confidence))


_DUTY: Final = re.compile(r"(?i)(?:on[ -]call|pager|primary)(?: (?:duty|rotation|shift))?(?: for .+)?")


def _place_duty(draft: Draft) -> Draft:
    """Return a draft whose thing is a duty as its holder: "Omar takes over on call"."""
    if draft.relation != "owned_by" or not _DUTY.fullmatch(draft.subject):
        return draft
    return draft._replace(subject=read_duty(draft.subject)[0], relation="held_by")


_SCOPED: Final = frozenset(("is", "set_to", "defaults_to", "kept_for"))
_UNIT: Final = re.compile(r"\d[\s\d.,-]*[A-Za-z%€$£°µ/]|[A-Za-z€$£]")


def _is_fitting(rule: SlotRule, subject: str, value: str, groups: Groups, by: Voice) -> bool:
    """Return whether subject and value fit the relation."""
    if rule.relation in ("owned_by", "held_by"):
        return value.lower() == "we" or is_person(value)
    if rule.fits == "office":
        return get_head(subject) in WORDS["offices"] | JOBS and is_person(value)
    if rule.relation == "runs_on":  # "Ana moved to Bergen"
        return subject.lower().partition(" ")[0] not in GIVEN_NAMES
    if rule.relation == "scheduled_for":
        return not is_setting(subject) or get_head(subject) == "date"
    if rule.relation == "is" and rule.fits:
        named = is_setting(subject) or groups.get("attr") is not None
        if rule.fits == "strict" and by.role == "assistant" and get_head(subject) in WORDS["measures"]:
            return False
        return named or (rule.fits == "loose" and _UNIT.match(value) is not None)
    return True


def _split_scope(subject: str, raw: str, value: str) -> tuple[str, str]:
    """Return the subject without its environment, and the environment or file where the value holds, or ""."""
    match = VALUES["scope"].match(raw.lstrip("`\"'")[len(value) :].lstrip("`\"'"))
    if match:
        return subject, match["scope"].strip("`") if match["where"] != "for" else f"for {match['scope']}"
    inside = VALUES["scope"].search(subject)
    if inside and inside.end() == len(subject) and inside["where"] != "for" and inside.start():
        return subject[: inside.start()], inside["scope"].strip("`")
    return subject, ""
