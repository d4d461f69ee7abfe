"""Value of the graph's edges: by kind, the share that joins two items which answer the same question.

Items that mention one entity, or whose entities a fact joins, count as joined by it. `chance` is the share of all pairs
of items, which a useful kind of edge exceeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import LINKS
from helix.types import I64, AnyArray
from pipelines.embedded.ingest import ingest
from pipelines.eval.sets.benchmark import Benchmark, turn_key
from pipelines.eval.sets.registry import read_set

MOST = 50
"""Most items of an entity: recall ignores hubs as well."""


def diagnose(name: str, path: Path, work: Path, settings: Settings) -> dict[str, Any]:
    """Ingest a benchmark set into `work`; return the report."""
    benchmark = read_set(name, path, work / "documents")
    ingest(work / "store", list(benchmark.documents), settings)
    snap = Snapshot.open(work / "store")
    gold = find_gold_pairs(snap, benchmark)
    n = snap.live
    rows = {}
    for kind, pairs in list_edges(snap).items():
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        hit = int(np.isin(pairs[:, 0] * snap.rows + pairs[:, 1], gold).sum())
        rows[kind] = {
            "edges": len(pairs),
            "same_answer": hit,
            "share": round(hit / max(len(pairs), 1), 5),
            "gold_reached": round(hit / max(len(gold), 1), 4),
        }
    chance = len(gold) / max(n * (n - 1) / 2, 1)
    return {"set": name, "items": n, "gold_pairs": len(gold), "chance": chance, "edges": rows}


def find_gold_pairs(snap: Snapshot, benchmark: Benchmark) -> I64:
    """Return the codes of the pairs of items that answer one question: int64[g], sorted."""
    entries = snap.text(np.arange(snap.rows))
    row: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        for one in entry["turns"]:
            row.setdefault(turn_key(entry["session"], one), []).append(i)
    codes: set[int] = set()
    for question in benchmark.questions:
        rows = sorted({i for one in question.gold for i in row.get(one, ())})
        codes.update(a * snap.rows + b for a, b in combinations(rows, 2))
    return np.array(sorted(codes), np.int64)


def list_edges(snap: Snapshot) -> dict[str, I64]:
    """Return pairs of items by kind of edge: int64[e, 2]."""
    rows = np.flatnonzero(snap.alive)
    following = snap.columns.next[rows]
    out = {"next": np.stack([rows, following], axis=1)[following >= 0]}
    at, to, kind = snap.graph.links_of(rows)
    for code, name in enumerate(LINKS):
        out[name] = np.stack([rows[at[kind == code]], to[kind == code]], axis=1)
    out["session"] = _pair_groups(snap.columns.session[rows], rows)
    at, keys = snap.graph.entities_of(rows)
    entities, entity = np.unique(keys, return_inverse=True)
    out["entity"] = _pair_groups(entity, rows[at])
    subjects, objects, *_ = snap.facts.edges
    named = {int(key): rows[at[entity == i]] for i, key in enumerate(entities.tolist())}
    out["fact"] = _stack_pairs(_pair_entities(subjects, objects, named))
    return out


def _pair_groups(group: AnyArray, rows: I64) -> I64:
    """Return all pairs of the rows of each small enough group."""
    order = np.argsort(group, kind="stable")
    groups = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)
    return _stack_pairs(pair for group in groups if len(group) <= MOST for pair in combinations(group.tolist(), 2))


def _pair_entities(subjects: Any, objects: Any, named: dict[int, I64]) -> Iterator[tuple[int, int]]:
    no_rows = np.empty(0, np.int64)
    for subject, other in zip(subjects.tolist(), objects.tolist(), strict=True):
        a, b = named.get(subject, no_rows), named.get(other, no_rows)
        if len(a) <= MOST and len(b) <= MOST:
            yield from ((i, j) for i in a.tolist() for j in b.tolist() if i != j)


def _stack_pairs(pairs: Iterable[tuple[int, int]]) -> I64:
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def format_report(report: dict[str, Any]) -> str:
    """Format the report for a terminal."""
    lines = [
        f"{report['set']}: {report['items']} items, {report['gold_pairs']} pairs answer together, "
        f"chance {report['chance']:.5f}",
        f"{'edge':10} {'edges':>9} {'same answer':>12} {'share':>9} {'× chance':>9} {'gold reached':>13}",
    ]
    for kind, row in report["edges"].items():
        times = row["share"] / max(report["chance"], 1e-12)
        lines.append(
            f"{kind:10} {row['edges']:9,} {row['same_answer']:12,} {row['share']:9.5f} {times:9.1f} "
            f"{row['gold_reached']:13.3f}"
        )
    return "\n".join(lines)
