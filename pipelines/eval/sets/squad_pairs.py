"""Sentences and questions of SQuAD as Du, Shao & Cardie (2017, "Learning to Ask") paired them, word by word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pipelines.eval.sets.benchmark import Benchmark, Question, make_passage, passage_key, write_lines

_BRACKETS: Final = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "``": '"', "''": '"'}

# Spaces that the tokenizer put: before a mark that ends something, and after one that begins something.
_BEFORE: Final = re.compile(r" (?=[.,;:!?%)\]]|'(?:s|re|ve|ll|d|m)\b|n't\b)")
_AFTER: Final = re.compile(r"(?<=[(\[$£]) ")


def convert_squad_pairs(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a document of each different sentence, which is what its questions look for.

    Args:
        path: `src-PART.txt`, one sentence a line, with `tgt-PART.txt` in the same folder; or a folder with such pairs.
    """
    files = sorted(path.glob("src-*.txt")) if path.is_dir() else [path]
    if not files or not files[0].name.startswith("src-"):
        raise FileNotFoundError("no src-*.txt")
    place: dict[str, str] = {}
    questions = []
    for file in files:
        sentences = file.read_text().splitlines()
        asked = file.with_name(file.name.replace("src-", "tgt-", 1)).read_text().splitlines()
        for sentence, question in zip(sentences, asked, strict=True):
            identity = place.setdefault(join_words(sentence), str(len(place)))
            questions.append(Question(name, join_words(question), frozenset([passage_key(identity)])))
    lines = (make_passage(identity, text, name) for text, identity in place.items())
    return Benchmark((write_lines(folder / "sentences.jsonl", lines),), tuple(questions))


def join_words(text: str) -> str:
    """Return a tokenized sentence as it was written, but for its case."""
    words = " ".join(_BRACKETS.get(word, word) for word in text.split())
    return _AFTER.sub("", _BEFORE.sub("", words))
