"""A user's preferences and standing instructions: a channel of their own, since a rule is seldom like its question.

"Always give step-by-step solutions when I ask about probability" bears on every question about probability, and no word
of "what are the odds of two heads" is in it. Few items are such rules, so they are compared with each other only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.text.cues import LIKES, PREFERS, STANDING
from helix.types import F32, I64, ROLES, Candidates, Plan, Query
from helix.work.rules import select_rules

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST: Final = (3, 2)
"""Instructions and preferences of an answer."""

BEST: Final = 10
"""Items of the pool whose projects the rules may be of, where the question names none."""

MOST_READ: Final = 500
"""Rules that are compared: the newest."""

_USER: Final = ROLES.index("user")


class Standing(NamedTuple):
    """Rows of the rules for a question, those nearest to it first."""

    instructions: I64
    preferences: I64

    @property
    def rows(self) -> I64:
        """All of them, each once, instructions first."""
        return np.array([*dict.fromkeys([*self.instructions.tolist(), *self.preferences.tolist()])], np.int64)


NO_RULES: Final = Standing(np.empty(0, np.int64), np.empty(0, np.int64))


def find_standing(query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, pool: Candidates) -> Standing:
    """Find the rules that a user gave, nothing replaced, and that are of the question's project or of the best items'.

    Preferences bear on advice only.

    Args:
        vector: float32[d], of the question; without one the newest come first.
    """
    rows = snap.lexical.rows_with(STANDING | PREFERS | LIKES)
    columns = snap.columns
    rows = rows[snap.alive[rows] & (columns.role[rows] == _USER)]
    if plan.allowed is not None:
        rows = rows[plan.allowed[rows]]
    if not len(rows):
        return NO_RULES
    if query.project is None:
        rows = rows[np.isin(columns.project[rows], columns.project[pool.row[:BEST]])]
    rows = select_rules(snap, rows[-MOST_READ:], query.moment)
    if vector is not None:
        rows = rows[np.argsort(-(snap.vectors.dequantise(rows) @ vector), kind="stable")]
    instructs = (snap.lexical.cues(rows) & STANDING) > 0
    preferences = rows[~instructs][: MOST[1]] if plan.advice else rows[:0]
    return Standing(rows[instructs][: MOST[0]], preferences)
