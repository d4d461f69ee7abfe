"""References to the turn before: "it's on 8081 now", "let's make it 45 then", "yes, do it"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from helix.enrich.facts import sentences
from helix.enrich.facts.canonical import find_purpose, is_component
from helix.enrich.facts.changes import Clause, read_slots
from helix.enrich.facts.drafts import Draft, Voice
from helix.enrich.facts.slots import make_key, read_host, read_tool
from helix.enrich.facts.subjects import is_person, make_name, read_subject
from helix.enrich.facts.values import (
    is_tool,
    read_amount,
    read_holder,
    read_known_tool,
    read_literal,
    read_name,
    read_site,
    read_when,
)
from helix.enrich.facts.words import PATTERNS, WORDS

LESS: Final = 0.75
"""Factor on the confidence of a fact whose subject or value another turn names."""

_LONGEST: Final = 90
"""Characters of a sentence that sets a value by reference."""

_LONGEST_ASSENT: Final = 60
_LONGEST_REPLY: Final = 320
_REFERS: Final = re.compile(r"(?i)\b(?:it|that|them|they|this|then|those)\b")


class Topic(NamedTuple):
    """The slot that a text is about: its last one."""

    subject: str
    relation: str
    qualifier: str
    object: str
    asked: bool  # the text asks about the value, and does not state it


Reader = Callable[[str, Voice], list[Draft]]
"""Reads the facts of a text."""


def find_topic(texts: Sequence[str], voice: Voice, read: Reader) -> Topic | None:
    """Return the last slot of a thing that the nearest text states or asks about, or None."""
    for text in texts:
        drafts = [
            draft for draft in read(text.replace("?", "."), voice) if draft.relation in _READERS and not draft.closes
        ]
        asked = [draft for draft in read_proposal(text, voice, read) if draft.relation in _READERS]
        if drafts or asked:
            last = [*drafts, *asked][-1]
            return Topic(last.subject, last.relation, last.qualifier, last.object, bool(asked))
    return None


def read_proposal(text: str, voice: Voice, read: Reader) -> list[Draft]:
    """Return the facts that the question at the end of a text proposes: "want me to bump the pool to 40?"."""
    question = _find_question(text)
    match = PATTERNS["proposal"].match(question) if question else None
    if not match:
        return []
    speaker = Voice(voice.first or "we", voice.at, "user")
    clause = f"we {match['rest']}"
    if _OBJECT.match(clause):
        stated = [draft for draft in read(text[: text.rindex("?")].rpartition(". ")[0], voice) if not draft.closes]
        clause = resolve_object(clause, stated[-1].subject) if stated else ""
        drafts = read_slots(Clause(clause, clause, False), speaker)
        return [draft._replace(object=_add_unit(draft.object, stated[-1].object)) for draft in drafts]
    return list(read_slots(Clause(clause, clause, False), speaker))


def read_reply(text: str, before: Sequence[str], voice: Voice, read: Reader) -> Iterator[tuple[Draft, str]]:
    """Yield the facts of a turn that answers the turn before, each with its sentence."""
    if not before:
        return
    if len(text) > _LONGEST_REPLY:
        return
    plain = sentences.normalise(text.strip())
    if len(plain) <= _LONGEST_ASSENT and PATTERNS["assent"].match(plain):
        for draft in read_proposal(before[0], voice, read):
            yield _weaken(draft), text.strip()
        return
    if len(plain) <= _LONGEST_ASSENT and voice.role == "user":
        chosen = [_weaken(draft) for draft in _read_choice(plain, before[0])]
        yield from ((draft, text.strip()) for draft in chosen)
        if chosen:
            return
    if not _REFERS.search(plain):
        return
    topic: Topic | None = None
    for sentence in sentences.split_sentences(text):
        short = sentences.normalise(sentence.strip())
        if not 2 < len(short) <= _LONGEST or short.endswith("?") or sentences.is_doubtful(short):
            continue
        match = PATTERNS["value reply"].match(short)
        if not match:
            continue
        topic = topic or find_topic(before, voice, read)
        if topic is None:
            return
        value = _read_value(topic, (match["o1"] or match["o2"] or match["o3"] or "").strip(), voice)
        if value and (topic.asked or make_key(value) != make_key(topic.object)):
            draft = Draft(topic.subject, topic.relation, value, topic.qualifier, False, 0.8)
            yield _weaken(draft), sentence.strip()
            return


def _read_choice(answer: str, question: str) -> Iterator[Draft]:
    """Yield the tool that answers "which database should we use?"."""
    last = _find_question(question)
    match = PATTERNS["choice asked"].match(last) if last else None
    if match:
        tools = [tool for tool in read_tool(_ANSWER.sub("", answer)) if is_tool(tool)]
        what, of = match["what"], match["q"] or ""
        purpose = of if of and not find_purpose(what) else what if what.endswith("s") else f"the {what}"
        subject = make_name(of) if is_component(of) else "we"
        yield from (Draft(subject, "uses", tool, purpose, False, 0.8) for tool in tools)


_ANSWER: Final = re.compile(
    r"(?i)\A(?:(?:ok|okay|hm+|well|yes|let's|let us|I would|I will|we will|we|go|use|with|say|take|please)\b[, ]*){0,4}"
    r"| please\Z"
)


def _find_question(text: str) -> str:
    """Return the question at the end of a text, without its mark; "" for none."""
    last = ""
    for sentence in sentences.split_sentences(text[-600:]):
        last = sentence.strip() or last
    return sentences.normalise(last).rstrip("? ") if "?" in last[-3:] else ""


def _weaken(draft: Draft) -> Draft:
    return draft._replace(confidence=round(draft.confidence * LESS, 4))


def _read_value(topic: Topic, raw: str, voice: Voice) -> str:
    """Return a new value of a slot, with the unit of the former one where it has none; "" for another kind."""
    for value in _READERS[topic.relation](raw, voice.at)[:1]:
        if topic.relation in ("is", "set_to", "kept_for"):
            return _add_unit(value, topic.object)
        if value == "me":
            return voice.first
        if topic.relation in ("owned_by", "held_by") and not is_person(value):
            return ""
        return value
    return ""


def _add_unit(value: str, former: str) -> str:
    """Return a number with the unit of the former value; any other value as it is."""
    unit = re.fullmatch(r"[\d.,]+( ?[^\d\s].*)", former) if re.fullmatch(r"[\d.,]+", value) else None
    return value + (unit[1] if unit else "")


def _read_setting(raw: str, at: datetime | None) -> list[str]:
    return read_amount(raw + ".") or [value for value in read_literal(raw) if not value.isalpha() or value in _SWITCHES]


_SWITCHES: Final = frozenset(("on", "off", "true", "false"))


_READERS: Final[dict[str, Callable[[str, datetime | None], list[str]]]] = {
    "is": _read_setting,
    "set_to": _read_setting,
    "kept_for": lambda raw, at: read_amount(raw + "."),
    "version_is": lambda raw, at: read_amount(raw + "."),
    "defaults_to": lambda raw, at: read_literal(raw),
    "uses": lambda raw, at: read_known_tool(raw) or [tool for tool in read_tool(raw) if tool[:1].isupper()],
    "runs_on": lambda raw, at: read_host(raw),
    "located_at": lambda raw, at: read_site(raw),
    "owned_by": lambda raw, at: read_holder(raw),
    "held_by": lambda raw, at: read_holder(raw),
    "scheduled_for": read_when,
    "due": read_when,
    "called": lambda raw, at: read_name(raw),
}
"""Readers of new values, by relation."""


# ---------------------------------------------------------------- pronouns

_VERBS: Final = (
    "is|are|has|have|was|now|runs?|lives?|goes|go|moved|uses?|defaults?|belongs?|sits?|stays?|keeps?|requires?|needs|no|went|got|"
    "takes?|starts?|costs?"
)
_PRONOUN: Final = re.compile(rf"(?:[Ii]t|[Tt]hey|[Tt]hat|[Tt]his|[Tt]hese|[Tt]hose) (?=(?:{_VERBS})\b)")
_SUBJECT: Final = re.compile(
    r"(?:[Tt]he|[Oo]ur) (?P<t>(?:[\w`./'-]+ ){0,3}?[\w`./'-]+) "
    r"(?:is|are|was|were|has|have|had|keeps?|needs?|runs?|fails?|failed|crashed|broke|died|uses?)\b"
)


def find_subject(statement: str) -> str:
    """Return the thing that a statement opens with, or ""."""
    match = _SUBJECT.match(statement)
    return match["t"].replace("`", "") if match else ""


def is_pronoun(clause: str) -> bool:
    """Return whether a clause opens with a pronoun and its verb: "it runs on …"."""
    return _PRONOUN.match(clause) is not None


def resolve_pronoun(clause: str, subject: str) -> str:
    """Return a clause with its subject in place of the pronoun that opens it; "" without a pronoun."""
    match = _PRONOUN.match(clause)
    return f"{subject} {clause[match.end() :]}" if match and subject else ""


_OBJECT: Final = re.compile(
    r"(?P<before>(?:I|[Ww]e) (?:have |am |are |will )?(?:just |now |also |already )?[a-z]+) (?:it|them|that) "
    r"(?=(?:to|at|down|up|back|over|from|out|for) )"
)
_FRAGMENT: Final = re.compile(r"(?:[Tt]he |[Oo]ur |[Mm]y )?[A-Za-z`][\w`'-]*(?: [\w`'-]+){0,4}")


def resolve_object(clause: str, subject: str) -> str:
    """Return "I capped it at 150 MB" with a thing in place of "it"; "" where there is no such pronoun."""
    match = _OBJECT.match(clause)
    return f"{match['before']} the {subject} {clause[match.end() :]}" if match and subject else ""


def find_fragment(clause: str) -> str:
    """Return a clause that only names a thing: "image cache on disk", "" for any other."""
    phrase = clause.rstrip(" .,:;")
    if not _FRAGMENT.fullmatch(phrase):
        return ""
    bare = re.sub(r"\A(?:[Tt]he|[Oo]ur|[Mm]y) ", "", phrase)
    return "" if bare.lower().partition(" ")[0] in WORDS["imperatives"] else read_subject(bare, True)
