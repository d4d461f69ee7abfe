"""MinHash signatures, and near-duplicates on a labelled set."""

from __future__ import annotations

import random

import numpy as np
import pytest

from helix.enrich.neardup import PERMUTATIONS, compute_signatures, estimate_jaccard
from pipelines.ingest.dedupe import NEAR
from tests.support.labelled import add_report, load_labelled


def test_shape_and_determinism() -> None:
    texts = ["the visibility timeout is an hour", "another text altogether", ""]
    first = compute_signatures(texts)
    assert first.shape == (3, PERMUTATIONS)
    assert first.dtype == np.uint32
    assert np.array_equal(first, compute_signatures(texts))
    assert np.array_equal(first[1], compute_signatures(texts[1:2])[0])


def test_case_and_punctuation_do_not_matter() -> None:
    same = compute_signatures(["We set the timeout, finally.", "we set THE timeout finally"])
    assert estimate_jaccard(same, same).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_short_texts_compare_by_words() -> None:
    marks = compute_signatures(["hello", "hello", "goodbye"])
    shares = estimate_jaccard(marks, marks)
    assert shares[0, 1] == 1
    assert shares[0, 2] < 0.2


def test_the_estimate_is_near_the_truth() -> None:
    # Standard error of 64 permutations: at most .0625; the mean of 60 pairs is far tighter.
    rng = random.Random(7)
    errors = []
    for _ in range(60):
        left = [f"w{rng.randrange(5_000)}" for _ in range(120)]
        right = [f"z{i}" if rng.random() < 0.05 else word for i, word in enumerate(left)]
        shingles = [{tuple(words[i : i + 2]) for i in range(119)} for words in (left, right)]
        true = len(shingles[0] & shingles[1]) / len(shingles[0] | shingles[1])
        marks = compute_signatures([" ".join(left), " ".join(right)])
        errors.append(float(estimate_jaccard(marks[:1], marks[1:])[0, 0]) - true)
    assert abs(sum(errors) / len(errors)) < 0.03
    assert max(map(abs, errors)) < 0.25


@pytest.mark.parametrize("split", ["dev", "test"])
def test_precision_and_recall_on_the_labelled_pairs(split: str) -> None:
    """Texts with trivial edits against texts on the same topic, by the threshold of a commit."""
    pairs = load_labelled("neardup", split)
    assert len(pairs) >= 100
    left, right = (compute_signatures([pair[side] for pair in pairs]) for side in "ab")
    found = np.mean(left == right, axis=1) >= NEAR
    near = np.array([pair["near"] for pair in pairs])
    precision, recall = float(near[found].mean()), float(found[near].mean())
    add_report(f"near-duplicates, {split}", {"near": (precision, recall, int(near.sum()))})
    assert precision >= 0.97
    assert recall >= 0.62
