"""The router skips few questions, and only those that need no memory.

`no_memory.txt` of the evaluation was written before any scoring, and shares no line with the training prompts.
"""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.encoders.onnx_export import has_vnni
from helix.sdk.open import open as open_store
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.route import route
from helix.stages.skip_rules import AGREEMENT, MAX_CHARS, is_general, is_self_contained, speaks_of_memory
from pipelines.training import router as train
from tests.support.paths import DATA
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS

PROMPTS = Path(str(files("pipelines.eval"))) / "data" / "relevance" / "no_memory.txt"
TEXTS = tomllib.loads((DATA / "router_texts.toml").read_text("utf-8"))
BENCHMARKS = "MEMORY_BENCHMARKS"
"""Names the folder with locomo/, beam_100k/, musique/, cranfield/ and npl/ as published, where there is one."""


@pytest.fixture(scope="module")
def snap(sample_store: Path) -> Snapshot:
    return open_store(sample_store).snapshot


def list_skipped(snap: Snapshot, texts: list[str]) -> list[str]:
    """Return the texts that the router skips, with the real encoder."""
    queries = [make_query(text, snap, SETTINGS) for text in texts]
    return [query.text for query in queries if route(query, snap.encoder.query(query.text), snap).skip]


def prompts() -> list[str]:
    return PROMPTS.read_text("utf-8").splitlines()


def test_half_of_the_questions_without_memory_are_skipped(snap: Snapshot) -> None:
    found = list_skipped(snap, prompts())
    assert len(prompts()) == 200
    least = 100 if has_vnni() else 95  # vectors of seven bits are a little less exact
    assert len(found) >= least, sorted(set(prompts()) - set(found))


def test_the_prompts_are_not_those_trained_on_which_are_of_one_kind() -> None:
    def key(text: str) -> str:
        return " ".join(re.findall(r"\w+|[^\w\s]", text.lower())).rstrip(" ?!.")

    trained = {key(line) for name in ("memory.txt", "no_memory.txt") for line in train._read_lines(name)}
    own = {key(text) for text in prompts()}
    assert len(own) == 200
    assert not trained & own
    assert not trained & {key(text) for text in TEXTS["look_general"]}
    memory, none = (set(map(str.lower, train._read_lines(name))) for name in ("memory.txt", "no_memory.txt"))
    assert not memory & none


def test_general_looking_questions_about_memory_are_not_skipped(snap: Snapshot) -> None:
    assert list_skipped(snap, TEXTS["look_general"]) == []


def benchmark_questions(folder: Path) -> Iterator[str]:
    for conversation in json.loads((folder / "locomo" / "locomo_dev5.json").read_text("utf-8")):
        yield from (entry["question"] for entry in conversation["qa"])
    for path in sorted(folder.glob("beam_100k/*/probing_questions/*.json")):
        for entries in json.loads(path.read_text("utf-8")).values():
            yield from (entry["question"] for entry in entries)
    for entry in json.loads((folder / "musique" / "musique_train.json").read_text("utf-8")):
        yield entry["question"]
    for part in re.split(
        r"^\.I \d+\n\.W\n", (folder / "cranfield" / "cran.qry").read_text("utf-8"), flags=re.MULTILINE
    )[1:]:
        yield " ".join(part.split())
    for part in re.split(r"^\s{0,4}/\s{0,4}$", (folder / "npl" / "query-text").read_text("utf-8"), flags=re.MULTILINE):
        if text := " ".join(part.split()[1:]):
            yield text


@pytest.mark.skipif(BENCHMARKS not in os.environ, reason=f"{BENCHMARKS} names no folder")
def test_at_most_one_benchmark_question_in_a_thousand_is_skipped(snap: Snapshot) -> None:
    questions = list(benchmark_questions(Path(os.environ[BENCHMARKS])))
    assert len(questions) > 1500
    found = list_skipped(snap, questions)
    assert len(found) <= len(questions) / 1000, found


def test_only_questions_that_mention_no_memory_may_be_skipped() -> None:
    texts = [*TEXTS["memory"], "what is 17*23 " + "and what is that " * 30]
    assert [text for text in texts if not (speaks_of_memory(text) and not is_general(text, 1.0, 0.5))] == []
    assert [
        text for text in TEXTS["general"] if not (not speaks_of_memory(text) and is_general(text, 0.97, 0.96))
    ] == []


def test_self_contained_questions_and_those_that_lack_context_are_recognised() -> None:
    assert [
        text
        for text in TEXTS["self_contained"]
        if not (
            is_self_contained(text)
            and is_general(text, AGREEMENT + 0.01, 0.96)
            and not is_general(text, AGREEMENT - 0.01, 0.96)
        )
    ] == []
    texts = [*TEXTS["lack_context"], "12 * 3 " * 100]
    assert [text for text in texts if not (not is_self_contained(text) and not is_general(text, 0.9, 0.96))] == []


def test_without_a_classifier_nothing_is_skipped() -> None:
    assert not is_general("what is 17*23", 0.0, 1.0)
    assert is_general("what is 17*23", 0.3, 0.2)  # a lower threshold counts for both


@given(st.text(max_size=2 * MAX_CHARS), st.floats(0, 1), st.floats(0, 1))
def test_any_text_is_judged(text: str, score: float, threshold: float) -> None:
    if is_general(text, score, threshold):
        assert score > min(AGREEMENT, threshold)
        assert not speaks_of_memory(text)


@cache
def hostile() -> tuple[str, ...]:
    long = (" ", "a", "1", "1 ", "(", "'", '"', ": ", "thanks ", "Ab ", "a'", "how many cups a ", "1 cups ", "a poem ")
    short = tuple((part * MAX_CHARS)[:MAX_CHARS] for part in long)
    return (*short, *(f"convert {text}"[:MAX_CHARS] for text in short), "x" * 1_000_000)


def test_no_text_takes_long() -> None:
    begin = time.thread_time()
    for text in hostile():
        speaks_of_memory(text)
        is_self_contained(text)
    assert time.thread_time() - begin < 3
