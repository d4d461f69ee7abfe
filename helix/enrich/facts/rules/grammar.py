"""Pattern pieces shared by the rules: subjects, verbs with their adverbs, objects, agents."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.words import ANY_KIN, CAP, KIN_ADJECTIVE, MONTHS, NAME, OTHER_KIN

# Before a subject: the begin of a clause, or a word that is no part of it.
BEFORE: Final = (
    r"(?:^|\A(?i:for|in|on|at|as of|after|since) [^,]{2,30} (?=(?:I|we) )|[,(\]] ?|: |\b(?i:and|but|so|because|since|"
    "yeah|yes|ok|okay|well|now|btw|also|actually|currently|today|yesterday|nowadays|days|years?|months?|weeks?|spring|"
    "summer|autumn|fall|winter|weekend|ago|hi|hey|hello|oh|no|sorry|thanks|fyi|honestly|finally|recently|officially|"
    rf"obviously|unfortunately|sadly|luckily|{MONTHS}|(?:19|20)\d\d) )"
)
# Adverbs between a subject and its verb.
ADVERBS: Final = (
    "(?:(?:now|currently|still|just|also|actually|really|always|both|recently|already|finally|happily|mostly|mainly|"
    "officially|absolutely|totally|truly|definitely|generally|usually|normally|very|so|primarily|exclusively|"
    "internally|personally|all|only|obviously|presently|strongly|much|proudly|originally|quietly|secretly|simply|"
    "often|severely|deeply|pretty|completely|have|successfully|temporarily|newly|strictly|gladly|quite|highly|"
    "terribly|mildly|deathly|extremely|formally|sadly|together|since|ultimately|unanimously|jointly|in the end) ){0,3}"
)
KIN_SUBJECT: Final = rf"(?:[Mm]y|[Oo]ur) {KIN_ADJECTIVE}(?:{ANY_KIN}|{OTHER_KIN}),? (?P<kin>{NAME})"
THIRD: Final = rf"(?:{KIN_SUBJECT}|(?:(?:[Gg]randpa|[Gg]randma|[Uu]ncle|[Aa]unt|[Cc]ousin) )?(?P<n>{NAME}))(?:,)?"


def make_person(first: str, third: str) -> str:
    """Return the pattern of a person and a verb that agrees: `first` for "I" and "we", `third` for a name."""
    return rf"{BEFORE}(?:(?P<s>I|[Ww]e) {ADVERBS}(?:{first})|{THIRD} {ADVERBS}(?:{third}))"


def make_verb(base: str, third: str, ing: str, participle: str = "(?!)") -> str:
    """Return the pattern of a person and a verb in the present; with its participle also "have worked"."""
    return make_person(
        f"{base}|(?:am |are )?{ADVERBS}(?:{ing})|have {ADVERBS}been (?:{ing})|have {participle}",
        f"{third}|is {ADVERBS}(?:{ing})|(?:has|is) {ADVERBS}been (?:{ing})|has {participle}",
    )


IS: Final = make_person("am|are|have been", "is|has been")
OBJECT: Final = " (?P<o>.+)"
OWNER: Final = rf"(?:\b(?P<s>[Mm]y|[Oo]ur)|\b(?P<n>{CAP})'s)"
AND_I: Final = f"(?P<o>{NAME}) & (?P<s>I)"
TEAM: Final = "(?P<we>(?:[Tt]he|[Oo]ur) (?:whole )?team)"

# Things, and changes to them.
WORD: Final = r"[A-Za-z`\"'$][\w./`\"'-]{0,50}"
PHRASE: Final = rf"{WORD}(?: {WORD}){{0,3}}?"
THING: Final = (
    f"{BEFORE}(?:(?P<det>[Tt]he|[Oo]ur|[Mm]y|[Tt]heir|[Ii]ts|[Aa]ll|[Tt]his) (?:(?:the|our|new|default) )?)?"
    f"(?P<t>{PHRASE})"
)
DETERMINED: Final = rf"{BEFORE}(?P<det>[Tt]he|[Oo]ur|[Mm]y|[Ii]ts) (?:new )?(?P<t>{PHRASE})"
AGENT: Final = f"{BEFORE}(?P<agent>I|[Ww]e|{NAME}) "
LATELY: Final = "(?:have |has |just |already |also |finally |recently |now ){0,3}"
JUST: Final = "(?:have |has |just |already |also ){0,3}"


def make_agent(verbs: str) -> str:
    """Return the pattern of somebody's past action; without a subject as a report: "Changed the limit from 3 to 8"."""
    capital = "|".join(verb.capitalize() for verb in verbs.split("|"))
    return rf"(?:{AGENT}{LATELY}(?:{verbs})|\A(?!cut|Cut)(?:{verbs}|{capital}))"
