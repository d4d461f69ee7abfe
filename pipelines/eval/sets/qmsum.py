"""QMSum (Zhong et al. 2021): meetings, and queries about them with the spans of turns that answer.

A file is one meeting, or several as JSON lines or a list; a folder holds such files, or the split `test` as its authors
lay it. A general query asks for the whole meeting and has no span: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, counted, turn, write


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """One file, one session and one project a meeting; a turn's id is its place in the transcript, from 0."""
    documents: list[Path] = []
    questions: list[Question] = []
    general = wrong = 0
    for meeting, content in _meetings(path):
        said = content["meeting_transcripts"]
        texts = [(entry.get("content") or "").strip() for entry in said]
        lines = [
            {"session": meeting, "id": str(i), "speaker": said[i]["speaker"], "text": text, "project": meeting}
            for i, text in enumerate(texts)
            if text
        ]
        documents.append(write(folder / f"{len(documents):05}.jsonl", lines))
        general += len(content.get("general_query_list") or ())
        for entry in content.get("specific_query_list") or ():
            places, lost = _places(entry.get("relevant_text_span") or (), len(texts))
            wrong += lost
            gold = frozenset(turn(meeting, i) for i in places if texts[i])
            questions.append(Question(meeting, entry["query"], gold))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"general query": general} if general else {},
        counted(wrong, "spans lie outside their transcript and were cut or dropped"),
    )


def _meetings(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of each; the names are told apart by a number where a file holds several."""
    files = [path]
    if path.is_dir():
        path = path / "test" if (path / "test").is_dir() else path
        files = [path / "test.jsonl"] if (path / "test.jsonl").is_file() else []
        files = sorted(path.glob("*.json")) or files or sorted(path.glob("*.jsonl"))
        if not files:
            raise FileNotFoundError("no *.json and no *.jsonl")
    for file in files:
        found = _contents(file)
        for i, content in enumerate(found):
            yield (file.stem if len(found) == 1 else f"{file.stem}-{i}"), content


def _contents(file: Path) -> list[dict[str, Any]]:
    raw = file.read_bytes()
    if file.suffix == ".jsonl":
        return [orjson.loads(line) for line in raw.splitlines() if line.strip()]
    found = orjson.loads(raw)
    return found if isinstance(found, list) else [found]


def _places(spans: Sequence[Sequence[str]], n: int) -> tuple[set[int], int]:
    """Turns within the spans, both ends included, and how many spans leave a transcript of n turns."""
    places: set[int] = set()
    wrong = 0
    for first, last in spans:
        low, high = sorted((int(first), int(last)))
        wrong += low < 0 or high >= n
        places.update(range(max(low, 0), min(high, n - 1) + 1))
    return places, wrong
