"""Cost of the deep tier without the model, and its gain with a model of a given quality.

`python -m tests.support.bench.deep cost` asks a chat server that answers at once, which measures Helix alone.
`python -m tests.support.bench.deep gain locomo locomo10.json --every 3` simulates the model on a set. A word of
a wording is right (of the gold turn, not in the question) with probability p, else of some other turn. An order puts
each gold item first with probability p, and leaves the others in place.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from helix.deep import fusion as tier
from helix.deep.context import prepare
from helix.deep.fusion import compose_answer, item_key, recall_wordings
from helix.deep.replies import Replies
from helix.sdk.memory import Memory
from helix.sdk.open import open_memory
from helix.settings import load
from helix.text.tokenize import STOP_WORDS
from helix.types import Item, RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import drop_unanswerable, read_haystacks
from pipelines.eval.score import BUDGETS, RankedAnswer, score_answer
from pipelines.eval.sets.benchmark import Question, turn_key
from pipelines.eval.sets.registry import read_set
from tests.support.chat_server import chatting

QUESTIONS = (
    "What did I tell Priya about vacation?", "why did we pick sqlite", "When did the disk run full?",
    "What does Priya prefer, the beach or the mountains?", "sqlite3.OperationalError: database is locked",
)  # fmt: skip
SHARES = (0.0, 0.05, 0.1, 0.2, 0.5)
ORDERS = (0.2, 0.5, 0.8)
METRICS = ("rec@10", "mrr", "pack@1000")


def measure_cost(rounds: int) -> dict[str, Any]:
    """Measure a whole deep recall over the bundled sample without the model's time, and the tokens it sends."""
    with tempfile.TemporaryDirectory() as work, chatting() as chat:
        store = Path(work) / "store"
        ingest(store, [Path(str(files("helix") / "sample"))], load())
        settings = replace(load(), deep_url=chat.url, deep_model="good", deep_projects="*", answers=0)
        memory, plain, deep, tokens = open_memory(store, settings), [], [], []
        for i in range(rounds):
            question = f"{QUESTIONS[i % len(QUESTIONS)]} ({i})"  # no cached answer
            chat.forget()
            for tier_, into in (("fast", plain), ("deep", deep)):
                began = time.perf_counter()
                bundle = memory.recall(question, tier=tier_)
                into.append(1e3 * (time.perf_counter() - began))
                assert not bundle.degraded, bundle.degraded
            prompts = ["\n".join(one["content"] for one in asked["body"]["messages"]) for asked in chat.list_requests()]
            tokens.append(memory.snapshot.counter(prompts))
        sent = np.array(tokens)
        return {
            "recalls": rounds, "calls": sent.shape[1], "fast": _percentiles(plain), "deep": _percentiles(deep),
            "prompt_tokens": {"rewrites": float(np.median(sent[:, :3].sum(1))), "rerank": float(np.median(sent[:, 3]))},
        }  # fmt: skip


def measure_worker(rounds: int) -> dict[str, Any]:
    """Measure over REST with a worker and its Redis: the time to the first answer, and to the deep one."""
    from tests.contract.test_deep_worker import at_work
    from tests.support.fleet import Redis
    from tests.support.serving import serving

    with tempfile.TemporaryDirectory() as work, chatting() as chat:
        store, redis = Path(work) / "store", Redis(Path(work) / "redis")
        ingest(store, [Path(str(files("helix") / "sample"))], load())
        redis.start()
        first, deep = [], []
        try:
            with at_work(store, redis.url, chat, Path(work) / "log"), serving(store, load()) as client:
                for i in range(rounds):
                    began = time.perf_counter()
                    sent = {"query": f"{QUESTIONS[i % len(QUESTIONS)]} ({i})"}
                    job = client.post("/v1/recall/deep", json=sent).raise_for_status().json()
                    first.append(1e3 * (time.perf_counter() - began))
                    while job["status"] != "done":
                        time.sleep(0.01)
                        job = client.get(f"/v1/recall/deep/{job['job']}").raise_for_status().json()
                    deep.append(1e3 * (time.perf_counter() - began))
                    assert not job["answer"]["degraded"], job["answer"]["degraded"]
        finally:
            redis.kill()
        return {"recalls": rounds, "first": _percentiles(first[5:]), "deep": _percentiles(deep[5:])}


def _percentiles(ms: Sequence[float]) -> dict[str, float]:
    return {f"p{p}": round(float(np.percentile(ms, p)), 1) for p in (50, 95)}


def measure_gain(name: str, path: Path, every: int) -> dict[str, dict[str, float]]:
    """Return the means of METRICS for each simulated model."""
    settings = replace(load(), answers=0)
    with tempfile.TemporaryDirectory() as work:
        benchmark = read_set(name, path, Path(work) / "documents")
        ingest(Path(work) / "store", list(benchmark.documents), settings)
        memory = Memory(Path(work) / "store", settings)
        benchmark = drop_unanswerable(benchmark, memory.snapshot, read_haystacks(memory.snapshot), settings)
        questions, words = benchmark.questions[::every], _read_words(memory)
        rows: dict[str, dict[str, float]] = {}

        def measure(row: str, replies: Callable[[Question, Any], Replies]) -> None:
            values = [score_answer(question, _answer(memory, question, replies)) for question in questions]
            rows[row] = {metric: round(float(np.mean([one[metric] for one in values])), 4) for metric in METRICS}
            print(json.dumps({"set": name, "questions": len(questions), "row": row, **rows[row]}), flush=True)

        measure("no model", lambda *_: Replies())
        for share in SHARES:
            measure(f"wordings, p = {share}", lambda q, _, p=share: Replies(_make_wordings(q, words, p)))
        for share in ORDERS:
            measure(f"order, p = {share}", lambda q, asked, p=share: Replies(order=_make_order(q, asked, p)))
        measure("order at random", lambda q, asked: Replies(order=_make_order(q, asked, -1.0)))
        for k in (5, 60):
            with _override("K", k):
                for share in SHARES[:3]:
                    measure(
                        f"wordings, p = {share}, K = {k}", lambda q, _, p=share: Replies(_make_wordings(q, words, p))
                    )
        return rows


@contextmanager
def _override(name: str, value: float) -> Iterator[None]:
    before = getattr(tier, name)
    setattr(tier, name, value)
    try:
        yield
    finally:
        setattr(tier, name, before)


def _read_words(memory: Memory) -> tuple[dict[str, list[str]], list[str]]:
    """Return the content words of each turn, and all of them."""
    snap = memory.snapshot
    rows = np.flatnonzero(snap.alive)
    by_turn: dict[str, list[str]] = {}
    for part in np.array_split(rows, len(rows) // 10_000 + 1):
        for entry in snap.text(part):
            words = [word.strip(".,;:!?\"'()").lower() for word in entry["text"].split()]
            content = [word for word in words if len(word) > 2 and word not in STOP_WORDS]
            for one in entry["turns"]:
                by_turn.setdefault(turn_key(entry["session"], one), []).extend(content)
    return by_turn, sorted({word for known in by_turn.values() for word in known})


def _make_wordings(question: Question, words: tuple[dict[str, list[str]], list[str]], p: float) -> dict[str, str]:
    """Make a note of twelve words, the question with a passage of twenty, and three queries of five."""
    by_turn, known = words
    chance = random.Random(f"{question.text} {p}")
    asked = set(question.text.lower().split())
    right = [word for one in sorted(question.gold) for word in by_turn.get(one, ()) if word not in asked] or known

    def draw(n: int) -> str:
        return " ".join(chance.choice(right) if chance.random() < p else chance.choice(known) for _ in range(n))

    return {
        "hyde": draw(12),
        **{f"expansion {i}": draw(5) for i in (1, 2, 3)},
        "query2doc": f"{question.text}\n{draw(20)}",
    }


def _make_order(question: Question, asked: Any, p: float) -> tuple[str, ...]:
    """Order gold first, each item with probability p; below 0: at random."""
    chance = random.Random(f"{question.text} {p}")
    items = recall_wordings(asked, None).items[: tier.TOP]
    if p < 0:
        chance.shuffle(items)
        return tuple(map(item_key, items))
    good = {item_key(item) for item in items if question.gold.intersection(_turns(item)) and chance.random() < p}
    return tuple(sorted(map(item_key, items), key=lambda key: key not in good))


def _turns(item: Item) -> list[str]:
    return [turn_key(item.session, one) for one in item.turns]


def _answer(memory: Memory, question: Question, replies: Callable[[Question, Any], Replies]) -> RankedAnswer:
    given = {"project": question.project, "now": question.at, "k": 30, "budget": 1_000}
    asked = prepare(memory.deep_context, question.text, RecallOptions(**given))
    plain = memory.recall(question.text, **given)
    said = replies(question, asked)
    found = compose_answer(asked, plain, said, time.perf_counter()) if said.wordings or said.order else plain
    ranking = dict.fromkeys(one for item in found.items for one in _turns(item))
    pack = {one for item in found.packed for one in _turns(item)}
    return RankedAnswer(list(ranking), dict.fromkeys(BUDGETS, pack))


def main() -> None:
    new = argparse.ArgumentParser()
    which = new.add_subparsers(dest="which", required=True)
    costs = which.add_parser("cost")
    costs.add_argument("--recalls", type=int, default=100)
    gains = which.add_parser("gain")
    gains.add_argument("set")
    gains.add_argument("path", type=Path)
    gains.add_argument("--every", type=int, default=1)
    options = new.parse_args()
    if options.which == "cost":
        print(json.dumps({"in this process": measure_cost(options.recalls)}), flush=True)
        print(json.dumps({"by a worker": measure_worker(options.recalls)}))
    else:
        measure_gain(options.set, options.path, options.every)


if __name__ == "__main__":
    main()
