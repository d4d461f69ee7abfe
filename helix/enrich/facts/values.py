"""Readers of values: amounts, durations, states, names, places and dates at the begin of a phrase."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Final

from helix.enrich.facts.canonical import find_kind
from helix.enrich.facts.slots import TRAILING, cut_at, cut_clause, read_path, read_people, read_role, read_tool
from helix.enrich.facts.words import FOLDED, JOBS, NOT_NAMES, PATTERNS, TITLES, VALUES, WORDS
from helix.text.dates import find_moments
from helix.text.gazetteer import AMBIGUOUS_PROJECTS, PROJECTS

_CODE: Final = re.compile(r"`[^`]+`")


def is_known_tool(name: str) -> bool:
    """Return whether it is software that the gazetteer knows."""
    low = name.lower()
    known = {low, low.partition(" ")[0]}
    return not known.isdisjoint(PROJECTS) or (name[:1].isupper() and not known.isdisjoint(AMBIGUOUS_PROJECTS))


def is_tool(name: str) -> bool:
    """Return whether all of a name is software that the gazetteer knows: "Vitest", but not "git stash"."""
    low = name.lower()
    return low in PROJECTS or low in AMBIGUOUS_PROJECTS or find_kind(low) != ""


def read_known_tool(raw: str) -> list[str]:
    """Return tools of which each is known software."""
    tools = read_tool(raw)
    return tools if all(is_known_tool(tool) and not _has_noun(tool) for tool in tools) else []


def _has_noun(tool: str) -> bool:
    """Return whether a common noun follows the name of a tool: "Python 2 support" is no tool."""
    return any(word.isalpha() and word.islower() and word not in PROJECTS for word in tool.split()[1:])


_HOSTS: Final = frozenset(("", "hosting", "orchestration", "ci", "docs", "code hosting"))


def read_engine(raw: str) -> list[str]:
    """Return tools that a part of a system is built on: "DuckDB", but no host."""
    tools = read_tool(raw)
    return [] if any(find_kind(tool.lower()) in _HOSTS for tool in tools) else tools


def read_part(raw: str) -> list[str]:
    """Return things that were added or removed: "the `formatBytes` helper", "`a.lock` and `b.lock`"."""
    parts, rest = _split_parts(raw)
    placed = rest.startswith((" to ", " from ", " in ", " into "))
    return [] if rest.startswith(" as ") or (placed and not read_part_place(raw)) else parts


def read_part_place(raw: str) -> str:
    """Return where the things of `raw` were added or removed, "" if that is not said: "`pkg/session/session.go`"."""
    _, rest = _split_parts(raw)
    match = VALUES["part place"].match(rest)
    return match["place"].replace("`", "") if match and not _BOTH.match(rest) else ""


_BOTH: Final = re.compile(r" \w+ both [^,.;]* and ")


def _split_parts(raw: str) -> tuple[list[str], str]:
    """Return the things at the begin of `raw`, and the text after them."""
    parts: list[str] = []
    start = 0
    while len(parts) < 6:
        match = VALUES["part"].match(raw, start)
        if not match:
            return [], raw
        parts.append(match["part"])
        start = match.end()
        if match["more"]:
            continue
        # "`a` and `b` columns" share their noun, and so do "columns `a` and `b`".
        if len(parts) > 1 and (parts[-1].endswith("s") or re.match(r"[^`]*s `", parts[0])):
            parts = [raw[: match.end("part")]]
        elif parts[-1][-1] != "`" and any(
            part.endswith("`") for part in parts
        ):  # what follows, like its place, is said of the last one alone
            parts = parts[-1:]
        if "`" not in parts[-1] and len(parts) == 1 and _COMPLETED.match(raw, start):
            match = _COMPLEMENT.match(raw, start)
            if not match:
                return [], raw
            parts = [match.string[: match.end()].rstrip(".")]
            start = len(parts[0])
        return [_name_part(part) for part in parts], raw[start:]
    return [], raw


# "A build dependency on junit4": a plain noun says too little without its complement.
_COMPLETED: Final = re.compile(r" (?:on|for|of|with|that|which|where|when|via)\b")
_COMPLEMENT: Final = re.compile(
    r" (?:on|for|of|with) (?!(?:it|this|that|them)\b)[\w./`#@-]+(?: (?!so\b|that\b|which\b|because\b)[\w./`#@-]+){0,3}?"
    r"(?=[.,;:!?)—–(]|\Z| (?:to|from|in|into|so|that|which|because|since|when|while|and|as|at)\b)"
)


def _name_part(part: str) -> str:
    """Return a thing with an article where it needs one: "the retry helper", but "retry()"."""
    bare = part.replace("`", "")
    first = part.partition(" ")[0].lower()
    return f"the {bare}" if " " in _CODE.sub("x", part) and first not in WORDS["part determiners"] else bare


def read_whole_part(raw: str) -> list[str]:
    """Return all of `raw` as a thing that was removed."""
    match = VALUES["part"].match(raw)
    return [raw.replace("`", "")] if match and match.end() == len(raw) and not match["more"] else []


_BEFORE_NOUN: Final = frozenset(("for", "of", "with", "and", "in", "to", "on", "by", "as"))
_REFERS: Final = re.compile(
    r"\b(?:it|its|this|that|these|those|them|they|their|you|your|he|she|his|her|here|there|above|below|same|following|something|anything|everything)\b"
)


def read_predicate(raw: str) -> list[str]:
    """Return a verb with its objects: "accepts a string parameter for `cloudURL`"."""
    phrase = cut_at(VALUES["predicate end"], raw).strip(" ,")
    words = phrase.split()
    cut = raw[len(phrase) : len(phrase) + 1] == ","
    if cut and len(words) > 3 and words[-1].islower() and words[-2] in _BEFORE_NOUN:
        words = words[:-2]  # "for concurrent, nil-safe access" is cut inside its noun phrase
        phrase = " ".join(words)
    if not 1 < len(words) <= 16 or words[0].lower() in WORDS["no predicate"] or _REFERS.search(phrase):
        return []
    if (
        phrase.count("`") % 2
        or phrase.count("(") != phrase.count(")")
        or words[-1].lower() in WORDS["dangling"]
        or phrase.count('"') % 2
    ):
        return []
    short = len(words) == 2 and (words[1].endswith("ly") or words[1] in ("well", "fine", "again", "clean", "meanwhile"))
    return [] if short else [phrase.replace("`", "")]


def read_whole_predicate(raw: str) -> list[str]:
    """Return a verb with its objects where no list or clause continues after them."""
    found = read_predicate(raw)
    rest = raw[len(cut_at(VALUES["predicate end"], raw)) :].lstrip()
    return [] if rest.startswith((",", "and ")) else found


def read_amount(raw: str) -> list[str]:
    """Return a number with its unit, rate and currency: "30 days", "38,000 € a month", "0.5 g/L"."""
    match = VALUES["amount"].match(raw.lstrip("`\"' "))
    return [match[0].strip().strip("`\"'")] if match else []


def read_duration(raw: str) -> list[str]:
    """Return a span of time: "30 days", "a full year"."""
    match = VALUES["duration"].match(raw)
    return [match[0]] if match else []


def read_literal(raw: str) -> list[str]:
    """Return code, a quoted word, a number with its unit, or a word with a digit or a sign: `json`, "30 s", #c15f3c."""
    code = _CODE.match(raw)
    if code:
        return [] if _NOUN_AFTER.match(raw, code.end()) else [code[0].strip("`")]
    found = read_amount(raw)
    if found:
        return found
    match = VALUES["literal"].match(raw)
    return [match["plain"] or match["quoted"]] if match else []


_NOUN_AFTER: Final = re.compile(
    r" (?!again|now|instead|too|here|everywhere|already|only)[a-z]+(?=[.,;!]|\Z)"
)  # "`Domain` aware"


def read_state(raw: str) -> list[str]:
    """Return a state: "off", "enabled"."""
    return [re.match(r"(?:at )?[\w-]+", raw)[0]]  # type: ignore[index]


_OPTION_ENDS: Final = re.compile(r" (?:for|because|since|as|due|in favou?r|when|after|at|on|so|and we|but|instead)\b")


def read_option(raw: str) -> list[str]:
    """Return an option that is rejected: "Kafka", "the append variant"."""
    phrase = re.sub(r"\Aan? ", "", cut_at(_OPTION_ENDS, cut_clause(raw)))
    words = phrase.lower().split()
    vague = not words or words[0] in (WORDS["vague"] | WORDS["dangling"] | {"during"}) - {"the", "a", "an"}
    return [] if vague or len(words) > 6 or set(words) & WORDS["refers back"] else [phrase]


_OFFICE_ENDS: Final = re.compile(
    r" (?:now|here|and|but|who|which|since|as|from|until|again|this|next|by|at|so|because)\b"
)


def read_office(raw: str) -> list[str]:
    """Return a role with its scope: "tech lead for payments", "head of infra"."""
    phrase = cut_at(_OFFICE_ENDS, cut_clause(raw))
    words = re.split(r" (?:for|of|on|in|to|with) ", phrase.lower(), maxsplit=1)[0].split()
    if not 0 < len(words) <= 4 or set(words) & WORDS["no job"] or len(phrase.split()) > 7:
        return []
    return [phrase] if words[-1] in WORDS["offices"] or (words[-1] in JOBS and read_role(words[-1])) else []


def read_holder(raw: str) -> list[str]:
    """Return a person, or "me" for the speaker."""
    if re.match(r"me\b", raw):
        return ["me"]
    title, _, rest = raw.partition(" ")
    if title.lower().rstrip(".") in TITLES:
        return [f"{title} {name}" for name in read_people(rest)[:1]]
    return read_people(raw)[:1]


def read_duty(raw: str) -> list[str]:
    """Return the duty of who is called first, however it is named, with its scope: "on-call duty for search"."""
    match = _DUTY_SCOPE.search(raw)
    scope = match["scope"] if match else ""
    timely = not WORDS["shifts"].isdisjoint(scope.lower().split())
    return ["on-call duty" if timely or not scope else f"on-call duty for {scope}"]


_DUTY_SCOPE: Final = re.compile(
    r" for (?:the |our )?(?P<scope>[\w-]+(?: [\w-]+){0,2})(?=[.,;!]|\Z| (?:now|from|since|until|this)\b)"
)


def read_name(raw: str) -> list[str]:
    """Return a new name: code, quoted, capitalised, or one word at the end of its clause."""
    code = _CODE.match(raw)
    if code:
        return [code[0].strip("`")]
    match = VALUES["new name"].match(raw)
    if not match:
        return []
    name = (match["quoted"] or match["title"] or match["token"] or match["last"]).rstrip(TRAILING)
    first = name.lower().partition(" ")[0]
    adverb = len(first) > 7 and not match["quoted"] and first.endswith(_ADVERBS)
    return [] if adverb or first in NOT_NAMES | WORDS["no new name"] else [name]


_ADVERBS: Final = ("edly", "ally", "tely", "ently", "ously", "ively")


def read_site(raw: str) -> list[str]:
    """Return a path, a URL, or a name in code: where something is in a system."""
    code = _CODE.match(raw)
    if code and not re.fullmatch(r"`[^`/.]+`", code[0]):
        raw = code[0].strip("`")
    elif code:
        return [f"in {code[0].strip('`')}"]
    found = read_path(raw)
    return [re.sub(r":\d+(?:-\d+)?\Z", "", path) for path in found]


def read_address(raw: str) -> list[str]:
    """Return a URL."""
    match = VALUES["url"].match(raw.lstrip("`<"))
    return [match[0].rstrip(".,;:!?)>`'\"")] if match else []


_SPOT_ENDS: Final = re.compile(
    r",? (?:now|again|since|because|so|and|but|which|who|from|until|already|as well|too|where|if|these|this)\b"
)


def read_spot(raw: str) -> list[str]:
    """Return where a thing is kept, with its preposition: "in the top drawer at reception"."""
    phrase = cut_at(_SPOT_ENDS, cut_clause(raw))
    return [phrase] if len(phrase.split()) <= 10 and VALUES["place noun"].search(phrase) else []


def read_requirement(raw: str) -> list[str]:
    """Return a tool with the version that is needed: "Node 20 or later"."""
    amount = read_amount(raw)
    if amount and not amount[0].replace(".", "").isdigit():
        return amount
    match = VALUES["requirement"].match(raw)
    if not match or match["tool"].lower() in NOT_NAMES:
        return []
    return [match[0].replace("`", "")] if match["version"] or match["tool"].lower() in PROJECTS else []


_DAYS_AHEAD: Final = "it will be "


def read_when(raw: str, at: datetime | None, recurs: bool = False) -> list[str]:
    """Return the day at the begin of `raw` in ISO 8601, with its time of day; a recurring time as written.

    Args:
        recurs: a bare weekday is one of every week, as in "the deploy day is Wednesday".
    """
    raw = re.sub(r"\A ?(?:(?:on|for|at|in|the) ){0,2}", "", raw)
    recurring = VALUES["recurring"].match(raw) or (VALUES["weekday"].match(raw) if recurs else None)
    if recurring:
        return [recurring[0].rstrip(TRAILING)]
    spans = find_moments(_DAYS_AHEAD + raw, at)
    if not spans or spans[0].where[0] > len(_DAYS_AHEAD) + 4 or spans[0].start != spans[0].end:
        return []
    rest = (_DAYS_AHEAD + raw)[spans[0].where[1] :]
    time = VALUES["time of day"].match(rest)
    return [spans[0].key + (f" {time[1]}" if time else "")]


def pick_nearest(day: str, news: list[str], at: datetime | None) -> list[str]:
    """Return a former day in the year that is nearest to the new one: "3 March", said on 4 March, was yesterday."""
    try:
        old, new = date.fromisoformat(day), date.fromisoformat(news[0])
        before = old.replace(year=old.year - 1)
    except (ValueError, IndexError):
        return [day]
    return [before.isoformat() if at and abs(new - before) < abs(new - old) else day]


_UNIT: Final = re.compile(r"[a-zµ%€$£]")
_PARTS: Final = re.compile(r"\d[\d,]*(?:\.\d+)?|[a-zµ%€$£°]+|\S")


def fold_value(key: str) -> str:
    """Return the key of a value in one spelling: "30 s", "30s" and "30 seconds" are the same; others stay."""
    if not (key[:1].isdigit() or key.partition(" ")[0] in FOLDED) or not _UNIT.search(key):
        return key
    if not VALUES["amount"].fullmatch(key):
        return key
    parts = [part.replace(",", "") for part in _PARTS.findall(key)]
    folded = [FOLDED.get(part) or FOLDED.get(_cut_plural(part), _cut_plural(part)) for part in parts]
    return " ".join(folded)


def _cut_plural(unit: str) -> str:
    return unit.removesuffix("s") if len(unit) > 2 else unit


_NOTE: Final = re.compile(r"\s*\((?P<note>[^()]{1,40})\)\s*\Z")


def read_value_cell(cell: str) -> list[str]:
    """Return the value that is all of a cell or of the rest of a line, without a note: "15 s", "`json` (default)"."""
    cell = _NOTE.sub("", cell).strip().rstrip(".,;")
    code = _CODE.fullmatch(cell)
    if code:
        return [code[0].strip("`")]
    if len(cell) > 40 or not re.search(r"\d|\b(?:true|false|on|off|enabled|disabled|yes|no)\b", cell, re.I):
        return []
    amount = VALUES["amount"].fullmatch(cell)
    word = re.fullmatch(r"(?i)true|false|on|off|enabled|disabled|[#~]?[\w.:/@-]*\d[\w.:/@%-]*", cell)
    return [cell] if amount or word else []


def split_wish(raw: str) -> tuple[str, str]:
    """Return a wish, and "over …" where it names the alternative, else ""."""
    match = PATTERNS["prefer over"].search(cut_at(PATTERNS["clause end"], raw))
    return (raw[: match.start()], f"over {cut_clause(match['over'])}") if match and match["over"] else (raw, "")


def read_wish(raw: str) -> list[str]:
    """Return the wish of a person: "short answers without bullet points"."""
    phrase = cut_at(PATTERNS["clause end"], raw).strip(TRAILING)
    words = phrase.lower().split()
    vague = (
        not words
        or words[0] in WORDS["vague"] - {"not", "one"}
        or not set(words).isdisjoint(WORDS["refers back"] - {"you", "your"})
    )
    return [] if vague or not 2 < len(words) <= 14 else [phrase]


_CHOICE: Final = re.compile(
    r"(?P<what>(?:(?:the|a|an) )?[\w%.+'/-]+(?: (?!for\b)[\w%.+'/-]+){0,3}) for (?:the|our|my|all) "
)


def read_choice(raw: str) -> list[str]:
    """Return tools, or any thing that is chosen for a purpose: "95 % ethanol for the tissue"."""
    tools = read_tool(raw)
    match = None if tools else _CHOICE.match(raw)
    if match is None:
        return tools
    words = match["what"].lower().split()
    vague = words[0] in WORDS["vague"] or not set(words).isdisjoint(
        {*WORDS["refers back"], "one", "ones", "option", "way", "idea"}
    )
    return [] if vague else [match["what"]]


def read_habit(raw: str) -> list[str]:
    """Return a verb with its recurring time: "swim on Tuesday mornings at 7"."""
    match = VALUES["habit"].match(raw)
    return [match[0].rstrip(TRAILING)] if match and match["verb"] not in WORDS["no habit"] else []
