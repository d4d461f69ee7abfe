"""Tiny benchmark sets in their authors' layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.eval.sets.benchmark import Benchmark
from pipelines.eval.sets.registry import read_set


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def locomo(path: Path) -> Path:
    """Two conversations. In the second the answer comes last of seven long turns that all match."""

    def make_turn(speaker: str, turn: str, text: str, **more: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": turn, "text": text, **more}

    def ask(question: str, *evidence: str, category: int = 2) -> dict[str, Any]:
        return {"question": question, "answer": "", "evidence": list(evidence), "category": category}

    first = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            make_turn("Ana", "D1:1", "The zorblatt is in the shed."),
            make_turn("Bo", "D1:2", "A quibblex, quibblex and quibblex."),
            make_turn("Ana", "D1:3", "One quibblex went with the others to the old house by the lake."),
        ],
        "session_2_date_time": "12:09 am on 1 June, 2023",
        "session_2": [
            make_turn("Bo", "D2:1", "Look.", blip_caption="a photo of a wumpling"),
            make_turn("Ana", "D2:2", "Nice."),
        ],
        "session_3_date_time": "9:00 am on 2 June, 2023",
        "session_3": [],
    }
    questions = [
        ask("Zorblatt?", "D1:1"), ask("Wumpling or zorblatt?", "D1:1; D2:1"),
        ask("A wumpling?", "D2:1", "D2:2", category=4), ask("Quibblex?", "D1:3"),
        ask("Where did we leave our flimmern?", "D1:2"), ask("Nobody knows where.", "D"), ask("Nobody knows when."),
    ]  # fmt: skip
    long = [" ".join(["dromble"] * (8 - i) + ["tree"] * (130 + i)) for i in range(7)]
    second = {
        "session_1_date_time": "10:00 am on 3 July, 2023",
        "session_1": [make_turn("Cy", f"D1:{i + 1}", text) for i, text in enumerate(long)],
    }
    value = [
        {"sample_id": "conv-a", "conversation": first, "qa": questions},
        {"sample_id": "conv-b", "conversation": second, "qa": [ask("Dromble?", "D1:7")]},
    ]
    return write_json(path, value)


def beam(folder: Path) -> Path:
    def make_message(i: int, role: str, content: str, **more: str) -> dict[str, Any]:
        return {"id": i, "role": role, "content": content, **more}

    opening = [make_message(0, "user", "Where is the zorblatt? ->-> 1,1"), make_message(1, "assistant", "In the shed.")]
    later = [
        make_message(2, "user", "And now?", time_anchor="March-17-2024"), make_message(3, "assistant", "There still."),
    ]  # fmt: skip
    chat = [
        {"batch_number": 1, "time_anchor": "March-15-2024", "turns": [opening, later]},
        {"batch_number": 2, "turns": [make_message(4, "user", "Thanks.")]},
    ]
    probes = {
        "abstention": [{"question": "Who?", "source_chat_ids": []}, {"question": "What?"}],
        "ordering": [{"question": "Where was it?", "source_chat_ids": {"first": [[1]], "then": [3, 4]}}],
        "extraction": [{"question": "What was asked?", "source_chat_ids": [0, 99]}],
        "knowledge_update": [{"question": "Where is it?", "source_chat_ids": {"updated": [3], "original": [[1], 99]}}],
    }
    write_json(folder / "7" / "chat.json", chat)
    write_json(folder / "7" / "probing_questions" / "probing_questions.json", probes)
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
    write_json(folder / "tiny_corpus.json", corpus)
    return write_json(
        folder / "tiny.json", [{"id": "2hop__1_2", "question": "How deep is it?", "paragraphs": paragraphs}]
    ).parent


def convert(name: str, path: Path, folder: Path | None = None) -> Benchmark:
    """Read a set; its documents go below `folder`, or next to the set, which a test has made."""
    return read_set(name, path, folder or path.parent / f"{path.name}-converted")


def read_turns(benchmark: Benchmark) -> list[dict[str, Any]]:
    return [json.loads(line) for path in benchmark.documents for line in path.read_text().splitlines()]


def write_json_lines(path: Path, *values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values) + "\n")
    return path
