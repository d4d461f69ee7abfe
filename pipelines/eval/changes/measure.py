"""Recall of what holds now: each changing history goes through the normal ingest and recall, in a store of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.types import Item
from pipelines.embedded.ingest import ingest
from pipelines.eval.changes.figures import (
    Judgement,
    RecalledItems,
    group_rows,
    judge_marks,
    judge_now,
    judge_then,
    judge_why,
    list_misses,
    make_row,
)
from pipelines.eval.changes.history import TURNS, Change, ChangingHistory, Control, list_histories, read_history
from pipelines.eval.evaluate import Say, describe_environment
from pipelines.eval.marks import find_marked

K: Final = 10
"""Items of a recall."""

BUDGET: Final = 1_000
"""Tokens of a context."""


def evaluate_changes(
    path: Path,
    settings: Settings,
    *,
    half: str = "all",
    profile: str = "helix",
    store: Path | None = None,
    misses: Collection[str] = (),
    say: Say,
) -> dict[str, Any]:
    """Return the report of changing histories.

    Args:
        path: see `list_histories`, as `half`.
        store: a folder that retains the store of each history; a temporary one by default.
        misses: figures; each question or turn that fails one is listed with what was found.

    Returns:
        `rows`: the figures by half and in `all`, each with `n`, `ci` and the rows of its `categories` and `kinds`;
        `histories`, `questions`, `items`, `notes`, `made`, and `misses` if any figure is given.

    Raises:
        UsageError: no such profile.
        InputRefused: a history is not valid, or the folder has none.
    """
    load(profile, settings.profiles)  # a wrong name is reported before the ingest
    histories = [read_history(*found) for found in list_histories(path, half)]
    judgements: list[Judgement] = []
    described: list[dict[str, Any]] = []
    notes: list[str] = []
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        for history in histories:
            memory = _ingest(history, (store or Path(work)) / history.half / history.name, settings)
            own = ask_history(history, memory, profile)
            say(f"{history.half or history.folder.parent.name}/{history.name}: {memory.snapshot.live} items")
            judgements += own
            described.append(_describe_history(history, memory, own))
            notes += _note_missing(history, memory)
            made = describe_environment(memory.snapshot)
    report = {
        "set": "changes",
        "profile": profile,
        "questions": sum(one["questions"] for one in described),
        "items": sum(one["items"] for one in described),
        "histories": described,
        "rows": _make_rows(judgements),
        "notes": notes,
        "made": {**made, "k": K, "budget": BUDGET},
    }
    return {**report, "misses": list_misses(judgements, misses)} if misses else report


def _ingest(history: ChangingHistory, root: Path, settings: Settings) -> Memory:
    ingest(root, [history.folder / TURNS], settings, format="jsonl")
    return Memory(root, replace(settings, answers=0))  # every question is worked out


def ask_history(history: ChangingHistory, memory: Memory, profile: str = "helix") -> list[Judgement]:
    """Ask every question of a history at its moment, and look at the marks of all its turns."""

    def ask(question: str) -> RecalledItems:
        bundle = memory.recall(question, profile=profile, k=K, budget=BUDGET, now=history.now)
        return RecalledItems(_list_turns(bundle.items), _list_turns(bundle.packed))

    judgements: list[Judgement] = []
    for pair in history.pairs:
        for text in pair.now:
            answer = ask(text)
            judgements.append(
                Judgement(history, pair, judge_now(answer, pair), tuple(sorted(pair.current)), text, answer.ranking)
            )
        for past, judge in ((pair.then, judge_then), (pair.why, judge_why)):
            for question in past:
                answer, gold = ask(question.text), tuple(sorted(question.gold))
                judgements.append(
                    Judgement(history, pair, judge(answer, question), gold, question.text, answer.ranking)
                )
    return [*judgements, *judge_marks(history, find_marked(memory, history.now))]


def _list_turns(items: Sequence[Item]) -> list[tuple[str, ...]]:
    return [item.turns for item in items]


def _describe_history(history: ChangingHistory, memory: Memory, judgements: Sequence[Judgement]) -> dict[str, Any]:
    return {
        "name": history.name,
        "half": history.half,
        "turns": len(history.turns),
        "items": memory.snapshot.live,
        "pairs": len(history.pairs),
        "questions": sum(bool(one.question) for one in judgements),
        "controls": len(history.controls),
    }


def _note_missing(history: ChangingHistory, memory: Memory) -> list[str]:
    """Return a note on turns that were not ingested: they count as not found and not marked."""
    known = {turn for entry in memory.snapshot.text(memory.snapshot.alive.nonzero()[0]) for turn in entry["turns"]}
    n = len({turn.id for turn in history.turns} - known)
    return [f"{n} turns of {history.name} were not ingested and count as not found"] if n else []


def _make_rows(judgements: Sequence[Judgement]) -> dict[str, dict[str, Any]]:
    """Return the row of each half, and of all histories if they are of several halves or of none."""
    halves = sorted({one.history.half for one in judgements})
    chosen = {half: [one for one in judgements if one.history.half == half] for half in halves if half}
    if len(chosen) != 1 or "" in halves:
        chosen["all"] = list(judgements)
    return {
        name: {**make_row(own), "categories": group_rows(own, Change), "kinds": group_rows(own, Control)}
        for name, own in chosen.items()
    }
