"""Secrets of known shape: the rows of `secrets.toml`, and how one is found in a text.

Two sorts. A token has a prefix that tells it, wherever it stands (`ghp_`, `AKIA`). The others are runs of letters and
digits that only the name they are assigned to tells (`HEROKU_API_KEY=`); `secret_assignments` finds names and values
and asks here which kind they are.

Published lengths are what a token has when it is whole. Logs cut tokens off, and providers lengthen them, so behind a
prefix that says it all (`glpat-`) three fifths of the length are enough and more is taken too. A short or wordlike
prefix (`AKIA`, `dapi`) stands for a secret only at the very length, set apart from its surroundings.

The table is read, and a pattern compiled, when first wanted: importing this costs nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.redact.values import regex, wordy


class Found(NamedTuple):
    """A secret at [start, stop) of a text. Of two that overlap the one of lower `rank` names both."""

    start: int
    stop: int
    kind: str
    rank: int


TOKEN, FORM, ASSIGNED, NAMED = -100, 0, 1, 2
"""Ranks: the more a rule knows of its kind, the lower. A token's is TOKEN, less one for each letter that is certain."""


Rule = Callable[[str, int], Iterator[Found]]
"""Tried where a keyword stands: yields what is secret there."""


class Part(NamedTuple):
    """A piece of a shape: one of `literals`, or `least` to `most` characters of `alphabet` (a regular set)."""

    literals: tuple[str, ...] = ()
    alphabet: str = ""
    least: int = 0
    most: int = 0


class Kind(NamedTuple):
    """A row of the table, for one of its shapes."""

    id: str
    shape: tuple[Part, ...]
    kept: int  # so many parts come before the secret
    near: tuple[str, ...]  # assigned: one of these is in the name, lower case
    words: tuple[str, ...]  # assigned: and one of these
    entropy: float
    allow: tuple[str, ...]  # what has one of these in it is an example


LONGEST: Final = 4096  # characters of a secret
_LOOKED_AT: Final = 256  # characters of a secret that are
_CUT: Final = 0.6  # of its length is left of a token that is still told by its prefix
_PART: Final = r"(\w+)\{(\d+)(,?)(\d*)\}"
_UUID: Final = "xdigit{8} - xdigit{4} - xdigit{4} - xdigit{4} - xdigit{12}"

# A word begins after no letter or digit; after a JSON escape (\n, \u003d), %3D, or a terminal's colour (ESC[1;32m).
LEFT: Final = (
    r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\\x[0-9A-Fa-f]{2})|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)|(?<=;[0-9]{3}m))"
)
GAP: Final = r"(?:[\s→]|\\+[nrt]|\d{1,6}(?=→|\t|\\+t))"
"""White space between words or lines, in JSON too, and with lines numbered."""


@cache
def _tables() -> dict[str, Any]:
    import tomllib  # not wanted by who only imports this

    return tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))


@cache
def tokens() -> tuple[Kind, ...]:
    """The kinds that a prefix tells."""
    return (*_rows("token"), *_rows("own"))


@cache
def assigned() -> dict[str, tuple[Kind, ...]]:
    """What is in a name, lower case → the kinds it tells; those that ask most of the name first."""
    found: dict[str, list[Kind]] = {}
    for kind in sorted(_rows("assigned"), key=lambda kind: -len(kind.words)):
        for near in kind.near:
            found.setdefault(near, []).append(kind)
    return {near: tuple(kinds) for near, kinds in found.items()}


def _rows(table: str) -> Iterator[Kind]:
    for name, row in _tables()[table].items():
        shapes = row["shape"] if isinstance(row["shape"], list) else [row["shape"]]
        for shape in shapes:
            parts, kept = parse(shape)
            near = tuple(row["near"].split("|")) if "near" in row else ()
            words = tuple(row.get("words", ()))
            yield Kind(name, parts, kept, near, words, row.get("entropy", 0), tuple(row.get("allow", ())))


def parse(shape: str) -> tuple[tuple[Part, ...], int]:
    """The parts of a shape as written in the table, and how many of them come before the secret."""
    alphabets = _tables()["alphabet"]
    parts: list[Part] = []
    kept = 0
    for word in shape.replace("uuid", _UUID).split():
        match = regex(_PART).fullmatch(word)
        if word == ">":
            kept = len(parts)
        elif match:
            least = int(match[2])
            most = int(match[4]) if match[4] else LONGEST if match[3] else least
            parts.append(Part((), alphabets[match[1]], least, most))
        else:
            parts.append(Part(tuple(word.split("|"))))
    return tuple(parts), kept


def anchor(kind: Kind) -> tuple[tuple[str, ...], int]:
    """The literals by which a token is found, and how many characters of it stand before them.

    The first of three letters or more; where there is none, the longest.
    """
    best: tuple[str, ...] = ()
    before = offset = 0
    for part in kind.shape:
        if part.literals and min(map(len, part.literals)) > min(map(len, best), default=0):
            best, before = part.literals, offset
        if min(map(len, best), default=0) > 2 or len({part.least, part.most, *map(len, part.literals)} - {0}) > 1:
            break  # found; or what follows stands in no fixed place
        offset += part.least or len(part.literals[0])
    return best, before


def behind(kind: Kind) -> str:
    """What surely follows the anchor, as a pattern over lower case."""
    literals, _ = anchor(kind)
    following = kind.shape[[part.literals for part in kind.shape].index(literals) + 1 :]
    if not following or not following[0].alphabet:
        return ""
    least = following[0].least if len(following) > 1 else _least(kind)
    letters = following[0].alphabet.lower()
    if not is_long(kind):
        return f"[{letters}]{{{least}}}"
    return f"(?:[{letters}]{{{least}}}|[{letters}]{{0,{least}}}[\\r\\n\\\\])"  # a terminal may have broken it


def is_long(kind: Kind) -> bool:
    """Return whether the anchor of a token is long enough to be looked at where a line's end breaks the token."""
    return min(map(len, anchor(kind)[0])) >= 4


def _least(kind: Kind) -> int:
    """So many characters of the last part are enough."""
    last = kind.shape[-1]
    return math.ceil(last.least * _CUT) if _telling(kind) and last.least >= 12 else last.least


def length(kind: Kind) -> int:
    """So many characters a token of this kind has at least when it is whole."""
    return sum(part.least or min(map(len, part.literals)) for part in kind.shape[kind.kept :])


def token_rule(kind: Kind) -> Rule:
    """What finds a token of this kind where its anchor stands."""
    _, before = anchor(kind)
    known = _telling(kind)
    pattern = _token_pattern(kind)
    needed = kind.entropy / (2 if known else 1)
    end = kind.shape[-1]
    rank = TOKEN - sum(len(part.literals[0]) for part in kind.shape if part.literals)

    def find(text: str, at: int) -> Iterator[Found]:
        match = regex(pattern).match(text, at - before) if at >= before else None
        if match is None:
            return
        secret, last, stop = match["secret"], match["last"], match.end()
        if entropy(secret[:_LOOKED_AT]) < needed or any(word in secret for word in kind.allow):
            return
        cut = len(last) < end.least
        if len(last) >= 8 and not (_coded if cut or not known else _varied)(last[:_LOOKED_AT]):
            return
        if cut and text[stop : stop + 1] in ("_", "-"):
            return  # it goes on, as names do
        if known and end.alphabet:
            on = regex(f"[{end.alphabet}]*+").match(text, stop)
            stop = on.end() if on else stop
        if known and regex("[0-9A-Za-z]").match(text, stop):
            return
        yield Found(match.start("secret"), stop, kind.id, rank)

    return find


def of_value(name: str, value: str) -> str | None:
    """The kind of secret that `value` is when it is assigned to `name` (lower case); None: none that is known."""
    if len(value) > _LOOKED_AT or not regex(r"\d").search(value):
        return None
    for near, kinds in assigned().items():
        if near in name:
            for kind in kinds:
                if (
                    (not kind.words or any(word in name for word in kind.words))
                    and regex(_whole_pattern(kind)).fullmatch(value)
                    and entropy(value) >= kind.entropy
                ):
                    return kind.id
    return None


def entropy(text: str) -> float:
    """Bits a character (Shannon)."""
    n = len(text)
    return -sum(count / n * math.log2(count / n) for count in Counter(text).values()) if n else 0.0


def _varied(text: str) -> bool:
    """Whether this is no mask (`xxxx`) and no word of one case."""
    return len(set(text)) > 2 and (regex(r"\d").search(text) is not None or not (text.islower() or text.isupper()))


def _coded(text: str) -> bool:
    """Whether this is no word at all (`queryUnmatchedEvents`). Short codes in capitals may lack figures."""
    if regex(r"\d").search(text):
        return len(set(text)) > 2
    return len(text) < 20 if text.isupper() else not (text.islower() or wordy(text))


def _telling(kind: Kind) -> bool:
    """Whether the prefix says it all: nothing else begins so."""
    return all(len(word) >= 6 or (len(word) >= 4 and word[-1] in "_-.~:") for word in anchor(kind)[0])


def _token_pattern(kind: Kind) -> str:
    known = _telling(kind)
    kept, parts, last = kind.shape[: kind.kept], kind.shape[kind.kept : -1], kind.shape[-1]
    if last.alphabet:
        last = last._replace(least=_least(kind))
    return "".join(
        (
            LEFT if known else LEFT + "(?<![+/])",
            *map(_pattern, kept),
            "(?P<secret>",
            *map(_pattern, parts),
            f"(?P<last>{_pattern(last)}{'+' if last.alphabet else ''}))",
            "" if known else "(?![0-9A-Za-z+=]|/[0-9A-Za-z+/]{12})",
        )
    )


@cache
def _whole_pattern(kind: Kind) -> str:
    return "".join(map(_pattern, kind.shape))


def _pattern(part: Part) -> str:
    if part.literals:
        return "(?:" + "|".join(map(re.escape, part.literals)) + ")"
    return f"[{part.alphabet}]{{{part.least},{part.most}}}"
