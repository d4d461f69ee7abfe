"""Kept token vectors: their bytes, the cost of the pass, and `--rerank late` with and without them.

python -m tests.support.bench.tokens --set locomo --path locomo10.json [--questions 200] [--rounds 5]

One store is asked through two readers, in turns for each question: the generation with the vectors, and the one before
them, where the encoder runs. A question counts with the fastest of its rounds, as other processes slow some of them
down; the processor's time (`cpu`, of all threads) depends less on them.

`differs` compares the scores of the same items. An int8 network rounds its activations by the range of the whole batch,
so it differs from itself as well: `alone` gives it each text in a batch of its own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helix.encoders.rerank import LateEncoder
from helix.native.vectors import score_tokens
from helix.sdk.memory import Memory
from helix.settings import Settings, load
from helix.snapshot.index.tokens import KIND
from helix.snapshot.ledger import inbox
from helix.stages.rerank import maxsims
from pipelines.embedded.ingest import ingest
from pipelines.eval.sets.registry import read_set
from pipelines.passes.tokens import keep_tokens, open_token_encoder
from tests.support.bench.sparse import print_times


def build_store(root: Path, name: str, path: Path, settings: Settings) -> tuple[list[str], int, LateEncoder]:
    """Ingest a set and keep its token vectors; return its questions, the earlier generation and the encoder."""
    found = read_set(name, path, root.with_name("documents"))
    ingest(root, found.documents, settings)
    manifest = inbox.load_current(root)[1]
    encoder = open_token_encoder(root, settings)
    assert manifest is not None
    assert not isinstance(encoder, str), encoder
    began, used = time.perf_counter(), time.process_time()
    done = keep_tokens(root, encoder, settings)
    rate, cpu = done.items / (time.perf_counter() - began), 1_000 * (time.process_time() - used) / done.items
    print(f"{done.items} items got token vectors, {rate:.0f} items/s, {cpu:.1f} ms of cpu each", flush=True)
    return [one.text for one in found.questions], manifest.generation, encoder


def print_sizes(root: Path) -> None:
    """Print the bytes of an item's vectors, and of everything else."""
    manifest = inbox.load_current(root)[1]
    assert manifest is not None
    own = [file for index in manifest.indexes if index.kind == KIND for file in index.files]
    items, size = manifest.counts["items"], sum(file.bytes for file in own)
    others = sum(file.bytes for file in manifest.files()) - size - sum(file.bytes for file in manifest.encoder)
    print(f"{items} items: {size / items:.0f} bytes each of token vectors, {others / items:.0f} of everything else")


def compare_times(memories: dict[str, Memory], questions: Sequence[str], rounds: int) -> None:
    """Ask each question in every way, one after the other, and print the times."""
    ways: list[tuple[str, str, dict[str, Any]]] = [("no reranking", "kept", {})]
    ways += [
        (f"late, {top}, {name}", name, {"rerank": "late", "rerank_top": top}) for top in (20, 30) for name in memories
    ]
    spent: dict[str, list[tuple[float, float, float]]] = {way: [] for way, *_ in ways}
    for question in [*questions[:10], *questions]:  # the first ten warm up
        rounds_of: dict[str, list[tuple[float, float, float]]] = {way: [] for way, *_ in ways}
        for _ in range(rounds):
            for way, name, given in ways:
                began = time.process_time()
                ms = memories[name].recall(question, **given).ms
                rounds_of[way].append((ms["total"], ms.get("rerank", 0.0), 1_000 * (time.process_time() - began)))
        for way, all_rounds in rounds_of.items():
            total, stage, used = (min(column) for column in zip(*all_rounds, strict=True))
            spent[way].append((total, stage, used))
    for way, all_questions in spent.items():
        for what, column in zip(("", "  of it the stage", "  cpu"), zip(*all_questions[10:], strict=True), strict=True):
            if any(column):
                print_times(f"{way}{what}", column)


def compare_scores(memories: dict[str, Memory], encoder: LateEncoder, questions: Sequence[str], top: int = 20) -> None:
    """Compare the scores of the best items by kept vectors, by the encoder, and by the encoder text by text."""
    snap = memories["kept"].snapshot
    apart: dict[str, list[tuple[float, float]]] = {"kept": [], "alone": []}
    assert snap.tokens is not None
    for question in questions:
        found = memories["kept"].recall(question, k=top, profile="helix").items
        rows = np.array([snap.find(item.id) for item in found], np.int64)
        if len(rows) < 2:
            continue
        texts, query = [entry["text"] for entry in snap.text(rows)], encoder.query(question)
        exact = maxsims(query, encoder.passages(texts))
        position, indptr, codes, scale = snap.tokens.gather(rows)
        kept = np.empty(len(rows), np.float32)
        kept[position] = score_tokens(codes, scale, indptr, query)
        alone = maxsims(query, [encoder.passages([text])[0] for text in texts])
        for name, scores in (("kept", kept), ("alone", alone)):
            apart[name].append((float(np.abs(scores - exact).max()), share_in_order(scores, exact)))
    for name, pairs in apart.items():
        largest, order = zip(*pairs, strict=True)
        print(f"{name:5} differs by {max(largest):.4f} at most, {statistics.mean(order):.3f} of the pairs in one order")


def share_in_order(first: Any, second: Any) -> float:
    """Return the share of pairs that both order alike."""
    i, j = np.triu_indices(len(first), 1)
    return float(np.mean(np.sign(first[i] - first[j]) == np.sign(second[i] - second[j])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True)
    parser.add_argument("--path", required=True, type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        settings = load({"HELIX_TOKEN_VECTORS": "on", "HELIX_ANSWERS": "0"})
        questions, before, encoder = build_store(root, options.set, options.path, settings)
        print_sizes(root)
        chosen = questions[:: max(1, len(questions) // options.questions)]
        memories = {"kept": Memory(root, settings), "encoder": Memory(root, settings, snapshot=before)}
        compare_times(memories, chosen, options.rounds)
        compare_scores(memories, encoder, chosen[:50])


if __name__ == "__main__":
    main()
