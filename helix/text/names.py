"""Names: what a capitalised name names, and which names of a session are one person."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from helix.text import gazetteer as known
from helix.types import Entity

NAME_KINDS: Final = ("person", "place", "organisation", "project", "name")
"""Kinds that a capitalised name may have; which one hangs on its sentence, so a question asks for all of them."""

_SURE: Final = 3
"""Weight of a name that is nothing else, and of a cue that tells alone; what may be a name, or a hint, weighs 1."""


_HINTS: Final = {"person": 1, "place": 2}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTS: Final = (
    ("person", _SURE, known.GIVEN),
    ("person", 1, known.GIVEN_CAPITAL),
    ("place", _SURE, known.PLACES - known.PLACES_CAPITAL),
    ("place", 1, known.PLACES_CAPITAL),
    ("organisation", _SURE, known.ORGANISATIONS - known.ORGANISATIONS_CAPITAL),
    ("organisation", 1, known.ORGANISATIONS_CAPITAL),
    ("project", _SURE, known.PROJECTS),
    ("project", 1, known.PROJECTS_CAPITAL),
)


def _by_name() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for kind, weight, names in _LISTS:
        for name in names:
            found.setdefault(name, {}).setdefault(kind, weight)
    return found


_KNOWN: Final = _by_name()
_PHRASES: Final = (
    dict.fromkeys(known.PROJECTS_LONG, "project")
    | dict.fromkeys(known.ORGANISATIONS_LONG, "organisation")
    | dict.fromkeys(known.PLACES_LONG, "place")
)

_ORGANISATION_ENDS: Final = _words("""
&co academy ag agency airlines airways alliance analytics architects associates association authority bakery ballet
bank biotech brewery bros brothers bureau capital choir clinic club co coalition college commission committee company
construction consulting cooperative corp corporation council department digital dynamics electronics energy
entertainment fc federation finance financial foods foundation games gmbh group health healthcare holdings hospital inc
industries initiative institute interactive investments lab laboratories laboratory labs lakers law legal limited llc
logistics ltd magazine media medical ministry motors news office orchestra partners pharma pharmaceuticals philharmonic
pictures plc press productions publishing quartet rangers realty records robotics rovers school securities services
shipping society software solutions studio studios systems team technologies technology telecom therapeutics trust
union university ventures warriors yankees
""")
_PLACE_ENDS: Final = _words("""
abbey airport aquarium arena ave avenue bay beach blvd boulevard bridge cafe café canyon cape castle cathedral city
cliff cliffs coast county cove creek desert district falls forest garden gardens glacier hall harbor harbour heights
hills hotel inn island islands kingdom lake lane mall monastery mountain mountains museum ocean palace park peak
peninsula pier plaza province quay rd reef republic reservoir restaurant ridge river road sea shrine square st stadium
station strait street temple theater theatre tower town trail valley village volcano waterfall wharf woods zoo
""")
_PLACE_STARTS: Final = _words("""
cape central downtown east eastern el fort greater isle lake las los lower mount mt north northern port saint san santa
santo south southern st. ste são upper west western
""")
_DIRECTIONS: Final = _words("""
central downtown east eastern greater lower north northern old south southern upper west western
""")
_ORGANISATION_STARTS: Final = _words("""
association banca banco bank banque church college department hochschule institute ministry museum sparkasse stadtwerke
universidad university universität université volksbank
""")
_PROJECT_ENDS: Final = _words("""
analytics api cli cloud code db desktop docs drive engine framework js library maps os plugin protocol sdk server sql
studio
""")
_SURNAMES_TOO: Final = _words("""
banks castle church forest hall hill lake lane law park peak press rivers woods
""")
_GIVEN: Final = known.GIVEN | known.GIVEN_CAPITAL
_CAPITAL: Final = known.GIVEN_CAPITAL | known.PLACES_CAPITAL
_ENDS: Final = _ORGANISATION_ENDS | _PLACE_ENDS
_PLACES_START: Final = _PLACE_STARTS - _DIRECTIONS
_NOT_NAMES_AFTER: Final = re.compile(
    r" (?:section|chapter|tab|button|page|column|field|menu|dialog|screen|heading|step|option|setting"
    r"|phase|mode|key|header|"
    r"table|panel|label|state|status|view|pattern|algorithm|theorem|method|law|effect|principle)s?\b"
)

# ---------------------------------------------------------------- cues

_MEETING: Final = _words("""
adopted asked assistant babysitter buddy cc classmate co-worker coach colleague congrats coworker dating dear dentist
divorced doctor emailed friend hello hey hi hugged invite invited kissed married mate mentor met named nanny neighbor
neighbour pal phone phoned ping pinged remind ring student teacher teammate texted thank thanks therapist told
""") | frozenset(known.KIN)
_WITH: Final = _words("""
and ask attendees bring by call called guests help helped meet meeting meets miss missed missing participants present
saw see tell visit visited visiting w w/ was with
""")
_MOTION: Final = _words("""
back been bus came come comes commute commutes commuting cruise cycle cycled deploy drive drives driving drove
emigrated escape ferry flew flies flight flights flown fly flying getaway go goes going gone head headed heading hike
immigrated invited journey move moved moves moving off relocate relocated relocating return returned returning road
roadtrip sail sailed sent shipped ticket tickets tour train travel traveled traveling travelled travelling travels trip
trips visit way welcome went
""")
_LIVING: Final = _words("""
apartment arrived based born city conference flat grew grow happened holiday holidays home hotel house job landed life
live lived lives living meetup month months moved office place places raised restaurant school semester settled
somewhere spot stay stayed staying stays studied studying summer town up vacation vacationed vacationing wedding week
weekend winter year years
""")
_LEAVING: Final = _words("""
all am away back bus came come comes drive driving drove flew flight flights flown fly flying hailing hails he's i'm is
moved originally return returned roots she's ship shipped they're train we're
""")
_WORKING: Final = _words("""
analyst applied apply career consultant contract degree director employed engineer enrol enrolled faculty graduated
hired intern interned internship interview interviewed interviewing job manager offer phd position professor researcher
role shift shifts started stint studied studies study volunteer volunteered volunteering volunteers vp work worked
working works
""")
_DEALING: Final = _words("""
acquired bought contract deal funded invoice joined offer partnered partnering partnership recruiter signed sponsored
""")
_BUSINESS: Final = _WORKING | _DEALING
_USING: Final = _words("""
adopt adopted app called clone cloned configure configured database debug deploy deployed deploys downgrade drop
dropped editor fork framework install installed installing installs language library package plain project replace
replaced replaces repo repository run running runs tool tried try upgrade upgraded upgrading use uses using vanilla via
""")
_BUILDING: Final = _words("""
access based build builds built code coded coding converted deployed deploying developed hosted implemented logged
migrate migrated migrating migration move moved moving port ported porting powered rewrite rewriting rewritten running
runs switch switched switching upgrade upgraded uses work works write written
""")
_HUMAN: Final = (
    r"(?:,? (?:said|says|told|tells|asked|asks|thinks|thought|wants|wanted|loves|loved|likes|liked"
    r"|hates|knows|knew|suspects|"
    r"suspected|invited|texted|emailed|called|calls|wrote|promised|agreed|agrees|mentioned|suggested"
    r"|suggests|laughed|smiled|cried|"
    r"replied|answered|joined|joins|retires|retired|leads|led|owns|texts|came|went|goes|brings|brought"
    r"|took|met|bought|gave|sent|moved|"
    r"lives|lived|works|worked|married|complained|complains|noticed|noticing|feels|felt|helped|helps"
    r"|proposed|proposes|reviewed|"
    r"volunteers|volunteered|offered|offers|hopes|hoped|plans|planned|remembers|visited|visits|cooked"
    r"|cooks|drove|slept|ate|turned|"
    r"passed|recommended|recommends|showed|started|broke|got|needs|wore|keeps|prefers|believes|insists"
    r"|insisted|admitted|"
    r"explained|taught|teaches|studies|studied|plays|played|sings|sang|drew|baked|forgot|looked)\b"
    r"| (?:has|is|was|will|would|had) (?:the pager|a |an |my |our |his |her |\w{2,15}ing\b|also "
    r"|already |looked|been|not coming|"
    r"coming|so |really |very |on call|on leave|sick|ill|busy|late|happy|sad|great|sweet|kind|pregnant|engaged|married)"
    r"|(?:'s|’s) (?:place|birthday|wedding|party|house|flat|apartment|turn|mum|mom|dad|mother|father"
    r"|sister|brother|wife|husband|son|"
    r"daughter|boss|kids|dog|cat|idea|opinion|comment|review|desk|car|laptop|advice|family|parents"
    r"|friend|room|team|suggestion|"
    r"partner|boyfriend|girlfriend|email|message|face|voice|job)\b"
    r"| and (?:I|me)\b|,? (?:can|could|will|would) you\b|, (?:his|her|my|our|their) (?:wife|husband"
    r"|son|daughter|partner|brother|sister|"
    r"friend|boss|mother|father)\b"
    r"| (?:is|isn't|isn’t) (?:\w{2,10}ing|from|here|there|away|back)\b)"
)
_AFTER_PERSON = re.compile(_HUMAN)
_AFTER_PROJECT = re.compile(
    r"(?: (?:repo|repository|library|framework|package|plugin|SDK|CLI|extension|compiler|crashes"
    r"|crashed|compiles|throws)s?\b"
    r"| v?\d{1,4}\.\d)"
)
_AFTER_LISTED_PROJECT = re.compile(
    r" (?:app|server|client|container|image|cluster|database|db|API|module|instance|query|queries"
    r"|config|version|upgrade|"
    r"migration|docs|dashboard|job|pipeline|worker|backend|frontend|service|code|script|component"
    r"|supports|hangs|fails|\d)s?\b"
)
_AFTER_ORGANISATION = re.compile(
    r" (?:announced|acquired|launched|employees?|CEO|shares|stock|offices?|headquarters|hired|hires|fired)\b"
)
_AFTER_PLACE = re.compile(
    r"(?:, (?:[A-Z]{2}\b|[A-Z][a-z]+ia\b)| (?:airport|station|trip|beach|downtown|suburbs?|weather|harbou?r|region)\b)"
)
# What follows a subject. Nothing on the line, a colon or closing bold: a heading or a label.
_AFTER = re.compile(
    r"(?!\s*(?:\*\*|__|:|\n|\Z))(?P<verb>,? (?:is|was|has|had|will|would|can|could|should|does|did|and|said|says|"
    r"told|asked|wants?|went|got|made|took|came|lost|won|fell|[a-z]{2,12}ed|[a-z]{2,12}[a-rt-z]s)\b)?"
)
_AUXILIARIES: Final = _words("is was has had will would can could should does did and lost won")
_COMMON_ENDINGS: Final = ("ing", "ly", "n't", "ed", "'s", "'m", "'ll", "'re", "'ve", "'d")
_NOUN_ENDINGS: Final = tuple(
    _words("""
able ables age ages ance ature ence ers ful ible ical ings ion ions ism ity ive less ment ments ness ogy ous ship sis
ware work
""")
)
_SENTENCE_START = re.compile(
    r"(?:\A|[.!?:;…。\u2190-\u2bff\U0001f000-\U0001faff]|[\n\t•|>*#/=\"“(\[-])[\s\"'“”(*_#>\[-]*\Z"
)
_START_WIDTH: Final = 12
_CUE_WIDTH: Final = 60
_LOWER_WORD = re.compile(r"\b[a-zß-ÿ]+\b")
_INSIDE = re.compile(r"(?<=[a-z,] )[A-ZÀ-ÖØ-Þ]\w*")
_STRIP: Final = ".,;:!?\"'“”()*_`[]"


def named(text: str, start: int, said: str, *, talk: bool = False, heading: bool = False) -> Entity | None:
    """The entity a capitalised run of words names, or None where it only opens a sentence or heads a paragraph.

    Args:
        text: the whole text.
        start: of `said` in it.
        said: the run, as the pattern found it.
        heading: it stands in a heading or a bold label, where every word may be capitalised.
        talk: people are talking: an unknown name in the place of a person or a town is one.
    """
    words = said.replace("’", "'").split()
    end = start + len(said)
    opens = _starts_sentence(text, start)
    whole = " ".join(words).lower().removesuffix("'s").rstrip(".")
    if whole in _PHRASES:
        return Entity(_PHRASES[whole], whole, _shown(words))
    # "Thanks Melanie", "The Visibility Timeout": what opens a sentence is not part of the name. A title tells a person.
    titled, dropped = False, ""
    while words and (_common(words[0]) or words[0].lower().rstrip(".") in known.TITLES):
        if len(words) == 1 and _cued_word(text, start, end, words[0]):
            break
        if words[0] == "New" and not opens and len(words) > 1:
            break
        dropped = words[0].lower().rstrip(".")
        titled = dropped in known.TITLES and dropped not in known.HEADINGS
        del words[0]
        opens = False
    if len(words) > 1 and opens and words[1].lower() in _GIVEN and not _is_listed(words[0]):
        dropped = words.pop(0).lower()  # "Met Beatrix", "Ring Harish"
        opens = False
    while (
        words
        and (_common(words[-1]) or words[-1].islower() or words[-1] == "&")
        and not _cued_word(text, start, end, words[-1])
    ):
        if len(words) > 1 and words[-1].lower().rstrip(".") in _ENDS:
            break
        del words[-1]
    if not words:
        return None
    owner = words[-1].endswith("'s")
    shown = _shown(words)
    key = shown.lower().strip("'.")
    if len(key) < 3 and key not in _KNOWN:
        return None
    if key in known.DEMONYMS or (key in known.HEADINGS and not titled and not _cued_word(text, start, end, words[0])):
        return None
    lower = key.split()
    if len(lower) > 1 and all(word in known.HEADINGS or word in known.COMMON for word in lower):
        return None
    begin = max(start, text.find(words[0].partition("'")[0], start, end))
    weights = _weights(text, begin, end - 2 * owner, words, dropped, titled=titled, talk=talk, opens=opens)
    best = max(weights, key=lambda kind: (weights[kind], -NAME_KINDS.index(kind)), default="name")
    weight = weights.get(best, 0)
    suffixed = len(lower) > 1 and best in ("organisation", "place") and lower[0] not in _KNOWN
    if (
        opens
        and (weight < 2 or suffixed)
        and ((not owner and not _is_name(text, end, shown)) or key.endswith(_NOUN_ENDINGS))
    ):
        return None
    if opens and key not in _KNOWN and " " not in key and key.endswith((*_NOUN_ENDINGS, *_COMMON_ENDINGS)):
        return None
    if heading and (weight < _SURE or (lower[0] not in _KNOWN and not titled)):
        return None
    if weight < 2 and _NOT_NAMES_AFTER.match(text, end):
        return None
    return Entity(best if weight >= 1 else "name", key, shown)


def _weights(
    text: str, start: int, end: int, words: Sequence[str], dropped: str, *, titled: bool, talk: bool, opens: bool
) -> dict[str, int]:
    """How much speaks for each kind: the lists, the name's own parts, the words around it."""
    lower = [word.lower().strip(".") for word in words]
    lower[-1] = lower[-1].removesuffix("'s")
    key = " ".join(lower)
    weights: dict[str, int] = defaultdict(int)
    if key in _PHRASES:
        weights[_PHRASES[key]] += 2 * _SURE
    elif len(words) > 1:
        for kind, weight in _parts(lower).items():
            weights[kind] += weight
    else:
        for kind, weight in _KNOWN.get(key, {}).items():
            if weight == _SURE or not words[0].isupper():
                weights[kind] += weight
    if titled:
        weights["person"] += 2 * _SURE
    settled = {kind for kind, weight in weights.items() if weight >= _SURE}
    for kind, weight in _cues(text, start, end, dropped, opens=opens).items():
        if kind not in weights and (settled or (kind == "person" and (words[-1].isupper() or " of " in key))):
            continue  # Grafana may show something and stays a product
        # A hint alone makes no kind of an unknown name, but among people who talk.
        hinted = talk and not weights and len(key) > 2 and not words[0].isupper()
        told = weight >= _SURE or (weight == 2 and kind != "place")
        if told or kind in weights or (hinted and weight == _HINTS.get(kind)):
            weights[kind] += weight
    return weights


def _parts(lower: Sequence[str]) -> dict[str, int]:
    """What the words of a longer name say: "… University", "… Street", "Lake …", a given name and a surname."""
    first, last = lower[0], lower[-1]
    given = first in known.GIVEN or (first in _CAPITAL and last not in known.PLACES)
    if first in _ORGANISATION_STARTS and len(lower) > 2:
        return {"organisation": _SURE}
    if first in _PLACES_START and last not in known.HEADINGS:
        return {"place": _SURE}
    if first in known.HEADINGS or _common(first):
        return {}
    if "&" in lower:
        return {"organisation": _SURE} if len(lower) == 3 and last not in known.HEADINGS else {}
    if last in _PLACE_ENDS and not (first in known.GIVEN and last in _SURNAMES_TOO):
        return {"organisation": _SURE} if first in _ORGANISATION_STARTS else {"place": _SURE}
    if first in known.PROJECTS or (first in known.PROJECTS_CAPITAL and last in _PROJECT_ENDS):
        return {"project": _SURE}
    if last in _ORGANISATION_ENDS and not (first in known.GIVEN and last in _SURNAMES_TOO):
        return {"organisation": _SURE}
    if first in _ORGANISATION_STARTS:
        return {"organisation": _SURE}
    if first in known.ORGANISATIONS:
        return {"project": _SURE}  # Google Maps, Apple Watch
    if first in _DIRECTIONS and last in known.PLACES:
        return {"place": _SURE}
    if last in known.PLACES and first in known.PLACES:
        return {"place": _SURE}
    if given and len(lower) <= 4 and last not in known.HEADINGS and not _common(last):
        return {"person": _SURE}
    return {}


def _cues(text: str, start: int, end: int, dropped: str, *, opens: bool) -> dict[str, int]:
    """What the words before and after a name say of its kind."""
    before = [word.strip(_STRIP) for word in text[max(0, start - _CUE_WIDTH) : start].lower().split()[-4:]]
    glued = opens and not dropped  # the words before are another sentence's
    four, three, two, one = ([""] * 4 + ([] if glued else before))[-4:]
    if dropped and not one:
        one = dropped
    found: dict[str, int] = defaultdict(int)
    if one in _MEETING or dropped in _MEETING:
        found["person"] += _SURE
    elif one in _WITH:
        found["person"] += 1
    if one in ("in", "near", "around", "across", "throughout", "outside"):
        found["place"] += _SURE if {two, three} & _LIVING else 2
    elif one in ("to", "into", "for") and {two, three, four} & _MOTION:
        found["place"] += _SURE if one != "for" else 1
    elif one == "from" and {two, three} & _LEAVING:
        found["place"] += _SURE
    elif one in (
        "to",
        "from",
        "at",
        "via",
        "through",
        "toward",
        "towards",
        "reach",
        "reached",
        "leaving",
        "visiting",
        "exploring",
    ):
        found["place"] += 1
    elif one == "of" and two in (
        "city",
        "town",
        "village",
        "capital",
        "outskirts",
        "mayor",
        "out",
        "streets",
        "outside",
    ):
        found["place"] += _SURE
    if one in ("at", "for", "with", "from", "by") and {two, three, four} & _BUSINESS:
        found["organisation"] += (
            _SURE if (one in ("at", "for") and {two, three} & _WORKING) or {two, three} & _DEALING else 1
        )
    elif one in ("joined", "joining", "acquired"):
        found["organisation"] += 2
    if one in _USING and one != dropped:
        found["project"] += 2
    elif one in ("to", "from", "on", "with", "in", "into", "onto") and {two, three} & _BUILDING:
        found["project"] += 1
    if _AFTER_PERSON.match(text, end):
        found["person"] += _SURE
    elif _AFTER_PROJECT.match(text, end):
        found["project"] += 2 if one else 1
    elif _AFTER_LISTED_PROJECT.match(text, end):
        found["project"] += 1
    elif _AFTER_PLACE.match(text, end):
        found["place"] += _SURE
    elif _AFTER_ORGANISATION.match(text, end):
        found["organisation"] += 2
    if text[start - 2 : start] == ", " and text[end : end + 1] in ("!", "?") and three != "":
        found["person"] += 1
    return found


def _cued_word(text: str, start: int, end: int, word: str) -> bool:
    """Whether a common word is a name here: "flew to Nice", "August said hi", "my friend Grace"."""
    key = word.lower().removesuffix("'s")
    listed = _KNOWN.get(key)
    return listed is not None and any(
        weight >= 2 and kind in listed
        for kind, weight in _cues(text, start, end, "", opens=_starts_sentence(text, start)).items()
    )


def _is_listed(word: str) -> bool:
    word = word.lower().removesuffix("'s")
    return word in _KNOWN or word in known.TITLES


def _shown(words: Sequence[str]) -> str:
    return " ".join(words).removesuffix("'s")


def _is_name(text: str, end: int, shown: str) -> bool:
    """Whether a capitalised run that opens a sentence or line is a name: a heading is none, a lone word hardly ever."""
    if len(shown) == len(text.strip(" ?!.")):
        return True
    after = _AFTER.match(text, end)
    if after is None:
        return False
    if " " in shown or "'" in shown or shown.isupper():
        return True
    if shown.lower() in _KNOWN:  # a word that may be a name: "Rose bushes" are none
        return "person" not in _KNOWN[shown.lower()] and (after["verb"] or "").lstrip(", ") in _AUXILIARIES
    lower_case, inside = _uses(text)
    lower = shown.lower()
    if lower.endswith(_COMMON_ENDINGS) or lower in lower_case:
        return False
    return after["verb"] is not None or shown in inside


@lru_cache(maxsize=4)
def _uses(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of `text` written in lower case, and those capitalised inside a sentence."""
    return frozenset(_LOWER_WORD.findall(text)), frozenset(_INSIDE.findall(text))


def _common(word: str) -> bool:
    word = word.lower().strip("'.")
    return word in known.COMMON or word.partition("'")[0] in known.COMMON


def _starts_sentence(text: str, start: int) -> bool:
    if start > 1 and text[start - 1] == " " and (text[start - 2].isalpha() or text[start - 2] == ","):
        return False  # as most names stand
    return start == 0 or _SENTENCE_START.search(text[max(0, start - _START_WIDTH) : start]) is not None


# ---------------------------------------------------------------- one session


def join(mentions: Sequence[Sequence[Entity]], speakers: Sequence[str | None]) -> list[list[Entity]]:
    """Make the names of one session agree: each person once, under her fullest name and the one she is called by.

    "Mel" becomes Melanie who speaks here, "Priya" and "Sharma" the one Priya Sharma, and a `name` that is elsewhere in
    the session a person, a place, an organisation or a project becomes that. A short form of two people stays as it is.
    The short form is kept beside the full one: another session may know no other.

    Args:
        mentions: the entities of each item.
        speakers: who says each item; as long as `mentions`.

    Returns:
        As many lists, each (kind, key) once in each.
    """
    spoken = {name.lower(): name for name in (" ".join(s.split()) for s in speakers if s) if name}
    kinds: dict[str, set[str]] = defaultdict(set)
    shown = dict(spoken)
    for entity in (entity for item in mentions for entity in item):
        if entity.kind in NAME_KINDS:
            kinds[entity.key].add(entity.kind)
            shown.setdefault(entity.key, entity.name)
    people = set(spoken) | {key for key, found in kinds.items() if "person" in found}
    owners = {entity.key.partition(" of ")[2] for item in mentions for entity in item if entity.kind == "relationship"}
    forms = people | owners | {key for key, found in kinds.items() if found == {"name"}}
    full = _aliases(forms, people, set(spoken))
    sure = {key: (found - {"name"}).pop() for key, found in kinds.items() if len(found - {"name"}) == 1}
    sure |= dict.fromkeys(people, "person") | dict.fromkeys(full, "person")
    return [_joined(item, full, sure, spoken, shown) for item in mentions]


def _joined(
    item: Iterable[Entity],
    full: Mapping[str, str],
    sure: Mapping[str, str],
    spoken: Mapping[str, str],
    shown: Mapping[str, str],
) -> list[Entity]:
    out: dict[tuple[str, str], Entity] = {}
    for entity in item:
        kind = entity.kind
        # Who speaks here is a person, whatever the name looks like; else only a name of no kind takes one.
        if kind == "name" or (kind in NAME_KINDS and entity.key in spoken):
            kind = sure.get(entity.key, kind)
        if kind == "person" and entity.key in full:
            key = full[entity.key]
            out.setdefault(("person", key), Entity("person", key, shown.get(key, entity.name)))
        elif kind == "relationship":
            word, of, owner = entity.key.partition(" of ")
            if owner in full:
                key = f"{word}{of}{full[owner]}"
                out.setdefault((kind, key), Entity(kind, key, entity.name))
        out.setdefault((kind, entity.key), Entity(kind, entity.key, entity.name))
    return list(out.values())


def _aliases(forms: set[str], people: set[str], spoken: set[str]) -> dict[str, str]:
    """Short form → the one full name it can mean, among `people`; forms that fit none or several are left out."""
    by_part: dict[str, set[str]] = defaultdict(set)
    for name in people:
        parts = name.split()
        if len(parts) > 1:
            by_part[parts[0]].add(name)
            by_part[parts[-1]].add(name)
    by_given: dict[str, set[str]] = defaultdict(set)
    for name in people:
        by_given[name.split()[0]].add(name)
    prefixes: dict[str, set[str]] = defaultdict(set)
    for name in spoken:
        given = name.split()[0]
        for length in range(3, min(len(given), _LONGEST_GIVEN)):
            prefixes[given[:length]].add(name)
    full: dict[str, str] = {}
    for form in sorted(forms):
        if " " in form:
            continue
        fitting = by_part.get(form, set()) | {
            name for given in known.NICKNAMES.get(form, ()) for name in by_given.get(given, ())
        }
        if not fitting and form not in spoken and form not in known.GIVEN:
            fitting = prefixes.get(form, set())
        # Melanie and Melanie Park are one; of two Melanies neither is meant.
        if len(fitting) <= _MOST_FORMS:
            fitting = {name for name in fitting if name != form and not any(_is_part(name, other) for other in fitting)}
        if len(fitting) == 1 and (form not in spoken or by_part.get(form)):
            full[form] = fitting.pop()
    return {form: full.get(name, name) for form, name in full.items()}


_LONGEST_GIVEN: Final = 20
_MOST_FORMS: Final = 8
"""A short form that fits more names means none of them."""


def _is_part(short: str, long: str) -> bool:
    return short != long and " " not in short and short in long.split()
