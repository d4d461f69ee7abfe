"""Rules of a user about a file or a command: standing instructions and decisions that nothing replaced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from helix.enrich.trust import LEAST_TRUST
from helix.snapshot.segment.batch import hash_parts
from helix.text.cues import DECIDES, STANDING
from helix.text.shell import find_main
from helix.text.step_keys import list_path_ends
from helix.types import I64, ROLES, Bool

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST_READ: Final = 200
"""Rules that are read for a command: the newest."""

_USER: Final = ROLES.index("user")
_NEGATED: Final = re.compile(
    r"\b(?:never|don't|do not|not|no longer|avoid|without|instead of|rather than|stop)\b[^.,;:!?\n]{0,40}$",
    re.IGNORECASE,
)
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
    return _select_rules(snap, np.unique(row).astype(np.int64), STANDING | DECIDES, at, rows)[:limit]


def find_rules_against(snap: Snapshot, line: str, at: int, rows: Bool | None = None, limit: int = 2) -> I64:
    """Return the newest rows in which a user forbids what a command line does; see `find_rules_about`."""
    own = np.flatnonzero(snap.alive & (snap.columns.role == _USER))
    rules = _select_rules(snap, own, STANDING, at, rows)[:MOST_READ]
    against = np.array([forbids(entry["text"], line) for entry in snap.text(rules)], bool)
    return np.asarray(rules[against][:limit], np.int64)


def forbids(rule: str, line: str) -> bool:
    """Return whether a rule says not to do what a command line does: "never use npm install here".

    A rule that also names the right way is not against a line that goes it: "never pytest, always uv run pytest".
    """
    for program in find_main(line):
        first = program.words[0] if program.words else ""
        names = [program.name] if " " in program.name or not _PLAIN.fullmatch(first) else [f"{program.name} {first}"]
        # A program alone forbids all of it, where no command of its own follows: "never use npm, use pnpm".
        alone = program.name.partition(" ")[0]
        patterns = [rf"(?<![\w./-]){re.escape(name)}(?![\w/-])" for name in names]
        patterns.append(
            rf"(?<![\w./-]){re.escape(alone)}(?=[`'\"]?(?:[.,;:!)]|$|\n| (?:here|directly|any ?more|again)\b))"
        )
        denied, right = False, False
        for pattern in patterns:
            for match in re.finditer(pattern, rule):
                before = rule[: match.start()].rstrip("`'\"")
                if _NEGATED.search(before):
                    denied = True
                elif (last := _LAST_WORD.search(before)) and f"{last[0]}{match[0]}" in line:
                    right = True
        if denied and not right:
            return True
    return False


def _select_rules(snap: Snapshot, row: I64, cues: int, at: int, rows: Bool | None) -> I64:
    """Return those of some rows that a user lays down and nothing of trust replaces, the newest first."""
    row = row[snap.columns.role[row] == _USER]
    if rows is not None:
        row = row[rows[row]]
    row = row[((snap.lexical.cues(row) & cues) > 0) & (snap.columns.confidence[row] >= LEAST_TRUST)]
    later = snap.changes.successors(row.astype(np.uint32), at)
    row = row[(later < 0) | (snap.columns.confidence[np.maximum(later, 0)] < LEAST_TRUST)]
    return np.asarray(row[np.lexsort((-row, -snap.columns.time[row]))], np.int64)
