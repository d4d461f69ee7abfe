"""Tiny benchmark sets in their authors' layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def locomo(path: Path) -> Path:
    """Two conversations. In the second the answer comes last of seven long turns that all match."""

    def says(speaker: str, turn: str, text: str, **more: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": turn, "text": text, **more}

    def asks(question: str, *evidence: str, category: int = 2) -> dict[str, Any]:
        return {"question": question, "answer": "", "evidence": list(evidence), "category": category}

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
        asks("A wumpling?", "D2:1", "D2:2", category=4),
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
