"""BEAM (Tavakoli et al. 2025): a folder with numbered chats of a user and an assistant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, turn_key, write_lines


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each chat; each batch is a session, dated by its time anchor."""
    chats = sorted((entry for entry in path.iterdir() if (entry / "chat.json").is_file()), key=lambda entry: entry.name)
    documents: list[Path] = []
    questions: list[Question] = []
    unknown = 0
    for chat in chats:
        project = f"chat-{chat.name}"
        lines = list(_read_lines(project, orjson.loads((chat / "chat.json").read_bytes())))
        documents.append(write_lines(folder / f"{project}.jsonl", lines))
        place = {line["id"]: turn_key(line["session"], line["id"]) for line in lines}
        probes = orjson.loads((chat / "probing_questions" / "probing_questions.json").read_bytes())
        for kind, entries in probes.items():
            for entry in entries:
                ids = _flatten_ids(entry.get("source_chat_ids"))
                gold = frozenset(place[identity] for identity in ids if identity in place)
                unknown += sum(identity not in place for identity in ids)
                questions.append(Question(project, entry["question"], gold, kind))
    return Benchmark(
        tuple(documents), tuple(questions), notes=count_note(unknown, "source ids name no message and were dropped")
    )


def _read_lines(name: str, batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    anchor: datetime | None = None
    for batch in batches:
        for group in batch["turns"]:
            for message in group if isinstance(group, list) else [group]:
                anchor = _parse_date(message.get("time_anchor")) or _parse_date(batch.get("time_anchor")) or anchor
                line = {
                    "session": f"{name}/{batch['batch_number']}",
                    "id": str(message["id"]),
                    "role": message["role"],
                    "text": message["content"].split("->->")[0].strip(),  # the authors' own numbering follows
                    "project": name,
                }
                yield {**line, "ts": anchor.isoformat()} if anchor else line


def _parse_date(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _flatten_ids(raw: Any) -> list[str]:
    """Return message ids at any depth: a list, or lists by name."""
    if isinstance(raw, (dict, list)):
        values = raw.values() if isinstance(raw, dict) else raw
        return [identity for value in values for identity in _flatten_ids(value)]
    return [] if raw is None else [str(raw)]
