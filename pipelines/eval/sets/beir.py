"""BEIR (Thakur et al. 2021): a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` or `qrels.tsv`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, make_passage, passage_key, write_lines

_SPLITS = ("test", "dev", "validation", "train")


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a document of each in the corpus; scores above 0 are grades.

    Of a split set only the test split's questions are asked, or those of the first split that exists.
    """
    qrels = _find_judgements(path)
    known = set()
    target = folder / "corpus.jsonl"

    def lines() -> Iterator[dict[str, Any]]:
        for entry in _read_records(path / "corpus.jsonl"):
            identity, title, text = _id(entry), (entry.get("title") or "").strip(), (entry.get("text") or "").strip()
            if (text or title) and identity not in known:
                known.add(identity)
                yield make_passage(identity, text or title, name, title)

    write_lines(target, lines())
    grades: dict[str, dict[str, float]] = {}
    unknown = 0
    for query, document, score in _read_judgements(qrels):
        grades.setdefault(query, {})
        if score > 0 and document in known:
            grades[query][passage_key(document)] = score
        unknown += score > 0 and document not in known
    queries = [(_id(entry), entry["text"]) for entry in _read_records(path / "queries.jsonl")]
    questions = tuple(
        Question(name, text, frozenset(grades[query]), grades=grades[query])
        for query, text in queries
        if query in grades
    )
    other = len(queries) - len(questions)
    return Benchmark(
        (target,),
        questions,
        {f"not judged in {qrels.name}": other} if other else {},
        count_note(unknown, "judgements name no document of the corpus and were dropped"),
    )


def _find_judgements(folder: Path) -> Path:
    files = [folder / "qrels" / f"{split}.tsv" for split in _SPLITS] + [folder / "qrels.tsv"]
    file = next(filter(Path.is_file, files), None)
    if file is None:
        raise FileNotFoundError("neither qrels/test.tsv nor qrels.tsv")
    return file


def _read_records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield orjson.loads(line)


def _id(entry: dict[str, Any]) -> str:
    return str(entry["_id"]).strip()


def _read_judgements(path: Path) -> Iterator[tuple[str, str, float]]:
    """Yield query, document and score; skip a head line."""
    for i, line in enumerate(path.read_text("utf-8").splitlines()):
        if not line.strip():
            continue
        query, document, score = line.split("\t") if "\t" in line else line.split()
        if i == 0 and not score.strip().lstrip("-").replace(".", "", 1).isdigit():
            continue
        yield query.strip(), document.strip(), float(score)
