"""Settings in code blocks, diffs, tables and lists: `KEY=value`, "| timeout | 30 s |", "- **Port**: 3000"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from helix.enrich.facts.canonical import find_kind, find_purpose
from helix.enrich.facts.drafts import Draft
from helix.enrich.facts.slots import make_key, read_tool
from helix.enrich.facts.subjects import get_head, is_setting
from helix.enrich.facts.values import read_value_cell
from helix.enrich.facts.words import VALUES
from helix.util.wordlists import fill_pattern, read_patterns

_PIECES, _TABLES = read_patterns("helix.enrich", "block_words")
_PATTERNS: Final = {name: re.compile(fill_pattern(text, _PIECES)) for name, text in _TABLES["patterns"].items()}
_WORDS: Final = {name: frozenset(text.split()) for name, text in _TABLES["words"].items()}

_MOST: Final = 8
"""Facts of one block or table; a longer listing is no change of settings."""

_LONGEST: Final = 40
"""Lines of a block with settings."""

_SHORT: Final = 8
"""Lines of a block of code that shows its constants."""

_CERTAIN, _LIKELY = 0.85, 0.75


class _Pair(NamedTuple):
    """One setting of a block."""

    key: str
    value: str
    sign: str  # "+", "-" or "" in a diff
    line: str


def read_blocks(text: str, role: str) -> Iterator[tuple[Draft, str]]:
    """Yield the settings of blocks, tables and lists, each with its line.

    Args:
        role: an assistant's block counts only where the text reports a change; a user's block shows what is.
    """
    lead = ""
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        fence = _PATTERNS["fence"].match(line)
        if fence:
            end = next((j for j in range(i + 1, len(lines)) if _PATTERNS["fence"].match(lines[j])), len(lines))
            yield from _read_fence(fence["lang"].lower(), lines[i + 1 : end], lead, role)
            i = end + 1
            continue
        if line.lstrip().startswith("|") and i + 1 < len(lines) and _RULE.match(lines[i + 1]):
            end = next((j for j in range(i + 2, len(lines)) if not lines[j].lstrip().startswith("|")), len(lines))
            yield from _read_table(line, lines[i + 2 : end], lead)
            i = end
            continue
        yield from ((draft, line.strip()) for draft in _read_line(line, lead, role))
        lead = line if line.strip() else lead
        i += 1


# ---------------------------------------------------------------- blocks


def _read_fence(lang: str, lines: Sequence[str], lead: str, role: str) -> Iterator[tuple[Draft, str]]:
    if len(lines) > _LONGEST or _PATTERNS["supposes"].search(lead):
        return
    reports = _PATTERNS["reports"].search(lead) is not None
    signs = [line.lstrip()[:1] for line in lines if line.lstrip()[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
    is_diff = lang in ("diff", "patch") or ("+" in signs and len(signs) >= len(lines) / 4)
    shown = role != "assistant" and lang in _WORDS["code"] and len(lines) <= _SHORT and bool(_find_file(lines[:2]))
    if not (is_diff or lang in _WORDS["config"] or not lang or shown) or not (
        reports or is_diff or role != "assistant"
    ):
        return
    file = _find_file([lead, *lines[:2]])
    pairs = list(_read_pairs(lines, is_diff, strict=not (is_diff or shown or lang in _WORDS["config"])))
    if lang.startswith("json") and not (is_diff or file):
        return
    if is_diff:
        both = {pair.key for pair in pairs if pair.sign == "-"} & {pair.key for pair in pairs if pair.sign == "+"}
        pairs = [
            pair for pair in pairs if pair.sign and (pair.key in both or _PATTERNS["environment"].fullmatch(pair.key))
        ]
        same = {pair[:2] for pair in pairs if pair.sign == "-"} & {pair[:2] for pair in pairs if pair.sign == "+"}
        pairs = [pair for pair in pairs if pair[:2] not in same]
    elif sum(1 for line in lines if line.strip()) > 3 * len(pairs) + 3:
        return  # other code
    if len(pairs) > 2 * _MOST:
        return
    for pair in pairs[: 2 * _MOST]:
        yield _make_setting(pair.key, pair.value, file, pair.sign == "-", _CERTAIN), pair.line


def _find_file(lines: Iterable[str]) -> str:
    """Return the file that the lines around a block name, or ""."""
    for line in lines:
        match = _PATTERNS["file"].search(line)
        if match:
            return match["file"]
    return ""


def _read_pairs(lines: Sequence[str], is_diff: bool, *, strict: bool) -> Iterator[_Pair]:
    """Yield the settings of a block.

    Args:
        strict: only names of upper-case words count.
    """
    for line in lines:
        sign = line[0] if is_diff and line[:1] in ("+", "-") and line[:3] not in ("+++", "---") else ""
        signed = re.match(r"\s*([+-])(?=\s{2,}|\w)", line) if is_diff and not sign else None
        sign = signed[1] if signed else sign  # "-" after the indent
        body = line.replace(sign, " ", 1) if sign else line
        match = _PATTERNS["pair"].match(body)
        if not match or _PATTERNS["comment"].match(body):
            continue
        key, value = match["key"], match["value"].strip("\"'").rstrip(",")
        if strict and not _PATTERNS["environment"].fullmatch(key):
            continue
        if key.lower() in _WORDS["vague keys"] or not _is_value(value) or " " in value.strip():
            continue
        if not (_PATTERNS["environment"].fullmatch(key) or _names_setting(key, value)):
            continue
        yield _Pair(key, value, sign, line.strip())


_WORD_BORDER: Final = re.compile(r"[_.-]|(?<=[a-z])(?=[A-Z])")


def _names_setting(key: str, value: str) -> bool:
    """Return whether a key in any case is a setting: "minReplicas: 3", but not "build: webpack"."""
    return (
        bool(re.search(r"\d", value)) or value.lower() in _WORDS["switches"] or is_setting(_WORD_BORDER.sub(" ", key))
    )


def _is_value(value: str) -> bool:
    return bool(value) and not _PATTERNS["no value"].match(value) and bool(re.search(r"\w", value))


def _make_setting(key: str, value: str, file: str, closes: bool, weight: float) -> Draft:
    """Return the fact of a setting; "CI=buildkite" is the choice of a tool."""
    purpose = find_purpose(key.replace("_", " "))
    if purpose and find_kind(value.lower()) == purpose:
        return Draft("we", "uses", value, key, closes, weight)
    return Draft(key, "set_to", value, file, closes, weight)


_SIGN: Final = re.compile(r"[:=|]\s|\w=\w|```|~~~")
_REPORTED: Final = re.compile(
    r"(?i)\b(?:now|set|sets|changed|currently|runs? with|updated|is live|applied|in place|again)\b"
)
_SET: Final = re.compile(
    r"(?i)\b(?:I|we|I've|we've|I have|we have) (?:now |also |just )?(?:set|changed|switched|put)\b"
)
_ORDERED: Final = re.compile(
    r"(?i)(?:^|[,;:.] |\b(?:and|then|to|please) )(?:set|export|use|change|add|put|run|pass|try)(?: \w+)? [`\"']?\Z"
)
_UNSTATED: Final = re.compile(
    r"(?i)\b(?:not|never|no|if|when|would|could|should|might|may|can|must|need to|to|try|export|run|with)\b"
)


def has_blocks(text: str) -> bool:
    """Return whether a text may have settings outside prose."""
    return _SIGN.search(text) is not None


def read_inline(clause: str, role: str) -> Iterator[Draft]:
    """Yield the settings that a clause spells out: "MAX_UPLOAD_MB=64 on staging"."""
    for match in _PATTERNS["inline"].finditer(clause):
        value = match["value"].strip("\"'")
        before = clause[: match.start()]
        named = _PATTERNS["environment"].fullmatch(match["key"]) is not None
        stated = role != "assistant" or (named and _REPORTED.search(clause)) or _SET.search(clause)
        ordered = _ORDERED.search(before) and not _SET.search(before)
        if (
            _is_value(value)
            and stated
            and not ordered
            and not (_UNSTATED.search(before) and not _REPORTED.search(before))
        ):
            scope = VALUES["scope"].match(clause, match.end())
            yield _make_setting(match["key"], value, scope["scope"].strip("`") if scope else "", False, _LIKELY)


# ---------------------------------------------------------------- tables

_RULE: Final = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?\s*\Z")
_EMPHASIS: Final = re.compile(r"\*{1,2}|`|_{2}")


def _split_row(line: str) -> list[str]:
    return [_EMPHASIS.sub("", cell).strip() for cell in line.strip().strip("|").split("|")]


def _read_table(head: str, lines: Sequence[str], lead: str) -> Iterator[tuple[Draft, str]]:
    """Yield the settings of a table with a column of names and one of values."""
    heads = [cell.lower() for cell in _split_row(head)]
    if len(heads) < 2 or len(lines) > _LONGEST or _PATTERNS["supposes"].search(lead):
        return
    before = next((i for i, cell in enumerate(heads) if cell in _WORDS["before"] and i), None)
    after = next((i for i, cell in enumerate(heads) if cell in _WORDS["after"] and i), None)
    column, attribute = _find_values(heads) if after is None else (after, "")
    if not column:
        return
    name = next((i for i, cell in enumerate(heads) if cell in _WORDS["names"]), 0)
    section = next((i for i, cell in enumerate(heads) if cell in _WORDS["sections"] and i != name), None)
    found = []
    for line in lines:
        cells = _split_row(line)
        if len(cells) != len(heads) or name == column:
            continue
        subject = f"{cells[name]} {attribute}".strip()
        relation = "defaults_to" if heads[column] == "default" else "set_to"
        if not _is_name(cells[name], heads[name], attribute):
            continue
        for place, closes in ((before, True), (column, False)):
            value = read_value_cell(cells[place]) if place is not None and place < len(cells) else []
            scope = cells[section] if section is not None else ""
            found += [(Draft(subject, relation, each, scope, closes, _LIKELY), line.strip()) for each in value]
    if len(found) <= 2 * _MOST:
        yield from found


def _find_values(heads: Sequence[str]) -> tuple[int, str]:
    """Return the column of values, 0 for none, and the attribute that its head names, "" for none."""
    for i, cell in enumerate(heads[1:3], 1):
        if cell in _WORDS["values"] and any(head in _WORDS["names"] for head in heads):
            return i, ""
        if is_setting(cell) or re.search(r"\w/\w|\bper \w", cell):
            return (0, "") if _is_measured(heads) else (i, cell)
    default = heads.index("default") if "default" in heads else 0
    return (default, "") if default and any(head in _WORDS["names"] for head in heads) else (0, "")


def _is_measured(heads: Sequence[str]) -> bool:
    """Return whether a table shows what was measured, not what is set: "| library | mean time | rows per second |"."""
    words = {word for cell in heads[1:] for word in re.findall(r"\w+", cell)}
    return not _WORDS["measured"].isdisjoint(words) and _WORDS["names"].isdisjoint(heads)


def _is_name(cell: str, head: str, attribute: str) -> bool:
    """Return whether the first cell of a row names a setting or its owner."""
    words = cell.split()
    named = head in _WORDS["names"] or bool(attribute) or is_setting(cell)
    vague = cell.lower() in _WORDS["vague keys"] | _WORDS["vague names"]
    return named and not vague and 0 < len(words) <= 6 and not re.fullmatch(r"[\d\W]+", cell)


# ---------------------------------------------------------------- lists


def _read_line(line: str, lead: str, role: str) -> Iterator[Draft]:
    """Yield the setting of a line "- **Port**: 3000", "Database: PostgreSQL" or "CI=buildkite"."""
    if len(line) > 160 or (":" not in line and "=" not in line) or line.rstrip().endswith((";", ",", "{", "?")):
        return
    if "=" in line:
        match = _PATTERNS["pair"].match(line)
        if match and (role != "assistant" or _PATTERNS["reports"].search(lead)):
            value = match["value"].strip("\"'").rstrip(".")
            named = (
                _PATTERNS["environment"].fullmatch(match["key"]) or find_purpose(match["key"]) == find_kind(value) != ""
            )
            if named and _is_value(value):
                yield _make_setting(match["key"], value, "", False, _LIKELY)
                return
        if not match and role != "assistant" and _PATTERNS["inline"].match(line):
            yield from read_inline(line, role)
            return
    match = _PATTERNS["item"].match(line)
    if not match or _PATTERNS["supposes"].search(lead) or not (match["mark"] or match["name"][0].isupper()):
        return
    if role == "assistant" and not _PATTERNS["reports"].search(lead):
        return
    name, value = match["name"].strip(), _EMPHASIS.sub("", match["value"]).strip()
    purpose = find_purpose(name)
    if purpose:
        tools = read_tool(value)
        if tools and {find_kind(make_key(tool)) for tool in tools} == {purpose}:
            yield from (Draft("we", "uses", tool, name, False, _LIKELY, len(tools) > 1) for tool in tools)
    elif match["sign"] == "=" and " " in name:
        return
    elif is_setting(name) and len(name.split()) <= 5 and not _is_vague(name):
        yield from (Draft(name, "set_to", each, "", False, _LIKELY) for each in read_value_cell(value))


def _is_vague(name: str) -> bool:
    """Return whether a name says too little without its place."""
    return name.lower() in _WORDS["vague keys"] or not _WORDS["vague names"].isdisjoint((name.lower(), get_head(name)))
