"""Superseded items carry what replaced them: the newest item that supersedes each at the moment of the answer.

Texts of successors come from logs, so they are sanitised here, once for all surfaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.stages.features.excerpt import excerpt
from helix.text.tokenize import tokenise
from helix.types import AnyArray
from helix.util.sanitise import sanitise_name
from helix.util.undated import is_undated

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

SHOWN: Final = 200
"""Characters of a successor's text."""

QUOTED: Final = 80
"""Characters of it in a context."""


def add_replacements(
    entries: Sequence[Mapping[str, Any]], rows: AnyArray, snap: Snapshot, at: int
) -> list[dict[str, Any]]:
    """Return the entries with `replaced` added: fields of the item's successor, None where it has none.

    They are those of `snap.text`, with a shortened `text`, and a shorter one, `quote`.

    Args:
        entries: shown fields of items.
        rows: integer[n], theirs.
        at: the moment, in seconds.
    """
    new = snap.changes.successors(rows, at)
    places = np.flatnonzero(new >= 0)
    texts, languages = (snap.text(new[places]), snap.lexical.languages_of(new[places])) if len(places) else ([], [])
    later = dict(zip(places.tolist(), zip(texts, languages, strict=True), strict=True))
    return [
        {**entry, "replaced": _shorten(*later[i], str(entry["text"])) if i in later else None}
        for i, entry in enumerate(entries)
    ]


def _shorten(later: Mapping[str, Any], language: str, old: str) -> dict[str, Any]:
    """Shorten a successor's text, of a language, to the sentences that share most terms with the superseded one."""
    text = str(later["text"])
    weights = dict.fromkeys(sorted(set(tokenise(old, language))), 1.0) if len(text) > QUOTED else {}
    shown = excerpt(text, weights, SHOWN, language=language) or text
    quote = excerpt(shown, weights, QUOTED, language=language) or shown
    return {**later, "text": sanitise_name(shown, SHOWN), "quote": sanitise_name(quote, QUOTED)}


def explain_superseded(rows: AnyArray, snap: Snapshot, at: int) -> dict[int, str]:
    """Return what supersedes rows and since when, in words, by row; rows without a successor are left out.

    Args:
        rows: integer[n].
        at: the moment, in seconds.
    """
    new = snap.changes.successors(rows, at)
    here = np.flatnonzero(new >= 0)
    new = new[here]
    found = zip(rows[here].tolist(), snap.columns.key[new].tolist(), snap.changes.said_at[new].tolist(), strict=True)
    return {row: f"superseded by {key:016x}{_format_day(said)}" for row, key, said in found}


def _format_day(said: int) -> str:
    return "" if is_undated(said) else f" on {np.datetime64(said, 's').astype('datetime64[D]')}"
