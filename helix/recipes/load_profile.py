"""Profiles: every constant of a recall, one TOML file each. An unknown key is refused.

A file names the recipe it is for (`recipe`, see `helix.recipes`); that recipe's dataclass says which keys there are. A
user's own file lies in the folder `HELIX_PROFILES` and may build on one of these (`base = "helix"`) and say only what
it changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_type_hints

from helix.errors import UsageError
from helix.recipes.registry import RECIPES, recipe
from helix.types import TYPES

SIGNALS = ("sim", "recency", "salience", "confidence", "graph")
EDGES = ("next", "session", "reply", "same", "fact")
LEGS = ("dense", "bm25", "doc2query", "sparse")

T = TypeVar("T")


class Constants(Protocol):
    """What every recipe's profile has."""

    @property
    def name(self) -> str:
        """Of the file."""

    @property
    def recipe(self) -> str:
        """Of `helix.recipes`."""


def keys(*names: str) -> Any:
    """A field whose value is a table with exactly these keys."""
    return field(metadata={"keys": names})


def one_of(*values: str) -> Any:
    """A field whose value is one of these."""
    return field(metadata={"values": values})


@dataclass(frozen=True, slots=True)
class Ask:
    """Before stage 1: what of the question is asked for."""

    core: bool
    speaker: bool


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Stage 3."""

    dense: int
    bm25: int
    doc2query: int
    sparse: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class Fuse:
    """Stage 4."""

    k: float
    weights: Mapping[str, float] = keys(*LEGS)


@dataclass(frozen=True, slots=True)
class Graph:
    """Stage 5."""

    seeds: int
    restart: float
    epsilon: float
    hops: int
    work: int
    entity_df: int
    session_size: int
    extra: int
    mass: float
    edges: Mapping[str, float] = keys(*EDGES)  # weight by kind; an entity's weighs its idf
    method: str = one_of("push", "bfs")


@dataclass(frozen=True, slots=True)
class Sim:
    """The weights of the similarity of stage 6."""

    rrf: float
    own: float
    window: float
    rare: float
    adjacent: float
    doc2query: float
    sparse: float
    dense: float
    lean: float
    mean: float
    session: float
    reply: float
    standing: float
    first_person: float
    salience: float
    speaker: float
    user: float
    date: float
    title: float
    type: float
    project: float


@dataclass(frozen=True, slots=True)
class Link:
    """The step from the best items to what they name, in stages 5 and 6."""

    beside: int
    readers: int
    extra: int
    seeds: int
    title: float
    title_df: int
    walk: float
    walk_df: int
    walk_df_turns: int


@dataclass(frozen=True, slots=True)
class Rank:
    """Stage 6."""

    superseded: float
    recency: str = one_of("always", "asked")
    decay: Mapping[str, float] = keys(*TYPES)  # a hour


@dataclass(frozen=True, slots=True)
class Rerank:
    """Between stages 6 and 7, off unless asked for."""

    weight: float


@dataclass(frozen=True, slots=True)
class Pack:
    """Stage 8."""

    full: float
    excerpt: float
    neighbours: int
    neighbour_tokens: int


@dataclass(frozen=True, slots=True)
class Diversify:
    """Stage 7. `lambda_` is `lambda` in the file."""

    jaccard: float
    lambda_: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A file of the recipe `helix`: the eight stages."""

    name: str
    recipe: str
    ask: Ask
    retrieve: Retrieve
    fuse: Fuse
    graph: Graph
    sim: Sim
    link: Link
    rank: Rank
    rerank: Rerank
    diversify: Diversify
    pack: Pack
    weights: Mapping[str, Mapping[str, float]] = field(metadata={"keys": TYPES, "inner": SIGNALS})  # by type


def names(folder: str = "") -> list[str]:
    """The profiles there are; with those of a user's folder."""
    packaged = [entry.name for entry in (files("helix.recipes") / "profiles").iterdir()]
    own = [path.name for path in Path(folder).glob("*.toml")] if folder else []
    return sorted({name.removesuffix(".toml") for name in (*packaged, *own) if name.endswith(".toml")})


@cache
def load(name: str, folder: str = "") -> Any:
    """The profile of that name: an instance of its recipe's dataclass.

    Args:
        folder: a user's own profiles; one of the same name goes before the packaged one.

    Raises:
        UsageError: there is none, or it has a key that nothing reads or lacks one.
    """
    known = names(folder)
    if name not in known:
        raise UsageError(f"no profile {name!r}", f"there are: {', '.join(known)}")
    own = Path(folder) / f"{name}.toml" if folder else None
    return parse(name, own.read_text("utf-8") if own and own.is_file() else _packaged(name))


def _packaged(name: str) -> str:
    return (files("helix.recipes") / "profiles" / f"{name}.toml").read_text("utf-8")


def parse(name: str, text: str) -> Any:
    """A profile from its text; see `load`."""
    raw = _toml(name, text)
    base = raw.pop("base", None)
    if base is not None:
        if base not in names():
            raise UsageError(
                f"profile {name!r} builds on {base!r}, which there is not", f"there are: {', '.join(names())}"
            )
        raw = _over(_toml(base, _packaged(base)), raw)
    if raw.get("recipe") not in RECIPES:
        raise UsageError(
            f"profile {name!r}: recipe is {raw.get('recipe')!r}", f"there are: {', '.join(RECIPES)}; or name a 'base'"
        )
    return build(recipe(raw["recipe"]).Profile, name, raw)


def build(kind: type[T], name: str, raw: Mapping[str, Any]) -> T:
    """A recipe's dataclass from the tables of a file: its keys, no others, each of its type.

    Raises:
        UsageError: one is missing, unknown or of another type.
    """
    return _build(kind, name, "", raw, {"name": name})


def _build(kind: type[T], name: str, where: str, raw: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> T:
    hints = get_type_hints(kind)
    values = dict(given or {})
    wanted = {one.name.rstrip("_"): one for one in fields(kind) if one.name not in values}  # type: ignore[arg-type]
    _exactly(name, where, raw, set(wanted))
    for key, one in wanted.items():
        value, at = raw[key], f"{where}{key}"
        if is_dataclass(hints[one.name]):
            value = _build(hints[one.name], name, f"{at}.", _table(name, at, value))
        elif "keys" in one.metadata:
            _exactly(name, f"{at}.", _table(name, at, value), set(one.metadata["keys"]))
            for inner in one.metadata["keys"] if "inner" in one.metadata else ():
                _exactly(name, f"{at}.{inner}.", _table(name, f"{at}.{inner}", value[inner]), {*one.metadata["inner"]})
        elif "values" in one.metadata:
            if value not in one.metadata["values"]:
                raise UsageError(f"profile {name!r}: {at} is {value!r}", f"it is {' or '.join(one.metadata['values'])}")
        elif not _is(value, hints[one.name]):
            raise UsageError(f"profile {name!r}: {at} is {value!r}", f"it is {_word(hints[one.name])}")
        values[one.name] = value
    return kind(**values)


def _is(value: Any, hint: Any) -> bool:
    if hint in (int, float):
        return isinstance(value, int | float if hint is float else int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _word(hint: Any) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(hint, str(hint))


def _table(name: str, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"profile {name!r}: {where} is {value!r}", "it is a table")
    return value


def _toml(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"profile {name!r} is not TOML: {error}", "correct the file") from None


def _over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the changed leaves."""
    out = dict(base)
    for key, value in changes.items():
        before = out.get(key)
        out[key] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return out


def _exactly(name: str, where: str, found: Mapping[str, Any], expected: set[str]) -> None:
    if unknown := set(found) - expected:
        raise UsageError(
            f"profile {name!r} has an unknown key: {where}{sorted(unknown)[0]}",
            f"it knows {', '.join(sorted(expected))}",
        )
    if missing := expected - set(found):
        raise UsageError(f"profile {name!r} lacks the key {where}{sorted(missing)[0]}", "add it")
