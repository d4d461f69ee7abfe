"""LoCoMo (Maharana et al. 2024): `locomo10.json`, long conversations of two people over many sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.registry import Benchmark, Question, counted, turn, write

KINDS = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"}

# Some evidence is mistyped: `D8:6; D9:17` and `D9:1 D4:4` in one, `D:11:26`, `D30:05`.
_EVIDENCE = re.compile(r"D:?0{0,9}(\d{1,9}):0{0,9}(\d{1,9})")


def convert(path: Path, folder: Path, name: str) -> Benchmark:
    """One file a conversation; a turn's picture is described by its caption, as the benchmark's authors do.

    Evidence that names no turn of its conversation is dropped and counted; the question stays as long as one is left.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    unknown = 0
    for conversation in orjson.loads(path.read_bytes()):
        lines = list(_lines(conversation))
        documents.append(write(folder / f"{conversation['sample_id']}.jsonl", lines))
        place = {line["id"]: turn(line["session"], line["id"]) for line in lines}
        for entry in conversation["qa"]:
            gold, lost = resolve(entry.get("evidence") or (), place)
            unknown += lost
            kind = str(entry.get("category", ""))
            questions.append(Question(conversation["sample_id"], entry["question"], gold, KINDS.get(kind, kind)))
    return Benchmark(
        tuple(documents), tuple(questions), notes=counted(unknown, "pieces of evidence name no turn and were dropped")
    )


def resolve(evidence: Sequence[str], place: Mapping[str, str]) -> tuple[frozenset[str], int]:
    """The gold turns that evidence names, and how many pieces of it name none."""
    gold: set[str] = set()
    lost = 0
    for said in evidence:
        named = [f"D{match[1]}:{match[2]}" for match in _EVIDENCE.finditer(said)]
        gold.update(place[identity] for identity in named if identity in place)
        lost += sum(identity not in place for identity in named) if named else 1
    return frozenset(gold), lost


def _lines(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, talk = conversation["sample_id"], conversation["conversation"]
    for number in range(1, 100):
        for i, said in enumerate(talk.get(f"session_{number}") or ()):
            time = _when(talk[f"session_{number}_date_time"]).replace(second=min(i, 59))
            yield {
                "session": f"{name}/{number}",
                "id": said["dia_id"],
                "speaker": said["speaker"],
                "text": said["text"] + (f" [shares {said['blip_caption']}]" if said.get("blip_caption") else ""),
                "ts": time.isoformat(),
                "project": name,
            }


def _when(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` → UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
