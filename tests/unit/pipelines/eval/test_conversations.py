"""Benchmark sets of conversations: documents, questions, gold turns, and the questions left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks import beam, convert, locomo, read_turns, write_json, write_json_lines


def test_locomo(tmp_path: Path) -> None:
    benchmark = convert("locomo", locomo(tmp_path / "in.json"))
    assert [path.name for path in benchmark.documents] == ["conv-a.jsonl", "conv-b.jsonl"]
    turns = read_turns(benchmark)
    a, b, c = [("conv-a/1", f"D1:{i}") for i in (1, 2, 3)], [("conv-a/2", f"D2:{i}") for i in (1, 2)], "conv-b/1"
    assert [(turn["session"], turn["id"]) for turn in turns[:6]] == [*a, *b, (c, "D1:1")]
    first = [f"2023-05-08T13:56:0{i}+00:00" for i in range(3)]
    assert [turn["ts"] for turn in turns[:4]] == [*first, "2023-06-01T00:09:00+00:00"]
    assert (turns[3]["speaker"], turns[3]["text"]) == ("Bo", "Look. [shares a photo of a wumpling]")
    assert {turn["project"] for turn in turns} == {"conv-a", "conv-b"}
    # Questions without evidence that names a turn are left out.
    assert [(q.project, q.text, q.gold, q.kind) for q in benchmark.questions[:3]] == [
        ("conv-a", "Zorblatt?", {"conv-a/1\tD1:1"}, "temporal"),
        ("conv-a", "Wumpling or zorblatt?", {"conv-a/1\tD1:1", "conv-a/2\tD2:1"}, "temporal"),
        ("conv-a", "A wumpling?", {"conv-a/2\tD2:1", "conv-a/2\tD2:2"}, "single-hop"),
    ]
    assert (len(benchmark.questions), benchmark.questions[-1].gold) == (6, {"conv-b/1\tD1:7"})
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
    places = [("chat-7/1", str(i), ("user", "assistant")[i % 2]) for i in range(4)]
    assert [(turn["session"], turn["id"], turn["role"]) for turn in turns] == [*places, ("chat-7/2", "4", "user")]
    assert turns[0]["text"] == "Where is the zorblatt?"
    days = [turn["ts"][:10] for turn in turns]
    # The batch has an anchor; a turn may have its own; others keep the date before.
    assert days[0] == days[1] == "2024-03-15"
    assert days[2] == "2024-03-17"
    assert days[4] >= "2024-03-15"
    assert [(q.project, q.text, q.gold, q.kind) for q in benchmark.questions] == [
        ("chat-7", "Where was it?", {"chat-7/1\t1", "chat-7/1\t3", "chat-7/2\t4"}, "ordering"),
        ("chat-7", "What was asked?", {"chat-7/1\t0"}, "extraction"),
        ("chat-7", "Where is it?", {"chat-7/1\t1", "chat-7/1\t3"}, "knowledge_update"),
    ]
    assert [q.newest for q in benchmark.questions] == [None, None, "chat-7/1\t3"]
    assert benchmark.left_out == {"no gold turn": 2}
    assert benchmark.notes == ("2 source ids name no message and were dropped",)


def haystack(identity: str, sessions: list[list[dict[str, Any]]], **more: Any) -> dict[str, Any]:
    given = {
        "question_id": identity, "question_type": "single-session-user", "question": "Where is the zorblatt?",
        "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["s1", "s2", "s1"][: len(sessions)],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 10:00", "someday"][: len(sessions)],
        "haystack_sessions": sessions, "answer_session_ids": ["s2"],
    }  # fmt: skip
    return given | more


def make_turn(role: str, content: str, **more: bool) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_longmemeval(tmp_path: Path) -> None:
    chat = [make_turn("user", "Hello."), make_turn("assistant", " ")]
    chat.append(make_turn("user", "It is in the shed.", has_answer=True))
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
    places = "q1/s1 0, q1/s1 1, q1/s2 0, q1/s2 2, q1/s1#2 0, q1/s1#2 1, q2/s1 0, q2/s1 2, q2/s2 0"
    assert ", ".join(f"{turn['session']} {turn['id']}" for turn in turns[:9]) == places
    assert [turn["project"] for turn in turns[:9]] == ["q1"] * 6 + ["q2"] * 3
    times = [f"2023-05-{time}+00:00" for time in ("20T02:21:00", "20T02:21:01", "22T10:00:00", "22T10:00:02")]
    assert [turn.get("ts") for turn in turns[:5]] == [*times, None]
    first, second = benchmark.questions
    assert (first.project, first.gold, first.kind) == ("q1", {"q1/s2\t2"}, "single-session-user")
    assert first.at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert (second.gold, second.kind, second.at) == ({"q2/s1\t2"}, "multi-session", None)
    assert (benchmark.left_out, benchmark.notes) == ({"abstention": 1, "no gold turn": 1}, ())


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


def test_questions_of_locomo_with_a_wrong_gold_are_marked(tmp_path: Path) -> None:
    path = locomo(tmp_path / "in.json")
    conversations = json.loads(path.read_text())
    assert not any(question.doubted for question in convert("locomo", path).questions)
    conversations[0]["sample_id"] = "conv-26"
    path.write_text(json.dumps(conversations))
    asked = [entry["question"] for entry in conversations[0]["qa"]]
    marked = [asked.index(question.text) for question in convert("locomo", path).questions if question.doubted]
    assert marked == [i for i in (1, 4) if i < len(asked)]
    assert marked
