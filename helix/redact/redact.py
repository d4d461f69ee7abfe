"""Secrets out, typed placeholders in: `[REDACTED:github-pat]`. Runs on raw input, before anything is written.

Works on raw JSONL as well as on prose: what is replaced never holds the quote that ends it or half an escape, so valid
JSON stays valid, and JSON in a string of JSON too.

One pass over the text finds keywords, those of all rules at once; a rule is tried only where a keyword of its own
stands. What the rules find is replaced together, overlaps by the rule that knows most. A replacement may free a
neighbour that looked like part of a longer word, so its surroundings are searched again until nothing changes.

`docs/redaction.md` says what is found and what is not, and how a rule is added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from helix.redact import assignments as secret_assignments
from helix.redact import commands as secret_commands
from helix.redact import forms as secret_forms
from helix.redact import hiding as secret_hiding
from helix.redact import kinds as secret_kinds
from helix.redact import outputs as secret_outputs
from helix.redact import prose as secret_prose
from helix.redact.kinds import TOKEN, Found, Rule
from helix.text import keyword_scan as keywords

Span = tuple[int, int]

_REACH: Final = 1 << 15  # characters; no rule but that for private keys looks further from its keyword
_ESCAPE: Final = secret_hiding.ESCAPE.encode()
PLACEHOLDER: Final = "[REDACTED:"
_LONGEST_KIND: Final = 64


def redact(text: str) -> tuple[str, Counter[str]]:
    """`text` with every secret replaced by `[REDACTED:<kind>]`, and how many of each kind.

    Idempotent. Linear: keywords are looked for once, and rules do not look further than a few thousand characters.
    """
    counts: Counter[str] = Counter()
    where: Sequence[Span] = [(0, len(text))]
    while found := _found(text, where):
        counts.update(each.kind for each in found)
        text, where = _replace(text, found)
    return text, counts


def _found(text: str, where: Sequence[Span]) -> list[Found]:
    """Return what is secret in these parts of a text, also where something hides it."""
    escapes: list[int] = []
    found = [*_search(text, where, escapes)]
    copy = secret_hiding.shown(text, escapes)
    if copy is not None:
        about = _around(((start, start) for start in copy.starts[1:]), len(copy.text))
        found += map(copy.back, _search(copy.text, about, []))
    return _apart(found)


def _search(text: str, where: Iterable[Span], escapes: list[int]) -> Iterator[Found]:
    """Return what the rules find; to `escapes` is added where characters stand escaped that need not be."""
    rules, known = _rules()
    placeholders = PLACEHOLDER in text
    for begin, end in where:
        token = value = begin  # where the last ones end: nothing stands in a token, and no name in a value
        for at, word in keywords.find(text, begin, end, known):
            if at < token or (placeholders and _in_placeholder(text, at)):
                continue
            if word == _ESCAPE:
                escapes.append(at)
            for rule in rules[word]:
                named = rule is secret_assignments.find
                if named and at < value:
                    continue
                for found in rule(text, at):
                    found = _to_its_end(text, found)
                    if named:
                        value = found.stop
                    elif found.rank <= TOKEN:
                        token = found.stop
                    yield found


def _to_its_end(text: str, found: Found) -> Found:
    """Return what was found, with the rest of it where a terminal broke its line."""
    if found.stop < len(text) and text[found.stop] in "\r\n\\":
        return found._replace(stop=secret_hiding.goes_on(text, found.stop))
    return found


def _in_placeholder(text: str, at: int) -> bool:
    """Whether `at` lies in the kind that a placeholder names."""
    start = text.rfind(PLACEHOLDER, max(0, at - _LONGEST_KIND), at + 1)
    return start >= 0 and text.find("]", start, at) < 0


def _apart(found: Iterable[Found]) -> list[Found]:
    """In order, without overlaps: what shares a place is one, named by the rule that knows most, then the longest."""
    out: list[Found] = []
    for each in sorted(found):
        if out and each.start < out[-1].stop:
            best = min(out[-1], each, key=lambda one: (one.rank, one.start - one.stop))
            out[-1] = best._replace(start=out[-1].start, stop=max(out[-1].stop, each.stop))
        else:
            out.append(each)
    return out


def _replace(text: str, found: Sequence[Found]) -> tuple[str, list[Span]]:
    """The text with placeholders, and the parts of it that are to be searched again."""
    kept: list[str] = []
    places: list[Span] = []
    end = length = 0
    for each in found:
        placeholder = f"{PLACEHOLDER}{each.kind}]"
        kept += (text[end : each.start], placeholder)
        length += each.start - end + len(placeholder)
        places.append((length - len(placeholder), length))
        end = each.stop
    kept.append(text[end:])
    text = "".join(kept)
    # Private keys are the one thing that may be longer than the reach.
    places += [match.span() for match in re.finditer("PRIVATE KEY", text)]
    return text, _around(sorted(places), len(text))


def _around(places: Iterable[Span], length: int) -> list[Span]:
    out: list[Span] = []
    for start, stop in places:
        begin, end = max(0, start - _REACH), min(length, stop + _REACH)
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


@cache
def _rules() -> tuple[dict[bytes, tuple[Rule, ...]], keywords.Keywords]:
    """Keyword → the rules to try where it stands, those of the keywords it begins with included; and the keywords."""
    table: dict[str, list[Rule]] = {}
    behind: dict[str, set[str]] = {}

    def add(keyword: str, rules: Iterable[Rule], what: str) -> None:
        table.setdefault(keyword, []).extend(rules)
        behind.setdefault(keyword, set()).add(what)

    for kind in secret_kinds.tokens():
        rule = secret_kinds.token_rule(kind)
        if secret_kinds.is_long(kind):
            rule = secret_hiding.across_lines(rule, secret_kinds.length(kind))
        for literal in secret_kinds.anchor(kind)[0]:
            add(literal.lower(), [rule], secret_kinds.behind(kind))
    for row in (*secret_forms.rows(), *secret_commands.rows(), *secret_outputs.rows(), *secret_prose.rows()):
        for keyword in row.keywords.split("|"):
            add(keyword, [row.rule], row.behind)
    for keyword, what in secret_assignments.KEYWORDS.items():
        add(keyword, [secret_assignments.find], what)
    add(secret_hiding.ESCAPE, [], secret_hiding.ESCAPED)
    rules = {word.encode(): _of_prefixes(word, table) for word in table}
    return rules, keywords.keywords(
        {word: "" if "" in each else "|".join(sorted(each)) for word, each in behind.items()}
    )


def _of_prefixes(word: str, table: Mapping[str, Sequence[Rule]]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys(rule for end in range(len(word)) for rule in table.get(word[: end + 1], ())))
