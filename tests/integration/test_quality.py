"""Quality best: a network reads question and item together, within its bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import helix
from helix.encoders.rerank import Rerankers
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.types import F64
from pipelines.embedded.ingest import ingest
from tests.support.tiny import SETTINGS

TALK = [
    ("Ana", "The desk in the hall is of oak."),
    ("Milo", "The desk in the study is of walnut."),
    ("Ana", "The desk at my mother's is of beech."),
    ("Milo", "I would like a desk of cherry."),
]


class Reader:
    """Prefers one word, and notes what it was given."""

    name = "reader"

    def __init__(self, word: str, **spec: Any) -> None:
        self.word, self.given = word, list[str]()
        self.spec = SimpleNamespace(**{"language": "en", "turns_only": True, "ranking": 1.0, **spec})

    def weigh(self, query: str, texts: Sequence[str]) -> F64:
        self.given += texts
        return np.array([10.0 * (self.word in text.split(" [SEP] ")[0]) for text in texts])


def remember(folder: Path, lines: Sequence[dict[str, str]]) -> Memory:
    (folder / "a.jsonl").write_text("\n".join(json.dumps({"project": "p", **line}) for line in lines))
    ingest(folder / "store", [folder / "a.jsonl"], SETTINGS)
    return helix.open(folder / "store")


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    lines = [{"session": "s", "id": f"t{i}", "speaker": who, "text": text} for i, (who, text) in enumerate(TALK)]
    return remember(tmp_path_factory.mktemp("talk"), lines)


@pytest.fixture
def reader() -> Iterator[Reader]:
    found = Reader("cherry")
    with mock.patch.object(Rerankers, "ranker", found):
        yield found


def note(memory: Memory, question: str, **options: Any) -> Any:
    trace = memory.recall(question, explain=True, **options).trace
    assert trace is not None
    return next((stage for stage in trace["stages"] if stage["stage"] == "rerank"), None)


def test_best_puts_first_what_the_network_reads_as_the_answer(talk: Memory, reader: Reader) -> None:
    fast = talk.recall("of what wood is the desk in the study?", quality="fast")
    assert not reader.given
    best = talk.recall("of what wood is the desk in the study?", quality="best")
    assert "walnut" in fast.items[0].text
    assert "cherry" in best.items[0].text
    assert {item.id for item in best.items} == {item.id for item in fast.items}
    assert best.items[0].why["rerank"] == pytest.approx(10.0)
    assert any(text.startswith("Milo: I would like a desk of cherry. [SEP] Ana: The desk at") for text in reader.given)


def test_the_setting_decides_where_a_caller_names_none(talk: Memory, reader: Reader) -> None:
    with mock.patch.object(talk, "settings", replace(talk.settings, quality="best")):
        assert "cherry" in talk.recall("whose desk is of oak?").items[0].text
        assert "oak" in talk.recall("whose desk is of oak?", quality="fast").items[0].text
    with pytest.raises(UsageError, match="quality 'good'"):
        talk.recall("whose desk is of oak?", quality="good")


def test_a_question_of_many_turns_or_in_another_language_is_left_as_it_is(talk: Memory, reader: Reader) -> None:
    """Break: without the bounds, the network is given items of each."""
    found = note(talk, "summarise what we said about desks", quality="best")
    assert found["unusable"] == "the question asks for: summary"
    assert not reader.given
    reader.spec.language = "de"
    answer = talk.recall("whose desk is of oak?", quality="best")
    assert not reader.given
    assert any("reader reads questions in 'de', this is in 'en'" in reason for reason in answer.degraded)


def test_documents_and_what_replaces_others_keep_their_order(tmp_path: Path, reader: Reader) -> None:
    (tmp_path / "d").mkdir()
    lines = [{"session": f"d{i}", "id": "1", "role": "document", "text": text} for i, (_, text) in enumerate(TALK)]
    documents = remember(tmp_path / "d", lines)
    assert "most items are documents" in note(documents, "whose desk is of oak?", quality="best")["unusable"]
    days = [("2026-01-05", "We use Jenkins for CI."), ("2026-03-05", "We switched CI from Jenkins to cherry-ci.")]
    turns = [{"session": day, "id": "1", "role": "user", "text": text, "ts": f"{day}T09:00:00Z"} for day, text in days]
    changed = remember(tmp_path, turns)
    found = note(changed, "which CI do we use?", quality="best", now="2026-04-01")
    assert found["unusable"] == "some of the best items replace others"
    assert not reader.given
