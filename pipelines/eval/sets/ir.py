"""Classic test collections: Cranfield (Cleverdon 1967) in SMART's layout, and NPL (Sparck Jones & Webster 1980).

A folder with documents, queries and judgements: `cran.all.1400`, `cran.qry`, `cranqrel` – fields that begin with .I,
.T, .W – or `doc-text`, `query-text`, `rlv-ass` – numbered texts that end with a slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pipelines.eval.sets.registry import Benchmark, Question, counted, gold_passage, passage, write

_Text = tuple[str, str, str]
"""Id, title, text."""
_FIELD = re.compile(r"\.([A-Z])(?:[ \t]{1,20}(\S{1,20}))?[ \t]{0,20}")
_LEAST = 4  # Cleverdon's codes: 1 is a complete answer, 4 of minimum interest, 5 and −1 of none


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Every document is one of its own; one without text, of which Cranfield has two, is left out.

    Raises:
        FileNotFoundError: neither layout lies there.
    """
    read = _npl if (path / "doc-text").is_file() else _smart
    texts, queries, grades = read(path)
    documents = {identity: (title, text) for identity, title, text in texts if text or title}
    lines = (passage(identity, text or title, name, title) for identity, (title, text) in documents.items())
    document = write(folder / "documents.jsonl", lines)
    questions, unknown = [], 0
    for identity, asked in queries:
        judged = grades.get(identity, {})
        known = {gold_passage(one): grade for one, grade in judged.items() if one in documents}
        unknown += len(judged) - len(known)
        questions.append(Question(name, asked, frozenset(known), grades=known))
    return Benchmark(
        (document,),
        tuple(questions),
        notes=counted(unknown, "judgements name no document with text and were dropped"),
    )


_Read = tuple[list[_Text], list[tuple[str, str]], dict[str, dict[str, float]]]
"""Documents; id and text of queries; grades above 0 by query and document."""


def _smart(folder: Path) -> _Read:
    """SMART's layout. Judgements number the queries by their order, whatever number stands behind their .I."""
    documents = list(_fields(_one(folder, "*.all*")))
    queries = [(str(i), text or title) for i, (_, title, text) in enumerate(_fields(_one(folder, "*.qry")), 1)]
    grades: dict[str, dict[str, float]] = {}
    for line in _one(folder, "*qrel").read_text("utf-8").splitlines():
        if line.strip():
            query, document, code = line.split()[:3]
            if 1 <= int(code) <= _LEAST:
                grades.setdefault(query, {})[document] = float(_LEAST + 1 - int(code))
    return documents, queries, grades


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no {pattern}, and no doc-text")
    return found[0]


def _fields(path: Path) -> Iterator[_Text]:
    """Records of SMART's layout. Cranfield repeats the title at the start of the text: it is taken once."""
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


def _npl(folder: Path) -> _Read:
    """NPL's layout; relevance has no grades."""
    documents = [(identity, "", text) for identity, text in _numbered(folder / "doc-text")]
    queries = list(_numbered(folder / "query-text"))
    judged = {identity: text.split() for identity, text in _numbered(folder / "rlv-ass")}
    return documents, queries, {query: dict.fromkeys(found, 1.0) for query, found in judged.items()}


def _numbered(path: Path) -> Iterator[tuple[str, str]]:
    """A number in a line of its own, then lines of text up to one with nothing but a slash; the last may lack it."""
    lines: list[str] = []
    for line in [*path.read_text("utf-8").splitlines(), "/"]:
        if line.strip() != "/":
            lines.append(line.strip())
        elif lines:
            yield lines[0], " ".join(lines[1:]).strip()
            lines = []
