"""The packaged changing histories as a set: each a project, its questions about now, then and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from helix.errors import InputRefused
from pipelines.eval.changes.history import ChangingHistory, list_histories, parse_history
from pipelines.eval.sets.benchmark import Benchmark, Question, turn_key, write_lines


def convert_histories(path: Path, folder: Path, name: str) -> Benchmark:
    """Make a file and a project of each history.

    The other turns of a question's pair, which say something of the same, are `related`.

    Args:
        path: the folder of one history, or of several.

    Raises:
        ValueError: it has none, or one has another form.
    """
    try:
        histories = [parse_history(one, half) for one, half in list_histories(path)]
    except InputRefused as error:
        raise ValueError(error.what) from None
    documents = [write_lines(folder / f"{history.name}.jsonl", _list_lines(history)) for history in histories]
    return Benchmark(tuple(documents), tuple(question for one in histories for question in _list_questions(one)))


def _list_lines(history: ChangingHistory) -> Iterator[dict[str, str]]:
    for turn in history.turns:
        session = turn.id.partition(":")[0]
        yield {
            "session": f"{history.name}/{session}",
            "id": turn.id,
            "role": turn.role,
            "text": turn.text,
            "ts": turn.time.isoformat(),
            "project": history.name,
        }


def _list_questions(history: ChangingHistory) -> Iterator[Question]:
    for pair in history.pairs:
        every = pair.current.union(pair.stale)
        asked = [(text, pair.current, "now") for text in pair.now]
        asked += [(one.text, one.gold, kind) for kind in ("then", "why") for one in getattr(pair, kind)]
        for text, gold, kind in asked:
            keys = frozenset(_key(history, turn) for turn in gold)
            related = frozenset(_key(history, turn) for turn in every - gold)
            yield Question(history.name, text, keys, kind, at=history.now, related=related)


def _key(history: ChangingHistory, turn: str) -> str:
    return turn_key(f"{history.name}/{turn.partition(':')[0]}", turn)
