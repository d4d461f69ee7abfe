"""What the graph's edges are worth: how many of them join two items that answer the same question, kind by kind.

An edge between items is looked at as it is; items that name the same entity, or whose entities a fact joins, count as
joined by it. `chance` is the share of all pairs of items: an edge that does no better leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import LINKS
from helix.types import I64
from pipelines.embedded.ingest import ingest
from pipelines.eval.sets.benchmark import Benchmark, turn_key
from pipelines.eval.sets.registry import read_set

MOST = 50  # items an entity may have: hubs carry nothing in recall either


def diagnose(name: str, path: Path, work: Path, settings: Settings) -> dict[str, Any]:
    """The report of one benchmark set, ingested into `work`."""
    found = read_set(name, path, work / "documents")
    ingest(work / "store", list(found.documents), settings)
    snap = Snapshot.open(work / "store")
    gold = gold_pairs(snap, found)
    n = snap.live
    rows = {}
    for kind, pairs in edges(snap).items():
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        hit = int(np.isin(_code(pairs, snap.rows), gold).sum())
        rows[kind] = {
            "edges": len(pairs),
            "same_answer": hit,
            "share": round(hit / max(len(pairs), 1), 5),
            "gold_reached": round(hit / max(len(gold), 1), 4),
        }
    return {
        "set": name,
        "items": n,
        "gold_pairs": len(gold),
        "chance": len(gold) / max(n * (n - 1) / 2, 1),
        "edges": rows,
    }


def gold_pairs(snap: Snapshot, found: Benchmark) -> I64:
    """Codes of the pairs of items that answer one question together: int64[g], sorted."""
    entries = snap.text(np.arange(snap.rows))
    row: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        for one in entry["turns"]:
            row.setdefault(turn_key(entry["session"], one), []).append(i)
    codes: set[int] = set()
    for question in found.questions:
        rows = sorted({i for one in question.gold for i in row.get(one, ())})
        codes.update(a * snap.rows + b for a, b in combinations(rows, 2))
    return np.array(sorted(codes), np.int64)


def _code(pairs: I64, n: int) -> I64:
    return pairs[:, 0] * n + pairs[:, 1]


def edges(snap: Snapshot) -> dict[str, I64]:
    """Pairs of items by kind of edge: int64[e, 2]."""
    rows = np.flatnonzero(snap.alive)
    following = snap.columns.next[rows]
    out = {"next": np.stack([rows, following], axis=1)[following >= 0]}
    at, to, kind = snap.graph.links_of(rows)
    for code, name in enumerate(LINKS):
        out[name] = np.stack([rows[at[kind == code]], to[kind == code]], axis=1)
    out["session"] = _within(snap.columns.session[rows], rows)
    at, keys = snap.graph.entities_of(rows)
    entities, entity = np.unique(keys, return_inverse=True)
    out["entity"] = _within(entity, rows[at])
    subjects, objects, *_ = snap.facts.edges
    named = {int(key): rows[at[entity == i]] for i, key in enumerate(entities.tolist())}
    out["fact"] = _pairs(_across(subjects, objects, named))
    return out


def _within(group: npt.NDArray[Any], rows: I64) -> I64:
    """All pairs of the rows of each small enough group."""
    order = np.argsort(group, kind="stable")
    groups = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)
    return _pairs(pair for members in groups if len(members) <= MOST for pair in combinations(members.tolist(), 2))


def _across(subjects: Any, objects: Any, named: dict[int, I64]) -> Iterator[tuple[int, int]]:
    nothing = np.empty(0, np.int64)
    for subject, other in zip(subjects.tolist(), objects.tolist(), strict=True):
        a, b = named.get(subject, nothing), named.get(other, nothing)
        if len(a) <= MOST and len(b) <= MOST:
            yield from ((i, j) for i in a.tolist() for j in b.tolist() if i != j)


def _pairs(found: Iterator[tuple[int, int]]) -> I64:
    return np.array(list(found), np.int64).reshape(-1, 2)


def table(report: dict[str, Any]) -> str:
    """The report, to be read."""
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
