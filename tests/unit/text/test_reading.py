"""How a question is read: for now, for then, for why, or for none of them."""

from __future__ import annotations

import numpy as np
import pytest

from helix.text.reading import HINTS, MAX_CHARS, read_hints, read_kind

KINDS = {
    "now": [
        "What CI do we use?", "Which queue runs the jobs now", "who is on call", "Is Priya still the owner?",
        "and how long does a session live", "wifi password for guests?", "Kubernetes version on prod?",
        "Above what length does it skip a line?", "I'm sending a parcel, what address do I write?",
        "How do I want your summaries?", "any news on the current deploy day",
    ],
    "then": [
        "What did we use before Jenkins?", "which database was it originally", "Where did Lena live in July",
        "Before the move, how large was the pool?", "In April, which program was the manuscript in?",
        "What used to be the limit?", "who had the pager back then",
    ],
    "why": ["Why did we leave Jenkins?", "what was the reason for the new limit", "How come Omar is on call?"],
    "": [
        "Have I ever used Zotero?", "Can you give me a complete summary of the project?",
        "In what order did I bring up the topics?", "How many days were there between the two calls?",
        "How has my view of the essay evolved over time?", "ok thanks", "run the tests", "",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_the_kind_of_a_question(kind: str, text: str) -> None:
    assert read_kind(text) == kind


def test_the_hints_of_a_question() -> None:
    def name(text: str) -> set[str]:
        return {HINTS[i] for i in np.flatnonzero(read_hints(text))}

    assert name("Who reviews pull requests now?") == {"who", "now"}
    assert name("What was the first limit before the move") == {"number", "first", "before"}
    assert name("Tell me about lunch") == set()


def test_only_the_start_of_a_question_is_read() -> None:
    assert read_kind("tell me " + "x" * MAX_CHARS + " why did we leave") == "now"
