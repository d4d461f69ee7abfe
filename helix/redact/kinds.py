"""Kinds of secrets with a known shape: the rows of `data/secrets.toml`, and the rules made of them.

A token has a telling prefix, wherever it is (`ghp_`, `AKIA`). The other kinds are runs of letters and digits that only
the name of their variable tells (`HEROKU_API_KEY=`); `assignments` finds name and value and asks `classify_value`.

Published lengths hold for whole tokens. Logs cut tokens off, and providers lengthen them: after an unmistakable prefix
(`glpat-`) three fifths of the length suffice, and a longer run is taken whole. A short or wordlike prefix (`AKIA`,
`dapi`) requires the exact length and clear borders.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from helix.redact.rules import LEFT, TOKEN, Rule, Secret
from helix.redact.values import is_wordlike, regex
from helix.util.wordlists import read_toml


class ShapePart(NamedTuple):
    """A part of a shape: one of `literals`, or `least` to `most` characters of `alphabet` (a regex set)."""

    literals: tuple[str, ...] = ()
    alphabet: str = ""
    least: int = 0
    most: int = 0


class SecretKind(NamedTuple):
    """A row of the table, with one of its shapes."""

    id: str
    shape: tuple[ShapePart, ...]
    leading: int  # parts before the secret
    near: tuple[str, ...]  # assigned: the name, lower case, contains one of these
    words: tuple[str, ...]  # assigned: and one of these
    entropy: float  # bits a character, at least
    allow: tuple[str, ...]  # in examples of documentation


LONGEST: Final = 4096  # characters of a secret
_EXAMINED: Final = 256  # characters of a secret
_CUT: Final = 0.6  # part of its length that a cut token must keep
_PART: Final = r"(\w+)\{(\d+)(,?)(\d*)\}"
_UUID: Final = "xdigit{8} - xdigit{4} - xdigit{4} - xdigit{4} - xdigit{12}"


@cache
def read_token_kinds() -> tuple[SecretKind, ...]:
    """Return the kinds that a prefix tells."""
    return (*_read_kinds("token"), *_read_kinds("own"))


@cache
def read_assigned_kinds() -> dict[str, tuple[SecretKind, ...]]:
    """Return a map from a part of a name, lower case, to its kinds; those with more conditions first."""
    groups: dict[str, list[SecretKind]] = {}
    for kind in sorted(_read_kinds("assigned"), key=lambda kind: -len(kind.words)):
        for near in kind.near:
            groups.setdefault(near, []).append(kind)
    return {near: tuple(kinds) for near, kinds in groups.items()}


def _read_kinds(table: str) -> Iterator[SecretKind]:
    for name, row in read_toml("helix.redact", "secrets")[table].items():
        shapes = row["shape"] if isinstance(row["shape"], list) else [row["shape"]]
        for shape in shapes:
            parts, leading = parse_shape(shape)
            near = tuple(row["near"].split("|")) if "near" in row else ()
            words = tuple(row.get("words", ()))
            yield SecretKind(name, parts, leading, near, words, row.get("entropy", 0), tuple(row.get("allow", ())))


def parse_shape(shape: str) -> tuple[tuple[ShapePart, ...], int]:
    """Return the parts of a shape as written in the table, and the number of parts before the secret."""
    alphabets = read_toml("helix.redact", "secrets")["alphabet"]
    parts: list[ShapePart] = []
    leading = 0
    for word in shape.replace("uuid", _UUID).split():
        match = regex(_PART).fullmatch(word)
        if word == ">":
            leading = len(parts)
        elif match:
            least = int(match[2])
            most = int(match[4]) if match[4] else LONGEST if match[3] else least
            parts.append(ShapePart((), alphabets[match[1]], least, most))
        else:
            parts.append(ShapePart(tuple(word.split("|"))))
    return tuple(parts), leading


def find_anchor(kind: SecretKind) -> tuple[tuple[str, ...], int]:
    """Return the literals by which a token is found, and the number of its characters before them.

    The anchor is the first literal of at least three letters, else the longest.
    """
    best: tuple[str, ...] = ()
    before = offset = 0
    for part in kind.shape:
        if part.literals and min(map(len, part.literals)) > min(map(len, best), default=0):
            best, before = part.literals, offset
        if min(map(len, best), default=0) > 2 or len({part.least, part.most, *map(len, part.literals)} - {0}) > 1:
            break  # found, or the rest has no fixed place
        offset += part.least or len(part.literals[0])
    return best, before


def build_follow_pattern(kind: SecretKind) -> str:
    """Return a pattern, over lower case, of what must follow the anchor."""
    literals, _ = find_anchor(kind)
    following = kind.shape[[part.literals for part in kind.shape].index(literals) + 1 :]
    if not following or not following[0].alphabet:
        return ""
    least = following[0].least if len(following) > 1 else _count_required(kind)
    letters = following[0].alphabet.lower()
    if not has_long_anchor(kind):
        return f"[{letters}]{{{least}}}"
    return f"(?:[{letters}]{{{least}}}|[{letters}]{{0,{least}}}[\\r\\n\\\\])"  # a terminal may have broken the line


def has_long_anchor(kind: SecretKind) -> bool:
    """Return whether the anchor is long enough to search for the token across line ends."""
    return min(map(len, find_anchor(kind)[0])) >= 4


def _count_required(kind: SecretKind) -> int:
    """Return the least number of characters of the last part."""
    last = kind.shape[-1]
    return math.ceil(last.least * _CUT) if has_telling_prefix(kind) and last.least >= 12 else last.least


def count_least_length(kind: SecretKind) -> int:
    """Return the least number of characters of a whole token."""
    return sum(part.least or min(map(len, part.literals)) for part in kind.shape[kind.leading :])


def build_token_rule(kind: SecretKind) -> Rule:
    """Return the rule that finds a token of this kind at its anchor."""
    _, before = find_anchor(kind)
    is_telling = has_telling_prefix(kind)
    pattern = build_token_pattern(kind)
    needed = kind.entropy / (2 if is_telling else 1)
    end = kind.shape[-1]
    rank = TOKEN - sum(len(part.literals[0]) for part in kind.shape if part.literals)

    def find(text: str, at: int) -> Iterator[Secret]:
        match = regex(pattern).match(text, at - before) if at >= before else None
        if match is None:
            return
        secret, last, stop = match["secret"], match["last"], match.end()
        if compute_entropy(secret[:_EXAMINED]) < needed or any(word in secret for word in kind.allow):
            return
        cut = len(last) < end.least
        if len(last) >= 8 and not (_is_coded if cut or not is_telling else _is_varied)(last[:_EXAMINED]):
            return
        if cut and text[stop : stop + 1] in ("_", "-"):
            return  # a longer name
        if is_telling and end.alphabet:
            rest = regex(f"[{end.alphabet}]*+").match(text, stop)
            stop = rest.end() if rest else stop
        if is_telling and regex("[0-9A-Za-z]").match(text, stop):
            return
        yield Secret(match.start("secret"), stop, kind.id, rank)

    return find


def classify_value(name: str, value: str) -> str | None:
    """Return the kind of a value assigned to a name (lower case), or None if no kind of the table fits."""
    if len(value) > _EXAMINED or not regex(r"\d").search(value):
        return None
    for near, kinds in read_assigned_kinds().items():
        if near in name:
            for kind in kinds:
                if (
                    (not kind.words or any(word in name for word in kind.words))
                    and regex(_build_whole_pattern(kind)).fullmatch(value)
                    and compute_entropy(value) >= kind.entropy
                ):
                    return kind.id
    return None


def compute_entropy(text: str) -> float:
    """Return the Shannon entropy, in bits a character."""
    n = len(text)
    return -sum(count / n * math.log2(count / n) for count in Counter(text).values()) if n else 0.0


def _is_varied(text: str) -> bool:
    """Return whether this is neither a mask (`xxxx`) nor a word of one case."""
    return len(set(text)) > 2 and (regex(r"\d").search(text) is not None or not (text.islower() or text.isupper()))


def _is_coded(text: str) -> bool:
    """Return whether this is no word (`queryUnmatchedEvents`). Short codes in capitals may lack digits."""
    if regex(r"\d").search(text):
        return len(set(text)) > 2
    return len(text) < 20 if text.isupper() else not (text.islower() or is_wordlike(text))


def has_telling_prefix(kind: SecretKind) -> bool:
    """Return whether the prefix is unmistakable: nothing else begins with it."""
    return all(len(word) >= 6 or (len(word) >= 4 and word[-1] in "_-.~:") for word in find_anchor(kind)[0])


def build_token_pattern(kind: SecretKind) -> str:
    """Return the pattern of a token, with the groups `secret` and `last`."""
    is_telling = has_telling_prefix(kind)
    leading, parts, last = kind.shape[: kind.leading], kind.shape[kind.leading : -1], kind.shape[-1]
    if last.alphabet:
        last = last._replace(least=_count_required(kind))
    return "".join(
        (
            LEFT if is_telling else LEFT + "(?<![+/])",
            *map(_build_part_pattern, leading),
            "(?P<secret>",
            *map(_build_part_pattern, parts),
            f"(?P<last>{_build_part_pattern(last)}{'+' if last.alphabet else ''}))",
            "" if is_telling else "(?![0-9A-Za-z+=]|/[0-9A-Za-z+/]{12})",
        )
    )


@cache
def _build_whole_pattern(kind: SecretKind) -> str:
    return "".join(map(_build_part_pattern, kind.shape))


def _build_part_pattern(part: ShapePart) -> str:
    if part.literals:
        return "(?:" + "|".join(map(re.escape, part.literals)) + ")"
    return f"[{part.alphabet}]{{{part.least},{part.most}}}"
