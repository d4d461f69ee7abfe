"""LongMemEval (Wu et al. 2025): a JSON list of questions, each with a haystack of a user's chats with an assistant.

Several haystacks share a chat, so a session's name includes the question's id, and every question is a project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, turn_key, write_lines

ABSTENTION = "_abs"  # ends the id of a question without an answer


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each haystack. A turn's id is its place in its session, from 0; a question has its date.

    Gold are the turns marked `has_answer`. Without one, all the user's turns of the answer sessions are gold, which
    hold the evidence for all kinds of questions but one. A note has the number of such questions.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    abstentions = unmarked = 0
    for entry in orjson.loads(path.read_bytes()):
        if str(entry["question_id"]).endswith(ABSTENTION):
            abstentions += 1
            continue
        project = str(entry["question_id"])
        turns = list(_read_turns(project, entry))
        documents.append(write_lines(folder / f"{len(documents):05}.jsonl", (line for line, *_ in turns)))
        marked = [line for line, is_answer, _ in turns if is_answer]
        if not marked:
            marked = [line for line, _, in_answer in turns if in_answer and line["role"] == "user"]
            unmarked += bool(marked)
        gold = frozenset(turn_key(line["session"], line["id"]) for line in marked)
        at = _parse_time(entry.get("question_date"))
        questions.append(Question(project, entry["question"], gold, str(entry.get("question_type", "")), at=at))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        {"abstention": abstentions} if abstentions else {},
        count_note(unmarked, "questions have no marked turn: the user's turns of their answer sessions are gold"),
    )


def _read_turns(project: str, entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool, bool]]:
    """Yield a turn for the ingest, with two flags: it is marked as an answer; its session is an answer session."""
    sessions, ids = entry["haystack_sessions"], entry["haystack_session_ids"]
    dates = entry.get("haystack_dates") or [None] * len(ids)
    answering = set(entry.get("answer_session_ids") or ())
    seen: Counter[str] = Counter()
    for identity, date, turns in zip(ids, dates, sessions, strict=True):
        seen[identity] += 1
        session = f"{project}/{identity}" + (f"#{seen[identity]}" if seen[identity] > 1 else "")
        start = _parse_time(date)
        for i, turn in enumerate(turns):
            text = (turn.get("content") or "").strip()
            if not text:
                continue
            line = {"session": session, "id": str(i), "role": turn["role"], "text": text, "project": project}
            time = {"ts": (start + timedelta(seconds=i)).isoformat()} if start else {}
            yield {**line, **time}, turn.get("has_answer") is True, identity in answering


def _parse_time(text: str | None) -> datetime | None:
    """Parse `2023/05/30 (Tue) 23:40` as UTC; the hour is optional. Return None for other text."""
    day, _, hour = (text or "").partition("(")
    hour = hour.partition(")")[2].strip() or "00:00"
    try:
        return datetime.strptime(f"{day.strip()} {hour}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    except ValueError:
        return None
