"""Links from items to later items that change what they say.

A commit writes one index for each new segment: the links that its rows bring, to and from rows of any segment. Links
name items by key, so that merges and deletions leave them valid; a link to an item that is gone is not read. A link
holds for the contents that were compared: a later version of a turn is compared again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.checked_arrays import ArrayKind, map_arrays
from helix.snapshot.manifest import Index
from helix.types import F32, I64, U32, U64, AnyArray

KIND: Final = "changes"

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "old": ArrayKind(np.uint64, ("p",)),
    "new": ArrayKind(np.uint64, ("p",)),
    "content": ArrayKind(np.uint64, ("p",)),
    "certainty": ArrayKind(np.float32, ("p",)),
}


@dataclass(frozen=True, slots=True)
class ChangeIndex:
    """One index: q compared rows of a segment, and the p links they have."""

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


def mix_contents(old: U64, new: U64) -> U64:
    """Return one number for the contents of both ends of links: uint64[p]."""
    return old ^ ((new << np.uint64(1)) | (new >> np.uint64(63)))


def write_changes(folder: Path, rows: U32, links: KeyedLinks) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending: the compared rows, with or without links.
    """
    from helix.snapshot.segment.write import save_arrays

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    arrays = {"rows": rows, **links._asdict()}
    save_arrays(folder, {name: arrays[name].astype(kind.dtype) for name, kind in _ARRAYS.items()})


def open_changes(root: Path, index: Index) -> ChangeIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    return ChangeIndex(map_arrays(root / "indexes" / index.id / KIND, _ARRAYS, {}))


def select_usable(indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes of the last one's model: certainties of two models are not comparable."""
    own = [index for index in indexes if index.kind == KIND]
    return [index for index in own if index.params["model"] == own[-1].params["model"]]


def merge_changes(folder: Path, parts: Sequence[tuple[ChangeIndex, I64]]) -> U32:
    """Merge several indexes into one; each link once. Writes no files if no row is left.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for rows left out.

    Returns:
        uint32[q], ascending: its rows.
    """
    new = np.unique(np.concatenate([np.empty(0, np.int64), *(new for _, new in parts)]))
    rows = new[new >= 0].astype(np.uint32)
    if len(rows):
        write_changes(folder, rows, join_links([part for part, _ in parts]))
    return rows


def join_links(parts: Sequence[ChangeIndex]) -> KeyedLinks:
    """Return the links of several indexes, each once."""
    nothing = {name: np.empty(0, _ARRAYS[name].dtype) for name in KeyedLinks._fields}
    arrays = [np.concatenate([empty, *(part.arrays[name] for part in parts)]) for name, empty in nothing.items()]
    links = KeyedLinks(*arrays)
    order = np.lexsort((-links.certainty, links.content, links.new, links.old))
    ends = np.stack([links.old[order], links.new[order], links.content[order]])
    first = order[np.append(True, (ends[:, 1:] != ends[:, :-1]).any(axis=0))[: len(order)]]
    return KeyedLinks(*(array[first] for array in arrays))
