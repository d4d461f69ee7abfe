"""Slots: what stands where the object is expected, cut out and checked, or [] where it can be no such thing."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.sentences import SPACE
from helix.enrich.facts.words import (
    AMBIGUOUS_JOBS,
    DIETS,
    INSTITUTIONS,
    JOB_HEADS,
    JOBS,
    LANGUAGES,
    MONTHS,
    NAME,
    NAMES,
    NATIONAL,
    NO_JOB,
    NOT_NAMES,
    VAGUE,
    word_set,
)
from helix.text.gazetteer import AMBIGUOUS_PLACES, LONG_PLACES, PLACES, PROJECTS

# ---------------------------------------------------------------- phrases

# Where an object ends: punctuation, a new clause, a time.
_CUT: Final = re.compile(
    r"(?i)\.(?=\s|\Z)|->|[,;:!?()\[\]\n…\"“”]|\s[-–—]+\s|[\U0001F300-\U0001FAFF]| (?:because|but|so|since|which|who|"
    "that|when|where|while|whilst|after|before|although|though|instead|anymore|now|these days|nowadays|right now|too|"
    "as well|again|yesterday|today|tonight|tomorrow|already|until|till|whenever|every|either|lol|haha|then|like|"
    r"unless|ever|more than|as of|at the moment|for (?:years|ages|now|the|a|an|my|our|me|us|over|about|\d+|two|three|"
    "four|five|six|ten)|and (?:I|we|my|our|he|she|they|it|then|now|am|is|are|have|has|that|you|the)|(?:in|on|by|last|"
    "next|this|from|of) (?:the (?:evenings?|mornings?|weekends?|summer|winter)|"
    rf"(?:early |late |mid-?)?(?:{MONTHS})\b|(?:19|20)\d\d\b|year\b|month\b|week\b|monday|tuesday|wednesday|thursday|"
    r"friday|saturday|sunday)|(?:a )?(?:few|couple of|two|three|\d+) (?:years?|months?|weeks?|days?) ago)(?!\w)"
)
_DETERMINER: Final = re.compile(r"\A(?:(?:the|a|an|my|our|his|her|their|your|its)\s+){1,2}", re.IGNORECASE)
_TRAILING: Final = " .,;:!?'\"`*_)(-–—…"
_AND: Final = re.compile(r",? and |, | & ")


def key(text: str) -> str:
    """As names are compared: lower case, without leading determiner, quotes and trailing punctuation."""
    text = SPACE.sub(" ", text.lower()).strip(_TRAILING)
    return _DETERMINER.sub("", text, count=1) if " " in text else text


def _before(border: re.Pattern[str], phrase: str) -> str:
    """`phrase` up to a border."""
    found = border.search(phrase)
    return phrase[: found.start()] if found else phrase


def cut(raw: str) -> str:
    """`raw` up to the clause's border."""
    return _before(_CUT, raw).strip(_TRAILING)


def _named(raw: str) -> bool:
    """Whether the first word may be a name's."""
    return raw.lower().partition(" ")[0] not in NOT_NAMES


# ---------------------------------------------------------------- people, places, organisations

_NAME_LIST: Final = re.compile(rf"({NAMES})(?!\w)(?!'s)")
_PLACE: Final = re.compile(
    "(?:(?:a|an|the) (?:[a-z-]+ ){0,3}(?:village|town|city|place|suburb|island|hamlet|country|region) (?:called|"
    r"named|of) )?(?:the )?((?:[A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'’.-]{1,30})(?: (?:(?:of|de|la|del|da|do|upon|am|sur|el|al|the|"
    r"and) ){0,2}[A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'’.-]{1,30}){0,3})"
)
_NO_PLACE: Final = frozenset(MONTHS.lower().split("|")) | word_set("""
    python java javascript english french german spanish monday tuesday wednesday thursday friday saturday sunday
    christmas easter chrome firefox windows linux docker git github slack zoom teams hr it
""")
_NO_COMPANY: Final = _NO_PLACE - {"github", "docker", "zoom", "slack"}
_ORGANISATION: Final = re.compile(
    r"(?:the |a (?:company|startup|firm|place) called )?((?:[A-ZÀ-ÖØ-Þ0-9][\wß-öø-ÿ'’&.+-]{0,30})(?: (?:(?:of|for|de|"
    r"del|der|di|the|&|and(?= [A-Z]\w+ (?:Co|Sons|Partners|Associates))) ){0,2}[A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'’&.-]{0,30}){0,5})"
)
_INSTITUTION: Final = re.compile(rf"(?:a|an|the|my) ((?:[a-z-]{{3,15}} ){{0,2}}(?:{INSTITUTIONS}))\b")


def people(raw: str) -> list[str]:
    """The names `raw` begins with."""
    match = _NAME_LIST.match(raw)
    names = _AND.split(match[1]) if match else []
    good: list[str] = []
    for name in names:
        words = name.split()
        while words and words[-1].lower() in NOT_NAMES:
            words.pop()
        if not words or words[0].lower() in NOT_NAMES or words[0].lower() in NATIONAL:
            break
        good.append(" ".join(words))
    return good


def person(raw: str) -> list[str]:
    """The name `raw` begins with."""
    return people(raw)[:1]


def place(raw: str) -> list[str]:
    """A place with a capital, or a known one in lower case."""
    raw = raw.lstrip("`\"'")
    match = _PLACE.match(raw)
    if match:
        name = match[1].rstrip(_TRAILING).removesuffix("'s")
        first = name.lower().partition(" ")[0]
        return [] if first in _NO_PLACE or first in NOT_NAMES else [name]
    words = cut(raw).split()
    for take in (3, 2, 1):
        phrase = " ".join(words[:take]).lower()
        if len(words) >= take and (phrase in PLACES or phrase in LONG_PLACES) and phrase not in AMBIGUOUS_PLACES:
            return [phrase]
    return []


def organisation(raw: str) -> list[str]:
    """A company's name, or "bakery" of "a bakery"."""
    match = _ORGANISATION.match(raw)
    if match:
        name = match[1].rstrip(_TRAILING)
        first = name.lower().partition(" ")[0]
        return [] if first in NOT_NAMES or first in _NO_COMPANY or name[0].isdigit() else [name]
    match = _INSTITUTION.match(raw)
    return [match[1]] if match else []


# ---------------------------------------------------------------- work and study

_NO_ROLE: Final = VAGUE | {"well", "team", "expected", "intended"}
_JOB_CUT: Final = re.compile(r" (?:at|in|for|with|on|by|from|and|to|here|of(?! (?:\w+)\Z)|working|turned|by)\b")
_NO_FIELD: Final = VAGUE | word_set("hard the abroad for at a together late alone how harder remotely again")
_SUBJECT_CUT: Final = re.compile(
    r" (?:at|in|for|with|on|by|from|to|part-time|full-time|abroad|here|via|through|online|as)\b"
)


def profession(raw: str) -> list[str]:
    """A known profession with at most three words before it."""
    phrase = _before(_JOB_CUT, cut(raw))
    words = phrase.lower().replace("/", " ").split()
    if not words or len(words) > 4 or set(words) & VAGUE:
        return []
    known = words[-1] in (JOBS if len(words) > 1 else JOBS - AMBIGUOUS_JOBS) or (
        len(words) > 1 and words[-1] in JOB_HEADS
    )
    return [phrase] if known and not set(words) & NO_JOB else []


def role(raw: str) -> list[str]:
    """Anything after "work as a": up to four words."""
    phrase = _before(_JOB_CUT, cut(raw))
    words = phrase.lower().split()
    return [phrase] if 0 < len(words) <= 4 and not set(words) & _NO_ROLE else []


def field(raw: str) -> list[str]:
    """A subject of study."""
    phrase = _before(_SUBJECT_CUT, cut(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= 5 or set(words) & _NO_FIELD:
        return []
    return [part for part in _AND.split(phrase) if part][:3]


# ---------------------------------------------------------------- tastes and possessions

_POINTS_BACK: Final = word_set("you your this that it these those them him us")
_THING_CUT: Final = re.compile(
    r" (?:for|at|in|with|on|from|by|to|as|about|since|over|the most|a lot|very much|so much|most)\b(?! (?:general))"
)
_STARTS_THE: Final = re.compile(r"the (?![A-Z])")
_RESTRICTED: Final = re.compile(r"[\w'-]+ (?:that|who|which|where|when)\b")
_TAIL_ADVERB: Final = re.compile(r"(?: (?:just|lately|together|alone|recently|so far|overall|myself|indeed|at all))+\Z")
_ADVERBIAL: Final = re.compile(r"(?:really|very|just|also|both|all|so|when|how|most|always|a lot|too)\b")
_LONE: Final = word_set("""
    going playing working getting being learning editing making doing having seeing talking taking trying using escaping
    discovering looking watching spending exploring finding writing reading creating helping sharing listening hearing
    meeting living knowing thinking
""")
_EMPTY: Final = (_LONE - {"reading", "writing"}) | word_set("games things stuff life time action") | {"spending time"}
_COMPLEMENT: Final = re.compile(
    r" (?:about|on|to|into|up|out|with|for|in|at|from|through)\b(?! (?:it|this|that|them|you|her|him|"
    r"me)\b)(?: [\w'-]+){1,3}"
)
_HAD: Final = re.compile(r"(?:an?|two|three|four|five|some|my(?: own)?|our(?: own)?) ", re.IGNORECASE)
_NEW: Final = re.compile(
    r"\A(?:(?:my|our|a|an|own|new|used|second-hand|brand|brand-new|first|very first)\s+)+", re.IGNORECASE
)


def _phrase(raw: str, longest: int = 5) -> str:
    """A noun phrase of at most `longest` words, "" where it is a pronoun or points back."""
    phrase = _before(_THING_CUT, cut(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= longest or words[0] in VAGUE or set(words) & _POINTS_BACK:
        return ""
    return phrase.strip(_TRAILING)


def _gerund(phrase: str, raw: str) -> str:
    """ "going" alone says nothing: with its complement "going on road trips", or ""."""
    if phrase.lower() not in _LONE:
        return phrase
    rest = _COMPLEMENT.match(cut(raw)[len(phrase) :])
    if not rest:
        return phrase if phrase in ("reading", "writing") else ""
    return phrase + rest.group()


def taste(raw: str) -> list[str]:
    """What one likes or not: bare nouns and gerunds; "the new layout" is an opinion about one thing seen today."""
    if _STARTS_THE.match(raw) or _ADVERBIAL.match(raw) or raw[:3] in ("my ", "a l") or _RESTRICTED.match(raw):
        return []
    whole = _TAIL_ADVERB.sub("", _phrase(raw, 9))
    if " or " in whole:
        return []
    parts = [part.removeprefix("and ") for part in _AND.split(_gerund(whole, raw)) if part]
    if any(len(part.split()) > 4 or part.split()[0].lower() in VAGUE or part.lower() in _EMPTY for part in parts):
        return []
    return parts[:4]


def one_thing(raw: str) -> list[str]:
    """The first of what is preferred or settled on."""
    phrase = _gerund(_phrase(_AND.split(raw)[0]), raw)
    if _RESTRICTED.search(raw[: len(phrase) + 8]):
        return []
    # "clear, measurable goals": an adjective alone
    adjective = " " not in phrase and phrase.islower() and raw[len(phrase) : len(phrase) + 1] == ","
    return [phrase] if phrase and not adjective and not phrase.lower().startswith("the ") else []


def possession(raw: str) -> list[str]:
    """A thing with "a", "two" or a name: what one owns, bought or drives."""
    if not _HAD.match(raw):
        return []
    phrase = _NEW.sub("", _phrase(re.sub(r"\A(?:my|our) (?:own )?", "", _AND.split(raw)[0]), 6))
    return [phrase] if phrase and len(phrase) > 2 else []


# ---------------------------------------------------------------- tools

# What only a name has: a capital, a digit, a dot.
NAMED: Final = re.compile(r"[A-Z0-9_.+#/]")
_TOOL: Final = re.compile(
    r"[`\"']?([A-Za-z0-9][\w.+#@/-]{0,40})[`\"']?((?: (?!(?:for|to|in|on|with|as|from|at|since|instead|because|and|"
    "across|by|everywhere|internally|when|inside|during|under|via|now|here|there|every|again|so|which|that|right|too|"
    "already|until|or|over|rather|anymore|heavily|only|mostly|mainly|last|next|this|yesterday|today|a|an|the|is|are|"
    "was|not|exclusively|throughout|but|after|before|like|while|just|extensively|of|then|"
    r"without)\b)[\w.+#/-]{1,30}){0,2})"
)
_NO_TOOL: Final = VAGUE | word_set("""
    a an the only just two three different several various separate custom plain simple either different regular same
    new old better case cases up in on at and as by for from with cookies cash public different real very default
    existing standard multiple shared existing similar proper common way ways
""")
_TOOL_ENDS: Final = re.compile(
    " (?:for|to|in|on|with|as|from|at|since|instead|because|and|across|by|everywhere|internally|when|inside|during|"
    "under|via|now|here|there|every|again|so|too|already|until|or|over|rather|heavily|only|mostly|mainly|last|next|"
    "this|yesterday|today|throughout|but|after|before|while|just|extensively|then|without|[-–—(])"
)


def tool(raw: str) -> list[str]:
    """Named tools: with a capital, a digit or a dot, or known; a lone lower-case word too."""
    tools: list[str] = []
    rest = re.sub(r"\A(?:our own|our|the) (?=[A-Z`])", "", raw)
    while len(tools) < 6:
        match = _TOOL.match(rest)
        if not match or rest[match.end(1) :].lstrip("`").startswith("'s"):
            break
        first = match[1].rstrip(".,-/")
        head = first.lower()
        if head in _NO_TOOL or head in NOT_NAMES:
            break
        named = NAMED.search(first) is not None or head in PROJECTS
        words = [word.rstrip(".,-/") for word in match[2].split()] if len(first) == len(match[1]) else []
        after = rest[match.end() if words else match.end(1) :].lstrip("`\"'")
        common = [word for word in words if not (word[:1].isupper() or word in PROJECTS or _VERSION.fullmatch(word))]
        # "Git tags" is a name with one common noun; "CSS preprocessor like X" names nothing.
        if common and (not named or common != words[-1:] or not _cut_here(after)):
            break
        if (not words and not _cut_here(after)) or (not named and len(head) < 2):
            break
        tools.append(" ".join([first, *words]))
        listed = re.match(r"(?:,? and |, )(?=[A-Z`])", after)
        if not listed or not named:
            break
        rest = after[listed.end() :]
    return tools


def _cut_here(rest: str) -> bool:
    """Whether the phrase ends where `rest` begins."""
    return not rest or rest[0] in ".,;:!?)" or _TOOL_ENDS.match(rest) is not None


# ---------------------------------------------------------------- values, versions, paths, hosts

_VALUE: Final = re.compile(
    r"(?i)[`\"']?(?!(?:be|the|a|an|that|it|this|my|our|what|whatever|do|go|have|use|work|run|start|become|get|"
    r"your)\b)([\w./:%+*$€£=@-]{1,80}?)[`\"']?(?= |[,;!?)]|\.(?:\s|\Z)|\Z)(?P<unit> ?(?:seconds?|secs?|s|ms|"
    r"milliseconds?|minutes?|mins?|hours?|days?|[kmgt]i?b|percent|%)\b)?"
)
_VALUE_ENDS: Final = re.compile(
    r"[`\"']?(?:[.,;:!?)(]|\Z| (?:in|on|for|by|so|and|now|everywhere|again|since|to make|from|at|as)\b)"
)
_VERSION: Final = re.compile(
    r"(?i)(?:version |release )?v?(\d{1,5}(?:\.\d{1,5}){0,3}(?:\.x)?(?:-?(?:alpha|beta|rc|dev|post|"
    r"lts)\.?\d{0,3})?)(?![\w%:/]|\.\d)"
)
_UNIT: Final = re.compile(
    " ?(?:seconds?|secs?|s|ms|minutes?|mins?|hours?|days?|weeks?|[kmgt]i?b|percent|%|workers|retries|times|items|"
    r"rows|x)\b|%"
)
_SUFFIX: Final = (
    "(?:py|toml|ya?ml|json|jsonl|ini|cfg|conf|env|md|txt|log|sql|db|sqlite|csv|parquet|sh|ts|js|tsx|rs|go|lock|xml|"
    "html)"
)
_PATH: Final = re.compile(
    r"[`\"']?((?:~|\.{1,2}|[A-Za-z]:)?[\w.@$*{}<>+-]{0,80}(?:[/\\][\w.@$*{}<>+-]{0,80}){1,20}|"
    rf"[\w-][\w.-]{{0,60}}\.{_SUFFIX}\b|\.env(?:\.\w{{1,20}})?\b)"
)
_PORT: Final = re.compile(r"(?:the )?port (\d{2,5})\b", re.IGNORECASE)
_HOST: Final = re.compile(
    r"(?:an? |the |our )?[`\"']?([A-Za-z][\w-]{0,40}(?:[.-][\w-]{1,40}){0,5}(?::\d{2,5})?(?: [A-Z][\w.]{1,20}|"
    r" \d[\w.]{0,10}){0,2})"
)
_NO_HOST: Final = _NO_PLACE - {"docker", "linux", "windows"}
_HOURS: Final = word_set("""
    top time monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays saturday saturdays
    sunday sundays
""")


def value(raw: str) -> list[str]:
    """What a setting may be, with its unit: "30 s", "true", "eu-west-1"."""
    match = _VALUE.match(raw)
    if not match or match[1].lower() in VAGUE or (match[1].isalpha() and not _VALUE_ENDS.match(raw, match.end())):
        return []
    return [(match[1].rstrip(".,:") + (match["unit"] or "")).strip("`\"'")]


def number(raw: str) -> list[str]:
    """A value that begins with a digit."""
    return value(raw) if re.match(r"[`\"']?[$€£]?-?\d", raw) else []


def version(raw: str) -> list[str]:
    """A version without its "v", and no quantity: "3.12", not "3 minutes"."""
    match = _VERSION.match(raw)
    return [match[1]] if match and not _UNIT.match(raw, match.end()) else []


def path(raw: str) -> list[str]:
    """A path, or a file's name with a known ending."""
    match = _PATH.match(re.sub(r"\A(?:the )?(?:file|folder|directory|dir|repo root at) ", "", raw))
    if not match:
        return []
    name = match[1].rstrip(".,")
    # "and/or", "CI/CD": two words and a slash are no path.
    return [] if len(name) < 2 or re.fullmatch(r"[A-Za-z]{1,4}/[A-Za-z]{1,4}", name) else [name]


def host(raw: str) -> list[str]:
    """A machine, a platform or a port."""
    port = _PORT.match(raw)
    if port:
        return [f"port {port[1]}"]
    match = _HOST.match(raw)
    if not match:
        return []
    name = match[1].rstrip(".,-")
    first = name.split()[0].lower()
    if first in NOT_NAMES or first in _HOURS or name.lower() in _NO_HOST:
        return []
    return [name] if first in PROJECTS or re.search(r"\d|[A-Z]|\w\.\w|\w-\w", name) else []


# ---------------------------------------------------------------- the rest

# Where what was decided or planned ends.
CLAUSE_END: Final = re.compile(
    r"\.(?=\s|\Z)|[;!?\n(\"“”]|, (?!and \w+ the)| (?:because|so that|since|but|due to|after (?:a|my|our|getting|peer|"
    r"the)|starting (?=[A-Z]|next|in|from)|which means|although|though|lol|haha|after all|instead of having)\b|"
    r"\s[-–—]+\s"
)
_HOW_WELL: Final = re.compile(
    r"\A(?:and|(?:a )?(?:(?:little |tiny )?bit of|little)|some|both|fluent|native|basic|decent|also|passable|broken|"
    "conversational|rusty|good|fluently|of) "
)
_DIET: Final = re.compile(
    f"(?i)(?:an? )?(?:strictly |strict |fully |mostly |lifelong |completely |proud )?({DIETS})(?: (?:diet|only))?(?= |"
    r"[.,;!?)]|\Z)(?! (?:diet |only )?(?:restaurant|food|place|recipe|cafe|option|cook|meal|dish|dinner|burger|cheese))"
)
_CALLED: Final = re.compile(r"[`\"'“]?([A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}){0,3})")


def action(raw: str) -> list[str]:
    """An infinitive or a clause, to its end."""
    phrase = _before(CLAUSE_END, raw).strip(_TRAILING)
    words = phrase.lower().split()
    vague = set(words) & {"you", "your", "it", "this", "them", "these", "those"}
    if not 1 < len(words) <= 18 or vague or words[0] in VAGUE - {"not", "getting", "having"}:
        return []
    return [phrase]


def languages(raw: str) -> list[str]:
    """The languages `raw` begins with, however well spoken."""
    found: list[str] = []
    for part in re.split(r",? and |, | & | or |,? but ", raw)[:8]:
        match = re.match(r"[A-Za-z]+", _HOW_WELL.sub("", _HOW_WELL.sub("", part.strip())))
        if not match or match[0].lower() not in LANGUAGES:
            break
        found.append(match[0])
    return found


def diet(raw: str) -> list[str]:
    """How somebody eats; "a vegan restaurant" is none."""
    match = _DIET.match(raw)
    return [match[1]] if match else []


def called(raw: str) -> list[str]:
    """What somebody is called."""
    match = _CALLED.match(raw)
    return [match[1]] if match and _named(match[1]) else []


def introduced(raw: str) -> list[str]:
    """A name on its own: "Hi, I am Farid and …", not "I am Back" or "I am Irish"."""
    match = re.match(rf"({NAME})(?=,| and | from |[.!]|\Z)", raw)
    return person(match[1]) if match else []


def nothing(raw: str) -> list[str]:
    """An ending that names no object."""
    return []


def care(raw: str) -> list[str]:
    """What somebody looks after."""
    phrase = _DETERMINER.sub("", _phrase(_AND.split(raw)[0]))
    return [phrase] if phrase else []


def as_said(raw: str) -> list[str]:
    """Left as said; made ISO where the turn's time is known."""
    return [raw]
