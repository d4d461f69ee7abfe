"""The recipe `annie`: every number by hand arithmetic, then whole recalls."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.encoders.token_counter import EstimatedCounter
from helix.ranking.mmr import jaccard, mmr
from helix.recipes.annie import AnnieProfile, apply_decay, find_facts, fuse, is_evergreen, recall
from helix.recipes.annie_formulas import HEADING, briefing, bullet, decay
from helix.recipes.common import search_vectors
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import load as settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.stages.pack import CLOSE, OPEN
from helix.stages.route import route
from helix.stages.trace import Trace, measure, why_not
from helix.types import Bundle, Leg, Pool
from pipelines.embedded.ingest import ingest
from tests.support.paths import DATA
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, add_encoder, f32, make_store, read_reasons
from tests.support.tiny_facts import fact_store, item, state_fact

DAY = 86_400
ANNIE: AnnieProfile = load("annie")
NAN = np.nan
NO_MODELS: Any = SimpleNamespace()
PRIYA = [("person", "priya", "Priya")]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def ask(snap: Snapshot, text: str, profile: AnnieProfile = ANNIE, trace: Trace | None = None, **how: Any) -> Bundle:
    query = make_query(text, snap, SETTINGS, profile, **{"now": moment(BASE + DAY), **how})
    return recall(query, snap, profile, trace or Trace(True), NO_MODELS)


def bullets(found: Bundle) -> list[str]:
    heading, *lines = found.context.removeprefix(OPEN).removesuffix(CLOSE).strip().splitlines()
    assert heading == "Here's what you remember from recent conversations:"
    return lines


def test_three_lists_meet_in_one_pool(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["a", "b", "c"])
    lists = {"x": [0], "y": [2, 0], "z": [1, 0]}
    pool = fuse([Leg(name, np.array(rows, np.uint32), f32(*rows)) for name, rows in lists.items()], snap, 60)
    assert pool.row[0] == 0
    assert pool.final[0] == pytest.approx(1 / 61 + 1 / 62 + 1 / 62, abs=1e-8)
    assert set(pool.row[1:].tolist()) == {1, 2}  # 1/61 each: the smaller id first
    assert np.diff(snap.lexical.key[pool.row[1:]].astype(object))[0] > 0
    assert np.isnan(pool.ranks["x"][1:]).all()


def test_list_lengths(tmp_path: Path) -> None:
    facts = [[{"subject": "priya", "relation": f"r{i}", "object_": f"o{i}"}] for i in range(50)]
    snap = make_store(tmp_path, [f"priya {i}" for i in range(50)], facts=facts)
    add_encoder(snap, lambda _: f32(1, *[0] * 49))
    for k, wanted, items in ((None, (20, 10, 5), 5), (10, (40, 20, 10), 10), (1, (4, 2, 1), 1), (30, (50, 50, 30), 20)):
        trace = Trace(True)
        found = ask(snap, "Priya", trace=trace, k=k)
        lists = {one.leg.name: len(one.leg.rows) for one in trace.retrieved}
        assert lists == dict(zip(("bm25", "dense", "facts"), wanted, strict=True)), k
        assert len(found.items) == items, k  # of 20 candidates at most
        if k == 10:
            assert {one.leg.name: one.limit for one in trace.retrieved} == lists
    assert len(ask(snap, "Priya", replace(ANNIE, limit=7)).items) == 7


def test_decay_by_hand() -> None:
    ages, none = f32(0, 3, 30, 45, 120), f32(0, 0, 0, 0, 0)
    left = decay(ages, ANNIE.decay.half_life, none + f32(ANNIE.decay.other))
    assert left.tolist() == pytest.approx([1, 2 ** (-3 / 30), 0.5, 0.35355, 0.0625], abs=1e-5)
    green = decay(ages, ANNIE.decay.half_life, none + f32(ANNIE.decay.evergreen))
    assert green.tolist() == pytest.approx([1, 2 ** (-3 / 30), 0.5, 0.35355, 0.3], abs=1e-5)


def test_a_pool_fades_by_age_and_what_a_fact_brought_does_not(tmp_path: Path) -> None:
    days = (3, 120, 120, 0)
    given = [{"time": BASE - day * DAY} for day in days]
    snap = make_store(tmp_path, list("abcd"), given=given, mentions=[[], PRIYA, [], []])
    query = make_query("x", snap, SETTINGS, now=moment(BASE))
    score = f32(0.0325, 0.0325, 0.0325, 0.01)
    pool = Pool(np.arange(4, dtype=np.uint32), score, {"facts": f32(NAN, NAN, 1, NAN)}, {})
    faded = apply_decay(pool, query, snap, ANNIE.decay)
    final = dict(zip(faded.row.tolist(), faded.final.tolist(), strict=True))
    assert final == pytest.approx({0: 0.0325 * 2 ** (-3 / 30), 1: 0.0325 * 0.3, 2: 0.0325, 3: 0.01}, rel=1e-5)
    assert faded.row.tolist() == [2, 0, 3, 1]
    assert faded.signals["age_days"].tolist() == [0, 3, 0, 120]


def test_an_item_without_a_time_is_never_recent(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["ferry"], given=[{"time": None, "t_valid": BASE, "t_ingested": BASE}])
    found = ask(snap, "ferry", now=moment(BASE + 30 * DAY))
    assert found.items[0].why["decay"] == 0


def test_persons_places_and_relationships_are_evergreen(tmp_path: Path) -> None:
    texts = ["names another", "names herself", "names a file", "states a fact", "states one of a service", "a place"]
    ana = ("person", "ana", "Ana")
    mentions = [PRIYA, [ana], [("path", "a.py", "a.py")], [ana], [], [("place", "goa", "Goa")]]
    facts = [[], [], [], [{"subject": "ana", "relation": "r", "object_": "o"}], [], []]
    facts[4] = [{"subject": "billing", "relation": "r", "object_": "o"}]  # nothing names it as a person
    given = [{"speaker": "Ana"}] * 6
    snap = make_store(tmp_path, texts, mentions=mentions, facts=facts, given=given, cuts=[3])
    assert is_evergreen(np.arange(6), snap).tolist() == [True, False, False, True, False, True]
    assert is_evergreen(np.array([5, 2], np.uint32), snap).tolist() == [True, False]


def test_the_look_back_of_168_hours_is_of_bm25(tmp_path: Path) -> None:
    hours = (169, 168, 1, 500)
    given = [{"time": BASE - hour * 3600} for hour in hours]
    facts = [[], [], [], [{"subject": "priya", "relation": "likes", "object_": "tea"}]]
    snap = make_store(tmp_path, ["old ferry", "ferry week", "ferry new", "tea"], given=given, facts=facts)
    assert {one.text for one in ask(snap, "ferry", now=moment(BASE)).items} == {"old ferry", "ferry week", "ferry new"}
    trace = Trace(True)
    found = ask(snap, "Priya ferry", trace=trace, now=moment(BASE), look_back=168)
    assert {one.text for one in found.items} == {"ferry week", "ferry new", "tea"}  # facts have no window
    old = f"{snap.lexical.key[0]:016x}"
    reason = "retrieve: bm25 does not search it: 169 hours old, and the look-back is 168; facts finds nothing"
    assert why_not(old, 0, trace, found.items, found.packed).startswith(reason)
    stage = next(stage for stage in (found.trace or {})["stages"] if stage["stage"] == "look-back")
    assert (stage["rows_in"], stage["rows_out"]) == (4, 2)
    week = replace(ANNIE, look_back=168)
    assert {one.text for one in ask(snap, "ferry", week, now=moment(BASE)).items} == {"ferry week", "ferry new"}
    assert len(ask(snap, "ferry", week, now=moment(BASE), look_back=0).items) == 3


def test_the_look_back_keeps_the_other_filters(tmp_path: Path) -> None:
    given = [{"time": BASE, "project": "p"}, {"time": BASE, "project": "q"}, {"time": BASE, "project": "p"}]
    snap = make_store(tmp_path, ["ferry one", "ferry two", "ferry gone"], given=given, deleted={0: [2]})
    week = replace(ANNIE, look_back=168)
    assert [one.text for one in ask(snap, "ferry", week, now=moment(BASE), project="p").items] == ["ferry one"]


def test_facts_that_hold_of_whom_the_question_names(tmp_path: Path) -> None:
    said = [
        ("a", "priya", "likes", "tea", {"confidence": 0.6}),
        ("b", "omar", "friend", "priya", {"confidence": 0.9}),  # named as its object
        ("c", "omar", "likes", "jam", {"confidence": 1.0}),  # of somebody else
        ("d", "priya", "lives_in", "oslo", {"confidence": 0.8}),  # until the next one
        ("e", "priya", "lives_in", "rome", {"confidence": 0.7}),
        ("f", "priya", "owns", "a boat", {"closes": True}),
        ("g", "priya", "diet", "fish", {"until": BASE + 3600}),  # over by the time of asking
        ("h", "priya", "speaks", "dutch", {}),  # deleted
        ("i", "priya", "speaks", "greek", {}),  # of another project
    ]
    facts = [[{"subject": who, "relation": rel, "object_": what, **more}] for _, who, rel, what, more in said]
    facts[0] += [{"subject": "priya", "relation": "likes", "object_": "figs", "confidence": 0.3, "functional": False}]
    facts[0][0]["functional"] = False
    given: list[dict[str, Any]] = [{}] * 8 + [{"project": "q"}]
    snap = make_store(tmp_path, [name for name, *_ in said], facts=facts, given=given, deleted={0: [7]})
    query = make_query("and priya?", snap, SETTINGS, now=moment(BASE + DAY), project="p")
    chosen, weights = find_facts(query, snap, route(query, None, snap), 1)
    assert snap.facts.columns.row[chosen].tolist() == [1, 4, 0]  # one fact an item, its surest
    assert weights.tolist() == pytest.approx([0.9, 0.7, 0.6])
    # The second hop leads on from omar: what he likes, of confidence 1, weighs 1 / 2.
    chosen, weights = find_facts(query, snap, route(query, None, snap), 2)
    assert snap.facts.columns.row[chosen].tolist() == [1, 4, 0, 2]
    assert weights.tolist() == pytest.approx([0.9, 0.7, 0.6, 1 / 2])
    found = ask(snap, "and priya?", project="p")
    assert [one.why["facts"] for one in found.items] == [1, 2, 3, 4]
    # Before the move the first home held.
    early = make_query("and priya?", snap, SETTINGS, now=moment(BASE + 200), project="p")
    homes, _ = find_facts(early, snap, route(early, None, snap), 1)
    assert snap.facts.columns.row[homes].tolist() == [1, 3, 0]


def test_a_fact_comes_as_a_statement_where_no_words_found_it(tmp_path: Path) -> None:
    items = [
        item("I moved there last year", state_fact("ana", "lives_in", "Oslo"), speaker="Ana"),
        item("Omar said hello to Ana", state_fact("omar", "likes", "ana"), speaker="Omar"),
    ]
    snap = fact_store(tmp_path, items)
    found = ask(snap, "ana")
    assert set(bullets(found)) == {"- ana -> Oslo: lives in", '- Omar said: "Omar said hello to Ana"'}
    assert read_reasons(found)["I moved there last year"]["fact"] == "ana -> Oslo: lives in"
    plain = fact_store(tmp_path / "plain", items, plain=[0])
    said = {'- Ana said: "I moved there last year"', '- Omar said: "Omar said hello to Ana"'}
    assert set(bullets(ask(plain, "ana"))) == said


def test_a_fact_is_of_now(tmp_path: Path) -> None:
    facts = [[{"subject": "ana", "relation": "lives_in", "object_": "oslo"}], []]
    given = [{"time": BASE - 365 * DAY}, {"time": BASE - 365 * DAY}]
    snap = make_store(tmp_path, ["Ana has a flat", "Ana has a boat"], facts=facts, given=given)
    found = read_reasons(ask(snap, "ana", now=moment(BASE)))
    assert found["Ana has a flat"]["decay"] == 1
    assert found["Ana has a boat"]["decay"] < 0.001


def test_jaccard_by_hand() -> None:
    alike = jaccard(["a b c", "B c d", "e", "", ""])
    assert alike[0].tolist() == pytest.approx([1, 2 / 4, 0, 0, 0])
    assert alike[3].tolist() == [0, 0, 0, 0, 0]
    assert (alike == alike.T).all()
    assert jaccard([]).shape == (0, 0)


def test_mmr_by_hand() -> None:
    # λ = .7 on the raw score: .7 · .018 − .3 · 1 = −.2874; .7 · .01 = .007; .7 · .005 − .3 · .02 = −.0025.
    score, alike = f32(0.02, 0.018, 0.01, 0.005), np.eye(4, dtype=np.float32)
    alike[0, 1] = alike[1, 0] = 1
    alike[0, 3] = alike[3, 0] = 0.02
    assert mmr(score, alike, ANNIE.mmr.lambda_, 4).tolist() == [0, 2, 3, 1]
    alike[0, 2] = alike[2, 0] = 0.04  # .7 · .01 − .3 · .04 = −.005
    assert mmr(score, alike, 0.7, 3).tolist() == [0, 3, 2]
    alike[0, 2] = alike[2, 0] = 0.03  # −.002
    assert mmr(score, alike, 0.7, 3).tolist() == [0, 2, 3]
    assert mmr(score, alike, 1.0, 2).tolist() == [0, 1]
    assert mmr(score, alike, 0.7, 0).tolist() == mmr(f32(), np.empty((0, 0), np.float32), 0.7, 3).tolist() == []


def test_only_the_best_20_are_chosen_among(tmp_path: Path) -> None:
    facts = [[] for _ in range(20)] + [[{"subject": "ana", "relation": f"r{i}", "object_": "x"}] for i in range(5)]
    snap = make_store(tmp_path, [f"ferry {'x' * i}" for i in range(20)] + [f"other {i}" for i in range(5)], facts=facts)
    trace = Trace(True)
    found = ask(snap, "ferry ana", trace=trace)
    (rest,) = [cut for cut in trace.dropped if cut.why[0] == "behind the best 20, which alone are chosen among"]
    assert len(rest.rows) == 5
    assert len((found.trace or {})["candidates"]) == 25


def test_repeats_make_room(tmp_path: Path) -> None:
    texts = ["the ferry leaves at nine"] * 5 + ["ask Omar which ferry he takes home on Sundays, please"]
    snap = make_store(tmp_path, texts, given=[{"time": BASE}] * 6)
    trace = Trace(True)
    found = ask(snap, "ferry leaves", trace=trace)
    assert [one.text for one in found.items].index(texts[-1]) == 1
    left = [cut for cut in trace.dropped if cut.stage == "mmr"]
    assert left[0].why == ["not chosen; 1.00 of its words are those of one that was"]


def test_a_result_is_one_line_with_at_most_200_characters_of_text() -> None:
    assert bullet("", "Ana", "two\n lines", 200) == '- Ana said: "two lines"'
    exact = "x" * 200
    assert bullet("", "Ana", exact, 200) == f'- Ana said: "{exact}"'
    assert bullet("", "Ana", exact + "y", 200) == f'- Ana said: "{exact[:-1]}…"'
    assert bullet("y" * 201, "", "", 200) == f"- {'y' * 199}…"
    assert len(bullet("", "y" * 500, "hi", 200)) == len("- ") + 200 + len(' said: "hi"')


def test_a_briefing_has_at_most_2000_characters_and_the_budget() -> None:
    lines = [f"- {i} {'word ' * 30}".strip() for i in range(20)]
    count = EstimatedCounter()
    context, tokens, placed = briefing(lines, ANNIE.briefing.whole, 10_000, count)
    body = context.removeprefix(f"{OPEN}\n").removesuffix(f"\n{CLOSE}")
    assert body.splitlines() == [HEADING, *lines[: len(placed)]]
    assert len(body) <= 2000 < len(f"{body}\n{lines[len(placed)]}")
    assert tokens == count([context])[0]
    context, tokens, placed = briefing(lines, 2000, 150, count)
    assert tokens <= 150
    assert 0 < len(placed) < 5
    assert briefing(lines, 2000, 20, count) == briefing([], 2000, 2000, count) == ("", 0, [])


def test_the_trace_names_items_without_room_in_the_briefing(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [f"ferry {i} {'w' * 150}" for i in range(5)])
    trace = Trace(True)
    found = ask(snap, "ferry", trace=trace, budget=120)
    assert 0 < len(found.packed) < len(found.items) == 5
    assert found.tokens <= 120
    cut = next(cut for cut in trace.dropped if cut.stage == "pack")
    assert cut.why[0] == "the briefing has no room for it: 2000 characters, 120 tokens"
    assert len(cut.rows) == 5 - len(found.packed)


@pytest.fixture(scope="module")
def vacation(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    root = tmp_path_factory.mktemp("vacation") / "store"
    assert not ingest(root, [DATA / "annie_vacation.jsonl"], settings()).refused
    return root


def ask_vacation(root: Path, text: str, **how: Any) -> Bundle:
    return Memory(root).recall(text, profile="annie", now="2026-02-13T09:00:00Z", **how)


def test_the_vacation_question_of_the_sample(vacation: Path) -> None:
    found = ask_vacation(vacation, "What did I tell Priya about vacation?", project="trip")
    # By the scores alone the boss is second: .7 · .0292 − .3 · 2/20 = −.0096, Marco .7 · .0147 − .3 · 1/18 = −.0063.
    assert bullets(found) == [
        '- Ana said: "I told Priya we can do March for vacation"',
        '- Marco said: "March is fine, the house in Goa is free in the second half"',
        '- Ana said: "My boss signed it, I have two weeks of vacation from the 14th"',
        '- Ana said: "Then I look for flights, she wants the sea this time"',
    ]
    assert found.context == "\n".join([OPEN, HEADING, *bullets(found), CLOSE])
    march = found.items[0]
    assert (march.why["bm25"], march.why["dense"], march.why["facts"]) == (1, 1, None)
    assert march.why["entities"] == ["Ana", "Priya"]
    age = (datetime(2026, 2, 13, 9, tzinfo=UTC) - datetime(2026, 2, 10, 20, 31, tzinfo=UTC)).total_seconds() / DAY
    assert march.score == pytest.approx(2 / 61 * 2 ** (-age / 30), abs=1e-6)
    assert found.tokens <= found.budget
    assert not found.degraded


def test_facts_of_all_projects_count_without_a_project_filter(vacation: Path) -> None:
    found = ask_vacation(vacation, "What did I tell Priya about vacation?")
    home = next(one for one in found.items if one.why["facts"])
    assert home.text == "I live in Pune now"
    assert (home.why["facts"], home.why["age_days"], home.why["decay"]) == (1, 0, 1)  # half a year old, and of now
    ranks = [1 / (60 + home.why[name]) for name in ("bm25", "dense", "facts") if home.why[name]]
    assert home.score == pytest.approx(sum(ranks), abs=1e-6)
    assert home.why["fact"] == "Priya -> Pune: lives in"


def test_without_an_encoder_words_and_facts_answer(vacation: Path) -> None:
    assert ask_vacation(vacation, "Priya and vacation").items[0].why["dense"]
    query = make_query("Priya and vacation", Memory(vacation).snapshot, SETTINGS, now="2026-02-13T09:00:00Z")
    lost = Snapshot.open(vacation)  # as on a machine that lost the encoder's files
    assert lost.manifest is not None
    lost.files.manifest = replace(lost.manifest, lineage=replace(lost.manifest.lineage, encoder="0" * 16))
    found = recall(query, lost, ANNIE, Trace(), NO_MODELS)
    assert found.items
    assert "dense" not in found.items[0].why
    assert found.degraded[0].startswith("dense: ")


def test_the_profile_says_every_number() -> None:
    lists = ANNIE.lists
    assert (ANNIE.limit, ANNIE.k, ANNIE.look_back) == (5, 60, 0)
    assert (lists.bm25, lists.dense, lists.facts, lists.hops) == (4, 2, 1, 2)
    assert (ANNIE.decay.half_life, ANNIE.decay.evergreen, ANNIE.decay.other) == (30, 0.3, 0)
    assert (ANNIE.mmr.lambda_, ANNIE.mmr.pool) == (0.7, 20)
    assert (ANNIE.briefing.text, ANNIE.briefing.whole) == (200, 2000)


def test_the_lists_are_searched_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snap = add_encoder(make_store(tmp_path, ["ferry", "boat"]), lambda _: f32(1, 0))
    order: list[str] = []

    def start(work: Any, *args: Any, **more: Any) -> Any:
        order.append(f"start {args[0].__name__}" if work is measure else "start")
        return lambda: work(*args, **more)

    def search(*args: Any) -> Leg:
        order.append("dense")
        return search_vectors(*args)

    monkeypatch.setattr(type(snap), "start_work", property(lambda _: start))
    monkeypatch.setattr("helix.recipes.annie.search_vectors", search)
    assert ask(snap, "ferry").items
    assert order[:3] == ["start search_lexical", "start find_facts", "dense"]


def test_ids_are_the_tie_rule(tmp_path: Path) -> None:
    given = [{"id": hash_parts(name), "time": BASE} for name in "abcde"]
    snap = make_store(tmp_path, ["ferry"] * 5, given=given)
    trace = Trace(True)
    ask(snap, "ferry", replace(ANNIE, mmr=replace(ANNIE.mmr, lambda_=1.0)), trace)
    assert trace.pool is not None
    keys = snap.lexical.key[trace.pool.row].astype(object)
    assert (np.diff(keys) > 0).all()
