"""The sentences of a long item that answer: an extract by the question's terms.

Sentences are scored by the terms they share with the question (Tombros & Sanderson 1998, "Advantages of query biased
summaries in information retrieval"), the first with a prior, since it says what the rest is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from helix.text.tokenize import tokenise

GAP: Final = " … "
"""Stands for what is left out."""

_FIRST: Final = 0.2
"""Of the question's idf mass, to the first sentence. Of the answers in 147 long passages 80 tokens keep .82 at 0 and
.84 at .2, 120 tokens .85 and .90; .75 and .79 stay where just the start is shown."""

_WRAPPED: Final = 50
"""Characters; where a longer line goes on in lower case, an editor broke it and not its writer."""

_FENCE: Final = re.compile(r"[ \t]{0,16}(?:```|~~~)")
_LISTED: Final = re.compile(r"[ \t]{0,16}(?:[-*+•|>]|#{1,6}|\d{1,3}[.)])[ \t]")
_GOES_ON: Final = re.compile(r"[\w,'’\"”)-]\s{0,2}$")
_SENTENCE: Final = re.compile(
    # An initial or a common abbreviation ends no sentence.
    r"(?:(?<!\b[A-Za-z])(?<!\b(?:Mr|Ms|Dr|St|Jr|Sr|vs|No|cf|ca|Mt))(?<!\b(?:Mrs|etc|i\.e|e\.g|Inc|Ltd))\.|[!?…])"
    r"[\"')\]”’*_`]{0,3}\s+|[。！？｡][\"'」』）)]{0,3}"
)


def excerpt(text: str, weights: Mapping[str, float], size: int, longest: int = 0) -> str:
    """The best sentences of a text in reading order, `GAP` for what is left out; the text where it is short enough.

    A sentence scores the sum of the idf of the question's terms in it; the earlier of equals goes first. In code and
    lists a line is the unit. Linear time but for one sort.

    Args:
        weights: idf of the question's terms, as `helix.text.tokenize.tokenise` writes them.
        size: characters of the excerpt at most, gaps included.
        longest: characters of a sentence; a longer one is cut at white space. `size` where not given.

    Returns:
        empty where no sentence fits.
    """
    if len(text) <= size:
        return text
    ends = units(text, (longest or size) - 2 * len(GAP))
    return _joined(text, ends, best(scores(text, ends, weights), ends, size)) if ends else ""


def units(text: str, longest: int) -> list[int]:
    """Where each sentence or line ends, ascending, the last at the end of the text: white space ends what it follows.

    Args:
        longest: characters; a longer unit is cut at white space, a longer word anywhere. Of none there is no unit.
    """
    ends: list[int] = []
    for start, end in _sentences(text) if longest > 0 else ():
        if ends and text[start:end].isspace():  # an empty line says nothing that a gap could stand beside
            ends[-1] = end
            continue
        while end - start > longest:
            space = text.rfind(" ", start + 1, start + longest)
            start = space + 1 if space > 0 else start + longest
            ends.append(start)
        ends.append(end)
    return ends


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each, the whole text over."""
    start = at = 0
    fenced = False
    lines = text.splitlines(keepends=True)
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        fence = _FENCE.match(line) is not None
        prose = not fenced and not fence
        fenced ^= fence
        if prose and not _LISTED.match(line):
            for match in _SENTENCE.finditer(line):
                yield start, at + match.end()
                start = at + match.end()
        at += len(line)
        wrapped = prose and len(line) > _WRAPPED and after.lstrip()[:1].islower() and _GOES_ON.search(line[-3:])
        if at > start and not wrapped:
            yield start, at
            start = at


def scores(text: str, ends: Sequence[int], weights: Mapping[str, float]) -> list[float]:
    """What each unit has of the question's idf mass, with the prior of the first."""
    held = [set(tokenise(text[start:end])) for start, end in zip([0, *ends], ends, strict=False)]
    # In the order of the mapping: floats summed in a set's order would not give the same bits every time.
    found = [sum(weight for term, weight in weights.items() if term in terms) for terms in held]
    found[0] += _FIRST * sum(weights.values())
    return found


def best(scored: Sequence[float], ends: Sequence[int], size: int) -> list[int]:
    """Positions of the units that are shown, ascending: the best that fit with a gap to either side, where there is
    one.
    """
    starts, left, chosen = [0, *ends], size - len(GAP), set[int]()
    for i in sorted(range(len(scored)), key=lambda i: -scored[i]):
        need = ends[i] - starts[i] + len(GAP) * (1 - (i - 1 in chosen) - (i + 1 in chosen))
        if need <= left:
            chosen.add(i)
            left -= need
    return sorted(chosen)


def _joined(text: str, ends: Sequence[int], chosen: Sequence[int]) -> str:
    """The chosen units as they stand, `GAP` where others are left out."""
    starts, runs = [0, *ends], list[tuple[int, int]]()
    for i in chosen:
        first = runs.pop()[0] if runs and runs[-1][1] == starts[i] else starts[i]
        runs.append((first, ends[i]))
    parts = [text[start:end].strip() for start, end in runs]
    before, after = starts[chosen[0]] > 0 if chosen else False, bool(chosen) and ends[chosen[-1]] < len(text)
    return GAP.join([*[""] * before, *parts, *[""] * after]).strip()
