"""Recall of each storage level of vectors against float32 vectors, and the time of a search.

python -m tests.support.bench.tiers [PATH_TO_DATA] [--keep FOLDER] [--items N] [--rate]

PATH_TO_DATA holds any of locomo/locomo_dev5.json, musique/musique_train*.json, cranfield/ and npl/, as published.
Vectors are the configured encoder's; `--keep` saves them between runs. `--items` adds the latency of a search among
synthetic vectors. `--rate` embeds 3,000 of the passages instead, and compares with the bare ONNX session.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.encoders.dense import Encoder, measure_session
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.ranking.topk import select_top
from helix.settings import load
from helix.snapshot.index import dense
from helix.snapshot.reader.vectors import VectorBlock
from helix.snapshot.segment.arrays import quantise_vectors
from helix.stages.dense import candidates, score
from helix.types import F32, Bool
from pipelines.eval.sets.benchmark import turn_key
from pipelines.eval.sets.registry import read_set

K = 10
LEG = 100  # rows of the dense leg
WORDS = 150  # of a passage, as the ingest cuts it


class Collection(NamedTuple):
    """Questions over passages. `gold`: rows that answer, a set a question; a group is searched together."""

    passages: list[str]
    questions: list[str]
    gold: list[set[int]]
    row_group: list[str]
    question_group: list[str]


def read_collection(name: str, path: Path) -> Collection:
    """Read a benchmark set; its passages are cut as the ingest cuts them."""
    with tempfile.TemporaryDirectory() as work:
        benchmark = read_set(name, path, Path(work))
        lines = [json.loads(line) for file in benchmark.documents for line in file.read_bytes().splitlines()]
    row = {turn_key(line["session"], line["id"]): i for i, line in enumerate(lines)}
    heads = [f"{line['speaker']}: " if "speaker" in line else f"{line.get('title', '')}\n" for line in lines]
    texts = [" ".join((head + line["text"]).split()[:WORDS]) for head, line in zip(heads, lines, strict=True)]
    gold = [{row[key] for key in question.gold if key in row} for question in benchmark.questions]
    asked = [(question, rows) for question, rows in zip(benchmark.questions, gold, strict=True) if rows]
    return Collection(
        texts,
        [question.text for question, _ in asked],
        [rows for _, rows in asked],
        [line["project"] for line in lines],
        [question.project or "" for question, _ in asked],
    )


COLLECTIONS = {
    "locomo": "locomo/locomo_dev5.json",
    "musique": "musique/musique_train.json",
    "cranfield": "cranfield",
    "npl": "npl",
}


def embed(name: str, found: Collection, keep: Path | None) -> tuple[F32, F32]:
    """Return (passages float32[n, d], questions float32[m, d])."""
    file = keep / f"{name}.npz" if keep else None
    if file and file.is_file():
        with np.load(file) as kept:
            return kept["passages"], kept["questions"]
    settings = load()
    encoder = Encoder(cache_encoder(choose_encoder(settings), Path(settings.cache)))
    passages = encoder.passages(found.passages)
    questions = np.stack([encoder.query(text) for text in found.questions])
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, passages=passages, questions=questions)
    return passages, questions


def join(found: Sequence[Collection]) -> Collection:
    """Join the collections: every question searches all passages."""
    starts = np.cumsum([0, *(len(each.passages) for each in found)]).tolist()
    gold = [{row + start for row in rows} for each, start in zip(found, starts, strict=False) for rows in each.gold]
    passages = [text for each in found for text in each.passages]
    questions = [text for each in found for text in each.questions]
    return Collection(passages, questions, gold, [""] * len(passages), [""] * len(questions))


Answers = list[npt.NDArray[np.intp]]
Codes = tuple[npt.NDArray[np.int8], F32]


def clip(vectors: F32, share: float) -> Codes:
    """Quantise to int8 with one scale a row that fits a share of its values; others are cut off."""
    scale = (np.quantile(np.abs(vectors), share, axis=1) / 127).astype(np.float32)
    return np.clip(np.rint(vectors / scale[:, None]), -127, 127).astype(np.int8), scale


def least_squares(vectors: F32) -> Codes:
    """Quantise to int8 with the scale of the least square error, of eight from 0.7 to 1 of the largest value."""
    top = np.abs(vectors).max(1) / 127
    best, error = top.copy(), np.full(len(vectors), np.inf)
    for factor in np.linspace(0.7, 1, 8):
        scale = (top * factor)[:, None]
        lost = ((np.clip(np.rint(vectors / scale), -127, 127) * scale - vectors) ** 2).sum(1)
        best, error = np.where(lost < error, top * factor, best), np.minimum(lost, error)
    return np.clip(np.rint(vectors / best[:, None]), -127, 127).astype(np.int8), best.astype(np.float32)


def list_allowed(found: Collection) -> list[Bool | None]:
    """Return the rows that each question searches; None for all."""
    groups = np.array(found.row_group)
    mask = {group: groups == group for group in set(found.question_group)}
    return [None if mask[group].all() else mask[group] for group in found.question_group]


def scan(codes: Codes, questions: F32, allowed: Sequence[Bool | None]) -> Answers:
    """Return the K best of all rows by int8 scores."""
    scores = (questions @ codes[0].T.astype(np.float32)) * codes[1]
    return [best(row, mask) for row, mask in zip(scores, allowed, strict=True)]


def best(scores: F32, allowed: Bool | None) -> npt.NDArray[np.intp]:
    masked = scores if allowed is None else np.where(allowed, scores, np.float32(-9)).astype(np.float32)
    return select_top(masked, np.arange(len(scores)), K)


def search_index(
    block: VectorBlock, questions: F32, allowed: Sequence[Bool | None], wanted: int, exact: F32 | None = None
) -> Answers:
    """Return the K best candidates of a leg of `wanted` rows, rescored by int8 codes or by float vectors."""
    answers = []
    for vector, mask in zip(questions, allowed, strict=True):
        assert block.dense is not None
        rows = np.sort(block.dense.search(vector, wanted, mask))
        scores = score(vector, block, rows) if exact is None else exact[rows] @ vector
        answers.append(rows[select_top(scores, rows, K)])
    return answers


def recall(answers: Answers, gold: Sequence[set[int]]) -> float:
    """Return the mean share of the gold rows among the K answers."""
    return float(
        np.mean([len(want & set(rows.tolist())) / len(want) for rows, want in zip(answers, gold, strict=True)])
    )


def overlap(answers: Answers, reference: Answers) -> float:
    """Return the mean share of the reference's rows among the answers."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(answers, reference, strict=True)]))


def build_block(codes: Codes, tier: str, folder: Path) -> tuple[VectorBlock, dict[str, Any]]:
    """Build and open a segment's index of a storage level."""
    path = folder / "index"
    params = dense.build_dense(*codes, path, tier=tier)
    return VectorBlock(0, *codes, dense.open_dense(path, params)), params


def table(name: str, found: Collection, vectors: F32, questions: F32, folder: Path) -> list[tuple[str, float, float]]:
    """Print a line a storage level; return (level, recall@10 as a share of float's, overlap@10)."""
    allowed = list_allowed(found)
    reference = [best(row, mask) for row, mask in zip(questions @ vectors.T, allowed, strict=True)]
    base = recall(reference, found.gold)
    print(f"\n{name}: {len(vectors):,} passages, {len(questions)} questions; recall@{K} of float32 {base:.4f}")
    codes = quantise_vectors(vectors)
    tried: dict[str, Answers] = {
        "int8, scanned": scan(codes, questions, allowed),
        "int8, clipped at 99.9 %": scan(clip(vectors, 0.999), questions, allowed),
        "int8, clipped at 99 %": scan(clip(vectors, 0.99), questions, allowed),
        "int8, least squares": scan(least_squares(vectors), questions, allowed),
    }
    half = vectors.astype(np.float16).astype(np.float32)
    for tier in ("int8", "binary", "prefix:256", "prefix:128"):
        if dense.parse_prefix(tier) >= vectors.shape[1]:
            continue
        block, params = build_block(codes, tier, folder)
        effort = f"over {params['over']}, probes {params['probes']}/{params['lists']}"
        for wanted in (K, LEG):
            tried[f"{tier}, leg of {wanted} ({effort})"] = search_index(block, questions, allowed, wanted)
        if tier == "binary":
            for wanted in (K, LEG):
                label = f"{tier} + float16, leg of {wanted} ({effort})"
                tried[label] = search_index(block, questions, allowed, wanted, half)
    rows = []
    for label, answers in tried.items():
        got, same = recall(answers, found.gold), overlap(answers, reference)
        rows.append((label, got / base, same))
        print(f"  {label:56} recall@{K} {got:.4f} = {got / base:7.2%} of float   overlap@{K} {same:.4f}")
    return rows


def latency(items: int, folder: Path, rounds: int = 100) -> None:
    """Print size, build time and milliseconds a search of each storage level among synthetic vectors."""
    from pipelines.bench.language import DIM

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1_000, DIM)).astype(np.float32)

    def draw(n: int) -> F32:
        rows = centres[rng.integers(len(centres), size=n)] + 1.2 * rng.normal(size=(n, DIM)).astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    parts = [quantise_vectors(draw(min(50_000, items - start))) for start in range(0, items, 50_000)]
    codes = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    questions = draw(rounds)
    exact = dense.scan_nearest(questions, *codes, LEG)
    print(f"\n{items:,} synthetic vectors of {DIM} dimensions in clusters, a leg of {LEG}")
    for tier in ("int8", "binary", "prefix:256", "prefix:128"):
        begun = time.perf_counter()
        block, params = build_block(codes, tier, folder)
        took, size = time.perf_counter() - begun, (folder / "index").stat().st_size / 1e6
        for share in (None, 0.2):
            allowed = None if share is None else rng.random(items) < share
            spent, shares = [], []
            for vector, near in zip(questions, exact, strict=True):
                begun = time.perf_counter()
                rows = candidates(vector, block, allowed, LEG)
                found = rows[select_top(score(vector, block, rows), rows, LEG)]
                spent.append(1e3 * (time.perf_counter() - begun))
                shares.append(len(np.intersect1d(found, near)) / LEG)
            middle, tail = np.percentile(spent, [50, 95])
            got = f"recall@{LEG} {np.mean(shares):.3f}" if share is None else f"{share:.0%} allowed"
            print(f"  {tier:11} {size:7.1f} MB, {took:5.1f} s: {middle:6.2f} ms, p95 {tail:6.2f} ms, {got} {params}")


def throughput(texts: Sequence[str], rounds: int = 2, block: int = 300) -> None:
    """Print passages a second of the encoder and of its ONNX session alone, in turns by blocks."""
    settings = load()
    encoder = Encoder(cache_encoder(choose_encoder(settings), Path(settings.cache)))
    raw, ours = [], []
    for start in range(0, len(texts), block):
        part = texts[start : start + block]
        for _ in range(rounds):
            raw.append(len(part) / measure_session(encoder, part))
            begun = time.perf_counter()
            encoder.passages(part)
            ours.append(time.perf_counter() - begun)
    best_of = [np.reshape(each, (-1, rounds)).min(1).sum() for each in (raw, ours)]
    middle = [np.median(np.reshape(each, (-1, rounds)), axis=1).sum() for each in (raw, ours)]
    print(f"{len(texts):,} passages, {encoder.spec.name}: {len(texts) / best_of[1]:.0f} a second", end="; ")
    print(f"the session alone {len(texts) / best_of[0]:.0f}: {best_of[0] / best_of[1]:.1%}", end="; ")
    print(f"by medians {middle[0] / middle[1]:.1%}")


def main() -> int:
    """Read what is there, embed it, and print."""
    options = argparse.ArgumentParser(prog="tests.support.bench.tiers")
    options.add_argument("path", type=Path, nargs="?")
    options.add_argument("--keep", type=Path)
    options.add_argument("--items", type=int, default=0)
    options.add_argument("--rate", action="store_true")
    given = options.parse_args()
    if given.rate:
        present = {name: given.path / place for name, place in COLLECTIONS.items() if (given.path / place).exists()}
        there = [read_collection(name, path).passages for name, path in present.items()]
        every = list(dict.fromkeys(text for passages in there for text in passages))
        chosen = np.random.default_rng(0).permutation(len(every))[:3_000]
        throughput([every[i] for i in chosen])
        return 0
    with tempfile.TemporaryDirectory() as work:
        found: dict[str, tuple[Collection, F32, F32]] = {}
        for name, place in COLLECTIONS.items():
            if given.path and (given.path / place).exists():
                collection = read_collection(name, given.path / place)
                found[name] = (collection, *embed(name, collection, given.keep))
                table(name, *found[name], Path(work))
        if len(found) > 1:
            vectors, questions = (np.concatenate([entry[i] for entry in found.values()]) for i in (1, 2))
            table("all together", join([entry[0] for entry in found.values()]), vectors, questions, Path(work))
        if given.items:
            latency(given.items, Path(work))
        if not found and not given.items:
            print("nothing to measure: name a folder with the data, or a number of --items")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
