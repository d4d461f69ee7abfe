"""Questions about a synthetic store: natural ones, identifiers, errors, times, and questions with a filter.

Their words come from items with real vectors (`pipelines.bench.space`), so that both legs can find them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.errors import StoreError
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.segment.open import read_table
from helix.text.tokenize import STOP_WORDS
from helix.types import TYPES, Bool
from helix.util.wordlists import read_toml
from pipelines.bench.space import FILE
from pipelines.bench.synthetic import BATCH, START, make_batch

Ask = dict[str, Any]
"""{query, kind, item, with}: `item` is the id of the words' source, `with` has the arguments of the recall."""

OPEN: Final = ("natural", "identifier", "error", "time")
FILTERED: Final = ("project 1 %", "project 0.01 %", "window", "type", "acl")
KINDS: Final = (*OPEN, *FILTERED)

NOW: Final = datetime.fromtimestamp(START, UTC) + timedelta(days=2 * 365 + 30)
"""Moment of all questions but those that name a time: after the last session."""

_WINDOW: Final = timedelta(days=3, hours=15)  # to either side: about 1 % of two years
_PRINCIPALS: Final = 3  # of the ACLs
_PROJECTS: Final = 5  # of about the same size
_WORD = re.compile(r"[A-Za-z]{3,20}")
_TRIED: Final = 400  # most items for one question

_FORMS: Final = read_toml("pipelines.bench", "questions")


def draw_questions(root: Path, seed: int, n: int) -> list[Ask]:
    """Draw n questions, as many of each of KINDS, in this order.

    Raises:
        StoreError: the store has no items with real vectors.
    """
    try:
        items = [row for row in pq.read_table(root / FILE).to_pylist() if _list_words(row["text"])]
    except FileNotFoundError:
        raise StoreError(f"{root / FILE} is missing", "remove the store and make it again") from None
    if not items:
        raise StoreError(f"no item of {root} has a real vector", "remove the store and make it again")
    sizes = count_project_items(root)
    rng = np.random.default_rng([seed, n])
    public = [item for item in items if not item["acl"]]
    makers: dict[str, Callable[[], Ask]] = {
        **{kind: lambda kind=kind: _ask_open(kind, public, rng) for kind in OPEN},  # type: ignore[misc]
        "project 1 %": lambda: _ask_in_project(_find_projects(sizes, 0.01), public, rng),
        "project 0.01 %": lambda: _ask_in_project(_find_projects(sizes, 0.0001), public, rng),
        "window": lambda: _ask_in_window(public, rng),
        "type": lambda: _ask_by_type(public, rng),
        "acl": lambda: _ask_as_principal(items, rng),
    }
    counts = [n // len(KINDS) + (i < n % len(KINDS)) for i in range(len(KINDS))]
    return [{**makers[kind](), "kind": kind} for kind, count in zip(KINDS, counts, strict=True) for _ in range(count)]


def count_project_items(root: Path) -> Counter[str]:
    """Count the items without an ACL by project."""
    _, manifest = inbox.load_current(root)
    sizes: Counter[str] = Counter()
    for segment in manifest.segments if manifest else ():
        table = read_table(root / "segments" / segment.id / "items.parquet", ["project", "acl"])
        counts = table.filter(pc.equal(pc.list_value_length(table["acl"]), 0))["project"].value_counts()
        sizes.update(dict(zip(*(counts.field(i).to_pylist() for i in (0, 1)), strict=True)))
    return sizes


def _find_projects(sizes: Counter[str], share: float) -> list[str]:
    """Return the few projects whose share of all items is nearest to this one, in proportion."""
    goal = np.log(share * sizes.total())
    return sorted(sizes, key=lambda name: (abs(float(np.log(sizes[name]) - goal)), name))[:_PROJECTS]


def _ask_open(kind: str, items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """Ask a question of one of the OPEN kinds about one of the items, or a natural one if no item names its object."""
    for at in rng.integers(len(items), size=_TRIED).tolist():
        item = items[at]
        found = _list_words(item["text"])
        start = int(rng.integers(max(1, len(found) - 2)))
        a, b, c = (*found[start : start + 3], found[0], found[0])[:3]
        words = {"a": a, "b": b, "c": c, "who": item["speaker"] or "we"}
        if kind == "time":
            if item["time"] is None:
                continue
            when, days = _FORMS["times"][int(rng.integers(len(_FORMS["times"])))]
            spoken = when.format(day=f"{item['time']:%d %B %Y}", month=f"{item['time']:%B %Y}")
            text = _pick(_FORMS["dated"], rng).format(**words, when=spoken)
            return _make_ask(text, item, now=item["time"] + timedelta(days=days))
        if kind == "natural":
            return _make_ask(_pick(_FORMS["natural"], rng).format(**words), item)
        wanted = ("error",) if kind == "error" else ("identifier", "path")
        names = [entry["name"] for entry in item["named"] if entry["kind"] in wanted]
        if names:
            return _make_ask(_pick(_FORMS[kind], rng).format(**words, name=names[0]), item)
    return _ask_open("natural", items, rng)


def _ask_unfiltered(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """Ask a question for use with a filter: half natural, else about identifiers and errors."""
    return _ask_open(("natural", "natural", "identifier", "error")[int(rng.integers(4))], items, rng)


def _ask_in_project(projects: Sequence[str], items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """Ask within one of these projects, about one of its items with a real vector, else about any item."""
    project = projects[int(rng.integers(len(projects)))]
    own = [item for item in items if item["project"] == project]
    return _add_arguments(_ask_unfiltered(own or items, rng), project=project)


def _ask_in_window(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    dated = {item["id"]: item["time"] for item in items if item["time"] is not None}
    found = _ask_unfiltered([item for item in items if item["id"] in dated], rng)
    when = dated[found["item"]]
    return _add_arguments(found, since=(when - _WINDOW).isoformat(), until=(when + _WINDOW).isoformat())


def _ask_by_type(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    kind = TYPES[int(rng.integers(len(TYPES)))]
    return _add_arguments(_ask_unfiltered([item for item in items if item["type"] == kind] or items, rng), type=kind)


def _ask_as_principal(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """Ask as one of the principals of most ACLs, about an item with an ACL if possible."""
    named = Counter(name for item in items for name in item["acl"])
    who = _pick([name for name, _ in sorted(named.items(), key=lambda entry: (-entry[1], entry[0]))][:_PRINCIPALS], rng)
    return _add_arguments(_ask_unfiltered([item for item in items if who in item["acl"]] or items, rng), principal=who)


def _make_ask(text: str, item: Ask, now: datetime = NOW) -> Ask:
    return {"query": text, "item": item["id"], "with": {"now": now.isoformat()}}


def _add_arguments(ask: Ask, **arguments: str) -> Ask:
    return {**ask, "with": {**ask["with"], **arguments}}


def _pick(choices: Sequence[str], rng: np.random.Generator) -> str:
    """Pick one, or a fixed unknown name if there are none."""
    return choices[int(rng.integers(len(choices)))] if choices else "nobody"


def _list_words(text: str) -> list[str]:
    """Return content words in reading order, lower case."""
    return [word.lower() for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]


STORE_QUESTIONS: Final = 200


def draw_store_questions(items: int, seed: int, n: int = STORE_QUESTIONS) -> list[dict[str, Any]]:
    """Draw n questions: words, identifiers and paths, errors, words within a project.

    Returns:
        A list of {query, project, kind, item}; `item` is the id of the words' source.
    """
    index = items // BATCH // 2
    size = min(BATCH, items - index * BATCH)
    rows = make_batch(seed, index, size)
    rng = np.random.default_rng(seed)
    named = rows.entities.select(["kind", "name"]).to_pylist()
    names = dict(zip(rows.entities["hash"].to_pylist(), named, strict=True))
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
        within = project[row] if kind == "project" else None
        asks.append({"query": query, "project": within, "kind": kind, "item": ids[row]})
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


def select_public(rows: RowBatch) -> Bool:
    """Return bool[n]: items without an ACL."""
    return np.array([not acl for acl in rows.items["acl"].to_pylist()])
