"""QMSum (Zhong et al. 2021): meetings, and queries about them with the spans of turns that answer.

A file is one meeting, or several as JSON lines or a list; a folder holds such files, or its authors' split `test`. A
general query is about the whole meeting and has no span: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, turn_key, write_lines


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file, a session and a project of each meeting; a turn's id is its place in the transcript, from 0."""
    documents: list[Path] = []
    questions: list[Question] = []
    general = wrong = 0
    for meeting, content in _read_meetings(path):
        turns = content["meeting_transcripts"]
        texts = [(entry.get("content") or "").strip() for entry in turns]
        lines = [
            {"session": meeting, "id": str(i), "speaker": turns[i]["speaker"], "text": text, "project": meeting}
            for i, text in enumerate(texts)
            if text
        ]
        documents.append(write_lines(folder / f"{len(documents):05}.jsonl", lines))
        general += len(content.get("general_query_list") or ())
        for entry in content.get("specific_query_list") or ():
            places, lost = _resolve(entry.get("relevant_text_span") or (), len(texts))
            wrong += lost
            gold = frozenset(turn_key(meeting, i) for i in places if texts[i])
            questions.append(Question(meeting, entry["query"], gold))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"general query": general} if general else {},
        count_note(wrong, "spans leave their transcript and were cut or dropped"),
    )


def _read_meetings(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and content of each; meetings of one file are numbered."""
    files = [path]
    if path.is_dir():
        path = path / "test" if (path / "test").is_dir() else path
        files = [path / "test.jsonl"] if (path / "test.jsonl").is_file() else []
        files = sorted(path.glob("*.json")) or files or sorted(path.glob("*.jsonl"))
        if not files:
            raise FileNotFoundError("no *.json and no *.jsonl")
    for file in files:
        contents = _read_contents(file)
        for i, content in enumerate(contents):
            yield (file.stem if len(contents) == 1 else f"{file.stem}-{i}"), content


def _read_contents(file: Path) -> list[dict[str, Any]]:
    raw = file.read_bytes()
    if file.suffix == ".jsonl":
        return [orjson.loads(line) for line in raw.splitlines() if line.strip()]
    content = orjson.loads(raw)
    return content if isinstance(content, list) else [content]


def _resolve(spans: Sequence[Sequence[str]], n: int) -> tuple[set[int], int]:
    """Return the turns within the spans, ends included, and the number of spans that leave n turns."""
    places: set[int] = set()
    wrong = 0
    for first, last in spans:
        low, high = sorted((int(first), int(last)))
        wrong += low < 0 or high >= n
        places.update(range(max(low, 0), min(high, n - 1) + 1))
    return places, wrong
