"""MuSiQue (Trivedi et al. 2022) in HippoRAG's layout: `X.json` holds the questions, `X_corpus.json` all passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from pipelines.sets import Benchmark, Question, turn

_SESSION = "corpus"


def convert(path: Path, folder: Path) -> Benchmark:
    """Every passage is a document of its own, with its title; `path` is the file of questions, or its folder."""
    if path.is_dir():
        found = [file for file in sorted(path.glob("*.json")) if file.with_stem(f"{file.stem}_corpus").is_file()]
        if not found:
            raise FileNotFoundError("no X.json beside its X_corpus.json")
        path = found[0]
    corpus = orjson.loads(path.with_stem(f"{path.stem}_corpus").read_bytes())
    place: dict[tuple[str, str], int] = {}
    target = folder / "passages.jsonl"
    with target.open("wb") as file:
        for i, passage in enumerate(corpus):
            place[passage["title"], passage["text"]] = i
            line = {
                "session": f"{_SESSION}/{i}",
                "id": str(i),
                "role": "document",
                "title": passage["title"],
                "text": passage["text"],
                "project": "musique",
            }
            file.write(orjson.dumps(line) + b"\n")
    questions = [_question(entry, place) for entry in orjson.loads(path.read_bytes())]
    return Benchmark((target,), tuple(questions))


def _question(entry: dict[str, Any], place: dict[tuple[str, str], int]) -> Question:
    supporting = [(one["title"], one["paragraph_text"]) for one in entry["paragraphs"] if one["is_supporting"]]
    gold = frozenset(turn(f"{_SESSION}/{place[key]}", place[key]) for key in supporting)
    return Question("musique", entry["question"], gold, entry["id"].split("__")[0])
