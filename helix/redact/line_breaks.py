"""Secrets that a terminal broke across lines, at its right edge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.hidden_characters import MappedText, join_pieces
from helix.redact.rules import NEWLINE, Rule, Secret
from helix.redact.values import is_random, regex

_RUN: Final = r"[\w+/=.~%-]*+"
_BREAK: Final = rf"{NEWLINE}[ \t]{{0,8}}(?:\d{{1,6}}(?:→|\t|\\{{1,4}}t))?(?:[│|>][ ]?)?(?=[\w+/=.~%-])"
_NARROWEST: Final = 40  # columns of a terminal
_BEFORE: Final = 64  # characters before a token that its rule may read
_MOST_LINES: Final = 64
_LONGEST_LINE: Final = 512


def _is_full_line(text: str, at: int) -> bool:
    """Return whether the line that ends at a place is long enough for a terminal to have broken it there."""
    begin = max(0, at - _NARROWEST)
    return at >= _NARROWEST and text.find("\n", begin, at) < 0 and text.find("\\n", begin, at) < 0


def join_lines(text: str, at: int) -> MappedText | None:
    """Return the token at a place, and the text before it, without its line ends; None if it has none."""
    run = regex(_RUN, re.ASCII).match(text, at)
    end = run.end() if run else at
    gap = regex(_BREAK, re.ASCII).match(text, end)
    if gap is None or not _is_full_line(text, end):
        return None
    begin = max(0, at - _BEFORE)
    pieces = [(text[begin:end], begin, end)]
    for _ in range(_MOST_LINES):
        run = regex(_RUN, re.ASCII).match(text, gap.end(), gap.end() + _LONGEST_LINE)
        end = run.end() if run else gap.end()
        pieces.append((text[gap.end() : end], gap.end(), end))
        gap = regex(_BREAK, re.ASCII).match(text, end)
        if gap is None or not _is_full_line(text, end):
            break
    return join_pieces(pieces)


def extend_across_lines(rule: Rule, whole: int) -> Rule:
    """Return a token's rule that also finds tokens broken across lines.

    Args:
        whole: characters of a whole token; a shorter one that ends with its line continues on the next.
    """

    def find(text: str, at: int) -> Iterator[Secret]:
        spans = [*rule(text, at)]
        if not spans or spans[0].stop - spans[0].start < whole:
            copy = join_lines(text, at)
            if copy is not None:
                longer = [copy.map_back(span) for span in rule(copy.text, at - copy.places[0])]
                if longer and longer[0].stop > copy.ends[0] and (not spans or longer[0].stop > spans[0].stop):
                    spans = longer
        yield from spans

    return find


_REST: Final = r"((?![\w.+-]{1,64}=[^\s=])[\w+/=.~%-]{4,512}+)(?=\s|\\|[\"'`,;)}\]]|\Z)"


def find_continuation_end(text: str, stop: int) -> int:
    """Return the real end of a secret that ends with its line at `stop`: a terminal may have broken the line."""
    gap = regex(_BREAK, re.ASCII).match(text, stop)
    while gap is not None and _is_full_line(text, stop):
        rest = regex(_REST, re.ASCII).match(text, gap.end())
        if rest is None or not _is_continuation(rest[1]):
            break
        stop = rest.end()
        gap = regex(_BREAK, re.ASCII).match(text, stop)
    return stop


def _is_continuation(run: str) -> bool:
    """Return whether a run is the rest of something random, not the first word of a new line."""
    digits = sum(c.isdigit() for c in run)
    letters = sum(c.isalpha() for c in run)
    return is_random(run) or (digits > 0 and letters > 0 and not run.islower() and digits + letters > 0.8 * len(run))
