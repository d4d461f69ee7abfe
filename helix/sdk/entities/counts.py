"""Counts of the entities of a view: items, times, and how unevenly the items lie over the sessions."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.reader.entity_names import EntityNames
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.text.shapes import MAX_MENTION
from helix.types import F64, I64, U64, AnyArray, Bool

NEVER: Final = int(np.iinfo(np.int64).max)
"""The first time of an entity of which no item has a time."""

_AT_ONCE: Final = 1 << 17  # rows that are counted at once: their arrays stay in the processor's cache


class Counts(NamedTuple):
    """Counts of each of e entities."""

    items: I64
    first: I64  # seconds; NEVER if no item has a time
    last: I64  # seconds; NO_TIME if no item has one
    again: F64  # items after the first of each session
    spread: F64  # nats: the sum over its sessions s, of which n items name it, of (n − 1)·ln(n / items of s)


def count_named(snap: Snapshot, table: EntityNames, mask: Bool, sizes: F64) -> Counts:
    """Count the rows of a mask that name each entity; `sizes` counts those of each session."""
    size = len(table.key)
    none = np.zeros(size, np.int64), np.full(size, NEVER), np.full(size, NO_TIME)
    counts = Counts(*none, np.zeros(size), np.zeros(size))
    for start, segment in snap.row_map.by_segment():
        indptr, rows = segment["mentioned.indptr"], segment["mentioned.rows"]
        numbers = table.find(segment["mentioned.key"])
        cuts = indptr.searchsorted(np.arange(_AT_ONCE, len(rows), _AT_ONCE))
        for low, high in pairwise(list_distinct(np.concatenate([[0], cuts, [len(numbers)]])).tolist()):
            row = rows[indptr[low] : indptr[high]].astype(np.int64) + start
            owner = np.repeat(numbers[low:high], np.diff(indptr[low : high + 1]))
            keep = mask[row]
            if not keep.all():
                row, owner = row[keep], owner[keep]
            add_counts(counts, owner, snap.columns.session[row], snap.columns.time[row], sizes)
    return counts


def list_distinct(values: I64) -> I64:
    """Return the different values, ascending. Sorting a million takes a quarter of the time of `np.unique`."""
    ordered = np.sort(values)
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    return np.asarray(ordered[is_first], np.int64)


def count_sizes(snap: Snapshot, mask: Bool) -> F64:
    """Count the rows of a mask in each session: float64[sessions]."""
    return np.bincount(snap.columns.session[mask], minlength=len(snap.sessions)).astype(np.float64)


def add_counts(counts: Counts, owner: I64, session: AnyArray, time: I64, sizes: F64) -> None:
    """Add rows that name entities, in place.

    Rows of a session lie together, so a run of one session is nearly always all of it in a segment.

    Args:
        owner: the entity of each of m rows, in runs.
        session, time: of each of them.
        sizes: rows of each session.
    """
    if not len(owner):
        return
    is_first = np.append(True, owner[1:] != owner[:-1])
    starts = np.flatnonzero(is_first)
    numbers = owner[starts]
    counts.items[numbers] += np.diff(starts, append=len(owner))
    counts.last[numbers] = np.maximum(counts.last[numbers], np.maximum.reduceat(time, starts))
    began = np.where(time == NO_TIME, NEVER, time)
    counts.first[numbers] = np.minimum(counts.first[numbers], np.minimum.reduceat(began, starts))
    is_first[1:] |= session[1:] != session[:-1]
    runs = np.flatnonzero(is_first)
    length = np.diff(runs, append=len(owner)).astype(np.float64)
    again = length - 1
    place = runs.searchsorted(starts)
    counts.again[numbers] += np.add.reduceat(again, place)
    counts.spread[numbers] += np.add.reduceat(again * np.log(length / sizes[session[runs]]), place)


def count_turns(snap: Snapshot, table: EntityNames, mask: Bool) -> I64:
    """Count the rows of a mask that each person speaks: int64[e]."""
    speaker = snap.columns.speaker[mask]
    counted = np.bincount(speaker[speaker >= 0], minlength=len(snap.speakers))
    codes = np.flatnonzero(counted)
    found = table.find(np.array([_hash_speaker(snap.speakers[code]) for code in codes.tolist()], np.uint64))
    out = np.zeros(len(table.key), np.int64)
    np.add.at(out, found[found >= 0], counted[codes[found >= 0]])
    return out


def _hash_speaker(name: str) -> int:
    """Return the hash of a speaker as a person; see `helix.text.entities.find_entities`."""
    return int(hash_parts("person", " ".join(name.split())[:MAX_MENTION].lower()), 16)


def count_facts(snap: Snapshot, table: EntityNames, mask: Bool, same: I64) -> I64:
    """Count the facts, stated by the rows of a mask, about each entity: int64[e].

    Args:
        same: the entity that counts for each: int64[e].
    """
    known = snap.facts.columns
    stated = mask[known.row]
    one, other = (_stand_for(table, column[stated], same) for column in (known.subject_entity, known.object_entity))
    both = np.concatenate([one, other[other != one]])
    return np.bincount(both[both >= 0], minlength=len(same))


def _stand_for(table: EntityNames, keys: U64, same: I64) -> I64:
    """Return the entity that counts for each of some keys, −1 for none."""
    found = table.find(keys)
    if not len(same):
        return found
    return np.where(found < 0, -1, same[found])
