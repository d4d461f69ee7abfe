"""BEAM (Tavakoli et al. 2025): a folder with numbered chats of a user and an assistant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, counted, turn, write


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """One file a chat; each batch is a session, dated by its time anchor."""
    chats = sorted((entry for entry in path.iterdir() if (entry / "chat.json").is_file()), key=lambda entry: entry.name)
    documents: list[Path] = []
    questions: list[Question] = []
    unknown = 0
    for chat in chats:
        project = f"chat-{chat.name}"
        lines = list(_lines(project, orjson.loads((chat / "chat.json").read_bytes())))
        documents.append(write(folder / f"{project}.jsonl", lines))
        place = {line["id"]: turn(line["session"], line["id"]) for line in lines}
        asked = orjson.loads((chat / "probing_questions" / "probing_questions.json").read_bytes())
        for kind, entries in asked.items():
            for entry in entries:
                named = _ids(entry.get("source_chat_ids"))
                gold = frozenset(place[identity] for identity in named if identity in place)
                unknown += sum(identity not in place for identity in named)
                questions.append(Question(project, entry["question"], gold, kind))
    return Benchmark(
        tuple(documents), tuple(questions), notes=counted(unknown, "source ids name no message and were dropped")
    )


def _lines(name: str, batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    anchor: datetime | None = None
    for batch in batches:
        for group in batch["turns"]:
            for message in group if isinstance(group, list) else [group]:
                anchor = _when(message.get("time_anchor")) or _when(batch.get("time_anchor")) or anchor
                line = {
                    "session": f"{name}/{batch['batch_number']}",
                    "id": str(message["id"]),
                    "role": message["role"],
                    "text": message["content"].split("->->")[0].strip(),  # what follows is the authors' own numbering
                    "project": name,
                }
                yield {**line, "ts": anchor.isoformat()} if anchor else line


def _when(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _ids(raw: Any) -> list[str]:
    """Message ids, however deep they lie: a list, or lists by name."""
    if isinstance(raw, dict):
        return [identity for value in raw.values() for identity in _ids(value)]
    if isinstance(raw, list):
        return [identity for value in raw for identity in _ids(value)]
    return [] if raw is None else [str(raw)]
