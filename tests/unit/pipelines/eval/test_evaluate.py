"""How a benchmark set is asked, and the figures that come of it, checked by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli.main import main
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.index.doc2query import Expansion
from helix.snapshot.reader.snapshot import Snapshot
from helix.text.tokenize import hash_terms, tokenise
from pipelines.eval.evaluate import EXPANSIONS, LEGS, asked_at, evaluate, expansion, ways
from pipelines.eval.score import BUDGETS, METRICS, Answer, gain, kinds, matrix, row, score, shortfalls, warnings
from pipelines.eval.sets.registry import Question
from tests.support.benchmarks import locomo, musique
from tests.support.tiny import make_store, memory_of
from tests.unit.snapshot.index.test_doc2query import publish

ROW = [*METRICS, "low", "high", "skipped", "short", "p50", "p95", "ci"]


@pytest.fixture(scope="module", autouse=True)
def no_router(cache: Path) -> Iterator[None]:
    """Trained with every new store, in seconds, and no matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.ingest.commit.load_router", lambda *_: "not here")
        yield


def timeless(rows: dict[str, Any]) -> dict[str, Any]:
    """Rows without what differs from run to run."""
    return {way: {name: row[name] for name in row if name not in ("p50", "p95")} for way, row in rows.items()}


BY_WORDS = {
    # zorblatt; wumpling or zorblatt; a wumpling, of two turns; the second of two; in vain; beyond what is packed
    "any@10": (1 + 1 + 1 + 1 + 0 + 1) / 6,
    "rec@10": (1 + 1 + 1 / 2 + 1 + 0 + 1) / 6,
    "all@10": (1 + 1 + 0 + 1 + 0 + 1) / 6,
    "mrr": (1 + 1 + 1 + 1 / 2 + 0 + 1 / 7) / 6,
    "pack@1000": (1 + 1 + 1 / 2 + 1 + 0 + 0) / 6,
}


# ---------------------------------------------------------------- figures


def asked(text: str, *gold: str, kind: str = "", grades: dict[str, float] | None = None) -> Question:
    return Question(None, text, frozenset(gold), kind, grades)


def answer(ranking: str, pack: str = "", skipped: bool = False, ms: float = 1.0) -> Answer:
    """Every letter is a turn; the smallest pack holds the first of `pack`, the largest all."""
    return Answer(list(ranking), {budget: set(pack[: i + 1]) for i, budget in enumerate(BUDGETS)}, skipped, ms)


QUESTIONS = (asked("1", "a", "b"), asked("2", "c"), asked("3", "z"), asked("4", "k"))
ANSWERS = (
    answer("xbya", "aqq", ms=1.0),
    answer("cd", "xxc", ms=2.0),
    answer("", skipped=True, ms=3.0),
    answer("abcdefghijklmnopqrstuvw", "k", ms=4.0),  # k comes eleventh
)


def test_the_figures_of_given_answers() -> None:
    values = matrix(QUESTIONS, ANSWERS)
    made = row(values, ANSWERS, [30, 2, 30, 30])
    assert list(made) == ROW
    by_hand = {
        **{"any@1": 1 / 4, "any@5": 2 / 4, "any@10": 2 / 4, "any@20": 3 / 4},
        **{"rec@1": 1 / 4, "rec@5": 2 / 4, "rec@10": 2 / 4, "rec@20": 3 / 4},
        **{"all@1": 1 / 4, "all@5": 2 / 4, "all@10": 2 / 4, "all@20": 3 / 4},
        "mrr": (1 / 2 + 1 + 0 + 1 / 11) / 4,
        "ndcg@10": ((1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3)) + 1) / 4,
        **{"pack@500": (1 / 2 + 1) / 4, "pack@1000": (1 / 2 + 1) / 4, "pack@2000": (1 / 2 + 1 + 1) / 4},
    }
    assert {name: made[name] for name in METRICS} == pytest.approx(by_hand, abs=1e-4)
    assert made["skipped"] == 1
    assert made["short"] == 2  # the first and the skipped one; of two turns, two are all there are
    assert (made["p50"], made["p95"]) == (2.5, 3.85)
    assert list(made["ci"]) == list(METRICS)
    assert all(low <= made[name] <= high for name, (low, high) in made["ci"].items())
    assert [made["low"], made["high"]] == made["ci"]["rec@10"]


def test_half_of_the_gold_and_grades() -> None:
    half = score(asked("?", "a", "b", grades={"a": 1.0, "b": 3.0}), answer("xa", "b"))
    assert (half["any@5"], half["rec@5"], half["all@5"], half["pack@500"]) == (1, 0.5, 0, 0.5)
    assert half["ndcg@10"] == pytest.approx((1 / np.log2(3)) / (3 + 1 / np.log2(3)))


def test_the_gain_is_over_the_better_leg_question_by_question() -> None:
    questions = [asked(str(i), "a") for i in range(20)]
    better = matrix(questions, [answer("a")] * 10 + [answer("xa")] * 4 + [answer("x")] * 6)
    worse = matrix(questions, [answer("a")] * 12 + [answer("x")] * 8)
    ours = matrix(questions, [answer("a")] * 15 + [answer("x")] * 5)
    found = gain(ours, {"dense": worse, "bm25": better})
    assert found["rec@10"][0] == pytest.approx(0.75 - 0.7)
    assert found["ndcg@10"][0] == pytest.approx(0.75 - (10 + 4 / np.log2(3)) / 20, abs=1e-4)
    assert found["over"] == {"rec@10": "bm25", "ndcg@10": "bm25"}
    # Only one question of twenty differs: the interval is that of the differences, not of two means.
    assert found["rec@10"][1] == 0
    assert found["rec@10"][2] < 0.2
    assert gain(better, {"dense": worse, "bm25": better})["rec@10"] == [0, 0, 0]


def test_kinds_of_questions() -> None:
    questions = [asked("1", "a", "b", kind="temporal"), asked("2", "a", kind="temporal"), asked("3", "c", kind="plain")]
    found = kinds(questions, matrix(questions, [answer("a"), answer("x"), answer("c")]))
    assert list(found) == ["plain", "temporal"]
    assert found["plain"] == {"questions": 1, "any@10": 1, "rec@10": 1, "low": 1, "high": 1}
    assert found["temporal"] == {"questions": 2, "any@10": 0.5, "rec@10": 0.25, "low": 0, "high": 0.5}
    assert kinds(QUESTIONS, matrix(QUESTIONS, ANSWERS)) == {}


def test_a_k_of_more_than_a_fifth_is_said() -> None:
    assert warnings([100, 5_000]) == []
    assert warnings([99, 100, 25]) == [
        "k = 10 is more than a fifth of the haystack for 1 of 3 questions (the smallest has 25 turns)",
        "k = 20 is more than a fifth of the haystack for 2 of 3 questions (the smallest has 25 turns)",
    ]


def test_rows_that_returned_too_few_are_named() -> None:
    assert shortfalls({"dense": {"short": 0}, "bm25": {"short": 2}, "helix": {"short": 1_000}}) == [
        "questions for which fewer than 20 turns came back: bm25 2, helix 1,000"
    ]
    assert shortfalls({"dense": {"short": 0}}) == []


# ---------------------------------------------------------------- from end to end


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Path, dict[str, Any]]:
    """(folder of the set and its store, the report)."""
    folder = tmp_path_factory.mktemp("eval")
    said: list[str] = []
    report = evaluate("locomo", locomo(folder / "in.json"), load(), store=folder / "store", say=said.append)
    assert said == ["12 turns, 12 new items, 6 questions"]
    return folder, report


@pytest.fixture(scope="module")
def opened(kept: tuple[Path, dict[str, Any]]) -> Memory:
    return Memory(kept[0] / "store", load())


def test_a_set_from_end_to_end(kept: tuple[Path, dict[str, Any]]) -> None:
    _, report = kept
    assert (report["set"], report["questions"], report["items"]) == ("locomo", 6, 12)
    assert list(report["rows"]) == ["dense", "bm25", "rrf", "helix", "helix-paper"]
    for one in report["rows"].values():
        assert [name for name in one if name != "gain"] == ROW
        assert one["low"] <= one["rec@10"] <= one["high"]
        assert 0 < one["p50"] <= one["p95"]
    assert [way for way, one in report["rows"].items() if "gain" in one] == ["helix", "helix-paper"]
    bm25 = report["rows"]["bm25"]
    assert {name: bm25[name] for name in BY_WORDS} == pytest.approx(BY_WORDS, abs=1e-4)
    # A project of fewer than ten turns comes back whole: the vectors of others do not crowd in.
    dense = report["rows"]["dense"]
    assert [dense[name] for name in ("any@10", "rec@10", "all@10")] == [1, 1, 1]
    assert report["rows"]["rrf"]["any@10"] == 1
    assert report["rows"]["rrf"]["mrr"] >= bm25["mrr"]
    assert report["rows"]["helix"]["any@10"] >= bm25["any@10"]


def test_what_else_a_report_says(kept: tuple[Path, dict[str, Any]]) -> None:
    _, report = kept
    assert report["haystacks"] == {"count": 2, "smallest": 5, "median": 5, "turns": 12}
    assert report["left_out"] == {"no gold turn": 2}
    assert report["notes"] == ["1 pieces of evidence name no turn and were dropped"]
    assert [line.partition(" is ")[0] for line in report["warnings"]] == ["k = 5", "k = 10", "k = 20"]
    assert "for 6 of 6 questions (the smallest has 5 turns)" in report["warnings"][0]
    assert {kind: one["questions"] for kind, one in report["kinds"].items()} == {"temporal": 5, "single-hop": 1}
    helix = report["rows"]["helix"]["rec@10"]
    assert sum(one["questions"] * one["rec@10"] for one in report["kinds"].values()) / 6 == pytest.approx(
        helix, abs=1e-3
    )
    assert report["made"]["encoder"] == "all-MiniLM-L6-v2"


def test_the_packs_are_those_of_a_recall_with_that_budget(tmp_path: Path) -> None:
    texts = [" ".join(["zorblatt", *(f"w{i}x{j}" for j in range(59))]) for i in range(50)]
    make_store(tmp_path / "s", texts)
    memory = memory_of(tmp_path / "s")
    question = Question("p", "Zorblatt?", frozenset({"s\tt3"}), at=asked_at(memory.snapshot, "p"))
    found = ways(memory, load())["helix"](question)
    for budget, k in ((500, 30), (1_000, 30), (2_000, 60)):
        bundle = memory.recall("Zorblatt?", project="p", k=k, budget=budget, now=question.at)
        assert found.packs[budget] == {f"{item.session}\t{one}" for item in bundle.packed for one in item.turns}
    assert 0 < len(found.packs[500]) < len(found.packs[1_000]) < len(found.packs[2_000])
    assert (len(found.ranking), len(set(found.ranking))) == (30, 30)
    assert found.ms > 0
    bm25 = ways(memory, load())["bm25"](question)
    assert [len(bm25.packs[budget]) for budget in BUDGETS] == [500 // 60, 1_000 // 60, 2_000 // 60]  # of 60 words each
    assert all(pack == set(bm25.ranking[: len(pack)]) for pack in bm25.packs.values())
    assert len(bm25.ranking) == 50


def test_a_question_is_asked_at_its_moment(opened: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    recall = opened.recall

    def watched(text: str, **given: Any) -> Any:
        seen.append(given["now"])
        return recall(text, **given)

    monkeypatch.setattr(opened, "recall", watched)
    moment = datetime(2024, 2, 1, 10, tzinfo=UTC)
    ways(opened, load())["helix"](Question("conv-a", "Zorblatt?", frozenset({"x"}), at=moment))
    assert set(seen) == {moment}
    # Where a set does not say, a day after the last turn: of that haystack, not of the store.
    assert asked_at(opened.snapshot, "conv-a") == datetime(2023, 6, 2, 0, 9, 1, tzinfo=UTC)
    assert asked_at(opened.snapshot, None) == datetime(2023, 7, 4, 10, 0, 6, tzinfo=UTC)


def test_pooled_rows_search_all_haystacks_at_once(kept: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, plain = kept
    path, store, runs = folder / "in.json", folder / "store", tmp_path / "runs.jsonl"
    pooled = ("dense", "bm25", "helix")
    report = evaluate("locomo", path, load(), store=store, pooled=pooled, runs=runs, say=lambda _: None)
    rows = report["rows"]
    assert list(rows) == [*plain["rows"], "dense pooled", "bm25 pooled", "helix pooled"]
    assert timeless({way: rows[way] for way in plain["rows"]}) == timeless(plain["rows"])
    assert "gain" in rows["helix pooled"]
    lines = [json.loads(line) for line in runs.read_text().splitlines()]
    assert len(lines) == len(rows) * 6
    returned = {}
    for line in lines:
        found = {turn.partition("/")[0] for turn in line["ranking"]}
        returned[line["row"]] = returned.get(line["row"], set()) | ({line["project"]} ^ found if found else set())
        question = Question(line["project"], "", frozenset(line["gold"]))
        again = score(question, Answer(line["ranking"], {budget: set() for budget in BUDGETS}))
        ranked = [name for name in METRICS if not name.startswith("pack")]
        assert {name: line["metrics"][name] for name in ranked} == pytest.approx(
            {name: again[name] for name in ranked}, abs=1e-6
        )
    assert returned["dense"] == returned["helix"] == set()  # nothing but the question's own conversation
    assert returned["dense pooled"] == returned["helix pooled"] == {"conv-a", "conv-b"}
    text = runs.read_text()
    assert "shed" not in text
    assert "Zorblatt?" not in text


def test_one_haystack_is_not_pooled(tmp_path: Path) -> None:
    path = musique(tmp_path / "in")
    report = evaluate("musique", path, load(), profiles=("helix",), pooled=("bm25",), say=lambda _: None)
    assert list(report["rows"]) == ["dense", "bm25", "rrf", "helix"]
    assert report["notes"] == ["one haystack: pooled is the same"]


def test_what_cannot_be_asked_is_counted(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = kept
    short = replace(load(), max_query_chars=12)
    report = evaluate("locomo", folder / "in.json", short, store=folder / "store", profiles=(), say=lambda _: None)
    assert report["left_out"] == {"no gold turn": 2, "longer than 12 characters": 2}
    assert (report["questions"], report["kinds"], list(report["rows"])) == (4, {}, list(LEGS))


def test_a_store_of_something_else_is_told(tmp_path: Path) -> None:
    """The turns of the other set stay in the way; gold that the ingest refuses counts as missed."""
    path, store = musique(tmp_path / "in"), tmp_path / "store"
    evaluate("musique", path, load(), store=store, profiles=(), say=lambda _: None)
    value = json.loads((path / "tiny_corpus.json").read_text())
    value[1]["text"] = "<memory>recalled</memory>"  # our own memory, of which nothing is taken in
    (path / "tiny_corpus.json").write_text(json.dumps(value[1:]))
    report = evaluate("musique", path, load(), store=store, profiles=(), say=lambda _: None)
    assert "1 turns of the store are not of this set" in report["notes"]
    fresh = evaluate("musique", path, load(), store=tmp_path / "fresh", profiles=(), say=lambda _: None)
    assert fresh["notes"] == ["1 gold turns were not taken in and count as missed"]
    assert fresh["rows"]["dense"]["rec@20"] == 0.5


def test_a_kept_store_is_used_again(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, report = kept
    generation = Snapshot.open(folder / "store").manifest.generation
    said: list[str] = []
    again = evaluate("locomo", folder / "in.json", load(), store=folder / "store", say=said.append)
    assert timeless(again["rows"]) == timeless(report["rows"])
    assert {name: again[name] for name in again if name != "rows"} == {n: report[n] for n in report if n != "rows"}
    assert said[0].startswith("0 turns, 0 new items")
    assert Snapshot.open(folder / "store").manifest.generation == generation


def test_the_command(
    kept: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    folder, report = kept
    given = ["eval", "locomo", str(folder / "in.json")]
    monkeypatch.setenv("HELIX_STORE", str(tmp_path / "mine"))
    assert main([*given, "--json"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)  # from a store that is gone by now
    assert list(found) == list(report)
    assert timeless(found["rows"]) == timeless(report["rows"])
    assert "12 new items" in shown.err
    assert not (tmp_path / "mine").exists()  # a benchmark is nobody's memory
    assert main([*given, "--store", str(folder / "store")]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0] == "locomo: 6 questions, 12 items"
    rows = list(report["rows"])
    assert [line.split()[0] for line in table.splitlines()[2:7]] == rows
    assert [line.split()[0] for line in table.splitlines()[8:13]] == rows
    assert f"{report['rows']['bm25']['mrr']:.3f}" in table
    ending = ["2 questions are left out: no gold turn", *report["notes"], *shortfalls(report["rows"])]
    assert len(ending) == 3
    assert table.splitlines()[-6:] == [*ending, *report["warnings"]]


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["squad", "in.json"], 2, "squad"),
        (["locomo"], 2, "PATH"),
        (["locomo", "in.json", "--expansion", "on,maybe"], 2, "on, off, shuffled"),
        (["locomo", "missing.json"], 3, "no locomo set"),
        (["musique", "."], 3, "no musique set"),
    ],
)
def test_wrong_use_of_the_command(
    given: list[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["eval", *given]) == status
    shown = capsys.readouterr()
    assert said in shown.err
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)


# ---------------------------------------------------------------- with and without expansions


ASKED = [["who sings", "who sings loudly"], ["what is beta"], [], ["where is gamma", "when", "why delta"], ["how"]]


def number(field: Expansion) -> int:
    return sum(map(len, field.of(np.arange(field.rows))))


def test_shuffled_questions_are_those_of_others(tmp_path: Path) -> None:
    make_store(tmp_path / "s", [f"item {i}" for i in range(8)], cuts=(5,), deleted={1: [2]})
    publish(tmp_path / "s", 0, [0, 1, 2, 3, 4], ASKED)
    snap = publish(tmp_path / "s", 1, [1, 2], [["who is left"], ["who is gone"]])
    before = snap.lexical.expansion
    assert before is not None
    own = before.of(np.arange(8))
    with expansion(snap, "shuffled", tmp_path):
        after = snap.lexical.expansion
        assert after is not None
        assert after is not before
        theirs = after.of(np.arange(8))
        asked = [0, 1, 2, 3, 4, 6]  # of the living
        assert sorted(theirs[row] for row in asked) == sorted(own[row] for row in asked)
        assert all(theirs[row] != own[row] for row in asked)
        assert number(after) == number(before) - 1  # but for what was asked of the one that is gone
        assert (after.looked.tolist(), after.live) == (before.looked.tolist(), before.live)
        (sings,) = hash_terms(tokenise("sings"))
        ((_, rows, _),) = after.term(sings)  # they are what is searched, too
        assert rows.tolist() == [row for row in range(8) if theirs[row] == own[0]] != [0]
    assert snap.lexical.expansion is before
    assert snap.lexical.expansion.of(np.arange(8)) == own


def test_the_snapshot_is_as_it_was_whatever_happens(tmp_path: Path) -> None:
    make_store(tmp_path / "s", ["one", "two"])
    snap = publish(tmp_path / "s", 0, [0, 1], [["what is one"], ["what is two"]])
    before = snap.lexical.expansion
    for i, state in enumerate(EXPANSIONS):
        with suppress(ZeroDivisionError), expansion(snap, state, tmp_path / str(i)):
            assert (snap.lexical.expansion is before) == (state == "on")
            assert (snap.lexical.expansion is None) == (state == "off")
            raise ZeroDivisionError
        assert snap.lexical.expansion is before
    with expansion(snap, "shuffled", tmp_path / "two"):
        assert snap.lexical.expansion.of(np.arange(2)) == [["what is two"], ["what is one"]]


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def test_what_a_model_wrote_is_measured_on_off_and_shuffled(
    kept: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, plain = kept
    path, root = folder / "in.json", tmp_path / "store"
    given = ["eval", "locomo", str(path), "--store", str(root), "--expansion"]
    assert main([*given, "on"]) == 2  # nobody was asked yet
    assert "helix expand" in capsys.readouterr().err
    snap = Snapshot.open(root)
    rows = np.arange(snap.rows)
    # The one question no turn shares a word with is what a model wrote for its answer; of every other one something.
    asked = [["flimmern"] if entry["text"].startswith("A quibblex") else ["marmot"] for entry in snap.text(rows)]
    publish(root, 0, rows.tolist(), asked)
    assert main([*given, "shuffled,off,on,shuffled", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    names = [name for name in found if name not in plain["rows"]]
    assert names == [f"helix, expansion {state}" for state in ("shuffled", "off", "on")]
    shuffled, off, on = (found[name] for name in names)
    found, own = timeless(found), timeless(plain["rows"])["helix"]
    assert found[names[2]] == without(found["helix"], "gain")  # as it is
    assert found[names[1]] == without(own, "gain")
    assert on["mrr"] > off["mrr"]
    assert shuffled["mrr"] < on["mrr"]


def test_a_sparse_encoder_has_a_row_of_its_own(
    tmp_path: Path, known_splade: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    """Named by the settings, it weighs the items first; the leg alone, and the default with it and without."""
    turns = ["My car is in the garage.", "Marco has skis.", "Walnut bread, olive oil.", "Priya booked a flight."]
    talk = [{"speaker": "Ana", "dia_id": f"D1:{i}", "text": text} for i, text in enumerate(turns, 1)]
    asked = [{"question": "automobile?", "answer": "", "evidence": ["D1:1"], "category": 2}]
    talk_of = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": talk}
    path = tmp_path / "in.json"
    path.write_text(json.dumps([{"sample_id": "a", "qa": asked, "conversation": talk_of}]))
    given = ["eval", "locomo", str(path), "--json", "--profile", "helix", "--sparse", "on,off"]
    assert main(given) == 2
    assert "no sparse encoder weighed these items" in capsys.readouterr().err
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", str(known_splade))
    assert main(given) == 0
    shown = capsys.readouterr()
    assert "4 items weighed by known-splade" in shown.err
    rows = json.loads(shown.out)["rows"]
    assert list(rows) == ["dense", "bm25", "rrf", "sparse", "helix", "helix, sparse on", "helix, sparse off"]
    assert (rows["bm25"]["mrr"], rows["sparse"]["mrr"]) == (0, 1)  # no word of the question is in any item
    assert rows["helix, sparse on"]["mrr"] == rows["helix"]["mrr"] == 1
    assert main([*given, "--sparse", "maybe"]) == 2
    assert "there are on, off" in capsys.readouterr().err
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", "not-there")
    assert main(given) == 4
    assert "no sparse encoder 'not-there'" in capsys.readouterr().err
