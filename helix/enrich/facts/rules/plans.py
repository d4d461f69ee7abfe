"""Rules about plans and due dates."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.rules.grammar import ADVERBS, BEFORE, OBJECT, PHRASE, THING, WORD, make_person
from helix.enrich.facts.rules.rule import make_rule
from helix.enrich.facts.slots.values import read_action, read_verbatim
from helix.enrich.facts.words import MONTHS

# Times to come.
TIMES: Final = (
    "tomorrow tonight next week weeks month months year years days weekend spring summer autumn winter christmas "
    "monday tuesday wednesday thursday friday saturday sunday # jan feb mar apr jun jul aug sep sept oct nov dec "
    + MONTHS
)
# "I'm moving in March" is a plan; "I'm working on it until March" is none.
EVENTS: Final = (
    "adopting|attending|auditioning|buying|camping|celebrating|closing|coming|competing|cutting|deploying|driving|"
    "dropping|flying|freezing|getting married|graduating|having|heading|hiking|holding|hosting|interviewing|joining|"
    "launching|leaving|meeting|merging|migrating|moving|opening|organising|organizing|performing|playing|presenting|"
    "publishing|putting|racing|releasing|relocating|renovating|replacing|retiring|returning|rolling|running|seeing|"
    "selling|shipping|signing|starting (?!to)|switching|taking|teaching|throwing|travelling|traveling|upgrading|"
    r"visiting|volunteering|going (?!to (?!the\b|a\b|an\b|my\b|our\b|[A-Z]))"
)

# fmt: off
PLANS: Final = (
    make_rule("plans", read_action, 0.8, "plan plans planning " + TIMES,
          make_person(f"(?:am|are) {ADVERBS}(?:going to|planning to|planning on|off to)|(?:plan|intend) (?:to|on)|will",
          f"is {ADVERBS}(?:going to|planning to|off to)|(?:plans|intends) (?:to|on)") + OBJECT),
    make_rule("plans", read_action, 0.8, TIMES,
          make_person(rf"(?:am|are) {ADVERBS}(?=(?:{EVENTS})\b)", rf"is {ADVERBS}(?=(?:{EVENTS})\b)") +
          r"(?P<o>\w+ing\b.+)"),
    make_rule("due", read_verbatim, 0.9, "due", f"{THING} (?:is|are) {ADVERBS}due(?P<o> .+)"),
    make_rule("due", read_verbatim, 0.9, "deadline",
          rf"\b[Dd]eadline for (?:the |our |my )?(?P<t>{WORD}(?: {WORD}){{0,4}}?) is(?: on)?(?P<o> .+)"),
    make_rule("due", read_verbatim, 0.85, "deadline",
          f"{BEFORE}(?:[Tt]he|[Oo]ur|[Mm]y) (?P<t>{PHRASE}) deadline is(?: on)?(?P<o> .+)"),
)
# fmt: on
