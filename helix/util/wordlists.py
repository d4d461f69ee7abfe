"""Readers of the files in `data/` folders: word lists in lower case, where `#` opens a comment line, and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any


def _read_file(package: str, name: str) -> str:
    from importlib.resources import files  # slow to import, and the hook reads no list

    return files(package).joinpath("data", name).read_text("utf-8")


@cache
def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return `data/<name>.toml` of a package."""
    import tomllib

    return tomllib.loads(_read_file(package, f"{name}.toml"))


def fill_pattern(template: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern on one line, with a piece for each `{NAME}`."""
    return re.sub(r"\{([A-Z_]+)\}", lambda match: pieces[match[1]], template.replace("\n", ""))


def read_patterns(
    package: str, name: str, given: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the filled [pieces] of `data/<name>.toml`, with the `given` ones, and its other tables."""
    pieces, tables = dict(given or {}), dict(read_toml(package, name))
    for key, template in tables.pop("pieces").items():
        pieces[key] = fill_pattern(template, pieces)
    return pieces, tables


@cache
def compile_lines(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which ^ and $ match at lines, once."""
    return re.compile(pattern, re.MULTILINE)


class Patterns(dict[str, re.Pattern[str]]):
    """Patterns by name, each compiled when it is asked for first: compiling all of them delays every command."""

    def __init__(self, templates: Mapping[str, str], pieces: Mapping[str, str]) -> None:
        self._templates, self._pieces = templates, pieces

    def __missing__(self, name: str) -> re.Pattern[str]:
        self[name] = pattern = re.compile(fill_pattern(self._templates[name], self._pieces))
        return pattern


def read_lines(package: str, name: str) -> tuple[str, ...]:
    """Return the lines of `data/<name>.txt` in a package, without comments and blank lines."""
    lines = _read_file(package, f"{name}.txt").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def read_words(package: str, name: str) -> frozenset[str]:
    """Return the entries of a list that white space separates."""
    return frozenset(" ".join(read_lines(package, name)).split())


def read_phrases(package: str, name: str) -> frozenset[str]:
    """Return the entries of a list that commas separate."""
    return frozenset(phrase.strip() for phrase in " ".join(read_lines(package, name)).split(","))


def read_table(package: str, name: str) -> dict[str, list[str]]:
    """Return the rows of a table of lines `key: word word …`."""
    rows = (line.partition(": ") for line in read_lines(package, name))
    return {key: words.split() for key, _, words in rows}


def read_groups(package: str, name: str) -> dict[str, frozenset[str]]:
    """Return the word sets of `data/<name>.txt`, where a line `[heading]` opens each."""
    groups: dict[str, list[str]] = {}
    for line in read_lines(package, name):
        if line.startswith("["):
            words = groups.setdefault(line.strip("[]"), [])
        else:
            words += line.split()
    return {heading: frozenset(words) for heading, words in groups.items()}
