"""Facts of a text: of its blocks, of its sentences, and of its answer to the turn before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from helix.enrich.facts.blocks import has_blocks, read_blocks
from helix.enrich.facts.drafts import WEIGHTS, Voice, finish_fact
from helix.enrich.facts.masks import mask_code, unmask_fact
from helix.enrich.facts.reference import read_reply
from helix.enrich.facts.relations import Fact
from helix.enrich.facts.slots import make_key
from helix.enrich.facts.statements import Discourse, read_drafts, read_prose

MAX_CHARS: Final = 16_000
"""Characters of a text that are searched; items are far shorter."""

MAX_FACTS: Final = 32
"""Facts of one text: the first ones."""


def extract_facts(
    text: str, speaker: str | None, role: str, origin: str, at: datetime | None, before: Sequence[str] = ()
) -> list[Fact]:
    """Return the facts that `text` states, each triple once, at most `MAX_FACTS`: of blocks, then of sentences.

    Tools and runtime context state nothing, an assistant nothing about itself. "I" is the speaker, or "user" in a
    user's turn without one; "we" stays "we".

    Args:
        text: an item; only the first `MAX_CHARS` characters are searched.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
        at: time of the turn, aware; relative dates count from it.
        before: the texts before it in its session, the nearest first: "it" and "yes, do it" refer to them.
    """
    if role not in WEIGHTS or origin in ("tool", "runtime_context"):
        return []
    name = " ".join((speaker or "").split())
    name = name if make_key(name) else ""
    voice = Voice("" if role == "assistant" else name or ("user" if role == "user" else ""), at, role)
    facts: dict[tuple[str, str, str, str, bool], Fact] = {}
    for fact in _read(text[:MAX_CHARS].replace("’", "'").replace("‘", "'"), voice, tuple(before)):
        facts.setdefault((fact.subject_key, fact.relation, fact.object_key, fact.qualifier, fact.closes), fact)
        if len(facts) >= MAX_FACTS:
            break
    return list(facts.values())


def _read(text: str, voice: Voice, before: tuple[str, ...]) -> Iterator[Fact]:
    if has_blocks(text):
        yield from (finish_fact(draft, voice, line, clause=line) for draft, line in read_blocks(text, voice.role))
    masked, spans = mask_code(text)
    stated = False
    for fact in read_prose(masked, Discourse(voice, before, spans)):
        stated = True
        yield unmask_fact(fact, spans) if spans else fact
    if before and not stated and voice.role in ("user", "assistant"):
        for draft, sentence in read_reply(text, before, voice, read_drafts):
            yield finish_fact(draft, voice, sentence, clause=sentence)
