"""Rules of a user about a file or a command: standing instructions and decisions that nothing replaced."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from helix.enrich.trust import LEAST_TRUST
from helix.snapshot.segment.batch import hash_parts
from helix.stages.supersede import find_superseded
from helix.text.cues import DECIDES, PREFERS, STANDING
from helix.text.language_words import find_pattern, has_words
from helix.text.languages import ENGLISH
from helix.text.shell import find_main
from helix.text.step_keys import list_path_ends
from helix.types import I64, ROLES, Bool
from helix.util.note_names import NOTES, PINNED, RULES

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST_READ: Final = 200
"""Rules that are read for a command: the newest."""

_USER: Final = ROLES.index("user")
_NEGATED: Final = re.compile(
    r"\b(?:never|don't|do not|not|no longer|avoid|without|instead of|rather than|stop)\b[^.,;:!?\n]{0,40}$",
    re.IGNORECASE,
)
_REACH: Final = 40  # characters before a name in which a word may deny it
_REACH_AFTER: Final = 24
_CLAUSE: Final = re.compile("[.,;:!?\n。、，！；：]")
_HERE: Final = "hier|aquí|ici|qui|aqui|здесь"
_LAST_WORD: Final = re.compile(r"[\w./-]+[ \t]+$")
_PLAIN: Final = re.compile(r"[A-Za-z][\w.-]*(?: [A-Za-z][\w.-]*)?")


def find_rules_about(snap: Snapshot, path: str, at: int, rows: Bool | None = None, limit: int = 2) -> I64:
    """Return the newest rows in which a user lays something down about a file.

    Args:
        at: seconds; a rule that was replaced by then is none.
        rows: bool[rows], those that count; None: all.

    Returns:
        int64[m], the newest first.
    """
    ends = [end.lower() for end in list_path_ends(path)]
    if not ends:
        return np.empty(0, np.int64)
    _, row = snap.graph.rows_of(np.array([int(hash_parts("path", end), 16) for end in ends], np.uint64))
    found: I64 = np.unique(row).astype(np.int64)
    found = found if rows is None else found[rows[found]]
    return select_rules(snap, found[(snap.lexical.cues(found) & (STANDING | DECIDES)) > 0], at)[:limit]


def find_rules_against(snap: Snapshot, line: str, at: int, rows: Bool | None = None, limit: int = 2) -> I64:
    """Return the newest rows in which a user forbids what a command line does; see `find_rules_about`."""
    row: I64 = np.flatnonzero((snap.alive if rows is None else snap.alive & rows) & (snap.columns.role == _USER))
    rules = select_rules(snap, row[(snap.lexical.cues(row) & STANDING) > 0], at)[:MOST_READ]
    read = zip(snap.text(rules), snap.lexical.languages_of(rules), strict=True)
    against = np.array([forbids(entry["text"], line, language) for entry, language in read], bool)
    return np.asarray(rules[against][:limit], np.int64)


def select_rules(snap: Snapshot, rows: I64, at: int) -> I64:
    """Return those of some rows that a user says, with trust, and nothing of trust replaces, the newest first.

    A user is who prompts an agent, without a name, who wrote a note, or who signed a rule of the team. What others
    say, tools return and agents note is no rule, and an agent's note takes no rule away.
    """
    columns = snap.columns
    notes = np.isin(columns.session[rows], [find_note_session(snap, name) for name in (NOTES, PINNED, RULES)])
    own = (columns.role[rows] == _USER) & ((columns.speaker[rows] < 0) | notes)
    rows = rows[own & (columns.confidence[rows] >= LEAST_TRUST)]
    rows = rows[np.lexsort((-rows, -columns.place[rows]))]
    found = find_superseded(rows.astype(np.uint32), snap, at) if len(rows) else None
    if found is None:
        return rows
    weakly = found.old[columns.confidence[found.new] < LEAST_TRUST]
    return np.asarray(rows[~np.isin(rows, found.rows) | np.isin(rows, weakly)], np.int64)


def list_rules(snap: Snapshot, rows: Bool, at: int) -> I64:
    """Return what a user pinned, then rules of the team, then instructions and preferences; see `select_rules`.

    Each of the three has its newest first.

    Args:
        rows: bool[rows], those that count.
        at: seconds; what was replaced by then is no rule.
    """
    columns = snap.columns
    pinned, signed = (find_note_session(snap, name) for name in (PINNED, RULES))
    own = np.flatnonzero(rows & (columns.role == _USER))
    given = np.isin(columns.session[own], (pinned, signed))
    own = select_rules(snap, own[given | ((snap.lexical.cues(own) & (STANDING | PREFERS)) > 0)], at)
    session = columns.session[own]
    return own[np.argsort(2 - 2 * (session == pinned) - (session == signed), kind="stable")]


def find_note_session(snap: Snapshot, name: str) -> int:
    """Return the code of a session of notes; −2 for none."""
    return snap.catalog.note_sessions.get(name, -2)


def forbids(rule: str, line: str, language: str = ENGLISH) -> bool:
    """Return whether a rule says not to do what a command line does: "never use npm install here".

    A rule that also names the right way is not against a line that goes it: "never pytest, always uv run pytest".
    """
    for program in find_main(line):
        first = program.words[0] if program.words else ""
        names = [program.name] if " " in program.name or not _PLAIN.fullmatch(first) else [f"{program.name} {first}"]
        patterns = [rf"(?<![\w./-]){re.escape(name)}(?![\w/-])" for name in names]
        patterns.append(rf"(?<![\w./-]){re.escape(program.name.partition(' ')[0])}(?={_find_ends(language)})")
        denied, right = False, False
        for pattern in patterns:
            for match in re.finditer(pattern, rule, re.ASCII):
                before = rule[: match.start()].rstrip("`'\"")
                if _is_denied(before, rule[match.end() :], language):
                    denied = True
                elif (last := _LAST_WORD.search(before)) and f"{last[0]}{match[0]}" in line:
                    right = True
        if denied and not right:
            return True
    return False


@cache
def _find_ends(language: str) -> str:
    """Return what follows a program that a rule forbids as a whole: "never use npm, use pnpm"."""
    denial = find_pattern(language, "denies", "after")
    words = rf"| (?:here|directly|any ?more|again|{_HERE})(?![A-Za-z])"
    return rf"[`'\"]?(?:[.,;:!)]|$|\n|[^\x00-\x7f]{words}{'| ?' + denial.pattern if denial else ''})"


def _is_denied(before: str, after: str, language: str) -> bool:
    """Return whether a clause denies what it names, by the text on either side of the name."""
    if language == ENGLISH:
        return _NEGATED.search(before) is not None
    near, follows = _CLAUSE.split(before)[-1][-_REACH:], _CLAUSE.split(after, maxsplit=1)[0][:_REACH_AFTER]
    return has_words(language, near, "denies", "before") or has_words(language, follows, "denies", "after")
