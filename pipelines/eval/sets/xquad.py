"""XQuAD (Artetxe, Ruder & Yogatama 2020): the same paragraphs and questions in several languages.

Each language is a haystack of its paragraphs. A question is asked in every language of every haystack, so that search
across languages is measured by all pairs. SQuAD itself has the layout, with a language as its name ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, make_passage, passage_key, write_lines

ACROSS: Final = "across languages"
WITHIN: Final = "within a language"


def convert_xquad(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a document of each paragraph, and take one question of each: the first, the second … in turn.

    Args:
        path: a folder with `xquad.LANGUAGE.json` for two languages or more.

    Raises:
        ValueError: the languages have other paragraphs.
    """
    texts = {file.suffixes[-2].removeprefix("."): _read_paragraphs(file) for file in sorted(path.glob("*.*.json"))}
    if len({len(paragraphs) for paragraphs in texts.values()}) != 1:
        raise ValueError("its languages have different numbers of paragraphs")
    documents = []
    for language, paragraphs in texts.items():
        lines = [make_passage(f"{language}/{i}", text, f"{name}-{language}") for i, (text, *_) in enumerate(paragraphs)]
        documents.append(write_lines(folder / f"{language}.jsonl", lines))
    questions = []
    for target in texts:
        for source, paragraphs in texts.items():
            kind = WITHIN if source == target else ACROSS
            for i, (_, asked, article) in enumerate(paragraphs):
                gold = frozenset([passage_key(f"{target}/{i}")])
                same = frozenset(passage_key(f"{target}/{j}") for j, one in enumerate(paragraphs) if one[2] == article)
                questions.append(Question(f"{name}-{target}", asked[i % len(asked)], gold, kind, related=same))
    return Benchmark(tuple(documents), tuple(questions))


def _read_paragraphs(path: Path) -> list[tuple[str, list[str], int]]:
    """Return the text of each paragraph, with its questions and the number of its article."""
    articles = orjson.loads(path.read_bytes())["data"]
    return [
        (paragraph["context"], [entry["question"] for entry in paragraph["qas"]], number)
        for number, article in enumerate(articles)
        for paragraph in article["paragraphs"]
    ]
