"""Shell command lines of an agent: the programs they run, and keys by which the same command is found again.

`cd /srv/app && FOO=1 timeout 60 uv run pytest -q tests/test_queue.py 2>&1 | tail -20` runs `pytest`: a change of
folder, assignments, redirections, and programs that only print what another one wrote do not change what it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from helix.util.wordlists import read_groups

MAX_CHARS: Final = 4_000
"""Characters of a command line that are read."""

_WORDS: Final = read_groups("helix.text", "shell")
_READERS: Final = _WORDS["readers"]
_PREFIXES: Final = _WORDS["prefixes"]
_RUNNERS: Final = _WORDS["runners"]
_WITH_COMMANDS: Final = _WORDS["with commands"]
_SHOWING: Final = _WORDS["showing commands"]
_CHECKS: Final = _WORDS["checks"]
_TEST_RUNNERS: Final = _WORDS["test runners"]

_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
_TOKEN: Final = re.compile(
    r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|&&|\|\||\|&|[;|\n]|&(?!>)|\d?>{1,2}&?\s*[^\s;|&]*|&>{1,2}\s*\S+|<\s*\S+|[^\s;|&<>'"\\`$]+|\S""",
)
_ENDS: Final = frozenset({"&&", "||", ";", "\n", "&", "|", "|&"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTION: Final = re.compile(r"\d?>|&>|<")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_INTERPRETERS: Final = re.compile(r"(?:python|python3|python\d\.\d+|pypy3?|node|ruby|perl|php|bun|deno|tsx|ts-node)")
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "fish", "pwsh", "powershell"})
_KEYWORDS: Final = _WORDS["keywords"]


class Program(NamedTuple):
    """One program of a command line."""

    name: str  # program and its own command: `go test`, `pytest`, `make`
    words: tuple[str, ...]  # its other words, without redirections
    piped: bool = False  # reads what the program before it wrote
    written: str = ""  # its words as they are written

    @property
    def is_reader(self) -> bool:
        """True for a program that only prints what is there."""
        if self.name in ("sed", "awk", "tee") and (
            self.name == "tee" or any(word.startswith("-i") for word in self.words)
        ):
            return False  # it writes
        return self.name.partition(" ")[0] in _READERS or self.name.replace(" ", "-", 1) in _SHOWING

    @property
    def is_check(self) -> bool:
        """True for a program that only builds, checks or sends what is there."""
        if any(word.startswith("--fix") or word in ("-w", "--write") for word in self.words):
            return False
        name = self.name.replace(" ", "-", 1)
        return self.runs_tests or not _CHECKS.isdisjoint((name, name.partition("-")[0], self.name.partition(" ")[0]))

    @property
    def runs_tests(self) -> bool:
        """True for a program that is known to run tests."""
        name = self.name.replace(" ", "-", 1)
        return name in _TEST_RUNNERS or (name.partition("-")[0] in _RUN_SCRIPTS and "test" in name)


_RUN_SCRIPTS: Final = frozenset(
    {"npm", "yarn", "pnpm", "bun", "make", "just", "task", "nx", "turbo", "mix", "composer"}
)


@lru_cache(maxsize=4_096)
def read_programs(line: str) -> tuple[Program, ...]:
    """Return the programs that a command line runs, in order; `cd` and programs of the shell itself are left out."""
    return tuple(_read_programs(line[:MAX_CHARS], 0))


def _read_programs(line: str, depth: int) -> Iterator[Program]:
    line = _cut_heredocs(line) if "<<" in line else line
    for words, piped in _split(line):
        program = _read_program(words, piped)
        if program is None:
            continue
        if program.name in _SHELLS and depth < 2 and (script := _find_script(program.words)):
            yield from _read_programs(script, depth + 1)
        else:
            yield program


def _cut_heredocs(line: str) -> str:
    """Return a line without the texts that it gives to programs, each up to the line of its mark."""
    parts, at = [], 0
    while match := _HEREDOC.search(line, at):
        body = line.find("\n", match.end())
        end = line.find(f"\n{match[2]}", body) if body >= 0 else -1
        parts.append(line[at : match.start()])
        if body < 0 or end < 0:
            at = match.end() if body < 0 else len(line)
            parts.append("" if body < 0 else line[match.end() : body])
            continue
        parts.append(line[match.end() : body])
        at = end + 1 + len(match[2])
    return "".join([*parts, line[at:]])


def _split(line: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each simple command, and whether it reads a pipe."""
    words: list[str] = []
    piped, glued = False, False
    end = 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token in _ENDS:
            if words:
                yield words, piped
            words, piped, glued = [], token.startswith("|") and token != "||", False
        elif not _REDIRECTION.match(token):
            word = _unquote(token)
            if glued and match.start() == end and words:
                words[-1] += word
            else:
                words.append(word)
            glued = True
        end = match.end()
    if words:
        yield words, piped


def _unquote(token: str) -> str:
    if token[:1] in "'\"" and len(token) > 1:
        return token[1:-1]
    return token[1:] if token[:1] == "\\" and len(token) > 1 else token


def _read_program(words: Sequence[str], piped: bool) -> Program | None:
    """Return the program of a simple command; None for one that runs nothing."""
    program = _name_program(words, piped)
    return program and program._replace(written=" ".join(" ".join(words).split()))


def _name_program(words: Sequence[str], piped: bool) -> Program | None:
    left = list(words)
    if left[0] in ("for", "case", "select"):  # what it goes through; its body follows
        return None
    while left:
        word = left[0]
        if _ASSIGNMENT.match(word) or word in _KEYWORDS or word.strip("()") == "":
            left.pop(0)
            continue
        name = word.strip("()").rpartition("/")[2] or word
        if name in _PREFIXES:
            left.pop(0)
            while left and (left[0].startswith("-") or _NUMBER.fullmatch(left[0])):
                left.pop(0)
            continue
        if name in _RUNNERS and (inner := _skip_runner(left)):
            left = inner
            continue
        break
    if not left:
        return None
    name = left[0].strip("()").rpartition("/")[2].lower().removesuffix(".exe")
    rest = left[1:]
    if not name or name in (
        "cd",
        "pushd",
        "popd",
        "export",
        "set",
        "source",
        ".",
        "true",
        "false",
        ":",
        "sleep",
        "wait",
    ):
        return None
    if _INTERPRETERS.fullmatch(name):
        return _read_interpreter(name, rest, piped)
    if name in _WITH_COMMANDS:
        return _read_command(name, rest, piped)
    return Program(name, tuple(rest), piped)


def _skip_runner(words: Sequence[str]) -> list[str] | None:
    """Return the words of the command that a runner runs; None where the runner itself does the work."""
    at = 1
    while at < len(words) and (words[at] in _WORDS["runner words"] or words[at].startswith("-")):
        at += 1
    ran = any(word in _WORDS["runner words"] for word in words[1:at])
    if at >= len(words) or not (ran or words[0] in ("npx", "bunx", "pnpx", "rtk")):
        return None
    if words[0] in ("yarn", "pnpm") and words[at - 1] == "run":
        return None  # a script of the package
    return list(words[at:])


def _read_interpreter(name: str, rest: Sequence[str], piped: bool) -> Program:
    """Return the module or the script that an interpreter runs, else the interpreter."""
    for at, word in enumerate(rest):
        if word == "-m" and at + 1 < len(rest):
            return Program(rest[at + 1].lower(), tuple(rest[at + 2 :]), piped)
        if word.startswith("-"):
            if word in ("-c", "-e"):
                break
            continue
        if word in ("run", "test") and name in ("bun", "deno"):
            return _read_command(name, rest, piped)
        return Program(word.rpartition("/")[2].lower(), tuple(rest[at + 1 :]), piped)
    return Program(re.sub(r"[\d.]+\Z", "", name), tuple(rest), piped)


def _read_command(name: str, rest: Sequence[str], piped: bool) -> Program:
    """Return a program with its own command: the first word that is no option, nor an option's value."""
    takes_value = {"-C", "-c", "-f", "--filter", "--prefix", "-p", "--project", "--manifest-path", "-n", "--context"}
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        at += 2 if rest[at] in takes_value else 1
    sub = rest[at] if at < len(rest) else ""
    if sub in ("run", "run-script") and name in _RUN_SCRIPTS and at + 1 < len(rest):
        at += 1
        sub = rest[at]
    if not re.fullmatch(r"[a-z][\w:.-]{0,40}", sub):
        return Program(name, tuple(rest), piped)
    before = [word for word in rest[:at] if word not in ("run", "run-script")]
    return Program(f"{name} {sub.lower()}", (*before, *rest[at + 1 :]), piped)


def _find_script(words: Sequence[str]) -> str:
    """Return the text after `-c`; empty without one."""
    for at, word in enumerate(words[:-1]):
        if word.startswith("-") and word.endswith("c"):
            return words[at + 1]
    return ""


def find_main(line: str) -> tuple[Program, ...]:
    """Return the programs that do something: all but those that only print or read a pipe; else all."""
    programs = read_programs(line)
    main = tuple(one for one in programs if not one.is_reader and not one.piped)
    return main or tuple(one for one in programs if not one.piped)


def share_program(first: str, second: str) -> bool:
    """Return whether two command lines run one program with the same words."""
    one, two = ({(program.name, program.words) for program in find_main(line)} for line in (first, second))
    return not one.isdisjoint(two)


def is_reading(line: str) -> bool:
    """Return whether a command line only prints what is there: what it prints is no error of its own."""
    return all(program.is_reader for program in find_main(line))


def changes_nothing(line: str) -> bool:
    """Return whether a command line only reads, builds, checks or runs tests."""
    return all(program.is_reader or program.is_check for program in find_main(line))


def normalise_command(line: str) -> str:
    """Return what a command line does, in a form that is the same in every folder: names and words of its programs."""
    return " && ".join(" ".join((one.name, *map(_shorten_word, one.words))) for one in find_main(line))


def spell_command(line: str) -> str:
    """Return the programs of a command line that do something, as they are written."""
    return " && ".join(program.written for program in find_main(line))


def _shorten_word(word: str) -> str:
    """Return a word with an absolute path as its last two names."""
    if not word.startswith(("/", "~/", "$")) and not re.match(r"[A-Za-z]:[\\/]", word):
        return " ".join(word.removeprefix("./").split()) or "."
    return "/".join(word.replace("\\", "/").rstrip("/").split("/")[-2:])
