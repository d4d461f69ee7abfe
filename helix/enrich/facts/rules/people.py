"""Rules about people: who they are, where they live and work, whom they know."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.rules.grammar import ADVERBS, AND_I, BEFORE, IS, OBJECT, OWNER, make_person, make_verb
from helix.enrich.facts.rules.rule import FactRule, make_rule
from helix.enrich.facts.slots.people import (
    read_called_name,
    read_field,
    read_organisation,
    read_people,
    read_person,
    read_place,
    read_profession,
    read_role,
)
from helix.enrich.facts.slots.values import read_verbatim
from helix.enrich.facts.words import CAP, JOBS, KIN, KIN_ADJECTIVE, NAME, NAMES

DEGREE: Final = "degree|phd|PhD|master's|masters|bachelor's|MSc|BSc"


def _make_kin_rules(relation: str, nouns: str) -> list[FactRule]:
    """Return the rules of one kind of relative, friend, boss or pet."""
    slot = read_person if relation in ("spouse", "partner", "manager") else read_people
    named = "(?: called| named)" if relation == "pet" else "(?: called| named)?"  # "my cat is Black" names none
    whose = rf"{OWNER} {KIN_ADJECTIVE}(?:{nouns})"
    of_mine = rf"(?:an? |the )?{KIN_ADJECTIVE}(?:{nouns}) of (?P<mine>mine|ours)"
    have = r"(?:have|got|have got|(?:have |just |recently ){0,2}(?:adopted|bought|rescued))"
    rules = [
        # my sister Ana; our twins Maud and Basile; Ben's wife Eva; my dog, Rex
        (rf"{whose}(?:,? (?:is )?(?:called|named))?,? (?P<o>{NAMES}.*)", slot, True),
        # my manager is Ottilie
        (rf"{whose}(?:'s name)? (?:is|are){named} (?P<o>{NAMES}(?=[.,!;]| and | who|\Z).*)", slot, False),
        # Anya is my wife; Lenka is a good friend of mine
        (rf"{BEFORE}(?P<o>{NAMES}) (?:is|are) (?:both )?(?:{whose}\b(?! [a-z]+'s)|{of_mine})", read_people, False),
        # I have two sisters, Linnea and Astrid; we adopted a dog named Rex
        (
            rf"{BEFORE}(?P<s>I|[Ww]e) {have} (?:an?|two|three|four|five|my|our) {KIN_ADJECTIVE}(?:{nouns})"
            rf"(?: (?:called|named)|,|:) (?P<o>{NAMES})",
            read_people,
            False,
        ),
    ]
    if relation in ("friend", "colleague"):
        # a friend of mine, Petr,
        rules.append((rf"\b{of_mine},? (?:called )?(?P<o>{NAMES})", read_people, True))
    if relation in ("friend", "colleague", "sibling"):
        # Gerrit and I are colleagues
        both = rf"{AND_I} (?:are|have been) {ADVERBS}(?:best |good |close |old )?(?:{nouns})\b(?! of)"
        rules.append((both, read_people, False))
    return [
        make_rule(relation, cut, 0.9, nouns, pattern, presupposed=presupposed) for pattern, cut, presupposed in rules
    ]


# fmt: off
PEOPLE: Final = (
    *(rule for relation, nouns in KIN.items() for rule in _make_kin_rules(relation, nouns)),
    make_rule("name_is", read_called_name, 0.95, "name",
          rf"\b(?P<s>[Mm]y) (?:full |real |first |actual )?name is{OBJECT}"),
    make_rule("name_is", read_called_name, 0.9, "called go",
          f"{BEFORE}(?P<s>I) (?:am called|go by(?: the name)?(?: of)?){OBJECT}"),
    make_rule("lives_in", read_place, 0.9, "live lives living lived reside resides residing",
          make_verb("live|reside", "lives|resides", "living|residing", "lived") + f" (?:here )?in{OBJECT}"),
    make_rule("lives_in", read_place, 0.8, "based settled", IS + f" {ADVERBS}(?:based|settled) in{OBJECT}"),
    make_rule("lives_in", read_place, 0.85, "moved relocated", make_person("(?:have |has )?(?:moved|relocated)",
          "(?:has )?(?:moved|relocated)") + f" (?:back |over |house |away )?from (?P<old>.{{2,40}}?) to{OBJECT}"),
    make_rule("lives_in", read_place, 0.8, "moved relocated", make_person("(?:have )?(?:moved|relocated)",
          "(?:has )?(?:moved|relocated)") + f" (?:back |over |out |down |up |here )?to{OBJECT}"),
    make_rule("comes_from", read_place, 0.85, "from", IS + f" {ADVERBS}from{OBJECT}"),
    make_rule("comes_from", read_place, 0.9, "come comes hail hails",
          make_person("come|hail", "comes|hails") + f" {ADVERBS}from{OBJECT}"),
    make_rule("comes_from", read_place, 0.75, "grew raised",
          make_person("(?:was born and )?grew up|was (?:born and )?raised", "grew up|was raised") + f" in{OBJECT}"),
    make_rule("comes_from", read_place, 0.75, "born", f"{BEFORE}(?P<s>I) was born(?: and (?:raised|bred))? in{OBJECT}"),
    make_rule("comes_from", read_place, 0.9, "hometown town", rf"\b(?P<s>[Mm]y) home ?town is{OBJECT}"),
    make_rule("works_at", read_organisation, 0.9, "work works working worked",
          make_verb("work", "works", "working", "worked") +
          f" (?:full-time |part-time |as an? [a-z -]{{3,40}} )?(?:at|for){OBJECT}"),
    make_rule("works_at", read_organisation, 0.75, "joined employed hired",
          make_person("(?:have )?joined|(?:am|have been|got) (?:employed|hired) (?:at|by)",
          "(?:has )?joined|is employed (?:at|by)") + OBJECT),
    make_rule("works_at", read_organisation, 0.85, "started job",
          make_person("(?:have )?(?:just )?(?:started working (?:at|for)|(?:got|landed|started) (?:a|my) (?:new )?job "
          "(?:at|with|for))", "(?:has )?(?:just )?(?:started working (?:at|for)|(?:got|landed|started) a (?:new )?job "
          "(?:at|with|for))") + OBJECT),
    make_rule("works_as", read_role, 0.9, "work works working worked", make_verb("work", "works", "working", "worked") +
          f" (?:(?:at|for) [^,.;]{{2,40}} )?(?:full-time |part-time |there )?as (?:an?|the|their){OBJECT}"),
    make_rule("works_as", read_profession, 0.85, " ".join(JOBS), IS + f" {ADVERBS}(?:an?|the){OBJECT}"),
    make_rule("works_as", read_profession, 0.85, "became become promoted",
          make_person("(?:have )?(?:became|become)(?: an?| the)|"
          "(?:have been |was |got |have )?promoted to(?: an?| the)?",
          "became(?: an?| the)|(?:was|got|has been) promoted to(?: an?| the)?") + OBJECT),
    make_rule("works_as", read_profession, 0.85, "job",
          rf"\b(?P<s>[Mm]y) (?:current |day )?job is (?:an?|the){OBJECT}"),
    make_rule("studies_at", read_organisation, 0.9, "study studies studying",
          make_verb("study", "studies", "studying") + f"(?: [^.;!?]{{2,60}}?)?(?: here| there)? at{OBJECT}"),
    make_rule("studies_at", read_organisation, 0.9,
          "student enrolled freshman undergrad undergraduate sophomore postgrad doing",
          IS + rf" {ADVERBS}(?:an? (?:[\w'-]+ ){{0,4}}(?:student|freshman|sophomore|undergrad|undergraduate|"
          f"postgrad) (?:at|in)|enrolled (?:at|in)|doing (?:a|my) [^.,;]{{2,40}} at){OBJECT}"),
    make_rule("studies", read_field, 0.85, "study studies studying",
          make_verb("study", "studies", "studying") + " (?!at |in |for |with )(?P<o>.+)"),
    make_rule("studies", read_field, 0.9, "major majors majoring", make_verb("major", "majors", "majoring") +
          f" in{OBJECT}"),
    make_rule("studies", read_field, 0.85, "degree phd master masters bachelor msc bsc",
          make_person(f"am {ADVERBS}(?:doing|finishing|getting|pursuing) (?:a|my) (?:{DEGREE})(?: degree)?",
          f"is doing (?:a|her|his) (?:{DEGREE})") + f" (?:in|on){OBJECT}"),
    make_rule("studies", read_field, 0.8, "student",
          IS + rf" {ADVERBS}an? (?:[\w-]+ year )?(?P<o>[a-z]+(?: [a-z]+){{0,2}}) student\b"),
    make_rule("born_on", read_verbatim, 0.95, "born",
          f"(?:{BEFORE}(?P<s>I)|(?P<n>{NAME}(?: and {NAME})?)) (?:was|were) born (?P<o>(?:on|in) .+)"),
    make_rule("born_on", read_verbatim, 0.9, "birthday birth",
          rf"(?:\b(?P<s>[Mm]y)|\b(?P<n>{CAP})'s) (?:birthday|date of birth) is(?: on)?(?P<o> .+)"),
    make_rule("spouse", read_person, 0.9, "married",
          make_person(f"(?:am|have been|got) {ADVERBS}married to|(?:have )?married",
          f"(?:is|has been|got) {ADVERBS}married to|married") + OBJECT),
    make_rule("spouse", read_person, 0.9, "married", f"{AND_I} (?:are|got|have been) {ADVERBS}married"),
    make_rule("spouse", read_person, 0.9, "divorced", make_person("(?:have )?divorced", "divorced") + OBJECT,
          closes=True),
    make_rule("spouse", read_person, 0.9, "divorced",
          f"{AND_I} (?:are|got|have|are getting)? ?{ADVERBS}divorced", closes=True),
    make_rule("partner", read_person, 0.85, "dating engaged going relationship together",
          make_person(f"(?:am|have been) {ADVERBS}(?:dating|engaged to|going out with|in a relationship with|"
          "together with)",
          f"(?:is|has been) {ADVERBS}(?:dating|engaged to|going out with|in a relationship with|together with)") +
          OBJECT),
    make_rule("partner", read_person, 0.9, "engaged dating couple relationship",
          f"{AND_I} (?:are|got|have been) {ADVERBS}(?:engaged|dating|a couple|in a relationship)"),
    make_rule("partner", read_person, 0.9, "broke split separated broken",
          f"{AND_I} (?:have )?{ADVERBS}(?:broke up|broken up|split up|split|separated)", closes=True),
    make_rule("partner", read_person, 0.9, "broke split separated broken",
          make_person("(?:have )?(?:broke|broken|split) up with|(?:have )?separated from",
          "broke up with|split up with|separated from") + OBJECT, closes=True),
    make_rule("manager", read_person, 0.9, "report reports reporting managed",
          make_person("report(?: directly)? to|am managed by|am reporting to",
          "reports(?: directly)? to|is managed by") + OBJECT),
    make_rule("colleague", read_people, 0.75, "work", rf"{BEFORE}(?P<s>I) work with (?P<o>{NAMES}) (?:at|on|in)\b"),
)
# fmt: on
