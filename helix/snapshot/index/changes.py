"""Links from items to later items that change what they say.

A commit writes one index for each new segment. It judges the segment's rows, and older items that they affect: it
states all links to these, from rows of any segment. Of two judgements of an item the later one counts. Links name items
by key, so that merges and deletions leave them valid; a link to an item that is gone is not read. A link holds for the
contents that were compared: a later version of a turn is compared again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from helix.snapshot.checked_arrays import ArrayKind, map_arrays
from helix.snapshot.manifest import Index
from helix.types import F32, I64, U32, U64, AnyArray

KIND: Final = "changes"

FORM: Final = 2
"""Version of the files; another one is not read, and a reindex compares again."""

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "judged": ArrayKind(np.uint64, ("k",)),
    "judged_in": ArrayKind(np.uint64, ("k",)),
    "old": ArrayKind(np.uint64, ("p",)),
    "new": ArrayKind(np.uint64, ("p",)),
    "content": ArrayKind(np.uint64, ("p",)),
    "certainty": ArrayKind(np.float32, ("p",)),
}


@dataclass(frozen=True, slots=True)
class ChangeIndex:
    """One index: q compared rows of a segment, k judged items, and the p links to these."""

    arrays: Mapping[str, AnyArray]

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of the segment."""
        return self.arrays["rows"]


class KeyedLinks(NamedTuple):
    """p links between items."""

    old: U64  # uint64[p], keys of the changed items
    new: U64  # uint64[p], keys of the items that change them
    content: U64  # uint64[p], of `mix_contents`
    certainty: F32  # float32[p], in [0, 1]


class Judgements(NamedTuple):
    """k items, and all links to them."""

    items: U64  # uint64[k], keys, each once
    generation: U64  # uint64[k], that of the commit that judged it
    links: KeyedLinks


def mix_contents(old: U64, new: U64) -> U64:
    """Return one number for the contents of both ends of links: uint64[p]."""
    return old ^ ((new << np.uint64(1)) | (new >> np.uint64(63)))


def write_changes(folder: Path, rows: U32, judged: Judgements) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending: the compared rows, with or without links.
    """
    from helix.snapshot.segment.write import save_arrays

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    arrays = {"rows": rows, "judged": judged.items, "judged_in": judged.generation, **judged.links._asdict()}
    save_arrays(folder, {name: arrays[name].astype(kind.dtype) for name, kind in _ARRAYS.items()})


def open_changes(root: Path, index: Index) -> ChangeIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    return ChangeIndex(map_arrays(root / "indexes" / index.id / KIND, _ARRAYS, {}))


def describe_model(model: str) -> dict[str, Any]:
    """Return the params of an index whose certainties are of a model, by its fingerprint."""
    return {"model": model, "form": FORM}


def select_usable(indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes of the last one's model: certainties of two models are not comparable."""
    own = [index for index in indexes if index.kind == KIND and index.params.get("form") == FORM]
    return [index for index in own if index.params["model"] == own[-1].params["model"]]


def merge_changes(folder: Path, parts: Sequence[tuple[ChangeIndex, I64]]) -> U32:
    """Merge several indexes into one; each item with its last judgement. Writes no files if no row is left.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for rows left out.

    Returns:
        uint32[q], ascending: its rows.
    """
    new = np.unique(np.concatenate([np.empty(0, np.int64), *(new for _, new in parts)]))
    rows = new[new >= 0].astype(np.uint32)
    if len(rows):
        write_changes(folder, rows, join_judgements([part for part, _ in parts]))
    return rows


def join_judgements(parts: Sequence[ChangeIndex]) -> Judgements:
    """Return the last judgement of each item of several indexes, by key, with the links it states."""
    items, generation = _join(parts, "judged"), _join(parts, "judged_in")
    part = np.repeat(np.arange(len(parts)), [len(one.arrays["judged"]) for one in parts])
    order = np.lexsort((part, generation, items))
    last = order[np.append(items[order][1:] != items[order][:-1], True)[: len(order)]]
    links = KeyedLinks(*[_join(parts, name) for name in KeyedLinks._fields])
    stated_in = np.repeat(np.arange(len(parts)), [len(one.arrays["new"]) for one in parts])
    at = np.searchsorted(items[last], links.new)
    here = np.flatnonzero(part[last][at] == stated_in)
    old, new, content, certainty = links.old[here], links.new[here], links.content[here], links.certainty[here]
    return Judgements(items[last], generation[last], KeyedLinks(old, new, content, certainty))


def _join(parts: Sequence[ChangeIndex], name: str) -> AnyArray:
    return np.concatenate([np.empty(0, _ARRAYS[name].dtype), *(part.arrays[name] for part in parts)])
