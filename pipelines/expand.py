"""The second pass of ingest: a model writes questions for items that are recallable already (doc2query).

Works through what no index of the generation has looked at yet, newest segments first, and publishes what it has every
half minute. That is the progress: a run that is killed loses half a minute, and the next one goes on from there. Two
runs at once do some work twice and break nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from helix.encoders import seq2seq
from helix.encoders.onnx import Encoder
from helix.enrich.doc2query import Generator, keep_near
from helix.errors import EncoderError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import ledger, paths, queries, writer
from helix.snapshot import manifest as manifests
from helix.snapshot.manifest import Index, Manifest, Segment, describe_tree, new_id
from helix.snapshot.queries import KIND
from helix.snapshot.segment import alive_of, open_segment
from helix.types import I64, U32
from pipelines.commit import expanded
from pipelines.items import index_text

BATCH = 64  # items handed to the model at once: it sorts them by length
PUBLISH = 30.0  # seconds of work between two generations
MERGED = 8  # indexes of a segment that become one
CHARS = 2_000  # of an item that the model reads

Say = Callable[[int, int], None]
"""Called with (items asked about, of how many)."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a run did. `off` says why there was nothing it could do."""

    generation: int
    items: int
    queries: int
    waiting: int
    off: str = ""


def generator(settings: Settings) -> Generator | str:
    """The model, ready; or why there is none."""
    found = seq2seq.find(settings.doc2query, settings)
    if isinstance(found, str):
        return found
    return Generator(seq2seq.cached(found, Path(settings.cache)), settings.threads, settings.doc2query_queries)


def expand(
    root: Path,
    model: Generator,
    encoder: Encoder,
    settings: Settings,
    *,
    limit: int | None = None,
    say: Say | None = None,
) -> Expanded:
    """Ask the model about items it was not asked about, at most `limit` of them.

    Raises:
        EncoderError: the encoder is not the one the store was built with.
        StoreError: the store is damaged or cannot be written.
    """
    done = written = 0
    begun = waiting_in(root)
    wanted = begun if limit is None else min(limit, begun)
    while done < wanted:
        name, manifest = ledger.current(root)
        if manifest is None or name is None or not (chosen := _next(root, manifest)):
            break
        if manifest.lineage.encoder != encoder.spec.fingerprint:
            raise EncoderError(
                f"{root} was built with {manifest.lineage.name}, the questions are compared by {encoder.spec.name}",
                "run the command again: the store was reindexed meanwhile",
            )
        segment, todo = chosen
        rows, asked = _ask(root, segment, todo[: wanted - done], model, encoder, settings)
        failpoint("expand.asked")
        if not _publish(root, segment, rows, asked, model, settings):
            continue  # the segment was merged meanwhile: what it became is asked about
        failpoint("expand.published")
        _fold(root, segment, settings)
        done += len(rows)
        written += sum(map(len, asked))
        if say:
            say(done, wanted)
    _, manifest = ledger.current(root)
    return Expanded(manifest.generation if manifest else 0, done, written, waiting_in(root))


def waiting_in(root: Path) -> int:
    """Live items of the current generation that no model was asked about."""
    _, manifest = ledger.current(root)
    return sum(len(_todo(root, manifest, segment)) for segment in manifest.segments) if manifest else 0


def _todo(root: Path, manifest: Manifest, segment: Segment) -> I64:
    """int64[m]: rows of a segment nobody was asked about."""
    left = alive_of(root, manifest, segment)
    for found in _opened(root, manifest, segment):
        left[found.rows] = False
    return np.flatnonzero(left)


def _next(root: Path, manifest: Manifest) -> tuple[Segment, I64] | None:
    """The newest segment that has work left, and that work."""
    for segment in reversed(manifest.segments):
        rows = _todo(root, manifest, segment)
        if len(rows):
            return segment, rows
    return None


def carry(root: Path, settings: Settings, pointer: str = "NEXT") -> int:
    """Hand the questions of CURRENT on to the items of another lineage that say the same; returns to how many.

    What a model wrote follows from the text alone, and took hours.
    """
    _, now = ledger.current(root)
    keys, contents, asked, params = _written(root, now) if now else ([], [], [], {})
    if not keys:
        return 0
    key, content = np.array(keys, np.uint64), np.array(contents, np.uint64)
    order = np.argsort(key)
    carried = 0
    with writer.lock(root, settings.lock_wait, pointer) as held:
        while (name := manifests.current_name(root, pointer)) and (built := manifests.load(root, name, write=True)):
            for segment in built.segments:
                opened = open_segment(root, segment, ())
                todo = _todo(root, built, segment)
                at = np.minimum(np.searchsorted(key, opened.column("key")[todo], sorter=order), len(key) - 1)
                source = order[at]
                same = (key[source] == opened.column("key")[todo]) & (content[source] == opened.column("content")[todo])
                if same.any():
                    rows = todo[same].astype(np.uint32)
                    index = _index(root, segment, rows, [asked[i] for i in source[same].tolist()], params)
                    _replace(held, name, built, (), index, settings)
                    carried += len(rows)
                    break
            else:
                break
    return carried


def _written(root: Path, manifest: Manifest) -> tuple[list[int], list[int], list[list[str]], Mapping[str, Any]]:
    """Of every live item that was asked about: key, content, questions; and the model's params."""
    keys, contents, asked = list[int](), list[int](), list[list[str]]()
    params: Mapping[str, Any] = {}
    by_id = {segment.id: segment for segment in manifest.segments}
    for index in manifest.indexes:
        if index.kind != KIND:
            continue
        segment = by_id[index.covers[0]]
        found, opened = queries.open_queries(root, index), open_segment(root, segment, ())
        alive = alive_of(root, manifest, segment)[found.rows]
        rows = found.rows[alive]
        keys += opened.column("key")[rows].tolist()
        contents += opened.column("content")[rows].tolist()
        asked += found.text.column("queries").filter(pa.array(alive)).to_pylist()
        params = index.params
    return keys, contents, asked, params


def _ask(
    root: Path, segment: Segment, rows: I64, model: Generator, encoder: Encoder, settings: Settings
) -> tuple[U32, list[list[str]]]:
    """As many of the rows as half a minute is enough for, and the questions of each."""
    opened = open_segment(root, segment, ("vectors.i8", "vectors.scale"))
    began = time.monotonic()
    asked: list[list[str]] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        texts = [_text(entry) for entry in opened.texts(part)]
        vectors = opened["vectors.i8"][part] * opened["vectors.scale"][part, None]
        asked += keep_near(model.queries(texts), vectors, encoder.queries, settings.doc2query_near)
        if time.monotonic() - began > PUBLISH:
            break
    return rows[: len(asked)].astype(np.uint32), asked


def _text(entry: dict[str, Any]) -> str:
    """What the model reads of an item: with its speaker or heading, as it is indexed."""
    return index_text("", entry["speaker"] or entry["title"], None, entry["text"])[:CHARS]


def _publish(
    root: Path, segment: Segment, rows: U32, asked: Sequence[Sequence[str]], model: Generator, settings: Settings
) -> bool:
    """A generation with the questions; False where the segment is gone."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None or name is None or segment.id not in {other.id for other in manifest.segments}:
            return False
        # Another run may have been here, and what was forgotten meanwhile must not come back as a question.
        new = np.flatnonzero(np.isin(rows, _todo(root, manifest, segment)))
        if len(new):
            params = {"model": model.name, "fingerprint": model.fingerprint}
            index = _index(root, segment, rows[new], [asked[i] for i in new.tolist()], params)
            _replace(held, name, manifest, (), index, settings)
    return True


def _fold(root: Path, segment: Segment, settings: Settings) -> None:
    """Make one index of the many small ones of a segment."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None or name is None:
            return
        small = [index for index in manifest.indexes if index.kind == KIND and segment.id in index.covers]
        if len(small) < MERGED:
            return
        found = [queries.open_queries(root, index) for index in small]
        rows, asked = queries.joined([(entry, entry.rows.astype(np.int64)) for entry in found])
        index = _index(root, segment, rows, asked, small[-1].params)
        _replace(held, name, manifest, [entry.id for entry in small], index, settings)


def _opened(root: Path, manifest: Manifest, segment: Segment) -> list[queries.Queries]:
    mine = [index for index in manifest.indexes if index.kind == KIND and segment.id in index.covers]
    return [queries.open_queries(root, index) for index in mine]


def _index(root: Path, segment: Segment, rows: U32, asked: Sequence[Sequence[str]], params: Mapping[str, Any]) -> Index:
    """An index of some rows of a segment, written and durable."""
    keys = open_segment(root, segment, ()).column("key")[rows].tolist()
    identity = new_id()
    target = root / "indexes" / identity
    with paths.new_folder(target) as folder:
        queries.write_queries(folder / KIND, rows, [f"{key:016x}" for key in keys], asked)
    return Index(identity, KIND, (segment.id,), describe_tree(root, target), params)


def _replace(
    held: writer.Lock, name: str, manifest: Manifest, old: Collection[str], index: Index, settings: Settings
) -> None:
    """Publish the generation with one more index, and without some."""
    kept = [entry for entry in manifest.indexes if entry.id not in old]
    new = writer.following(held, name, manifest, indexes=(*kept, index))
    writer.publish(held, replace(new, coverage={**new.coverage, KIND: expanded(held.root, new, settings)}))
