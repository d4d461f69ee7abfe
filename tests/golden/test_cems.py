"""The recipe `cems`: every number by hand arithmetic, then whole recalls."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.encoders.token_counter import EstimatedCounter
from helix.errors import UsageError
from helix.ranking.rrf import rrf
from helix.recipes.cems import CemsProfile, is_pinned, recall
from helix.recipes.cems_formulas import (
    blend,
    diversify_sessions,
    fit,
    is_strong,
    mark_first,
    minmax,
    project_factor,
    rank_bonus,
    saturate,
    time_decay,
)
from helix.recipes.cems_intent import Intent, choose, classify
from helix.recipes.cems_pack import assemble
from helix.recipes.cems_wordings import expand, extract_topic, find_preferences, strip_question, write_hypothetical
from helix.recipes.load_profile import load, parse
from helix.sdk.memory import Memory
from helix.settings import load as settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.lexical import lexical_score
from helix.stages.pack import CLOSE, OPEN
from helix.stages.trace import Trace, why_not
from helix.types import Bundle
from pipelines.embedded.ingest import ingest
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, add_encoder, f32, make_store, read_reasons

DAY = 86_400
CEMS: CemsProfile = load("cems")
HYBRID = replace(CEMS, mode="hybrid")
VECTOR = replace(CEMS, mode="vector")
NAN = np.nan
NOW = datetime(2026, 2, 13, 9, tzinfo=UTC)
NO_MODELS: Any = SimpleNamespace()


def seeing(snap: Snapshot, vectors: Mapping[str, Sequence[float]], other: Sequence[float]) -> Snapshot:
    """Add an encoder that knows some texts, and has `other` for the rest."""
    return add_encoder(snap, lambda text: f32(*vectors.get(text, other)))


def ask(snap: Snapshot, text: str, profile: CemsProfile = CEMS, trace: Trace | None = None, **how: Any) -> Bundle:
    query = make_query(text, snap, SETTINGS, profile, **{"now": datetime.fromtimestamp(BASE, UTC), **how})
    return recall(query, snap, profile, trace or Trace(True), NO_MODELS)


def stage(found: Bundle, name: str) -> Mapping[str, Any]:
    one: Mapping[str, Any] = next(stage for stage in (found.trace or {})["stages"] if stage["stage"] == name)
    return one


def intent_of(text: str) -> Intent:
    return classify(text, NOW, (), CEMS.intent.simple, CEMS.intent.moderate)


def test_fused_ranks_and_a_bonus_for_the_first_three_places() -> None:
    how = CEMS.fuse
    weights = [how.weights["original"], how.weights["other"], how.weights["other"]]
    ranks = f32([1], [3], [2])  # of the question, an expansion and the hypothetical answer
    # The published example adds 1/61 for rank 3, and so has .1553; by its formula it is .1548.
    fused = rrf(ranks, weights, how.k) + rank_bonus(ranks, **how.bonus)
    assert fused[0] == pytest.approx(2 / 61 + 0.05 + 1 / 63 + 0.02 + 1 / 62 + 0.02, abs=1e-7)
    ranks = f32([1, 2, 3, 4, NAN])
    fused = rrf(ranks, [1.0], 60) + rank_bonus(ranks, 0.05, 0.02)
    assert fused.tolist() == pytest.approx([1 / 61 + 0.05, 1 / 62 + 0.02, 1 / 63 + 0.02, 1 / 64, 0], abs=1e-7)


def test_a_list_joins_vectors_at_seven_tenths_and_words_at_three(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["ferry", "boat", "ferry raft"], [[0.6, 0.8], [0.5, 0.866], [0, 1]])
    seeing(snap, {}, [1, 0])
    trace = Trace(True)
    ask(snap, "the ferry", HYBRID, trace)
    (leg,) = [one.leg for one in trace.retrieved if one.leg.name == "original"]
    scores = dict(zip(leg.rows.tolist(), leg.scores.tolist(), strict=True))
    words = [lexical_score(make_query("the ferry", snap, SETTINGS), snap.lexical, row, 1.2, 0.75) for row in (0, 2)]
    assert scores[0] == pytest.approx(max(0.7 * 0.6, 0.3 * words[0] / (1 + words[0])), abs=3e-3)  # .42
    assert scores[1] == pytest.approx(0.7 * 0.5, abs=3e-3)
    assert scores[2] == pytest.approx(0.3 * words[1] / (1 + words[1]), abs=1e-3)  # its cosine is 0
    assert leg.rows.tolist() == [0, 1, 2]


def test_fused_ranks_of_a_whole_recall(tmp_path: Path) -> None:
    # "ferry" is first of the question's list, and third of each other wording's: .7 · .2 = .14, boat .67, barge .58.
    texts = ["ferry", "boat", "barge", "raft"]
    snap = make_store(tmp_path, texts, [[1, 0, 0], [0, 1, 0], [0, 0.8, 0.6], [0, 0, 1]])
    seeing(snap, {"ferry timetable": [1, 0, 0]}, [0.2, 0.96, 0.1])
    trace = Trace(True)
    ask(snap, "ferry timetable", replace(HYBRID, lists=replace(CEMS.lists, weights={"vector": 1, "bm25": 0})), trace)
    assert trace.pool is not None
    at = trace.pool.row.tolist().index(0)
    ranks = {name: values[at] for name, values in trace.pool.ranks.items()}
    assert ranks == {"original": 1, "expansion 1": 3, "expansion 2": 3, "hyde": 3}
    assert trace.pool.signals["rrf"][at] == pytest.approx(2 / 61 + 0.05 + 3 * (1 / 63 + 0.02), abs=1e-6)


def test_a_strong_lexical_signal() -> None:
    top, gap = CEMS.strong.top, CEMS.strong.gap
    assert (top, gap) == (0.8, 0.3)
    assert saturate(f32(0, 1, 4)).tolist() == pytest.approx([0, 1 / 2, 4 / 5])
    assert is_strong(f32(0.8, 0.5), top, gap)
    assert not is_strong(f32(0.79, 0.1), top, gap)
    assert not is_strong(f32(0.9, 0.667), top, gap)
    assert is_strong(f32(0.9, 0.583), top, gap)
    assert is_strong(f32(0.85), top, gap)
    assert not is_strong(f32(), top, gap)


def test_where_the_words_leave_no_doubt_the_list_of_bm25_is_the_answer(tmp_path: Path) -> None:
    texts = ["zanzibar ferry timetable"] + [f"filler number {i}" for i in range(60)]
    snap = seeing(make_store(tmp_path, texts), {}, [0] * 60 + [1])
    trace = Trace(True)
    sure = ask(snap, "when does the zanzibar ferry timetable start", HYBRID, trace)
    assert stage(sure, "expand")["shortcut"] is True
    assert [one.text for one in sure.items] == texts[:1]  # and not what the vector is nearest to
    words = lexical_score(make_query("zanzibar ferry timetable start", snap, SETTINGS), snap.lexical, 0, 1.2, 0.75)
    assert sure.items[0].why["base"] == pytest.approx(words / (1 + words), abs=1e-5)
    assert [one.leg.name for one in trace.retrieved] == ["bm25"]
    unsure = ask(snap, "when was the filler number", HYBRID)
    assert stage(unsure, "expand")["shortcut"] is False
    assert "hyde" in unsure.items[0].why


PRIMARY = {
    "preference": [
        *("Which editor should I use?", "what is Priya's favourite food", "Recommend video editing resources?"),
        *("What should I cook?", "What cocktails might I enjoy?", "suggest a book"),
    ],
    "troubleshooting": ["why is the database locked", "How did we fix the login error?", "the build does not work"],
    "how-to": ["How do I deploy this app?", "steps to rotate the keys", "how to set up the proxy"],
    "recall": [
        *("What did I tell Priya about vacation?", "When did I start using TypeScript?", "remind me of the plan"),
        *("Where did we set the timeout?", "what did Marco say about Goa"),
    ],
    "factual": ["What's my database schema?", "Where is the blue box?", "Which camping trip happened first?", ""],
}


def test_primary_intent() -> None:
    found = {name: [text for text in texts if intent_of(text).primary == name] for name, texts in PRIMARY.items()}
    assert found == PRIMARY


def test_temporal_and_aggregating_questions() -> None:
    words = ("first", "last", "before", "after", "when")
    assert all(intent_of(f"which trip was {word} the other").temporal for word in words)
    assert not intent_of("which trip was it").temporal
    assert classify("the dinner on 7 May 2023", NOW, ((0, 1, 1.0),), 4, 8).temporal
    counting = ("How many doctors did I visit?", "list all the books I read", "Which of my friends ski?")
    assert all(intent_of(text).aggregation for text in counting)
    assert not intent_of("Which doctor did I visit?").aggregation
    kinds = [intent_of(text).kind for text in ("Recommend what to do first", "When was it?", "the blue box")]
    assert kinds == ["preference", "temporal", "ordinary"]


def test_complexity_counts_terms_and_conjunctions() -> None:
    assert intent_of("blue red green box").complexity == "simple"  # 4
    assert intent_of("blue red green wooden box").complexity == "moderate"  # 5
    assert intent_of("blue, red, green, wooden box").complexity == "moderate"  # 5 + 3
    assert intent_of("blue, red, green and wooden, iron box").complexity == "complex"  # 6 + 4


def test_domains_entities_and_reasoning() -> None:
    found = intent_of("Why does src/parse.py raise ValueError in Oslo?")
    assert found.domains == ("code", "places")
    assert {"src/parse.py", "ValueError", "Oslo"} <= set(found.entities)
    assert found.requires_reasoning
    assert not intent_of("the blue box").requires_reasoning
    assert intent_of("how many boxes").requires_reasoning


def test_the_route_of_an_intent() -> None:
    plain = Intent("factual", "simple", ("code",), ("x",), False)
    assert choose("auto", plain) == "vector"
    hybrid = {"complexity": "moderate", "requires_reasoning": True, "domains": ("code", "people")}
    for name, value in {**hybrid, "primary": "preference"}.items():
        assert choose("auto", plain._replace(**{name: value})) == "hybrid", name
    assert choose("auto", plain._replace(complexity="complex")) == "hybrid"
    for name in ("recall", "troubleshooting", "how-to"):
        assert choose("auto", plain._replace(primary=name)) == "vector"
    assert choose("vector", plain._replace(complexity="complex")) == "vector"
    assert choose("hybrid", plain) == "hybrid"


def test_the_mode_decides_which_lists_there_are(tmp_path: Path) -> None:
    snap = seeing(make_store(tmp_path, ["ferry", "boat"]), {}, [1, 0])
    every = {"dense", "original", "expansion 1", "expansion 2", "hyde"}
    wanted = {"vector": {"dense"}, "hybrid": every - {"dense"}, "auto": {"dense"}}
    lists = {name: set(ask(snap, "ferry", replace(CEMS, mode=name)).items[0].why) & every for name in wanted}
    assert lists == wanted
    asked = {name: set(ask(snap, "ferry", VECTOR, mode=name).items[0].why) & every for name in wanted}
    assert asked == wanted  # a call's mode comes before the profile's
    assert stage(ask(snap, "ferry"), "intent")["mode"] == "vector"
    assert stage(ask(snap, "why does the ferry wait?"), "intent")["mode"] == "hybrid"
    with pytest.raises(UsageError, match="unknown mode 'fast'"):
        ask(snap, "ferry", mode="fast")
    with pytest.raises(UsageError, match="the profile 'helix' has no mode"):
        make_query("ferry", snap, SETTINGS, load("helix"), mode="vector")


def test_topic_and_statement() -> None:
    assert extract_topic("What did I tell Priya about vacation?") == "Priya vacation"
    assert extract_topic("when?") == ""
    assert strip_question("Where did we set the visibility timeout?") == "we set the visibility timeout"
    assert strip_question("How many times was I late?") == "times was I late"
    assert strip_question("the blue box") == "the blue box"


MOST = CEMS.expand.most


def test_an_ordinary_question_gets_two_to_three_other_wordings() -> None:
    for text, wanted in (
        ("What's my database schema?", ["database schema", "my database schema", "database schema details"]),
        ("Where did we set the timeout?", ["set timeout", "we set the timeout", "set timeout details"]),
        ("ferry", ["ferry details", "notes on ferry"]),
        ("Where?", ["Where details", "notes on Where"]),
    ):
        assert expand(text, intent_of(text), (), [], MOST)[:3] == wanted, text


def test_a_temporal_question_gets_three_to_four() -> None:
    text = "Which camping trip happened first?"
    wanted = ["first camping trip date", "camping trip when", "camping trip started began"]
    assert expand(text, intent_of(text), (), [], MOST) == [*wanted, "camping trip timeline sequence"]
    may = int(datetime(2023, 5, 7, tzinfo=UTC).timestamp())
    found = expand("When was the dinner?", intent_of("When was the dinner?"), ((may, may + DAY - 1, 1.0),), [], MOST)
    assert found == ["dinner 7 May 2023", "dinner date", "dinner when", "dinner started began"]
    text = "Did I visit Goa before the move to Oslo?"  # both events
    assert expand(text, intent_of(text), (), [], MOST)[:2] == ["visit Goa date", "move Oslo date"]


def test_a_preference_gets_four_to_five_statements_of_a_user() -> None:
    text = "Which editor should I use?"
    said = [f"I prefer editor {i}" for i in range(9)]
    plain = ["I use editor", "my favourite editor", "editor I prefer", "I like editor", "I enjoy editor"]
    assert expand(text, intent_of(text), (), said, MOST) == said[:5]
    assert expand(text, intent_of(text), (), said[:1], MOST) == [said[0], *plain[:4]]
    assert expand(text, intent_of(text), (), [], MOST) == plain


def test_phrases_of_ones_own() -> None:
    texts = ["Honestly I prefer oat milk, always. I use vim", "I like it", "i PREFER OAT MILK", "They like tea"]
    texts.append("I'd like tea")
    assert find_preferences(texts, 5) == ["I prefer oat milk", "I use vim"]
    assert find_preferences(texts, 1) == ["I prefer oat milk"]


def test_a_hypothetical_answer_by_template() -> None:
    for text, said in (
        ("Where did we set the timeout?", "we set the timeout."),
        ("When did Ana move?", "Ana move last week."),
        ("What cocktails might I enjoy?", "I like cocktails might enjoy best."),
        ("Which editor should I use?", "I like editor best."),
        ("How many books did I read?", "There are several: books read."),
        ("what was the crash of the parser", "The problem was crash parser, and it is fixed now."),
        ("How do I deploy it?", "This is how I deploy it."),
    ):
        assert write_hypothetical(text, intent_of(text), ()) == said


def test_the_probe_reads_users_only(tmp_path: Path) -> None:
    texts = ["I prefer sourdough bread", "I prefer rye bread", "I use yeast for bread", "I like white bread"]
    given: list[dict[str, Any]] = [{}, {"role": "assistant"}, {"project": "q"}, {}]
    snap = seeing(make_store(tmp_path, texts, given=given, deleted={0: [3]}), {}, [1, 0, 0, 0])
    found = ask(snap, "Which bread should I buy?", HYBRID, project="p")
    queries = stage(found, "expand")["queries"]
    said = ["I prefer sourdough bread", "I use bread buy", "my favourite bread buy", "bread buy I prefer"]
    assert list(queries.values()) == [*said, "I like bread buy", "I like bread buy best."]
    assert list(queries) == [*(f"expansion {i}" for i in range(1, 6)), "hyde"]


def test_a_long_text_is_read_in_no_time() -> None:
    began = time.thread_time()
    for unit in ("a", "I prefer ", "what ", ",", "do ", " "):
        text = unit * (200_000 // len(unit))
        strip_question(text)
        extract_topic(text)
        find_preferences([text], 5)
        intent_of(text)
    assert time.thread_time() - began < 5


def test_minmax_and_blend_by_hand() -> None:
    assert minmax(f32(2, 4, 3)).tolist() == [0, 1, 0.5]
    assert minmax(f32(0.2, 0.2)).tolist() == [1, 1]  # the only answer is not the worst one
    assert minmax(f32()).tolist() == []
    assert blend(f32(1, 0), f32(0.4, 0.6), 0.5).tolist() == pytest.approx([0.7, 0.3])
    assert blend(f32(1, 0), None, 0.5).tolist() == [1, 0]


def test_time_decay_by_hand() -> None:
    left = time_decay(np.array([0, 60, 30, 180, -9.0]), CEMS.score.decay)
    assert left.tolist() == pytest.approx([1, 0.5, 1 / 1.5, 0.25, 1])


def test_project_factors() -> None:
    how = CEMS.score.project
    project = np.array([3, 1, 0, -1], np.int32)
    values = [how[name] for name in ("same", "other", "none")]
    assert project_factor(project, 3, 0, *values).tolist() == pytest.approx([1.3, 0.8, 0.9, 0.9])
    assert project_factor(project, 0, 0, *values).tolist() == pytest.approx([0.8, 0.8, 1.3, 0.9])
    assert project_factor(project, None, 0, *values).tolist() == [1, 1, 1, 1]


@pytest.fixture(scope="module")
def weighted_store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Four turns of the same words, one of them pinned and one of double priority; in two segments."""
    folder = tmp_path_factory.mktemp("weighed")
    base = {"role": "user", "speaker": "Ana", "ts": "2026-02-13T09:00:00Z", "project": "shed"}
    base |= {"id": "1", "text": "the ladder is behind the shed"}
    first = [{"session": "c", "priority": 2.0}, {"session": "d", "ts": "2025-12-15T09:00:00Z"}]
    second = [{"session": "a"}, {"session": "b", "pinned": True}]
    for name, some in (("one", first), ("two", second)):
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps({**base, **turn}) for turn in some))
        assert not ingest(folder / "store", [folder / f"{name}.jsonl"], settings()).refused
    return folder / "store"


def test_priority_age_pin_and_project_multiply_the_score(weighted_store: Path) -> None:
    memory = Memory(weighted_store)
    found = memory.recall("where is the ladder", profile="cems", project="shed", now="2026-02-13T09:00:00Z")
    by = {one.session: one for one in found.items}
    assert [one.session for one in found.items] == ["c", "b", "a", "d"]
    for session, factor in (("a", 1.0), ("b", 1.1), ("c", 2.0), ("d", 0.5)):
        one = by[session]
        assert one.score == pytest.approx(one.why["base"] * factor * 1.3, abs=1e-4), session
    assert {name: by["b"].why[name] for name in ("pinned", "priority", "project")} == pytest.approx(
        {"pinned": 1.1, "priority": 1.0, "project": 1.3}, abs=1e-6
    )
    assert by["d"].why["decay"] == pytest.approx(1 / (1 + 60 / 60), abs=1e-6)
    plain = memory.recall("where is the ladder", profile="cems", now="2026-02-13T09:00:00Z")
    assert {one.why["project"] for one in plain.items} == {1.0}


def test_which_rows_are_pinned(weighted_store: Path) -> None:
    snap = Memory(weighted_store).snapshot
    assert snap.manifest is not None
    sessions = [entry["session"] for entry in snap.text(np.arange(4))]
    assert len(snap.manifest.segments) == 2
    assert [name for name, held in zip(sessions, is_pinned(np.arange(4), snap), strict=True) if held] == ["b"]
    assert sessions.index("b") >= snap.manifest.segments[0].rows
    assert is_pinned(np.array([0, sessions.index("b")], np.uint32), snap).tolist() == [False, True]


def test_recently_used_items_are_not_old(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["ferry", "boat"], given=[{"time": BASE - 60 * DAY}, {"time": BASE - 60 * DAY}])
    snap.catalog.__dict__["last_access"] = np.array([BASE - 60 * DAY, BASE - DAY + 60])
    seeing(snap, {}, [0.8, 0.6])
    found = read_reasons(ask(snap, "ferry", VECTOR))
    assert (found["ferry"]["decay"], found["boat"]["decay"]) == (0.5, 1.0)  # whole days count


def test_the_threshold_is_on_the_blend(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["near", "far", "off"], [[0.31, 0.951, 0], [0.29, 0, 0.957], [-1, 0, 0]])
    seeing(snap, {}, [1, 0, 0])
    trace = Trace(True)
    found = ask(snap, "x", VECTOR, trace)
    assert [one.text for one in found.items] == ["near"]
    why = {row: why_not(f"{snap.lexical.key[row]:016x}", row, trace, found.items, found.packed) for row in (1, 2)}
    assert why[1].startswith("threshold: 0.286, and 0.3 is wanted")
    assert why[2].startswith("threshold: 0.000, and 0.3 is wanted")
    everything = replace(VECTOR, score=replace(CEMS.score, threshold=0.0))
    assert len(ask(snap, "x", everything).items) == 3


def test_half_the_fused_score_and_half_the_vector(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["ferry", "boat", "raft"], [[0.6, 0.8, 0], [0.5, 0, 0.866], [0.1, 0.995, 0]])
    seeing(snap, {"ferry": [1, 0, 0]}, [1, 0, 0])
    for one in ask(snap, "ferry", HYBRID).items:
        assert one.why["base"] == pytest.approx(0.5 * one.why["fused"] + 0.5 * one.why["vector"], abs=1e-5)
        assert one.score == pytest.approx(one.why["base"], abs=1e-4)
    assert read_reasons(ask(snap, "ferry", HYBRID))["ferry"]["base"] == pytest.approx(0.5 + 0.5 * 0.6, abs=0.01)


def test_the_best_piece_of_a_long_turn(tmp_path: Path) -> None:
    given = [{"turn": "t1"}, {"turn": "t1"}, {"turn": "t2"}]
    for i, one in enumerate(given):
        one["id"] = f"{i + 1:016x}"
    texts, vectors = ["piece one", "piece two", "another"], [[0.6, 0.8], [0.8, 0.6], [0.7, 0.714]]
    snap = make_store(tmp_path, texts, vectors, given=given)
    trace = Trace(True)
    found = ask(seeing(snap, {}, [1, 0]), "x", VECTOR, trace)
    assert [one.text for one in found.items] == ["piece two", "another"]
    lost = why_not(f"{snap.lexical.key[0]:016x}", 0, trace, found.items, found.packed)
    assert lost.startswith("document: a better piece of the same turn or section is kept")


def test_mmr_in_two_phases_by_hand() -> None:
    # λ = .6. First the best of sessions 7 and 8: .6 · 1, then .6 · .25 = .15. Then among all, of which the second is
    # .6 · .9 − .4 · .8 = .22 and the third .6 · .5 − .4 · .1 = .26.
    score, session = f32(2, 1.8, 1.0, 0.5), np.array([7, 7, 7, 8], np.int32)
    alike = np.eye(4, dtype=np.float32)
    alike[0, 1] = alike[1, 0] = 0.8
    alike[0, 2] = alike[2, 0] = 0.1
    assert diversify_sessions(score, alike, session, 0.6, 4).tolist() == [0, 3, 2, 1]
    assert diversify_sessions(score, alike, session, 1.0, 4).tolist() == [0, 3, 1, 2]
    assert diversify_sessions(score, alike, session, 0.6, 2).tolist() == [0, 3]
    assert diversify_sessions(score, alike, session, 0.6, 1).tolist() == [0]
    # Within the first phase, too: session 9 repeats 7 (.6 · .9 − .4 · .8 = .22), session 8 does not (.6 · .5 = .3).
    three = np.array([7, 9, 8], np.int32)
    assert diversify_sessions(score[:3], alike[:3, :3] * [[1, 1, 0], [1, 1, 0], [0, 0, 1]], three, 0.6, 3).tolist() == [
        *(0, 2, 1)
    ]
    assert diversify_sessions(f32(), np.empty((0, 0), np.float32), np.empty(0, np.int32), 0.6, 2).tolist() == []


def test_a_question_that_counts_looks_into_many_sessions(tmp_path: Path) -> None:
    given = [{"session": name} for name in "aaab"]
    vectors = [[0.95, 0.312], [0.94, 0.341], [0.93, 0.368], [0.6, 0.8]]
    snap = make_store(tmp_path, ["one", "two", "three", "four"], vectors, given=given)
    seeing(snap, {}, [1, 0])
    assert [one.text for one in ask(snap, "the walks", VECTOR, k=2).items] == ["one", "two"]
    trace = Trace(True)
    found = ask(snap, "how many walks", VECTOR, trace, k=2)
    assert [one.text for one in found.items] == ["one", "four"]
    assert [cut.why[0] for cut in trace.dropped if cut.stage == "mmr"] == [
        "it has 0.940, and 2 were chosen, the best of each session first"
    ]


def test_first_of_each_document_and_greedy_fit_by_hand() -> None:
    assert mark_first(["a", "b", "a", "c", "b"]).tolist() == [True, True, False, True, False]
    assert mark_first([]).tolist() == []
    assert fit([50, 60, 30, 20], 100) == [0, 2, 3]
    assert fit([101, 1], 100) == [1]
    assert fit([], 100) == []


def entry(text: str, i: int = 0) -> dict[str, Any]:
    return {"text": text, "session": "s", "turns": [str(i)], "speaker": "Ana", "time": NOW, "title": None}


def test_the_context_fills_the_budget_2000_tokens_by_default(tmp_path: Path) -> None:
    texts = [f"ferry {i} " + "word " * 140 for i in range(40)]
    snap = make_store(tmp_path, texts)
    found = ask(snap, "ferry", HYBRID, k=40)
    assert found.budget == 2000
    assert 1800 < found.tokens <= 2000
    assert 0 < len(found.packed) < 40
    for budget in (500, 4000):
        assert budget - 200 < ask(snap, "ferry", HYBRID, k=40, budget=budget).tokens <= budget
    for budget in range(40, 200):
        for length in range(8):
            context, tokens, _ = assemble([entry("x" * (90 + length), i) for i in range(4)], budget, EstimatedCounter())
            assert tokens <= budget, (budget, length)
            assert tokens == (EstimatedCounter()([context])[0] if context else 0)


def test_items_that_do_not_fit_are_skipped_and_traced(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["ferry " + "w" * 900, "ferry two"], [[1, 0], [0.9, 0.436]])
    trace = Trace(True)
    found = ask(seeing(snap, {}, [1, 0]), "ferry", VECTOR, trace, budget=100)
    assert [one.text for one in found.packed] == ["ferry two"]
    lost = why_not(f"{snap.lexical.key[0]:016x}", 0, trace, found.items, found.packed)
    assert lost.startswith("pack: no room for it in 100 tokens behind better ones")


def test_the_context_of_the_sample(sample_store: Path) -> None:
    found = Memory(sample_store).recall(
        "When did we tag release 0.8.0?", profile="cems", k=1, now="2026-03-01T00:00:00Z", explain=True
    )
    lines = [OPEN, "[2026-02-05 · Marco] (c2#c2:9)", "Release 0.8.0 is tagged, the changelog is on the wiki", CLOSE]
    assert found.context == "\n".join(lines)
    assert not found.degraded


def test_without_an_encoder_words_answer(tmp_path: Path) -> None:
    found = ask(make_store(tmp_path, ["ferry one", "ferry two", "boat"]), "ferry", VECTOR)
    assert {one.text for one in found.items} == {"ferry one", "ferry two"}
    assert found.degraded[0].startswith("dense: ")
    assert "vector" not in found.items[0].why
    assert min(one.why["base"] for one in found.items) == 0  # the last of two is no bad one


def test_a_filter_holds_in_every_list(tmp_path: Path) -> None:
    given = [{"project": "p"}, {"project": "q"}, {"project": "p"}]
    snap = make_store(tmp_path, ["ferry one", "ferry two", "ferry gone"], [[1, 0]] * 3, given=given, deleted={0: [2]})
    found = ask(seeing(snap, {}, [1, 0]), "when is the ferry", HYBRID, project="p")
    assert [one.text for one in found.items] == ["ferry one"]
    assert "expansion 1" in found.items[0].why


def test_five_items_where_the_caller_names_no_number(tmp_path: Path) -> None:
    snap = seeing(make_store(tmp_path, [f"ferry {i}" for i in range(90)], [[1, 0]] * 90), {}, [1, 0])
    assert [len(ask(snap, "ferry", VECTOR, k=k).items) for k in (None, 10, 60)] == [5, 10, 60]


def test_the_profile_says_every_number() -> None:
    how = CEMS.score
    assert (CEMS.mode, parse("mine", 'base = "cems"\nmode = "vector"').mode) == ("auto", "vector")
    assert (CEMS.fuse.k, dict(CEMS.fuse.weights)) == (60, {"original": 2.0, "other": 1.0})
    assert dict(CEMS.fuse.bonus) == {"first": 0.05, "third": 0.02}
    assert (how.fused, how.threshold, how.decay, how.pinned) == (0.5, 0.3, 60, 1.1)
    assert dict(how.project) == {"same": 1.3, "other": 0.8, "none": 0.9}
    assert (CEMS.limit, CEMS.assemble.lambda_) == (5, 0.6)
    assert dict(CEMS.lists.weights) == {"vector": 0.7, "bm25": 0.3}
    assert (dict(CEMS.expand.most), CEMS.expand.phrases) == ({"ordinary": 3, "temporal": 4, "preference": 5}, 5)
