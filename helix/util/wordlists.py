"""Readers of the word lists in `data/` folders: plain text in lower case, `#` opens a comment line."""

from __future__ import annotations


def read_lines(package: str, name: str) -> tuple[str, ...]:
    """Return the lines of `data/<name>.txt` in a package, without comments and blank lines."""
    from importlib.resources import files  # slow to import, and the hook reads no list

    text = files(package).joinpath("data", f"{name}.txt").read_text("utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


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
