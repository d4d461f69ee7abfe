"""Benchmark sets in their authors' layouts, and the figures that come of them, checked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli import main
from helix.errors import InputRefused, UsageError
from helix.settings import load
from helix.snapshot.queries import Expansion
from helix.snapshot.reader import Snapshot
from helix.text import hash_terms, tokenise
from pipelines.evaluate import EXPANSIONS, bootstrap, evaluate, expansion, measure
from pipelines.sets import Benchmark, Question, read
from tests.tiny import make_store
from tests.unit.test_queries import publish

METRICS = ["any@10", "rec@10", "all@10", "mrr", "pack@1000", "low", "high"]


@pytest.fixture(scope="module", autouse=True)
def no_router(cache: Path) -> Iterator[None]:
    """Trained with every new store, in seconds, and no matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.commit.router", lambda *_: "not here")
        yield


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def lines(found: Benchmark) -> list[dict[str, Any]]:
    return [json.loads(line) for path in found.documents for line in path.read_text().splitlines()]


# ---------------------------------------------------------------- tiny sets


def locomo(path: Path) -> Path:
    """Two conversations. In the second the answer comes last of seven long turns that all match."""

    def says(speaker: str, turn: str, text: str, **more: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": turn, "text": text, **more}

    def asks(question: str, *evidence: str) -> dict[str, Any]:
        return {"question": question, "answer": "", "evidence": list(evidence), "category": 2}

    first = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            says("Ana", "D1:1", "The zorblatt is in the shed."),
            says("Bo", "D1:2", "A quibblex, quibblex and quibblex."),
            says("Ana", "D1:3", "One quibblex went with the others to the old house by the lake."),
        ],
        "session_2_date_time": "12:09 am on 1 June, 2023",
        "session_2": [says("Bo", "D2:1", "Look.", blip_caption="a photo of a wumpling"), says("Ana", "D2:2", "Nice.")],
        "session_3_date_time": "9:00 am on 2 June, 2023",
        "session_3": [],
    }
    asked = [
        asks("Zorblatt?", "D1:1"),
        asks("Wumpling or zorblatt?", "D1:1; D2:1"),
        asks("A wumpling?", "D2:1", "D2:2"),
        asks("Quibblex?", "D1:3"),
        asks("Where did we leave our flimmern?", "D1:2"),
        asks("Nobody knows where.", "D"),
        asks("Nobody knows when."),
    ]
    long = [" ".join(["dromble"] * (8 - i) + ["tree"] * (130 + i)) for i in range(7)]
    second = {
        "session_1_date_time": "10:00 am on 3 July, 2023",
        "session_1": [says("Cy", f"D1:{i + 1}", text) for i, text in enumerate(long)],
    }
    value = [
        {"sample_id": "conv-a", "conversation": first, "qa": asked},
        {"sample_id": "conv-b", "conversation": second, "qa": [asks("Dromble?", "D1:7")]},
    ]
    return written(path, value)


BY_WORDS = {
    # zorblatt; wumpling or zorblatt; a wumpling, of two turns; the second of two; in vain; beyond what is packed
    "any@10": (1 + 1 + 1 + 1 + 0 + 1) / 6,
    "rec@10": (1 + 1 + 1 / 2 + 1 + 0 + 1) / 6,
    "all@10": (1 + 1 + 0 + 1 + 0 + 1) / 6,
    "mrr": (1 + 1 + 1 + 1 / 2 + 0 + 1 / 7) / 6,
    "pack@1000": (1 + 1 + 1 / 2 + 1 + 0 + 0) / 6,
}


def beam(folder: Path) -> Path:
    def message(i: int, role: str, content: str, **more: str) -> dict[str, Any]:
        return {"id": i, "role": role, "content": content, **more}

    chat = [
        {
            "batch_number": 1,
            "time_anchor": "March-15-2024",
            "turns": [
                [message(0, "user", "Where is the zorblatt? ->-> 1,1"), message(1, "assistant", "In the shed.")],
                [message(2, "user", "And now?", time_anchor="March-17-2024"), message(3, "assistant", "There still.")],
            ],
        },
        {"batch_number": 2, "turns": [message(4, "user", "Thanks.")]},
    ]
    asked = {
        "abstention": [{"question": "Who?", "source_chat_ids": []}, {"question": "What?"}],
        "ordering": [{"question": "Where was it?", "source_chat_ids": {"first": [[1]], "then": [3, 4]}}],
        "extraction": [{"question": "What was asked?", "source_chat_ids": [0, 99]}],
    }
    written(folder / "7" / "chat.json", chat)
    written(folder / "7" / "probing_questions" / "probing_questions.json", asked)
    (folder / "empty").mkdir()
    return folder


def musique(folder: Path) -> Path:
    corpus = [
        {"title": "Lake", "text": "It is deep."},
        {"title": "House", "text": "It stands by the lake."},
        {"title": "Lake", "text": "Another one."},
    ]
    paragraphs = [
        {"title": "Lake", "paragraph_text": "Another one.", "is_supporting": True},
        {"title": "House", "paragraph_text": "It stands by the lake.", "is_supporting": True},
        {"title": "Lake", "paragraph_text": "It is deep.", "is_supporting": False},
    ]
    written(folder / "tiny_corpus.json", corpus)
    return written(
        folder / "tiny.json", [{"id": "2hop__1_2", "question": "How deep is it?", "paragraphs": paragraphs}]
    ).parent


# ---------------------------------------------------------------- conversion


def test_locomo(tmp_path: Path) -> None:
    found = read("locomo", locomo(tmp_path / "in.json"), tmp_path / "out")
    assert [path.name for path in found.documents] == ["conv-a.jsonl", "conv-b.jsonl"]
    turns = lines(found)
    assert [(turn["session"], turn["id"]) for turn in turns[:6]] == [
        ("conv-a/1", "D1:1"),
        ("conv-a/1", "D1:2"),
        ("conv-a/1", "D1:3"),
        ("conv-a/2", "D2:1"),
        ("conv-a/2", "D2:2"),
        ("conv-b/1", "D1:1"),
    ]
    assert [turn["ts"] for turn in turns[:4]] == [
        "2023-05-08T13:56:00+00:00",
        "2023-05-08T13:56:01+00:00",
        "2023-05-08T13:56:02+00:00",
        "2023-06-01T00:09:00+00:00",
    ]
    assert (turns[3]["speaker"], turns[3]["text"]) == ("Bo", "Look. [shares a photo of a wumpling]")
    assert {turn["project"] for turn in turns} == {"conv-a", "conv-b"}
    # Those without evidence that names a turn are no questions about the turns.
    assert [(q.project, q.text, q.gold, q.kind) for q in found.questions[:3]] == [
        ("conv-a", "Zorblatt?", {"conv-a/1\tD1:1"}, "2"),
        ("conv-a", "Wumpling or zorblatt?", {"conv-a/1\tD1:1", "conv-a/2\tD2:1"}, "2"),
        ("conv-a", "A wumpling?", {"conv-a/2\tD2:1", "conv-a/2\tD2:2"}, "2"),
    ]
    assert len(found.questions) == 6
    assert found.questions[-1].gold == {"conv-b/1\tD1:7"}


def test_beam(tmp_path: Path) -> None:
    found = read("beam", beam(tmp_path / "in"), tmp_path / "out")
    turns = lines(found)
    assert [(turn["session"], turn["id"], turn["role"]) for turn in turns] == [
        ("chat-7/1", "0", "user"),
        ("chat-7/1", "1", "assistant"),
        ("chat-7/1", "2", "user"),
        ("chat-7/1", "3", "assistant"),
        ("chat-7/2", "4", "user"),
    ]
    assert turns[0]["text"] == "Where is the zorblatt?"
    days = [turn["ts"][:10] for turn in turns]
    # The batch has an anchor; a turn may have its own; what has none is no earlier than what came before.
    assert days[0] == days[1] == "2024-03-15"
    assert days[2] == "2024-03-17"
    assert days[4] >= "2024-03-15"
    assert [(q.project, q.text, q.gold, q.kind) for q in found.questions] == [
        ("chat-7", "Where was it?", {"chat-7/1\t1", "chat-7/1\t3", "chat-7/2\t4"}, "ordering"),
        ("chat-7", "What was asked?", {"chat-7/1\t0"}, "extraction"),
    ]


@pytest.mark.parametrize("name", ["", "tiny.json"])
def test_musique(tmp_path: Path, name: str) -> None:
    folder = musique(tmp_path / "in")
    found = read("musique", folder / name, tmp_path / "out")
    passages = lines(found)
    assert [(one["id"], one["title"], one["text"]) for one in passages] == [
        ("0", "Lake", "It is deep."),
        ("1", "House", "It stands by the lake."),
        ("2", "Lake", "Another one."),
    ]
    assert len({one["session"] for one in passages}) == 3  # nothing joins two passages but what they say
    # Two passages share a title: the text tells which one supports the answer.
    assert found.questions == (
        Question("musique", "How deep is it?", frozenset({"corpus/1\t1", "corpus/2\t2"}), "2hop"),
    )


def nothing(path: Path) -> Path:
    return path / "missing"


def empty(path: Path) -> Path:
    path.mkdir()
    return path


def no_json(path: Path) -> Path:
    path.write_text("Where is the shed?")
    return path


def other_json(path: Path) -> Path:
    return written(path, {"questions": [1, 2]})


def other_list(path: Path) -> Path:
    return written(path, [{"sample_id": "a", "conversation": {"session_1": [{"text": "no date"}]}, "qa": []}])


def unasked(path: Path) -> Path:
    written(path / "1" / "chat.json", [])
    written(path / "x_corpus.json", [])
    written(path / "x.json", [{"id": "a", "question": "?", "paragraphs": [{"title": "t", "is_supporting": True}]}])
    return path


@pytest.mark.parametrize("name", ["locomo", "beam", "musique"])
@pytest.mark.parametrize("wrong", [nothing, empty, no_json, other_json, other_list, unasked])
def test_what_is_no_set_is_refused_in_one_line(name: str, wrong: Callable[[Path], Path], tmp_path: Path) -> None:
    path = wrong(tmp_path / "in")
    with pytest.raises(InputRefused) as refused:
        read(name, path, tmp_path / "out")
    assert str(path) in str(refused.value)
    assert "helix eval --help" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_set_without_gold_and_one_nobody_knows(tmp_path: Path) -> None:
    path = written(tmp_path / "in.json", [{"sample_id": "a", "conversation": {}, "qa": [{"question": "?"}]}])
    with pytest.raises(InputRefused, match="holds no question with gold turns"):
        read("locomo", path, tmp_path / "out")
    with pytest.raises(UsageError, match=r"no set 'squad'.*locomo, beam, musique"):
        read("squad", path, tmp_path / "out")


# ---------------------------------------------------------------- figures


def test_the_figures_of_given_answers() -> None:
    wanted = {"a": "ab", "b": "c", "c": "z", "d": "k"}
    questions = tuple(Question(None, text, frozenset(gold)) for text, gold in wanted.items())
    answers = {
        "a": (["x", "b", "y", "a"], {"a", "q"}),
        "b": (["c", "c2"], {"c"}),
        "c": ([], set()),
        "d": (list("abcdefghijk"), {"k"}),  # eleventh
    }
    row = measure(Benchmark((), questions), lambda question: answers[question.text])
    assert list(row) == METRICS
    assert [row[name] for name in METRICS[:5]] == [
        0.5,
        0.5,
        0.5,
        round((1 / 2 + 1 + 0 + 1 / 11) / 4, 4),
        round((1 / 2 + 1 + 0 + 1) / 4, 4),
    ]
    half = measure(Benchmark((), questions[:1]), lambda _: (["a"], {"b"}))
    assert (half["any@10"], half["rec@10"], half["all@10"], half["pack@1000"]) == (1, 0.5, 0, 0.5)


def test_the_interval_is_that_of_the_mean_and_always_the_same() -> None:
    values = np.array([1.0] * 50 + [0.0] * 50)
    low, high = bootstrap(values)
    assert bootstrap(values) == (low, high)
    width = 1.96 * 0.5 / 10  # of the normal approximation
    assert low == pytest.approx(0.5 - width, abs=0.015)
    assert high == pytest.approx(0.5 + width, abs=0.015)
    few, many = bootstrap(values[::10]), bootstrap(np.tile(values, 10))
    assert few[0] < low < many[0] < 0.5 < many[1] < high < few[1]
    assert bootstrap(np.full(7, 0.25)) == (0.25, 0.25)
    assert bootstrap(np.array([1.0])) == (1.0, 1.0)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Path, dict[str, Any]]:
    """(folder of the set and its store, the report)."""
    folder = tmp_path_factory.mktemp("eval")
    said: list[str] = []
    report = evaluate("locomo", locomo(folder / "in.json"), load(), store=folder / "store", say=said.append)
    assert said == ["12 turns, 12 new items, 6 questions"]
    return folder, report


def test_a_set_from_end_to_end(kept: tuple[Path, dict[str, Any]]) -> None:
    _, report = kept
    assert (report["set"], report["questions"], report["items"]) == ("locomo", 6, 12)
    assert list(report["rows"]) == ["dense", "bm25", "rrf", "helix", "helix-paper"]
    for row in report["rows"].values():
        assert list(row) == METRICS
        assert row["low"] <= row["rec@10"] <= row["high"]
    bm25 = report["rows"]["bm25"]
    assert {name: bm25[name] for name in BY_WORDS} == pytest.approx(BY_WORDS, abs=1e-4)
    # A project of fewer than ten turns comes back whole: the vectors of others do not crowd in.
    dense = report["rows"]["dense"]
    assert [dense[name] for name in METRICS[:3]] == [1, 1, 1]
    assert report["rows"]["rrf"]["any@10"] == 1
    assert report["rows"]["rrf"]["mrr"] >= bm25["mrr"]
    assert report["rows"]["helix"]["any@10"] >= bm25["any@10"]


def test_a_kept_store_is_used_again(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, report = kept
    generation = Snapshot(folder / "store").manifest.generation
    said: list[str] = []
    again = evaluate("locomo", folder / "in.json", load(), store=folder / "store", say=said.append)
    assert again == report
    assert said[0].startswith("0 turns, 0 new items")
    assert Snapshot(folder / "store").manifest.generation == generation


def test_the_command(
    kept: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    folder, report = kept
    given = ["eval", "locomo", str(folder / "in.json")]
    monkeypatch.setenv("HELIX_STORE", str(tmp_path / "mine"))
    assert main([*given, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == report  # from a store that is gone by now
    assert "12 new items" in shown.err
    assert not (tmp_path / "mine").exists()  # a benchmark is nobody's memory
    assert main([*given, "--store", str(folder / "store")]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0] == "locomo: 6 questions, 12 items"
    assert [line.split()[0] for line in table.splitlines()[2:]] == list(report["rows"])
    assert f"{report['rows']['bm25']['mrr']:.3f}" in table


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
    before = snap.expansion
    assert before is not None
    own = before.of(np.arange(8))
    with expansion(snap, "shuffled", tmp_path):
        after = snap.expansion
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
    assert snap.expansion is before
    assert snap.expansion.of(np.arange(8)) == own


def test_the_snapshot_is_as_it_was_whatever_happens(tmp_path: Path) -> None:
    make_store(tmp_path / "s", ["one", "two"])
    snap = publish(tmp_path / "s", 0, [0, 1], [["what is one"], ["what is two"]])
    before = snap.expansion
    for i, state in enumerate(EXPANSIONS):
        with suppress(ZeroDivisionError), expansion(snap, state, tmp_path / str(i)):
            assert (snap.expansion is before) == (state == "on")
            assert (snap.expansion is None) == (state == "off")
            raise ZeroDivisionError
        assert snap.expansion is before
    with expansion(snap, "shuffled", tmp_path / "two"):
        assert snap.expansion.of(np.arange(2)) == [["what is two"], ["what is one"]]


def test_what_a_model_wrote_is_measured_on_off_and_shuffled(
    kept: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, plain = kept
    path, root = folder / "in.json", tmp_path / "store"
    given = ["eval", "locomo", str(path), "--store", str(root), "--expansion"]
    assert main([*given, "on"]) == 2  # nobody was asked yet
    assert "helix expand" in capsys.readouterr().err
    snap = Snapshot(root)
    rows = np.arange(snap.rows)
    # The one question no turn shares a word with is what a model wrote for its answer; of every other one something.
    asked = [["flimmern"] if entry["text"].startswith("A quibblex") else ["marmot"] for entry in snap.text(rows)]
    publish(root, 0, rows.tolist(), asked)
    assert main([*given, "shuffled,off,on,shuffled", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    names = [name for name in found if name not in plain["rows"]]
    assert names == [f"helix, expansion {state}" for state in ("shuffled", "off", "on")]
    shuffled, off, on = (found[name] for name in names)
    assert on == found["helix"]  # as it is
    assert off == plain["rows"]["helix"]
    assert on["mrr"] > off["mrr"]
    assert shuffled["mrr"] < on["mrr"]
