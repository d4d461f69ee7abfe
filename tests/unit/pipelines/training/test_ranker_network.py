"""The network that reads a question and an item together, and its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from helix.encoders.registry import find_trainable
from helix.settings import load
from pipelines.eval.ranker.pools import PooledSet, RankedPool

torch = pytest.importorskip("torch", reason="training needs torch")

from pipelines.training.ranker import fit, network  # noqa: E402


def make_batch(hidden: list[list[float]], kinds: str) -> tuple[object, network.PairBatch]:
    """Tokens by kind: c and s are special, q of the question, d of the item, a dot pads."""
    ids = [{"c": network.CLS, "s": network.SEP, ".": 0}.get(kind, 7) for kind in kinds]
    types = [int(i > kinds.index("s") and kind != ".") for i, kind in enumerate(kinds)]
    mask = [int(kind != ".") for kind in kinds]
    fields = (torch.tensor([one]) for one in (ids, mask, types))
    return torch.tensor([hidden]), network.PairBatch(*fields)


def test_the_score_is_how_the_tokens_agree() -> None:
    """Of the question (1,0) and (0,1), of the item (1,1) and (0,2): cosines .71 and 1; the means (.5,.5), (.5,1.5)."""
    head = network.make_head(2)
    for one in (head["first"].weight, head["first"].bias):
        torch.nn.init.zeros_(one)
    tokens = [[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [8.0, 0.0], [1.0, 1.0], [0.0, 2.0], [5.0, 0.0]]
    hidden, batch = make_batch(tokens, "cqqsdds")
    means = 1 / (np.sqrt(0.5) * np.sqrt(2.5))
    expected = 10 * (np.sqrt(0.5) + 1) / 2 + 10 * means
    assert network.read_pairs(hidden, batch, head).tolist() == pytest.approx([expected], rel=1e-5)
    padded, longer = make_batch([*tokens, [3.0, -3.0]], "cqqsdds.")
    assert network.read_pairs(padded, longer, head).tolist() == pytest.approx([expected], rel=1e-5)


def test_a_rate_rises_and_falls() -> None:
    rates = [fit.find_rate(step, 100) for step in range(100)]
    assert max(rates) == rates[5] > 0.9
    assert rates[:6] == sorted(rates[:6])
    assert rates[6:] == sorted(rates[6:], reverse=True)
    assert rates[-1] == pytest.approx(0.02)


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_trainable("all-MiniLM-L6-v2", load())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sets() -> Mapping[str, PooledSet]:
    """Birds and tools: the right item is the one that names the thing asked for, and ranks last."""
    things = ["heron", "lathe", "finch", "chisel", "stork", "plane"]
    texts = {i: f"user: {things[i]} number {i} [SEP] assistant: noted" for i in range(6)}
    scores = np.linspace(0.9, 0.1, 6, dtype=np.float32)
    pools = []
    for i, thing in enumerate(things):
        rows = np.array([*(j for j in range(6) if j != i), i])
        gold = rows == i
        read = [texts[row] for row in rows.tolist()]
        pools.append(RankedPool(f"where is the {thing}", "p", 6, rows, scores, gold, gold & False, [""] * 6, 1, read))
    return {"things": PooledSet("things", pools)}


def run(folder: Path, sets: Mapping[str, PooledSet], out: Path, steps: int = 6) -> network.PairNetwork:
    plan = fit.TrainingPlan({"things": 1.0}, steps=steps, lists=2, length=4, rate=1e-3, seed=3)
    torch.manual_seed(1)
    made = network.open_network(folder, 1)
    with mock.patch.multiple(fit, KEPT=2, LOGGED=2, HELD_OUT=4):
        fit.train(made, folder, sets, sets, out, plan, lambda line: None)
    return made


def test_training_learns_and_takes_up_where_it_ended(
    tmp_path: Path, folder: Path, sets: Mapping[str, PooledSet]
) -> None:
    whole = run(folder, sets, tmp_path / "whole").named_tensors()
    step, done = fit._take_step, []

    def stop_at_the_fourth(*given: Any) -> tuple[float, list[float]]:
        done.append(1)
        if len(done) == 4:
            raise KeyboardInterrupt
        return step(*given)

    with mock.patch.object(fit, "_take_step", stop_at_the_fourth), pytest.raises(KeyboardInterrupt):
        run(folder, sets, tmp_path / "cut")
    taken_up = run(folder, sets, tmp_path / "cut").named_tensors()
    before = network.open_network(folder, 1).named_tensors()
    for name, value in whole.items():
        np.testing.assert_allclose(taken_up[name].detach(), value.detach(), atol=1e-5, err_msg=name)
    assert max(float((value - before[name]).detach().abs().max()) for name, value in whole.items()) > 1e-3
    assert not any("embeddings" in name for name in whole)
    log = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [2, 4, 6]
    assert all("things" in line["held_out"] for line in log)
    assert log[-1]["loss"] < log[0]["loss"]
