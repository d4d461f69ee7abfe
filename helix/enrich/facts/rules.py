"""The table of patterns: relation, slot, confidence 0–1, the words without which none can match, the pattern.

The first rule to find a fact gives its confidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from helix.enrich.facts import slots
from helix.enrich.facts.words import (
    ANY_KIN,
    CAP,
    DIETS,
    JOBS,
    KIN,
    KIN_ADJECTIVE,
    MONTHS,
    NAME,
    NAMES,
    OTHER_KIN,
    SETTING_NOUN,
)


class Rule(NamedTuple):
    """One pattern of a relation; a clause with none of the words `needs` is not searched.

    Groups: `s`, `n`, `kin`, `mine`, `we` the person or `t`, `app` the thing spoken of, `det` its determiner; `agent`
    who changed it; `o` the object, cut by the slot; `old` the object that ends; `thing` what a person looks after.
    """

    relation: str
    slot: Callable[[str], list[str]]
    confidence: float
    needs: frozenset[str]
    pattern: str
    closes: bool = False
    presupposed: bool = False  # true whatever the sentence does with it: "my sister Ana would hate that"
    negative: bool = False  # the pattern itself holds the negation


_TOKEN: Final = re.compile(r"[a-zß-öø-ÿ]+|[/_#]")


def tokens(text: str) -> list[str]:
    """What `Rule.needs` holds, of a text in any case; "#" stands for a digit where a time is looked for."""
    return _TOKEN.findall(text.lower())


def _rule(
    relation: str, slot: Callable[[str], list[str]], confidence: float, needs: str, pattern: str, **flags: bool
) -> Rule:
    return Rule(relation, slot, confidence, frozenset(tokens(needs)), pattern, **flags)


# Where a subject may stand: at the begin of a clause, or after a word that is no part of it.
_BEFORE: Final = (
    r"(?:^|\A(?i:for|in|on|at|as of|after|since) [^,]{2,30} (?=(?:I|we) )|[,(\]] ?|: |\b(?i:and|but|so|because|since|"
    "yeah|yes|ok|okay|well|now|btw|also|actually|currently|today|yesterday|nowadays|days|years?|months?|weeks?|spring|"
    "summer|autumn|fall|winter|weekend|ago|hi|hey|hello|oh|no|sorry|thanks|fyi|honestly|finally|recently|officially|"
    rf"obviously|unfortunately|sadly|luckily|{MONTHS}|(?:19|20)\d\d) )"
)
# Adverbs between a subject and its verb.
_ADV: Final = (
    "(?:(?:now|currently|still|just|also|actually|really|always|both|recently|already|finally|happily|mostly|mainly|"
    "officially|absolutely|totally|truly|definitely|generally|usually|normally|very|so|primarily|exclusively|"
    "internally|personally|all|only|obviously|presently|strongly|much|proudly|originally|quietly|secretly|simply|"
    "often|severely|deeply|pretty|completely|have|successfully|temporarily|newly|strictly|gladly|quite|highly|"
    "terribly|mildly|deathly|extremely|formally|sadly|together|since|ultimately|unanimously|jointly|in the end) ){0,3}"
)
_KIN_SUBJECT: Final = rf"(?:[Mm]y|[Oo]ur) {KIN_ADJECTIVE}(?:{ANY_KIN}|{OTHER_KIN}),? (?P<kin>{NAME})"
_THIRD: Final = rf"(?:{_KIN_SUBJECT}|(?:(?:[Gg]randpa|[Gg]randma|[Uu]ncle|[Aa]unt|[Cc]ousin) )?(?P<n>{NAME}))(?:,)?"


def _who(first: str, third: str) -> str:
    """A person as the subject, with the verb as it agrees: "I|we" `first`, a name `third`."""
    return rf"{_BEFORE}(?:(?P<s>I|[Ww]e) {_ADV}(?:{first})|{_THIRD} {_ADV}(?:{third}))"


def _verb(base: str, third: str, ing: str, participle: str = "(?!)") -> str:
    """The present of a verb, simple, progressive and perfect; with its participle "have worked" too."""
    return _who(
        f"{base}|(?:am |are )?{_ADV}(?:{ing})|have {_ADV}been (?:{ing})|have {participle}",
        f"{third}|is {_ADV}(?:{ing})|(?:has|is) {_ADV}been (?:{ing})|has {participle}",
    )


_BE: Final = _who("am|are|have been", "is|has been")
_O: Final = " (?P<o>.+)"

# People.
_OWNER: Final = rf"(?:\b(?P<s>[Mm]y|[Oo]ur)|\b(?P<n>{CAP})'s)"
_AND_I: Final = f"(?P<o>{NAME}) & (?P<s>I)"
_TEAM: Final = "(?P<we>(?:[Tt]he|[Oo]ur) (?:whole )?team)"
_HELD: Final = (
    "house|flat|apartment|cottage|cabin|farm|boat|car|van|motorbike|motorcycle|bike|campervan|caravan|piano|guitar|"
    "violin|cello|telescope|tractor|truck|yacht|scooter|kayak|canoe|greenhouse|allotment|vineyard"
)
_BOUGHT: Final = (
    f"{_HELD}|condo|bicycle|camera|laptop|phone|narrowboat|houseboat|drum kit|synthesizer|keyboard|tent|surfboard|"
    "printer|drone|bakery|shop|studio|farmhouse|barn|plot|bungalow|Tesla|sailboat|ebike|e-bike|moped|console|tablet|"
    "watch|horse|loom|kiln|sewing machine|accordion|saxophone|trumpet|harp"
)
_FOND: Final = (
    "into|fond of|keen on|obsessed with|crazy about|mad about|a sucker for|"
    "an? (?:big |huge |massive |great |real |total |avid |lifelong )?fan of"
)
_DEGREE: Final = "degree|phd|PhD|master's|masters|bachelor's|MSc|BSc"

# Things and what is done to them.
_WORD: Final = r"[A-Za-z`\"'$][\w./`\"'-]{0,50}"
_WORDS: Final = rf"{_WORD}(?: {_WORD}){{0,3}}?"
_THING: Final = (
    f"{_BEFORE}(?:(?P<det>[Tt]he|[Oo]ur|[Mm]y|[Tt]heir|[Ii]ts|[Aa]ll|[Tt]his) (?:(?:the|our|new|default) )?)?"
    f"(?P<t>{_WORDS})"
)
_DETERMINED: Final = rf"{_BEFORE}(?P<det>[Tt]he|[Oo]ur|[Mm]y|[Ii]ts) (?:new )?(?P<t>{_WORDS})"
_AGENT: Final = f"{_BEFORE}(?P<agent>I|[Ww]e|{NAME}) "
_LATELY: Final = "(?:have |has |just |already |also |finally |recently |now ){0,3}"
_JUST: Final = "(?:have |has |just |already |also ){0,3}"


def _done(verbs: str) -> str:
    """Somebody did it; without a subject only as a report: "Changed the limit from 3 to 8." """
    capital = "|".join(verb.capitalize() for verb in verbs.split("|"))
    return rf"(?:{_AGENT}{_LATELY}(?:{verbs})|\A(?!cut|Cut)(?:{verbs}|{capital}))"


_CHANGE: Final = (
    "changed|bumped|raised|lowered|increased|reduced|updated|decreased|cut|dropped|extended|shortened|doubled|halved"
)
_CHANGED: Final = _done(_CHANGE)
_UPGRADED: Final = _done("upgraded|bumped|updated|downgraded|migrated|moved|pinned")
_FROM: Final = r"from (?P<old>\S{1,40}(?: (?:seconds?|minutes?|ms|MB|GB|hours?|days?|s))?)"
_PACKAGE: Final = r"(?P<t>[`\"']?[A-Za-z][\w.@/+#`\"'-]{0,40}(?: [A-Z][\w.]{0,20}){0,2})"
_PROJECT: Final = "project|repo|service|app|backend|frontend|team|codebase"
_VERSION: Final = r"(?:version )?(?P<o>v?\d.*)"

# Times to come.
_TIMES: Final = (
    "tomorrow tonight next week weeks month months year years days weekend spring summer autumn winter christmas "
    "monday tuesday wednesday thursday friday saturday sunday # jan feb mar apr jun jul aug sep sept oct nov dec "
    + MONTHS
)
# "I'm moving in March" is a plan; "I'm working on it until March" is none.
_EVENTS: Final = (
    "adopting|attending|auditioning|buying|camping|celebrating|closing|coming|competing|cutting|deploying|driving|"
    "dropping|flying|freezing|getting married|graduating|having|heading|hiking|holding|hosting|interviewing|joining|"
    "launching|leaving|meeting|merging|migrating|moving|opening|organising|organizing|performing|playing|presenting|"
    "publishing|putting|racing|releasing|relocating|renovating|replacing|retiring|returning|rolling|running|seeing|"
    "selling|shipping|signing|starting (?!to)|switching|taking|teaching|throwing|travelling|traveling|upgrading|"
    r"visiting|volunteering|going (?!to (?!the\b|a\b|an\b|my\b|our\b|[A-Z]))"
)


def _kin(relation: str, nouns: str) -> list[Rule]:
    """The patterns of one kind of relative, friend, boss or pet."""
    slot = slots.person if relation in ("spouse", "partner", "manager") else slots.people
    named = "(?: called| named)" if relation == "pet" else "(?: called| named)?"  # "my cat is Black" names none
    whose = rf"{_OWNER} {KIN_ADJECTIVE}(?:{nouns})"
    of_mine = rf"(?:an? |the )?{KIN_ADJECTIVE}(?:{nouns}) of (?P<mine>mine|ours)"
    have = r"(?:have|got|have got|(?:have |just |recently ){0,2}(?:adopted|bought|rescued))"
    rules = [
        # my sister Ana; our twins Maud and Basile; Ben's wife Eva; my dog, Rex
        (rf"{whose}(?:,? (?:is )?(?:called|named))?,? (?P<o>{NAMES}.*)", slot, True),
        # my manager is Ottilie
        (rf"{whose}(?:'s name)? (?:is|are){named} (?P<o>{NAMES}(?=[.,!;]| and | who|\Z).*)", slot, False),
        # Anya is my wife; Lenka is a good friend of mine
        (rf"{_BEFORE}(?P<o>{NAMES}) (?:is|are) (?:both )?(?:{whose}\b(?! [a-z]+'s)|{of_mine})", slots.people, False),
        # I have two sisters, Linnea and Astrid; we adopted a dog named Rex
        (
            rf"{_BEFORE}(?P<s>I|[Ww]e) {have} (?:an?|two|three|four|five|my|our) {KIN_ADJECTIVE}(?:{nouns})"
            rf"(?: (?:called|named)|,|:) (?P<o>{NAMES})",
            slots.people,
            False,
        ),
    ]
    if relation in ("friend", "colleague"):
        # a friend of mine, Petr,
        rules.append((rf"\b{of_mine},? (?:called )?(?P<o>{NAMES})", slots.people, True))
    if relation in ("friend", "colleague", "sibling"):
        # Gerrit and I are colleagues
        both = rf"{_AND_I} (?:are|have been) {_ADV}(?:best |good |close |old )?(?:{nouns})\b(?! of)"
        rules.append((both, slots.people, False))
    return [_rule(relation, cut, 0.9, nouns, pattern, presupposed=presupposed) for pattern, cut, presupposed in rules]


# fmt: off
RULES: Final[tuple[Rule, ...]] = (
    # people
    *(rule for relation, nouns in KIN.items() for rule in _kin(relation, nouns)),
    _rule("name_is", slots.called, 0.95, "name", rf"\b(?P<s>[Mm]y) (?:full |real |first |actual )?name is{_O}"),
    _rule("name_is", slots.called, 0.9, "called go",
          f"{_BEFORE}(?P<s>I) (?:am called|go by(?: the name)?(?: of)?){_O}"),
    _rule("lives_in", slots.place, 0.9, "live lives living lived reside resides residing",
          _verb("live|reside", "lives|resides", "living|residing", "lived") + f" (?:here )?in{_O}"),
    _rule("lives_in", slots.place, 0.8, "based settled", _BE + f" {_ADV}(?:based|settled) in{_O}"),
    _rule("lives_in", slots.place, 0.85, "moved relocated", _who("(?:have |has )?(?:moved|relocated)",
          "(?:has )?(?:moved|relocated)") + f" (?:back |over |house |away )?from (?P<old>.{{2,40}}?) to{_O}"),
    _rule("lives_in", slots.place, 0.8, "moved relocated", _who("(?:have )?(?:moved|relocated)",
          "(?:has )?(?:moved|relocated)") + f" (?:back |over |out |down |up |here )?to{_O}"),
    _rule("comes_from", slots.place, 0.85, "from", _BE + f" {_ADV}from{_O}"),
    _rule("comes_from", slots.place, 0.9, "come comes hail hails",
          _who("come|hail", "comes|hails") + f" {_ADV}from{_O}"),
    _rule("comes_from", slots.place, 0.75, "grew raised",
          _who("(?:was born and )?grew up|was (?:born and )?raised", "grew up|was raised") + f" in{_O}"),
    _rule("comes_from", slots.place, 0.75, "born", f"{_BEFORE}(?P<s>I) was born(?: and (?:raised|bred))? in{_O}"),
    _rule("comes_from", slots.place, 0.9, "hometown town", rf"\b(?P<s>[Mm]y) home ?town is{_O}"),
    _rule("works_at", slots.organisation, 0.9, "work works working worked",
          _verb("work", "works", "working", "worked") +
          f" (?:full-time |part-time |as an? [a-z -]{{3,40}} )?(?:at|for){_O}"),
    _rule("works_at", slots.organisation, 0.75, "joined employed hired",
          _who("(?:have )?joined|(?:am|have been|got) (?:employed|hired) (?:at|by)",
          "(?:has )?joined|is employed (?:at|by)") + _O),
    _rule("works_at", slots.organisation, 0.85, "started job",
          _who("(?:have )?(?:just )?(?:started working (?:at|for)|(?:got|landed|started) (?:a|my) (?:new )?job "
          "(?:at|with|for))", "(?:has )?(?:just )?(?:started working (?:at|for)|(?:got|landed|started) a (?:new )?job "
          "(?:at|with|for))") + _O),
    _rule("works_as", slots.role, 0.9, "work works working worked", _verb("work", "works", "working", "worked") +
          f" (?:(?:at|for) [^,.;]{{2,40}} )?(?:full-time |part-time |there )?as (?:an?|the|their){_O}"),
    _rule("works_as", slots.profession, 0.85, " ".join(JOBS), _BE + f" {_ADV}(?:an?|the){_O}"),
    _rule("works_as", slots.profession, 0.85, "became become promoted",
          _who("(?:have )?(?:became|become)(?: an?| the)|(?:have been |was |got |have )?promoted to(?: an?| the)?",
          "became(?: an?| the)|(?:was|got|has been) promoted to(?: an?| the)?") + _O),
    _rule("works_as", slots.profession, 0.85, "job", rf"\b(?P<s>[Mm]y) (?:current |day )?job is (?:an?|the){_O}"),
    _rule("studies_at", slots.organisation, 0.9, "study studies studying",
          _verb("study", "studies", "studying") + f"(?: [^.;!?]{{2,60}}?)?(?: here| there)? at{_O}"),
    _rule("studies_at", slots.organisation, 0.9,
          "student enrolled freshman undergrad undergraduate sophomore postgrad doing",
          _BE + rf" {_ADV}(?:an? (?:[\w'-]+ ){{0,4}}(?:student|freshman|sophomore|undergrad|undergraduate|"
          f"postgrad) (?:at|in)|enrolled (?:at|in)|doing (?:a|my) [^.,;]{{2,40}} at){_O}"),
    _rule("studies", slots.field, 0.85, "study studies studying",
          _verb("study", "studies", "studying") + " (?!at |in |for |with )(?P<o>.+)"),
    _rule("studies", slots.field, 0.9, "major majors majoring", _verb("major", "majors", "majoring") + f" in{_O}"),
    _rule("studies", slots.field, 0.85, "degree phd master masters bachelor msc bsc",
          _who(f"am {_ADV}(?:doing|finishing|getting|pursuing) (?:a|my) (?:{_DEGREE})(?: degree)?",
          f"is doing (?:a|her|his) (?:{_DEGREE})") + f" (?:in|on){_O}"),
    _rule("studies", slots.field, 0.8, "student",
          _BE + rf" {_ADV}an? (?:[\w-]+ year )?(?P<o>[a-z]+(?: [a-z]+){{0,2}}) student\b"),
    _rule("born_on", slots.as_said, 0.95, "born",
          f"(?:{_BEFORE}(?P<s>I)|(?P<n>{NAME}(?: and {NAME})?)) (?:was|were) born (?P<o>(?:on|in) .+)"),
    _rule("born_on", slots.as_said, 0.9, "birthday birth",
          rf"(?:\b(?P<s>[Mm]y)|\b(?P<n>{CAP})'s) (?:birthday|date of birth) is(?: on)?(?P<o> .+)"),
    _rule("spouse", slots.person, 0.9, "married", _who(f"(?:am|have been|got) {_ADV}married to|(?:have )?married",
          f"(?:is|has been|got) {_ADV}married to|married") + _O),
    _rule("spouse", slots.person, 0.9, "married", f"{_AND_I} (?:are|got|have been) {_ADV}married"),
    _rule("spouse", slots.person, 0.9, "divorced", _who("(?:have )?divorced", "divorced") + _O, closes=True),
    _rule("spouse", slots.person, 0.9, "divorced",
          f"{_AND_I} (?:are|got|have|are getting)? ?{_ADV}divorced", closes=True),
    _rule("partner", slots.person, 0.85, "dating engaged going relationship together",
          _who(f"(?:am|have been) {_ADV}(?:dating|engaged to|going out with|in a relationship with|together with)",
          f"(?:is|has been) {_ADV}(?:dating|engaged to|going out with|in a relationship with|together with)") + _O),
    _rule("partner", slots.person, 0.9, "engaged dating couple relationship",
          f"{_AND_I} (?:are|got|have been) {_ADV}(?:engaged|dating|a couple|in a relationship)"),
    _rule("partner", slots.person, 0.9, "broke split separated broken",
          f"{_AND_I} (?:have )?{_ADV}(?:broke up|broken up|split up|split|separated)", closes=True),
    _rule("partner", slots.person, 0.9, "broke split separated broken",
          _who("(?:have )?(?:broke|broken|split) up with|(?:have )?separated from",
          "broke up with|split up with|separated from") + _O, closes=True),
    _rule("manager", slots.person, 0.9, "report reports reporting managed",
          _who("report(?: directly)? to|am managed by|am reporting to", "reports(?: directly)? to|is managed by") + _O),
    _rule("colleague", slots.people, 0.75, "work", rf"{_BEFORE}(?P<s>I) work with (?P<o>{NAMES}) (?:at|on|in)\b"),
    # possessions and tastes
    _rule("owns", slots.possession, 0.9, "own owns", _who("own", "owns") + _O),
    _rule("owns", slots.possession, 0.8, "bought purchased inherited",
          _who(f"(?:have )?{_ADV}(?:bought|purchased|inherited)(?: ourselves| myself| us)?",
          "(?:has )?(?:bought|purchased|inherited)") + rf" (?P<o>(?:an?|our|my) (?:[\w-]+ ){{0,3}}?(?:{_BOUGHT})\b.*)"),
    _rule("owns", slots.possession, 0.75, "drive drives",
          _who("drive", "drives") + r" (?P<o>an? (?:[\w-]+ ){0,2}[A-Z0-9].*)"),
    _rule("owns", slots.possession, 0.8, "sold", _who("(?:have )?sold", "(?:has )?sold") +
          r" (?P<o>(?:my|our|his|her|their) (?:[\w-]+ ){0,3}.*)", closes=True),
    _rule("likes", slots.taste, 0.85,
          "love loves like likes enjoy enjoys adore adores into fond keen obsessed fan crazy mad sucker",
          _who(f"love|like|enjoy|adore|(?:am|are|have been) {_ADV}(?:{_FOND})",
          f"loves|likes|enjoys|adores|(?:is|has been) {_ADV}(?:{_FOND})") + _O),
    _rule("likes", slots.taste, 0.8, "favourite favorite",
          r"\b(?P<s>[Mm]y) (?:all-time )?(?:favou?rite) (?:[a-z]+ ){0,2}"
          "(?:is|are) (?P<o>(?!when|how|that|to|the one|probably).+)"),
    _rule("dislikes", slots.taste, 0.85,
          "hate hates dislike dislikes detest detests loathe loathes despise despises stand bear",
          _who("hate|dislike|detest|loathe|despise|can not stand|can not bear",
          "hates|dislikes|detests|loathes|despises|can not stand|can not bear") + _O, negative=True),
    _rule("dislikes", slots.taste, 0.8, "not",
          _who("do not (?:really )?(?:like|enjoy)|am not (?:really )?(?:a |an? )?(?:big |huge )?(?:fan of|into|fond of|"
          "keen on)", "does not (?:really )?(?:like|enjoy)") + _O, negative=True),
    _rule("prefers", slots.one_thing, 0.9, "prefer prefers", _who("prefer", "prefers") + _O),
    _rule("allergic_to", slots.taste, 0.95, "allergic", _BE + f" {_ADV}allergic to{_O}"),
    _rule("allergic_to", slots.taste, 0.9, "allergy",
          _who("have", "has") + " (?:an? |this )?(?:severe |bad |mild |terrible |serious |strong |"
          r"nasty )?(?P<o>[a-z]+(?: [a-z]+)?) allergy(?=[.,;!]|\Z| (?:and|so|but|that|which|since)\b)"),
    _rule("allergic_to", slots.taste, 0.9, "allergy", _who("have", "has") + f" (?:an? )?(?:[a-z]+ )?allergy to{_O}"),
    _rule("diet", slots.diet, 0.9, "vegan vegetarian pescatarian pescetarian flexitarian free keto ketogenic paleo carb"
          " fodmap based halal kosher carnivore teetotal mediterranean",
          _who("am|have been|went|turned|became|eat|am eating|follow|am on|am following",
          "is|has been|went|turned|became|eats|is eating|follows|is on|is following") +
          rf" {_ADV}(?P<o>(?:an? )?(?:strict(?:ly)? |fully |mostly |completely )?(?:{DIETS})\b.*)"),
    _rule("speaks", slots.languages, 0.95, "speak speaks fluent", _who(f"(?:can )?speak|am {_ADV}fluent in",
          f"(?:can )?speaks?|is {_ADV}fluent in") + " (?:fluent |native |both |a little |a bit of |some )?(?P<o>.+)"),
    _rule("speaks", slots.languages, 0.95, "language tongue",
          rf"\b(?P<s>[Mm]y) (?:native language|mother tongue|first language|native tongue) is{_O}"),
    # tools and decisions
    _rule("uses", slots.tool, 0.85, "use uses using rely relies relying",
          _who(f"use|(?:am|are) {_ADV}using|have {_ADV}been using|rely on|are {_ADV}relying on|using",
          f"uses|is {_ADV}using|relies on") + _O),
    _rule("uses", slots.tool, 0.8, "uses use using",
          f"{_BEFORE}(?P<we>(?:[Oo]ur|[Tt]he) (?:whole |entire )?team) {_ADV}(?:uses?|is using){_O}"),
    _rule("uses", slots.tool, 0.9, "switched migrated moved ported went changed transitioned",
          _who(f"(?:have )?{_ADV}(?:switched|migrated|moved|ported|went|changed|transitioned)"
          "(?: [a-z -]{2,30}?| everything| over| away)?", "(?:has )?(?:switched|migrated|moved)(?: over)?") +
          f" from (?P<old>.{{2,40}}?) (?:over )?to{_O}"),
    _rule("uses", slots.tool, 0.8, "switched migrated",
          _who(f"(?:have )?{_ADV}(?:switched|migrated)(?: [a-z ]{{2,30}}?| over| everything)?",
          "(?:has )?(?:switched|migrated)(?: over)?") + f" to{_O}"),
    _rule("uses", slots.tool, 0.9, "replaced swapped", _who(f"(?:have )?{_ADV}(?:replaced|swapped(?: out)?)",
          "(?:has )?(?:replaced|swapped(?: out)?)") + f" (?P<old>.{{2,40}}?) (?:with|by|for){_O}"),
    _rule("uses", slots.tool, 0.8, "dropped ditched rid phased abandoned retired away off",
          _who(f"(?:have )?{_ADV}(?:dropped|ditched|abandoned|got rid of|gotten rid of|phased out|retired|(?:moved|"
          "migrated) (?:away from|off(?: of)?))", "(?:has )?(?:dropped|ditched|got rid of)") +
          " (?P<o>[A-Z].+)", closes=True),
    _rule("decided", slots.action, 0.9, "decided agreed chose opted resolved",
          f"(?:{_BEFORE}|(?<!that )(?<!what )(?<!thing "
          rf")\b(?=(?:I|we)\b))(?:(?P<s>I|[Ww]e)|{_TEAM}|(?P<n>{NAME})) (?:have |has |all |finally |also |just |"
          f"then |had ){{0,3}}{_ADV}(?:decided|agreed|chose|opted|resolved) to{_O}"),
    _rule("decided", slots.one_thing, 0.75, "decided settled",
          f"{_BEFORE}(?:(?P<s>I|[Ww]e)|{_TEAM}) (?:have |all |finally |"
          r"also |just ){0,3}(?:decided on|settled on) (?P<o>(?!\d|version|one|two|three|four|five)[^:]+)\Z"),
    _rule("decided", slots.action, 0.8, "decision",
          f"{_BEFORE}(?P<we>(?:[Tt]he|[Oo]ur) (?:final )?decision) (?:is|was) to{_O}"),
    # configuration
    _rule("set_to", slots.value, 0.9, "set configured",
          f"{_THING} (?:is|are|was|were|has been|have been|had been) {_ADV}(?:set|configured) to{_O}"),
    _rule("set_to", slots.value, 0.85, "set",
          rf"{_AGENT}{_JUST}set (?!up\b|my\b)(?:the |our )?(?P<t>{_WORDS}) (?:back )?to{_O}"),
    _rule("set_to", slots.value, 0.9, _CHANGE,
          rf"{_CHANGED} (?:the |our )?(?!my\b)(?P<t>{_WORDS}) {_FROM} (?:down |up |back )?to{_O}"),
    _rule("set_to", slots.number, 0.85, "changed bumped raised lowered increased reduced extended decreased",
          rf"{_CHANGED} (?:the |our )?(?!my\b)(?P<t>{_WORDS}) (?:down |up |back )?to{_O}"),
    _rule("set_to", slots.value, 0.9, "_",
          f"{_BEFORE}(?P<t>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+) "
          rf"(?:is|are) {_ADV}(?:at )?(?P<o>[`\"']?(?:\d|true\b|false\b|on\b|off\b|enabled\b|disabled\b|True\b|"
          r"False\b|/|https?:).*)"),
    _rule("set_to", slots.number, 0.75, SETTING_NOUN,
          f"{_BEFORE}(?P<det>[Tt]he|[Oo]ur|[Mm]y) (?P<t>(?:{_WORD} ){{0,3}}?(?i:{SETTING_NOUN})) (?:is|are) (?:now |"
          r"currently |still |back to |back at |at |only |already ){0,2}(?P<o>[`\"']?\d.*)"),
    _rule("version_is", slots.version, 0.9, "upgraded bumped updated downgraded migrated moved went",
          rf"{_UPGRADED}(?: from)? (?:the |our |my )?{_PACKAGE}(?: version)? (?:from )?(?P<old>v?\d[\w.-]{{0,20}}) to "
          r"(?:[A-Z]\w* )?(?P<o>v?\d.*)"),
    _rule("version_is", slots.version, 0.85, "upgraded bumped updated downgraded pinned",
          f"{_UPGRADED} (?:the |our |my )?{_PACKAGE} (?:up |down |back )?(?:to|at) {_VERSION}"),
    _rule("version_is", slots.version, 0.85, "upgraded updated moved switched migrated",
          f"{_BEFORE}(?P<agent>[Ww]e|I) (?:have |just |already |also |finally ){{0,3}}(?:upgraded|updated|moved|"
          rf"switched|migrated) to (?P<t>[A-Za-z][\w.@/+#-]{{0,40}}) {_VERSION}"),
    _rule("version_is", slots.version, 0.85, "on using running at",
          rf"{_BEFORE}(?P<agent>[Ww]e|I|[Oo]ur \w+|[Tt]he (?:{_PROJECT})) (?:are|am|is) {_ADV}(?:on|at|running|"
          rf"running on) (?P<t>[A-Za-z][\w.@/+#-]{{0,40}}(?: [A-Z]\w+)?) {_VERSION}"),
    _rule("version_is", slots.version, 0.8, "runs run use uses",
          rf"{_BEFORE}(?P<agent>[Ww]e|[Oo]ur \w+|[Tt]he (?:{_PROJECT}|"
          rf"CI)) {_ADV}(?:runs?) (?:on )?(?P<t>[A-Z][\w.+#-]{{0,40}}) {_VERSION}"),
    _rule("version_is", slots.version, 0.85, "version at on",
          rf"{_BEFORE}(?P<det>[Tt]he |[Oo]ur )?(?P<t>[\w.+#-]{{2,40}}(?: "
          rf"[\w.+#-]{{2,30}})?) (?:is|are) {_ADV}(?:at|on) (?:version |(?=v?\d+\.\d))(?P<o>v?\d.*)"),
    _rule("version_is", slots.version, 0.85, "pinned upgraded updated bumped",
          f"{_THING} (?:is|was|has been) {_ADV}(?:pinned (?:to|at)|upgraded to|updated to|bumped to) {_VERSION}"),
    _rule("runs_on", slots.host, 0.85, "run runs listen listens hosted deployed listening running",
          f"{_DETERMINED} {_ADV}(?:runs?|listens?|lives?(?= on )|(?:is|are) {_ADV}(?:running|listening|hosted|"
          f"deployed)) (?:on|at|to){_O}"),
    _rule("runs_on", slots.host, 0.8, "port",
          rf"{_BEFORE}(?P<t>[A-Z][\w-]{{1,30}}(?: [\w-]{{2,20}}){{0,2}}?) {_ADV}(?:runs?|"
          rf"listens?|(?:is|are) {_ADV}(?:running|listening)) on (?P<o>port \d.*)"),
    _rule("located_at", slots.path, 0.85, "/ py toml yaml yml json jsonl ini cfg conf env md txt log sql db sqlite csv"
          " parquet sh ts js tsx rs go lock xml html",
          f"{_THING} (?:is|are|lives?|sits?|goes?|go|stays?) {_ADV}(?:stored |kept |located |saved |found |written |"
          f"defined |configured |mounted |checked in |right )?(?:in|at|under|inside|to){_O}"),
    _rule("located_at", slots.path, 0.8, "moved", f"{_AGENT}{_JUST}(?:moved|put) (?:the |our |"
          rf"my )?(?P<t>{_WORDS}) (?:from \S{{1,60}} )?(?:to|into|in|under){_O}"),
    _rule("located_at", slots.place, 0.8, "office headquarters hq warehouse shop lab studio center centre",
          f"{_BEFORE}(?P<det>[Tt]he|[Oo]ur) (?:new |main |head )?(?P<t>(?:[a-z]+ )?(?:office|headquarters|HQ|warehouse|"
          f"shop|lab|studio|data ?cent(?:re|er))) (?:is|are) {_ADV}(?:located |based )?in{_O}"),
    _rule("owned_by", slots.care, 0.9, "responsible charge own owns owner maintain maintains maintainer care after",
          _who(f"own|am {_ADV}(?:responsible for|in charge of|the owner of)|are {_ADV}(?:responsible for|in charge of)|"
          "maintain|take care of|look after", f"owns|is {_ADV}(?:responsible for|in charge of|the owner of|"
          "the maintainer of)|maintains|takes care of|looks after") + " (?P<thing>(?:the|our|all) .+)"),
    _rule("owned_by", slots.person, 0.9, "owned maintained looked handled led",
          f"{_THING} (?:is|are) {_ADV}(?:owned|maintained|looked after|handled|led) by{_O}"),
    # time
    _rule("plans", slots.action, 0.8, "plan plans planning " + _TIMES,
          _who(f"(?:am|are) {_ADV}(?:going to|planning to|planning on|off to)|(?:plan|intend) (?:to|on)|will",
          f"is {_ADV}(?:going to|planning to|off to)|(?:plans|intends) (?:to|on)") + _O),
    _rule("plans", slots.action, 0.8, _TIMES,
          _who(rf"(?:am|are) {_ADV}(?=(?:{_EVENTS})\b)", rf"is {_ADV}(?=(?:{_EVENTS})\b)") + r"(?P<o>\w+ing\b.+)"),
    _rule("due", slots.as_said, 0.9, "due", f"{_THING} (?:is|are) {_ADV}due(?P<o> .+)"),
    _rule("due", slots.as_said, 0.9, "deadline",
          rf"\b[Dd]eadline for (?:the |our |my )?(?P<t>{_WORD}(?: {_WORD}){{0,4}}?) is(?: on)?(?P<o> .+)"),
    _rule("due", slots.as_said, 0.85, "deadline",
          f"{_BEFORE}(?:[Tt]he|[Oo]ur|[Mm]y) (?P<t>{_WORDS}) deadline is(?: on)?(?P<o> .+)"),
    # endings
    _rule("works_at", slots.organisation, 0.9, "quit left resigned fired laid lost",
          _who(f"(?:have )?{_ADV}(?:quit|left|resigned from|lost|was (?:fired|laid off) from|got (?:fired|"
          "laid off) from)(?: (?:my|the) (?:old )?(?:job|position|role|post|gig))(?: (?:at|with|for))",
          "(?:has )?(?:quit|left|resigned from|lost) (?:her|his|their|the) (?:job|position|role|post) (?:at|with|for)")
          + _O, closes=True),
    _rule("works_at", slots.organisation, 0.85, "quit resigned fired laid", _who("(?:have )?(?:quit|resigned from|"
          "was (?:fired|laid off) from|got (?:fired|laid off) from|(?:have been) laid off from)",
          "(?:has )?(?:quit|resigned from|was (?:fired|laid off) from|got (?:fired|laid off) from)") +
          " (?P<o>[A-Z].+)", closes=True),
    # rarer phrasings
    _rule("name_is", slots.called, 0.85, "name", rf"(?:\A|[,.] )(?P<s>[Nn]ame) is{_O}"),
    _rule("name_is", slots.called, 0.85, "call calls", r"\b(?:[Pp]eople|(?:[Mm]y )?[Ff]riends|[Ee]veryone|[Ee]verybody|"
          "[Tt]hey(?: all)?) (?:just )?calls? (?P<s>me) (?P<o>[A-Z].*)"),
    _rule("name_is", slots.introduced, 0.8, "hi hello hey am", r"\A(?:[Hh]i|[Hh]ello|[Hh]ey)(?: (?:there|all|everyone|"
          "everybody|team|folks))?[,!]? (?P<s>I) am (?P<o>[A-Z].*)"),
    _rule("partner", slots.person, 0.85, "together",
          rf"{_AND_I} (?:are|have been) (?:back |now |still )?together(?= since| now| again|[.!,]|\Z)"),
    _rule("owns", slots.possession, 0.75, "have has got", _who("have(?: got)?|got", "has(?: got)?") +
          rf" (?P<o>an? (?:[\w-]+ ){{0,2}}(?:{_HELD})(?=[.,;!]|\Z| and\b| in\b| near\b| called\b).*)"),
    _rule("uses", slots.tool, 0.9, "dropped ditched abandoned",
          _who("(?:have )?(?:just |finally )?(?:dropped|ditched|abandoned)", "(?:has )?(?:dropped|ditched|abandoned)") +
          rf" (?P<old>\S{{2,30}}(?: \S{{2,20}})?) (?:for|in favou?r of){_O}"),
    _rule("set_to", slots.value, 0.85, "_",
          r"(?:\A|[,(] ?|\band )(?P<t>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+) is (?:now |still |currently )?(?P<o>(?!missing|"
          "required|deprecated|unset|empty|optional|broken|wrong|used|defined|set|the|a|an|what|where|how|in|on|to|"
          "for|just|also|only|always|never|gone|too|so|very|being|already|valid|invalid|ignored|exported|available|"
          r"important)[`\"']?[\w.-]+(?=[`\"']?(?:\Z|[.,;]| on\b| in\b| for\b| now\b| at\b| again\b)).*)"),
    _rule("set_to", slots.number, 0.8, "is",
          rf"{_BEFORE}(?P<t>[A-Z]{{3,}}[A-Z0-9]*) is (?:now |still |currently |set at )?(?P<o>\d.*)"),
    _rule("owned_by", slots.care, 0.85, "responsible charge",
          _who(f"(?:am|are) {_ADV}(?:responsible for|in charge of)", f"is {_ADV}(?:responsible for|in charge of)") +
          r" (?P<thing>(?!the |our |all |my |your |this |that |it\b|\w+ing \w).+)"),
    _rule("owned_by", slots.care, 0.8, "took taken taking",
          _who("(?:have )?(?:took|taken) over", "(?:has )?(?:took|taken) over") + " (?P<thing>(?:the|our|all) .+)"),
    _rule("works_at", slots.nothing, 0.85, "quit left lost job laid fired",
          f"{_BEFORE}(?P<s>I) (?:have )?(?:just |finally |recently )?(?:(?:quit|left|lost|resigned from) my job|"
          r"was laid off|got laid off|was fired|got fired)(?=[.,;!]|\Z| (?:in|on|last|yesterday|today|"
          r"this|two|three|a|after|and|to|a few)\b)", closes=True),
    _rule("spouse", slots.nothing, 0.85, "divorced",
          f"{_BEFORE}(?P<s>I|[Ww]e) (?:am|got|are|have been) (?:now |finally |recently )?divorced(?! from)",
          closes=True),
    _rule("works_as", slots.role, 0.8, "started",
          _who("(?:have )?(?:just )?started as an?", "(?:has )?(?:just )?started as an?") + _O),
    _rule("speaks", slots.languages, 0.9, "speaker", _BE + " (?:a )?native (?P<o>[A-Z][a-z]+) speaker"),
    _rule("uses", slots.tool, 0.8, "uses using",
          rf"{_BEFORE}(?:[Oo]ur (?P<t>[\w-]+(?: [\w-]+)?)|[Tt]he (?P<app>app|project|service|backend|frontend|api|repo|"
          f"pipeline|site|website)) (?:now |currently |still |also ){{0,2}}(?:uses|is using){_O}"),
    _rule("set_to", slots.value, 0.85, "changed raised lowered increased reduced bumped extended decreased",
          f"{_THING} (?:was|were|has been|have been|got) {_ADV}(?:changed|raised|lowered|increased|reduced|bumped|"
          f"extended|decreased) {_FROM} to{_O}"),
    _rule("version_is", slots.version, 0.85, "version",
          rf"{_BEFORE}(?:[Oo]ur|[Tt]he) (?P<t>[\w.+#-]{{2,30}}) version is "
          r"(?:now |currently |still )?(?:at )?(?P<o>v?\d.*)"),
    _rule("decided", slots.action, 0.8, "decided agreed",
          f"{_BEFORE}(?P<s>I|[Ww]e) (?:have |all |finally |also |just ){{0,3}}(?:decided|agreed) that{_O}"),
)
# fmt: on
"""In this order they are tried."""

TRIGGERS: Final[Mapping[str, tuple[int, ...]]] = {
    word: tuple(index for index, rule in enumerate(RULES) if word in rule.needs)
    for word in sorted({word for rule in RULES for word in rule.needs})
}
"""Word → the rules it may belong to."""


@cache
def pattern(index: int) -> re.Pattern[str]:
    """Compiled when first met: the table takes half a second at once."""
    return re.compile(RULES[index].pattern)
