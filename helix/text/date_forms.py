"""Patterns of dates in English statements, and a fast test for lines without any."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

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

# In order of precedence: where several forms match, the first wins. Every repetition is bounded.
FORMS: Final = {
    "iso": (
        r"(?<![\w./-])(?P<year>(?:19|20)\d\d)(?P<sep>[-/])(?P<number>[01]\d)(?P=sep)(?P<day>[0-3]\d)(?=T\d"
        r"|(?![\w/-]|\.\d))"
    ),
    "iso_week": r"(?<![\w./-])(?P<year>(?:19|20)\d\d)-?W(?P<week>[0-5]\d)(?![\w/-])",
    "iso_month": r"(?<![\w./-])(?P<year>(?:19|20)\d\d)-(?P<number>[01]\d)(?![\w/-]|\.\d)",
    "numeric": (
        r"(?<![\w./-])(?P<first>\d{1,2})(?P<sep>[/.])(?P<second>\d{1,2})(?P=sep)(?P<year>(?:19|20)\d\d)(?![\w/-]|\.\d)"
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
        r"(?<!\w)(?P<prep>every |each |on a |most |(?:on|by|until|till|before|to|for|from|after|since|this) |"
        rf"){_WEEKDAY}{_PART}(?! (?:mornings|afternoons|evenings|nights))(?!\w)"
    ),
    "short_day": r"(?<!\w)(?:on|by|until|till|next|last) (?-i:(?P<short>Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun))(?!\w)",
    "holiday": (
        r"(?<!\w)(?P<which>(?:on|for|at|by|before|after|over|since|until|till|around|this|last|next) |)"
        rf"{_HOLIDAY}(?:,? (?:of |in )?{_YEAR})?(?![\w'])"
    ),
    "the_day": rf"(?<!\w)(?:on|by|until|before|since|till) the {_NUMBER}(?:st|nd|rd|th)(?=\s{{0,2}}(?:[.,;!?)]|\Z))",
}
_NAMED_GROUP: Final = re.compile(r"\(\?P<\w+>")
# Every form begins with one of these words, or with the blank before a season. Other text is skipped at once.
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
_SKIPPED: Final = rf"(?>(?:(?<=\w)(?:\w++ ?| )|[^\w ]++|(?!{_FIRST})\w++ ?)+)"


# Compiled on first use: together they take as long as some questions.
@cache
def compile_forms() -> re.Pattern[str]:
    """Return the pattern of all forms; the group that matched is the form's name, no group is text without a date."""
    forms = [
        f"(?P<{form}>{_NAMED_GROUP.sub('(?:', pattern).replace('(?P=sep)', '[-/.]')})"
        for form, pattern in FORMS.items()
    ]
    return re.compile("|".join([_SKIPPED, *forms]), re.IGNORECASE)


@cache
def compile_form(form: str) -> re.Pattern[str]:
    """Return the pattern of one form, with its groups."""
    return re.compile(FORMS[form], re.IGNORECASE)


# A lower-cased line without any of these has no date, as most lines. Each starts with a letter of its own, so that most
# positions are ruled out by one character.
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
TRIGGER: Final = re.compile("|".join(rf"{first}(?<!\w{first})(?:{rest})" for first, rest in _TRIGGERS.items()))
