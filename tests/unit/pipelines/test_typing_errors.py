"""Typing errors are of the kinds that people make, and the same again for the same seed."""

from __future__ import annotations

import random

from pipelines.eval.sets.benchmark import Question
from pipelines.eval.typing_errors import misspell, misspell_questions, misspell_word


def count_edits(a: str, b: str) -> int:
    """Damerau-Levenshtein distance (optimal string alignment)."""
    table = {(i, -1): i + 1 for i in range(-1, len(a))} | {(-1, j): j + 1 for j in range(-1, len(b))}
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
            if i and j and x == b[j - 1] and y == a[i - 1]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a) - 1, len(b) - 1]


def test_a_word_has_one_error_of_every_kind() -> None:
    rng = random.Random(0)
    made = [misspell_word("gateway", rng) for _ in range(400)]
    assert {count_edits("gateway", word) for word in made} == {1}
    assert {len(word) for word in made} == {6, 7, 8}
    assert any(sorted(word) == sorted("gateway") for word in made)
    assert 0.02 < sum(word[0] != "g" for word in made) / 400 < 0.2


def test_a_question_has_one_or_two_wrong_words_and_keeps_the_others() -> None:
    text = "Why does the request_gateway leak memory at 3 am?"
    rng = random.Random(1)
    wrong = [sum(a != b for a, b in zip(text.split(), misspell(text, rng).split(), strict=True)) for _ in range(200)]
    assert set(wrong) == {1, 2}
    assert misspell("is it ok?", rng) == "is it ok?"
    questions = [Question("p", text, frozenset("a"))]
    assert misspell_questions(questions, 3) == misspell_questions(questions, 3) != questions
