"""Small stores with chosen vectors, for stages to be checked by hand or against a naive second implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from helix.encoders.token_counter import EstimatedCounter
from helix.enrich.neardup import compute_signatures
from helix.recipes.encoder_weights import UNFITTED
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index.changes import KIND, Judgements, KeyedLinks, describe_model, mix_contents, write_changes
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.access_events import load_access
from helix.snapshot.manifest import Index, Lineage, Manifest, Segment, describe_tree, make_id
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.write import write_segment
from helix.types import Bundle
from pipelines.ingest.part import build_rows

BASE = 1_700_000_000  # 2023-11-14T22:13:20Z


def record(i: int, text: str, given: Mapping[str, Any]) -> dict[str, Any]:
    session, turn = given.get("session", "s"), given.get("turn", f"t{i}")
    return {
        "id": given.get("id", hash_parts("tiny", session, turn, "0")), "path": "tiny.jsonl",
        "source": given.get("source", "tiny"),
        "document": "0" * 64, "session": session, "branch_of": None, "turns": [turn], "piece": 0,
        "ord": given.get("ord", i), "speaker": given.get("speaker"), "role": given.get("role", "user"),
        "origin": "human", "title": given.get("title"), "text": text, "type": given.get("type", "episodic"),
        "type_confidence": 1.0, "project": given.get("project", "p"), "time": given.get("time", BASE + 60 * i),
        "time_quality": "exact", "t_valid": given.get("t_valid", given.get("time", BASE + 60 * i)),
        "t_invalid": given.get("t_invalid"), "t_ingested": given.get("t_ingested", BASE) * 1_000_000,
        "salience": given.get("salience", 0.5), "confidence": given.get("confidence", 0.5), "priority": 1.0,
        "pinned": False, "acl": given.get("acl", []), "tokens": len(text.split()), "content": hash_parts(text),
        "near": None, "language": given.get("language", "en"),
    }  # fmt: skip


def fact(item: Mapping[str, Any], subject: str, relation: str, object_: str, **given: Any) -> dict[str, Any]:
    """A record of FACTS, said by an item; the two entities are persons."""

    def entity(key: str) -> int:
        return int(hash_parts("person", key), 16) if key else 0

    return {
        "id": hash_parts(item["id"], subject, relation, object_), "item": item["id"], "project": item["project"],
        "subject": subject, "subject_key": subject, "relation": relation, "object": object_, "object_key": object_,
        "qualifier": "", "said": item["text"], "t_valid": item["t_valid"], "until": given.get("until"),
        "t_ingested": item["t_ingested"], "confidence": given.get("confidence", 0.5),
        "functional": given.get("functional", True), "closes": given.get("closes", False),
        "group": int(hash_parts("fact", subject, relation), 16),
        "family": int(hash_parts("fact", subject, relation), 16), "subject_entity": entity(subject),
        "object_entity": entity(object_), "reason": "",
    }  # fmt: skip


@contextmanager
def without_fsync() -> Iterator[None]:
    """Leave fsync out: small stores of tests need no durability."""
    with mock.patch("os.fsync"):
        yield


def publish_segments(held: writer.WriterLock, segments: Sequence[Segment], dim: int, items: int, **more: Any) -> None:
    """Publish the first generation of a store; `more` are fields of its manifest."""
    fields: dict[str, Any] = {
        **{"generation": 1, "parent": None, "created": "2023-11-14T22:13:20+00:00", "token": held.token},
        **{"lineage": Lineage("none", "tiny", dim, "none"), "segments": tuple(segments), "deletes": (), "indexes": ()},
        **{"documents": (), "encoder": (), "coverage": {}},
        "counts": {"items": items, "sessions": 1, "documents": 0},
    }
    writer.publish_generation(held, Manifest(**fields | more))


@without_fsync()
def make_store(
    root: Path,
    texts: Sequence[str],
    vectors: Any = None,
    given: Sequence[Mapping[str, Any]] | None = None,
    mentions: Sequence[Sequence[tuple[str, str, str]]] | None = None,
    cuts: Sequence[int] = (),
    deleted: Mapping[int, Sequence[int]] | None = None,
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
    facts: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    near: Sequence[str | None] | None = None,
    changes: Sequence[tuple[int, int, float]] = (),
) -> Snapshot:
    """A store of the given items, in as many segments as `cuts` say; `deleted` names rows by segment.

    `links` are (key, kind) an item, `facts` what `fact` takes, an item, and `changes` (changed item, the item that
    changes it, certainty).
    """
    n = len(texts)
    vectors = np.eye(n, max(n, 2), dtype=np.float32) if vectors is None else np.asarray(vectors, np.float32)
    given = given or [{}] * n
    mentions = mentions or [[] for _ in range(n)]
    links = links or [[] for _ in range(n)]
    facts = facts or [[] for _ in range(n)]
    paths.create_folders(root)
    with writer.acquire_lock(root, 1.0) as held:
        segments, deletes = [], []
        for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
            part = slice(start, stop)
            records = [record(i, texts[i], given[i]) for i in range(start, stop)]
            for one, earlier in zip(records, near[start:stop] if near else (), strict=False):
                one["near"] = earlier
            rows = build_rows(
                records,
                list(texts[part]),
                [list(found) for found in mentions[part]],
                vectors[part],
                compute_signatures(list(texts[part])),
                links=links[part],
                facts=[[fact(one, **said) for said in each] for one, each in zip(records, facts[part], strict=True)],
            )
            segments.append(write_segment(root, rows))
        for segment, gone in (deleted or {}).items():
            deletes.append(writer.write_deletes(root, segments[segment].id, np.array(gone, np.uint32)))
        indexes = [_index_changes(root, segments[-1], texts, given, changes)] if changes else []
        publish_segments(held, segments, vectors.shape[1], n, deletes=tuple(deletes), indexes=tuple(indexes))
    return Snapshot.open(root)


def _index_changes(
    root: Path,
    segment: Segment,
    texts: Sequence[str],
    given: Sequence[Mapping[str, Any]],
    changes: Sequence[tuple[int, int, float]],
) -> Index:
    """Write the index of changes; its rows are only the first of the segment."""
    target = root / "indexes" / make_id()
    records = [record(i, text, more) for i, (text, more) in enumerate(zip(texts, given, strict=True))]
    key, content = (np.array([int(one[name], 16) for one in records], np.uint64) for name in ("id", "content"))
    old, new, certainty = ([change[place] for change in changes] for place in range(3))
    links = KeyedLinks(key[old], key[new], mix_contents(content[old], content[new]), f32(*certainty))
    write_changes(target / KIND, np.zeros(1, np.uint32), judge_all(links))
    return Index(target.name, KIND, (segment.id,), describe_tree(root, target), describe_model("m"))


def judge_all(links: KeyedLinks, generation: int = 1) -> Judgements:
    """Return links as the judgements that one commit makes of their later items."""
    judged = np.unique(links.new)
    return Judgements(judged, np.full(len(judged), generation, np.uint64), links)


SETTINGS = Settings()


def list_ids(root: Path) -> list[str]:
    return [f"{key:016x}" for key in Snapshot.open(root).columns.key.tolist()]


def count_accesses(root: Path) -> Counter[str]:
    """Return the folded access events of each item."""
    found = load_access(root, inbox.load_current(root)[1].access)
    return Counter({f"{key:016x}": count for key, count in zip(found.key.tolist(), found.count.tolist(), strict=True)})


def memory_of(root: Path, vector: Callable[[str], Any] | None = None, profiles: Path | None = None) -> Memory:
    """A store made here, to be asked as a whole.

    Args:
        vector: of a question, unit length; without it there is no encoder, and words alone count.
        profiles: folder of one's own profiles.
    """
    memory = Memory(root, replace(SETTINGS, profiles=str(profiles or "")))
    if vector is not None:
        add_encoder(memory.snapshot, lambda text: np.asarray(vector(text), np.float32))
    return memory


def f32(*values: Any) -> Any:
    return np.array(values, np.float32)


def add_encoder(snap: Snapshot, vector: Callable[[str], Any]) -> Snapshot:
    """Give a snapshot an encoder of questions, and an estimate of tokens."""
    encoder = SimpleNamespace(
        start_query=lambda text: partial(vector, text),
        queries=lambda texts: np.stack([vector(text) for text in texts]),
    )
    snap.files.__dict__.update(encoder=encoder, counter=EstimatedCounter())
    return snap


def list_faults(degraded: Sequence[str]) -> list[str]:
    """Return what is degraded, apart from weights that are not fitted to a test's encoder."""
    return [one for one in degraded if not one.startswith(UNFITTED)]


def read_reasons(found: Bundle) -> dict[str, Any]:
    """Return `why` of each item by its text."""
    return {item.text: item.why for item in found.items}


def at_cosine(towards: Any, cosine: Any, n: int, rng: np.random.Generator) -> Any:
    """Unit vectors at a given cosine, or one each, to the unit vector `towards`: float32[n, d]."""
    towards = np.asarray(towards, np.float64)
    aside = rng.standard_normal((n, len(towards)))
    aside -= np.outer(aside @ towards, towards)
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosine = np.broadcast_to(np.asarray(cosine, np.float64), n)[:, None]
    return (cosine * towards + np.sqrt(1 - cosine**2) * aside).astype(np.float32)
