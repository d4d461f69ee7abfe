"""A vector engine: it holds the vectors of a store with their metadata, and finds the nearest that a filter allows.

Only candidates come from an engine. Rows are checked and scored by the snapshot (`helix.stages.dense`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from helix.errors import EngineError, UsageError
from helix.types import F32, U64

FORMAT: Final = 1
"""Version of what an engine holds."""

PUBLIC: Final = ""
"""Reader of an item without an ACL; no principal has an empty name."""

ALWAYS: Final = (1 << 53) - 1
"""End of validity of an item without one, in seconds: the largest integer that JSON carries safely."""

KEYWORDS: Final = ("project_key", "type", "session_key", "speaker", "readers")
NUMBERS: Final = ("time", "t_valid", "valid_until", "accepted")
"""Fields that conditions name."""

FETCHED: Final = 10_000
"""Items of one search at most: OpenSearch returns no more."""

FIELDS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "digest", "session", "session_key", "project", "project_key")),
        *((name, pa.string()) for name in ("speaker", "type", "role", "title", "source", "near", "text")),
        *((name, pa.list_(pa.string())) for name in ("turns", "readers")),
        *((name, pa.int64()) for name in (*NUMBERS, "tokens")),
        *((name, pa.float32()) for name in ("salience", "confidence", "priority")),
    ]
)
"""An item, without its vector. Times are seconds, `accepted` microseconds; null: unknown."""


class AnyOf(NamedTuple):
    """A condition: the field has one of the values, or one of its values is among them."""

    field: str
    values: tuple[str, ...]


class Between(NamedTuple):
    """A condition: the field is a number in a closed range; None is open."""

    field: str
    least: int | None
    most: int | None


Condition = AnyOf | Between


class EngineState(NamedTuple):
    """The generation that was exported last, completely."""

    generation: str  # file name of its manifest
    number: int
    encoder: str  # fingerprint
    dim: int
    items: int
    text: bool  # with the texts of items
    format: int = FORMAT


class Engine(Protocol):
    """An open collection of an engine. Every method raises EngineError where the engine cannot be used."""

    @property
    def place(self) -> str:
        """The engine, its address and the collection, as a message shows them."""

    def read_state(self) -> EngineState | None:
        """Return what it holds; None where nothing was exported completely."""

    def write_state(self, state: EngineState) -> None:
        """Record what it holds."""

    def prepare(self, dim: int) -> None:
        """Make the collection unless it exists."""

    def clear(self) -> None:
        """Remove the collection, where it exists."""

    def list_digests(self) -> Iterator[pa.RecordBatch]:
        """Yield `id` and `digest` of every item it holds, in batches."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write items, in place of those with the same id.

        Args:
            batch: FIELDS, and `vector`, a list of float32 of one length.
        """

    def delete(self, ids: Sequence[str]) -> None:
        """Remove items; unknown ids are ignored."""

    def finish(self) -> None:
        """Make all that was written searchable, with an index where one helps."""

    def search(self, vector: F32, n: int, conditions: Sequence[Condition]) -> U64:
        """Return the keys of the n nearest items by inner product that meet all conditions: uint64[≤ n].

        Args:
            n: at most FETCHED.
        """

    def close(self) -> None:
        """Free it."""


def read_described(found: Any, place: str) -> EngineState | None:
    """Return a recorded state.

    Args:
        found: the mapping that was recorded; None for none.

    Raises:
        EngineError: it is of a newer release, or damaged.
    """
    if not found:
        return None
    try:
        state = EngineState(**found)
    except TypeError:
        raise EngineError(
            f"{place} holds an export that this release cannot read", "export again with --force"
        ) from None
    if state.format != FORMAT:
        raise EngineError(f"{place} holds an export of format {state.format}, not {FORMAT}", "update Helix")
    return state


def parse_keys(ids: Sequence[str]) -> U64:
    """Return the keys of item ids."""
    return np.array([int(one, 16) for one in ids], np.uint64)


@contextmanager
def convert_errors(place: str, kinds: tuple[type[BaseException], ...]) -> Iterator[None]:
    """Turn the errors of an engine's library into an EngineError.

    Args:
        kinds: the library's errors.
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, EngineError | UsageError):
            raise
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EngineError(f"{place} cannot be used: {line[:200]}", "start it, or check its address") from error
