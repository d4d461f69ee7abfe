"""BEAM (Tavakoli et al. 2025): a folder with numbered chats of a user and an assistant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.sets import Benchmark, Question, turn


def convert(path: Path, folder: Path) -> Benchmark:
    """One file a chat; each batch is a session, dated by its time anchor."""
    chats = sorted((entry for entry in path.iterdir() if (entry / "chat.json").is_file()), key=lambda entry: entry.name)
    documents, questions = [], []
    for chat in chats:
        name = f"chat-{chat.name}"
        target = folder / f"{name}.jsonl"
        session_of: dict[str, str] = {}
        with target.open("wb") as file:
            for line in _lines(name, orjson.loads((chat / "chat.json").read_bytes())):
                session_of[line["id"]] = line["session"]
                file.write(orjson.dumps(line) + b"\n")
        documents.append(target)
        asked = orjson.loads((chat / "probing_questions" / "probing_questions.json").read_bytes())
        for kind, entries in asked.items():
            for entry in entries:
                known = [identity for identity in _ids(entry.get("source_chat_ids")) if identity in session_of]
                if known:
                    gold = frozenset(turn(session_of[identity], identity) for identity in known)
                    questions.append(Question(name, entry["question"], gold, kind))
    return Benchmark(tuple(documents), tuple(questions))


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
