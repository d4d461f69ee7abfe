"""Items by the citation that a context shows: session and turn, `b18d71f0#c34708f0`, where a UUID has eight digits."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

import numpy as np

from helix.errors import UsageError
from helix.snapshot.reader.row_map import RowMap

_UUID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{4}([0-9a-f]{8})\b")
"""A UUID: its first eight digits, its version, its last eight digits."""

_BY_TIME: Final = frozenset("67")
"""Versions that begin with the time, which ids of one minute share."""


def shorten_uuids(name: str) -> str:
    """Return a name whose UUIDs have eight digits that identify them: the first, or the last where time is first."""
    return _UUID.sub(lambda match: match[3] if match[2] in _BY_TIME else match[1], name)


class Citations:
    """The live items by session and turn."""

    def __init__(self, rows: RowMap) -> None:
        self._rows = rows

    def find(self, citation: str) -> list[int]:
        """Return the rows of a cited turn in reading order: the pieces of a long turn; empty for no live item.

        Args:
            citation: session and turn, each whole or with shortened UUIDs; of several turns the first counts.

        Raises:
            UsageError: several sessions or turns have that name.
        """
        session, mark, turns = citation.strip().strip("()[]").rstrip(":").rpartition("#")
        if not mark or not session:
            return []
        turn = shorten_uuids(turns.partition(",")[0])
        codes = self._codes.get(shorten_uuids(session), [])
        whole = [code for code in codes if self._names[code] == session]
        codes = whole or codes
        if len(codes) > 1:
            names = ", ".join(self._names[code] for code in codes[:3])
            raise UsageError(f"{citation} is of {len(codes)} sessions: {names}", "give the whole name of the session")
        if not codes:
            return []
        columns = self._rows.columns
        own = np.flatnonzero(self._rows.alive & (columns.session == codes[0]))
        own = own[np.argsort(columns.ord[own], kind="stable")]
        entries = zip(own.tolist(), self._rows.texts(own), strict=True)
        found = [(row, name) for row, entry in entries for name in entry["turns"] if turn == shorten_uuids(name)]
        wanted = turns.partition(",")[0]
        exact = [(row, name) for row, name in found if name == wanted]
        found = exact or found
        if len({name for _, name in found}) > 1:
            raise UsageError(f"{citation} is of several turns", "give the whole name of the turn, or an item's id")
        return [row for row, _ in found]

    @cached_property
    def _names(self) -> dict[int, str]:
        """The name of each live session, by code."""
        live = np.flatnonzero(self._rows.alive)
        codes, first = np.unique(self._rows.columns.session[live], return_index=True)
        entries = self._rows.texts(live[first])
        return {code: entry["session"] for code, entry in zip(codes.tolist(), entries, strict=True)}

    @cached_property
    def _codes(self) -> dict[str, list[int]]:
        """Codes of the live sessions by shortened name."""
        found: dict[str, list[int]] = {}
        for code, name in self._names.items():
            found.setdefault(shorten_uuids(name), []).append(code)
        return found
