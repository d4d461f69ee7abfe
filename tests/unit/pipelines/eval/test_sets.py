"""Benchmark sets of multi-hop questions and of retrieval, and refused data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helix.errors import InputRefused, UsageError
from pipelines.eval.sets.benchmark import Question
from pipelines.eval.sets.registry import SETS
from tests.support.benchmarks import convert, locomo, musique, read_turns, write_json, write_json_lines


@pytest.mark.parametrize("name", ["", "tiny.json"])
def test_musique(tmp_path: Path, name: str) -> None:
    folder = musique(tmp_path / "in")
    benchmark = convert("musique", folder / name)
    passages = read_turns(benchmark)
    expected = [("0", "Lake", "It is deep."), ("1", "House", "It stands by the lake."), ("2", "Lake", "Another one.")]
    assert [(one["id"], one["title"], one["text"]) for one in passages] == expected
    assert len({one["session"] for one in passages}) == 3  # only words join two passages
    # Two passages share a title: the text decides which one supports the answer.
    gold = frozenset({"corpus/1\t1", "corpus/2\t2"})
    assert benchmark.questions == (Question("musique", "How deep is it?", gold, "2hop"),)


CONTEXT = [
    ["Lake", ["It is deep.", " Very deep."]],
    ["House", ["It stands.", " By the lake."]],
    ["Lake", ["Another one."]],
    ["Tree", ["Green."]],
]


@pytest.mark.parametrize("name", ["hotpotqa", "2wikimultihopqa"])
@pytest.mark.parametrize("joined", ["", " ", "dict"])
def test_supporting_titles(tmp_path: Path, name: str, joined: str) -> None:
    corpus: Any = [
        {"title": title, "text": joined.join(sentences), "idx": i} for i, (title, sentences) in enumerate(CONTEXT)
    ]
    if joined == "dict":  # as HotpotQA's corpus was published first
        corpus = {title: sentences for title, sentences in CONTEXT if sentences != ["Another one."]}
    facts = [["House", 0], ["Lake", 1], ["House", 1]]
    entry = {"_id": "x", "question": "How deep?", "type": "bridge", "supporting_facts": facts, "context": CONTEXT[:2]}
    write_json(tmp_path / f"{name}_corpus.json", corpus)
    write_json(tmp_path / f"{name}.json", [entry])
    benchmark = convert(name, tmp_path)
    assert benchmark.questions == (Question(name, "How deep?", frozenset({"corpus/0\t0", "corpus/1\t1"}), "bridge"),)
    assert {one["project"] for one in read_turns(benchmark)} == {name}
    if joined:
        assert read_turns(benchmark)[1]["text"] in ("It stands. By the lake.", "It stands.  By the lake.")


def test_a_folder_of_several_multi_hop_sets(tmp_path: Path) -> None:
    for name in ("hotpotqa", "musique_dev"):
        write_json(tmp_path / f"{name}_corpus.json", [{"title": name, "text": "Deep."}])
        paragraph = {"title": name, "paragraph_text": "Deep.", "is_supporting": True}
        write_json(tmp_path / f"{name}.json", [{"id": "2hop__1", "question": f"{name}?", "paragraphs": [paragraph]}])
    assert convert("musique", tmp_path).questions[0].text == "musique_dev?"
    assert convert("hotpotqa", tmp_path).questions[0].text == "hotpotqa?"
    with pytest.raises(InputRefused, match="holds several sets"):
        convert("2wikimultihopqa", tmp_path)


@pytest.mark.parametrize(
    ("corpus", "refused"),
    [
        ([{"title": "Barn", "text": "It is deep."}], True),  # another title
        ([{"title": "Lake", "text": "Reworded."}], False),  # one title
        ([{"title": "Lake", "text": "One."}, {"title": "Lake", "text": "Two."}], True),  # two of that title
        ([{"title": " lake", "text": "It is  deep. "}, {"title": "Lake", "text": "Two."}], False),
    ],
)
def test_a_gold_passage_that_is_not_in_the_corpus(tmp_path: Path, corpus: Any, refused: bool) -> None:
    paragraph = {"title": "Lake", "paragraph_text": "It is deep.", "is_supporting": True}
    write_json(tmp_path / "x_corpus.json", corpus)
    write_json(tmp_path / "x.json", [{"id": "2hop__1", "question": "?", "paragraphs": [paragraph]}])
    if refused:
        with pytest.raises(InputRefused, match="gold passage 'Lake' is not in the corpus"):
            convert("musique", tmp_path)
    else:
        assert convert("musique", tmp_path).questions[0].gold == {"corpus/0\t0"}


def beir(folder: Path, qrels: str = "qrels/test.tsv", head: str = "query-id\tcorpus-id\tscore\n") -> Path:
    write_json_lines(
        folder / "corpus.jsonl",
        {"_id": "MED-1", "title": "Shed", "text": "The zorblatt is in it."},
        {"_id": "2", "title": "", "text": "Another one."},
        {"_id": "3", "title": "Only a title", "text": ""},
        {"_id": "4", "title": "", "text": " "},
    )
    write_json_lines(folder / "queries.jsonl", *({"_id": f"q{i}", "text": f"Question {i}?"} for i in range(1, 5)))
    judged = ["q1\tMED-1\t2", "q1\t3\t1", "q1\t2\t0", "q1\t99\t1", "q3\t2\t1", "q4\t2\t0", "q4\t4\t1"]
    path = folder / qrels
    path.parent.mkdir(exist_ok=True)
    path.write_text(head + "\n".join(judged) + "\n")
    return folder


@pytest.mark.parametrize(
    ("qrels", "head"),
    [("qrels/test.tsv", "query-id\tcorpus-id\tscore\n"), ("qrels.tsv", ""), ("qrels/dev.tsv", "a\tb\tscore\n")],
)
def test_beir(tmp_path: Path, qrels: str, head: str) -> None:
    folder = beir(tmp_path / "in", qrels, head)
    if "/" in qrels:
        (folder / "qrels" / "train.tsv").write_text("q2\t2\t1\n")  # another split is not asked
    benchmark = convert("beir", folder)
    assert [(one["session"], one["id"], one.get("title"), one["text"]) for one in read_turns(benchmark)] == [
        ("corpus/MED-1", "MED-1", "Shed", "The zorblatt is in it."),
        ("corpus/2", "2", None, "Another one."),
        ("corpus/3", "3", "Only a title", "Only a title"),
    ]
    grades = {"corpus/MED-1\tMED-1": 2.0, "corpus/3\t3": 1.0}
    assert benchmark.questions == (
        Question("beir", "Question 1?", frozenset(grades), grades=grades),
        Question("beir", "Question 3?", frozenset({"corpus/2\t2"}), grades={"corpus/2\t2": 1.0}),
    )
    assert benchmark.left_out == {f"not judged in {Path(qrels).name}": 1, "no gold turn": 1}
    assert benchmark.notes == ("2 judgements name no document of the corpus and were dropped",)


def cranfield(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "cran.all.1400").write_text(
        ".I 1\n.T\na zorblatt in a\nshed .\n.A\nana,b.\n.B\nj. 1958.\n.W\na zorblatt in a\nshed .\n it is .5 deep .\n"
        ".I 2\n.T\n.A\n.B\n.W\n"
        ".I 3\n.T\nonly a title .\n.A\n.B\n.W\nonly a title .\n"
    )
    (folder / "cran.qry").write_text(".I 001\n.W\nwhere is\nit .\n.I 004\n.W\nwhat else .\n.I 365\n.W\nand now .\n")
    (folder / "cranqrel").write_text("1 1 1 \n1 3 4\n2 3 2\n2 1 -1\n2 2 3\n3 1 5\n")
    (folder / "cranqrel.readme").write_text("not judgements")
    return folder


@pytest.mark.parametrize("name", ["cranfield", "ir"])
def test_cranfield(tmp_path: Path, name: str) -> None:
    benchmark = convert(name, cranfield(tmp_path / "in"))
    assert [(one["id"], one["title"], one["text"]) for one in read_turns(benchmark)] == [
        ("1", "a zorblatt in a shed .", "it is .5 deep ."),  # its title is in the text once
        ("3", "only a title .", "only a title ."),
    ]
    # Judgements count the queries; code 1 is the best, 4 the least, and others are not relevant.
    assert [(q.project, q.text, q.grades) for q in benchmark.questions] == [
        (name, "where is it .", {"corpus/1\t1": 4.0, "corpus/3\t3": 1.0}),
        (name, "what else .", {"corpus/3\t3": 3.0}),
    ]
    assert [q.gold for q in benchmark.questions] == [{"corpus/1\t1", "corpus/3\t3"}, {"corpus/3\t3"}]
    assert benchmark.left_out == {"no gold turn": 1}
    assert benchmark.notes == ("1 judgements name no document with text and were dropped",)


def test_npl(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "doc-text").write_text("1\na zorblatt  in\na shed\n   /\n2\nanother one\n   /\n")
    (folder / "query-text").write_text("1\nWHERE IS IT\n/\n2\nWHAT\nELSE\n/\n")
    (folder / "rlv-ass").write_text("1\n    1     2\n   /\n2\n    2\n")  # the last lacks its slash
    benchmark = convert("npl", folder)
    expected = [("1", "a zorblatt  in a shed"), ("2", "another one")]
    assert [(one["id"], one["text"]) for one in read_turns(benchmark)] == expected
    both, second = {"corpus/1\t1", "corpus/2\t2"}, {"corpus/2\t2"}
    assert [(q.text, q.gold) for q in benchmark.questions] == [("WHERE IS IT", both), ("WHAT ELSE", second)]


def write_unasked(path: Path) -> None:
    write_json(path / "1" / "chat.json", [])
    write_json(path / "x_corpus.json", [])
    entry = {"id": "a", "question": "?", "paragraphs": [{"title": "t", "is_supporting": True}]}
    write_json(path / "x.json", [entry])


NO_DATE = [{"sample_id": "a", "conversation": {"session_1": [{"text": "no date"}]}, "qa": []}]

WRONG: dict[str, Callable[[Path], object]] = {
    "missing": bool, "empty": Path.mkdir, "no JSON": lambda path: path.write_text("Where is the shed?"),
    "other JSON": lambda path: write_json(path, {"questions": [1, 2]}),
    "other list": lambda path: write_json(path, NO_DATE), "unasked": write_unasked,
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_other_data_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    for case, write in WRONG.items():
        path = tmp_path / case
        write(path)
        with pytest.raises(InputRefused) as refused:
            convert(name, path)
        assert str(path) in str(refused.value), case
        assert "helix eval --help" in str(refused.value), case
        assert "\n" not in str(refused.value), case


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = beir(tmp_path / "in")
    (folder / missing).unlink()
    with pytest.raises(InputRefused, match=missing.replace(".", r"\.")):
        convert("beir", folder)


def test_a_set_without_gold_and_an_unknown_name_are_refused(tmp_path: Path) -> None:
    path = write_json(tmp_path / "in.json", [{"sample_id": "a", "conversation": {}, "qa": [{"question": "?"}]}])
    with pytest.raises(InputRefused, match="holds no question with gold turns"):
        convert("locomo", path)
    with pytest.raises(UsageError, match=r"no set 'squad'.*locomo, beam, .*musique"):
        convert("squad", path)


def test_a_question_without_words_is_left_out(tmp_path: Path) -> None:
    path = locomo(tmp_path / "in.json")
    value = json.loads(path.read_text())
    value[0]["qa"][0]["question"] = " \n"
    benchmark = convert("locomo", write_json(path, value))
    assert (len(benchmark.questions), benchmark.left_out) == (5, {"no text": 1, "no gold turn": 2})


def test_xquad_asks_every_language_in_every_other(tmp_path: Path) -> None:
    folder = tmp_path / "xquad"
    folder.mkdir()

    def write(language: str, texts: list[tuple[str, list[str]]]) -> None:
        paragraphs = [{"context": text, "qas": [{"question": one} for one in asked]} for text, asked in texts]
        content = {"data": [{"paragraphs": [paragraph]} for paragraph in paragraphs]}
        write_json(folder / f"xquad.{language}.json", content)

    write("de", [("Der See ist tief.", ["Wie tief?", "Wo?"]), ("Das Haus steht.", ["Was steht?", "Steht das Haus?"])])
    write("en", [("The lake is deep.", ["How deep?", "Where?"]), ("The house stands.", ["What stands?", "Does it?"])])
    benchmark = convert("xquad", folder)
    assert [one["project"] for one in read_turns(benchmark)] == ["xquad-de"] * 2 + ["xquad-en"] * 2
    asked = {(question.project, question.text, *question.gold, question.kind) for question in benchmark.questions}
    assert len(benchmark.questions) == 8
    assert ("xquad-en", "How deep?", "corpus/en/0\ten/0", "within a language") in asked
    assert ("xquad-de", "Does it?", "corpus/de/1\tde/1", "across languages") in asked  # the second question of a second
    write("en", [("The lake is deep.", ["How deep?"])])
    with pytest.raises(InputRefused, match="different numbers of paragraphs"):
        convert("xquad", folder)
