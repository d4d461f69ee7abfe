"""Facts of one sentence: its clauses, the rules matched against them, and the subject it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from helix.enrich.facts import masks, sentences
from helix.enrich.facts.blocks import read_inline
from helix.enrich.facts.changes import Clause, cut_lead, read_slots
from helix.enrich.facts.conduct import CONDUCT_WORDS, read_conduct
from helix.enrich.facts.drafts import Draft, Voice, finish_fact
from helix.enrich.facts.endings import cut_ending
from helix.enrich.facts.people import read_clause
from helix.enrich.facts.reference import (
    LESS,
    find_fragment,
    find_subject,
    find_topic,
    is_pronoun,
    resolve_object,
    resolve_pronoun,
)
from helix.enrich.facts.relations import Fact
from helix.enrich.facts.rules import TRIGGERS, split_tokens
from helix.enrich.facts.slot_rules import SLOT_TRIGGERS
from helix.enrich.facts.words import KIN
from helix.text.dates import find_moments
from helix.text.relations import read_relations

_WORDS: Final = TRIGGERS.keys() | SLOT_TRIGGERS.keys()


@dataclass(slots=True)
class Discourse:
    """A text as it is read: its speaker, the texts before it, and the thing that its last sentence was about."""

    voice: Voice
    before: tuple[str, ...] = ()
    masked: Sequence[str] = ()  # code of the text whose place a mask takes
    subject: str = ""
    _started: bool = field(default=False)

    def move_on(self, subject: str) -> None:
        """Set the thing that the next pronoun refers to."""
        self.subject, self._started = subject, True

    def find_antecedent(self) -> str:
        """Return the thing that a pronoun refers to, "" if unknown."""
        if self._started or not self.before:
            return self.subject
        return _find_last_subject(self.before[0], self.voice._replace(first=self.voice.first or "we"))


@lru_cache(maxsize=256)
def _find_last_subject(text: str, voice: Voice) -> str:
    """Return the thing that a text is about at its end, or ""."""
    topic = find_topic((text,), voice, read_drafts)
    if topic and topic.subject != "we":
        return topic.subject
    last = [sentence.strip() for sentence in sentences.split_sentences(text[-400:]) if sentence.strip()]
    return find_subject(cut_lead(sentences.normalise(last[-1]))[0]) if last else ""


@lru_cache(maxsize=256)
def read_drafts(text: str, voice: Voice) -> list[Draft]:
    """Return the facts of the sentences of a text, without their times."""
    return [
        Draft(fact.subject, fact.relation, fact.object, fact.qualifier, fact.closes, fact.confidence)
        for fact in read_prose(text, Discourse(voice))
    ]


def read_prose(text: str, discourse: Discourse) -> Iterator[Fact]:
    """Yield the facts of a text's sentences, up to its make-believe; a joke or an undoing takes back the last."""
    held: list[Fact] = []
    passed: list[str] = []  # sentences without a fact since the last one that was checked
    for raw in sentences.split_sentences(text):
        sentence = raw.strip()
        if not sentences.is_readable(sentence):
            continue
        found = list(_read_sentence(sentence, discourse))
        passed.append(sentence)
        if not (found or held):
            continue
        if any(map(sentences.is_play, passed)):
            break
        passed = []
        if sentences.is_joke(sentence) or sentences.is_undoing(sentence):
            held = []
            continue
        yield from held
        held = found
    yield from held


def _read_sentence(sentence: str, discourse: Discourse) -> Iterator[Fact]:
    """Yield the facts of one sentence."""
    voice = discourse.voice
    tokens = split_tokens(sentence)
    if _WORDS.isdisjoint(tokens) and CONDUCT_WORDS.isdisjoint(tokens):
        discourse.move_on("")
        return
    whole = sentences.normalise(sentence)
    if voice.role in ("user", "document") and not CONDUCT_WORDS.isdisjoint(tokens):
        yield from (finish_fact(draft, voice, sentence, clause=whole) for draft in read_conduct(whole, voice))
    statement = sentences.cut_question(whole)
    clauses = [_read_clause(text, discourse) for text in sentences.split_clauses(statement)] if statement else []
    if not any(clause.named for clause in clauses):
        discourse.move_on("")
    if not any(clause.has_facts for clause in clauses) or not sentences.is_stated(statement):
        return
    begin, reason = sentences.find_reason(statement)
    reported = False
    for clause, (_, by_tail, by_own) in zip(
        clauses, sentences.attribute_clauses([clause.text for clause in clauses]), strict=True
    ):
        doubts = reported or by_tail
        reported = doubts or by_own
        for draft in _choose(clause, doubts, reported):
            yield _finish(draft, clause, voice, sentence, reason if statement.find(clause.text) < begin else "")


class _Reading(NamedTuple):
    """The facts of a clause before the guards of its sentence."""

    text: str
    plain: str  # with its code, without "no longer"
    drafts: list[Draft]  # by the rules of slots
    others: list[tuple[Draft, bool]]  # by the other rules; whether each holds in a doubtful sentence
    named: bool  # it names a thing, which a later pronoun may stand for

    @property
    def has_facts(self) -> bool:
        """Presence of a fact by any rule."""
        return bool(self.drafts or self.others)


_OF_THINGS: Final = frozenset(name for name, relation in read_relations().items() if relation.about == "thing")
_REASONED: Final = frozenset(name for name, relation in read_relations().items() if relation.about)

_OBJECT_PRONOUN: Final = re.compile(r" (?:it|them|that) (?:to|at|down|up|back|over|from|out|for) ")
_FORMERLY: Final = re.compile(r"(?i)(?:previously|formerly|originally|initially|historically|in the past|back then)\b")
_FRAGMENT: Final = 40  # characters of a clause that only names a thing


def _read_clause(text: str, discourse: Discourse) -> _Reading:
    voice = discourse.voice
    head, purpose = cut_lead(text)
    resolved = resolve_pronoun(head, discourse.find_antecedent()) if is_pronoun(head) else ""
    if not resolved and _OBJECT_PRONOUN.search(head):
        resolved = resolve_object(head, discourse.find_antecedent())
    bare, closes = cut_ending(resolved or text)
    whole = resolved or head
    tokens = [*split_tokens(bare), "longer"] if closes else split_tokens(bare)
    plain = masks.unmask(bare, discourse.masked)
    slots: list[Draft] = []
    others: list[tuple[Draft, bool]] = []
    if not _WORDS.isdisjoint(tokens) and not _FORMERLY.match(head):
        slots = list(read_slots(Clause(whole, cut_ending(whole)[0] if closes else whole, closes, purpose), voice))
        if "=" in plain:
            slots += read_inline(plain, voice.role)
        if not resolved:
            found = read_clause(plain, tokens, voice)
            others = [(draft._replace(closes=draft.closes or closes), assumed) for draft, assumed in found]
    if resolved:
        slots = [draft._replace(confidence=round(draft.confidence * LESS, 4)) for draft in slots]
    things = [draft.subject for draft in slots if draft.relation in _OF_THINGS and draft.subject != "we"]
    subject = things[-1] if things else find_subject(head) or (find_fragment(head) if len(head) < _FRAGMENT else "")
    if subject:
        discourse.move_on(subject)
    return _Reading(text, plain, slots, others, bool(subject))


def _choose(clause: _Reading, doubted: bool, reported: bool) -> list[Draft]:
    """Return the facts of both readings of a clause: that of slots decides uses, the other one all else.

    Args:
        doubted: another clause attributes it to somebody else, or revokes it.
        reported: it is doubted, or attributes something itself.
    """
    known = read_relations()
    slots = [] if doubted else clause.drafts
    doubt = clause.others and (reported or sentences.is_hedged(clause.plain))
    others = [draft for draft, assumed in clause.others if assumed or not doubt]
    if any(draft.relation in KIN for draft in others):
        slots = [draft for draft in slots if draft.relation not in ("is", "called")]
    if any(draft.relation == "uses" for draft in slots):
        # "Decided to use X" is a use.
        others = [draft for draft in others if draft.relation not in ("uses", "decided", "runs_on")]
    longer = [draft for draft in slots if draft.relation in ("is", "set_to") and not draft.closes]
    others = [draft for draft in others if not any(_is_longer(each, draft) for each in longer)]
    taken = {known[draft.relation].slot for draft in others}
    return [*(draft for draft in slots if known[draft.relation].slot not in taken), *others]


def _is_longer(slot: Draft, other: Draft) -> bool:
    """Return whether a slot's value has the unit that another reading lost: "980 euros a month" and "980"."""
    return other.relation == "set_to" and slot.object != other.object and slot.object.startswith(other.object)


def _finish(draft: Draft, clause: _Reading, voice: Voice, sentence: str, reason: str) -> Fact:
    spans = find_moments(clause.plain, voice.at)
    if draft.relation == "decided":  # a date inside the decision is not its time
        begin = clause.plain.find(draft.object.partition(" ")[2])
        spans = [span for span in spans if span.where[1] <= begin]
    why = reason if draft.relation in _REASONED else ""
    return finish_fact(draft, voice, sentence, clause=clause.plain, spans=spans, reason=why)
