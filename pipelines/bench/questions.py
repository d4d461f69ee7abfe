"""Questions in the language of a synthetic store's items: natural ones, identifiers, errors, times, and with filters.

All are made of items that have real vectors (`pipelines.bench.real`), so that both legs have something to find.
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
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.segment.open import read_table
from helix.text.tokenize import STOP_WORDS
from helix.types import TYPES
from pipelines.bench.real import FILE
from pipelines.bench.synthetic import START

Ask = dict[str, Any]
"""{query, kind, item, with}: `item` is the id of the one the words are of, `with` the arguments of the recall."""

OPEN: Final = ("natural", "identifier", "error", "time")
FILTERED: Final = ("project 1 %", "project 0.01 %", "window", "type", "acl")
KINDS: Final = (*OPEN, *FILTERED)

NOW: Final = datetime.fromtimestamp(START, UTC) + timedelta(days=2 * 365 + 30)
"""When the questions are asked, but for those that name a time: after the last session."""

_WINDOW: Final = timedelta(days=3, hours=15)  # to either side: about 1 % of two years
_PRINCIPALS: Final = 3  # who ask under an ACL
_NARROW: Final = 5  # projects of about the same size that are asked
_WORD = re.compile(r"[A-Za-z]{3,20}")
_SAID: Final = 400  # items at most that are looked at for one question

_NATURAL: Final = (
    "what did {who} say about {a} {b} and {c}",
    "where did we put the {a} {b} for {c}",
    "how do we fix the {a} when {b} is {c}",
    "why did we choose {a} over {b} {c}",
    "what was decided about {a} and {b} {c}",
    "who worked on the {a} {b} with {c}",
    "did {who} mention {a} or {b} in the {c}",
    "remind me how {a} {b} and {c} were changed",
)
_TIMED: Final = (  # the words for the time, and how many days before the asking the item is
    ("last week", 7),
    ("yesterday", 1),
    ("two weeks ago", 14),
    ("last month", 30),
    ("on {day}", 20),
    ("in {month}", 60),
)
_DONE: Final = (
    "what did {who} do about {a} {b} {when}",
    "what happened to the {a} {b} {when}",
    "what did we say {when} about {a} and {b}",
)
_IDENTIFIER: Final = (
    "where is {name} used",
    "what does {name} do",
    "{name}",
    "which change broke {name} in {a}",
)
_ERROR: Final = ("{name}: {a} {b} {c}", "why do we get {name} in {a} {b}", "{name} when {a} the {b}")


def draw(root: Path, seed: int, n: int) -> list[Ask]:
    """n questions, as many of each of KINDS, in this order.

    Raises:
        StoreError: the store was made without such items.
    """
    try:
        items = [row for row in pq.read_table(root / FILE).to_pylist() if _words(row["text"])]
    except FileNotFoundError:
        raise StoreError(f"{root / FILE} is missing", "remove the store and make it anew") from None
    if not items:
        raise StoreError(f"no item of {root} has a real vector", "remove the store and make it anew")
    sizes = project_sizes(root)
    rng = np.random.default_rng([seed, n])
    everybodys = [item for item in items if not item["acl"]]
    makers: dict[str, Callable[[], Ask]] = {
        **{kind: lambda kind=kind: _open(kind, everybodys, rng) for kind in OPEN},  # type: ignore[misc]
        "project 1 %": lambda: _in_project(_nearest(sizes, 0.01), everybodys, rng),
        "project 0.01 %": lambda: _in_project(_nearest(sizes, 0.0001), everybodys, rng),
        "window": lambda: _in_window(everybodys, rng),
        "type": lambda: _of_type(everybodys, rng),
        "acl": lambda: _as_principal(items, rng),
    }
    counts = [n // len(KINDS) + (i < n % len(KINDS)) for i in range(len(KINDS))]
    return [{**makers[kind](), "kind": kind} for kind, count in zip(KINDS, counts, strict=True) for _ in range(count)]


def project_sizes(root: Path) -> Counter[str]:
    """Items of each project that everybody may see."""
    _, manifest = ledger.current(root)
    found: Counter[str] = Counter()
    for segment in manifest.segments if manifest else ():
        table = read_table(root / "segments" / segment.id / "items.parquet", ["project", "acl"])
        counts = table.filter(pc.equal(pc.list_value_length(table["acl"]), 0))["project"].value_counts()
        found.update(dict(zip(*(counts.field(i).to_pylist() for i in (0, 1)), strict=True)))
    return found


def _nearest(sizes: Counter[str], share: float) -> list[str]:
    """The few projects whose share of all items is nearest to the one that is wanted, in proportion."""
    goal = np.log(share * sizes.total())
    return sorted(sizes, key=lambda name: (abs(float(np.log(sizes[name]) - goal)), name))[:_NARROW]


# ---------------------------------------------------------------- one question


def _open(kind: str, items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """A question of one of the OPEN kinds about one of the items; a natural one where none names what is wanted."""
    for at in rng.integers(len(items), size=_SAID).tolist():
        item = items[at]
        said = _words(item["text"])
        start = int(rng.integers(max(1, len(said) - 2)))
        a, b, c = (*said[start : start + 3], said[0], said[0])[:3]
        words = {"a": a, "b": b, "c": c, "who": item["speaker"] or "we"}
        if kind == "time":
            if item["time"] is None:
                continue
            when, days = _TIMED[int(rng.integers(len(_TIMED)))]
            spoken = when.format(day=f"{item['time']:%d %B %Y}", month=f"{item['time']:%B %Y}")
            text = _one(_DONE, rng).format(**words, when=spoken)
            return _ask(text, item, now=item["time"] + timedelta(days=days))
        if kind == "natural":
            return _ask(_one(_NATURAL, rng).format(**words), item)
        wanted = ("error",) if kind == "error" else ("identifier", "path")
        names = [entry["name"] for entry in item["named"] if entry["kind"] in wanted]
        if names:
            return _ask(_one(_ERROR if kind == "error" else _IDENTIFIER, rng).format(**words, name=names[0]), item)
    return _open("natural", items, rng)


def _any(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """What is asked under a filter: half natural, else identifiers and errors."""
    return _open(("natural", "natural", "identifier", "error")[int(rng.integers(4))], items, rng)


def _in_project(projects: Sequence[str], items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """Within one of these projects; about an item of it, where one has a real vector, else about any."""
    project = projects[int(rng.integers(len(projects)))]
    own = [item for item in items if item["project"] == project]
    return _with(_any(own or items, rng), project=project)


def _in_window(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    dated = {item["id"]: item["time"] for item in items if item["time"] is not None}
    found = _any([item for item in items if item["id"] in dated], rng)
    when = dated[found["item"]]
    return _with(found, since=(when - _WINDOW).isoformat(), until=(when + _WINDOW).isoformat())


def _of_type(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    kind = TYPES[int(rng.integers(len(TYPES)))]
    return _with(_any([item for item in items if item["type"] == kind] or items, rng), type=kind)


def _as_principal(items: Sequence[Ask], rng: np.random.Generator) -> Ask:
    """As one of the few whom most ACLs name, about an item that not everybody may see, where there is one."""
    named = Counter(name for item in items for name in item["acl"])
    who = _one([name for name, _ in sorted(named.items(), key=lambda entry: (-entry[1], entry[0]))][:_PRINCIPALS], rng)
    return _with(_any([item for item in items if who in item["acl"]] or items, rng), principal=who)


def _ask(text: str, item: Ask, now: datetime = NOW) -> Ask:
    return {"query": text, "item": item["id"], "with": {"now": now.isoformat()}}


def _with(ask: Ask, **arguments: str) -> Ask:
    return {**ask, "with": {**ask["with"], **arguments}}


def _one(choices: Sequence[str], rng: np.random.Generator) -> str:
    """One of them; a name nobody has where there are none."""
    return choices[int(rng.integers(len(choices)))] if choices else "nobody"


def _words(text: str) -> list[str]:
    """Words that say something, in reading order, lower case."""
    return [word.lower() for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
