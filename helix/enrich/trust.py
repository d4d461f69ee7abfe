"""Confidence in an item by who vouches for it: its speaker, or the user who decided it or agreed to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from helix.enrich.signs import ASSENT, CHOICE, DECISION, ORDER, REJECTS, WEAK_ASSENT, WORDS
from helix.enrich.utterance import SOURCES, SessionItem, Utterance
from helix.text.language_words import has_words
from helix.text.languages import ENGLISH
from helix.text.tokenize import tokenise

TRUST: Final[Mapping[str, float]] = {
    "confirmed": 0.95,  # the user decided it or agreed to it
    "statement": 0.8,  # the user states it
    "document": 0.75,  # written down at some time
    "claim": 0.6,  # an assistant states it
    "report": 0.55,  # a subagent states it
    "output": 0.49,  # true of one moment on one machine; a page, a file or a tool's result may say anything
    "relayed": 0.48,  # an assistant repeats what such a text says
    "note": 0.47,  # an agent wrote it down, perhaps since such a text asked for it
    "context": 0.45,  # inserted by the runtime
    "summary": 0.4,  # retold, with losses
    "speculation": 0.3,  # the speaker is unsure
}
"""Who vouches → confidence, strictly falling."""

LEAST_TRUST: Final = 0.5
"""Least confidence of an item that rules and decisions may come from."""

RELAYED: Final = 0.75
"""Share of an assistant's terms that outputs of tools since the last prompt have, from which on it repeats them."""

_CALL: Final = re.compile(r"(?m)^\[[^\]\n]{1,80}\] .*$")
_LEAST_TERMS: Final = 6
"""Terms of a text that is compared with outputs."""

_TURNS_BACK: Final = 4
"""Turns back in which an order may find its object."""

_BRIEF: Final = 6
"""Words of an answer that is a yes and little else."""

_CHOICE_WORDS: Final = 5
"""Words of an answer that only names its choice."""

_SPEAKERS: Final = frozenset(("human", "assistant", "subagent"))


class Trust(NamedTuple):
    """Confidence in [0, 1], and who vouches: a key of `TRUST`."""

    value: float
    source: str


def judge_trust(utterances: Sequence[Utterance], agreed: set[int]) -> list[Trust]:
    """Return who vouches for each item of a session.

    Args:
        agreed: positions of the items of `find_agreements`.
    """
    sources = ["speculation" if utterance.hedged else SOURCES[utterance.origin] for utterance in utterances]
    for index in find_relayed(utterances):
        sources[index] = "relayed"
    for index, utterance in enumerate(utterances):
        if index in agreed or _is_decision(utterance):
            sources[index] = "confirmed"
    return [Trust(TRUST[source], source) for source in sources]


def find_relayed(utterances: Sequence[Utterance]) -> set[int]:
    """Return the positions of the items in which a machine repeats what a tool returned since the last prompt."""
    relayed: set[int] = set()
    outputs: set[str] = set()
    for index, utterance in enumerate(utterances):
        if utterance.origin == "human":
            outputs.clear()
        elif utterance.origin == "tool":
            outputs |= utterance.terms
        elif utterance.origin in ("assistant", "subagent") and outputs:
            terms = frozenset(tokenise(_CALL.sub(" ", utterance.prose), utterance.language))
            if len(terms) >= _LEAST_TERMS and len(terms & outputs) >= RELAYED * len(terms):
                relayed.add(index)
    return relayed


def _is_decision(utterance: Utterance) -> bool:
    """Return whether the user decides, without a proposal."""
    if utterance.origin != "human" or utterance.hedged:
        return False
    if utterance.language != ENGLISH:
        return has_words(utterance.language, utterance.prose, "cues", "decides")
    return any(sign.is_in(utterance.words, utterance.prose) for sign in DECISION)


def find_agreements(items: Sequence[SessionItem], utterances: Sequence[Utterance]) -> set[int]:
    """Return the positions of the items in which the user agrees to a proposal, and of the proposals."""
    agreed: set[int] = set()
    spoken: list[list[int]] = []  # positions of the items of each turn so far, without tools
    for index, (item, utterance) in enumerate(zip(items, utterances, strict=True)):
        if utterance.origin not in _SPEAKERS:
            continue
        if spoken and items[spoken[-1][0]].turn == item.turn:
            spoken[-1].append(index)  # only the opening of a turn answers
            continue
        target = _find_proposal(utterances, spoken)
        if target and utterance.origin == "human" and not utterance.hedged:
            recent = [utterances[i] for turn in spoken[-_TURNS_BACK:] for i in turn]
            answer = _read_answer(utterance, [utterances[i] for i in target], recent)
            if answer:
                agreed.add(index)
            if answer in ("yes", "order"):
                agreed.update([i for i in target if utterances[i].proposes] or target[-1:])
        spoken.append([index])
    return agreed


def _find_proposal(utterances: Sequence[Utterance], spoken: Sequence[list[int]]) -> list[int]:
    """Return the turn that a user may agree to: a person's proposal just before, else the last turn of a machine."""
    if spoken and utterances[spoken[-1][0]].origin == "human" and any(utterances[i].proposes for i in spoken[-1]):
        return spoken[-1]
    return next((turn for turn in spoken[: -_TURNS_BACK - 1 : -1] if utterances[turn[0]].origin != "human"), [])


def _read_answer(utterance: Utterance, target: Sequence[Utterance], recent: Sequence[Utterance]) -> str:
    """Return how the user agrees: "yes", "order" (do it), "choice" (names one of several), or "" for no agreement.

    Args:
        target: the turn agreed to.
        recent: the last turns, in which an order may find its object.
    """
    prose = utterance.prose
    if utterance.language != ENGLISH:
        proposed = any(other.proposes for other in target)
        return "yes" if proposed and has_words(utterance.language, prose, "claims", "agree") else ""
    if not prose.strip() or REJECTS.search(prose):
        return ""
    machine = target[0].origin != "human"
    proposed = any(other.proposes for other in target)
    content = utterance.terms - WORDS["chatter"]
    shared = any(not content.isdisjoint(other.terms) for other in target)
    # Between friends a long "yeah, …" is warmth more often than a decision.
    if proposed and (machine or shared or utterance.length <= _BRIEF) and ASSENT.search(prose):
        return "yes"
    if utterance.asks:
        return ""
    if proposed and shared and WEAK_ASSENT.search(prose):
        return "yes"
    order = ORDER.search(prose)
    if order and (order["it"] or (machine and any(not content.isdisjoint(other.terms) for other in recent))):
        return "order"
    return "choice" if machine and (CHOICE.search(prose) or _is_repetition(utterance, content, target)) else ""


def _is_repetition(utterance: Utterance, content: frozenset[str], target: Sequence[Utterance]) -> bool:
    """Return whether a short answer only repeats words of the turn before."""
    offered = frozenset[str]().union(*(other.terms for other in target))
    return bool(content) and utterance.length <= _CHOICE_WORDS and content <= offered
