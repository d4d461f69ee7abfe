"""The router skips few questions, and only those that need no memory.

`tests/support/data/no_memory_prompts.txt` was written before any scoring, and shares no line with the training prompts.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.sdk.open import open as open_store
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.embed import embed
from helix.stages.route import route
from helix.stages.skip_rules import AGREED, LOOKED_AT, is_general, is_self_contained, speaks_of_memory
from pipelines.training import router as train
from tests.support.paths import DATA
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS

PROMPTS = DATA / "no_memory_prompts.txt"
BENCHMARKS = "MEMORY_BENCHMARKS"
"""Names the folder with locomo/, beam_100k/, musique/, cranfield/ and npl/ as published, where there is one."""

LOOK_GENERAL = [
    # Each is about something of the asker's, though some general question has nearly its words.
    "how do we format dates?",
    "what is the timeout again?",
    "what does the parser do with empty lines?",
    "which regex matches our invoice numbers?",
    "how many retries are there?",
    "what is the capital we need to raise?",
    "who wrote the parser?",
    "what was the conversion rate last quarter?",
    "how long is the sprint?",
    "what is the formula for the discount?",
    "translate the error the customer reported",
    "what does ACME stand for in our docs?",
    "what colour is the logo?",
    "what's the default port?",
    "how is the average computed in the report?",
    "what did the joke in the meeting refer to?",
    "is the build green?",
    "what's the difference between the two deploy scripts?",
    "why is the sky service down?",
    "how do we say goodbye to customers in the email template?",
    "what is the name of the dog?",
    "how many people are coming?",
    "what's the password rule?",
    "how does the importer handle JSON?",
    "which planet theme did the designers pick?",
    "what time is the review?",
    "format of the export file",
    "how much does the plan cost per seat?",
    "what is Tomek's favourite poem?",
    "thanks to whom did the release go out?",
    "what was the recipe Ines posted?",
    'define the term "active user" as the contract does',
    "what port does SSH use on the bastion?",
    "how old is Priya's daughter?",
    "where does the moon lander demo live?",
    "how far is the venue from the hotel?",
    "write the changelog entry for what changed since Friday",
    "what is two-factor set to for the admins?",
    "summarise the discussion on the speed of light sensor",
    "what is the square footage of the flat Nils found?",
    "how do we round prices?",
    "explain how the cache works",
]


@pytest.fixture(scope="module")
def snap(sample_store: Path) -> Snapshot:
    return open_store(sample_store).snapshot


def skipped(snap: Snapshot, texts: list[str]) -> list[str]:
    """Return the texts that the router skips, with the real encoder."""
    queries = [make_query(text, snap, SETTINGS) for text in texts]
    return [query.text for query in queries if route(query, embed(query.text, snap.encoder), snap).skip]


def prompts() -> list[str]:
    return PROMPTS.read_text("utf-8").splitlines()


def test_half_of_the_questions_without_memory_are_skipped(snap: Snapshot) -> None:
    found = skipped(snap, prompts())
    assert len(prompts()) == 200
    assert len(found) >= 100, sorted(set(prompts()) - set(found))


def test_the_prompts_are_not_those_trained_on() -> None:
    def key(text: str) -> str:
        return " ".join(re.findall(r"\w+|[^\w\s]", text.lower())).rstrip(" ?!.")

    trained = {key(line) for name in ("memory.txt", "no_memory.txt") for line in train._read_lines(name)}
    kept = [key(text) for text in prompts()]
    assert len(set(kept)) == 200
    assert not trained & set(kept)
    assert not trained & {key(text) for text in LOOK_GENERAL}


def test_a_trained_line_is_of_one_kind() -> None:
    memory, none = (set(map(str.lower, train._read_lines(name))) for name in ("memory.txt", "no_memory.txt"))
    assert not memory & none


def test_general_looking_questions_about_memory_are_not_skipped(snap: Snapshot) -> None:
    assert skipped(snap, LOOK_GENERAL) == []


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
    found = skipped(snap, questions)
    assert len(found) <= len(questions) / 1000, found


@pytest.mark.parametrize(
    "text",
    [
        "what is Renske fond of",
        "dog's name: Biscuit's?",
        "what do we use for dates",
        "what did the doctor order",
        "was it raining",
        "how does she make bread",
        "the timeout again",
        "what is new since the spring",
        "where is parse_date",
        "what is in src/app",
        "what does onClick do",
        "what is #482",
        "HOLIDAY BUDGET",
        "thanks. What did Bo say: yes?",  # what is given ends with the question, and this is one
        "is there any way in which the effect of wall temperature upon drag could be shown",
        "what is 17*23 " + "and what is that " * 30,
    ],
)
def test_questions_that_mention_memory_are_never_skipped(text: str) -> None:
    assert speaks_of_memory(text)
    assert not is_general(text, 1.0, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "what is 17*23",
        "what is the capital of the province",
        "translate 'we met Bo' to French",
        "rewrite this: We did it for Bo",
        "how do pointers work in Python",
        'format this JSON: {"user_id": 4}',
        "what's the time of day",
    ],
)
def test_questions_without_such_words_may_be_skipped(text: str) -> None:
    assert not speaks_of_memory(text)
    assert is_general(text, 0.97, 0.96)


@pytest.mark.parametrize(
    "text",
    [
        "12 * (3 + 4)",
        "what is 8/3?",
        "20 percent of 90",
        "convert 12 miles to kilometres",
        "70 kg in pounds",
        "how many grams in a pound",
        "reword this: it is cold",
        'spell "mnemonic" out',
        "translate to Welsh: good luck",
        '"well done" in Polish',
        "write a short poem about snow",
        "tell me a joke",
        "Thank you so much!",
        "good evening, everyone",
        "ok, great",
    ],
)
def test_self_contained_questions_are_recognised(text: str) -> None:
    assert is_self_contained(text)
    assert is_general(text, AGREED + 0.01, 0.96)
    assert not is_general(text, AGREED - 0.01, 0.96)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "translate the error",
        "convert the prices to euros",
        "the joke about the penguin",
        "write the summary",
        "thanks to whom did it work",
        "good morning song",
        "how many days in the plan",
        "42nd street",
        "version 3.4.1 of the client",
        "tell a colleague: ship it",  # nothing to be worked on
        "12 * 3 " * 100,
    ],
)
def test_questions_that_lack_context_are_recognised(text: str) -> None:
    assert not is_self_contained(text)
    assert not is_general(text, 0.9, 0.96)


def test_without_a_classifier_nothing_is_skipped() -> None:
    assert not is_general("what is 17*23", 0.0, 1.0)
    assert is_general("what is 17*23", 0.3, 0.2)  # a lower threshold counts for both


@given(st.text(max_size=2 * LOOKED_AT), st.floats(0, 1), st.floats(0, 1))
def test_any_text_is_judged(text: str, score: float, threshold: float) -> None:
    if is_general(text, score, threshold):
        assert score > min(AGREED, threshold)
        assert not speaks_of_memory(text)


@cache
def hostile() -> tuple[str, ...]:
    long = (" ", "a", "1", "1 ", "(", "'", '"', ": ", "thanks ", "Ab ", "a'", "how many cups a ", "1 cups ", "a poem ")
    short = tuple((part * LOOKED_AT)[:LOOKED_AT] for part in long)
    return (*short, *(f"convert {text}"[:LOOKED_AT] for text in short), "x" * 1_000_000)


def test_no_text_takes_long() -> None:
    begin = time.perf_counter()
    for text in hostile():
        speaks_of_memory(text)
        is_self_contained(text)
    assert time.perf_counter() - begin < 0.5
