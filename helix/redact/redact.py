"""Redaction: every secret becomes a typed placeholder, `[REDACTED:github-pat]`, before anything is written.

It works on raw JSONL and on prose. A placeholder never covers the closing quote of a value or half an escape, so valid
JSON stays valid, also inside a JSON string.

One scan finds the keywords of all rules; each rule runs only at its own keywords. Overlapping secrets become one, named
by the most specific rule; a passage in `<private>` tags is one secret. A replacement may reveal a neighbour that looked
like part of a longer word, so the search runs again around it until nothing changes.

`docs/explanation/redaction.md` says what is found and what is missed; `docs/how-to/extending.md` how to add a rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from helix.redact import (
    assignments,
    commands,
    files,
    headers,
    hidden_characters,
    kinds,
    line_breaks,
    outputs,
    private_keys,
    private_passages,
    prose,
    records,
    urls,
)
from helix.redact.rules import TOKEN, Rule, Secret
from helix.text import keyword_scan as keywords

Span = tuple[int, int]

_RULE_MODULES: Final = (private_passages, private_keys, urls, headers, files, commands, outputs, records, prose)
_REACH: Final = 1 << 15  # characters; only the rule for private keys reads further from its keyword
_ESCAPE: Final = hidden_characters.ESCAPE.encode()
PLACEHOLDER: Final = "[REDACTED:"
_LONGEST_KIND: Final = 64


def redact(text: str) -> tuple[str, Counter[str]]:
    """Return a text with `[REDACTED:<kind>]` in place of each secret, and the count of each kind.

    Idempotent. Linear in the text: rules read at most a few thousand characters.
    """
    counts: Counter[str] = Counter()
    places: Sequence[Span] = [(0, len(text))]
    while spans := _find_secrets(text, places):
        counts.update(span.kind for span in spans)
        text, places = _insert_placeholders(text, spans)
    return text, counts


def _find_secrets(text: str, places: Sequence[Span]) -> list[Secret]:
    """Return the secrets in some places of a text, hidden ones included."""
    escapes: list[int] = []
    spans = [*_search(text, places, escapes)]
    copy = hidden_characters.remove_hidden(text, escapes)
    if copy is not None:
        places = _widen_places(((start, start) for start in copy.starts[1:]), len(copy.text))
        spans += map(copy.map_back, _search(copy.text, places, []))
    return _merge_spans(spans)


def _search(text: str, places: Iterable[Span], escapes: list[int]) -> Iterator[Secret]:
    """Yield what the rules find; append the places of needless escapes to `escapes`."""
    rules, known = build_rules()
    placeholders = PLACEHOLDER in text
    for begin, end in places:
        token = value = begin  # ends of the last ones: no secret begins inside a token, and no name inside a value
        for at, word in keywords.find_keywords(text, begin, end, known):
            if at < token or (placeholders and _is_in_placeholder(text, at)):
                continue
            if word == _ESCAPE:
                escapes.append(at)
            for rule in rules[word]:
                is_assignment = rule is assignments.find_assignment
                if is_assignment and at < value:
                    continue
                for span in rule(text, at):
                    span = _extend_span(text, span)
                    if is_assignment:
                        value = span.stop
                    elif span.rank <= TOKEN:
                        token = span.stop
                    yield span


def _extend_span(text: str, span: Secret) -> Secret:
    """Extend a span over line ends that a terminal inserted."""
    if span.stop < len(text) and text[span.stop] in "\r\n\\":
        return span._replace(stop=line_breaks.find_continuation_end(text, span.stop))
    return span


def _is_in_placeholder(text: str, at: int) -> bool:
    """Return whether a place is inside the kind of a placeholder."""
    start = text.rfind(PLACEHOLDER, max(0, at - _LONGEST_KIND), at + 1)
    return start >= 0 and text.find("]", start, at) < 0


def _merge_spans(spans: Iterable[Secret]) -> list[Secret]:
    """Return the spans in order; overlapping ones become one, named by the lowest rank, then the longest."""
    merged: list[Secret] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].stop:
            best = min(merged[-1], span, key=lambda each: (each.rank, each.start - each.stop))
            merged[-1] = best._replace(start=merged[-1].start, stop=max(merged[-1].stop, span.stop))
        else:
            merged.append(span)
    return merged


def _insert_placeholders(text: str, spans: Sequence[Secret]) -> tuple[str, list[Span]]:
    """Return the text with placeholders, and the places to search again."""
    pieces: list[str] = []
    places: list[Span] = []
    end = length = 0
    for span in spans:
        placeholder = f"{PLACEHOLDER}{span.kind}]"
        pieces += (text[end : span.start], placeholder)
        length += span.start - end + len(placeholder)
        places.append((length - len(placeholder), length))
        end = span.stop
    text = "".join((*pieces, text[end:]))
    # Only private keys may be longer than the reach.
    places += [match.span() for match in re.finditer("PRIVATE KEY", text)]
    return text, _widen_places(sorted(places), len(text))


def _widen_places(places: Iterable[Span], length: int) -> list[Span]:
    """Widen ascending places by the reach of the rules and join those that touch."""
    widened: list[Span] = []
    for start, stop in places:
        begin, end = max(0, start - _REACH), min(length, stop + _REACH)
        if widened and begin <= widened[-1][1]:
            widened[-1] = (widened[-1][0], max(end, widened[-1][1]))
        else:
            widened.append((begin, end))
    return widened


@cache
def build_rules() -> tuple[dict[bytes, tuple[Rule, ...]], keywords.Keywords]:
    """Return the rules to try at each keyword, those of its prefixes included; and the keywords."""
    table: dict[str, list[Rule]] = {}
    follows: dict[str, set[str]] = {}

    def add(keyword: str, rules: Iterable[Rule], pattern: str) -> None:
        table.setdefault(keyword, []).extend(rules)
        follows.setdefault(keyword, set()).add(pattern)

    for kind in kinds.read_token_kinds():
        rule = kinds.build_token_rule(kind)
        if kinds.has_long_anchor(kind):
            rule = line_breaks.extend_across_lines(rule, kinds.count_least_length(kind))
        for literal in kinds.find_anchor(kind)[0]:
            add(literal.lower(), [rule], kinds.build_follow_pattern(kind))
    for trigger in (trigger for module in _RULE_MODULES for trigger in module.list_triggers()):
        for keyword in trigger.keywords.split("|"):
            add(keyword, [trigger.rule], trigger.follows)
    for keyword, pattern in assignments.KEYWORDS.items():
        add(keyword, [assignments.find_assignment], pattern)
    add(hidden_characters.ESCAPE, [], hidden_characters.ESCAPED)
    rules = {word.encode(): _collect_prefix_rules(word, table) for word in table}
    return rules, keywords.build_keywords(
        {word: "" if "" in patterns else "|".join(sorted(patterns)) for word, patterns in follows.items()}
    )


def _collect_prefix_rules(word: str, table: Mapping[str, Sequence[Rule]]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys(rule for end in range(len(word)) for rule in table.get(word[: end + 1], ())))
