"""Skip false negative: a question that needs the memory is never answered without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.sdk.memory import Memory
from helix.types import Bundle

GENERAL = ("translate 'good evening' to French", "what is the boiling point of water?", "how do tides work?")
"""No memory is needed for these."""

LOOK_GENERAL = (
    "what is the visibility timeout?", "which database is used for the ledger?", "how are tests run?",
    "what does the parser return?", "why sqlite?", "what is the default port?", "how long is the retention?",
    "which regex matches a ticket?", "what is the naming convention for branches?", "how to deploy to staging?",
    "what is the limit of the connection pool?", "which library parses dates?", "what is the formula for the score?",
    "what does the acronym mean?", "translate the error message", "how to squash the commits?", "fix the typo",
    "where is the config file?", "what colour is the front door?", "how many chairs were ordered?",
    "when does the bakery open?", "what is the wifi password?", "how old is the dog?", "explain the retry policy",
    "write the release notes", "summarise the standup",
)  # fmt: skip
"""They read like anybody's questions, and only a memory knows."""

CERTAIN = {"bias": 50.0, "threshold": 0.97}
"""A classifier that takes no question to need the memory."""


@pytest.fixture
def memory(sample_store: Path) -> Memory:
    return Memory(sample_store)


def classify(memory: Memory, bias: float | None = None, threshold: float | None = None) -> None:
    """Another classifier, or another threshold, for this memory alone."""
    router = memory.snapshot.router
    assert router is not None
    changed = dict(router)
    if bias is not None:
        changed |= {"weights": np.zeros_like(router["weights"]), "bias": np.asarray(bias, np.float32)}
    if threshold is not None:
        changed["threshold"] = np.asarray(threshold, np.float32)
    memory.snapshot.files.__dict__["router"] = changed


def ask(memory: Memory, question: str, **given: Any) -> Bundle:
    found = memory.recall(question, now="2026-07-01", explain=True, **given)
    assert not (found.skipped and found.items)
    return found


def score(found: Bundle) -> float:
    assert found.trace is not None
    return next(float(stage["skip_score"]) for stage in found.trace["stages"] if stage["stage"] == "route")


def test_a_question_that_only_looks_general_is_searched(memory: Memory) -> None:
    """Switch: a threshold of .5, where the classifier's own border is (`pipelines.training.router.THRESHOLD`)."""
    found = {question: ask(memory, question) for question in LOOK_GENERAL}
    assert [question for question, one in found.items() if one.skipped] == []
    assert max(map(score, found.values())) > 0.5  # some do look so
    assert any(ask(memory, question).skipped for question in GENERAL)  # the classifier is there, and is asked


def test_a_question_with_a_filter_is_never_skipped(memory: Memory) -> None:
    """Switch: any one of the filters, or the entities, left out of `wants_memory` in `route`."""
    question = GENERAL[0]
    item = memory.recall("what did I tell Priya about vacation?").items[0]
    classify(memory, **CERTAIN)
    assert ask(memory, question).skipped
    filters = {
        **{"project": item.project, "type": item.type, "session": item.session, "speaker": item.speaker},
        **{
            "since": "2020-01-01",
            "until": "2026-07-01",
            "as_of": "2100-01-01",
            "ingested_as_of": "2100-01-01",
            "principal": "ana",
        },
        "entities": ["Priya"],
    }
    assert [name for name, value in filters.items() if ask(memory, question, **{name: value}).skipped] == []


@pytest.mark.parametrize(
    "question",
    ["how do tides work, as I noted?", "remind me how tides work", "my notes on tides", "what's mine of the tides?"],
)
def test_a_question_about_the_caller_is_never_skipped(memory: Memory, question: str) -> None:
    """Switch: `first_person` left out of `wants_memory`, or one of its words out of `_FIRST_PERSON`."""
    classify(memory, **CERTAIN)
    assert ask(memory, GENERAL[0]).skipped
    assert not ask(memory, question).skipped


def test_doubt_is_no_reason_to_skip(memory: Memory) -> None:
    """Switch: a lower threshold. Of a question that is probably general, .9, the memory is asked all the same."""
    classify(memory, bias=float(np.log(0.9 / 0.1)))
    found = ask(memory, GENERAL[-1])
    assert score(found) == pytest.approx(0.9, abs=1e-3)
    assert not found.skipped


def test_without_an_encoder_nothing_is_skipped(memory: Memory, own_store: Path) -> None:
    """Switch: `_skip_score` that gives 1 where there is no vector."""
    for path in own_store.glob("encoders/*/encoder.json"):
        path.unlink()
    blind = Memory(own_store)
    classify(blind, **CERTAIN)
    found = blind.recall(GENERAL[0])
    assert found.degraded
    assert not found.skipped
