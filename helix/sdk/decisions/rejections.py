"""Rejections, by facts and in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from helix.enrich.facts.slots import make_key
from helix.sdk.browse import format_seconds
from helix.sdk.decisions.entries import EntryWriter
from helix.sdk.decisions.plain_words import MAX_READ, REJECTING_TERMS, WordedRejection, find_rejections, read_reason
from helix.sdk.decisions.topics import TopicBoard
from helix.snapshot.segment.batch import hash_parts
from helix.types import ROLES


def list_rejections(writer: EntryWriter) -> Iterator[dict[str, Any]]:
    """Yield what was rejected and not adopted later, newest first: of each thing the first with a reason."""
    first: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    for since, entry in sorted([*_list_facts(writer), *_list_plain(writer)], key=lambda one: (one[0], one[1]["item"])):
        name = str(entry["project"]), make_key(str(entry["what"]))
        is_better = name not in first or (entry["reason"] and not first[name][1]["reason"])
        if is_better and not _is_adopted(writer.board, name[1], since):
            first[name] = since, entry
    for _, entry in sorted(first.values(), key=lambda one: (-one[0], one[1]["item"])):
        yield entry


def _list_facts(writer: EntryWriter) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (seconds, entry) of facts that reject something and hold."""
    facts, known = writer.board.facts, writer.board.facts.columns
    for fact in np.flatnonzero(facts.holds & facts.rejects & ~np.isin(known.row, writer.board.chains.old)).tolist():
        what, text = str(writer.fact(fact)["object"]), str(writer.write_fact(fact)["text"])
        said = WordedRejection(what, read_reason(text, what), text)
        yield int(known.t_valid[fact]), _write_rejection(writer, int(known.row[fact]), said, int(known.t_valid[fact]))


def _list_plain(writer: EntryWriter) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (seconds, entry) of rejections in plain words, of which no fact says so."""
    board, roles = writer.board, writer.board.snap.columns.role
    rows = np.unique(np.concatenate([board.rows_holding(terms) for terms in REJECTING_TERMS]))
    taken = np.concatenate([board.facts.columns.row[board.facts.rejects], board.chains.old])
    rows = board.choose_newest(rows[~np.isin(rows, taken)], MAX_READ)
    writer.read_items(rows.tolist())
    for row in rows.tolist():
        for said in find_rejections(writer.text(row), ROLES[roles[row]]):
            yield int(board.said_at[row]), _write_rejection(writer, row, said, int(board.said_at[row]))


def _write_rejection(writer: EntryWriter, row: int, said: WordedRejection, seconds: int) -> dict[str, Any]:
    entry = {"what": said.what, "reason": said.reason or None, "text": said.sentence}
    return {**entry, "date": format_seconds(seconds), **writer.cite(row)}


def _is_adopted(board: TopicBoard, key: str, since: int) -> bool:
    """Return whether a fact that holds adopts a thing after a moment."""
    facts, adopted = board.facts, np.uint64(int(hash_parts("object", key), 16))
    later = facts.holds & ~facts.rejects & (facts.columns.object == adopted) & (facts.columns.t_valid > since)
    return bool(later.any())
