"""Facts of a text: rules matched against its clauses, and their slots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from helix.enrich.facts import sentences
from helix.enrich.facts.plausible import Groups, Voice, is_plausible
from helix.enrich.facts.relations import Fact
from helix.enrich.facts.rules import RULES, TRIGGERS, FactRule, compile_pattern, split_tokens
from helix.enrich.facts.slots import cut_clause, make_key, read_nothing, read_people
from helix.enrich.facts.times import read_date, read_plan, read_validity
from helix.enrich.facts.words import NOT_NAMES, PATTERNS, TITLES, VAGUE, WORDS
from helix.text.dates import Moment, find_moments

MAX_CHARS: Final = 16_000
"""Characters of a text that are searched; items are far shorter."""

MAX_FACTS: Final = 32
"""Facts of one text: the first ones."""

_SENTENCE_CHARS: Final = 300
_WEIGHTS: Final = {"user": 1.0, "document": 0.9, "assistant": 0.75}


def extract_facts(text: str, speaker: str | None, role: str, origin: str, at: datetime | None) -> list[Fact]:
    """Return the facts that `text` states, each triple once, in order of appearance, at most `MAX_FACTS`.

    Tools and runtime context state nothing, an assistant nothing about itself. "I" is the speaker, or "user" in a
    user's turn without one; "we" stays "we".

    Args:
        text: an item; only the first `MAX_CHARS` characters are searched.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
        at: time of the turn, aware; relative dates count from it.
    """
    if role not in _WEIGHTS or origin in ("tool", "runtime_context"):
        return []
    text = text[:MAX_CHARS]
    if TRIGGERS.keys().isdisjoint(split_tokens(text)):
        return []
    name = " ".join((speaker or "").split())
    name = name if make_key(name) else ""
    voice = Voice("" if role == "assistant" else name or ("user" if role == "user" else ""), at, role)
    facts: dict[tuple[str, str, str, str, bool], Fact] = {}
    for sentence in sentences.drop_play(sentences.split_sentences(text.replace("’", "'").replace("‘", "'"))):
        for fact in _read(sentence, voice):
            facts.setdefault((fact.subject_key, fact.relation, fact.object_key, fact.qualifier, fact.closes), fact)
        if len(facts) >= MAX_FACTS:
            break
    return list(facts.values())[:MAX_FACTS]


_DIGIT: Final = re.compile(r"\d")


def _read(sentence: str, voice: Voice) -> Iterator[Fact]:
    """Yield the facts of one sentence."""
    if TRIGGERS.keys().isdisjoint(split_tokens(sentence)):
        return
    statement = sentences.cut_statement(sentences.normalise(sentence))
    reported = False
    for clause, by_others in sentences.attribute_clauses(list(sentences.split_clauses(statement))) if statement else ():
        reported = reported or by_others
        bare, closes = _cut_ending(clause)
        candidates = {index for word in split_tokens(bare) for index in TRIGGERS.get(word, ())}
        numbered = _DIGIT.search(bare) is not None
        if numbered:
            candidates.update(TRIGGERS["#"])
        doubted = reported or sentences.is_hedged(bare)
        for index in sorted(candidates):
            rule = RULES[index]
            if (doubted and not rule.presupposed) or (rule.relation == "version_is" and not numbered):
                continue
            for match in compile_pattern(index).finditer(bare):
                if rule.presupposed or not sentences.is_denied(bare, match, rule.negative):
                    yield from _build_facts(rule, match, bare, closes or rule.closes, sentence, voice)


# ---------------------------------------------------------------- closings

_NO_LONGER: Final = re.compile(r"\b(?:no longer|not longer) ")
_ANYMORE: Final = re.compile(r",? (?:anymore|any more|any longer)\b")
_DO_NOT: Final = re.compile(r"\b(?:do not|(?P<third>does not)|(?P<have>have|has) not been|not) (?P<verb>\w+)?")
# fmt: off
_BASE: Final = {
    "using": "use", "living": "live", "working": "work", "studying": "study", "dating": "am dating", "eating": "eat",
    "speaking": "speak", "seeing": "am seeing", "relying": "rely",
}
# fmt: on
_STOPPED: Final = re.compile(
    r"\b(?:have |has )?(?:just |finally |recently )?(?:stopped|quit|gave up|given up) "
    rf"(?P<verb>{'|'.join(_BASE)})\b"
)


def _cut_ending(clause: str) -> tuple[str, bool]:
    """Return the statement that a clause ends: "I no longer live here" → ("I live here", True)."""
    if _NO_LONGER.search(clause):
        return _NO_LONGER.sub("", clause, count=1), True
    if _ANYMORE.search(clause):
        positive, changed = _DO_NOT.subn(_affirm, _ANYMORE.sub("", clause), count=1)
        return (positive, True) if changed else (clause, False)
    positive, changed = _STOPPED.subn(lambda match: _BASE[match["verb"]], clause, count=1)
    return positive, changed > 0


def _affirm(match: re.Match[str]) -> str:
    """Return a verb without its negation: "does not carry" → "carries"."""
    verb = match["verb"] or ""
    if match["third"]:
        return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeo" else f"{verb}s"
    return f"{match['have']} been {verb}" if match["have"] else verb


# ---------------------------------------------------------------- matches


def _build_facts(
    rule: FactRule, match: re.Match[str], clause: str, ends: bool, sentence: str, voice: Voice
) -> Iterator[Fact]:
    """Yield the facts of one match: first those that end, then its objects."""
    groups = match.groupdict()
    subjects = _read_subjects(rule, groups, voice)
    raw = (groups.get("o") or groups.get("thing") or "").strip()
    if not subjects or not (raw or rule.slot is read_nothing):
        return
    relation = rule.relation
    raw, qualifier, old = _split_qualifier(relation, raw)
    old = groups.get("old") or old
    begin = match.start("o") if "o" in groups else 0
    spans = find_moments(clause, voice.at)
    objects = _read_objects(rule, raw, spans, clause, begin, voice.at)
    former = rule.slot(old.strip()) if old else []
    if not is_plausible(rule, groups, objects, former, clause, voice):
        return
    if relation == "owned_by" and groups.get("thing"):
        subjects, objects = objects, subjects
    if relation == "decided":  # a date inside the decision is not its time
        spans = [span for span in spans if span.where[1] <= begin]
    valid, until = read_validity(relation, spans, clause, voice.at, ends)
    weight = round(rule.confidence * _WEIGHTS[voice.role], 4)

    def fact(subject: str, relation: str, object: str, qualifier: str, closes: bool) -> Fact:
        since, end = (valid or until, valid or until) if closes else (valid, until)
        keys = make_key(subject), make_key(object)
        quote = sentence[:_SENTENCE_CHARS]
        return Fact(subject, keys[0], relation, object, keys[1], qualifier, closes, since, end, weight, quote)

    if relation == "uses":
        # "we use Python 3.11" states the version, and with "for X" a use, too.
        split = [(tool, _VERSIONED.match(tool)) for tool in objects]
        yield from (fact(tool[1], "version_is", tool[2], "", ends) for _, tool in split if tool and not former)
        objects = [match[1] if match else tool for tool, match in split if not match or qualifier or former]
    for subject in subjects:
        yield from (fact(subject, relation, object, qualifier, True) for object in former)
        for object in objects:
            if (make_key(object) or rule.slot is read_nothing) and make_key(object) != make_key(subject):
                yield fact(subject, relation, object, qualifier, ends)


_VERSIONED: Final = re.compile(r"(.*[A-Za-z+#]\S*) v?(\d{1,5}(?:\.\d{1,5}){0,3})\Z")
_INSTEAD: Final = re.compile(r" (?:instead of|rather than|in place of|over) (?P<old>.+)")
_FOR: Final = re.compile(r" (?:for|as(?: (?:the|our|a|an)\b)) ?(?P<q>[^.,;:!?()]{2,60})")
_NO_PURPOSE: Final = VAGUE | WORDS["no purpose"]


def _split_qualifier(relation: str, raw: str) -> tuple[str, str, str]:
    """Return the object, its purpose or the rejected alternative as a key, and the object it replaces."""
    if relation == "prefers":
        border = PATTERNS["clause end"].search(raw)
        phrase, over = _split_at(PATTERNS["prefer over"], raw[: border.start()] if border else raw)
        if over:
            return phrase, f"over {make_key(cut_clause(over))}", ""
        return phrase + (raw[border.start()] if border else ""), "", ""
    if relation == "uses":
        raw, old = _split_at(_INSTEAD, raw)
        purpose = _FOR.search(raw)
        return raw, make_key(cut_clause(purpose["q"])) if purpose and _is_purpose(purpose["q"]) else "", old
    return raw, "", ""


def _split_at(border: re.Pattern[str], raw: str) -> tuple[str, str]:
    """Return the text before a border, and the text of the border's last group."""
    match = border.search(raw)
    return (raw[: match.start()], match[match.lastgroup or 0]) if match else (raw, "")


def _is_purpose(words: str) -> bool:
    """Return whether "for …" is a purpose, not a time or a person."""
    first = words.lower().strip().partition(" ")[0]
    return first not in _NO_PURPOSE and not first.isdigit()


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
