"""Training of the pair network: list-wise, on top of the ranking so far, with checkpoints that a later run takes up.

The loss of a list is the cross-entropy of its right item under a softmax over all of them (Cao et al. 2007, "Learning
to rank: from pairwise approach to listwise approach"). A candidate's logit is the network's score plus `ranking` times
its score in recall's own ranking: so the network learns what that ranking lacks, as it will be used.

A small network may learn from a larger one, too: half of its loss is then how far its softmax is from the larger one's
(Hinton et al. 2015, "Distilling the knowledge in a neural network").
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from pipelines.training.ranker.lists import DrawnList, ListSource, SetLike
from pipelines.training.ranker.network import PairBatch, PairNetwork

LOGGED: Final = 50
"""Steps between two lines of the log."""

KEPT: Final = 250
"""Steps between two checkpoints."""

HELD_OUT: Final = 400
"""Lists that measure and are never trained on."""

_CHUNK: Final = 48  # pairs of one pass; those of similar length share one
_WARM: Final = 0.06  # share of the steps over which the rate rises
_LEAST_RATE: Final = 0.02  # share of the rate at the end
_DECAY: Final = 0.01
_LONGEST_GRADIENT: Final = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Settings of a training run; the same on the same data give the same network, but for rounding."""

    shares: Mapping[str, float]  # of the lists, by set
    steps: int = 1_500
    lists: int = 8  # a step
    length: int = 8  # candidates of a list
    rate: float = 5e-5
    ranking: float = 8.0  # weight of recall's own ranking in a logit
    max_tokens: int = 96  # 128 order no better and take half as long again
    seed: int = 0


def train(
    network: PairNetwork,
    folder: Path,
    sets: Mapping[str, SetLike],
    held_out: Mapping[str, SetLike],
    out: Path,
    plan: TrainingPlan,
    say: Say,
    *,
    teacher: PairNetwork | None = None,
) -> None:
    """Train a network and keep its checkpoints and log below `out`, which a later run takes up if this one ends early.

    Args:
        folder: of the sentence encoder that it was begun from.
        held_out: sets of the same labels, whose lists measure only.
        teacher: a trained network to learn from, too.
    """
    torch.manual_seed(plan.seed)
    tokenizer = open_pair_tokenizer(folder, plan.max_tokens)
    source = ListSource(sets, plan.shares, plan.length, plan.seed)
    measured = ListSource(held_out, plan.shares, plan.length, plan.seed + 1)
    measures = [measured.draw() for _ in range(HELD_OUT)]
    optimiser = torch.optim.AdamW(group_parameters(network), lr=plan.rate)
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_bytes(orjson.dumps(asdict(plan), option=orjson.OPT_INDENT_2))
    first = _resume(out / "checkpoint.pt", network, optimiser)
    for _ in range(first * plan.lists):
        source.draw()
    recent = defaultdict[str, deque[float]](lambda: deque(maxlen=100))
    losses, began = deque[float](maxlen=LOGGED), time.monotonic()
    for step in range(first, plan.steps):
        drawn = [source.draw() for _ in range(plan.lists)]
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * find_rate(step, plan.steps)
        loss, hits = _take_step(network, tokenizer, optimiser, drawn, plan.ranking, teacher)
        losses.append(loss)
        for one, hit in zip(drawn, hits, strict=True):
            recent[one.label].append(hit)
        done = step + 1
        if done % LOGGED == 0 or done == plan.steps:
            line: dict[str, Any] = {
                "step": done,
                "loss": round(float(np.mean(losses)), 4),
                "seconds": round(time.monotonic() - began),
            }
            line["hits"] = {label: round(float(np.mean(values)), 3) for label, values in sorted(recent.items())}
            if done % KEPT == 0 or done == plan.steps:
                line["held_out"] = measure(network, tokenizer, measures, plan.ranking)
                save_checkpoint(out / "checkpoint.pt", network, optimiser, done)
            with (out / "log.jsonl").open("ab") as log:
                log.write(orjson.dumps(line) + b"\n")
            say(orjson.dumps(line).decode())


def find_rate(step: int, steps: int) -> float:
    """Return the share of the rate at a step: a straight rise, then a straight fall."""
    return min(1.0, (step + 1) / max(1.0, _WARM * steps)) * max(_LEAST_RATE, 1 - step / steps)


def group_parameters(network: PairNetwork) -> list[dict[str, Any]]:
    """Return the trained tensors in two groups: matrices, which decay, and all others."""
    trained = list(network.named_tensors().values())
    return [
        {"params": [one for one in trained if one.ndim > 1], "weight_decay": _DECAY},
        {"params": [one for one in trained if one.ndim <= 1], "weight_decay": 0.0},
    ]


def _take_step(
    network: PairNetwork,
    tokenizer: Tokenizer,
    optimiser: torch.optim.Optimizer,
    drawn: Sequence[DrawnList],
    ranking: float,
    teacher: PairNetwork | None,
) -> tuple[float, list[float]]:
    """Learn from some lists; return the mean loss, and for each list 1 where its right item came first."""
    network.set_training(True)
    logits = _score_lists(network, tokenizer, drawn, ranking)
    right = torch.zeros(1, dtype=torch.long)
    loss = torch.stack([functional.cross_entropy(one[None], right) for one in logits]).mean()
    if teacher is not None:
        teacher.set_training(False)
        with torch.no_grad():
            wanted = _score_lists(teacher, tokenizer, drawn, ranking)
        loss = (loss + torch.stack([_diverge(*pair) for pair in zip(logits, wanted, strict=True)]).mean()) / 2
    loss.backward()
    torch.nn.utils.clip_grad_norm_([*network.named_tensors().values()], _LONGEST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return float(loss.detach()), [float(one.detach().argmax() == 0) for one in logits]


def _diverge(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return how far a list's softmax is from another's: their Kullback–Leibler divergence."""
    return functional.kl_div(logits.log_softmax(0), wanted.log_softmax(0), reduction="sum", log_target=True)


def measure(network: PairNetwork, tokenizer: Tokenizer, drawn: Sequence[DrawnList], ranking: float) -> dict[str, float]:
    """Return the share of lists whose right item comes first, by set."""
    network.set_training(False)
    found: dict[str, list[float]] = defaultdict(list)
    with torch.no_grad():
        for at in range(0, len(drawn), 10):
            part = drawn[at : at + 10]
            for one, logits in zip(part, _score_lists(network, tokenizer, part, ranking), strict=True):
                found[one.label].append(float(logits.argmax() == 0))
    return {label: round(float(np.mean(values)), 3) for label, values in sorted(found.items())}


def _score_lists(
    network: PairNetwork, tokenizer: Tokenizer, drawn: Sequence[DrawnList], ranking: float
) -> list[Tensor]:
    pairs = [(one.question, text) for one in drawn for text in one.texts]
    scores = score_pairs(network, tokenizer, pairs).split([len(one.texts) for one in drawn])
    return [score + ranking * torch.from_numpy(one.scores) for score, one in zip(scores, drawn, strict=True)]


def score_pairs(network: PairNetwork, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """Score pairs of question and item text: float32[n]."""
    encoded = tokenizer.encode_batch_fast(list(pairs))
    order = np.argsort([len(one.ids) for one in encoded], kind="stable")
    parts = []
    for at in range(0, len(order), _CHUNK):
        with torch.autocast("cpu", torch.bfloat16):
            parts.append(network.score(pad_pairs([encoded[i] for i in order[at : at + _CHUNK].tolist()])))
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.from_numpy(order)] = torch.arange(len(order))
    return torch.cat(parts)[back]


def pad_pairs(encoded: Sequence[Any]) -> PairBatch:
    """Pad the tokens of pairs."""
    longest = max(len(one.ids) for one in encoded)
    arrays = np.zeros((3, len(encoded), longest), np.int64)
    for i, one in enumerate(encoded):
        arrays[:, i, : len(one.ids)] = (one.ids, one.attention_mask, one.type_ids)
    return PairBatch(*map(torch.from_numpy, arrays))


def open_pair_tokenizer(folder: Path, max_tokens: int) -> Tokenizer:
    """Open a tokenizer that cuts the item where a pair is too long."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_tokens, strategy="only_second")
    tokenizer.no_padding()
    return tokenizer


def save_checkpoint(path: Path, network: PairNetwork, optimiser: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint whole or not at all."""
    state = {"network": network.named_tensors(), "optimiser": optimiser.state_dict(), "step": step}
    state["random"] = torch.get_rng_state()
    fresh = path.with_suffix(".new")
    torch.save(state, fresh)
    fresh.replace(path)


def _resume(path: Path, network: PairNetwork, optimiser: torch.optim.Optimizer) -> int:
    """Go on from a checkpoint, if there is one; return the steps that are done."""
    if not path.is_file():
        return 0
    state = torch.load(path, weights_only=True)
    network.load_tensors(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["random"])
    return int(state["step"])
