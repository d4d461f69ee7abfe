"""Classic test collections: Cranfield (Cleverdon 1967) in SMART's layout, and NPL (Sparck Jones & Webster 1980).

A folder with documents, queries and judgements: `cran.all.1400`, `cran.qry`, `cranqrel` – fields that begin with .I,
.T, .W – or `doc-text`, `query-text`, `rlv-ass` – numbered texts that end with a slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, make_passage, passage_key, write_lines

_Text = tuple[str, str, str]
"""Id, title, text."""
_FIELD = re.compile(r"\.([A-Z])(?:[ \t]{1,20}(\S{1,20}))?[ \t]{0,20}")
_LEAST = 4  # Cleverdon's codes: 1 is a complete answer, 4 of minimum interest, 5 and −1 of none


def convert(path: Path, folder: Path, name: str) -> Benchmark:
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
