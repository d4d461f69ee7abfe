"""The sparse leg: time to encode a question and to search a million items, next to the lexical leg.

python -m tests.support.bench.sparse encode [--rounds 200] [--threads 1,2]
python -m tests.support.bench.sparse search --items 1000000 [--questions 200]
python -m tests.support.bench.sparse simulate --set locomo --path locomo10.json [--each 3]

Networks of real shapes and random weights cost as much as trained ones, but for the number of terms. The search draws
these by Zipf-Mandelbrot's law: about 100 an item, 10 or 30 a question. `simulate` measures a model of known quality:
every item has its own words with BM25's weights, six wrong words, and a share p of the words that a question has and
its answer lacks, at the weight .5. A question's words weigh their idf, as without inference.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson

from helix.encoders import sparse
from helix.encoders.sparse import SPEC, DocumentEncoder, SparseSpec, open_query
from helix.encoders.sparse_export import pool_graph
from helix.encoders.spec import fingerprint_spec, hash_files
from helix.snapshot.index.sparse import SparseField, SparseIndex
from helix.stages.lexical import search_lexical
from helix.stages.sparse import search_sparse
from helix.types import Plan, Sparse
from pipelines.bench.process import time_call
from tests.support.bench.lexical import GROUPS, Segment, Store

VOCABULARY = 30_522
QUESTIONS = (
    "where did we set the visibility timeout",
    "What did I tell Priya about vacation?",
    "why did we pick duckdb over sqlite for the statistics",
    "database is locked",
    "who fixed the flaky retry test in the gateway last week",
)
SHAPES = {"6 × 384": (384, 6, 12, 1_536), "6 × 768": (768, 6, 12, 3_072)}


def print_times(name: str, spent: Sequence[float]) -> None:
    ms = sorted(spent)
    print(f"{name:44} p50 {statistics.median(ms):7.2f} ms   p95 {ms[int(0.95 * len(ms))]:7.2f} ms", flush=True)


def time_rounds(work: Callable[[Any], Any], given: Sequence[Any], rounds: int) -> list[float]:
    for one in given:
        work(one)
    return [time_call(work, given[i % len(given)]) for i in range(rounds)]


def make_network(folder: Path, shape: tuple[int, int, int, int]) -> Path:
    """Make an int8 DistilBERT for masked language modelling with SPLADE's pooling and random weights."""
    import torch
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    from helix.encoders.onnx_export import export_graph, quantise_graph

    width, layers, heads, inner = shape
    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=VOCABULARY, dim=width, n_layers=layers, n_heads=heads, hidden_dim=inner)
    DistilBertForMaskedLM(config).eval().save_pretrained(folder / "saved")
    export_graph(folder / "saved", folder / "plain", "fill-mask")
    pool_graph(folder / "plain" / "model.onnx", "max", "relu")
    quantise_graph(folder / "plain", folder / "int8")
    return describe_folder(folder / "int8", "splade")


def describe_folder(folder: Path, kind: str) -> Path:
    """Add a tokenizer of word pieces, which splits as BERT's does, and sparse.json."""
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
    spec = SparseSpec(
        sparse.FORMAT, kind, "drawn", "", "int8", {}, "", VOCABULARY, 256, 64, 0, "", "",
        hash_files(folder, names),
    )  # fmt: skip
    spec = dataclasses.replace(spec, fingerprint=fingerprint_spec(spec))
    (folder / SPEC).write_bytes(orjson.dumps(spec))
    return folder


def encode(rounds: int, threads: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as work:
        for name, shape in SHAPES.items():
            folder = make_network(Path(work, name), shape)
            size = (folder / "model.onnx").stat().st_size / 1e6
            for n in threads:
                asks = open_query(folder, n)
                print_times(
                    f"splade {name}, int8, {size:.0f} MB, threads {n}", time_rounds(asks.encode, QUESTIONS, rounds)
                )
            documents = DocumentEncoder(folder, 2)
            texts = [" ".join(QUESTIONS[(i + j) % 5] for j in range(4)) for i in range(64)]
            began = time.perf_counter()
            documents.encode(texts)
            print(f"{name}: {len(texts) / (time.perf_counter() - began):.0f} items of ~45 tokens a second, 2 threads")
        Path(work, "free").mkdir()
        asks = open_query(describe_folder(Path(work, "free"), "inference-free"), 1)
        print_times("inference-free", time_rounds(asks.encode, QUESTIONS, rounds))


def draw_postings(items: int, per: int, terms: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Draw postings of about `per` distinct terms an item: (terms, indptr, rows, weights float32)."""
    chance = 1 / (np.arange(terms) + 20.0)
    chance /= chance.sum()
    # Each term has its own probability to be in an item: `per` terms on average, each once.
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
    # Common terms weigh little, as with trained models; the weights of a term vary threefold.
    mean = np.repeat(0.3 + 1.5 * (1 - share / 0.5) ** 2, np.diff(indptr)).astype(np.float32)
    return np.arange(terms), indptr, flat, (mean * rng.gamma(4.0, 0.25, len(flat))).astype(np.float32)


def search(items: int, questions: int, k: int = 100) -> None:
    rng = np.random.default_rng(0)
    key, indptr, rows, weights = draw_postings(items, 100, VOCABULARY, rng)
    impact = np.minimum(np.rint(weights * 1_024), 65_535).astype(np.uint16)
    most = np.maximum.reduceat(impact, np.minimum(indptr[:-1], len(impact) - 1))
    held = SparseIndex(
        {
            "rows": np.arange(items, dtype=np.uint32), "terms.key": key.astype(np.uint32), "terms.most": most,
            "terms.indptr": indptr, "terms.rows": rows, "terms.impact": impact,
        }
    )  # fmt: skip
    ties = rng.permutation(items).astype(np.uint64)
    field = SparseField([(0, held)], items, np.ones(items, bool), ties)
    print(f"{items:,} items, {len(rows) / items:.0f} terms each, {6 * len(rows) / 1e6:.0f} MB of postings")
    whole, group = Plan(None, items), rng.integers(0, GROUPS, items) == 0
    narrow = Plan(group, int(group.sum()))
    df = np.diff(indptr)
    words_key, words_indptr, words_rows, _ = draw_postings(items, 40, 100_000, rng)
    store: Any = Store(
        [(0, Segment(words_key.astype(np.uint64), words_indptr, words_rows, np.ones(len(words_rows), np.uint16)))],
        np.full(items, 40, np.float32),
        ties,
    )
    words_df = np.diff(words_indptr)
    for size in (10, 30):
        # A question draws its terms with their frequency in items.
        asked = [draw_query(df, size, rng) for _ in range(questions)]
        print_times(f"sparse, {size} terms", time_rounds(lambda q: search_sparse(q, field, whole, k), asked, questions))
        print_times(
            f"sparse, {size} terms, one item in 100",
            time_rounds(lambda q: search_sparse(q, field, narrow, k), asked, questions),
        )
        pool = rng.choice(items, 400, replace=False)
        print_times(
            f"scores of 400 items, {size} terms",
            time_rounds(lambda q, pool=pool: field.scores(pool, q), asked, questions),
        )
    for size in (5, 10):
        spoken: list[Any] = [
            SimpleNamespace(terms=draw_query(words_df, size, rng).terms.astype(np.uint64), term_weights=None)
            for _ in range(questions)
        ]
        print_times(
            f"lexical, {size} terms",
            time_rounds(lambda q: search_lexical(q, store, whole, k, 0.9, 0.6), spoken, questions),
        )


def draw_query(df: Any, size: int, rng: np.random.Generator) -> Sparse:
    terms = np.sort(rng.choice(len(df), size, replace=False, p=df / df.sum())).astype(np.uint32)
    rare = np.log(1 + df.max() / np.maximum(df[terms], 1))
    return Sparse(terms, (rare / rare.max() * 2 * rng.gamma(4.0, 0.25, size)).astype(np.float32) + np.float32(0.05))


class World:
    """A benchmark set in a store, with the words of its items and questions as one vocabulary."""

    def __init__(self, name: str, path: Path, each: int, folder: Path) -> None:
        from helix.ranking.bm25 import compute_idf, compute_norms
        from helix.sdk.memory import Memory
        from helix.settings import load
        from helix.text.tokenize import tokenise
        from pipelines.embedded.ingest import ingest
        from pipelines.eval.evaluate import find_last_moment
        from pipelines.eval.sets.benchmark import turn_key
        from pipelines.eval.sets.registry import read_set

        settings = dataclasses.replace(load(), answers=0, profiles=str(folder / "profiles"))
        benchmark = read_set(name, path, folder / "documents")
        if not (folder / "store").is_dir():
            ingest(folder / "store", list(benchmark.documents), settings)
        self.memory, self.settings = Memory(folder / "store", settings), settings
        snap = self.snap = self.memory.snapshot
        self.rows = np.flatnonzero(snap.alive)
        entries = snap.text(self.rows)
        self.turns = [{turn_key(entry["session"], one) for one in entry["turns"]} for entry in entries]
        self.own = [Counter(tokenise(entry["text"])) for entry in entries]
        days = {project: find_last_moment(snap, project) for project in (None, *snap.projects)}
        asked = [question for question in benchmark.questions[::each] if question.project in days]
        self.questions = [question._replace(at=question.at or days[question.project]) for question in asked]
        self.words = [set(tokenise(question.text)) for question in self.questions]
        self.place = {word: i for i, word in enumerate(sorted(set().union(*self.own, *self.words)))}
        df = np.zeros(len(self.place), np.int64)
        for words in self.own:
            df[[self.place[word] for word in words]] += 1
        length = np.array([words.total() for words in self.own], np.float32)
        self.norm = compute_norms(length, float(length.mean()), 0.9, 0.6).tolist()
        self.idf = compute_idf(df, len(self.own))

    def make_field(self, p: float | None, wrong: int = 6) -> SparseField:
        """Return the weights of a model that hits a share p; None: the items' own words only."""
        rng = np.random.default_rng(0)
        held = [
            {self.place[word]: tf * 1.9 / (tf + norm) for word, tf in words.items()}
            for words, norm in zip(self.own, self.norm, strict=True)
        ]
        if p is not None:
            asked = [self.place[word] for words in self.words for word in sorted(words)]
            for one in held:
                for word in rng.choice(asked, wrong).tolist():
                    one.setdefault(word, 0.5)
            for question, words in zip(self.questions, self.words, strict=True):
                for at in (i for i, turns in enumerate(self.turns) if turns & question.gold):
                    for word in sorted(words - self.own[at].keys()):
                        if rng.random() < p:
                            held[at].setdefault(self.place[word], 0.5)
        row = np.repeat(self.rows, [len(one) for one in held])
        term = np.array([word for one in held for word in one], np.int64)
        impact = np.array([round(1_024 * weight) for one in held for weight in one.values()], np.uint16)
        order = np.lexsort((row, term))
        key, start = np.unique(term[order], return_index=True)
        arrays = {
            "rows": self.rows.astype(np.uint32),
            "terms.key": key.astype(np.uint32),
            "terms.most": np.maximum.reduceat(impact[order], start),
            "terms.indptr": np.append(start, len(term)).astype(np.int64),
            "terms.rows": row[order].astype(np.uint32),
            "terms.impact": impact[order],
        }
        return SparseField([(0, SparseIndex(arrays))], self.snap.rows, self.snap.alive, self.snap.columns.key)

    def encode(self, text: str) -> Sparse:
        from helix.text.tokenize import tokenise

        terms = np.unique([self.place[word] for word in set(tokenise(text)) if word in self.place]).astype(np.uint32)
        return Sparse(terms, self.idf[terms].astype(np.float32))

    def measure_recall(self, profile: str, k: int = 10) -> float:
        from pipelines.eval.sets.benchmark import turn_key

        shares = []
        for question in self.questions:
            found = self.memory.recall(
                question.text, project=question.project, profile=profile, k=30, budget=1_000, now=question.at
            )
            ranking = list(dict.fromkeys(turn_key(item.session, one) for item in found.items for one in item.turns))
            shares.append(len(set(ranking[:k]) & question.gold) / len(question.gold))
        return float(np.mean(shares))


def simulate(name: str, path: Path, each: int) -> None:
    weights = (0.0, 0.1, 0.2, 0.4)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "profiles").mkdir()
        for weight in weights:
            text = f'base = "helix"\n[sim]\nsparse = {weight}\n'
            (folder / "profiles" / f"sparse-{round(100 * weight)}.toml").write_text(text)
        world = World(name, path, each, folder)
        loaded = world.snap.files.__dict__
        print(f"{name}: {len(world.questions)} questions, {len(world.rows)} items; rec@10 by the weight in `sim`")
        print(f"without: {world.measure_recall('helix'):.3f}", flush=True)
        loaded["sparse_encoder"] = SimpleNamespace(encode=world.encode)
        for p in (None, 0.0, 0.1, 0.2, 0.35):
            world.snap.lexical.__dict__["impacts"] = world.make_field(p)
            world.snap._views.clear()
            shares = [world.measure_recall(f"sparse-{round(100 * weight)}") for weight in weights]
            label = "own words alone" if p is None else f"p = {p}"
            figures = "   ".join(f"{weight}: {one:.3f}" for weight, one in zip(weights, shares, strict=True))
            print(f"{label:16} {figures}", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("encode", "search", "simulate"))
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--items", type=int, default=1_000_000)
    arguments.add_argument("--questions", type=int, default=200)
    arguments.add_argument("--set", default="locomo")
    arguments.add_argument("--path", type=Path)
    arguments.add_argument("--each", type=int, default=3)
    given = arguments.parse_args()
    if given.what == "encode":
        encode(given.rounds, [int(n) for n in given.threads.split(",")])
    elif given.what == "simulate":
        simulate(given.set, given.path, given.each)
    else:
        search(given.items, given.questions)
