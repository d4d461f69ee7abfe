"""Words that no vector knows: a path, an id, an error or a made-up word, among a hundred thousand distractors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from helix.sdk.memory import Memory
from helix.types import F32, Bundle
from tests.support.tiny import at_cosine, make_store, memory_of

SIZE = 100_000
DIM = 24
NEAREST = 3_000
"""Distractors that lie nearer to every question than any answer does."""

FAR = 0.3
"""Cosine of an answer to its question; of the nearest distractors .5 to .65. all-MiniLM-L6-v2 gives the distractors
below up to .65, and the answers no less than .53: this is worse."""

AXIS = np.eye(DIM, dtype=np.float32)[0]
"""Of every question."""


class Needle(NamedTuple):
    question: str
    text: str
    lure: str  # of the distractors around the question: parts of what is asked for


NEEDLES = {name: Needle(*texts) for name, texts in {
    "path": ("what broke in services/ledger/export_rows.py?",
             "services/ledger/export_rows.py lost its last batch, fixed", "the ledger export of the {} service broke"),
    "id": ("what came of ticket PAY-48213?", "closed PAY-48213 as a duplicate", "ticket {} of pay came back"),
    "hash": ("which change is 9f3c1ab7e2d4?", "9f3c1ab7e2d4 pins the driver", "this change of {} pins what it can"),
    "error": ("ORA-01555: snapshot too old", "nightly job stopped with ORA-01555: snapshot too old, larger undo helped",
              "the old snapshot of {} is too small"),
    "name in code": ("where is retryBudgetExceeded raised?", "the pool raises retryBudgetExceeded at the third attempt",
                     "the retry budget of {} was exceeded"),
    "made-up word": ("how do we seal the qzx-flumbrick?", "two turns of tape do for the qzx-flumbrick",
                     "how to seal a {} brick"),
}.items()}  # fmt: skip
COMMON = (
    "cache", "worker", "page", "invoice", "garden", "train", "kettle", "parser", "window", "letter", "report", "song",
)  # fmt: skip


def lures(n: int, rng: np.random.Generator) -> list[str]:
    frames = [needle.lure for needle in NEEDLES.values()]
    words = np.array(COMMON)[rng.integers(0, len(COMMON), (n, 4))].tolist()
    return [f"{frames[i % len(frames)].format(a)} {b} {c} {d}{i}" for i, (a, b, c, d) in enumerate(words)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The needles lie in the middle, far from the questions; every distractor shares words with some question."""
    rng = np.random.default_rng(5)
    cosine = np.concatenate([rng.uniform(0.5, 0.65, NEAREST), rng.uniform(-0.1, 0.3, SIZE - NEAREST)])
    middle = SIZE // 2
    texts = lures(SIZE, rng)
    texts[middle:middle] = [needle.text for needle in NEEDLES.values()]
    cosine = np.insert(cosine, middle, np.full(len(NEEDLES), FAR))
    given = [{"session": f"s{i // 20}", "salience": 0.3} for i in range(len(texts))]
    for i in range(middle, middle + len(NEEDLES)):
        given[i]["session"] = f"needle{i}"
    folder = tmp_path_factory.mktemp("haystack")
    make_store(folder, texts, at_cosine(AXIS, cosine, len(texts), rng), given)
    return folder


def ask(memory: Memory, question: str, profile: str = "helix") -> Bundle:
    return memory.recall(question, profile=profile, now="2023-12-01", explain=True)


def seen_by_dense(bundle: Bundle) -> Sequence[dict[str, Any]]:
    assert bundle.trace is not None
    return [one for one in bundle.trace["candidates"] if one["dense"] is not None]


@pytest.mark.parametrize("kind", NEEDLES)
def test_words_find_items_that_vectors_miss(root: Path, kind: str) -> None:
    """Switch: no lexical leg (`retrieve.bm25 = 0`), or `tokenise` without whole identifiers, or fused ranks alone.

    With the order of fused ranks (`helix-paper`), the first of one list is worth what the first of the other is.
    """
    needle = NEEDLES[kind]
    found = ask(memory_of(root, lambda text: AXIS), needle.question)
    assert len(seen_by_dense(found)) == 100
    assert found.items[0].text == needle.text
    assert found.items[0].why["dense"] is None  # the hundred nearest are distractors
    assert found.items[0].why["bm25"] == 1
    assert found.packed[0].text == needle.text


@pytest.mark.parametrize("seed", range(4))
def test_a_made_up_word_is_found_whatever_its_vector_is(root: Path, seed: int) -> None:
    """Switch: no lexical leg. An encoder has no idea of such a word: its vector is noise."""
    noise = np.random.default_rng(seed).standard_normal(DIM)
    memory = memory_of(root, lambda text: noise / np.linalg.norm(noise))
    assert ask(memory, "qzx-flumbrick").items[0].text == NEEDLES["made-up word"].text
    assert ask(memory, "Qzx-Flumbrick?").items[0].text == NEEDLES["made-up word"].text


def noise(text: str) -> F32:
    drawn = np.random.default_rng(len(text)).standard_normal(DIM)
    return np.asarray(drawn / np.linalg.norm(drawn), np.float32)


ODD = {
    **{"unknown": "vrombulax", "many": "zzyx " * 400, "long": "w" * 9_000, "marks": "??? !!"},
    **{"stop words": "who is it and where", "invisible": "\u200b\u200b x\u0301\u0302", "connectors": "-- :: // .."},
}


@pytest.mark.parametrize("question", ODD.values(), ids=ODD)
def test_words_nobody_has_heard_of_blow_nothing_up(root: Path, question: str) -> None:
    """Switch: `minmax` or `over_best` without its guard against a division by zero (a pool no word tells apart)."""
    for memory in (memory_of(root, noise), memory_of(root)):
        found = ask(memory, question)
        assert all(np.isfinite(item.score) and 0 <= item.score <= 1 for item in found.items)
        assert len(found.items) == (10 if memory.snapshot.files.__dict__.get("encoder") else 0)
        assert found.tokens <= found.budget


def test_a_misspelt_word_spoils_only_itself(root: Path) -> None:
    """Switch: terms joined by AND (rows that lack one of the terms left out)."""
    found = ask(memory_of(root), "how do we seel the qzx-flumbrick wiht taep")
    assert found.items[0].text == NEEDLES["made-up word"].text
