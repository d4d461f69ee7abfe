"""BEIR (Thakur et al. 2021): a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` or `qrels.tsv`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, counted, gold_passage, passage, write

_SPLITS = ("test", "dev", "validation", "train")


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Every document of the corpus is one of its own; scores above 0 are grades.

    A set may be split; the questions of the test split are asked, or of the first that is there.
    """
    qrels = _file(path)
    known = set()
    target = folder / "corpus.jsonl"

    def lines() -> Iterator[dict[str, Any]]:
        for entry in _records(path / "corpus.jsonl"):
            identity, title, text = _id(entry), (entry.get("title") or "").strip(), (entry.get("text") or "").strip()
            if (text or title) and identity not in known:
                known.add(identity)
                yield passage(identity, text or title, name, title)

    write(target, lines())
    grades: dict[str, dict[str, float]] = {}
    unknown = 0
    for query, document, score in _judged(qrels):
        grades.setdefault(query, {})
        if score > 0 and document in known:
            grades[query][gold_passage(document)] = score
        unknown += score > 0 and document not in known
    asked = [(_id(entry), entry["text"]) for entry in _records(path / "queries.jsonl")]
    questions = tuple(
        Question(name, text, frozenset(grades[query]), grades=grades[query]) for query, text in asked if query in grades
    )
    other = len(asked) - len(questions)
    return Benchmark(
        (target,),
        questions,
        {f"not judged in {qrels.name}": other} if other else {},
        counted(unknown, "judgements name no document of the corpus and were dropped"),
    )


def _file(folder: Path) -> Path:
    wanted = [folder / "qrels" / f"{split}.tsv" for split in _SPLITS] + [folder / "qrels.tsv"]
    found = next((file for file in wanted if file.is_file()), None)
    if found is None:
        raise FileNotFoundError("neither qrels/test.tsv nor qrels.tsv")
    return found


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield orjson.loads(line)


def _id(entry: dict[str, Any]) -> str:
    return str(entry["_id"]).strip()


def _judged(path: Path) -> Iterator[tuple[str, str, float]]:
    """Query, document, score; a head line is left out."""
    for i, line in enumerate(path.read_text("utf-8").splitlines()):
        if not line.strip():
            continue
        query, document, score = line.split("\t") if "\t" in line else line.split()
        if i == 0 and not score.strip().lstrip("-").replace(".", "", 1).isdigit():
            continue
        yield query.strip(), document.strip(), float(score)
