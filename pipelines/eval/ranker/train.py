"""Training of the packaged ranker: sets → pools → six layers → fewer that learn from them, where wanted → int8."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson

from helix.encoders.rerank import CrossEncoder
from helix.errors import UsageError
from helix.settings import Settings
from helix.text.languages import ENGLISH
from helix.util.hashing import hash_file_once
from pipelines.eval.changes.history import PACKAGED as HISTORIES
from pipelines.eval.ranker.card import format_card
from pipelines.eval.ranker.pools import PooledSet, RankedPool, read_pools
from pipelines.eval.ranker.weigh import choose_weight
from pipelines.eval.sets.registry import read_set

SHARES: Final[Mapping[str, float]] = {
    "chats": 1.6,
    "histories": 1.0,
    "squad_pairs": 0.5,
    "fairytaleqa": 0.5,
    "friendsqa": 0.6,
    "qmsum": 0.3,
    "worlds": 1.0,
}
"""Share of each set among the lists; a set that is not named has 0."""

LICENCES: Final[Mapping[str, str]] = {
    "chats": "written for Helix",
    "histories": "written for Helix",
    "worlds": "written for Helix",
    "squad_pairs": "CC BY-SA 4.0 (SQuAD), MIT (its pairs)",
    "fairytaleqa": "Apache-2.0",
    "friendsqa": "Apache-2.0",
    "qmsum": "MIT",
}

if TYPE_CHECKING:
    from pipelines.training.ranker.network import PairNetwork

LARGE_LAYERS: Final = 6
"""Layers of the network that is trained first: all of the encoder's."""

OWN_DATA: Final = Path(__file__).parent.parent.parent / "training" / "data" / "ranker"
"""The sets that were written for this."""

RANKING: Final = 8.0
"""Weight of recall's own ranking in a logit while it is trained."""

LARGE_RATE: Final = 7e-5
SMALL_RATE: Final = 1e-4

READ_TOKENS: Final = 72
"""Most tokens of question and item in use: fewer than in training, for the time; more order no better."""

HELD_SHARE: Final = 12
"""One of so many projects measures only; in a set of few projects one of so many questions."""

PROBED: Final = 8
"""Questions of each set on which the exported form is compared with the network."""

LICENCE: Final = "Apache-2.0"
"""Of the weights."""

_FEW: Final = 8  # projects

Say = Callable[[str], None]


class LearntSet(NamedTuple):
    """A set to learn from."""

    name: str
    path: Path


class Sizes(NamedTuple):
    """How long and how large is trained."""

    steps: int = 2_000  # of the large network
    small_steps: int = 1_000
    layers: int = LARGE_LAYERS  # of the network that is exported
    seed: int = 0


def list_own() -> list[LearntSet]:
    """List the sets that come with Helix."""
    histories = [LearntSet("histories", HISTORIES / half) for half in ("train", "dev")]
    return [LearntSet(name, OWN_DATA / name) for name in ("chats", "worlds")] + histories


def read_questions(sets: Sequence[LearntSet], work: Path) -> frozenset[str]:
    """Return the questions of sets that are measured, as `simplify` writes them."""
    read = [read_set(one.name, one.path, work / f"apart-{i}") for i, one in enumerate(sets)]
    return frozenset(simplify(question.text) for one in read for question in one.questions)


def simplify(text: str) -> str:
    """Return a question's letters and digits in lower case, by which copies are found."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def pool_sets(
    sets: Sequence[LearntSet], apart: frozenset[str], work: Path, settings: Settings, say: Say
) -> dict[str, PooledSet]:
    """Ingest the sets and keep what recall finds for each question, without the questions that are measured.

    Raises:
        InputRefused: a path does not hold its set.
    """
    out: dict[str, PooledSet] = {}
    for i, one in enumerate(sets):
        found = read_pools(one.name, one.name, one.path, work / f"{one.name}-{i}", settings, missed=True)
        pools = [pool for pool in found.pools if simplify(pool.question) not in apart]
        say(f"{one.name}: {len(pools)} questions, {len(found.pools) - len(pools)} are measured and left out")
        before = out[one.name].pools if one.name in out else ()
        out[one.name] = PooledSet(one.name, [*before, *pools])
    return out


def split_pools(found: PooledSet, seed: int) -> tuple[PooledSet, PooledSet]:
    """Split a set into what is learned from and what measures only, by project where there are several."""
    random = np.random.default_rng(seed)
    projects = sorted({pool.project for pool in found.pools})
    if len(projects) < _FEW:
        held = set(random.choice(len(found.pools), len(found.pools) // HELD_SHARE, replace=False).tolist())
        marks = [i in held for i in range(len(found.pools))]
    else:
        chosen = set(random.choice(projects, max(1, len(projects) // HELD_SHARE), replace=False).tolist())
        marks = [pool.project in chosen for pool in found.pools]
    parts: tuple[list[RankedPool], list[RankedPool]] = ([], [])
    for pool, mark in zip(found.pools, marks, strict=True):
        parts[mark].append(pool)
    return PooledSet(found.label, parts[0]), PooledSet(found.label, parts[1])


def digest_sets(sets: Sequence[LearntSet]) -> list[dict[str, str]]:
    """Describe sets for the card: name, licence, and one sha256 over the files of each."""
    rows = []
    for one in sets:
        files = sorted(path for path in [one.path, *one.path.rglob("*")] if path.is_file())
        whole = hashlib.sha256("".join(hash_file_once(path) for path in files).encode()).hexdigest()
        rows.append({"set": one.name, "licence": LICENCES[one.name], "files": str(len(files)), "sha256": whole})
    return rows


def train_ranker(
    sets: Sequence[LearntSet],
    apart: Sequence[LearntSet],
    encoder: Path,
    out: Path,
    work: Path,
    settings: Settings,
    sizes: Sizes,
    say: Say,
) -> dict[str, Any]:
    """Train, shrink and export the ranker; return its figures: `out/training.json`, and `out/README.md` in words.

    Args:
        apart: sets that are measured; their questions are not learned from.
        encoder: folder of the sentence encoder to begin from.
        out: a folder that is empty or does not exist.
        work: retains stores, checkpoints and logs; a later run takes them up.

    Raises:
        UsageError: `out` has files, there are no such networks, a set is of a kind that is not learned from, or there
            is too little to learn from.
        InputRefused: as in `pool_sets`.
        EncoderError: the exported network does not agree with the trained one.
    """
    from pipelines.training.ranker.export import export_ranker, set_ranking

    _check_given(sets, out, sizes)
    pooled = pool_sets(sets, read_questions(apart, work), work, settings, say)
    parts = {label: split_pools(found, sizes.seed) for label, found in pooled.items()}
    learnt, held = ({label: halves[i] for label, halves in parts.items()} for i in range(2))
    network, plans = _fit(encoder, learnt, held, work, sizes, say)
    out.mkdir(parents=True, exist_ok=True)
    tensors = network.named_tensors()
    digest = hashlib.sha256(b"".join(tensors[name].detach().numpy().tobytes() for name in sorted(tensors))).hexdigest()
    checked = export_ranker(network, encoder, out, LICENCE, READ_TOKENS, digest, _list_probes(held))
    ranking, figures = choose_weight(held, CrossEncoder(out).weigh)
    set_ranking(out, ranking)
    card = {
        "language": ENGLISH,
        "licence": LICENCE,
        "sets": digest_sets(sets),
        "apart": [one.name for one in apart],
        "questions": {label: [len(learnt[label].pools), len(held[label].pools)] for label in learnt},
        "layers": sizes.layers,
        "tokens": READ_TOKENS,
        "plans": plans,
        "held_out": {name: read_last(work / name / "log.jsonl") for name in plans},
        "export": checked._asdict(),
        "ranking": ranking,
        "figures": figures,
        "weights_sha256": digest,
        "python": sys.version.split()[0],
        "torch": version("torch"),
    }
    (out / "training.json").write_bytes(orjson.dumps(card, option=orjson.OPT_INDENT_2) + b"\n")
    (out / "README.md").write_text(format_card(card), "utf-8")
    return card


def _check_given(sets: Sequence[LearntSet], out: Path, sizes: Sizes) -> None:
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty", "give a new folder")
    if not 1 <= sizes.layers <= LARGE_LAYERS:
        raise UsageError(f"no network of {sizes.layers} layers", f"give 1 to {LARGE_LAYERS}")
    if unknown := [one.name for one in sets if one.name not in SHARES]:
        raise UsageError(f"the ranker does not learn from {', '.join(unknown)}", f"give one of {', '.join(SHARES)}")


def _fit(
    encoder: Path,
    learnt: Mapping[str, PooledSet],
    held: Mapping[str, PooledSet],
    work: Path,
    sizes: Sizes,
    say: Say,
) -> tuple[PairNetwork, dict[str, dict[str, Any]]]:
    """Train the large network, and a smaller one from it if fewer layers are wanted; return the last, and all plans."""
    import torch

    from pipelines.training.ranker import fit
    from pipelines.training.ranker.network import open_network, shrink_network

    shares = {label: SHARES[label] for label in learnt}
    plan = fit.TrainingPlan(shares, steps=sizes.steps, rate=LARGE_RATE, ranking=RANKING, seed=sizes.seed)
    torch.manual_seed(sizes.seed)
    large = open_network(encoder, LARGE_LAYERS)
    say(f"the large network, {plan.steps} steps")
    fit.train(large, encoder, learnt, held, work / "large", plan, say)
    if sizes.layers == LARGE_LAYERS:
        return large, {"large": asdict(plan)}
    small_plan = replace(plan, steps=sizes.small_steps, rate=SMALL_RATE, seed=sizes.seed + 1)
    small = shrink_network(large, encoder, sizes.layers)
    say(f"the small network, {small_plan.steps} steps")
    fit.train(small, encoder, learnt, held, work / "small", small_plan, say, teacher=large)
    return small, {"large": asdict(plan), "small": asdict(small_plan)}


def _list_probes(held: Mapping[str, PooledSet]) -> list[tuple[str, str]]:
    """List pairs of question and item on which an exported form is compared with its network."""
    from pipelines.training.ranker.lists import shorten_question

    chosen = [pool for found in held.values() for pool in found.pools[:PROBED]]
    return [(shorten_question(pool.question), text) for pool in chosen for text in pool.texts[:10]]


def read_last(log: Path) -> dict[str, float]:
    """Return the figures of the last line of a log that has any."""
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    return next((dict(line["held_out"]) for line in reversed(lines) if "held_out" in line), {})
