"""Dates in statements: what "yesterday", "last Friday", "in May", "3 May 2023" or "two weeks ago" mean when said."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import cache
from typing import Final, Literal, NamedTuple

SCANNED: Final = 16_000
"""Characters looked at; an item is far shorter."""

MAX_MOMENTS: Final = 32
"""Kept of one text: the first ones. More of them is a log or a calendar."""

Tense = Literal["past", "future", ""]
Span = tuple[date, date, str]


class Moment(NamedTuple):
    """A stretch of days that a text speaks of."""

    start: date
    end: date  # inclusive
    key: (
        str  # ISO 8601: day, week "2024-W11", month "2024-03", year; a season as in ISO 8601-2: "2024-21" is its spring
    )
    said: str
    where: tuple[int, int]  # of `said`, in characters


_DAY: Final = timedelta(days=1)
_MONTHS: Final = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
                  "november", "december")  # fmt: skip
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Final = {"spring": 21, "summer": 22, "autumn": 23, "fall": 23, "winter": 24}
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one last", "two couple", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
         "twelve"), 1)
    for word in words.split()
} | {"fifteen": 15, "twenty": 20, "thirty": 30}  # fmt: skip
_UNIT: Final = r"(?P<unit>day|week|fortnight|month|year)"
_COUNT: Final = (
    r"(?P<n>\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|"
    r"(?:a )?couple(?: of)?)"
)
_MONTH: Final = (
    "(?P<month>january|february|march|april|may|june|july|august|september|october|november|december|"
    r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?(?!\w))"
)
_WEEKDAY: Final = "(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_SHORT_DAY: Final = r"(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\.?"
_NUMBER: Final = r"(?P<day>[0-3]?\d)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)(?![\w%/]|[.,:]\d|-\d)"
_EARLY: Final = r"(?:(?:the )?(?:end|beginning|start|middle) of |(?:early|mid|late)[ -])?"
_PART: Final = r"(?: (?:morning|afternoon|evening|night))?"
_HOLIDAY: Final = (
    r"(?P<holiday>(?:christmas|xmas)(?: eve| day)?|boxing day|new year(?:'?s)? (?:eve|day)|hall?oween|"
    r"valentine(?:'?s)?(?: day)?|thanksgiving|easter(?: sunday)?)"
)

# In this order: of the forms that fit at one place the first wins. Every repetition is bounded.
_FORMS: Final = {
    "iso": (
        r"(?<![\w./-])(?P<year>(?:19|20)\d\d)(?P<sep>[-/])(?P<number>[01]\d)(?P=sep)(?P<day>[0-3]\d)(?=T\d"
        r"|(?![\w/-]|\.\d))"
    ),
    "iso_week": r"(?<![\w./-])(?P<year>(?:19|20)\d\d)-?W(?P<week>[0-5]\d)(?![\w/-])",
    "iso_month": r"(?<![\w./-])(?P<year>(?:19|20)\d\d)-(?P<number>[01]\d)(?![\w/-]|\.\d)",
    "numeric": (
        r"(?<![\w./-])(?P<first>\d{1,2})(?P<sep>[/.])(?P<second>\d{1,2})(?P=sep)(?P<year>(?:19|20)\d\d)"
        r"(?![\w/-]|\.\d)"
    ),
    "day_month": (
        rf"(?<![\w.:/#])(?:(?:{_SHORT_DAY}|{_WEEKDAY}),? )?(?:the )?(?<![\d.:/-]){_NUMBER}(?:st|nd|rd|th)?(?: of)? "
        rf"{_MONTH}(?!\w)(?:,? {_YEAR})?"
    ),
    "month_day": (
        rf"(?<![\w.])(?:(?:{_SHORT_DAY}|{_WEEKDAY}),? )?{_MONTH} (?:the )?{_NUMBER}(?P<th>st|nd|rd|th)?"
        rf"(?![\w%:/]|[.,]\d)(?:,? {_YEAR})?"
    ),
    "month_year": rf"(?<![\w.]){_EARLY}{_MONTH}(?:,| of)? {_YEAR}",
    "which_month": rf"(?<![\w.])(?P<which>last|this past|this coming|this|next|coming) {_MONTH}(?!\w)",
    "month": (
        rf"(?<!\w)(?P<prep>(?:in|since|until|till|by|during|before|after|from|through|around) {_EARLY}|"
        rf"(?:end|beginning|start|middle) of |(?:early|mid|late)[ -]){_MONTH}(?!\w)(?! \d)"
    ),
    "season": (
        r"(?<!\w)(?P<which>last|this past|this coming|this|next|in the|the|during the)? ?(?<!\w)"
        rf"(?P<season>spring|summer|autumn|fall|winter)(?:(?: of)? {_YEAR})?(?!\w)"
    ),
    "years": r"(?<!\w)(?:between|from) (?P<first>(?:19|20)\d\d)(?= (?:and|to|until|through) (?:19|20)\d\d(?!\w))",
    "year_year": rf"(?<=(?:19|20)\d\d )(?:and|to|until|through) {_YEAR}",
    "year": (
        r"(?<!\w)(?:in|since|until|till|by|during|before|after|from|around|(?:end|beginning|start|middle|class) of|"
        rf"early|mid|late|circa)[ -](?:the year |early |mid |late )?{_YEAR}"
    ),
    "word": (
        rf"(?<!\w)(?P<word>(?:the )?day before yesterday|(?:the )?day after tomorrow|yesterday|last night|tonight|"
        rf"this (?:morning|afternoon|evening)|today|tomorrow){_PART}(?!\w)"
    ),
    "ago": rf"(?<![\w.]){_COUNT} {_UNIT}s? (?:ago|back)(?!\w)",
    "ahead": rf"(?<!\w)in {_COUNT} {_UNIT}s?(?!\w)",
    "from_now": rf"(?<![\w.]){_COUNT} {_UNIT}s? from (?:now|today)(?!\w)",
    "which": (
        r"(?<!\w)(?P<which>last|this past|this coming|this|next|coming|upcoming) "
        rf"(?:(?P<span>weekend|week|month|year)|{_WEEKDAY}){_PART}(?![\w-])"
    ),
    "weekend": r"(?<!\w)(?:at|over|on|for|by|until|till|before|after|during|in) (?:the|this past) weekend(?!\w)",
    "weekday": (
        rf"(?<!\w)(?P<prep>every |each |on a |most |(?:on|by|until|till|before|to|for|from|after|since"
        rf"|this) |){_WEEKDAY}"
        rf"{_PART}(?! (?:mornings|afternoons|evenings|nights))(?!\w)"
    ),
    "short_day": r"(?<!\w)(?:on|by|until|till|next|last) (?-i:(?P<short>Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun))(?!\w)",
    "holiday": (
        r"(?<!\w)(?P<which>(?:on|for|at|by|before|after|over|since|until|till|around|this|last|next) |)"
        rf"{_HOLIDAY}(?:,? (?:of |in )?{_YEAR})?(?![\w'])"
    ),
    "the_day": rf"(?<!\w)(?:on|by|until|before|since|till) the {_NUMBER}(?:st|nd|rd|th)(?=\s{{0,2}}(?:[.,;!?)]|\Z))",
}
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")
# Every form begins with one of these, or with the blank before a season. The rest is passed over at once.
_ANY_MONTH: Final = _MONTH.replace("?P<month>", "?:")
_FIRST_WORDS: Final = (
    "the|early|mid|late|end|beginning|start|middle|last|this|next|coming|upcoming|in|since|until|till|by|during|before|"
    "after|from|through|around|spring|summer|autumn|fall|winter|between|and|to|class|circa|day|yesterday|tonight|today|"
    "tomorrow|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|couple|at|over|on|"
    "for|every|each|most|xmas|christmas|boxing|new|hall?oween|valentine'?s?|thanksgiving|easter"
)
_FIRST: Final = (
    rf"(?:19|20)\d\d[-/W]|\d{{1,2}}[/.]\d|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_ANY_MONTH}|"
    r"\d{1,3} (?:day|week|fortnight|month|year)|"
    rf"(?:{_ANY_MONTH}|{_WEEKDAY.replace('?P<weekday>', '?:')}|{_SHORT_DAY}|{_FIRST_WORDS})(?!\w)"
)
_PASSED: Final = rf"(?>(?:(?<=\w)(?:\w++ ?| )|[^\w ]++|(?!{_FIRST})\w++ ?)+)"


# Compiled when a text first has a trigger: together they take as long as some questions.
@cache
def _any() -> re.Pattern[str]:
    forms = [
        f"(?P<{form}>{_NAMED_GROUP.sub('(?:', pattern).replace('(?P=sep)', '[-/.]')})"
        for form, pattern in _FORMS.items()
    ]
    return re.compile("|".join([_PASSED, *forms]), re.IGNORECASE)


@cache
def _each(form: str) -> re.Pattern[str]:
    return re.compile(_FORMS[form], re.IGNORECASE)


# A line without any of these, in lower case, holds no date; most lines do not. Each begins with a letter of its own, so
# that most of a text is passed over without a try.
_SPAN: Final = "(?:week|month|year|morning|after|evening|night)"
_DAY_SOON: Final = "(?:mon|tue|wed|thu|fri|sat|sun)"
_TRIGGERS: Final = {
    "1": r"9\d\d",
    "2": r"0\d\d",
    "j": r"an(?:uary)?\b|u[nl]y?\b|une\b",
    "f": r"eb(?:ruary)?\b|all|riday|rom (?:now|today)",
    "m": r"ar(?:ch)?\b|ay\b|onday|onths?\b",
    "a": r"pr(?:il)?\b|ug(?:ust)?\b|utumn|go\b",
    "s": r"ept?\b|eptember\b|pring|ummer|aturday|unday",
    "o": rf"ct(?:ober)?\b|n {_DAY_SOON}\b",
    "n": rf"ov(?:ember)?\b|ext (?:{_SPAN}|{_DAY_SOON}\b)",
    "d": r"ec(?:ember)?\b|ays?\b",
    "w": r"inter|ednesday|eekend|eeks?\b",
    "y": r"esterday|ears?\b",
    "t": rf"o(?:day|night|morrow)|his {_SPAN}|he (?:{_SPAN}|\d)|uesday|hursday|hanksgiving|ill {_DAY_SOON}\b",
    "l": rf"ast (?:{_SPAN}|{_DAY_SOON}\b)",
    "c": rf"oming {_SPAN}|hristmas",
    "u": rf"pcoming {_SPAN}|ntil {_DAY_SOON}\b",
    "p": rf"ast {_SPAN}",
    "b": rf"ack\b|oxing|y {_DAY_SOON}\b",
    "x": "mas",
    "h": "all?oween",
    "v": "alentine",
    "e": "aster",
}
_TRIGGER = re.compile("|".join(rf"{first}(?<!\w{first})(?:{rest})" for first, rest in _TRIGGERS.items()))

_SENTENCE_END = re.compile(r"[.!?;\n](?=\s|\Z)")
_AROUND: Final = 160
"""Characters on each side of a date in which its tense is looked for."""
_FUTURE: Final = (
    r"(?:will|won't|shall|should|must|can(?:'t)?|could|might|going to|gonna|let's|let us|need to"
    r"|needs to|have to|has to|"
    r"to be|is|are|am|isn't|aren't|gets?)(?: not| be| being| get| \w{1,20}ly){0,2}(?: \w{1,20}(?:ed|ing))?|"
    r"(?:\w{1,12}['’](?:ll|re|m))(?: be| \w{1,20}ing)?|plans?|planning|hope to|due|deadline|remind me"
    r"|starts?|begins?|comes?|"
    r"opens?|ends?|takes|works|leaves?|flies|arrives?|goes|go|moves?|see you|meet|want|book|submit|send|ship"
)
_PAST: Final = (
    r"was|were|wasn't|weren't|had|did|didn't|went|got|made|took|came|saw|met|said|told|found|lost|began|bought|brought|"
    r"built|broke|left|felt|gave|heard|kept|knew|paid|ran|sent|sat|slept|spent|spoke|stood|taught"
    r"|thought|won|wrote|woke|"
    r"wore|flew|drove|ate|fell|grew|held|hid|rode|sang|shot|stole|swam|threw|understood|became|caught"
    r"|chose|drank|forgot|"
    r"fought|hurt|led|sold|shook|has been|have been|['’]ve|(?:has|have) \w{1,20}ed|(?!need|feed|speed"
    r"|indeed|embed|exceed|"
    r"proceed|hundred|bed|red|wed)\w{2,20}ed"
)
_SIGNAL = re.compile(rf"\b(?:(?P<future>{_FUTURE})|(?P<past>{_PAST}))\b", re.IGNORECASE)
_BORDER: Final = 40
"""What a comma or a conjunction between a date and a verb adds to their distance, in characters."""
_BORDERS = re.compile(r",|\b(?:and|but|so|because|then)\b")
_COUNTED = re.compile(r" (?!(?:this|was|has|is|as|plus|us|its|does)\b)(?:[a-z]{2,20}s|ms|px|[kmg]i?b|people|percent)\b")
_NO_SPAN_BEFORE = re.compile(
    r"(?:\b(?:time|times|once|twice|nobody|nothing|anything|anyone|not|never)|est|n['’]t(?: \w{1,15}){0,5}) \Z",
    re.IGNORECASE,
)


def moments(text: str, at: datetime | None = None) -> list[Moment]:
    """The dates `text` speaks of, in order of appearance, at most `MAX_MOMENTS`.

    Relative ones ("yesterday", "in May") count from `at`; without it only those that name their year are found. A
    weekday or month alone is the nearest one in the past or the future, as its sentence's tense says. "Three weeks
    ago" is a day, "three months ago" a month, "three years ago" a year; a weekend has its week as key. Numeric dates
    that could be read two ways, vague spans ("a few days ago") and recurring days ("every Friday") are left out.
    """
    found: list[Moment] = []
    text = text[:SCANNED]
    lower = text.lower()
    if len(lower) != len(text):  # İ becomes two characters: places must stay
        lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    done, trigger = 0, _TRIGGER.search(lower)
    while trigger is not None and len(found) < MAX_MOMENTS:
        start = max(done, text.rfind("\n", 0, trigger.start()) + 1)
        newline = text.find("\n", trigger.end())
        done = newline if newline >= 0 else len(text)
        for match in _any().finditer(text, start, done):
            if match.lastgroup is None:
                continue
            span = _read(match.lastgroup, text, match.start(), at)
            if span is not None:
                found.append(Moment(*span, match.group().strip(), (match.start(), match.end())))
        trigger = _TRIGGER.search(lower, done)
    return found[:MAX_MOMENTS]


def _read(form: str, text: str, start: int, at: datetime | None) -> Span | None:
    match = _each(form).match(text, start)
    if match is None:
        return None
    try:
        if form in _ABSOLUTE:
            return _ABSOLUTE[form](match)
        return _RELATIVE[form](match, at.date() if at else None)
    except (ValueError, OverflowError):
        return None  # the 31st of February, the year 10000


# ---------------------------------------------------------------- spans


def _day(day: date) -> Span:
    return day, day, day.isoformat()


def _week(day: date, *, weekend: bool = False) -> Span:
    """The ISO week of `day`, or its weekend under the same key."""
    monday = day - day.weekday() * _DAY
    year, week, _ = day.isocalendar()
    return monday + 5 * _DAY if weekend else monday, monday + 6 * _DAY, f"{year:04}-W{week:02}"


def _month(year: int, month: int) -> Span:
    """A month; `month` may lie outside 1–12 and then counts into the years around."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = date(year, month, 1)
    return first, (first + 31 * _DAY).replace(day=1) - _DAY, f"{year:04}-{month:02}"


def _year(year: int) -> Span:
    return date(year, 1, 1), date(year, 12, 31), f"{year:04}"


def _season(year: int, season: str) -> Span:
    """Northern and by months: winter is the December of `year` and the two months after it."""
    code = _SEASONS[season]
    first = _month(year, 3 * (code - 20))[0]
    return first, _month(year, 3 * (code - 20) + 2)[1], f"{year:04}-{code}"


# ---------------------------------------------------------------- what says its own year


def _iso(match: re.Match[str]) -> Span:
    return _day(date(int(match["year"]), int(match["number"]), int(match["day"])))


def _iso_week(match: re.Match[str]) -> Span:
    return _week(date.fromisocalendar(int(match["year"]), int(match["week"]), 1))


def _iso_month(match: re.Match[str]) -> Span | None:
    return _month(int(match["year"]), int(match["number"])) if 1 <= int(match["number"]) <= 12 else None


def _numeric(match: re.Match[str]) -> Span | None:
    """Dots put the day first; with slashes only a number above 12, or two that are equal, tell which is the day."""
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if match["sep"] == "." or first > 12 or first == second:
        return _day(date(year, second, first))
    return _day(date(year, first, second)) if second > 12 else None


def _month_year(match: re.Match[str]) -> Span:
    return _month(int(match["year"]), _month_number(match))


def _a_year(match: re.Match[str]) -> Span | None:
    # "in 2024 cases" counts.
    return None if _COUNTED.match(match.string, match.end()) else _year(int(match["year"]))


def _first_year(match: re.Match[str]) -> Span:
    return _year(int(match["first"]))


_ABSOLUTE: Final[dict[str, Callable[[re.Match[str]], Span | None]]] = {
    "iso": _iso,
    "iso_week": _iso_week,
    "iso_month": _iso_month,
    "numeric": _numeric,
    "month_year": _month_year,
    "years": _first_year,
    "year_year": _a_year,
    "year": _a_year,
}


# ---------------------------------------------------------------- what counts from a day


def _day_month(match: re.Match[str], at: date | None) -> Span | None:
    """A day of a month; after "may" or "march" a bare number is no day: "you may 3 times"."""
    month, day = _month_number(match), int(match["day"])
    said = match["month"].rstrip(".")
    if said in ("may", "march", "mar") and not match["year"] and not match.groupdict().get("th"):
        return None
    if match["year"]:
        return _day(date(int(match["year"]), month, day))
    if at is None:
        return None
    return _nearest(
        match, at, [date(at.year + step, month, day) for step in (-1, 0, 1) if _exists(at.year + step, month, day)]
    )


def _which_month(match: re.Match[str], at: date | None) -> Span | None:
    if at is None or (match["month"] in ("may", "march") and match["which"].lower() == "this"):
        return None
    month, which = _month_number(match), match["which"].lower()
    if which in ("last", "this past"):
        return _month(at.year - (month >= at.month), month)
    return _month(at.year + (month <= at.month if which != "this" else 0), month)


def _bare_month(match: re.Match[str], at: date | None) -> Span | None:
    if at is None or (len(match["month"].rstrip(".")) < 4 and match["month"].islower() and match["month"] != "may"):
        return None
    month = _month_number(match)
    past = _month(at.year - (month > at.month), month)
    future = _month(at.year + (month < at.month), month)
    tense = "past" if match["prep"].lower().startswith("since") else _tense(match)
    if not tense and match["prep"].lower().startswith(("until", "till", "by")):
        tense = "future"
    if not tense:
        tense = "past" if at - past[0] < future[0] - at else "future"
    return past if tense == "past" else future


def _spoken_season(match: re.Match[str], at: date | None) -> Span | None:
    """A season of a year; "in the summer" alone names none."""
    season, which = match["season"].lower(), (match["which"] or "").lower()
    if match["year"]:
        return _season(int(match["year"]), season)
    if at is None or which not in ("last", "this past", "this coming", "this", "next"):
        return None
    spans = [_season(at.year + step, season) for step in (-2, -1, 0, 1, 2)]
    if which in ("last", "this past"):
        return [span for span in spans if span[1] < at][-1]
    if which == "this":
        return next(span for span in spans if span[0].year == at.year or span[0] <= at <= span[1])
    return next(span for span in spans if span[0] > at)


def _word(match: re.Match[str], at: date | None) -> Span | None:
    if at is None:
        return None
    word = match["word"].lower().removeprefix("the ")
    days = {"yesterday": -1, "last night": -1, "tomorrow": 1, "day before yesterday": -2, "day after tomorrow": 2}
    return _day(at + days.get(word, 0) * _DAY)


def _ago(match: re.Match[str], at: date | None) -> Span | None:
    return _shift(match, at, -1)


def _from_now(match: re.Match[str], at: date | None) -> Span | None:
    return _shift(match, at, 1)


def _ahead(match: re.Match[str], at: date | None) -> Span | None:
    """What lies ahead: not how long something took, or how long ago it last was."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    if _NO_SPAN_BEFORE.search(before) or _tense(match) == "past":
        return None
    return _from_now(match, at)


def _shift(match: re.Match[str], at: date | None, sign: int) -> Span | None:
    """`at` plus a count of units: days, weeks and fortnights to the day, months and years as such."""
    if at is None:
        return None
    count, unit = match["n"].lower().removesuffix(" of"), match["unit"].lower()
    n = sign * (int(count) if count.isdigit() else _NUMBERS[count.rpartition(" ")[2]])
    if unit == "year":
        return _year(at.year + n)
    if unit == "month":
        return _month(at.year, at.month + n)
    return _day(at + n * {"day": 1, "week": 7, "fortnight": 14}[unit] * _DAY)


def _which(match: re.Match[str], at: date | None) -> Span | None:
    if at is None:
        return None
    which = match["which"].lower()
    if match["weekday"]:
        return _day(_which_day(match, at, which, _WEEKDAYS.index(match["weekday"].lower())))
    step = {"last": -1, "this past": -1, "this": 0}.get(which, 1)
    span = match["span"].lower()
    if span == "year":
        return _year(at.year + step)
    if span == "month":
        return _month(at.year, at.month + step)
    # The coming weekend is this week's.
    return _week(at + 7 * (step if which != "this coming" or span == "week" else 0) * _DAY, weekend=span == "weekend")


def _which_day(match: re.Match[str], at: date, which: str, weekday: int) -> date:
    """A weekday: "next Friday" is of the week after, where this week's is to come; "this Friday" may be today."""
    if which in ("last", "this past") or (which == "this" and _tense(match) == "past"):
        return _before(at, weekday)
    if which == "next":
        return at + (weekday - at.weekday() + 7) * _DAY
    return _after(at - _DAY, weekday) if which == "this" else _after(at, weekday)


def _before(day: date, weekday: int) -> date:
    return day - ((day.weekday() - weekday - 1) % 7 + 1) * _DAY


def _after(day: date, weekday: int) -> date:
    return day + ((weekday - day.weekday() - 1) % 7 + 1) * _DAY


def _weekend(match: re.Match[str], at: date | None) -> Span | None:
    if at is None:
        return None
    past = "past weekend" in match.group().lower() or (_tense(match) == "past" and at.weekday() < 5)
    return _week(at - 7 * _DAY if past else at, weekend=True)


def _weekday(match: re.Match[str], at: date | None) -> Span | None:
    prep = match["prep"].lower().strip()
    if at is None or prep in ("every", "each", "on a", "most"):
        return None
    weekday = _WEEKDAYS.index(match["weekday"].lower())
    past = prep == "since" or (prep not in ("by", "until", "till", "before", "to", "for") and _tense(match) == "past")
    return _day(_before(at, weekday) if past else _after(at, weekday))


def _short_day(match: re.Match[str], at: date | None) -> Span | None:
    if at is None:
        return None
    weekday = next(i for i, name in enumerate(_WEEKDAYS) if name.startswith(match["short"].lower()))
    past = match.group().lower().startswith("last") or _tense(match) == "past"
    return _day(_before(at, weekday) if past else _after(at, weekday))


def _holiday(match: re.Match[str], at: date | None) -> Span | None:
    """Christmas and the like as days; "Christmas" alone, with no preposition, may be the tree."""
    name, which = match["holiday"].lower().replace("'", ""), match["which"].lower().strip()
    if not which and not match["year"] and name.split()[-1] not in ("eve", "day", "halloween", "thanksgiving"):
        return None
    if match["year"]:
        return _day(_feast(name, int(match["year"])))
    if at is None:
        return None
    days = [_feast(name, at.year + step) for step in (-1, 0, 1)]
    if which == "last":
        return _day([day for day in days if day < at][-1])
    if which == "next":
        return _day(next(day for day in days if day > at))
    return _day(days[1]) if which == "this" else _nearest(match, at, days)


def _feast(name: str, year: int) -> date:
    if name.startswith("thanksgiving"):  # the fourth Thursday of November
        return date(year, 11, 22) + (3 - date(year, 11, 22).weekday()) % 7 * _DAY
    if name.startswith("easter"):
        return _easter(year)
    if name.startswith("new year"):
        return date(year, 12, 31) if name.endswith("eve") else date(year, 1, 1)
    if name.startswith("valentine"):
        return date(year, 2, 14)
    if name.startswith("hal"):
        return date(year, 10, 31)
    return date(year, 12, 24 if name.endswith("eve") else 26 if name.startswith("boxing") else 25)


def _easter(year: int) -> date:
    """Easter Sunday, Gregorian, by the anonymous algorithm (Meeus, Astronomical Algorithms, ch. 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    r = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * r) // 433
    month = (h + r - 7 * m + 90) // 25
    return date(year, month, (h + r - 7 * m + 33 * month + 19) % 32)


def _the_day(match: re.Match[str], at: date | None) -> Span | None:
    """A day of a month that is not named: "on the 15th"."""
    if at is None:
        return None
    day = int(match["day"])
    months = [_month(at.year, at.month + step)[0] for step in (-2, -1, 0, 1, 2)]
    return _nearest(match, at, [first.replace(day=day) for first in months if _exists(first.year, first.month, day)])


_RELATIVE: Final[dict[str, Callable[[re.Match[str], date | None], Span | None]]] = {
    "day_month": _day_month,
    "month_day": _day_month,
    "which_month": _which_month,
    "month": _bare_month,
    "season": _spoken_season,
    "word": _word,
    "ago": _ago,
    "ahead": _ahead,
    "from_now": _from_now,
    "which": _which,
    "weekend": _weekend,
    "weekday": _weekday,
    "short_day": _short_day,
    "holiday": _holiday,
    "the_day": _the_day,
}


# ---------------------------------------------------------------- helpers


def _month_number(match: re.Match[str]) -> int:
    return next(i for i, month in enumerate(_MONTHS, 1) if month.startswith(match["month"].lower()[:3]))


def _exists(year: int, month: int, day: int) -> bool:
    first = date(year, month, 1)
    return day >= 1 and (first + (day - 1) * _DAY).month == month


def _nearest(match: re.Match[str], at: date, days: list[date]) -> Span | None:
    """Of the candidates the nearest not after `at`, or not before it, as the tense says; else the nearest."""
    tense = _tense(match)
    fitting = [day for day in days if (tense != "past" or day <= at) and (tense != "future" or day >= at)]
    return _day(min(fitting, key=lambda day: abs(day - at))) if fitting else None


def _tense(match: re.Match[str]) -> Tense:
    """Of the verb nearest to the date in its sentence; one behind a comma or a conjunction is farther."""
    text, start, end = match.string, match.start(), match.end()
    first = max(0, start - _AROUND)
    for border in _SENTENCE_END.finditer(text, first, start):
        first = border.end()
    border_after = _SENTENCE_END.search(text, end, end + _AROUND)
    last = border_after.start() if border_after else min(len(text), end + _AROUND)
    best, tense = 10 * _AROUND, ""
    for signal in _SIGNAL.finditer(text, first, last):
        if signal.end() <= start:
            between = (signal.end(), start)
        elif signal.start() >= end:
            between = (end, signal.start())
        else:
            continue
        distance = between[1] - between[0] + _BORDER * sum(1 for _ in _BORDERS.finditer(text, *between))
        if distance < best:
            best, tense = distance, str(signal.lastgroup)
    return tense  # type: ignore[return-value]
