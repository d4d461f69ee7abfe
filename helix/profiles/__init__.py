"""Profiles: every constant of a recall, one TOML file each. An unknown key is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from helix.errors import UsageError
from helix.types import TYPES

SIGNALS = ("sim", "recency", "salience", "confidence", "graph")
EDGES = ("next", "session", "reply", "same", "fact")


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Stage 3."""

    dense: int
    bm25: int
    doc2query: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class Fuse:
    """Stage 4."""

    k: float
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Graph:
    """Stage 5."""

    seeds: int
    restart: float
    steps: int
    entity_df: int
    extra: int
    mass: float
    edges: Mapping[str, float]  # weight by kind; an entity's weighs its idf


@dataclass(frozen=True, slots=True)
class Sim:
    """The similarity blend of stage 6."""

    window: float
    doc2query: float
    session: float
    smooth: float
    lexical: float
    dense: float
    mean: float
    speaker: float
    user: float
    date: float
    walk: float
    walk_seeds: int
    walk_df: int
    walk_df_turns: int


@dataclass(frozen=True, slots=True)
class Rank:
    """Stage 6."""

    recency: str  # always | asked
    decay: Mapping[str, float]  # by type, a hour


@dataclass(frozen=True, slots=True)
class Diversify:
    """Stage 7. `lambda_` is `lambda` in the file."""

    jaccard: float
    lambda_: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One file of this folder."""

    name: str
    retrieve: Retrieve
    fuse: Fuse
    graph: Graph
    sim: Sim
    rank: Rank
    weights: Mapping[str, Mapping[str, float]]  # type → signal → weight
    diversify: Diversify


_SECTIONS = {"retrieve": Retrieve, "fuse": Fuse, "graph": Graph, "sim": Sim, "rank": Rank, "diversify": Diversify}


def names() -> list[str]:
    """The profiles there are."""
    folder = files("helix.profiles")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@cache
def load(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UsageError: there is none, or it has a key that nothing reads or lacks one.
    """
    if name not in names():
        raise UsageError(f"no profile {name!r}", f"there are: {', '.join(names())}")
    return parse(name, (files("helix.profiles") / f"{name}.toml").read_text("utf-8"))


def parse(name: str, text: str) -> Profile:
    """A profile from its text; see `load`."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"profile {name!r} is not TOML: {error}", "correct the file") from None
    _exactly(name, "", raw, {*_SECTIONS, "weights"})
    sections: dict[str, Any] = {}
    for section, kind in _SECTIONS.items():
        keys = {field.name.rstrip("_") for field in fields(kind)}
        _exactly(name, f"{section}.", raw[section], keys)
        sections[section] = kind(
            **{field.name: raw[section][field.name.rstrip("_")] for field in fields(kind)}  # `lambda` is a keyword
        )
    _exactly(name, "weights.", raw["weights"], set(TYPES))
    for type_ in TYPES:
        _exactly(name, f"weights.{type_}.", raw["weights"][type_], set(SIGNALS))
    _exactly(name, "graph.edges.", raw["graph"]["edges"], set(EDGES))
    _exactly(name, "rank.decay.", raw["rank"]["decay"], set(TYPES))
    if raw["rank"]["recency"] not in ("always", "asked"):
        raise UsageError(f"profile {name!r}: rank.recency is {raw['rank']['recency']!r}", "it is 'always' or 'asked'")
    return Profile(name=name, weights=raw["weights"], **sections)


def _exactly(name: str, where: str, found: Mapping[str, Any], expected: set[str]) -> None:
    if unknown := set(found) - expected:
        raise UsageError(
            f"profile {name!r} has an unknown key: {where}{sorted(unknown)[0]}",
            f"it knows {', '.join(sorted(expected))}",
        )
    if missing := expected - set(found):
        raise UsageError(f"profile {name!r} lacks the key {where}{sorted(missing)[0]}", "add it")
