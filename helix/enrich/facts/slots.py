"""Readers of the slots of a match: people, things, values, and the ends of their phrases."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.sentences import SPACE
from helix.enrich.facts.words import (
    AMBIGUOUS_JOBS,
    JOBS,
    LANGUAGES,
    NATIONALITIES,
    NOT_NAMES,
    PATTERNS,
    PIECES,
    VAGUE,
    WORDS,
)
from helix.text.gazetteer import AMBIGUOUS_PLACES, LONG_PLACES, PLACES, PROJECTS

DETERMINER: Final = re.compile(r"\A(?:(?:the|a|an|my|our|his|her|their|your|its)\s+){1,2}", re.IGNORECASE)
TRAILING: Final = " .,;:!?'\"`*_)(-–—…"
AND: Final = re.compile(r",? and |, | & ")


def make_key(text: str) -> str:
    """Return the key of a name: lower case, without leading determiner, quotes and trailing punctuation."""
    text = SPACE.sub(" ", text.lower()).strip(TRAILING)
    return DETERMINER.sub("", text, count=1) if " " in text else text


def cut_at(border: re.Pattern[str], phrase: str) -> str:
    """Return a phrase up to a border."""
    match = border.search(phrase)
    return phrase[: match.start()] if match else phrase


def cut_clause(raw: str) -> str:
    """Return `raw` up to the end of its clause."""
    return cut_at(PATTERNS["cut"], raw).strip(TRAILING)


_THING_CUT: Final = re.compile(
    r" (?:for|at|in|with|on|from|by|to|as|about|since|over|the most|a lot|very much|so much|most)\b(?! (?:general))"
)


def read_phrase(raw: str, longest: int = 5) -> str:
    """Return a noun phrase of at most `longest` words; "" for a pronoun or a reference."""
    phrase = cut_at(_THING_CUT, cut_clause(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= longest or words[0] in VAGUE or set(words) & WORDS["refers back"]:
        return ""
    return phrase.strip(TRAILING)


NO_PLACE: Final = frozenset(PIECES["MONTHS"].lower().split("|")) | WORDS["no place"]
_NO_COMPANY: Final = NO_PLACE - {"github", "docker", "zoom", "slack"}


def read_people(raw: str) -> list[str]:
    """Return the names of people."""
    match = PATTERNS["name list"].match(raw)
    people: list[str] = []
    for name in AND.split(match[1]) if match else []:
        words = name.split()
        while words and words[-1].lower() in NOT_NAMES:
            words.pop()
        if not words or words[0].lower() in NOT_NAMES or words[0].lower() in NATIONALITIES:
            break
        people.append(" ".join(words))
    return people


def read_person(raw: str) -> list[str]:
    """Return one name of a person."""
    return read_people(raw)[:1]


def read_place(raw: str) -> list[str]:
    """Return a capitalised place, or a known one in lower case."""
    raw = raw.lstrip("`\"'")
    match = PATTERNS["place"].match(raw)
    if match:
        name = match[1].rstrip(TRAILING).removesuffix("'s")
        first = name.lower().partition(" ")[0]
        return [] if first in NO_PLACE or first in NOT_NAMES else [name]
    words = cut_clause(raw).split()
    for take in (3, 2, 1):
        phrase = " ".join(words[:take]).lower()
        if len(words) >= take and (phrase in PLACES or phrase in LONG_PLACES) and phrase not in AMBIGUOUS_PLACES:
            return [phrase]
    return []


def read_organisation(raw: str) -> list[str]:
    """Return the name of a company, or "bakery" of "a bakery"."""
    match = PATTERNS["organisation"].match(raw)
    if match:
        name = match[1].rstrip(TRAILING)
        first = name.lower().partition(" ")[0]
        return [] if first in NOT_NAMES or first in _NO_COMPANY or name[0].isdigit() else [name]
    match = PATTERNS["institution"].match(raw)
    return [match[1]] if match else []


_NO_ROLE: Final = VAGUE | {"well", "team", "expected", "intended"}
_JOB_CUT: Final = re.compile(r" (?:at|in|for|with|on|by|from|and|to|here|of(?! (?:\w+)\Z)|working|turned|by)\b")
_NO_FIELD: Final = VAGUE | WORDS["no field"]
_SUBJECT_CUT: Final = re.compile(
    r" (?:at|in|for|with|on|by|from|to|part-time|full-time|abroad|here|via|through|online|as)\b"
)


def read_profession(raw: str) -> list[str]:
    """Return a known profession with at most three words before it."""
    phrase = cut_at(_JOB_CUT, cut_clause(raw))
    words = phrase.lower().replace("/", " ").split()
    if not words or len(words) > 4 or set(words) & VAGUE:
        return []
    known = words[-1] in JOBS | WORDS["job heads"] if len(words) > 1 else words[-1] in JOBS - AMBIGUOUS_JOBS
    return [phrase] if known and not set(words) & WORDS["no job"] else []


def read_role(raw: str) -> list[str]:
    """Return any role after "work as a": up to four words."""
    phrase = cut_at(_JOB_CUT, cut_clause(raw))
    words = phrase.lower().split()
    return [phrase] if 0 < len(words) <= 4 and not set(words) & _NO_ROLE else []


def read_field(raw: str) -> list[str]:
    """Return subjects of study."""
    phrase = cut_at(_SUBJECT_CUT, cut_clause(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= 5 or set(words) & _NO_FIELD:
        return []
    return [part for part in AND.split(phrase) if part][:3]


_CALLED: Final = re.compile(r"[`\"'“]?([A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}){0,3})")


def read_languages(raw: str) -> list[str]:
    """Return languages, without how well they are spoken."""
    languages: list[str] = []
    for part in re.split(r",? and |, | & | or |,? but ", raw)[:8]:
        match = re.match(r"[A-Za-z]+", PATTERNS["level"].sub("", PATTERNS["level"].sub("", part.strip())))
        if not match or match[0].lower() not in LANGUAGES:
            break
        languages.append(match[0])
    return languages


def read_diet(raw: str) -> list[str]:
    """Return a diet; "a vegan restaurant" is none."""
    match = PATTERNS["diet"].match(raw)
    return [match[1]] if match else []


def read_called_name(raw: str) -> list[str]:
    """Return the name after "is called"."""
    match = _CALLED.match(raw)
    return [match[1]] if match and match[1].lower().partition(" ")[0] not in NOT_NAMES else []


def read_introduced_name(raw: str) -> list[str]:
    """Return a name on its own: "Hi, I am Farid and …", not "I am Back" or "I am Irish"."""
    match = PATTERNS["introduced"].match(raw)
    return read_person(match[1]) if match else []


_VALUE_ENDS: Final = re.compile(
    r"[`\"']?(?:[.,;:!?)(]|\Z| (?:in|on|for|by|so|and|now|everywhere|again|since|to make|from|at|as)\b)"
)
_PORT: Final = re.compile(r"(?:the )?port (\d{2,5})\b", re.IGNORECASE)
_NO_HOST: Final = NO_PLACE - {"docker", "linux", "windows"}


def read_value(raw: str) -> list[str]:
    """Return the value of a setting, with its unit: "30 s", "true", "eu-west-1"."""
    match = PATTERNS["value"].match(raw)
    if not match or match[1].lower() in VAGUE or (match[1].isalpha() and not _VALUE_ENDS.match(raw, match.end())):
        return []
    return [(match[1].rstrip(".,:") + (match["unit"] or "")).strip("`\"'")]


def read_number(raw: str) -> list[str]:
    """Return a value that begins with a digit."""
    return read_value(raw) if re.match(r"[`\"']?[$€£]?-?\d", raw) else []


def read_version(raw: str) -> list[str]:
    """Return a version without its "v", and no quantity: "3.12", not "3 minutes"."""
    match = PATTERNS["version"].match(raw)
    return [match[1]] if match and not PATTERNS["unit"].match(raw, match.end()) else []


def read_path(raw: str) -> list[str]:
    """Return a path, or a file name with a known ending."""
    match = PATTERNS["path"].match(re.sub(r"\A(?:the )?(?:file|folder|directory|dir|repo root at) ", "", raw))
    if not match:
        return []
    name = match[1].rstrip(".,")
    # "and/or" and "CI/CD" are no paths.
    return [] if len(name) < 2 or re.fullmatch(r"[A-Za-z]{1,4}/[A-Za-z]{1,4}", name) else [name]


def read_host(raw: str) -> list[str]:
    """Return a machine, a platform or a port."""
    port = _PORT.match(raw)
    if port:
        return [f"port {port[1]}"]
    match = PATTERNS["host"].match(raw)
    if not match or raw.startswith("'s", match.end()):
        return []
    name = match[1].rstrip(".,-")
    first = name.split()[0].lower()
    if first in NOT_NAMES or first in WORDS["hours"] or name.lower() in _NO_HOST:
        return []
    return [name] if first in PROJECTS or re.search(r"\d|[A-Z]|\w\.\w|\w-\w", name) else []


def read_action(raw: str) -> list[str]:
    """Return an infinitive or a clause, up to its end."""
    phrase = cut_at(PATTERNS["clause end"], raw).strip(TRAILING)
    words = phrase.lower().split()
    vague = set(words) & {"you", "your", "it", "this", "them", "these", "those"}
    if not 1 < len(words) <= 18 or vague or words[0] in VAGUE - {"not", "getting", "having"}:
        return []
    return [phrase.replace("`", "") if phrase.count("`") % 2 else phrase]


def read_nothing(raw: str) -> list[str]:
    """Return no object, for an ending without one."""
    return []


def read_verbatim(raw: str) -> list[str]:
    """Return the text unchanged; `helix.enrich.facts.times` reads its date."""
    return [raw]


_STARTS_THE: Final = re.compile(r"the (?![A-Z])")
_RESTRICTED: Final = re.compile(r"[\w'-]+ (?:that|who|which|where|when)\b")
_TAIL_ADVERB: Final = re.compile(r"(?: (?:just|lately|together|alone|recently|so far|overall|myself|indeed|at all))+\Z")
_ADVERBIAL: Final = re.compile(r"(?:really|very|just|also|both|all|so|when|how|most|always|a lot|too)\b")
_BARE_GERUNDS: Final = WORDS["bare gerunds"]
_TOO_GENERAL: Final = (_BARE_GERUNDS - {"reading", "writing"}) | WORDS["no taste"] | {"spending time"}
_OWNABLE: Final = re.compile(r"(?:an?|two|three|four|five|some|my(?: own)?|our(?: own)?) ", re.IGNORECASE)
_NEW: Final = re.compile(
    r"\A(?:(?:my|our|a|an|own|new|used|second-hand|brand|brand-new|first|very first)\s+)+", re.IGNORECASE
)


def _complete_gerund(phrase: str, raw: str) -> str:
    """Return a phrase with the complement of its gerund: "going on road trips"; "" for "going" alone."""
    if phrase.lower() not in _BARE_GERUNDS:
        return phrase
    rest = PATTERNS["complement"].match(cut_clause(raw)[len(phrase) :])
    if not rest:
        return phrase if phrase in ("reading", "writing") else ""
    return phrase + rest.group()


def read_taste(raw: str) -> list[str]:
    """Return bare nouns and gerunds; "the new layout" is an opinion of one day."""
    if _STARTS_THE.match(raw) or _ADVERBIAL.match(raw) or raw[:3] in ("my ", "a l") or _RESTRICTED.match(raw):
        return []
    whole = _TAIL_ADVERB.sub("", read_phrase(raw, 9))
    if " or " in whole:
        return []
    parts = [part.removeprefix("and ") for part in AND.split(_complete_gerund(whole, raw)) if part]
    if any(len(part.split()) > 4 or part.split()[0].lower() in VAGUE or part.lower() in _TOO_GENERAL for part in parts):
        return []
    return parts[:4]


def read_one_thing(raw: str) -> list[str]:
    """Return the first noun phrase."""
    phrase = _complete_gerund(read_phrase(AND.split(raw)[0]), raw)
    if _RESTRICTED.search(raw[: len(phrase) + 8]):
        return []
    # "clear, measurable goals" begins with an adjective.
    adjective = " " not in phrase and phrase.islower() and raw[len(phrase) : len(phrase) + 1] == ","
    return [phrase] if phrase and not adjective and not phrase.lower().startswith("the ") else []


def read_possession(raw: str) -> list[str]:
    """Return a thing with "a", "two" or "my": a possession."""
    if not _OWNABLE.match(raw):
        return []
    phrase = _NEW.sub("", read_phrase(re.sub(r"\A(?:my|our) (?:own )?", "", AND.split(raw)[0]), 6))
    return [phrase] if phrase and len(phrase) > 2 else []


# Only names have a capital, a digit or a dot.
NAMED: Final = re.compile(r"[A-Z0-9_.+#/]")
_NO_TOOL: Final = VAGUE | WORDS["no tool"] | frozenset(PIECES["MONTHS"].lower().split("|"))
# An adjective whose noun is cut: "size-only, monotonic growth".
_NO_NAME: Final = re.compile(r"[a-z-]+-(?:only|based|aware|safe|driven|specific|wide|free|like|style|level)\Z")


def read_tool(raw: str) -> list[str]:
    """Return tools: names, known tools, or one lower-case word."""
    tools: list[str] = []
    rest = re.sub(r"\A(?:our own|our|the) (?=[A-Z`])", "", raw)
    while len(tools) < 6:
        match = PATTERNS["tool"].match(rest)
        if not match or rest[match.end(1) :].lstrip("`").startswith("'s"):
            break
        first = match[1].rstrip(".,-/")
        head = first.lower()
        if head in _NO_TOOL or head in NOT_NAMES or not re.search(r"[a-z]", head):  # "7 PM" is a time
            break
        named = NAMED.search(first) is not None or head in PROJECTS
        words = [word.rstrip(".,-/") for word in match[2].split()] if len(first) == len(match[1]) else []
        after = rest[match.end() if words else match.end(1) :].lstrip("`\"'")
        if not words and _NO_NAME.match(head):
            break
        lower = [word for word in words if not (word[:1].isupper() or word in PROJECTS)]
        common = [word for word in lower if not PATTERNS["version"].fullmatch(word)]
        # "Git tags" is a name with one common noun, but "CSS preprocessor like X" is none.
        if common and (not named or common != words[-1:] or not _is_end(after)):
            break
        if (not words and not _is_end(after)) or (not named and len(head) < 2):
            break
        tools.append(" ".join([first, *words]))
        listed = re.match(r"(?:,? and |, )(?=[A-Z`])", after)
        if not listed or not named:
            break
        rest = after[listed.end() :]
    return tools


def _is_end(rest: str) -> bool:
    """Return whether the phrase ends where `rest` begins."""
    return not rest or rest[0] in ".,;:!?)" or PATTERNS["tool ends"].match(rest) is not None


def read_responsibility(raw: str) -> list[str]:
    """Return a thing that somebody is responsible for."""
    phrase = DETERMINER.sub("", read_phrase(AND.split(raw)[0]))
    return [phrase] if phrase else []
