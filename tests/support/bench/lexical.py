"""The lexical leg against exhaustive scoring and Tantivy: the same documents and questions, one run, one client.

python -m tests.support.bench.lexical --items 1000000 [--questions 300] [--rounds 3] [--folder DIR]

It uses Tantivy's k1, b and rounded lengths, so its k best are ours up to rounding. It is asked without counting,
which is its fast way, and without the ids of its hits. Its text is tokenised before, as that of Helix.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.bm25 import FieldNorms, compute_gain, compute_idf
from helix.ranking.topk import select_top
from helix.stages.lexical import search_lexical
from helix.types import Leg, Plan

TERMS = 300_000
MEAN_LENGTH = 40
K, K1, B = 100, 1.2, 0.75
CUTS = (0.7, 0.8, 0.864, 0.914, 0.946, 0.97, 0.984, 0.992)  # one segment of 70 % and eight down to 0.8 %
GROUPS = 100  # a filter allows one of them


class Segment(NamedTuple):
    """Postings of one segment, as its files hold them (helix/snapshot/FORMAT.md)."""

    key: npt.NDArray[np.uint64]
    indptr: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    tf: npt.NDArray[np.uint16]


class Store:
    """The parts of a snapshot that the lexical leg reads."""

    def __init__(self, segments: Sequence[tuple[int, Segment]], length: Any, key: Any, alive: Any = None) -> None:
        self.segments = segments  # (first row, postings)
        self.rows = len(length)
        self.alive = np.ones(self.rows, bool) if alive is None else alive
        self.live = int(self.alive.sum())
        self.mean_length = max(1.0, float(length[self.alive].mean())) if self.live else 1.0
        self.columns = SimpleNamespace(length=length, key=key)
        self.key = key

    @cached_property
    def norm(self) -> FieldNorms:
        return FieldNorms(self.columns.length, self.mean_length)  # `mean_length` may still change

    def term(self, term: np.uint64) -> list[tuple[int, Any, Any]]:
        found = []
        for start, (key, indptr, rows, tf) in self.segments:
            at = int(np.searchsorted(key, term))
            if at < len(key) and key[at] == term:
                low, high = indptr[at : at + 2]
                found.append((start, rows[low:high], tf[low:high]))
        return found

    def df(self, term: np.uint64) -> int:
        found = self.term(term)
        if self.live == self.rows:
            return sum(len(rows) for _, rows, _ in found)
        return sum(int(self.alive[rows.astype(np.int64) + start].sum()) for start, rows, _ in found)


def exhaustive(query: Any, field: Any, plan: Plan, k: int, k1: float, b: float) -> Leg:
    """Score every posting of every term, in the same order of terms: the reference of `search_lexical`."""
    terms = []
    for term in query.terms:
        parts = field.term(term)
        if parts:
            rows = np.concatenate([local.astype(np.intp) + start for start, local, _ in parts])
            tf = np.concatenate([tfs for *_, tfs in parts])
            weight = float(compute_idf(field.df(term), field.live))
            terms.append((field.df(term), int(term), weight, rows, tf))
    scores = np.zeros(field.rows, np.float32)
    for *_, weight, rows, tf in sorted(terms, key=lambda entry: entry[:2]):
        scores[rows] += compute_gain(tf, field.norm(k1, b)[rows], weight, k1)
    if plan.allowed is not None:
        scores *= plan.allowed
    hits = np.flatnonzero(scores)
    best = hits[select_top(scores[hits], field.key[hits], k)]
    return Leg("bm25", best.astype(np.uint32), scores[best])


class Corpus(NamedTuple):
    hashes: npt.NDArray[np.uint64]  # of a term
    tokens: npt.NDArray[np.uint32]  # terms, document by document
    indptr: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]  # of a document

    def take(self, start: int, stop: int) -> Corpus:
        bounds = self.indptr[start : stop + 1]
        return Corpus(self.hashes, self.tokens[bounds[0] : bounds[-1]], bounds - bounds[0], self.group[start:stop])


def term_shares() -> npt.NDArray[np.float64]:
    """Return Zipf-Mandelbrot's probabilities: the commonest term is in half of all documents."""
    weight = 1 / (np.arange(TERMS) + 3.7)
    return np.asarray(weight / weight.sum())


def draw_corpus(items: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    length = np.maximum(1, np.rint(rng.lognormal(np.log(MEAN_LENGTH) - 0.32, 0.8, items))).astype(np.int64)
    indptr = np.append(0, np.cumsum(length))
    tokens = np.searchsorted(np.cumsum(term_shares())[:-1], rng.random(indptr[-1]), side="right").astype(np.uint32)
    return Corpus(rng.integers(0, 2**63, TERMS).astype(np.uint64), tokens, indptr, rng.integers(0, GROUPS, items))


def round_lengths(length: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Round lengths as Lucene and Tantivy do: exact below 40, then the upper four bits."""
    over = np.maximum(length - 24, 8)
    shift = np.maximum(np.floor(np.log2(over)).astype(np.int64) - 3, 0)
    return np.where(length < 40, length, 24 + (over >> shift << shift)).astype(np.float32)


def write_segment(folder: Path, corpus: Corpus) -> None:
    """Write the four files of a segment's postings, synced."""
    folder.mkdir(parents=True)
    order = np.argsort(corpus.hashes)
    place = np.empty(TERMS, np.uint64)
    place[order] = np.arange(TERMS, dtype=np.uint64)
    rows = np.repeat(np.arange(len(corpus.indptr) - 1, dtype=np.uint64), np.diff(corpus.indptr))
    pairs = place[corpus.tokens] << np.uint64(32) | rows
    pairs.sort()
    first = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))
    tf = np.diff(np.append(first, len(pairs)))
    term = (pairs[first] >> np.uint64(32)).astype(np.int64)
    starts = np.flatnonzero(np.append(True, term[1:] != term[:-1]))
    arrays: dict[str, npt.NDArray[Any]] = {
        "key": corpus.hashes[order][term[starts]],
        "indptr": np.append(starts, len(term)).astype(np.int64),
        "rows": (pairs[first] & np.uint64(2**32 - 1)).astype(np.uint32),
        "tf": tf.astype(np.uint16),
    }
    for name, array in arrays.items():
        with (folder / f"terms.{name}.npy").open("wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())


def open_store(folder: Path, bounds: Sequence[int], corpus: Corpus) -> Store:
    names = Segment._fields
    segments = []
    for start in bounds[:-1]:
        arrays = (np.load(folder / str(start) / f"terms.{name}.npy", mmap_mode="r") for name in names)
        segments.append((start, Segment(*(np.asarray(array) for array in arrays))))
    store = Store(segments, round_lengths(np.diff(corpus.indptr)), np.arange(len(corpus.group), dtype=np.uint64))
    store.mean_length = float(np.diff(corpus.indptr).mean())  # Tantivy's is of the true lengths
    return store


class Tantivy:
    """An index with one segment a commit."""

    def __init__(self, folder: Path) -> None:
        import tantivy

        self.api = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field("group", tokenizer_name="raw", index_option="basic")
        builder.add_unsigned_field("row", fast=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.index = tantivy.Index(builder.build(), str(folder))

    def add(self, corpus: Corpus, start: int, heap: int) -> float:
        """Commit these documents; return the seconds without the joining of their text."""
        words = np.array([f"{term:016x}" for term in corpus.hashes.tolist()], object)
        began, texts = time.perf_counter(), 0.0
        writer = self.index.writer(heap, 1)
        for low in range(0, len(corpus.group), 10_000):
            joining = time.perf_counter()
            bounds = corpus.indptr[low : low + 10_001].tolist()
            text = [" ".join(words[corpus.tokens[a:b]]) for a, b in pairwise(bounds)]
            texts += time.perf_counter() - joining
            for i, entry in enumerate(text, low):
                document = self.api.Document(text=entry, group=str(corpus.group[i]))
                document.add_unsigned("row", start + i)
                writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        return time.perf_counter() - began - texts

    def open(self) -> None:
        self.index.reload()
        self.searcher = self.index.searcher()

    def search(self, terms: Sequence[int], group: int | None) -> Any:
        query, occur, schema = self.api.Query, self.api.Occur, self.index.schema
        each = [(occur.Should, query.term_query(schema, "text", f"{term:016x}", "freq")) for term in terms]
        asked = query.boolean_query(each)
        if group is not None:
            within = query.const_score_query(query.term_query(schema, "group", str(group), "basic"), 0.0)
            asked = query.boolean_query([(occur.Must, within), (occur.Must, asked)])
        return self.searcher.search(asked, limit=K, count=False).hits

    def rows(self, hits: Any) -> set[int]:
        return set(self.searcher.fast_field_values("row", [address for _, address in hits]))


class Question(NamedTuple):
    kind: str
    terms: npt.NDArray[np.uint64]
    group: int | None


def draw_questions(corpus: Corpus, count: int, seed: int) -> list[Question]:
    """Draw questions: a third of 8 frequent terms, a third of 3 to 5 of middle rank, a third of both in one group."""
    rng = np.random.default_rng(seed)
    chance = term_shares()

    def draw_frequent() -> npt.NDArray[np.uint64]:
        return corpus.hashes.take(rng.choice(TERMS, 8, replace=False, p=chance))

    def draw_middling() -> npt.NDArray[np.uint64]:
        return corpus.hashes.take(rng.choice(np.arange(100, 5000), int(rng.integers(3, 6)), replace=False))

    third = count // 3
    return [
        *(Question("8 drawn", draw_frequent(), None) for _ in range(third)),
        *(Question("3-5 middling", draw_middling(), None) for _ in range(third)),
        *(Question("8 drawn, 1 %", draw_frequent(), int(rng.integers(GROUPS))) for _ in range(third // 2)),
        *(
            Question("3-5 middling, 1 %", draw_middling(), int(rng.integers(GROUPS)))
            for _ in range(count - 2 * third - third // 2)
        ),
    ]


def time_answer(ask: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return (milliseconds, answer)."""
    began = time.perf_counter()
    answer = ask(*given)
    return 1000 * (time.perf_counter() - began), answer


def compare(store: Store, peer: Tantivy, corpus: Corpus, asked: list[Question], rounds: int) -> None:
    masks = [corpus.group == group for group in range(GROUPS)]
    plans: dict[int | None, Plan] = {group: Plan(mask, int(mask.sum())) for group, mask in enumerate(masks)}
    plans[None] = Plan(None, store.rows)

    def ask_helix(search: Callable[..., Leg], question: Question) -> Leg:
        return search(SimpleNamespace(terms=question.terms), store, plans[question.group], K, K1, B)

    def ask_tantivy(question: Question) -> Any:
        return peer.search(question.terms.tolist(), question.group)

    ways: dict[str, Callable[..., Any]] = {
        "helix": partial(ask_helix, search_lexical),
        "tantivy": ask_tantivy,
        "exhaustive": partial(ask_helix, exhaustive),
    }
    spent: list[tuple[str, str, float]] = []  # kind, way, milliseconds
    for turn in range(rounds + 1):  # the first round warms up
        for i, question in enumerate(asked):
            # In turns, so that neither always runs on the other's caches.
            for way in ("helix", "tantivy")[:: 1 if (i + turn) % 2 else -1]:
                ms, _ = time_answer(ways[way], question)
                if turn:
                    spent.append((question.kind, way, ms))
    overlap: list[float] = []
    differing = 0
    for question in asked:
        ms, expected = time_answer(ways["exhaustive"], question)
        spent.append((question.kind, "exhaustive", ms))
        found = ask_helix(search_lexical, question)
        differing += not (np.array_equal(found.rows, expected.rows) and np.array_equal(found.scores, expected.scores))
        best = peer.rows(ask_tantivy(question))
        overlap.append(len(best & set(found.rows.tolist())) / max(len(best), len(found.rows), 1) if best else 1.0)
    for kind in (*dict.fromkeys(question.kind for question in asked), "all"):
        for way in ways:
            p50, p95, p99 = np.percentile(
                [ms for of, by, ms in spent if by == way and kind in ("all", of)], [50, 95, 99]
            )
            print(f"  {kind:18} {way:11} p50 {p50:6.2f}  p95 {p95:6.2f}  p99 {p99:6.2f} ms")
    print(f"  helix differs from exhaustive in {differing} of {len(asked)} questions")
    print(f"  shared with Tantivy: mean {statistics.mean(overlap):.4f} of the {K} best, least {min(overlap):.2f}")


def measure_commits(folder: Path, peer: Tantivy, corpus: Corpus, times: int = 5) -> None:
    """Commit 50 more documents, synced: Tantivy with its merges, Helix with one more segment's postings."""
    theirs, ours = [], []
    for i in range(times):
        batch = corpus.take(50 * i, 50 * i + 50)
        theirs.append(1000 * peer.add(batch, 0, 50_000_000))
        ours.append(time_answer(write_segment, folder / f"commit{i}", batch)[0])
    print(
        f"  commit of 50: helix {statistics.median(ours):.1f} ms, tantivy {statistics.median(theirs):.1f} ms (median)"
    )


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def shapes(items: int) -> Iterator[tuple[str, list[int]]]:
    yield "one segment", [0, items]
    yield f"{len(CUTS) + 1} segments", [0, *(round(cut * items) for cut in CUTS), items]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="for the two indexes; default: a temporary folder")
    given = parser.parse_args()
    corpus = draw_corpus(given.items, given.seed)
    asked = draw_questions(corpus, given.questions, given.seed + 1)
    print(f"{given.items} items, {len(corpus.tokens)} terms, {given.questions} questions x {given.rounds}, k = {K}")
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        for name, bounds in shapes(given.items):
            folder = Path(temporary) / name.replace(" ", "-")
            peer, theirs, ours = Tantivy(folder / "tantivy"), 0.0, 0.0
            for start, stop in pairwise(bounds):
                part = corpus.take(start, stop)
                theirs += peer.add(part, start, 2_000_000_000)
                ours += time_answer(write_segment, folder / "helix" / str(start), part)[0]
            peer.open()
            store = open_store(folder / "helix", bounds, corpus)
            print(f"{name} (Tantivy: {peer.searcher.num_segments})")
            mine, other = (
                (size(folder / of) + extra) / 1e6 for of, extra in (("helix", 4 * store.rows), ("tantivy", 0))
            )
            print(f"  build: helix {ours / 1000:.1f} s, {mine:.0f} MB; tantivy {theirs:.1f} s, {other:.0f} MB")
            compare(store, peer, corpus, asked, given.rounds)
            measure_commits(folder, peer, corpus)


if __name__ == "__main__":
    main()
