"""Shell commands in a text, as program and subcommand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.text.gazetteer import PROGRAMS, PROGRAMS_WITHOUT_SUBCOMMANDS, PROJECTS, SUBCOMMANDS
from helix.types import Entity
from helix.util.wordlists import read_words

Mention = tuple[int, int, tuple[Entity, ...]]
"""Begin and end of a mention, in characters, and its entities."""

_PROGRAMS: Final = PROGRAMS | PROGRAMS_WITHOUT_SUBCOMMANDS
_ENGLISH: Final = read_words("helix.text", "english_programs")
PLAIN_PROGRAMS: Final = _PROGRAMS - _ENGLISH | {"go", "make", "cargo", "helm", "tox"}
"""Programs whose name is no English word: their commands need no backticks."""

_SUB: Final = "|".join(sorted(SUBCOMMANDS, key=len, reverse=True))
_BARE: Final = "|".join(sorted(PLAIN_PROGRAMS - {"go", "make"}, key=len, reverse=True))
# In backticks, after a prompt or in a chain; or in prose before a subcommand, a flag, a URL or a path.
_COMMAND: Final = re.compile(
    r"(?:(?:(?<!`)`|(?:\A|\n)[ \t]{0,8}[$❯%>] |&& )(?:(?:sudo|time|[A-Z_]{2,30}=[^\s`]{1,40}) ){0,2}"
    r"(?P<program>[a-z][\w.+-]{0,30})(?:(?P<module> -m [\w.]{1,40})| (?P<sub>[a-z][\w:.-]{0,40}))?(?=[\s`;|&]|\Z))"
    rf"|(?<![\w./@`$-])(?:(?P<bare>{_BARE}) (?:(?P<bare_sub>{_SUB})(?![\w/.-])|(?=-{{1,2}}[a-zA-Z]"
    rf"|https?:|[\w.]{{1,40}}/\w)))"
    # text where no command begins is skipped
    rf"|(?>(?:(?<=\w)\w++|[^\w`&\n]++|(?!(?:{_BARE}) )\w++)+)"
)
_RUN: Final = re.compile(
    r"\b(?:[Rr]un|[Rr]unning|[Rr]an|[Rr]e-?run(?:ning)?) `?(?P<program>pytest|mypy|ruff|eslint|tsc|jest|vitest|make|"
    r"tox|nox|flake8|black|prettier|shellcheck|golangci-lint)(?![\w/.-])(?! [a-z])"
)


def find_commands(text: str) -> Iterator[Mention]:
    """Yield program and subcommand of shell commands; `python -m X` is X."""
    for match in _COMMAND.finditer(text):
        program, sub = match["program"] or match["bare"], match["sub"] or match["bare_sub"]
        if program not in _PROGRAMS:  # other text, or no known program
            continue
        after = text[match.end() : match.end() + 1]
        if match["program"] in _ENGLISH and not match["sub"] and not match["module"] and after != " ":
            continue  # `watch` alone is a word
        start = match.start("program" if match["program"] else "bare")
        if match["module"]:
            key, end = match["module"].split()[-1], match.end("module")
        elif sub and program in PROGRAMS and "." not in sub:
            key, end = f"{program} {sub}", match.end("sub" if match["sub"] else "bare_sub")
        elif not sub and program in PROJECTS and after == "`":
            continue  # `docker` alone is the tool
        else:
            key, end = program, start + len(program)
        yield start, end, (Entity("command", key.lower(), text[start:end]),)
    for match in _RUN.finditer(text) if "un " in text or "an " in text or "unning " in text else ():
        yield match.start("program"), match.end("program"), (Entity("command", match["program"], match["program"]),)
