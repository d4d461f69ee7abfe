"""The decisions of a view at a moment: one entry a topic, newest first, and what was rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np

from helix.enrich.facts.slots import make_key
from helix.recipes.common import format_time
from helix.sdk.browse import format_seconds
from helix.sdk.decisions.entries import EntryWriter
from helix.sdk.decisions.plain_words import MAX_READ, find_decision, find_rejections
from helix.sdk.decisions.rejections import list_rejections
from helix.sdk.decisions.topics import TopicBoard
from helix.snapshot.reader.snapshot import Snapshot
from helix.text.tokenize import tokenise
from helix.types import I64, ROLES, TYPES
from helix.util.sanitise import sanitise_name

SHORT: Final = 3
"""Replaced values of an entry without the history."""

WORDED: Final = 0.5
"""Certainty of a decision that only plain words state."""

_SPARE: Final = 2  # times as many replaced facts are written as are shown
_PAGE: Final = 64  # candidates whose items are read at once


def answer_decisions(
    snap: Snapshot, project: str | None, as_of: datetime | None, *, history: bool, limit: int
) -> dict[str, Any]:
    """Return the answer of every surface; see `list_decisions`.

    Returns:
        `project`, `as_of` (ISO 8601, UTC, None: now), the lists, and `note`, why both are empty and a remedy.
    """
    at = int((as_of or datetime.now(UTC)).timestamp())
    found = list_decisions(snap, at, project=project, history=history, limit=limit)
    note = None if found["decisions"] or found["rejected"] else _explain_nothing(snap, at, project, as_of)
    return {"project": project, "as_of": format_time(as_of), **found, "note": note}


def _explain_nothing(snap: Snapshot, at: int, project: str | None, as_of: datetime | None) -> str:
    """Return why nothing is listed, and a remedy."""
    of = f" of {sanitise_name(project)}" if project else ""
    rows = np.flatnonzero(TopicBoard(snap, at, project).stated)
    if not len(rows) and as_of:
        return f"nothing{of} was said by {as_of:%Y-%m-%d %H:%M}: give a later as_of, or leave it out"
    if not len(rows):
        return "the store has nothing to see: 'helix ingest PATH' adds sessions and notes"
    return f"no decision is stated in {len(rows):,} items{of}: 'helix recall --type decision' searches for others"


_EVER: Final = int(np.iinfo(np.int64).max)


class Candidate(NamedTuple):
    """A possible entry: a topic by facts, or a row without one (topic −1)."""

    since: int  # seconds
    row: int
    topic: int


def list_decisions(
    snap: Snapshot, at: int, *, project: str | None = None, history: bool = False, limit: int = 50
) -> dict[str, Any]:
    """List what holds at a moment by topic, newest first, and what was rejected, newest first.

    Args:
        snap: as the caller may see it.
        at: seconds; only what was said by then counts.
        project: the only project; None: all.
        history: with everything that an entry replaced; otherwise at most `SHORT`.
        limit: entries of each list.

    Returns:
        `decisions`, `rejected`, and `more`, whether the limit leaves entries out.
    """
    board = TopicBoard(snap, at, project)
    writer = EntryWriter(board)
    decisions, more = _take(EntryLister(writer, None if history else SHORT).list_entries(), limit)
    rejected, also = _take(list_rejections(writer), limit)
    return {"decisions": decisions, "rejected": rejected, "more": more or also}


def _take(entries: Iterator[dict[str, Any]], limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the first entries, and whether there are others."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        if len(found) == limit:
            return found, True
        found.append(entry)
    return found, False


class EntryLister:
    """Entries of one board, made while they are taken.

    Args:
        most: replaced values of an entry; None: all.
    """

    def __init__(self, writer: EntryWriter, most: int | None) -> None:
        self.writer, self.board, self.most = writer, writer.board, most
        self.columns = self.board.snap.columns
        self.set_rows = frozenset(self.board.ends.tolist())
        self._replaced: dict[int, list[int]] = {}  # facts that a topic replaced

    def list_entries(self, candidates: Sequence[Candidate] | None = None) -> Iterator[dict[str, Any]]:
        """Yield an entry for each topic that holds, newest first; of some candidates, or of all."""
        candidates = self.find_candidates() if candidates is None else candidates
        said = set[str]()  # sentences of entries without a topic, each shown once
        for start in range(0, len(candidates), _PAGE):
            page = candidates[start : start + _PAGE]
            self._read_page(page)
            for one in page:
                entry = self._write_topic(one.topic) if one.topic >= 0 else self._write_row(one.row)
                if entry is None or (entry["topic"] is None and make_key(entry["text"]) in said):
                    continue
                said.add(make_key(entry["text"]))
                yield entry

    def find_candidates(self) -> list[Candidate]:
        """List the possible entries, newest first."""
        board, known = self.board, self.board.facts.columns
        first = board.topics.first
        ends = board.ends
        ends = ends[~np.isin(ends, board.topic_rows)]
        plain = self._find_plain_rows()
        rows = np.concatenate([known.row[first], ends, plain])
        since = np.concatenate([known.t_valid[first], board.said_at[ends], board.said_at[plain]])
        topic = np.concatenate([np.arange(len(first)), np.full(len(ends) + len(plain), -1)])
        order = np.lexsort((topic, -rows, -since))
        columns = [column[order].tolist() for column in (since, rows, topic)]
        return [Candidate(*one) for one in zip(*columns, strict=True)]

    def _find_plain_rows(self) -> I64:
        """Return the newest rows of the type decision that neither facts nor links are about."""
        board = self.board
        free = board.stated & (self.columns.type == TYPES.index("decision"))
        free[board.facts.columns.row] = False
        free[board.chains.old] = False
        free[board.ends] = False
        return board.choose_newest(np.flatnonzero(free), MAX_READ)

    def _read_page(self, page: Sequence[Candidate]) -> None:
        """Read what entries of candidates need, all at once."""
        board, known = self.board, self.board.facts.columns
        topics = [one.topic for one in page if one.topic >= 0]
        self._replaced |= {topic: self._find_replaced(topic) for topic in topics}
        facts = board.topics.first[topics].tolist() + [fact for topic in topics for fact in self._replaced[topic]]
        self.writer.read_facts(facts)
        rows = {one.row for one in page}.union(known.row[facts].tolist())
        links = [link for row in rows for link in board.find_earlier(row).tolist()]
        self.writer.read_items([*rows, *board.chains.old[links].tolist(), *board.chains.next[links].tolist()])

    def _find_replaced(self, topic: int) -> list[int]:
        """Return the facts that a topic replaced, newest first: with some to spare, since two may become one entry."""
        return self.board.find_replaced(topic)[: self.most and _SPARE * self.most]

    def _write_topic(self, topic: int) -> dict[str, Any] | None:
        """Return the entry of a topic by facts; None if a later item changes it without such a fact."""
        board, writer, known = self.board, self.writer, self.board.facts.columns
        if self._is_changed(topic):
            return None
        first = int(board.topics.first[topic])
        replaced = self._write_history(topic)
        certainty = float(known.confidence[board.topics.last[topic]])
        items = {one["item"] for one in replaced}
        for row in board.rows_of(topic):
            for link in board.find_earlier(row).tolist():
                if self._choose_topic(row, int(board.chains.old[link])) == topic:
                    certainty = max(certainty, float(board.chains.certainty[link]))
                    replaced += [one for one in self._write_changed(link) if one["item"] not in items]
        return self._complete(writer.name_topic(first), writer.write_fact(first), replaced, certainty)

    def _write_row(self, row: int) -> dict[str, Any] | None:
        """Return the entry of an item without a topic of its own: the end of a chain, or plain words."""
        links = self.board.find_earlier(row).tolist()
        old = [int(self.board.chains.old[link]) for link in links]
        if row not in self.set_rows:
            language = self.writer.language(row)
            worded = find_decision(self.writer.text(row), ROLES[self.columns.role[row]], language)
            terms = frozenset(tokenise(worded, language))
            return self._complete(None, self._write_whole(row, terms), [], WORDED) if terms else None
        topics = [topic for one in old for topic in self._list_changed_topics(one, row)]
        names = [name for one in topics if (name := self.writer.name_topic(int(self.board.topics.first[one])))]
        _, later, certainties = self.board.snap.changes.find_later(np.array([row]), _EVER)  # past a view's moment
        terms = frozenset[str]().union(*map(self._list_terms_of_row, old or later.tolist()))
        written = self._write_whole(row, terms)
        if find_rejections(written["text"], ROLES[self.columns.role[row]]):
            return None  # it is listed as rejected
        replaced = [one for link in links for one in self._write_changed(link)]
        stated = {one["item"] for one in replaced if one["value"]}  # a value says it better than its sentence
        replaced = [one for one in replaced if one["value"] or one["item"] not in stated]
        certainty = float(max(self.board.chains.certainty[links] if links else certainties))
        return self._complete(names[0] if names else None, written, replaced, certainty)

    def _write_whole(self, row: int, terms: frozenset[str]) -> dict[str, Any]:
        return {**self.writer.write_item(row, terms), "answers": self.writer.write_answered(row, terms)}

    def _complete(
        self, topic: str | None, entry: dict[str, Any], replaced: list[dict[str, Any]], certainty: float
    ) -> dict[str, Any]:
        """Return a whole entry; replaced ones in a row with one value become one."""
        merged: list[dict[str, Any]] = []
        # A closing without a date is what the entry itself replaced.
        for one in sorted(replaced, key=lambda one: (one["since"] is None, one["since"] or ""), reverse=True):
            if merged and one["value"] and one["value"] == merged[-1]["value"]:
                merged[-1] = {**one, "until": merged[-1]["until"]}
            else:
                merged.append(one)
        shown = [{**one, "text": one["text"]()} if callable(one["text"]) else one for one in merged[: self.most]]
        return {"topic": topic, "answers": None, **entry, "certainty": round(certainty, 4), "replaced": shown}

    # ------------------------------------------------------------ changes by links

    def _is_changed(self, topic: int) -> bool:
        """Return whether the last row that states a topic is changed by a later one that has no fact of its slots."""
        row = self.board.get_last_row(topic)
        end = self.board.find_end(row)
        return end >= 0 and topic in self._list_changed_topics(row, end)

    def _list_changed_topics(self, row: int, end: int) -> list[int]:
        """Return the topics of a row that the end of its chain changes: of several, those most like it."""
        board = self.board
        if board.share_slot(row, end):  # the facts already say which of its topics changed
            return []
        topics = [topic for topic in board.topics_of(row) if board.find_end(board.get_last_row(topic)) == end]
        if len(topics) < 2:
            return topics
        words = self._list_terms_of_row(end)
        likeness = [len(words & self.writer.list_terms(int(board.topics.first[topic]))) for topic in topics]
        return [topic for topic, score in zip(topics, likeness, strict=True) if score == max(likeness)]

    def _choose_topic(self, row: int, old: int) -> int:
        """Return the topic of a row that a link from an older one is about."""
        topics = self.board.topics_of(row)
        words = self._list_terms_of_row(old)
        return max(topics, key=lambda topic: len(words & self.writer.list_terms(int(self.board.topics.first[topic]))))

    def _list_terms_of_row(self, row: int) -> frozenset[str]:
        return frozenset(tokenise(self.writer.text(row), self.writer.language(row)))

    def _write_changed(self, link: int) -> list[dict[str, Any]]:
        """Return the replaced entries of a link: the topics of its old row with theirs, else a sentence of it."""
        chains = self.board.chains
        old, following = int(chains.old[link]), int(chains.next[link])
        until = format_seconds(self.board.said_at[following])
        found = list[dict[str, Any]]()
        for topic in self._list_changed_topics(old, int(chains.end[link])):
            found.append({**self.writer.write_fact(int(self.board.topics.first[topic])), "until": until})
            found += self._write_history(topic)
        return found or [{**self.writer.write_item(old, self._list_terms_of_row(following), 0), "until": until}]

    def _write_history(self, topic: int) -> list[dict[str, Any]]:
        """Return the replaced entries of a topic by facts, newest first."""
        if topic not in self._replaced:
            self._replaced[topic] = self._find_replaced(topic)
        return [self._write_replaced(fact) for fact in self._replaced[topic]]

    def _write_replaced(self, fact: int) -> dict[str, Any]:
        """Return the replaced entry of a fact; a closing names only what it ends.

        Its text is a function, since most replaced entries of a long history are not shown.
        """
        facts = self.board.facts
        if facts.columns.closes[fact]:
            value, end = self.writer.fact(fact)["object"], format_seconds(facts.columns.t_valid[fact])
            nothing = dict.fromkeys(("text", "since", "by", "item", "session"))
            return {"value": value, **nothing, "turns": [], "until": end}
        return {**self.writer.defer_fact(fact), "until": format_seconds(facts.ends[fact])}
