"""Sets that the ranker learns from."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.eval.sets.benchmark import Question
from pipelines.eval.sets.squad_pairs import join_words
from tests.support.benchmarks import convert, read_turns, write_json
from tests.support.paths import ROOT

DATA = ROOT / "pipelines" / "training" / "data" / "ranker"


def test_squad_pairs(tmp_path: Path) -> None:
    (tmp_path / "src-dev.txt").write_text("the lake -lrb- of X -rrb- is deep .\nit 's `` old '' .\nit 's `` old '' .\n")
    (tmp_path / "tgt-dev.txt").write_text("how deep ?\nis it old ?\nhow old is it ?\n")
    benchmark = convert("squad_pairs", tmp_path)
    assert [one["text"] for one in read_turns(benchmark)] == ["the lake (of X) is deep.", 'it\'s " old ".']
    gold = [frozenset({f"corpus/{i}\t{i}"}) for i in (0, 1, 1)]
    texts = ("how deep?", "is it old?", "how old is it?")
    assert benchmark.questions == tuple(map(Question, ["squad_pairs"] * 3, texts, gold))
    assert convert("squad_pairs", tmp_path / "src-dev.txt").questions == benchmark.questions


def test_words_are_joined_as_they_were_written() -> None:
    assert join_words("he did n't say : `` no '' , -lsb- 1 -rsb- for $ 5 !") == 'he didn\'t say: " no ", [1] for $5!'


def test_fairytaleqa(tmp_path: Path) -> None:
    for folder, name in (("questions", "fox-questions.csv"), ("section-stories", "fox-story.csv")):
        (tmp_path / folder / "train").mkdir(parents=True)
        rows = 'section,text\n1,"A fox, a hen."\n2,They part.\n3,\n'
        if folder == "questions":
            rows = "question_id,cor_section,attribute1,question\n1,1,character,Who are they?\n2,'1, 2',action,How?\n"
            rows = rows.replace("'", '"')
        (tmp_path / folder / "train" / name).write_text(rows)
    benchmark = convert("fairytaleqa", tmp_path)
    assert [(one["id"], one["text"]) for one in read_turns(benchmark)] == [("1", "A fox, a hen."), ("2", "They part.")]
    assert benchmark.questions == (
        Question("fox", "Who are they?", frozenset({"fox\t1"}), "character"),
        Question("fox", "How?", frozenset({"fox\t1", "fox\t2"}), "action"),
    )


def test_histories_set_the_rest_of_a_pair_aside(tmp_path: Path) -> None:
    benchmark = convert("histories", ROOT / "pipelines" / "eval" / "data" / "changes" / "dev", tmp_path)
    assert len(benchmark.documents) == 8
    known = {(one["session"], one["id"]) for one in read_turns(benchmark)}
    kinds = set()
    for question in benchmark.questions:
        kinds.add(question.kind)
        assert {tuple(key.split("\t")) for key in question.gold | question.related} <= known
        assert not question.gold & question.related
    assert kinds == {"now", "then", "why"}
    assert any(question.related for question in benchmark.questions)


def test_chats(tmp_path: Path) -> None:
    sessions = [
        {"date": "2025-03-02", "turns": [["Ana", "Hello."], ["Milo", "A hare!"]]},
        {"date": "2025-04-02", "turns": [["user", "Run it."], ["assistant", "It runs."]]},
    ]
    questions = [{"q": "What did Milo see?", "gold": ["1:2", "2:1"], "kind": "fact"}]
    write_json(tmp_path / "hares.json", {"speakers": [], "sessions": sessions, "questions": questions})
    benchmark = convert("chats", tmp_path)
    gold = frozenset({"hares/1\t1:2", "hares/2\t2:1"})
    assert benchmark.questions == (Question("hares", "What did Milo see?", gold, "fact"),)
    turns = read_turns(benchmark)
    assert [one.get("speaker") for one in turns] == ["Ana", "Milo", None, None]
    assert [one.get("role") for one in turns] == [None, None, "user", "assistant"]
    assert turns[1]["ts"] == "2025-03-02T09:02:00+00:00"


def test_worlds(tmp_path: Path) -> None:
    passages = [{"id": "p1", "title": "Oker", "text": "A river."}, {"id": "p2", "title": "Lin", "text": "On the Oker."}]
    write_json(tmp_path / "01.json", {"passages": passages, "questions": [{"q": "Where?", "gold": ["p1", "p2"]}]})
    benchmark = convert("worlds", tmp_path)
    gold = frozenset({"corpus/01/p1\t01/p1", "corpus/01/p2\t01/p2"})
    assert benchmark.questions == (Question("worlds", "Where?", gold),)
    assert [(one["title"], one["project"]) for one in read_turns(benchmark)] == [
        ("Oker", "worlds"), ("Lin", "worlds")
    ]  # fmt: skip


def test_the_written_sets_are_whole(tmp_path: Path) -> None:
    for name in ("chats", "worlds"):
        files = sorted((DATA / name).glob("*.json"))
        assert len(files) > 9
        benchmark = convert(name, DATA / name, tmp_path / name)
        known = {f"{one['session']}\t{one['id']}" for one in read_turns(benchmark)}
        asked = [(question.project, question.text) for question in benchmark.questions]
        assert len(set(asked)) == len(asked) > 400
        for question in benchmark.questions:
            assert question.gold
            assert question.gold <= known, question
        assert sum(len(json.loads(file.read_text())["questions"]) for file in files) == len(asked)
