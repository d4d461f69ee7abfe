"""Questions about a synthetic store, for `pipelines.bench.store`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from helix.snapshot.segment.batch import Rows
from pipelines.bench.synthetic import BATCH, make_batch

QUESTIONS: Final = 200


def draw_questions(items: int, seed: int, n: int = QUESTIONS) -> list[dict[str, Any]]:
    """Draw n questions: words, identifiers and paths, errors, words within a project.

    Returns:
        A list of {query, project, kind, item}; `item` is the id of the words' source.
    """
    index = items // BATCH // 2
    size = min(BATCH, items - index * BATCH)
    rows = make_batch(seed, index, size)
    rng = np.random.default_rng(seed)
    names = dict(
        zip(rows.entities["hash"].to_pylist(), rows.entities.select(["kind", "name"]).to_pylist(), strict=True)
    )
    text, project, ids = (rows.items[column].to_pylist() for column in ("text", "project", "id"))
    asks: list[dict[str, Any]] = []
    public = np.flatnonzero(select_public(rows))
    places = iter(np.resize(rng.permutation(public), 50 * n).tolist())
    for i in range(n):
        kind = ("words", "identifier", "words", "error", "project")[i % 5]
        query = None
        while query is None:
            row = next(places, None)
            if row is None:  # too few items name one: ask for words
                kind, row = "words", int(rng.choice(public))
            mentioned = rows.mention_entity[rows.mention_indptr[row] : rows.mention_indptr[row + 1]].tolist()
            query = _make_query(kind, text[row], [names[number] for number in mentioned], rng)
        asks.append(
            {"query": query, "project": project[row] if kind == "project" else None, "kind": kind, "item": ids[row]}
        )
    return asks


def _make_query(kind: str, text: str, mentioned: Sequence[dict[str, str]], rng: np.random.Generator) -> str | None:
    """Make a question about one item; None if it has nothing of the kind."""
    words = re.findall(r"[^\s.,]\S*[^\s.,]", text)
    start = int(rng.integers(max(1, len(words) - 7)))
    phrase = " ".join(words[start : start + 8]).lower()
    if kind in ("words", "project"):
        return phrase or text
    wanted = ("error",) if kind == "error" else ("identifier", "path")
    named = [entry["name"] for entry in mentioned if entry["kind"] in wanted]
    if not named:
        return None
    return f"{named[0]}: {' '.join(words[start : start + 3])}" if kind == "error" else f"where is {named[0]} used"


def select_public(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return bool[n]: items without an ACL."""
    return np.array([not acl for acl in rows.items["acl"].to_pylist()])
