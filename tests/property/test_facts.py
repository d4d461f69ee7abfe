"""Extraction of facts is total, bounded and quotes the text."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.facts import MAX_FACTS, RELATIONS, extract_facts
from helix.types import ROLES
from tests.support.draws import draw_share

PARTS = (
    "I live in Rome", "my sister Ana ", "we use Redis for queues", "we switched from A1 to B2", " and ", ", ", ". ",
    "? ", "if ", "maybe ", "no longer ", "not ", " anymore", "since 2019", "until May", "is set to 30",
    "the port ", "`", '"', "\n",
    "- ", "> ", "```\n",
    "I think ", "said ", "Ben ", "I'm ", "don't ", "allergic to nuts", "due on 3 May", "é", "漢", "🎉",
    "we decided to ", "from 3 to 5", "runs on ", "port 80", "/var/log", "born on ", "I quit my job",
)  # fmt: skip
QUOTES = str.maketrans("‘’", "''")
TEXT = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=8)), max_size=16).map("".join)
AT = st.one_of(
    st.none(), st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))
)


@draw_share(3)
@given(TEXT, st.one_of(st.none(), st.just("Sam"), st.text(max_size=5)), st.sampled_from(ROLES), AT)
def test_total_and_bounded(text: str, speaker: str | None, role: str, at: datetime | None) -> None:
    found = extract_facts(text, speaker, role, "human", at)
    assert len(found) <= MAX_FACTS
    assert found == extract_facts(text, speaker, role, "human", at)
    keys = [(fact.subject_key, fact.relation, fact.object_key, fact.qualifier, fact.closes) for fact in found]
    assert len(set(keys)) == len(keys)
    for fact in found:
        assert fact.relation in RELATIONS
        assert fact.subject_key == fact.subject_key.lower().strip() != ""
        assert fact.object_key == fact.object_key.lower().strip()
        assert fact.object_key or fact.closes
        assert 0 < fact.confidence <= 1
        assert len(fact.said) <= 300
        assert fact.said in text.translate(QUOTES) or "\n" in text
        assert fact.valid is None or fact.valid.tzinfo is not None
    if role in ("tool", "system"):
        assert found == []


@draw_share(2)
@given(TEXT)
def test_an_assistant_states_nothing_about_itself(text: str) -> None:
    assert all(fact.subject_key != "sam" for fact in extract_facts(text, "Sam", "assistant", "assistant", None))


@draw_share(1.5)
@given(st.sampled_from(("Maybe", "I think", "If", "Ben said that", "Suppose", "I doubt that")), TEXT)
def test_a_doubt_before_a_clause_silences_it(doubt: str, rest: str) -> None:
    assert not any(
        fact.relation == "lives_in" for fact in extract_facts(f"{doubt} I live in Rome.", "Sam", "user", "human", None)
    )
    assert len(extract_facts(f"{doubt} I live in Rome. {rest}", "Sam", "user", "human", None)) <= MAX_FACTS
