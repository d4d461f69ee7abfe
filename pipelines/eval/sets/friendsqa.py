"""FriendsQA (Yang & Choi 2019): dialogues of several people, and questions with the utterances that answer them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, turn_key, write_lines


def convert_friendsqa(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file, a session and a project of each dialogue; a turn's id is its `uid`.

    Args:
        path: a file of dialogues, or a folder of such files.
    """
    documents: list[Path] = []
    questions: list[Question] = []
    for dialogue, paragraph in _read_dialogues(path):
        lines = list(_read_turns(dialogue, paragraph))
        documents.append(write_lines(folder / f"{dialogue}.jsonl", lines))
        known = {line["id"] for line in lines}
        for entry in paragraph["qas"]:
            answers = {str(answer["utterance_id"]) for answer in entry.get("answers") or ()}
            gold = frozenset(turn_key(dialogue, identity) for identity in answers & known)
            kind = entry["question"].split(maxsplit=1)[0].lower().strip("?'s") if entry["question"].strip() else ""
            questions.append(Question(dialogue, entry["question"], gold, kind if kind in _KINDS else ""))
    return Benchmark(tuple(documents), tuple(questions))


_KINDS = ("what", "who", "where", "when", "why", "how")


def _read_dialogues(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the content of each dialogue."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError("no *.json")
    for file in files:
        for entry in orjson.loads(file.read_bytes())["data"]:
            for i, paragraph in enumerate(entry["paragraphs"]):
                yield (entry["title"] if len(entry["paragraphs"]) == 1 else f"{entry['title']}-{i}"), paragraph


def _read_turns(dialogue: str, paragraph: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for turn in paragraph["utterances:"]:  # the key has a colon
        if text := turn["utterance"].strip():
            speaker = " and ".join(turn["speakers"])
            yield {
                "session": dialogue,
                "id": str(turn["uid"]),
                "text": text,
                "project": dialogue,
                **({"speaker": speaker} if speaker else {}),
            }
