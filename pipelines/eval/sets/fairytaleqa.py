"""FairytaleQA (Xu et al. 2022): stories in sections, and questions with the sections that answer them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from pipelines.eval.sets.benchmark import Benchmark, Question, turn_key, write_lines

_STORY = "-story.csv"
_ASKED = "-questions.csv"


def convert_fairytaleqa(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file, a session and a project of each story; a turn is a section, its id the section's number.

    Args:
        path: a folder with `questions/PART/STORY-questions.csv` and `section-stories/PART/STORY-story.csv`.
    """
    files = sorted((path / "questions").glob(f"*/*{_ASKED}"))
    if not files:
        raise FileNotFoundError(f"no questions/*/*{_ASKED}")
    documents: list[Path] = []
    questions: list[Question] = []
    for file in files:
        story = file.name.removesuffix(_ASKED)
        told = path / "section-stories" / file.parent.name / f"{story}{_STORY}"
        sections = {row["section"].strip(): row["text"].strip() for row in _read_rows(told)}
        lines = [
            {"session": story, "id": number, "text": text, "project": story, "role": "document"}
            for number, text in sections.items()
            if text
        ]
        documents.append(write_lines(folder / f"{file.parent.name}-{story}.jsonl", lines))
        for row in _read_rows(file):
            named = [number.strip() for number in row["cor_section"].split(",")]
            gold = frozenset(turn_key(story, number) for number in named if sections.get(number))
            questions.append(Question(story, row["question"].strip(), gold, row["attribute1"]))
    return Benchmark(tuple(documents), tuple(questions))


def _read_rows(file: Path) -> list[Mapping[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))
