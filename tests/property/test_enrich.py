"""Functions that read texts are total and bounded: tokens, pieces, types, salience, entities, facts, duplicates."""

from __future__ import annotations

import time
import unicodedata
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.chunk import TAIL_ROOM, chunk
from helix.enrich.classify import PRIORS, classify, score_types
from helix.enrich.facts.extract import MAX_FACTS, extract_facts
from helix.enrich.facts.relations import RELATIONS
from helix.enrich.neardup import PERMUTATIONS, compute_signatures, estimate_jaccard
from helix.enrich.salience import Worth, judge
from helix.enrich.trust import TRUST
from helix.enrich.type_model import TypeModel, classify_all
from helix.enrich.utterance import SessionItem
from helix.text.aliases import join_names
from helix.text.dates import find_moments
from helix.text.entities import MAX_ENTITIES, find_entities
from helix.text.tokenize import MAX_TERM, hash_terms, split_words, tokenise
from helix.types import ROLES, TYPES
from tests.support.draws import draw_share

ORIGINS = ("human", "assistant", "tool", "runtime_context", "summary", "subagent", "document", "unheard of")
PARTS = (
    "We decided ", "1. run ", "```\n", "def f(", "I prefer ", "maybe ", "./src/a.py ", "#12 ", "Foo Bar ",
    "x_y_z ", "HTTP 500 ", "v1.2.3 ", "https://a.b/c ", "é", "漢", "\n", ". ", "'s ", "O'B ", "Dr. ", "New ",
    "my sister ", "Ana's ", "with Ana Park ", "pip install a ", "$ git add ", "a==1.2 ", "on Friday ",
    "in May ", "3 May 2023 ", "two weeks ago ", "2024-", "`", "::", "@",
)  # fmt: skip
PART = st.one_of(st.sampled_from(PARTS), st.text(st.characters(exclude_categories=[]), max_size=12))
TIME = st.datetimes(timezones=st.just(UTC))
TEXT = st.lists(PART, max_size=25).map("".join)


@given(TEXT, st.sampled_from(ROLES), st.sampled_from(ORIGINS))
def test_scores_are_in_their_ranges(text: str, role: str, origin: str) -> None:
    kind, score = classify(text, role, origin)
    assert kind in TYPES
    assert 0 <= score <= 1
    scores = score_types(text, role, origin)
    assert len(scores) == len(TYPES)
    assert all(0 <= score < 1 for score in scores)
    assert score == round(scores[TYPES.index(kind)], 4) == round(max(scores), 4)


@given(
    st.lists(st.tuples(TEXT, st.sampled_from(ROLES), st.sampled_from(ORIGINS)), max_size=5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.01, 1.0, 100.0]),
)
def test_a_model_judges_each_text_alone(items: list[tuple[str, str, str]], seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    width = 8 + len(TYPES) + len(ROLES) + len(PRIORS)
    weights, bias = (scale * rng.standard_normal(shape, np.float32) for shape in ((width, len(TYPES)), len(TYPES)))
    words = {word: i for i, word in enumerate(["a", "e", "i", "0", "`", "^", "$", "#0", "#1", "#2"])}
    term_weights = scale * rng.standard_normal((len(words), len(TYPES)), np.float32)
    model = TypeModel(weights, bias, np.asarray(0.8, np.float32), words, term_weights)
    vectors = rng.standard_normal((len(items), 8), np.float32)
    texts, roles, origins = ([item[i] for item in items] for i in range(3))
    found = classify_all(texts, roles, origins, vectors, model)
    assert len(found) == len(items)
    for i, (kind, sure) in enumerate(found):
        assert kind in TYPES
        assert 1 / len(TYPES) - 1e-3 <= sure <= 1
        (alone,) = classify_all(texts[i : i + 1], roles[i : i + 1], origins[i : i + 1], vectors[i : i + 1], model)
        assert alone[1] == pytest.approx(sure, abs=1e-2)


@given(TEXT, st.one_of(st.none(), st.text(max_size=20)), st.one_of(st.none(), TIME))
def test_entities_are_distinct_and_normalised(text: str, speaker: str | None, at: datetime | None) -> None:
    found = find_entities(text, speaker, at)
    assert len(found) <= MAX_ENTITIES
    assert len({(entity.kind, entity.key) for entity in found}) == len(found)
    for entity in found:
        assert entity.key
        assert entity.key == (entity.key if entity.kind == "date" else entity.key.lower())
        assert entity.key == " ".join(entity.key.split())


@given(TEXT, st.one_of(st.none(), TIME))
def test_moments_are_in_the_text_and_in_order(text: str, at: datetime | None) -> None:
    found = find_moments(text, at)
    assert [moment.where for moment in found] == sorted(moment.where for moment in found)
    for moment in found:
        assert moment.start <= moment.end
        assert moment.text == text[slice(*moment.where)].strip()


@given(st.lists(st.tuples(TEXT, st.one_of(st.none(), st.sampled_from(["Ana", "Ana Park", "Melanie"]))), max_size=4))
def test_joining_keeps_every_name_and_joins_once(turns: list[tuple[str, str | None]]) -> None:
    speakers = [speaker for _, speaker in turns]
    found = [find_entities(text, speaker) for text, speaker in turns]
    joined = join_names(found, speakers)
    assert join_names(joined, speakers) == joined
    for before, after in zip(found, joined, strict=True):
        assert {entity.key for entity in before} <= {entity.key for entity in after}
        assert len({(entity.kind, entity.key) for entity in after}) == len(after)


CHATTER = ("lol", "thanks!", "haha", "ok thx", "wow", "so nice")
STATEMENT = st.sampled_from((
    "we decided on tabs", "should we use 4471?", "yes, go with Acme", "maybe on 3 March", "OSError: no space",
    "I suggest Acme then", "as you said, 4471", "the harbour crane is far", "",
))  # fmt: skip
ITEM = st.tuples(
    st.one_of(STATEMENT, TEXT),
    st.sampled_from(ROLES),
    st.sampled_from(ORIGINS),
    st.sampled_from(TYPES),
    st.lists(st.sampled_from(["acme", "bolt", "4471"]), max_size=3).map(tuple),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[SessionItem]:
    """Items in reading order; several may share a turn."""
    pieces, turn = [], 0
    for text, role, origin, kind, names in draw(st.lists(ITEM, max_size=8)):
        turn += draw(st.integers(0, 2))
        pieces.append(SessionItem(text, role, origin, kind, turn, names))
    return pieces


@given(sessions())
def test_worth_and_trust_are_total_bounded_and_deterministic(items: list[SessionItem]) -> None:
    worths, trusts = judge(items)
    assert len(worths) == len(trusts) == len(items)
    for worth in worths:
        total = sum(amount for _, amount in worth.parts)
        assert 0 <= worth.value <= 1
        assert worth.value == round(worth.value, 4)
        assert worth.value == pytest.approx(min(1, max(0, total)), abs=1e-3)
    for trust in trusts:
        assert TRUST[trust.source] == trust.value
    assert judge(items) == (worths, trusts)


@given(sessions(), st.lists(st.sampled_from(CHATTER), min_size=1, max_size=4), st.sampled_from(("user", "assistant")))
def test_chatter_at_the_end_changes_only_references(items: list[SessionItem], chatter: list[str], role: str) -> None:
    def rest(worths: list[Worth]) -> list[dict[str, float]]:
        return [{name: part for name, part in worth.parts if name != "referred to"} for worth in worths[: len(items)]]

    last = items[-1].turn if items else 0
    more = [SessionItem(text, role, "", "episodic", last + 1 + place) for place, text in enumerate(chatter)]
    (worths, trusts), (more_worths, more_trusts) = judge(items), judge([*items, *more])
    assert rest(more_worths) == rest(worths)
    assert more_trusts[: len(items)] == trusts


def test_a_long_session_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        items = []
        for turn in range(count):
            text = f"yes, go with crane {turn // 3} as you said, the harbour is {turn % 7} wide"
            names = ("acme", f"crane {turn // 3}")
            items.append(SessionItem(text, ("user", "assistant")[turn % 2], "", "episodic", turn // 2, names))
        start = time.thread_time()
        judge(items)
        return time.thread_time() - start

    seconds(1_000)  # caches and compiled patterns
    assert seconds(10_000) < 40 * max(seconds(1_000), 0.025)


def test_a_megabyte_does_not_stall() -> None:
    units = ("a", " ", "?", "`", "\t", '"', "- ", "```", ". ", "no ", "1. ", "maybe ", "i'", "\n", "漢")
    for unit in units:
        text = unit * (1_000_000 // len(unit))
        start = time.thread_time()
        for role in ("user", "assistant", "tool"):
            proposal = SessionItem("let us?", "assistant", "", "episodic", 0)
            judge([proposal, SessionItem(text, role, "", "episodic", 1)])
        assert time.thread_time() - start < 8, unit


STATEMENTS = (
    "I live in Rome", "my sister Ana ", "we use Redis for queues", "we switched from A1 to B2", " and ", ", ", ". ",
    "? ", "if ", "maybe ", "no longer ", "not ", " anymore", "since 2019", "until May", "is set to 30",
    "the port ", "`", '"', "\n", "- ", "> ", "```\n", "I think ", "said ", "Ben ", "I'm ",
    "don't ", "allergic to nuts", "due on 3 May", "é", "漢", "🎉",
    "we decided to ", "from 3 to 5", "runs on ", "port 80", "/var/log", "born on ", "I quit my job",
)  # fmt: skip
QUOTES = str.maketrans("‘’", "''")
STATED = st.lists(st.one_of(st.sampled_from(STATEMENTS), st.text(max_size=8)), max_size=16).map("".join)
AT = st.one_of(st.none(), st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)))


@draw_share(1.5)
@given(STATED, st.one_of(st.none(), st.just("Sam"), st.text(max_size=5)), st.sampled_from(ROLES), AT)
def test_facts_are_bounded_and_quote_the_text(text: str, speaker: str | None, role: str, at: datetime | None) -> None:
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


@given(STATED)
def test_an_assistant_states_nothing_about_itself(text: str) -> None:
    assert all(fact.subject_key != "sam" for fact in extract_facts(text, "Sam", "assistant", "assistant", None))


@given(st.sampled_from(("Maybe", "I think", "If", "Ben said that", "Suppose", "I doubt that")), STATED)
def test_a_doubt_before_a_clause_silences_it(doubt: str, rest: str) -> None:
    found = extract_facts(f"{doubt} I live in Rome.", "Sam", "user", "human", None)
    assert "lives_in" not in {fact.relation for fact in found}
    assert len(extract_facts(f"{doubt} I live in Rome. {rest}", "Sam", "user", "human", None)) <= MAX_FACTS


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)  # lone surrogates too
CODE = st.text("aBc1_./:\\-#'é漢か ", max_size=80)


@given(st.one_of(ANY_TEXT, CODE))
def test_terms_are_bounded(text: str) -> None:
    terms = tokenise(text)
    assert all(0 < len(term) <= MAX_TERM for term in terms)
    assert not any(c.isspace() for term in terms for c in term)
    assert len(hash_terms(terms)) == len(terms)
    assert all(split_words(text))


@given(st.one_of(ANY_TEXT, CODE), st.one_of(ANY_TEXT, CODE))
def test_white_space_separates_terms(left: str, right: str) -> None:
    assert tokenise(f"{left} {right}") == tokenise(left) + tokenise(right)


@given(ANY_TEXT)
def test_compatible_forms_give_the_same_terms(text: str) -> None:
    assert tokenise(unicodedata.normalize("NFKC", text)) == tokenise(text)


@given(st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=40), st.sampled_from([".", ",", "!", "?", ";", ")"]))
def test_sentence_punctuation_is_no_part_of_a_term(word: str, mark: str) -> None:
    assert tokenise(word + mark) == tokenise(word)


PIECES = ("\n", "\n\n", " ", "```\n", "~~~", "end. ", "「猫。」", "。", "x" * 2_500, "\r\n", "\u2028", "a b c ")
LONG_TEXT = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=30)), max_size=60).map("".join)


@given(LONG_TEXT, st.integers(1, 60))
def test_only_white_space_is_lost(text: str, max_words: int) -> None:
    pieces = chunk(text, max_words)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece and piece == piece.strip() for piece in pieces)
    assert all(len(piece.split()) <= TAIL_ROOM * max_words for piece in pieces)


@given(LONG_TEXT)
def test_pieces_are_in_the_text_in_order(text: str) -> None:
    at = 0
    for piece in chunk(text, 20):
        found = text.index(piece, at)
        at = found + len(piece)


TEXTS = st.lists(st.text(st.characters(exclude_categories=[]), max_size=60), max_size=8)


@given(TEXTS)
def test_signatures_are_total_and_reflexive(texts: list[str]) -> None:
    marks = compute_signatures(texts)
    assert marks.shape == (len(texts), PERMUTATIONS)
    assert estimate_jaccard(marks, compute_signatures(["a"])).shape == (len(texts), 1)
    shares = estimate_jaccard(marks, marks)
    assert np.array_equal(shares, shares.T)
    assert (np.diag(shares) == 1).all()
    assert ((shares >= 0) & (shares <= 1)).all()


@given(st.integers(0, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_jaccard_is_the_naive_loop(n: int, m: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    a = chance.integers(0, 3, (n, PERMUTATIONS)).astype(np.uint32)
    b = chance.integers(0, 3, (m, PERMUTATIONS)).astype(np.uint32)
    naive = [[sum(x == y for x, y in zip(row, other, strict=True)) / PERMUTATIONS for other in b] for row in a]
    assert estimate_jaccard(a, b).dtype == np.float32
    assert np.allclose(estimate_jaccard(a, b), np.array(naive, dtype=np.float32).reshape(n, m))
