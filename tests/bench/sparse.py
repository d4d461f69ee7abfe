"""The sparse leg: what a question costs to encode, and to search among a million items, beside the lexical leg.

python -m tests.bench.sparse encode [--rounds 200] [--threads 1,2]
python -m tests.bench.sparse search --items 1000000 [--questions 200]

Networks of real shapes and random weights cost what trained ones do, but for how many terms come out: those are drawn
for the search, ~100 an item and 10 or 30 a question, as Zipf-Mandelbrot has it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helix.encoders import sparse
from helix.encoders.sparse import SPEC, Spec, fingerprint, open_query
from helix.encoders.sparse_export import _pool
from helix.snapshot.impacts import ImpactField, Impacts
from helix.stages.lexical import search_lexical
from helix.stages.sparse import search_sparse
from helix.types import Plan, Sparse
from tests.bench.lexical import GROUPS, Segment, Store

VOCABULARY = 30_522
QUESTIONS = (
    "where did we set the visibility timeout",
    "What did I tell Priya about vacation?",
    "why did we pick duckdb over sqlite for the statistics",
    "database is locked",
    "who fixed the flaky retry test in the gateway last week",
)
SHAPES = {"6 × 384": (384, 6, 12, 1_536), "6 × 768": (768, 6, 12, 3_072)}


def told(name: str, seconds: Sequence[float]) -> None:
    ms = sorted(1e3 * one for one in seconds)
    print(f"{name:44} p50 {statistics.median(ms):7.2f} ms   p95 {ms[int(0.95 * len(ms))]:7.2f} ms", flush=True)


def timed(work: Callable[[Any], Any], given: Sequence[Any], rounds: int) -> list[float]:
    for one in given:
        work(one)
    out = []
    for i in range(rounds):
        began = time.perf_counter()
        work(given[i % len(given)])
        out.append(time.perf_counter() - began)
    return out


def network(folder: Path, shape: tuple[int, int, int, int]) -> Path:
    """An int8 DistilBERT for masked language modelling, SPLADE's pooling in the graph, weights drawn."""
    import torch
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    from helix.encoders.export import quantise, to_onnx

    width, layers, heads, inner = shape
    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=VOCABULARY, dim=width, n_layers=layers, n_heads=heads, hidden_dim=inner)
    DistilBertForMaskedLM(config).eval().save_pretrained(folder / "saved")
    to_onnx(folder / "saved", folder / "plain", "fill-mask")
    _pool(folder / "plain" / "model.onnx", "max", "relu")
    quantise(folder / "plain", folder / "int8")
    (folder / "int8" / "model_quantized.onnx").rename(folder / "int8" / "model.onnx")
    return described(folder / "int8", "splade")


def described(folder: Path, kind: str) -> Path:
    """With a tokenizer of word pieces, which splits as BERT's does, and sparse.json."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [chr(c) for c in range(97, 123)]
    words = sorted({word.strip("?").lower() for text in QUESTIONS for word in text.split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *words, *letters, *(f"##{c}" for c in letters)]
    pieces = list(dict.fromkeys(pieces))
    pieces += [f"[unused{i}]" for i in range(VOCABULARY - len(pieces))]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = sparse.QUERY_FILES[kind]
    tokenizer.save(str(folder / names[1]))
    if kind == "inference-free":
        np.save(folder / names[0], np.random.default_rng(0).random(VOCABULARY).astype(np.float32))
    spec = Spec(
        sparse.FORMAT, kind, "drawn", "", "int8", {}, "", VOCABULARY, 256, 64, 0, "", "",
        {name: sparse.sha256(folder / name) for name in names},
    )  # fmt: skip
    import dataclasses

    import orjson

    spec = dataclasses.replace(spec, fingerprint=fingerprint(spec))
    (folder / SPEC).write_bytes(orjson.dumps(spec))
    return folder


def encode(rounds: int, threads: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as work:
        for name, shape in SHAPES.items():
            folder = network(Path(work, name), shape)
            size = (folder / "model.onnx").stat().st_size / 1e6
            for n in threads:
                asks = open_query(folder, n)
                told(f"splade {name}, int8, {size:.0f} MB, threads {n}", timed(asks.encode, QUESTIONS, rounds))
        Path(work, "free").mkdir()
        asks = open_query(described(Path(work, "free"), "inference-free"), 1)
        told("inference-free", timed(asks.encode, QUESTIONS, rounds))


# ------------------------------------------------------------ searching


def drawn(items: int, per: int, terms: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Postings: (terms, indptr, rows, weights float32) of ~`per` different terms an item."""
    chance = 1 / (np.arange(terms) + 20.0)
    chance /= chance.sum()
    # A term is in an item with its own probability, independently: as many as `per` on average, none twice.
    share = np.minimum(0.5, per * chance)
    for _ in range(20):
        free = share < 0.5
        share[free] *= (per - share[~free].sum()) / share[free].sum()
        share = np.minimum(0.5, share)
    counts = rng.binomial(items, share)
    rows = [np.flatnonzero(rng.random(items, np.float32) < s) if s > 0.02 else np.sort(
        rng.choice(items, n, replace=False)) for s, n in zip(share, counts, strict=True)]  # fmt: skip
    indptr = np.append(0, np.cumsum([len(each) for each in rows])).astype(np.int64)
    flat = np.concatenate(rows).astype(np.uint32)
    # What a common term weighs is small, as trained models have it; within a term it varies threefold.
    mean = np.repeat(0.3 + 1.5 * (1 - share / 0.5) ** 2, np.diff(indptr)).astype(np.float32)
    return np.arange(terms), indptr, flat, (mean * rng.gamma(4.0, 0.25, len(flat))).astype(np.float32)


def search(items: int, questions: int, k: int = 100) -> None:
    rng = np.random.default_rng(0)
    key, indptr, rows, weights = drawn(items, 100, VOCABULARY, rng)
    impact = np.minimum(np.rint(weights * 1_024), 65_535).astype(np.uint16)
    most = np.maximum.reduceat(impact, np.minimum(indptr[:-1], len(impact) - 1))
    held = Impacts(
        {
            "rows": np.arange(items, dtype=np.uint32),
            "terms.key": key.astype(np.uint32),
            "terms.most": most,
            "terms.indptr": indptr,
            "terms.rows": rows,
            "terms.impact": impact,
        }
    )
    ties = rng.permutation(items).astype(np.uint64)
    field = ImpactField([(0, held)], items, np.ones(items, bool), ties)
    print(f"{items:,} items, {len(rows) / items:.0f} terms each, {6 * len(rows) / 1e6:.0f} MB of postings")
    whole, group = Plan(None, items), rng.integers(0, GROUPS, items) == 0
    narrow = Plan(group, int(group.sum()))
    df = np.diff(indptr)
    words_key, words_indptr, words_rows, _ = drawn(items, 40, 100_000, rng)
    store: Any = Store(
        [(0, Segment(words_key.astype(np.uint64), words_indptr, words_rows, np.ones(len(words_rows), np.uint16)))],
        np.full(items, 40, np.float32),
        ties,
    )
    words_df = np.diff(words_indptr)
    for size in (10, 30):
        # A question's terms are those of an item: a third of them, as likely as they are in items.
        asked = [one(df, size, rng) for _ in range(questions)]
        told(f"sparse, {size} terms", timed(lambda q: search_sparse(q, field, whole, k), asked, questions))
        told(
            f"sparse, {size} terms, one item in 100",
            timed(lambda q: search_sparse(q, field, narrow, k), asked, questions),
        )
        pool = rng.choice(items, 400, replace=False)
        told(f"scores of 400 items, {size} terms", timed(lambda q, pool=pool: field.scores(pool, q), asked, questions))
    for size in (5, 10):
        spoken: list[Any] = [
            type("Q", (), {"terms": one(words_df, size, rng).terms.astype(np.uint64)}) for _ in range(questions)
        ]
        told(f"lexical, {size} terms", timed(lambda q: search_lexical(q, store, whole, k, 0.9, 0.6), spoken, questions))


def one(df: Any, size: int, rng: np.random.Generator) -> Sparse:
    terms = np.sort(rng.choice(len(df), size, replace=False, p=df / df.sum())).astype(np.uint32)
    rare = np.log(1 + df.max() / np.maximum(df[terms], 1))
    return Sparse(terms, (rare / rare.max() * 2 * rng.gamma(4.0, 0.25, size)).astype(np.float32) + np.float32(0.05))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("encode", "search"))
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--items", type=int, default=1_000_000)
    arguments.add_argument("--questions", type=int, default=200)
    given = arguments.parse_args()
    if given.what == "encode":
        encode(given.rounds, [int(n) for n in given.threads.split(",")])
    else:
        search(given.items, given.questions)
