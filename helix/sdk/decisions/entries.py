"""Entries of a list of decisions, as plain data: a sentence, since when, by whom, and what it replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from helix.sdk.browse import format_seconds
from helix.sdk.decisions.plain_words import LONGEST, WORDS, list_words
from helix.sdk.decisions.topics import TopicBoard
from helix.stages.features.excerpt import split_units
from helix.text.tokenize import tokenise
from helix.types import I64, ROLES, TYPES

PASSAGE: Final = 240
"""Characters of a passage of an item without a fact."""

_FEW_TERMS: Final = 4  # of an answer that says nothing without its question
_GENERIC: Final = list_words("generic")
_NAMES: Final[dict[str, str]] = WORDS["topics"]


class EntryWriter:
    """Writes entries from the topics of a board; it reads each item once."""

    def __init__(self, board: TopicBoard) -> None:
        self.board, self.snap = board, board.snap
        self._items: dict[int, dict[str, Any]] = {}
        self._words: dict[int, dict[str, Any]] = {}

    # ------------------------------------------------------------ reading

    def read_items(self, rows: Iterable[int]) -> None:
        """Read the items of rows, all at once."""
        if missing := sorted({row for row in rows if row not in self._items}):
            self._items.update(zip(missing, self.snap.text(_as_rows(missing)), strict=True))

    def read_facts(self, facts: Iterable[int]) -> None:
        """Read facts in words, all at once."""
        if missing := sorted({fact for fact in facts if fact not in self._words}):
            texts = self.snap.facts.texts(self.board.facts.number[_as_rows(missing)])
            self._words.update(zip(missing, texts, strict=True))

    def text(self, row: int) -> str:
        """Return the text of an item."""
        self.read_items([row])
        return str(self._items[row]["text"])

    def language(self, row: int) -> str:
        """Return the language of an item."""
        return self.snap.lexical.languages_of(_as_rows([row]))[0]

    def fact(self, fact: int) -> dict[str, Any]:
        """Return a fact in words; see `Facts.texts`."""
        self.read_facts([fact])
        return self._words[fact]

    # ------------------------------------------------------------ parts of an entry

    def cite(self, row: int) -> dict[str, Any]:
        """Return who said an item, and where."""
        self.read_items([row])
        item, columns = self._items[row], self.snap.columns
        return {
            "by": item["speaker"] or ROLES[columns.role[row]],
            "item": item["id"],
            "session": item["session"],
            "turns": list(item["turns"]),
            "project": item["project"],
            "type": TYPES[columns.type[row]],
        }

    def name_topic(self, fact: int) -> str | None:
        """Return the name of a fact's topic, as its item writes it; None if only its sentence can say it."""
        words = self.fact(fact)
        subject = "" if words["subject"].lower() in _GENERIC else words["subject"]
        template = _NAMES.get(words["relation"], "{subject}")
        fields = {"subject": subject, "qualifier": words["qualifier"]}
        needed = re.findall(r"{(\w+)}", template)
        if not needed or not all(fields[name] for name in needed):
            return None
        text = self.text(int(self.board.facts.columns.row[fact]))
        name = template.format(**{key: _find_as_written(value, text) for key, value in fields.items()})
        if words["qualifier"] and "qualifier" not in needed:
            name += f" for {_find_as_written(words['qualifier'], text)}"
        return name

    def list_terms(self, fact: int) -> frozenset[str]:
        """Return the terms of a fact."""
        words = self.fact(fact)
        return frozenset(tokenise(f"{words['subject']} {words['qualifier']} {words['object']}"))

    def choose_passage(self, row: int, terms: frozenset[str], size: int = LONGEST) -> str:
        """Return the sentences in a row of an item that have most of some terms; of equals the first.

        Args:
            size: characters; 0: one sentence.
        """
        units = self._split_item(row)
        found = [frozenset(tokenise(unit, self.language(row))) for unit in units]
        best, most = "", -1
        for start, unit in enumerate(units):
            passage, covered, end = unit, found[start], start + 1
            while end < len(units) and len(passage) + len(units[end]) < size:
                passage, covered, end = f"{passage} {units[end]}", covered | found[end], end + 1
            if len(terms & covered) > most:
                best, most = passage, len(terms & covered)
        return best

    def _split_item(self, row: int) -> list[str]:
        """Return the sentences or lines of an item, each on one line."""
        text = self.text(row)
        ends = split_units(text, LONGEST)
        units = [" ".join(text[start:end].split()) for start, end in zip([0, *ends], ends, strict=False)]
        return [unit for unit in units if any(map(str.isalnum, unit))] or [" ".join(text.split())[:LONGEST]]

    # ------------------------------------------------------------ entries

    def write_fact(self, fact: int) -> dict[str, Any]:
        """Return the part of an entry that a fact fills."""
        entry = self.defer_fact(fact)
        return {**entry, "text": entry["text"]()}

    def defer_fact(self, fact: int) -> dict[str, Any]:
        """Return the part of an entry that a fact fills; its text is a function that chooses the passage."""
        known, words = self.board.facts.columns, self.fact(fact)
        row = int(known.row[fact])
        return {
            "value": words["object"] or None,
            "text": lambda: self.choose_passage(row, self.list_terms(fact), 0),
            "since": format_seconds(int(known.t_valid[fact])),
            **self.cite(row),
        }

    def write_item(self, row: int, terms: frozenset[str], size: int = PASSAGE) -> dict[str, Any]:
        """Return the part of an entry that an item without a fact fills.

        Args:
            terms: what its passage should be about.
            size: characters of the passage; 0: one sentence.
        """
        text = self.choose_passage(row, terms, size)
        return {"value": None, "text": text, "since": format_seconds(int(self.board.said_at[row])), **self.cite(row)}

    def write_answered(self, row: int, terms: frozenset[str]) -> dict[str, Any] | None:
        """Return the turn that a short item answers, such as "yes, do that"; None for an item that says more."""
        before = int(self.snap.columns.previous[row])
        says_more = len(set(tokenise(self.text(row), self.language(row)))) > _FEW_TERMS
        if before < 0 or not self.board.stated[before] or says_more:
            return None
        cited = self.cite(before)
        return {"text": self.choose_passage(before, terms, PASSAGE), "by": cited["by"], "item": cited["item"]}


def _as_rows(rows: Sequence[int]) -> I64:
    return np.array(rows, np.int64)


def _find_as_written(words: str, text: str) -> str:
    """Return words as a text writes them, whatever the case."""
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE)
    return match[0] if match else words
