"""Classifier, salience and entities are total and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.classify import classify
from helix.enrich.entities import MAX_ENTITIES, entities
from helix.enrich.salience import confidence, salience
from helix.types import ROLES, TYPES

ORIGINS = ("human", "assistant", "tool", "runtime_context", "summary", "subagent", "document", "unheard of")
PART = st.one_of(
    st.sampled_from(
        [
            "We decided ",
            "1. run ",
            "```\n",
            "def f(",
            "I prefer ",
            "maybe ",
            "./src/a.py ",
            "#12 ",
            "Foo Bar ",
            "x_y_z ",
            "HTTP 500 ",
            "v1.2.3 ",
            "https://a.b/c ",
            "é",
            "漢",
            "\n",
            ". ",
            "'s ",
            "O'B ",
            "Dr. ",
            "New ",
            "`",
            "::",
            "@",
        ]
    ),
    st.text(st.characters(exclude_categories=[]), max_size=12),
)
TEXT = st.lists(PART, max_size=25).map("".join)


@given(TEXT, st.sampled_from(ROLES), st.sampled_from(ORIGINS))
def test_scores_lie_in_their_ranges(text: str, role: str, origin: str) -> None:
    kind, sure = classify(text, role, origin)
    assert kind in TYPES
    assert 0 <= sure <= 1
    assert 0 <= salience(text, role, origin, kind) <= 1
    assert 0 < confidence(text, role, origin) <= 1


@given(TEXT, st.one_of(st.none(), st.text(max_size=20)))
def test_entities_are_distinct_and_normalised(text: str, speaker: str | None) -> None:
    found = entities(text, speaker)
    assert len(found) <= MAX_ENTITIES
    assert len({(entity.kind, entity.key) for entity in found}) == len(found)
    for entity in found:
        assert entity.key
        assert entity.key == entity.key.lower()
        assert entity.key == " ".join(entity.key.split())
