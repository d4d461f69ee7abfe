"""The dense index of one segment: finds candidates, which are rescored.

It is one memory-mapped file of a storage level:

- int8: an inverted file over 4-bit product codes, compared in registers;
- binary: the sign of every dimension; all rows are compared by Hamming distance;
- prefix:M: the inverted file over the first M dimensions, for Matryoshka models.

Jégou, Douze & Schmid 2011, "Product quantization for nearest neighbor search" (inverted file and codes); André,
Kermarrec & Le Scouarnec 2015, "Cache locality is not enough: high-performance nearest neighbor search with product
quantization fast scan"; Dhillon & Modha 2001, "Concept decompositions for large sparse text data using clustering"
(lists by spherical k-means); Douze et al. 2024, "The Faiss library"; Yamada, Asai & Hajishirzi 2021, "Efficient passage
retrieval with hashing" (binary candidates, rescored); Kusupati et al. 2022, "Matryoshka representation learning" (a
short prefix first, then the whole).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from helix.errors import StoreError, UsageError
from helix.native.arrays import explain_damage
from helix.native.lists import encode_pieces
from helix.snapshot.index.coded_file import KIND, CodedFile, read_kind, write_coded
from helix.snapshot.index.kmeans import assign_vectors, fit_book, fit_centres
from helix.snapshot.index.pq import CodedLists, open_coded, pack_codes, search_coded
from helix.types import F32, I8, I64, U8, AnyArray, Bool
from helix.util.threads import WorkStarter, defer_work

INDEXED_ROWS = 8_192  # rows: a smaller segment is scanned, in less than a millisecond
FLOAT = "+float"  # ends the name of a storage level whose candidates are rescored in half precision instead of 8 bits

_LEAST = 40  # rows a list, on average: k-means needs 39 at least
_SAMPLE = 128  # training vectors a list: with 40, as many lists found .7 % less of a million items' nearest 100
_TRAINED = 1 << 19  # training vectors at most: 0.8 GB
_ROUNDS = 8  # of k-means
_BATCH = 65_536  # rows converted to float32 at a time
_WANTED = 0.99  # recall@100 of a full search that the number of candidates is chosen for
_LISTS = 0.9875  # recall@100 of a search of some lists
_MOST = 1 << 19  # rows in the searched lists at most: .99 of a million items' nearest 100, in 3 ms
_MIXED = 2_000  # items in the sum of a synthetic question
_LIKE = 0.5  # inner product of a question with its nearest item
_K = 100
_ASKED = 256  # questions that recall is measured on
_OVER = (10, 20, 40, 80)  # candidates a wanted row, for binary
_FILE_OVER = (1, 2, 4, 6, 8, 10, 16, 32)  # candidates a wanted row, for an inverted file
_PIECE = 2  # dimensions of one code

_CORES = min(2, os.cpu_count() or 1)


@cache
def load_faiss() -> Any:
    """Load FAISS, which only the level `binary`, indexes of older releases and a GPU need.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module("faiss")
    except ModuleNotFoundError:
        raise UsageError(
            "this needs FAISS: the level binary, a dense index of an older release, or a GPU",
            "pip install 'helix-recall[faiss]', or rebuild the store with 'helix reindex'",
        ) from None


def parse_prefix(tier: str) -> int:
    """Return the dimensions of the inverted file; 0 for all, or for binary.

    Raises:
        UsageError: no such storage level.
    """
    kind, _, dims = tier.partition(":")
    if tier in ("int8", "binary"):
        return 0
    if kind != "prefix" or not re.fullmatch(r"[1-9][0-9]{0,4}", dims):
        raise UsageError(f"no storage level {tier!r}", "there are int8, binary and prefix:DIMS, as prefix:256")
    return int(dims)


def fit_prefix(tier: str, d: int) -> int:
    """Return `parse_prefix`, checked for vectors of d dimensions.

    Raises:
        UsageError: no such storage level, or it does not fit such vectors.
    """
    dims = parse_prefix(tier)
    if dims >= d or (tier == "binary" and d % 8):
        raise UsageError(f"storage level {tier} does not fit vectors of {d} dimensions", "use int8 or a shorter prefix")
    return dims


def build_dense(codes: I8, scale: F32, path: Path, seed: int = 0, tier: str = "int8") -> dict[str, Any]:
    """Train, fill and write an index whose ids are row numbers.

    Args:
        codes: int8[n, d].
        scale: float32[n].
        tier: int8, binary or prefix:M with M < d.

    Returns:
        params, for `open_dense`: tier, lists, probes, over (candidates a wanted row), and the recall@100 they reach on
        synthetic questions after rescoring.

    Raises:
        UsageError: no such storage level, or it does not fit the vectors.
    """
    n, d = codes.shape
    dims = fit_prefix(tier, d) or d
    rng = np.random.default_rng(seed)
    if tier == "binary":
        return _build_binary(codes, scale, path, rng)
    lists = max(1, min(int(2 ** np.round(np.log2(2 * np.sqrt(max(n, 1))))), n // _LEAST))
    sample = np.sort(rng.choice(n, min(n, lists * _SAMPLE, _TRAINED), replace=False))
    vectors = _truncate(dequantise(codes, scale, sample), dims)
    centres = fit_centres(vectors, lists, _ROUNDS, rng)
    left = vectors - centres[assign_vectors(vectors, centres)[0]]
    book = fit_book(left, _PIECE if dims % _PIECE == 0 else 1, rng)
    nearest, coded = np.empty(n, np.int64), np.empty((n, len(book)), np.uint8)
    for start in range(0, n, _BATCH):
        here = slice(start, min(start + _BATCH, n))
        vectors = _truncate(dequantise(codes, scale, here), dims)
        nearest[here] = assign_vectors(vectors, centres)[0]
        coded[here] = encode_pieces(vectors - centres[nearest[here]], book)
    order, size = np.argsort(nearest, kind="stable"), np.bincount(nearest, minlength=lists)
    ids = np.split(order, np.cumsum(size)[:-1])
    packed = [pack_codes(coded[rows]) for rows in ids]
    write_coded(path, CodedFile(n, centres, book.transpose(0, 2, 1), ids, packed), 1)
    probes, over, recall = _tune_search(open_coded(path), codes, scale, dims, rng)
    return {"tier": tier, "lists": lists, "probes": probes, "over": over, "recall": recall}


def _build_binary(codes: I8, scale: F32, path: Path, rng: np.random.Generator) -> dict[str, Any]:
    faiss = load_faiss()
    n, d = codes.shape
    index = faiss.IndexBinaryFlat(d)
    for start in range(0, n, _BATCH):
        index.add(pack_signs(codes[start : start + _BATCH]))
    questions, exact = _make_questions(codes, scale, rng)
    signs, k = pack_signs(questions), exact.shape[1]
    over, recall = _choose_least(_OVER, lambda over: _measure_recall(exact, index.search(signs, min(n, over * k))[1]))
    faiss.write_index_binary(index, str(path))
    return {"tier": "binary", "lists": 0, "probes": 0, "over": over, "recall": recall}


def pack_signs(rows: AnyArray) -> U8:
    """Pack the signs of numbers[n, d], one bit each: uint8[n, d / 8]."""
    return np.packbits(rows > 0, axis=1, bitorder="little")


def _truncate(rows: F32, dims: int) -> F32:
    """Return the first dimensions, normalised again; unchanged if these are all."""
    if dims == rows.shape[1]:
        return rows
    return np.ascontiguousarray(_normalise(rows[:, :dims]))


def _make_questions(codes: I8, scale: F32, rng: np.random.Generator) -> tuple[F32, I64]:
    """Make synthetic questions: (questions float32[m, d]; their nearest rows int64[m, ≤ 100]).

    A real question has an inner product of about one half with its nearest item. So each is half an item, plus a
    random sum of many items. Isotropic noise would be too easy: half as many lists seem to suffice for it.
    """
    n = len(codes)
    own = dequantise(codes, scale, rng.choice(n, min(_ASKED, n), replace=False))
    others = dequantise(codes, scale, rng.choice(n, min(_MIXED, n), replace=False))
    noise = rng.normal(size=(len(own), len(others))).astype(np.float32) @ others
    questions = _LIKE * own + (1 - _LIKE**2) ** 0.5 * _normalise(noise)
    questions = _normalise(questions.astype(np.float32))
    return questions, scan_nearest(questions, codes, scale, min(_K, n))


def _normalise(rows: F32) -> F32:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)


def scan_nearest(questions: F32, codes: I8, scale: F32, k: int) -> I64:
    """Scan all rows for the k nearest of each of float32[m, d], best first: int64[m, k]."""
    scores, rows = np.empty((len(questions), 0), np.float32), np.empty((len(questions), 0), np.int64)
    for start in range(0, len(codes), _BATCH):
        here = np.arange(start, min(start + _BATCH, len(codes)))
        scores = np.concatenate((scores, questions @ dequantise(codes, scale, here).T), axis=1)
        rows = np.concatenate((rows, np.broadcast_to(here, (len(questions), len(here)))), axis=1)
        if scores.shape[1] > k:
            best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable"), 1)


def _measure_recall(exact: I64, candidates: I64 | Sequence[I64]) -> float:
    """Return the mean share of the exact rows among the candidates."""
    return float(np.mean([len(np.intersect1d(a, b)) / max(len(a), 1) for a, b in zip(exact, candidates, strict=True)]))


def _choose_least(choices: Sequence[int], recall: Callable[[int], float], wanted: float = _WANTED) -> tuple[int, float]:
    """Return the smallest choice that reaches the wanted recall, else the last; and its recall."""
    reached = 0.0
    for choice in choices:
        reached = recall(choice)
        if reached >= wanted:
            break
    return choice, round(reached, 4)


def _tune_search(
    coded: CodedLists, codes: I8, scale: F32, dims: int, rng: np.random.Generator
) -> tuple[int, int, float]:
    """Choose (probes, over, recall@100): first the number of candidates, then the number of lists."""
    questions, exact = _make_questions(codes, scale, rng)
    short, k, lists = _truncate(questions, dims), exact.shape[1], len(coded.every)

    def recall(probes: int, over: int) -> float:
        wanted, searched = min(len(codes), over * k), min(probes, lists)
        with ThreadPoolExecutor(_CORES) as pool:  # a search releases the interpreter's lock
            found = pool.map(lambda question: search_coded(coded, question, wanted, searched, None, None), short)
            return _measure_recall(exact, list(found))

    over, best = _choose_least(_FILE_OVER, lambda over: recall(lists, over))
    steps = 2 * lists.bit_length()  # each of √2 times as many lists
    most = max(1, min(lists, _MOST * lists // len(codes)))
    choices = tuple(sorted({min(round(2 ** (i / 2)), most) for i in range(steps + 1)}))
    probes, reached = _choose_least(choices, lambda probes: recall(probes, over), min(_LISTS, best - 0.002))
    return probes, over, reached


def dequantise(codes: I8, scale: F32, rows: Any) -> F32:
    """Return the vectors of some rows: float32[len(rows), d]."""
    return np.asarray(codes[rows].astype(np.float32) * scale[rows, None], np.float32)


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """The open index of one segment. `over` is its candidates for each wanted row."""

    rows: int
    lists: int  # 0 for the level binary
    dims: int
    probes: int
    tier: str = "int8"
    over: int = 1
    coded: CodedLists | None = None
    library: Any = None  # FAISS's index, for the level binary and for 8-bit codes of older releases

    def search(
        self,
        vector: F32,
        k: int,
        allowed: Bool | None,
        left: int | None = None,
        start_work: WorkStarter | None = defer_work,
    ) -> I64:
        """Return the rows that the index scores best, to be rescored: int64[m].

        Args:
            allowed: bool[n]; None allows all.
            left: number of allowed rows, if known.
            start_work: runs one half of many lists; None searches all lists here.

        m is at most k. With coarse codes (over > 1) it is over · k, but at least over · 100, and up to a quarter more
        if the lists are searched in halves.

        If a share s of the rows is allowed, their k nearest spread over more lists, but not over 1 / s times as many:
        a question is far from all of them. Measured on a million items: with s ≥ 0.1 as many lists as without a filter
        find as much of the nearest 100 (.95 to .96), and below that (10 · s)^−¼ times as many.
        """
        k = min(self.over * max(k, _K) if self.over > 1 else k, self.rows)
        probes, wanted = self.probes, k
        if allowed is not None:
            n = int(np.count_nonzero(allowed)) if left is None else left
            if not n:
                return np.empty(0, np.int64)
            share, wanted = n / len(allowed), min(k, n)
            # Earlier releases tuned the probes of 8-bit codes on easy questions, so they are few.
            probes = int(probes * (max(1.0, (10 * share) ** -0.25) if self.over > 1 else 3 / share - 2))
        if self.tier == "binary":  # all rows are compared
            return self._search_faiss(pack_signs(vector[None, :]), k, allowed)
        short = _truncate(vector[None, :], self.dims)
        while True:
            lists = min(probes, self.lists)
            if self.coded:
                candidates = search_coded(self.coded, short[0], k, lists, allowed, start_work)
            else:
                candidates = self._search_faiss(short, k, allowed, nprobe=lists)
            if len(candidates) >= wanted or (lists == self.lists and start_work is None):
                return candidates
            probes, start_work = probes * 4, None  # allowed rows are far away, or mostly in one half

    def _search_faiss(self, questions: AnyArray, k: int, allowed: Bool | None, **chosen: int) -> I64:
        """Return the k nearest allowed rows: int64[≤ k].

        Raises:
            StoreError: the index names a row that does not exist.
        """
        faiss = load_faiss()
        parameters: Any = faiss.SearchParametersIVF if chosen else faiss.SearchParameters
        passed: dict[str, Any] = {}
        if allowed is not None:
            bitmap = np.packbits(allowed, bitorder="little")  # must live until the search ends
            passed = {"sel": faiss.IDSelectorBitmap(len(bitmap), faiss.swig_ptr(bitmap))}
        with _limit_threads():
            _, rows = self.library.search(questions, k, params=parameters(**chosen, **passed))
        candidates = np.asarray(rows[0][rows[0] >= 0], np.int64)
        if candidates.max(initial=-1) >= self.rows:
            raise explain_damage(f"its dense index names a row that is not among its {self.rows}")
        return candidates


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Run FAISS in one thread: a search is short, and waiting threads would burn processor time."""
    faiss = load_faiss()
    threads = faiss.omp_get_max_threads()  # of this thread's calls
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def open_dense(path: Path, params: Any, shape: tuple[int, int] | None = None) -> DenseIndex:
    """Map an index.

    Args:
        params: the result of `build_dense`; without `tier` it is int8.
        shape: rows and dimensions of its vectors; None if unknown.

    Raises:
        StoreError: the file cannot be read, or belongs to other vectors.
    """
    try:
        tier, over, probes = str(params.get("tier", "int8")), int(params.get("over", 1)), int(params["probes"])
        if over < 1 or (probes < 1 and tier != "binary"):
            raise ValueError(f"{over} candidates a row from {probes} lists")
        if tier != "binary" and read_kind(path) == KIND:
            coded = open_coded(path)
            found = DenseIndex(coded.rows, len(coded.every), coded.dims, probes, tier, over, coded)
        else:
            found = _open_by_library(path, probes, tier, over)
        if shape and (found.rows, found.dims) != (shape[0], parse_prefix(tier) or shape[1]):
            raise ValueError(f"it is of {found.rows} vectors of {found.dims} dimensions, the segment has {shape[0]}")
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path} is damaged: {str(error).splitlines()[0][:200]}",
            "run 'helix verify', remove the files it names, then 'helix compact', which rebuilds the index",
        ) from None
    return found


def _open_by_library(path: Path, probes: int, tier: str, over: int) -> DenseIndex:
    """Map an index of another kind by FAISS. Raises RuntimeError or ValueError if it is damaged."""
    faiss = load_faiss()
    index: Any
    if tier == "binary":
        index, lists = faiss.read_index_binary(str(path), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY), 0
    else:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        lists = index.nlist
    return DenseIndex(index.ntotal, lists, index.d, probes, tier, over, library=index)
