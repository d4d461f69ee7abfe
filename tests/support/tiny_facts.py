"""Small stores of facts with chosen vectors: `tests.support.tiny`, with an index of the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helix.enrich.neardup import compute_signatures
from helix.snapshot import paths, writer
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Segment
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.write import write_segment
from pipelines.ingest.part import build_rows
from tests.support.tiny import fact, make_store, record

FactFields = Mapping[str, Any]
"""Fields of a fact: subject, relation, object_, those of `tests.support.tiny.fact`, columns of FACTS, and `vector`."""


def item(text: str, *facts: FactFields, **given: Any) -> tuple[str, Sequence[FactFields], Mapping[str, Any]]:
    """An item that states facts."""
    return text, facts, given


def state_fact(subject: str, relation: str, object_: str, **more: Any) -> FactFields:
    """A fact, by default with one object at a time."""
    return {"subject": subject, "relation": relation, "object_": object_, **more}


def _make_fact(one: Mapping[str, Any], said: FactFields) -> dict[str, Any]:
    taken = ("subject", "relation", "object_", "until", "confidence", "functional", "closes")
    made = fact(one, **{name: said[name] for name in taken if name in said})
    return {**made, **{name: value for name, value in said.items() if name in made and name not in taken}}


def write(root: Path, items: Sequence[Any], start: int, dim: int, indexed: bool) -> Segment:
    """Write a segment of items; a fact without a `vector` gets the first axis."""
    records = [record(start + i, text, given) for i, (text, _, given) in enumerate(items)]
    texts = [text for text, _, _ in items]
    facts = [[_make_fact(one, said) for said in stated] for one, (_, stated, _) in zip(records, items, strict=True)]
    vectors = [said.get("vector", np.eye(dim)[0]) for _, stated, _ in items for said in stated]
    rows = build_rows(
        records,
        texts,
        [[] for _ in items],
        np.eye(len(items), dim, dtype=np.float32),
        compute_signatures(texts),
        facts=facts,
        fact_vectors=np.array(vectors, np.float32).reshape(-1, dim) if indexed else None,
    )
    return write_segment(root, rows)


def fact_store(
    root: Path,
    items: Sequence[Any],
    *,
    cuts: Sequence[int] = (),
    deleted: Mapping[int, Sequence[int]] | None = None,
    dim: int = 4,
    plain: Sequence[int] = (),
) -> Snapshot:
    """A store of items made with `item`, in as many segments as `cuts` say.

    Args:
        deleted: rows by place of a segment.
        plain: places of segments whose facts have no index.
    """
    paths.create_folders(root)
    make_store(root, [], np.empty((0, dim)))
    with writer.acquire_lock(root, 1.0) as held:
        name, manifest = inbox.load_current(root)
        assert manifest is not None
        assert name is not None
        segments = [
            write(root, items[start:stop], start, dim, place not in plain)
            for place, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(items)], strict=True))
        ]
        gone = [
            writer.write_deletes(root, segments[place].id, np.array(rows, np.uint32))
            for place, rows in (deleted or {}).items()
        ]
        writer.publish_generation(
            held,
            writer.build_next(
                held,
                name,
                manifest,
                segments=tuple(segments),
                deletes=tuple(gone),
                counts={"items": len(items), "sessions": 1, "documents": 0},
            ),
        )
    return Snapshot.open(root)
