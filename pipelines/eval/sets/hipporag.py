"""Multi-hop questions in HippoRAG's layout: questions in `X.json`, the passages of all of them in `X_corpus.json`.

MuSiQue (Trivedi et al. 2022) marks supporting paragraphs; HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al.
2020) name the titles of supporting passages, each a list of sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, make_passage, passage_key, write_lines

_Passage = tuple[str, str]
"""Title, text."""


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a document of each passage; `path` is the file of questions, or its folder.

    Raises:
        LookupError: the corpus lacks a gold passage: the two files do not belong together.
    """
    path = _find_questions(path, name) if path.is_dir() else path
    corpus = list(_read_corpus(orjson.loads(path.with_stem(f"{path.stem}_corpus").read_bytes())))
    place: dict[_Passage, str] = {}
    titled: dict[str, set[str]] = {}
    for i, (title, text) in enumerate(corpus):
        place[_normalise(title), _normalise(text)] = str(i)
        titled.setdefault(_normalise(title), set()).add(_normalise(text))
    document = write_lines(
        folder / "passages.jsonl",
        (make_passage(str(i), text or title, name, title) for i, (title, text) in enumerate(corpus) if text or title),
    )
    questions = []
    for entry in orjson.loads(path.read_bytes()):
        keys = [_find_passage(title, text, titled) for title, text in _read_supporting(entry)]
        questions.append(
            Question(name, entry["question"], frozenset(passage_key(place[key]) for key in keys), _kind(entry))
        )
    return Benchmark((document,), tuple(questions))


def _find_questions(folder: Path, name: str) -> Path:
    """Return the file of questions in a folder; of several the one with the set's name."""
    files = [file for file in sorted(folder.glob("*.json")) if file.with_stem(f"{file.stem}_corpus").is_file()]
    named = [file for file in files if name in file.stem.lower()]
    if not files:
        raise FileNotFoundError("no X.json with its X_corpus.json")
    if len(files) > 1 and not named:
        raise ValueError(f"it holds several sets: {', '.join(file.name for file in files)}")
    return (named or files)[0]


def _read_corpus(raw: Any) -> Iterator[_Passage]:
    """Yield entries with title and text, or sentences by title, as HippoRAG first had HotpotQA's."""
    if isinstance(raw, dict):
        yield from ((title.strip(), " ".join(map(str.strip, sentences))) for title, sentences in raw.items())
        return
    for entry in raw:
        yield entry["title"].strip(), entry["text"].strip()


def _read_supporting(entry: dict[str, Any]) -> list[_Passage]:
    """Return title and text of each passage that supports the answer, once."""
    if "paragraphs" in entry:
        marked = [one for one in entry["paragraphs"] if one["is_supporting"]]
        return [(one["title"], one.get("paragraph_text") or one["text"]) for one in marked]
    titles = {title for title, *_ in entry["supporting_facts"]}
    return [(title, "".join(sentences)) for title, sentences in entry["context"] if title in titles]


def _find_passage(title: str, text: str, titled: dict[str, set[str]]) -> _Passage:
    """Return the passage's key in the corpus, by its text, or by a title that only one passage has."""
    texts = titled.get(_normalise(title), set())
    if _normalise(text) in texts:
        return _normalise(title), _normalise(text)
    if len(texts) == 1:
        return _normalise(title), next(iter(texts))
    raise LookupError(f"the gold passage {title!r} is not in the corpus")


def _normalise(text: str) -> str:
    """Drop white space and case: sentences are joined with or without a space."""
    return "".join(text.split()).casefold()


def _kind(entry: dict[str, Any]) -> str:
    """Return `2hop` for MuSiQue's `2hop__13_14`, else the set's own type, such as bridge."""
    return str(entry.get("type") or str(entry.get("id", "")).partition("__")[0])
