"""Comparing new rows with the rows of their project for changes, from the segments' arrays; no text is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helix.enrich.changes import TurnRows, link_turns
from helix.ranking.trees import fingerprint
from helix.snapshot import paths
from helix.snapshot.index.changes import KIND, Judgements, KeyedLinks, describe_model, mix_contents, write_changes
from helix.snapshot.manifest import Index, Segment, describe_tree, make_id
from helix.snapshot.segment.arrays import flatten_rows
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.open import OpenSegment, open_segment
from helix.types import F32, I64, U64, AnyArray, Bool
from helix.util.undated import EARLIEST, SHIFT

ARRAYS: Final = ("vectors.i8", "vectors.scale", "order.indptr", "order.term", "claims", "alters", "former")
"""Arrays of a segment that a comparison reads."""

COMPARED: Final = 20_000
"""Newest turns of a project that new ones are compared with: a comparison must not grow with the store."""


class _Items(NamedTuple):
    """Keys and contents of n turns."""

    key: U64
    content: U64


class _Scope(NamedTuple):
    """Rows of one project and one ACL: n of them, and which of them are new."""

    segment: I64  # position in the segments
    row: I64  # within its segment
    new: Bool


def index_changes(
    root: Path, segments: Sequence[Segment], alive: Sequence[Bool], at: int, rows: I64, dim: int, generation: int
) -> Index:
    """Compare rows of a segment with its project's rows; write the index of their links, durably.

    Args:
        alive: bool[rows] of each segment.
        at: position of the segment.
        rows: int64[q], ascending: its rows to compare.
        dim: dimensions of a vector.
        generation: number of the generation that the commit writes.
    """
    opened = [open_segment(root, segment, ARRAYS, dim=dim) for segment in segments]
    found = find_changes(opened, alive, at, rows, generation)
    identity = make_id()
    target = root / "indexes" / identity
    with paths.build_folder(target) as folder:
        write_changes(folder / KIND, rows.astype(np.uint32), found)
    params = describe_model(fingerprint("helix.enrich", "changes"))
    return Index(identity, KIND, (segments[at].id,), describe_tree(root, target), params)


def find_changes(
    segments: Sequence[OpenSegment], alive: Sequence[Bool], at: int, rows: I64, generation: int
) -> Judgements:
    """Judge the live rows of any segment that rows of one affect: find all links to them."""
    fresh = np.zeros(segments[at].rows, bool)
    fresh[rows] = True
    none = np.empty(0, np.uint64)
    parts, judged = [KeyedLinks(none, none, none, np.empty(0, np.float32))], [none]
    for scope in _list_scopes(segments, alive, at, fresh):
        turns, items, new = _read_turns(segments, scope)
        affected, i, j, certainty = link_turns(turns, new)
        judged.append(items.key[affected | new])
        content = mix_contents(items.content[i], items.content[j])
        parts.append(KeyedLinks(items.key[i], items.key[j], content, certainty))
    keys = np.concatenate(judged)
    links = KeyedLinks(*map(np.concatenate, zip(*parts, strict=True)))
    return Judgements(keys, np.full(len(keys), generation, np.uint64), links)


def read_scopes(segments: Sequence[OpenSegment], alive: Sequence[Bool]) -> Iterator[tuple[TurnRows, U64]]:
    """Yield the turns of each project and ACL, with their keys uint64[n]."""
    for at in range(len(segments)):
        for scope in _list_scopes(segments, alive, at, alive[at]):
            turns, items, _ = _read_turns(segments, scope)
            yield turns, items.key


def _list_scopes(segments: Sequence[OpenSegment], alive: Sequence[Bool], at: int, fresh: Bool) -> Iterator[_Scope]:
    """Yield the rows of each project and ACL that a new row is in."""
    codes = [_code_scopes(segment.columns) for segment in segments]
    wanted = {codes[at][1][code] for code in np.unique(codes[at][0][fresh]).tolist()}
    for name in sorted(wanted):
        which, row, new = [], [], []
        for i, (segment, live, (code, names)) in enumerate(zip(segments, alive, codes, strict=True)):
            if name not in names:
                continue
            mine = np.flatnonzero(live & (code == names.index(name)))
            time = _read_said(segment)[mine]
            recent = mine[np.argsort(-time, kind="stable")[:COMPARED]]
            if i == at:
                recent = np.union1d(recent, mine[fresh[mine]])
            which.append(np.full(len(recent), i, np.int64))
            row.append(recent)
            new.append(fresh[recent] if i == at else np.zeros(len(recent), bool))
        yield _Scope(np.concatenate(which), np.concatenate(row), np.concatenate(new))


def _code_scopes(columns: pa.Table) -> tuple[AnyArray, list[str]]:
    """Return the code of each row's project and ACL, and their names."""
    project = columns["project"].cast(pa.string()).fill_null("")
    names = pc.binary_join_element_wise(project, pc.binary_join(columns["acl"], ","), "\0")
    coded = names.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def _read_said(segment: OpenSegment) -> I64:
    """Return when each row was said, in seconds; the place of an undated one."""
    time = segment.column("time")
    return np.where(time == NO_TIME, segment.column("t_valid") - SHIFT, time)


def _read_turns(segments: Sequence[OpenSegment], scope: _Scope) -> tuple[TurnRows, _Items, Bool]:
    """Read a scope's rows in the order of time: (turns, the item of each, which are new)."""

    def column(read: Any, dtype: Any) -> AnyArray:
        out = np.empty(len(scope.row), dtype)
        for i in np.unique(scope.segment).tolist():
            here = np.flatnonzero(scope.segment == i)
            out[here] = read(segments[i])[scope.row[here]]
        return out

    said, key = column(_read_said, np.int64), column(lambda one: one.column("key"), np.uint64)
    session = np.unique(column(lambda one: one.column("session"), np.uint64), return_inverse=True)[1]
    place = column(lambda one: one.column("ord"), np.int64)
    order = np.lexsort((key, place, session, said))
    order = order if len(order) <= COMPARED else np.union1d(order[-COMPARED:], np.flatnonzero(scope.new))
    order = order[np.lexsort((key[order], place[order], session[order], said[order]))]
    which, row = scope.segment[order], scope.row[order]
    indptr, terms = _read_terms(segments, which, row)
    turns = TurnRows(
        vectors=_read_vectors(segments, which, row),
        previous=_find_previous(session[order], place[order]),
        indptr=indptr,
        terms=terms,
        length=column(lambda one: one.column("length"), np.float32)[order],
        claims=_read_rows(segments, which, row, "claims"),
        alters=_read_rows(segments, which, row, "alters"),
        former=_read_rows(segments, which, row, "former"),
        time=_date_undated(said[order]),
        role=column(lambda one: one.column("role"), np.uint8)[order],
        speaker=_code_speakers(segments, which, row),
        session=session[order],
    )
    content = column(lambda one: one.column("content"), np.uint64)
    return turns, _Items(key[order], content[order]), scope.new[order]


def _date_undated(said: I64) -> I64:
    """Return times, undated rows at that of the first dated one: how long before it they were said is unknown."""
    dated = said >= EARLIEST
    return np.where(dated, said, said[dated].min()) if dated.any() else said


def _read_rows(segments: Sequence[OpenSegment], which: I64, row: I64, name: str) -> AnyArray:
    """Gather rows of an array of the segments."""
    first = segments[int(which[0])][name]
    out = np.empty((len(row), *first.shape[1:]), first.dtype)
    for i in np.unique(which).tolist():
        here = np.flatnonzero(which == i)
        out[here] = segments[i][name][row[here]]
    return out


def _read_vectors(segments: Sequence[OpenSegment], which: I64, row: I64) -> F32:
    scale = _read_rows(segments, which, row, "vectors.scale")
    return np.asarray(_read_rows(segments, which, row, "vectors.i8").astype(np.float32) * scale[:, None], np.float32)


def _read_terms(segments: Sequence[OpenSegment], which: I64, row: I64) -> tuple[I64, AnyArray]:
    """Return the distinct terms of rows, ascending: (offsets int64[n + 1], short ids)."""
    owner, terms = [np.empty(0, np.int64)], [np.empty(0, np.uint32)]
    for i in np.unique(which).tolist():
        here = np.flatnonzero(which == i)
        indptr, flat = flatten_rows(segments[i]["order.indptr"], row[here])
        owner.append(here.repeat(np.diff(indptr)))
        terms.append(segments[i]["order.term"][flat])
    packed = np.unique((np.concatenate(owner) << 32) | np.concatenate(terms))
    counts = np.bincount(packed >> 32, minlength=len(row))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), (packed & 0xFFFFFFFF).astype(np.uint32)


def _code_speakers(segments: Sequence[OpenSegment], which: I64, row: I64) -> I64:
    """Return a code of each row's speaker, −1 for none."""
    out, known = np.full(len(row), -1, np.int64), dict[str, int]()
    for i in np.unique(which).tolist():
        here = np.flatnonzero(which == i)
        coded = segments[i].columns["speaker"].combine_chunks().take(pa.array(row[here]))
        coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
        names = [known.setdefault(name, len(known)) for name in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        out[here] = np.append(np.array(names, np.int64), -1)[codes]
    return out


def _find_previous(session: I64, place: I64) -> I64:
    """Return the turn before each turn in its session, −1 at its start."""
    reading = np.lexsort((place, session))
    joined = session[reading][1:] == session[reading][:-1]
    previous = np.full(len(session), -1, np.int64)
    previous[reading[1:][joined]] = reading[:-1][joined]
    return previous
