"""Multi-hop questions in HippoRAG's layout: `X.json` holds the questions, `X_corpus.json` the passages of all of them.

MuSiQue (Trivedi et al. 2022) marks supporting paragraphs; HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al.
2020) name the titles of supporting passages, each a list of sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, gold_passage, passage, write

_Passage = tuple[str, str]
"""Title, text."""


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Every passage is a document of its own, with its title; `path` is the file of questions, or its folder.

    Raises:
        LookupError: a gold passage is not in the corpus: the two files do not belong together.
    """
    path = _file(path, name) if path.is_dir() else path
    corpus = list(_corpus(orjson.loads(path.with_stem(f"{path.stem}_corpus").read_bytes())))
    place: dict[_Passage, str] = {}
    titled: dict[str, set[str]] = {}
    for i, (title, text) in enumerate(corpus):
        place[_key(title, text)] = str(i)
        titled.setdefault(_bare(title), set()).add(_bare(text))
    document = write(
        folder / "passages.jsonl",
        (passage(str(i), text or title, name, title) for i, (title, text) in enumerate(corpus) if text or title),
    )
    questions = []
    for entry in orjson.loads(path.read_bytes()):
        keys = [_known(title, text, titled) for title, text in _supporting(entry)]
        questions.append(
            Question(name, entry["question"], frozenset(gold_passage(place[key]) for key in keys), _kind(entry))
        )
    return Benchmark((document,), tuple(questions))


def _file(folder: Path, name: str) -> Path:
    """The file of questions in a folder: the one that bears the set's name, where there are several."""
    found = [file for file in sorted(folder.glob("*.json")) if file.with_stem(f"{file.stem}_corpus").is_file()]
    named = [file for file in found if name in file.stem.lower()]
    if not found:
        raise FileNotFoundError("no X.json beside its X_corpus.json")
    if len(found) > 1 and not named:
        raise ValueError(f"several sets lie there: {', '.join(file.name for file in found)}")
    return (named or found)[0]


def _corpus(raw: Any) -> Iterator[_Passage]:
    """Entries with title and text, or, as HippoRAG first had HotpotQA's, sentences by title."""
    if isinstance(raw, dict):
        yield from ((title.strip(), " ".join(map(str.strip, sentences))) for title, sentences in raw.items())
        return
    for entry in raw:
        yield entry["title"].strip(), entry["text"].strip()


def _supporting(entry: dict[str, Any]) -> list[_Passage]:
    """Title and text of the passages that support the answer; each once."""
    if "paragraphs" in entry:
        marked = [one for one in entry["paragraphs"] if one["is_supporting"]]
        return [(one["title"], one.get("paragraph_text") or one["text"]) for one in marked]
    titles = {title for title, *_ in entry["supporting_facts"]}
    return [(title, "".join(sentences)) for title, sentences in entry["context"] if title in titles]


def _known(title: str, text: str, titled: dict[str, set[str]]) -> _Passage:
    """The passage's key in the corpus: by its text, or by its title where only one passage has it."""
    texts = titled.get(_bare(title), set())
    if _bare(text) in texts:
        return _key(title, text)
    if len(texts) == 1:
        return _bare(title), next(iter(texts))
    raise LookupError(f"the gold passage {title!r} is not in the corpus")


def _key(title: str, text: str) -> _Passage:
    return _bare(title), _bare(text)


def _bare(text: str) -> str:
    """Without white space and case: sentences are joined with a space, or without one."""
    return "".join(text.split()).casefold()


def _kind(entry: dict[str, Any]) -> str:
    """`2hop` of MuSiQue's `2hop__13_14`; elsewhere the type the set gives, such as bridge."""
    return str(entry.get("type") or str(entry.get("id", "")).partition("__")[0])
