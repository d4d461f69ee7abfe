"""Random valid calls of every kernel, and hostile arrays to put in place of theirs.

`python -m tests.support.kernels SEED SECONDS` calls kernels with hostile arrays: each call must end in an answer or an
error. With a library from tests/support/sanitised.py, the sanitisers check it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from helix.errors import StoreError
from helix.native.library import describe_kernels
from helix.native.lists import build_code_table, build_lists, encode_pieces, round_to_steps, search_lists
from helix.native.pieces import build_vocabulary, count_pieces
from helix.native.postings import Postings, search_postings
from helix.native.rows import find_distinct, fuse_legs, list_neighbours
from helix.native.terms import count_terms, find_ngrams, score_joined
from helix.native.vectors import build_vector_table, score_neighbours, score_tokens, score_vectors
from helix.native.zones import Zones, build_zones, filter_range
from helix.snapshot.index.graph import FactEdges, FilteredGraph, SegmentGraph

Array = np.ndarray[Any, Any]
Given = dict[str, Any]
"""Arguments of a call by name; lists and dictionaries may hold arrays."""


# ------------------------------------------------------------------ calls


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def offsets(rng: np.random.Generator, lists: int, most: int = 4) -> Array:
    return np.cumsum([0, *rng.integers(0, most + 1, lists)], dtype=np.int64)


def make_search_postings(rng: np.random.Generator) -> Given:
    n, parts = int(rng.choice([5, 100, 70_000])), [int(size) for size in rng.integers(0, 3, 3)]
    rows = [np.sort(rng.choice(n, rng.integers(3, min(n, 2_000)) if n > 5 else 4, False)) for _ in range(sum(parts))]
    weight = np.sort(np.abs(floats(rng, 3)))[::-1].copy()
    return {
        "first": np.cumsum([0, *parts], dtype=np.int64), "start": np.zeros(len(rows), np.int64),
        "rows": [part.astype(np.uint32) for part in rows],
        "tf": [rng.integers(0, 1 << 16, len(part)).astype(np.uint16) for part in rows], "weight": weight,
        "rest": np.append(weight[::-1].cumsum()[::-1], 0).astype(np.float32),
        "allowed": None if rng.random() < 0.5 else rng.random(n) < 0.7,
        "norm": np.abs(floats(rng, n)) if rng.random() < 0.7 else n, "k": int(rng.choice([1, 2, 1_000])),
        "slack": 0.999, "floor": float(rng.choice([0, 0, 1])),
    }  # fmt: skip


def call_search_postings(first: Array, start: Array, rows: Any, tf: Any, **others: Any) -> Any:
    return search_postings(Postings(first, start, rows, tf), **others)


def make_score_vectors(rng: np.random.Generator) -> Given:
    n, d = int(rng.integers(3, 9)), int(rng.choice([3, 7, 64, 65, 384]))
    codes = rng.integers(-128, 128, (n, d)).astype(np.int8)
    return {"codes": codes, "scale": floats(rng, n), "rows": rng.integers(0, n, 20), "query": floats(rng, d)}


def make_score_neighbours(rng: np.random.Generator) -> Given:
    d, sizes = int(rng.choice([3, 16, 17, 384])), [int(size) for size in rng.integers(3, 6, 3)]
    return {
        "codes": [rng.integers(-128, 128, (size, d)).astype(np.int8) for size in sizes],
        "scales": [floats(rng, size) for size in sizes], "d": d, "rows": rng.integers(-1, sum(sizes), (3, 10)),
        "query": floats(rng, d), "share": 0.25,
    }  # fmt: skip


def make_score_tokens(rng: np.random.Generator) -> Given:
    n, d = int(rng.integers(2, 9)), int(rng.choice([3, 16, 17, 384]))
    indptr = offsets(rng, n) + np.arange(n + 1)  # a token each at least
    codes = rng.integers(-128, 128, (int(indptr[-1]), d)).astype(np.int8)
    return {"codes": codes, "scale": floats(rng, len(codes)), "indptr": indptr, "query": floats(rng, 5, d)}


def call_score_neighbours(codes: Any, scales: Any, d: int, **others: Any) -> Any:
    return score_neighbours(build_vector_table(codes, scales, d), **others)


REGISTERS = [0, 1, 16, 32, 64] if describe_kernels() == "compiled" else [0, 1]
"""Widths that `search_lists` may be asked for; a machine refuses those that it lacks."""


def make_search_lists(rng: np.random.Generator) -> Given:
    m, n, sizes = int(rng.choice([2, 4, 6])), int(rng.choice([40, 70_000])), [3, *map(int, rng.choice([0, 31, 200], 2))]
    return {
        "codes": [rng.integers(0, 256, -(-size // 32) * m * 16).astype(np.uint8) for size in sizes],
        "rows": [rng.integers(0, n, size) for size in sizes], "m": m, "chosen": rng.permutation(len(sizes)),
        "near": rng.integers(0, 1 << 24, len(sizes)).astype(np.int32),
        "table": rng.integers(0, 256 // m, (m, 16)).astype(np.uint8),
        "allowed": None if rng.random() < 0.5 else rng.random(n) < 0.5, "n": n, "k": int(rng.choice([1, 3, 50])),
        "registers": int(rng.choice(REGISTERS)),
    }  # fmt: skip


def call_search_lists(codes: Any, rows: Any, m: int, n: int, **others: Any) -> Any:
    return search_lists(build_lists(codes, rows, m), rows=n, **others)


def make_build_code_table(rng: np.random.Generator) -> Given:
    size, m = int(rng.choice([1, 2, 4])), int(rng.choice([2, 4]))
    return {"book": floats(rng, size, m, 16), "query": floats(rng, size * m)}


def make_round_to_steps(rng: np.random.Generator) -> Given:
    return {"table": np.abs(floats(rng, 4, 16)), "steps": float(rng.choice([0, 1, 50]))}


def make_encode_pieces(rng: np.random.Generator) -> Given:
    """Make rows of small whole numbers: many codes are equally near."""
    m, size, n = int(rng.choice([1, 2, 5])), int(rng.choice([1, 2, 4])), int(rng.integers(3, 40))
    rows, book = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((n, m * size), (m, size, 16)))
    return {"rows": rows, "book": book} if rng.random() < 0.5 else {"rows": floats(rng, n, m * size), "book": book}


def make_filter_range(rng: np.random.Generator) -> Given:
    n, dtype = int(rng.choice([5, 1_000])), rng.choice([np.int64, np.int32, np.uint8])
    values = rng.integers(0, 100, n).astype(dtype)
    begin, least, most = build_zones(values, np.unique(rng.integers(0, n, 3)))
    low, high = (int(end) for end in rng.choice([-(2**63), -1, 0, 50, 300, 2**63 - 1], 2))
    among = None if rng.random() < 0.5 else rng.random(n) < 0.5
    zones = {"begin": begin, "least": least, "most": most}
    return {"values": values, **zones, "low": low, "high": high, "among": among, "passed": np.zeros(n, bool)}


def call_filter_range(values: Any, begin: Any, least: Any, most: Any, **others: Any) -> Any:
    return filter_range(values, Zones(begin, least, most), **others)


def make_count_terms(rng: np.random.Generator) -> Given:
    lists, k, m, p = 9, int(rng.integers(3, 8)), 11, 3
    indptr = offsets(rng, lists)
    return {
        "indptr": indptr, "words": rng.integers(0, 9, indptr[-1]).astype(np.uint32), "rows": rng.integers(0, lists, m),
        "terms": rng.permutation(9)[:k].astype(np.uint32), "slot": rng.permutation(k), "left": rng.integers(0, k, p),
        "right": rng.integers(0, k, p), "count": np.zeros((k, m), np.float32), "follows": np.zeros((p, m), np.float32),
    }  # fmt: skip


def make_score_joined(rng: np.random.Generator) -> Given:
    t, u, width, n = 3, 7, int(rng.integers(1, 5)), 9
    how = {"mean_length": 4.0, "k1": 0.9, "b": 0.6}
    given = {"count": floats(rng, t, u), "place": rng.integers(0, u, (width, n)), "weight": floats(rng, t)}
    return {**given, "length": np.abs(floats(rng, u)), **how}


def make_find_ngrams(rng: np.random.Generator) -> Given:
    n = int(rng.integers(3, 60))
    return {
        "text": np.sort(rng.integers(0, 4, n)),
        "terms": rng.integers(0, 1 << 32, n).astype(np.uint32),
        "power": rng.integers(0, 2**63, 4).astype(np.uint64),
        "wanted": rng.integers(0, 256, 1 << int(rng.integers(2, 8))).astype(np.uint8),
    }


def make_list_neighbours(rng: np.random.Generator) -> Given:
    n = int(rng.integers(3, 30))
    neighbours = {name: rng.integers(-1, n, n).astype(np.int32) for name in ("previous", "following")}
    return {**neighbours, "rows": rng.integers(0, n, 9)}


def make_find_distinct(rng: np.random.Generator) -> Given:
    return {"values": rng.integers(0, 40, int(rng.integers(3, 500)))}


def make_fuse_legs(rng: np.random.Generator) -> Given:
    n = int(rng.integers(20, 200))
    legs = [rng.permutation(n)[: int(rng.integers(3, 20))].astype(np.uint32) for _ in range(3)]
    return {"legs": legs, "weights": [1.0, 0.5, 1.0], "k": 60.0, "key": rng.integers(0, 2**63, n).astype(np.uint64)}


def make_read_edges(rng: np.random.Generator) -> Given:
    """Make a graph of two segments, and some of its nodes."""
    parts, rows, sessions, entities, edges = [], 0, 4, 0, 5
    for n in (5, 7):
        ids = np.sort(rng.permutation(50)[:n]).astype(np.uint64)
        lists = {name: offsets(rng, size) for name, size in (("mentions", n), ("mentioned", 3), ("links", n))}
        held = {"mentions.entity": rng.integers(0, 3, lists["mentions"][-1]).astype(np.uint64)}
        held |= {"mentioned.key": np.arange(3, dtype=np.uint64), "sessions.key": np.arange(2, dtype=np.uint64)}
        held |= {"mentioned.rows": rng.integers(0, n, lists["mentioned"][-1]).astype(np.uint32)}
        held |= {"sessions.indptr": np.array([0, 2, n]), "sessions.rows": rng.permutation(n).astype(np.uint32)}
        links = int(lists["links"][-1])
        held |= {"links.key": rng.choice(ids, links), "linked.key": np.sort(rng.choice(ids, 3))}
        held |= {"links.kind": rng.integers(0, 2, links).astype(np.uint8)}
        held |= {"linked.row": rng.integers(0, n, 3).astype(np.uint32), "linked.kind": np.zeros(3, np.uint8)}
        held |= {"ids.key": ids, "ids.row": rng.permutation(n).astype(np.uint32)}
        parts.append({**{f"{name}.indptr": ends for name, ends in lists.items()}, **held})
        rows, entities = rows + n, entities + 3
    neighbours = {name: rng.integers(-1, rows, rows).astype(np.int32) for name in ("previous", "following")}
    return {
        "segments": parts, "named": [rng.integers(0, 4, 3).astype(np.int32) for _ in parts], **neighbours,
        "session": rng.integers(0, sessions, rows).astype(np.int32), "alive": rng.random(rows) < 0.9,
        "key": rng.permutation(50)[:rows].astype(np.uint64), "session_key": np.arange(sessions, dtype=np.uint64),
        "session_size": rng.integers(0, 5, sessions), "one": np.sort(rng.integers(0, 3, edges)).astype(np.uint64),
        "other": rng.integers(0, 3, edges).astype(np.uint64), "confidence": floats(rng, edges),
        "row": rng.integers(0, rows, edges), "allowed": None if rng.random() < 0.5 else rng.random(rows) < 0.5,
        "asked": np.arange(3, dtype=np.uint64), "hubs": rows + sessions + rng.integers(0, entities, 3),
        "hub_rows": rng.integers(0, rows, 3), "hub_weights": rng.random(3),
        "nodes": rng.permutation(rows + sessions + entities),
    }  # fmt: skip


def call_read_edges(
    segments: Sequence[Mapping[str, Any]], named: Any, one: Any, other: Any, confidence: Any, row: Any, **rest: Any
) -> Any:
    names = ("previous", "following", "session", "alive", "key", "session_key", "session_size")
    opened: Any = [Part(held, len(held["ids.key"]), f"seg-{i}") for i, held in enumerate(segments)]
    starts = np.cumsum([0, *(part.rows for part in opened)], dtype=np.int64)[:-1]
    graph = SegmentGraph(opened, starts, named, *(rest[name] for name in names), FactEdges(one, other, confidence, row))
    hubs = rest["hubs"], rest["hub_rows"], rest["hub_weights"]
    weights = dict.fromkeys(("next", "session", "fact", "reply", "same"), 0.5)
    seen = FilteredGraph(graph, rest["allowed"], rest["asked"], hubs, 50, 50, weights)
    return graph.find(rest["asked"]), seen.degree(rest["nodes"]), seen.edges(rest["nodes"])


class Part(SimpleNamespace):
    """The parts of an open segment that a graph reads."""

    def __init__(self, held: Mapping[str, Any], rows: int, id: str) -> None:
        super().__init__(held=held, rows=rows, id=id)

    def __getitem__(self, name: str) -> Any:
        return self.held[name]


def make_count_pieces(rng: np.random.Generator) -> Given:
    """Make texts and a vocabulary of the same few letters."""
    letters = list("abc <>[].\u00c0\u200b\n0\x00\x7f")

    def texts(n: int, most: int) -> list[str]:
        return ["".join(rng.choice(letters, rng.integers(0, most))) for _ in range(rng.integers(0, n))]

    words = {"first": texts(20, 6), "inner": texts(20, 4), "names": [name for name in texts(4, 6) if name]}
    return {"texts": texts(30, 200), **words, "lower": bool(rng.random() < 0.5), "most": int(rng.choice([1, 5, 100]))}


def call_count_pieces(texts: Any, first: Any, inner: Any, names: Any, **how: Any) -> Any:
    return count_pieces(texts, build_vocabulary(first, inner, names, **how))


CALLS: dict[str, tuple[Callable[[np.random.Generator], Given], Callable[..., Any]]] = {
    "search_postings": (make_search_postings, call_search_postings),
    "score_vectors": (make_score_vectors, score_vectors),
    "score_neighbours": (make_score_neighbours, call_score_neighbours),
    "score_tokens": (make_score_tokens, score_tokens),
    "search_lists": (make_search_lists, call_search_lists),
    "build_code_table": (make_build_code_table, build_code_table),
    "encode_pieces": (make_encode_pieces, encode_pieces),
    "round_to_steps": (make_round_to_steps, round_to_steps), "filter_range": (make_filter_range, call_filter_range),
    "count_terms": (make_count_terms, count_terms), "score_joined": (make_score_joined, score_joined),
    "find_ngrams": (make_find_ngrams, find_ngrams), "list_neighbours": (make_list_neighbours, list_neighbours),
    "find_distinct": (make_find_distinct, find_distinct), "fuse_legs": (make_fuse_legs, fuse_legs),
    "read_edges": (make_read_edges, call_read_edges), "count_pieces": (make_count_pieces, call_count_pieces),
}  # fmt: skip
"""By name: the function that makes valid arguments, and the function to call."""

COPIED = {("fuse_legs", "legs")}
"""Arguments that the wrapper copies into another array: by call and name."""


# ------------------------------------------------------------------ other arrays


def list_arrays(given: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Array]]:
    """Yield (place, array) of all arrays in the arguments of a call."""
    if isinstance(given, np.ndarray):
        yield where, given
    elif isinstance(given, dict | list):
        for key, value in given.items() if isinstance(given, dict) else enumerate(given):
            yield from list_arrays(value, (*where, key))


def replace(given: Any, where: tuple[Any, ...], value: Any) -> Any:
    """Return the arguments with another value at a place."""
    if not where:
        return value
    changed = given.copy()
    changed[where[0]] = replace(given[where[0]], where[1:], value)
    return changed


def list_other_kinds(array: Array) -> Iterator[tuple[str, Any]]:
    """Yield (description, array) with the same shape and values, which no kernel may accept."""
    for dtype in ("int8", "uint16", "int32", "uint64", "float32", "float64"):
        if array.dtype != dtype:
            with np.errstate(all="ignore"):
                yield dtype, array.astype(dtype)
    if array.dtype.itemsize > 1:
        yield "swapped bytes", array.astype(array.dtype.newbyteorder())
    if array.dtype.itemsize > 1 and array.size:
        odd = np.frombuffer(bytes(1) + array.tobytes(), array.dtype, array.size, 1)
        yield "not aligned", odd.reshape(array.shape)
    if array.size > 1:
        apart = np.repeat(array, 2, axis=-1)[..., ::2]
        if not apart.flags.c_contiguous:
            yield "every second number", apart
    if array.ndim > 1 and min(array.shape) > 1:
        yield "column by column", np.asfortranarray(array)
    yield "a list", array.tolist()
    yield "one axis more", array[None]


EXTREME = [0, 1, -1, 2, 127, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63)]
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, -1e38, 1e-45, -1.0]


def distort(array: Array, rng: random.Random) -> Any:
    """Return a random change of an array: another kind, length or order, or extreme values."""
    how = rng.choice(["kind", "length", "order", "values", "values", "values", "values"])
    if how == "kind":
        return rng.choice(list(list_other_kinds(array)))[1]
    if how == "length":
        repeats = rng.choice([0, 0.5, 1, 2])
        return np.resize(array, (max(int(len(array) * repeats) + rng.choice([-1, 0, 1]), 0), *array.shape[1:]))
    changed = array.copy()
    flat = changed.reshape(-1)
    if how == "order":
        np.random.default_rng(rng.randrange(1 << 30)).shuffle(flat)
    for _ in range(rng.choice([1, 1, 3, len(flat)]) if len(flat) and how == "values" else 0):
        at = rng.choice([0, len(flat) - 1, rng.randrange(len(flat))])
        if flat.dtype.kind == "f":
            flat[at] = rng.choice(ODD)
        elif flat.dtype.kind in "iu":
            info = np.iinfo(flat.dtype)
            wanted = rng.choice([*EXTREME, len(flat), len(flat) - 1, len(flat) + 1])
            flat[at] = min(max(wanted, int(info.min)), int(info.max))
    return changed


def main(seed: int, seconds: float) -> None:
    """Call kernels with up to three hostile arrays each for some seconds."""
    rng, arrays = random.Random(seed), np.random.default_rng(seed)
    done, refused, until = Counter[str](), Counter[str](), time.monotonic() + seconds
    while time.monotonic() < until:
        name = rng.choice([*CALLS])
        make, call = CALLS[name]
        given = make(arrays)
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            where, array = rng.choice([*list_arrays(given)] or [((), None)])
            if where and isinstance(array, np.ndarray):
                given = replace(given, where, distort(array, rng))
        done[name] += 1
        try:
            call(**given)
        except (StoreError, TypeError, ValueError, AttributeError):  # a list has no shape
            refused[name] += 1
        except BaseException:
            sys.stderr.write(f"seed {seed}, call {done.total()}: {name}\n")
            raise
    sys.stdout.write(json.dumps({"seed": seed, "calls": done, "refused": refused}) + "\n")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(int(sys.argv[1]), float(sys.argv[2]))
