"""Sets of passages: BEIR, classic test collections, and multi-hop questions in HippoRAG's layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, make_passage, passage_key, write_lines

# BEIR (Thakur et al. 2021): `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv` or `qrels.tsv`.


_SPLITS = ("test", "dev", "validation", "train")


def convert_beir(path: Path, folder: Path, name: str) -> Benchmark:
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


# Classic test collections: Cranfield (Cleverdon 1967) in SMART's layout, and NPL (Sparck Jones & Webster 1980).
# `cran.all.1400`, `cran.qry`, `cranqrel` have fields that begin with .I, .T, .W; `doc-text`, `query-text`, `rlv-ass`
# have numbered texts that end with a slash.


_Text = tuple[str, str, str]
"""Id, title, text."""
_FIELD = re.compile(r"\.([A-Z])(?:[ \t]{1,20}(\S{1,20}))?[ \t]{0,20}")
_LEAST = 4  # Cleverdon's codes: 1 is a complete answer, 4 of minimum interest, 5 and −1 of none


def convert_ir(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a document of each; those without text, of which Cranfield has two, are left out.

    Raises:
        FileNotFoundError: the folder has neither layout.
    """
    texts, queries, grades = _read_npl(path) if (path / "doc-text").is_file() else _read_smart(path)
    documents = {identity: (title, text) for identity, title, text in texts if text or title}
    lines = (make_passage(identity, text or title, name, title) for identity, (title, text) in documents.items())
    document = write_lines(folder / "documents.jsonl", lines)
    questions, unknown = [], 0
    for identity, text in queries:
        judged = grades.get(identity, {})
        known = {passage_key(one): grade for one, grade in judged.items() if one in documents}
        unknown += len(judged) - len(known)
        questions.append(Question(name, text, frozenset(known), grades=known))
    return Benchmark(
        (document,),
        tuple(questions),
        notes=count_note(unknown, "judgements name no document with text and were dropped"),
    )


_Collection = tuple[list[_Text], list[tuple[str, str]], dict[str, dict[str, float]]]
"""Documents; id and text of queries; grades above 0 by query and document."""


def _read_smart(folder: Path) -> _Collection:
    """Read SMART's layout. Judgements number the queries by their order, not by their .I."""
    documents = list(_read_fields(_find_file(folder, "*.all*")))
    entries = _read_fields(_find_file(folder, "*.qry"))
    queries = [(str(i), text or title) for i, (_, title, text) in enumerate(entries, 1)]
    grades: dict[str, dict[str, float]] = {}
    for line in _find_file(folder, "*qrel").read_text("utf-8").splitlines():
        if line.strip():
            query, document, code = line.split()[:3]
            if 1 <= int(code) <= _LEAST:
                grades.setdefault(query, {})[document] = float(_LEAST + 1 - int(code))
    return documents, queries, grades


def _find_file(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if not files:
        raise FileNotFoundError(f"no {pattern}, and no doc-text")
    return files[0]


def _read_fields(path: Path) -> Iterator[_Text]:
    """Yield records of SMART's layout. Cranfield repeats the title at the start of the text; it is dropped there."""
    record: dict[str, list[str]] = {}
    identity, field = "", ""
    for line in [*path.read_text("utf-8").splitlines(), ".I end"]:
        match = _FIELD.fullmatch(line)
        if match is None:
            record.setdefault(field, []).append(line.strip())
        elif match[1] != "I":
            field = match[1]
        else:
            if identity:
                title, text = " ".join(record.get("T", ())).strip(), " ".join(record.get("W", ())).strip()
                yield identity, title, text.removeprefix(title).strip()
            record, identity, field = {}, match[2] or "", ""


def _read_npl(folder: Path) -> _Collection:
    """Read NPL's layout; relevance has no grades."""
    documents = [(identity, "", text) for identity, text in _read_numbered(folder / "doc-text")]
    judged = _read_numbered(folder / "rlv-ass")
    grades = {query: dict.fromkeys(text.split(), 1.0) for query, text in judged}
    return documents, list(_read_numbered(folder / "query-text")), grades


def _read_numbered(path: Path) -> Iterator[tuple[str, str]]:
    """Yield a number and its text: lines up to one with only a slash, which the last text may lack."""
    lines: list[str] = []
    for line in [*path.read_text("utf-8").splitlines(), "/"]:
        if line.strip() != "/":
            lines.append(line.strip())
        elif lines:
            yield lines[0], " ".join(lines[1:]).strip()
            lines = []


# Multi-hop questions in HippoRAG's layout: questions in `X.json`, the passages of all of them in `X_corpus.json`.
# MuSiQue (Trivedi et al. 2022) marks supporting paragraphs; HotpotQA (Yang et al. 2018) and 2WikiMultihopQA (Ho et al.
# 2020) name the titles of supporting passages, each a list of sentences.


_Passage = tuple[str, str]
"""Title, text."""


def convert_hipporag(path: Path, folder: Path, name: str) -> Benchmark:
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
        kind = str(entry.get("type") or str(entry.get("id", "")).partition("__")[0])  # 2hop of MuSiQue's 2hop__13_14
        questions.append(Question(name, entry["question"], frozenset(passage_key(place[key]) for key in keys), kind))
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
