"""LoCoMo (Maharana et al. 2024): `locomo10.json`, long conversations of two people over many sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, count_note, turn_key, write_lines

KINDS = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}

# Some evidence is mistyped: `D8:6; D9:17` and `D9:1 D4:4` in one, `D:11:26`, `D30:05`.
_EVIDENCE = re.compile(r"D:?0{0,9}(\d{1,9}):0{0,9}(\d{1,9})")


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """Write a file for each conversation; a caption replaces a picture, as with the benchmark's authors.

    Evidence that names no turn of its conversation is dropped and counted.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    unknown = 0
    for conversation in orjson.loads(path.read_bytes()):
        lines = list(_read_lines(conversation))
        documents.append(write_lines(folder / f"{conversation['sample_id']}.jsonl", lines))
        place = {line["id"]: turn_key(line["session"], line["id"]) for line in lines}
        for entry in conversation["qa"]:
            gold, lost = _resolve(entry.get("evidence") or (), place)
            unknown += lost
            kind = str(entry.get("category", ""))
            questions.append(Question(conversation["sample_id"], entry["question"], gold, KINDS.get(kind, kind)))
    return Benchmark(
        tuple(documents),
        tuple(questions),
        notes=count_note(unknown, "pieces of evidence name no turn and were dropped"),
    )


def _resolve(evidence: Sequence[str], place: Mapping[str, str]) -> tuple[frozenset[str], int]:
    """Return the gold turns that evidence names, and the number of pieces that name none."""
    gold: set[str] = set()
    lost = 0
    for piece in evidence:
        ids = [f"D{match[1]}:{match[2]}" for match in _EVIDENCE.finditer(piece)]
        gold.update(place[identity] for identity in ids if identity in place)
        lost += sum(identity not in place for identity in ids) if ids else 1
    return frozenset(gold), lost


def _read_lines(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, talk = conversation["sample_id"], conversation["conversation"]
    for number in range(1, 100):
        for i, entry in enumerate(talk.get(f"session_{number}") or ()):
            time = _parse_time(talk[f"session_{number}_date_time"]).replace(second=min(i, 59))
            yield {
                "session": f"{name}/{number}",
                "id": entry["dia_id"],
                "speaker": entry["speaker"],
                "text": entry["text"] + (f" [shares {entry['blip_caption']}]" if entry.get("blip_caption") else ""),
                "ts": time.isoformat(),
                "project": name,
            }


def _parse_time(text: str) -> datetime:
    """Parse `1:56 pm on 8 May, 2023` as UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
