"""From a text to the facts it states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from helix.enrich.facts.guards import attributed, denied, hedged, statement, without_play
from helix.enrich.facts.plausible import Groups, Voice, plausible
from helix.enrich.facts.relations import Fact
from helix.enrich.facts.rules import RULES, TRIGGERS, Rule, pattern, tokens
from helix.enrich.facts.sentences import clauses, plain, sentences
from helix.enrich.facts.slots import CLAUSE_END, cut, key, nothing, people
from helix.enrich.facts.times import dated, planned, spans_of, validity
from helix.enrich.facts.words import NOT_NAMES, TITLES, VAGUE, word_set

if TYPE_CHECKING:
    from helix.text.dates import Moment

SCANNED: Final = 16_000
"""Characters looked at; an item is far shorter."""

MAX_FACTS: Final = 32
"""Kept of one text: the first ones."""

_SAID: Final = 300  # characters
_WEIGHTS: Final = {"user": 1.0, "document": 0.9, "assistant": 0.75}


def facts(text: str, speaker: str | None, role: str, origin: str, at: datetime | None) -> list[Fact]:
    """What `text` states as true, each triple once, in order of appearance, at most `MAX_FACTS`.

    Tools and runtime context state nothing, an assistant nothing of itself. "I" is the speaker, or "user" in a user's
    turn without one; "we" stays "we". Relative dates count from `at`.

    Args:
        text: one item; only the first `SCANNED` characters count.
        speaker: who speaks, where known.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
        at: time of the turn, aware.
    """
    if role not in _WEIGHTS or origin in ("tool", "runtime_context"):
        return []
    text = text[:SCANNED]
    if TRIGGERS.keys().isdisjoint(tokens(text)):
        return []
    name = " ".join((speaker or "").split())
    name = name if key(name) else ""
    voice = Voice("" if role == "assistant" else name or ("user" if role == "user" else ""), at, role)
    found: dict[tuple[str, str, str, str, bool], Fact] = {}
    for sentence in without_play(sentences(text.replace("’", "'").replace("‘", "'"))):
        for fact in _read(sentence, voice):
            found.setdefault((fact.subject_key, fact.relation, fact.object_key, fact.qualifier, fact.closes), fact)
        if len(found) >= MAX_FACTS:
            break
    return list(found.values())[:MAX_FACTS]


_DIGIT: Final = re.compile(r"\d")


def _read(sentence: str, voice: Voice) -> Iterator[Fact]:
    """The facts of one sentence."""
    if TRIGGERS.keys().isdisjoint(tokens(sentence)):
        return
    stated = statement(plain(sentence))
    if not stated:
        return
    reported = False
    for clause, by_others in attributed(list(clauses(stated))):
        reported = reported or by_others
        bare, closes = _former(clause)
        candidates = {index for word in tokens(bare) for index in TRIGGERS.get(word, ())}
        numbered = _DIGIT.search(bare) is not None
        if numbered:
            candidates.update(TRIGGERS["#"])
        doubted = reported or hedged(bare)
        for index in sorted(candidates):
            rule = RULES[index]
            if (doubted and not rule.presupposed) or (rule.relation == "version_is" and not numbered):
                continue
            for match in pattern(index).finditer(bare):
                if rule.presupposed or not denied(bare, match, rule.negative):
                    yield from _made(rule, match, bare, closes or rule.closes, sentence, voice)


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


def _former(clause: str) -> tuple[str, bool]:
    """A clause about what is over as the statement it ends: "I no longer live here" → "I live here", True."""
    if _NO_LONGER.search(clause):
        return _NO_LONGER.sub("", clause, count=1), True
    if _ANYMORE.search(clause):
        positive, changed = _DO_NOT.subn(_positive, _ANYMORE.sub("", clause), count=1)
        return (positive, True) if changed else (clause, False)
    positive, changed = _STOPPED.subn(lambda match: _BASE[match["verb"]], clause, count=1)
    return positive, changed > 0


def _positive(match: re.Match[str]) -> str:
    """The verb without its negation: "does not carry" → "carries"."""
    verb = match["verb"] or ""
    if match["third"]:
        return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeo" else f"{verb}s"
    return f"{match['have']} been {verb}" if match["have"] else verb


# ---------------------------------------------------------------- from match to facts


def _made(rule: Rule, match: re.Match[str], clause: str, ends: bool, sentence: str, voice: Voice) -> Iterator[Fact]:
    """The facts of one match: its objects, and before them what ended."""
    groups = match.groupdict()
    subjects = _subjects(rule, groups, voice)
    raw = (groups.get("o") or groups.get("thing") or "").strip()
    if not subjects or not (raw or rule.slot is nothing):
        return
    relation = rule.relation
    raw, qualifier, old = _qualified(relation, raw)
    old = groups.get("old") or old
    begin = match.start("o") if "o" in groups else 0
    spans = spans_of(clause, voice.at)
    objects = _objects(rule, raw, spans, clause, begin, voice.at)
    former = rule.slot(old.strip()) if old else []
    if not plausible(rule, groups, objects, former, clause, voice):
        return
    if relation == "owned_by" and groups.get("thing"):
        subjects, objects = objects, subjects
    if relation == "decided":  # a date in what was decided is not when
        spans = [span for span in spans if span.where[1] <= begin]
    valid, until = validity(relation, spans, clause, voice.at, ends)
    weight = round(rule.confidence * _WEIGHTS[voice.role], 4)

    def fact(subject: str, relation: str, object: str, qualifier: str, closes: bool) -> Fact:
        since, end = (valid or until, valid or until) if closes else (valid, until)
        keys = key(subject), key(object)
        said = sentence[:_SAID]
        return Fact(subject, keys[0], relation, object, keys[1], qualifier, closes, since, end, weight, said)

    if relation == "uses":
        # "we use Python 3.11" says the version; "for X" says a use besides.
        split = [(tool, _VERSIONED.match(tool)) for tool in objects]
        yield from (fact(tool[1], "version_is", tool[2], "", ends) for _, tool in split if tool and not former)
        objects = [found[1] if found else tool for tool, found in split if not found or qualifier or former]
    for subject in subjects:
        yield from (fact(subject, relation, object, qualifier, True) for object in former)
        for object in objects:
            if (key(object) or rule.slot is nothing) and key(object) != key(subject):
                yield fact(subject, relation, object, qualifier, ends)


_VERSIONED: Final = re.compile(r"(.*[A-Za-z+#]\S*) v?(\d{1,5}(?:\.\d{1,5}){0,3})\Z")
_PREFER_OVER: Final = re.compile(
    r" (?:(?:much |way )?more than|over|rather than|instead of|than) (?P<over>.+)|(?<=\w) to (?P<q>(?!understand|"
    r"grasp|learn|manage|ensure|avoid|get|make|increase|improve|keep|see|help|save|be|do|work|use|have|stay)"
    r"[\w'-]+(?: [\w'-]+)?)(?= any| every|\Z)"
)
_INSTEAD: Final = re.compile(r" (?:instead of|rather than|in place of|over) (?P<old>.+)")
_FOR: Final = re.compile(r" (?:for|as(?: (?:the|our|a|an)\b)) ?(?P<q>[^.,;:!?()]{2,60})")
# "for years" and "for example" say no purpose.
_NO_PURPOSE: Final = VAGUE | word_set("years ages now months weeks days example instance free a")


def _qualified(relation: str, raw: str) -> tuple[str, str, str]:
    """The object, what it is for or preferred over, and what it stands instead of."""
    if relation == "prefers":
        border = CLAUSE_END.search(raw)
        phrase, over = _parted(_PREFER_OVER, raw[: border.start()] if border else raw)
        if over:
            return phrase, f"over {key(cut(over))}", ""
        return phrase + (raw[border.start()] if border else ""), "", ""
    if relation == "uses":
        raw, old = _parted(_INSTEAD, raw)
        purpose = _FOR.search(raw)
        return raw, key(cut(purpose["q"])) if purpose and _is_purpose(purpose["q"]) else "", old
    return raw, "", ""


def _parted(border: re.Pattern[str], raw: str) -> tuple[str, str]:
    """What stands before a border, and what it names."""
    found = border.search(raw)
    return (raw[: found.start()], found[found.lastgroup or 0]) if found else (raw, "")


def _is_purpose(words: str) -> bool:
    """Whether "for …" says a purpose, not a time or a person."""
    first = words.lower().strip().partition(" ")[0]
    return first not in _NO_PURPOSE and not first.isdigit()


def _objects(rule: Rule, raw: str, spans: list[Moment], clause: str, begin: int, at: datetime | None) -> list[str]:
    """The objects `raw` begins with; one that is empty for an ending that names none."""
    if rule.relation in ("born_on", "due"):
        return dated(raw, rule.relation, at)
    if rule.relation == "plans":
        return planned(raw, spans, clause, begin, at)
    return [""] if rule.slot is nothing else rule.slot(raw)


# ---------------------------------------------------------------- subjects


def _subjects(rule: Rule, groups: Groups, voice: Voice) -> list[str]:
    """Who or what a match speaks of; [] where nobody can say."""
    thing = groups.get("t") or groups.get("app")
    if thing:
        return _things(thing, rule.relation, groups.get("det") is not None)
    if groups.get("we"):
        return ["team"] if "team" in str(groups["we"]) else ["we"]
    said = groups.get("kin") or groups.get("n")
    if said:
        title, _, rest = said.partition(" ")
        return people(said) or (people(rest) if title.lower() in TITLES else [])
    first = (groups.get("s") or groups.get("mine") or "").lower()
    if first in ("we", "our", "ours"):
        return ["we"]
    return [voice.first] if first and voice.first else []


_THING_ADVERB: Final = re.compile(r"(?: (?:already|now|also|currently|just|still|all|both|only|actually|mostly))+\Z")
_NO_THING: Final = word_set("""
    changes change code error errors bug issue fix problem version rest stuff file files difference work logic function
    method phase step stage part chapter level week day page task sprint milestone iteration round season year question
    number line ticket grade item answer result thing things value point example definition implementation class
""")
_THING_VERB: Final = word_set("""
    ensure make your you is are was were has have had do does did be been not will would can could which who that set
    and or when if to
""")
_NO_BEGIN: Final = (
    (NOT_NAMES - word_set("api url server client team note users work prof school home user"))
    | VAGUE
    | word_set("every each any some no all both other most")
)


def _things(words: str, relation: str, determined: bool) -> list[str]:
    """The setting, service or document a clause begins with."""
    name = _THING_ADVERB.sub("", words.replace("`", "").replace('"', "").strip("' .,:"))
    parts = name.lower().split()
    if not parts or parts[0] in _NO_BEGIN or set(parts) & _THING_VERB:
        return []
    if parts[-1] in _NO_THING and not (determined and relation == "due"):
        return []
    code = re.search(r"[\d_./A-Z]", name)
    return [name] if determined or code or len(parts) <= 2 else []
