"""Benchmark sets in their authors' layouts: documents, questions, gold turns, and the questions left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helix.errors import InputRefused, UsageError
from pipelines.eval.sets.benchmark import Benchmark, Question
from pipelines.eval.sets.registry import SETS, read_set
from tests.support.benchmarks import beam, locomo, musique, write_json


def convert(name: str, path: Path) -> Benchmark:
    return read_set(name, path, path.parent / f"{path.name}-converted")


def read_turns(benchmark: Benchmark) -> list[dict[str, Any]]:
    return [json.loads(line) for path in benchmark.documents for line in path.read_text().splitlines()]


def write_json_lines(path: Path, *values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values) + "\n")
    return path


# ---------------------------------------------------------------- conversations


def test_locomo(tmp_path: Path) -> None:
    benchmark = convert("locomo", locomo(tmp_path / "in.json"))
    assert [path.name for path in benchmark.documents] == ["conv-a.jsonl", "conv-b.jsonl"]
    turns = read_turns(benchmark)
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
    # Questions without evidence that names a turn are left out.
    assert [(q.project, q.text, q.gold, q.kind) for q in benchmark.questions[:3]] == [
        ("conv-a", "Zorblatt?", {"conv-a/1\tD1:1"}, "temporal"),
        ("conv-a", "Wumpling or zorblatt?", {"conv-a/1\tD1:1", "conv-a/2\tD2:1"}, "temporal"),
        ("conv-a", "A wumpling?", {"conv-a/2\tD2:1", "conv-a/2\tD2:2"}, "single-hop"),
    ]
    assert len(benchmark.questions) == 6
    assert benchmark.questions[-1].gold == {"conv-b/1\tD1:7"}
    assert benchmark.left_out == {"no gold turn": 2}
    assert benchmark.notes == ("1 pieces of evidence name no turn and were dropped",)


def test_mistyped_evidence_of_locomo(tmp_path: Path) -> None:
    def ask(*evidence: str) -> dict[str, Any]:
        return {"question": " ".join(evidence), "evidence": list(evidence), "category": 9}

    talk = {
        f"session_{n}": [{"speaker": "Ana", "dia_id": f"D{n}:{i}", "text": "Yes."} for i in range(1, 7)]
        for n in (1, 11)
    }
    talk |= {f"session_{n}_date_time": "1:56 pm on 8 May, 2023" for n in (1, 11)}
    wrong = [ask("D:11:2"), ask("D1:02 D11:6"), ask("D1:7", "D1:6"), ask("D2:1"), ask("D", "D1:1; D11:1")]
    path = write_json(tmp_path / "in.json", [{"sample_id": "c", "conversation": talk, "qa": wrong}])
    benchmark = convert("locomo", path)
    assert {q.text: {one.partition("\t")[2] for one in q.gold} for q in benchmark.questions} == {
        "D:11:2": {"D11:2"},
        "D1:02 D11:6": {"D1:2", "D11:6"},
        "D1:7 D1:6": {"D1:6"},  # the known turn stays
        "D D1:1; D11:1": {"D1:1", "D11:1"},
    }
    assert benchmark.left_out == {"no gold turn": 1}
    assert benchmark.notes[0].startswith("3 pieces of evidence")  # D1:7, D2:1, D
    assert benchmark.questions[0].kind == "9"


def test_beam(tmp_path: Path) -> None:
    benchmark = convert("beam", beam(tmp_path / "in"))
    turns = read_turns(benchmark)
    assert [(turn["session"], turn["id"], turn["role"]) for turn in turns] == [
        ("chat-7/1", "0", "user"),
        ("chat-7/1", "1", "assistant"),
        ("chat-7/1", "2", "user"),
        ("chat-7/1", "3", "assistant"),
        ("chat-7/2", "4", "user"),
    ]
    assert turns[0]["text"] == "Where is the zorblatt?"
    days = [turn["ts"][:10] for turn in turns]
    # The batch has an anchor; a turn may have its own; others keep the date before.
    assert days[0] == days[1] == "2024-03-15"
    assert days[2] == "2024-03-17"
    assert days[4] >= "2024-03-15"
    assert [(q.project, q.text, q.gold, q.kind) for q in benchmark.questions] == [
        ("chat-7", "Where was it?", {"chat-7/1\t1", "chat-7/1\t3", "chat-7/2\t4"}, "ordering"),
        ("chat-7", "What was asked?", {"chat-7/1\t0"}, "extraction"),
    ]
    assert benchmark.left_out == {"no gold turn": 2}
    assert benchmark.notes == ("1 source ids name no message and were dropped",)


def haystack(identity: str, sessions: list[list[dict[str, Any]]], **more: Any) -> dict[str, Any]:
    given = {
        "question_id": identity,
        "question_type": "single-session-user",
        "question": "Where is the zorblatt?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1", "s2", "s1"][: len(sessions)],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 10:00", "someday"][: len(sessions)],
        "haystack_sessions": sessions,
        "answer_session_ids": ["s2"],
    }
    return given | more


def make_turn(role: str, content: str, **more: bool) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_longmemeval(tmp_path: Path) -> None:
    chat = [
        make_turn("user", "Hello."),
        make_turn("assistant", " "),
        make_turn("user", "It is in the shed.", has_answer=True),
    ]
    other = [make_turn("user", "Morning.", has_answer=False), make_turn("assistant", "Morning.", has_answer=False)]
    entries = [
        haystack("q1", [other, chat, other]),
        haystack("q2", [chat, other], question_date="no date", question_type="multi-session"),
        haystack("q3_abs", [chat]),
        haystack("q4", [other, other], answer_session_ids=[]),
    ]
    benchmark = convert("longmemeval", write_json(tmp_path / "in.json", entries))
    turns = read_turns(benchmark)
    # A session in two haystacks, and twice in one, stays distinct. An empty turn is left out, its number unused.
    assert [(turn["project"], turn["session"], turn["id"]) for turn in turns[:9]] == [
        ("q1", "q1/s1", "0"),
        ("q1", "q1/s1", "1"),
        ("q1", "q1/s2", "0"),
        ("q1", "q1/s2", "2"),
        ("q1", "q1/s1#2", "0"),
        ("q1", "q1/s1#2", "1"),
        ("q2", "q2/s1", "0"),
        ("q2", "q2/s1", "2"),
        ("q2", "q2/s2", "0"),
    ]
    assert [turn.get("ts") for turn in turns[:5]] == [
        "2023-05-20T02:21:00+00:00",
        "2023-05-20T02:21:01+00:00",
        "2023-05-22T10:00:00+00:00",
        "2023-05-22T10:00:02+00:00",
        None,
    ]
    first, second = benchmark.questions
    assert (first.project, first.gold, first.kind) == ("q1", {"q1/s2\t2"}, "single-session-user")
    assert first.at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert (second.gold, second.kind, second.at) == ({"q2/s1\t2"}, "multi-session", None)
    assert benchmark.left_out == {"abstention": 1, "no gold turn": 1}
    assert benchmark.notes == ()


def test_without_a_marked_turn_the_users_turns_of_the_answer_sessions_are_gold(tmp_path: Path) -> None:
    chat = [make_turn("user", "In the shed."), make_turn("assistant", "I see."), make_turn("user", "Or so.")]
    path = write_json(tmp_path / "in.json", [haystack("q", [chat, chat])])
    benchmark = convert("longmemeval", path)
    assert benchmark.questions[0].gold == {"q/s2\t0", "q/s2\t2"}
    assert benchmark.notes[0].startswith("1 questions have no marked turn")


def meeting(*spans: list[str], general: int = 1) -> dict[str, Any]:
    texts = ["Welcome.", "The zorblatt is late.", "", "We wait for it.", "Goodbye."]
    return {
        "topic_list": [{"topic": "zorblatt", "relevant_text_span": [["1", "3"]]}],
        "general_query_list": [{"query": "Sum it up.", "answer": "-"}] * general,
        "specific_query_list": [{"query": "What is late?", "answer": "-", "relevant_text_span": list(spans)}],
        "meeting_transcripts": [{"speaker": "Ana", "content": text} for text in texts],
    }


def qmsum_folder(folder: Path) -> Path:
    write_json(folder / "a.json", meeting(["1", "3"]))
    return write_json(folder / "b.json", meeting(["0", "0"], ["4", "9"])).parent


def qmsum_lines(folder: Path) -> Path:
    return write_json_lines(folder / "test.jsonl", meeting(["1", "3"]), meeting(["0", "0"], ["4", "9"]))


def qmsum_list(folder: Path) -> Path:
    return write_json(folder / "test.json", [meeting(["3", "1"]), meeting(["0", "0"], ["4", "9"])])


@pytest.mark.parametrize(
    ("lay", "names"),
    [(qmsum_folder, ("a", "b")), (qmsum_lines, ("test-0", "test-1")), (qmsum_list, ("test-0", "test-1"))],
)
def test_qmsum(lay: Callable[[Path], Path], names: tuple[str, str], tmp_path: Path) -> None:
    benchmark = convert("qmsum", lay(tmp_path / "in"))
    a, b = names
    turns = read_turns(benchmark)
    assert [(turn["project"], turn["session"], turn["id"]) for turn in turns] == [
        (name, name, i) for name in names for i in "0134"
    ]
    assert (turns[1]["speaker"], turns[1]["text"]) == ("Ana", "The zorblatt is late.")
    # Both ends of a span belong to it; a turn without words is no gold.
    assert [(q.project, q.text, q.gold) for q in benchmark.questions] == [
        (a, "What is late?", {f"{a}\t1", f"{a}\t3"}),
        (b, "What is late?", {f"{b}\t0", f"{b}\t4"}),
    ]
    assert benchmark.left_out == {"general query": 2}
    assert benchmark.notes == ("1 spans leave their transcript and were cut or dropped",)


def test_one_meeting_of_qmsum_in_a_file(tmp_path: Path) -> None:
    benchmark = convert("qmsum", write_json(tmp_path / "talk.json", meeting(["1", "1"])))
    assert [q.gold for q in benchmark.questions] == [{"talk\t1"}]


@pytest.mark.parametrize("name", ["test/a.json", "test.jsonl"])
def test_the_test_split_of_qmsum_is_asked(tmp_path: Path, name: str) -> None:
    for split in ("train", "val", "test"):
        write_json_lines(tmp_path / name.replace("test", split), meeting([str(len(split) - 1)] * 2))
    benchmark = convert("qmsum", tmp_path)
    assert [len(benchmark.documents), *(len(q.gold) for q in benchmark.questions)] == [1, 1]
    assert {one.partition("\t")[0] for one in benchmark.questions[0].gold} == {Path(name).stem}


# ---------------------------------------------------------------- multi-hop


@pytest.mark.parametrize("name", ["", "tiny.json"])
def test_musique(tmp_path: Path, name: str) -> None:
    folder = musique(tmp_path / "in")
    benchmark = convert("musique", folder / name)
    passages = read_turns(benchmark)
    assert [(one["id"], one["title"], one["text"]) for one in passages] == [
        ("0", "Lake", "It is deep."),
        ("1", "House", "It stands by the lake."),
        ("2", "Lake", "Another one."),
    ]
    assert len({one["session"] for one in passages}) == 3  # only words join two passages
    # Two passages share a title: the text decides which one supports the answer.
    assert benchmark.questions == (
        Question("musique", "How deep is it?", frozenset({"corpus/1\t1", "corpus/2\t2"}), "2hop"),
    )


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


# ---------------------------------------------------------------- retrieval


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
    assert [(one["id"], one["text"]) for one in read_turns(benchmark)] == [
        ("1", "a zorblatt  in a shed"),
        ("2", "another one"),
    ]
    assert [(q.text, q.gold) for q in benchmark.questions] == [
        ("WHERE IS IT", {"corpus/1\t1", "corpus/2\t2"}),
        ("WHAT ELSE", {"corpus/2\t2"}),
    ]


# ---------------------------------------------------------------- other data


def write_unasked(path: Path) -> None:
    write_json(path / "1" / "chat.json", [])
    write_json(path / "x_corpus.json", [])
    entry = {"id": "a", "question": "?", "paragraphs": [{"title": "t", "is_supporting": True}]}
    write_json(path / "x.json", [entry])


NO_DATE = [{"sample_id": "a", "conversation": {"session_1": [{"text": "no date"}]}, "qa": []}]

WRONG: dict[str, Callable[[Path], object]] = {
    "missing": bool,
    "empty": Path.mkdir,
    "no JSON": lambda path: path.write_text("Where is the shed?"),
    "other JSON": lambda path: write_json(path, {"questions": [1, 2]}),
    "other list": lambda path: write_json(path, NO_DATE),
    "unasked": write_unasked,
}


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
    assert len(benchmark.questions) == 5
    assert benchmark.left_out == {"no text": 1, "no gold turn": 2}
