"""The questions of a benchmark set through recall, and their figures, checked by hand."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from helix.cli.main import main
from helix.encoders.rerank import CrossEncoder
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.index import flat
from helix.snapshot.index.doc2query import QueryField
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.dense import search_dense_batch
from helix.text.tokenize import hash_terms, tokenise
from pipelines.eval import ways
from pipelines.eval.evaluate import Again, evaluate, find_last_moment
from pipelines.eval.score import BUDGETS, METRICS, RankedAnswer, list_shortfalls, score_answer
from pipelines.eval.sets.benchmark import Question
from pipelines.eval.ways import EXPANSIONS, LEGS, list_ways, override_expansion
from tests.support.benchmarks import locomo, musique
from tests.support.tiny import make_store, memory_of
from tests.support.tiny_sparse import read_export
from tests.unit.pipelines.eval.test_score import ROW
from tests.unit.snapshot.index.test_doc2query import write_index

pytestmark = pytest.mark.usefixtures("no_router")


def timeless(rows: dict[str, Any]) -> dict[str, Any]:
    """Rows without times, which differ from run to run."""
    return {way: {name: row[name] for name in row if name not in ("p50", "p95")} for way, row in rows.items()}


BY_WORDS = {
    # zorblatt; wumpling or zorblatt; a wumpling, of two turns; the second of two; in vain; beyond the pack
    "any@10": (1 + 1 + 1 + 1 + 0 + 1) / 6,
    "rec@10": (1 + 1 + 1 / 2 + 1 + 0 + 1) / 6,
    "all@10": (1 + 1 + 0 + 1 + 0 + 1) / 6,
    "mrr": (1 + 1 + 1 + 1 / 2 + 0 + 1 / 7) / 6,
    "pack@1000": (1 + 1 + 1 / 2 + 1 + 0 + 0) / 6,
}


Measured = tuple[Path, dict[str, Any]]
"""The folder of a set and its store, and the report."""


@pytest.fixture(scope="module")
def measurement(tmp_path_factory: pytest.TempPathFactory, no_router: None) -> Measured:
    folder = tmp_path_factory.mktemp("eval")
    lines: list[str] = []
    report = evaluate("locomo", locomo(folder / "in.json"), load(), store=folder / "store", say=lines.append)
    assert lines == ["12 turns, 12 new items, 6 questions"]
    return folder, report


def run(name: str, path: Path, **options: Any) -> dict[str, Any]:
    return evaluate(name, path, options.pop("settings", load()), say=lambda _: None, **options)


def test_a_set_from_end_to_end(measurement: Measured) -> None:
    _, report = measurement
    assert (report["set"], report["questions"], report["items"]) == ("locomo", 6, 12)
    assert list(report["rows"]) == ["dense", "bm25", "rrf", "helix", "helix-paper"]
    for row in report["rows"].values():
        assert [name for name in row if name != "gain"] == ROW
        assert row["low"] <= row["rec@10"] <= row["high"]
        assert 0 < row["p50"] <= row["p95"]
    assert [way for way, row in report["rows"].items() if "gain" in row] == ["helix", "helix-paper"]
    bm25, dense, rrf, helix = (report["rows"][way] for way in ("bm25", "dense", "rrf", "helix"))
    assert {name: bm25[name] for name in BY_WORDS} == pytest.approx(BY_WORDS, abs=1e-4)
    # A project of fewer than ten turns comes back whole: the vectors of others do not crowd in.
    assert [dense[name] for name in ("any@10", "rec@10", "all@10")] == [1, 1, 1]
    assert rrf["any@10"] == 1
    assert rrf["mrr"] >= bm25["mrr"]
    assert helix["any@10"] >= bm25["any@10"]
    # The remarks.
    assert report["haystacks"] == {"count": 2, "smallest": 5, "median": 5, "turns": 12}
    assert report["left_out"] == {"no gold turn": 2}
    assert report["notes"] == ["1 pieces of evidence name no turn and were dropped"]
    assert [line.partition(" is ")[0] for line in report["warnings"]] == ["k = 5", "k = 10", "k = 20"]
    assert "for 6 of 6 questions (the smallest has 5 turns)" in report["warnings"][0]
    assert list(report["sessions"]) == list(report["rows"])
    assert report["sessions"]["helix"]["any@10"] == 1
    assert report["sessions"]["bm25"]["rec@1"] <= report["sessions"]["bm25"]["rec@5"]
    assert report["sound"] == {}
    kinds = report["kinds"]
    assert {kind: row["questions"] for kind, row in kinds.items()} == {"temporal": 5, "single-hop": 1}
    mean = sum(row["questions"] * row["rec@10"] for row in kinds.values()) / 6
    assert mean == pytest.approx(helix["rec@10"], abs=1e-3)
    assert report["made"]["encoder"] == "all-MiniLM-L6-v2"


def test_a_gpu_searches_the_dense_legs_of_all_questions_at_once(
    measurement: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flat index on the CPU takes the place of the GPU. The figures are those of the CPU."""
    folder, expected = measurement
    batches: list[int] = []

    def watch(vectors: Any, *given: Any) -> Any:
        batches.append(len(vectors))
        return search_dense_batch(vectors, *given)

    def refuse(*_: object) -> None:
        raise AssertionError("one question was searched alone")

    monkeypatch.setattr(flat, "open_gpu", lambda: flat.Gpu(faiss.IndexFlatIP))
    monkeypatch.setattr(ways, "search_dense_batch", watch)
    monkeypatch.setattr(ways, "search_dense", refuse)
    settings = replace(load(), dense="gpu")
    report = run("locomo", folder / "in.json", settings=settings, store=folder / "store", pooled=("dense", "rrf"))
    assert batches == [6, 6]
    assert timeless({way: report["rows"][way] for way in expected["rows"]}) == timeless(expected["rows"])
    assert report["rows"]["dense"]["p50"] > 0
    assert {"dense pooled", "rrf pooled"} <= set(report["rows"])


def test_the_default_is_asked_again_in_the_best_quality(measurement: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ranker that prefers the last item: only the row that reads with it has its order."""
    folder, expected = measurement
    monkeypatch.setattr(CrossEncoder, "weigh", lambda _, question, texts: 99 * np.arange(len(texts), dtype=np.float32))
    report = run("locomo", folder / "in.json", store=folder / "store", profiles=("helix",), again=Again(best=True))
    rows = timeless(report["rows"])
    assert list(rows) == ["dense", "bm25", "rrf", "helix", "helix, best"]
    assert rows["helix"] == timeless(expected["rows"])["helix"]
    assert rows["helix, best"]["mrr"] < rows["helix"]["mrr"]


def test_one_question_to_two_haystacks_has_two_legs(measurement: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "open_gpu", lambda: flat.Gpu(faiss.IndexFlatIP))
    asked = [Question(project, "Zorblatt?", frozenset({"x"})) for project in ("conv-a", "conv-b")]
    rankings = []
    for settings in (replace(load(), dense="gpu"), load()):
        dense = list_ways(Memory(measurement[0] / "store", settings), settings, (), asked)["dense"]
        rankings.append([dense(question).ranking for question in asked])
    assert rankings[0] == rankings[1]
    assert rankings[0][0] != rankings[0][1]


def test_a_missing_gpu_is_reported_before_the_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("no GPU", "set HELIX_DENSE=cpu")

    monkeypatch.setattr(flat, "open_gpu", refuse)
    with pytest.raises(UsageError, match="no GPU"):
        run("locomo", locomo(tmp_path / "in.json"), settings=replace(load(), dense="gpu"), store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_the_packs_are_those_of_a_recall_with_that_budget(tmp_path: Path) -> None:
    texts = [" ".join(["zorblatt", *(f"w{i}x{j}" for j in range(59))]) for i in range(50)]
    make_store(tmp_path / "s", texts)
    memory = memory_of(tmp_path / "s")
    question = Question("p", "Zorblatt?", frozenset({"s\tt3"}), at=find_last_moment(memory.snapshot, "p"))
    answer = list_ways(memory, load())["helix"](question)
    for budget, k in ((500, 30), (1_000, 30), (2_000, 60)):
        bundle = memory.recall("Zorblatt?", project="p", k=k, budget=budget, now=question.at)
        assert answer.packs[budget] == {f"{item.session}\t{one}" for item in bundle.packed for one in item.turns}
    assert 0 < len(answer.packs[500]) < len(answer.packs[1_000]) < len(answer.packs[2_000])
    assert (len(answer.ranking), len(set(answer.ranking))) == (30, 30)
    assert answer.ms > 0
    bm25 = list_ways(memory, load())["bm25"](question)
    assert [len(bm25.packs[budget]) for budget in BUDGETS] == [500 // 60, 1_000 // 60, 2_000 // 60]  # of 60 words each
    assert all(pack == set(bm25.ranking[: len(pack)]) for pack in bm25.packs.values())
    assert len(bm25.ranking) == 50


def test_a_question_is_asked_at_its_moment(measurement: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(measurement[0] / "store", load())
    moments = []
    recall = memory.recall

    def watch(text: str, **options: Any) -> Any:
        moments.append(options["now"])
        return recall(text, **options)

    monkeypatch.setattr(memory, "recall", watch)
    moment = datetime(2024, 2, 1, 10, tzinfo=UTC)
    list_ways(memory, load())["helix"](Question("conv-a", "Zorblatt?", frozenset({"x"}), at=moment))
    assert set(moments) == {moment}
    # The default is a day after the last turn: of that haystack, not of the store.
    assert find_last_moment(memory.snapshot, "conv-a") == datetime(2023, 6, 2, 0, 9, 1, tzinfo=UTC)
    assert find_last_moment(memory.snapshot, None) == datetime(2023, 7, 4, 10, 0, 6, tzinfo=UTC)


def test_pooled_rows_search_all_haystacks_at_once(measurement: Measured, tmp_path: Path) -> None:
    folder, plain = measurement
    path, store, runs = folder / "in.json", folder / "store", tmp_path / "runs.jsonl"
    pooled = ("dense", "bm25", "helix")
    report = run("locomo", path, store=store, pooled=pooled, runs=runs)
    rows = report["rows"]
    assert list(rows) == [*plain["rows"], "dense pooled", "bm25 pooled", "helix pooled"]
    assert timeless({way: rows[way] for way in plain["rows"]}) == timeless(plain["rows"])
    assert "gain" in rows["helix pooled"]
    lines = [json.loads(line) for line in runs.read_text().splitlines()]
    assert len(lines) == len(rows) * 6
    returned: dict[str, set[str]] = {}
    for line in lines:
        projects = {turn.partition("/")[0] for turn in line["ranking"]}
        returned.setdefault(line["row"], set()).update({line["project"]} ^ projects if projects else ())
        question = Question(line["project"], "", frozenset(line["gold"]))
        again = score_answer(question, RankedAnswer(line["ranking"], {budget: set() for budget in BUDGETS}))
        ranked = [name for name in METRICS if not name.startswith("pack")]
        assert {name: line["metrics"][name] for name in ranked} == pytest.approx(
            {name: again[name] for name in ranked}, abs=1e-6
        )
    assert returned["dense"] == returned["helix"] == set()  # the question's own conversation only
    assert returned["dense pooled"] == returned["helix pooled"] == {"conv-a", "conv-b"}
    text = runs.read_text()
    assert "shed" not in text
    assert "Zorblatt?" not in text


def test_questions_that_recall_refuses_are_counted(measurement: Measured) -> None:
    folder, _ = measurement
    short = replace(load(), max_query_chars=12)
    report = run("locomo", folder / "in.json", settings=short, store=folder / "store", profiles=())
    assert report["left_out"] == {"no gold turn": 2, "longer than 12 characters": 2}
    assert (report["questions"], report["kinds"], list(report["rows"])) == (4, {}, list(LEGS))


def test_one_haystack_turns_of_another_set_and_gold_that_is_not_ingested_are_noted(tmp_path: Path) -> None:
    path, store = musique(tmp_path / "in"), tmp_path / "store"
    report = run("musique", path, store=store, profiles=("helix",), pooled=("bm25",))
    assert list(report["rows"]) == ["dense", "bm25", "rrf", "helix"]
    assert report["notes"] == ["one haystack: pooled is the same"]
    value = json.loads((path / "tiny_corpus.json").read_text())
    value[1]["text"] = "<memory>recalled</memory>"  # Helix's own output, which is never ingested
    (path / "tiny_corpus.json").write_text(json.dumps(value[1:]))
    report = run("musique", path, store=store, profiles=())
    assert "1 turns of the store are not of this set" in report["notes"]
    fresh = run("musique", path, store=tmp_path / "fresh", profiles=())
    assert fresh["notes"] == ["1 gold turns were not ingested and count as missed"]
    assert fresh["rows"]["dense"]["rec@20"] == 0.5


def test_a_retained_store_is_used_again(measurement: Measured) -> None:
    folder, report = measurement
    generation = Snapshot.open(folder / "store").manifest.generation
    lines: list[str] = []
    again = evaluate("locomo", folder / "in.json", load(), store=folder / "store", say=lines.append)
    assert timeless(again["rows"]) == timeless(report["rows"])
    assert {name: again[name] for name in again if name != "rows"} == {n: report[n] for n in report if n != "rows"}
    assert lines[0].startswith("0 turns, 0 new items")
    assert Snapshot.open(folder / "store").manifest.generation == generation


def test_the_command(measurement: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    folder, report = measurement
    given = ["eval", "locomo", str(folder / "in.json")]
    monkeypatch.setenv("HELIX_STORE", str(tmp_path / "mine"))
    assert main([*given, "--json"]) == 0
    output = capsys.readouterr()
    printed = json.loads(output.out)  # from a temporary store
    assert (list(printed), timeless(printed["rows"])) == (list(report), timeless(report["rows"]))
    assert "12 new items" in output.err
    assert not (tmp_path / "mine").exists()  # a benchmark is no memory
    assert main([*given, "--store", str(folder / "store")]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0] == "locomo: 6 questions, 12 items"
    rows = list(report["rows"])
    assert [line.split()[0] for line in table.splitlines()[2:7]] == rows
    assert [line.split()[0] for line in table.splitlines()[8:13]] == rows
    assert f"{report['rows']['bm25']['mrr']:.3f}" in table
    remarks = ["2 questions are left out: no gold turn", *report["notes"], *list_shortfalls(report["rows"])]
    assert (len(remarks), table.splitlines()[-6:]) == (3, [*remarks, *report["warnings"]])


def test_wrong_use_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, status, message in (
        ("squad in.json", 2, "squad"), ("locomo", 2, "PATH"), ("locomo missing.json", 3, "no locomo set"),
        ("musique .", 3, "no musique set"), ("locomo in.json --expansion on,maybe", 2, "on, off, shuffled"),
    ):  # fmt: skip
        assert main(["eval", *arguments.split()]) == status, arguments
        output = capsys.readouterr()
        assert message in output.err, arguments
        assert (output.out, len(output.err.splitlines())) == ("", 1), arguments


WRITTEN = [["who sings", "who sings loudly"], ["what is beta"], [], ["where is gamma", "when", "why delta"], ["how"]]


def count_queries(field: QueryField) -> int:
    return sum(map(len, field.questions_of(np.arange(field.rows))))


def test_shuffled_questions_are_those_of_other_items(tmp_path: Path) -> None:
    make_store(tmp_path / "s", [f"item {i}" for i in range(8)], cuts=(5,), deleted={1: [2]})
    write_index(tmp_path / "s", 0, [0, 1, 2, 3, 4], WRITTEN)
    snap = write_index(tmp_path / "s", 1, [1, 2], [["who is left"], ["who is gone"]])
    before = snap.lexical.expansion
    assert before is not None
    own = before.questions_of(np.arange(8))
    with override_expansion(snap, "shuffled", tmp_path):
        after = snap.lexical.expansion
        assert after is not None
        assert after is not before
        others = after.questions_of(np.arange(8))
        live = [0, 1, 2, 3, 4, 6]
        assert sorted(others[row] for row in live) == sorted(own[row] for row in live)
        assert all(others[row] != own[row] for row in live)
        assert count_queries(after) == count_queries(before) - 1  # without those of the deleted item
        assert (after.looked.tolist(), after.live) == (before.looked.tolist(), before.live)
        (sings,) = hash_terms(tokenise("sings"))
        ((_, rows, _),) = after.term(sings)  # searched as well
        assert rows.tolist() == [row for row in range(8) if others[row] == own[0]] != [0]
    assert snap.lexical.expansion is before
    assert snap.lexical.expansion.questions_of(np.arange(8)) == own


def test_the_snapshot_is_restored_after_an_error(tmp_path: Path) -> None:
    make_store(tmp_path / "s", ["one", "two"])
    snap = write_index(tmp_path / "s", 0, [0, 1], [["what is one"], ["what is two"]])
    before = snap.lexical.expansion
    for i, state in enumerate(EXPANSIONS):
        with suppress(ZeroDivisionError), override_expansion(snap, state, tmp_path / str(i)):
            assert (snap.lexical.expansion is before) == (state == "on")
            assert (snap.lexical.expansion is None) == (state == "off")
            raise ZeroDivisionError
        assert snap.lexical.expansion is before
    with override_expansion(snap, "shuffled", tmp_path / "two"):
        assert snap.lexical.expansion.questions_of(np.arange(2)) == [["what is two"], ["what is one"]]


def test_expansions_are_measured_on_off_and_shuffled(
    measurement: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, plain = measurement
    root = tmp_path / "store"
    given = ["eval", "locomo", str(folder / "in.json"), "--store", str(root), "--expansion"]
    assert main([*given, "on"]) == 2  # no item has expansions yet
    assert "helix expand" in capsys.readouterr().err
    snap = Snapshot.open(root)
    rows = np.arange(snap.rows)
    # One question shares no word with a turn; its answer gets that word as an expansion, the other turns another one.
    queries = [["flimmern"] if entry["text"].startswith("A quibblex") else ["marmot"] for entry in snap.text(rows)]
    write_index(root, 0, rows.tolist(), queries)
    assert main([*given, "shuffled,off,on,shuffled", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["rows"]
    names = [name for name in printed if name not in plain["rows"]]
    assert names == [f"helix, expansion {state}" for state in ("shuffled", "off", "on")]
    shuffled, off, on = (printed[name] for name in names)
    assert timeless({"on": on, "off": off}) == {
        state: {name: row[name] for name in row if name != "gain"}
        for state, row in timeless({"on": printed["helix"], "off": plain["rows"]["helix"]}).items()
    }
    assert on["mrr"] > off["mrr"]
    assert shuffled["mrr"] < on["mrr"]


def test_a_sparse_encoder_has_a_row_of_its_own(
    tmp_path: Path, known_splade: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    """It gives the items weights first; the leg alone, and the default with it and without."""
    turns = ["My car is in the garage.", "Marco has skis.", "Walnut bread, olive oil.", "Priya booked a flight."]
    talk = [{"speaker": "Ana", "dia_id": f"D1:{i}", "text": text} for i, text in enumerate(turns, 1)]
    question = {"question": "automobile?", "answer": "", "evidence": ["D1:1"], "category": 2}
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": talk}
    path = tmp_path / "in.json"
    path.write_text(json.dumps([{"sample_id": "a", "qa": [question], "conversation": conversation}]))
    given = ["eval", "locomo", str(path), "--json", "--profile", "helix", "--sparse", "on,off"]
    assert main(given) == 2
    assert "no sparse encoder weighed these items" in capsys.readouterr().err
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", str(read_export(known_splade)))
    assert main(given) == 0
    output = capsys.readouterr()
    assert "4 items weighed by known-splade" in output.err
    rows = json.loads(output.out)["rows"]
    assert list(rows) == ["dense", "bm25", "rrf", "sparse", "helix", "helix, sparse on", "helix, sparse off"]
    assert (rows["bm25"]["mrr"], rows["sparse"]["mrr"]) == (0, 1)  # no item has a word of the question
    assert rows["helix, sparse on"]["mrr"] == rows["helix"]["mrr"] == 1
    assert main([*given, "--sparse", "maybe"]) == 2
    assert "there are on, off" in capsys.readouterr().err
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", "not-there")
    assert main(given) == 4
    assert "no sparse encoder 'not-there'" in capsys.readouterr().err
