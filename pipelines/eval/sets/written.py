"""Sets that were written for the training of the ranker: chats with questions, and invented worlds of linked passages.

`pipelines/training/data/ranker/README.md` describes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from pipelines.eval.sets.benchmark import Benchmark, Question, make_passage, passage_key, turn_key, write_lines

_ROLES = ("user", "assistant")


def convert_chats(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file and a project of each chat; a turn's id is `session:place`, both from 1.

    Args:
        path: a folder of such files.
    """
    documents, questions = [], []
    for file, content in _read_files(path):
        documents.append(write_lines(folder / f"{file.stem}.jsonl", _list_turns(file.stem, content)))
        for entry in content["questions"]:
            gold = frozenset(_find_turn(file.stem, place) for place in entry["gold"])
            questions.append(Question(file.stem, entry["q"], gold, entry["kind"]))
    return Benchmark(tuple(documents), tuple(questions))


def convert_worlds(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file of each world, and a document of each passage; all are one project, as an encyclopaedia is.

    Args:
        path: a folder of such files.
    """
    documents, questions = [], []
    for file, content in _read_files(path):
        lines = [
            make_passage(f"{file.stem}/{one['id']}", one["text"], name, one["title"]) for one in content["passages"]
        ]
        documents.append(write_lines(folder / f"{file.stem}.jsonl", lines))
        for entry in content["questions"]:
            gold = frozenset(passage_key(f"{file.stem}/{identity}") for identity in entry["gold"])
            questions.append(Question(name, entry["q"], gold))
    return Benchmark(tuple(documents), tuple(questions))


def _read_files(path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    files = sorted(path.glob("*.json"))
    if not files:
        raise FileNotFoundError("no *.json")
    yield from ((file, orjson.loads(file.read_bytes())) for file in files)


def _list_turns(chat: str, content: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for number, session in enumerate(content["sessions"], 1):
        began = datetime.fromisoformat(session["date"]).replace(hour=9, tzinfo=UTC)
        for place, (who, text) in enumerate(session["turns"], 1):
            said = {"session": f"{chat}/{number}", "id": f"{number}:{place}", "text": text, "project": chat}
            ts = (began + timedelta(minutes=place)).isoformat()
            yield {**said, "ts": ts, "role" if who in _ROLES else "speaker": who}


def _find_turn(chat: str, place: str) -> str:
    return turn_key(f"{chat}/{place.partition(':')[0]}", place)
