"""LongMemEval (Wu et al. 2025): a JSON list of questions, each with a haystack of a user's chats with an assistant.

The same chat lies in several haystacks: sessions bear the question's id, too, and every question is a project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, counted, turn, write

ABSTENTION = "_abs"  # ends the id of a question that nothing answers


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """One file a haystack. A turn's id is its place in its session, from 0; a question is asked at its date.

    Gold are the turns marked `has_answer`. A question without one takes all the user's turns of its answer sessions:
    that is where evidence lies but for one kind of question. How many do is noted.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    abstentions = unmarked = 0
    for entry in orjson.loads(path.read_bytes()):
        if str(entry["question_id"]).endswith(ABSTENTION):
            abstentions += 1
            continue
        project = str(entry["question_id"])
        found = list(_lines(project, entry))
        documents.append(write(folder / f"{len(documents):05}.jsonl", (line for line, *_ in found)))
        marked = [line for line, answers, _ in found if answers]
        if not marked:
            marked = [line for line, _, gold in found if gold and line["role"] == "user"]
            unmarked += bool(marked)
        gold = frozenset(turn(line["session"], line["id"]) for line in marked)
        at = when(entry.get("question_date"))
        questions.append(Question(project, entry["question"], gold, str(entry.get("question_type", "")), at=at))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"abstention": abstentions} if abstentions else {},
        counted(unmarked, "questions have no marked turn: the user's turns of their answer sessions are gold"),
    )


def _lines(project: str, entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool, bool]]:
    """A turn for the ingest, whether it is marked as an answer, and whether its session is one that answers."""
    sessions, ids = entry["haystack_sessions"], entry["haystack_session_ids"]
    dates = entry.get("haystack_dates") or [None] * len(ids)
    answering = set(entry.get("answer_session_ids") or ())
    seen: Counter[str] = Counter()
    for identity, date, said in zip(ids, dates, sessions, strict=True):
        seen[identity] += 1
        session = f"{project}/{identity}" + (f"#{seen[identity]}" if seen[identity] > 1 else "")
        began = when(date)
        for i, one in enumerate(said):
            text = (one.get("content") or "").strip()
            if not text:
                continue
            line = {"session": session, "id": str(i), "role": one["role"], "text": text, "project": project}
            dated = {"ts": (began + timedelta(seconds=i)).isoformat()} if began else {}
            yield {**line, **dated}, one.get("has_answer") is True, identity in answering


def when(text: str | None) -> datetime | None:
    """`2023/05/30 (Tue) 23:40` → UTC; the hour may be missing. None where it is no date."""
    day, _, hour = (text or "").partition("(")
    hour = hour.partition(")")[2].strip() or "00:00"
    try:
        return datetime.strptime(f"{day.strip()} {hour}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    except ValueError:
        return None
