"""Stores of things that were said, with the facts that extraction finds in them, without an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from helix.enrich.neardup import compute_signatures
from helix.snapshot import paths, writer
from helix.snapshot.index.changes import KeyedLinks, describe_model, mix_contents, write_changes
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.write import write_segment
from pipelines.ingest.item_facts import find_facts
from pipelines.ingest.part import build_rows
from pipelines.passes.run import CHANGES, write_index
from tests.support.tiny import judge_all, publish_segments, record, without_fsync

Said = tuple[str, str] | tuple[str, str, dict[str, Any]]
"""A day, a text, and fields of its record: by default Ana says it, in project "shop"."""


def find_seconds(day: str) -> int:
    """Return the seconds of a day at noon, UTC."""
    return int(datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC).timestamp())


@without_fsync()
def make_said_store(root: Path, said: Sequence[Said]) -> Snapshot:
    """Make a store of items of one turn each, in a session of their own."""
    records = []
    for i, (day, text, *more) in enumerate(said):
        given = {"session": f"s{i}", "turn": "1", "speaker": "Ana", "project": "shop", "time": find_seconds(day)}
        records.append(record(i, text, given | (more[0] if more else {})))
    texts = [text for _, text, *_ in said]
    rows = build_rows(
        records,
        texts,
        [[] for _ in records],
        np.eye(len(records), dtype=np.float32),
        compute_signatures(texts),
        facts=[find_facts(one, [], []) for one in records],
    )
    paths.create_folders(root)
    with writer.acquire_lock(root, 1.0) as held:
        publish_segments(held, [write_segment(root, rows)], len(records), len(records))
    return Snapshot.open(root)


@without_fsync()
def link_rows(root: Path, links: Sequence[tuple[int, int]], certainty: float = 0.95) -> Snapshot:
    """Publish links from rows to the later rows that change them; return the new generation."""
    (opened,) = Snapshot.open(root).row_map.segments
    key, contents = opened.column("key"), opened.column("content")
    old, new = ([pair[side] for pair in links] for side in (0, 1))
    with writer.acquire_lock(root, 1.0) as held:
        name, manifest = inbox.load_current(root)
        assert manifest is not None
        (segment,) = manifest.segments
        content = mix_contents(contents[old], contents[new])
        keyed = KeyedLinks(key[old], key[new], content, np.full(len(links), certainty, np.float32))

        def write(folder: Path) -> None:
            write_changes(folder, np.arange(segment.rows, dtype=np.uint32), judge_all(keyed))

        index = write_index(root, segment, CHANGES, write, describe_model("test"))
        writer.publish_generation(held, writer.build_next(held, name, manifest, indexes=(index,)))
    return Snapshot.open(root)
