"""LoCoMo (Maharana et al. 2024): `locomo10.json`, long conversations of two people over many sessions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.sets import Benchmark, Question, turn

_EVIDENCE = re.compile(r"D(\d+):\d+")


def convert(path: Path, folder: Path) -> Benchmark:
    """One file a conversation; a turn's picture is described by its caption, as the benchmark's authors do."""
    conversations = orjson.loads(path.read_bytes())
    questions = [question for conversation in conversations for question in _questions(conversation)]
    return Benchmark(tuple(_write(conversation, folder) for conversation in conversations), tuple(questions))


def _write(conversation: dict[str, Any], folder: Path) -> Path:
    name, talk = conversation["sample_id"], conversation["conversation"]
    path = folder / f"{name}.jsonl"
    with path.open("wb") as file:
        for number in range(1, 100):
            for i, said in enumerate(talk.get(f"session_{number}") or ()):
                time = _when(talk[f"session_{number}_date_time"]).replace(second=min(i, 59))
                text = said["text"] + (f" [shares {said['blip_caption']}]" if said.get("blip_caption") else "")
                line = {
                    "session": f"{name}/{number}",
                    "id": said["dia_id"],
                    "speaker": said["speaker"],
                    "text": text,
                    "ts": time.isoformat(),
                    "project": name,
                }
                file.write(orjson.dumps(line) + b"\n")
    return path


def _when(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` → UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _questions(conversation: dict[str, Any]) -> list[Question]:
    name, out = conversation["sample_id"], []
    for entry in conversation["qa"]:
        said = " ".join(entry.get("evidence") or ())
        gold = frozenset(turn(f"{name}/{match[1]}", match[0]) for match in _EVIDENCE.finditer(said))
        if gold:
            out.append(Question(name, entry["question"], gold, str(entry.get("category", ""))))
    return out
