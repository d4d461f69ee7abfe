"""Makes the stores of this folder: `python -m tests.compat.make` writes those of the format this Helix writes.

`whole` is a small store as ingesting would leave it, but for an encoder, which would be too large: accepted documents,
a turn that changed, a session over two segments, an item with an ACL, near-duplicates, an item that was forgotten,
folded accesses, a fact that another ended, questions a model wrote. The broken stores are stored as changes of `whole`:
files to write over it and, in `overlay.json`, files to remove and the error of opening it. The newest generation of
each is broken, the one before it is good.

The same versions of NumPy and pyarrow make the same bytes again. The stores of a released format are never made again:
later releases must read them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson

from helix.encoders.token_counter import EstimatedCounter
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.gc import collect_garbage
from helix.snapshot.index.doc2query import KIND, write_queries
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Index
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import enrich
from pipelines.maintain.touch import touch

STORES = Path(__file__).parent / "stores"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
DIM = 8
NOW = "2026-03-05T00:00:00Z"
QUESTIONS = ("how long does the walnut loaf bake", "when are the tomatoes watered")

Turn = tuple[str, str, str, dict[str, Any]]  # session, id, text, further fields

FIRST: Sequence[Turn] = (
    ("kitchen", "k1", "Priya, the walnut loaf bakes for fifty minutes at 200 degrees.", {"speaker": "Ana"}),
    ("kitchen", "k2", "I wrote that into notes/walnut-loaf.md and told the Lisbon bakery.", {"speaker": "Priya"}),
    ("kitchen", "k3", "Shall we fetch the flour on Thursday?", {"speaker": "Ana"}),
    ("kitchen", "k4", "My oven key lies under the blue pot.", {"speaker": "Ana", "acl": ["ana"]}),
    ("kitchen", "k0", "The ceiling fan is set to low.", {"speaker": "Ana"}),
    ("garden", "g1", "The tomatoes are watered at seven in the morning.", {"speaker": "Priya", "project": "garden"}),
    ("garden", "g2", "Nobody needs to know about the gnome.", {"speaker": "Priya", "project": "garden"}),
)
SECOND: Sequence[Turn] = (
    ("kitchen", "k1", "Priya, the walnut loaf bakes for sixty minutes at 190 degrees.", {"speaker": "Ana"}),
    *FIRST[1:3],
    ("kitchen", "k5", "Friday is fine, I decided to take the train to Lisbon.", {"speaker": "Priya"}),
    ("garden", "g3", "The tomatoes are watered at seven in the morning, yes.", {"project": "garden"}),
    ("kitchen", "k6", "The ceiling fan is set to high.", {"speaker": "Ana"}),
)


def make(root: Path) -> None:
    """Make five generations: commit, forgotten item, folded accesses, questions, second commit; then gc."""
    settings, encoder = Settings(), stub_encoder()
    paths.create_folders(root)
    with freeze_time():
        take_in(root, encoder, FIRST, 0)
        commit(root, encoder, settings)
        forget_row(root, id_of(root, "gnome"))
        event = {"item": id_of(root, "tomatoes"), "kind": "fetched", "at": (START + timedelta(hours=8)).timestamp()}
        paths.write_file(root / "events" / "2026-03-02-1-00000001.jsonl", orjson.dumps(event) + b"\n")
        touch(root, settings)
        expand_row(root, id_of(root, "flour"), ["when do we get the flour", "who buys flour"])
        take_in(root, encoder, SECOND, 1)
        commit(root, encoder, settings)
        collect_garbage(root, keep=3, grace=0.0, wait=1.0)
    for lock in writer.LOCKS.values():
        (root / lock).unlink(missing_ok=True)


def stub_encoder() -> Any:
    """Return an encoder whose vectors are hashes, with the methods a commit uses."""

    def passages(
        texts: Sequence[str], batch: int, progress: Any, languages: Sequence[str]
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        codes = [np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIM], np.uint8) for text in texts]
        vectors = np.array(codes, np.float32) - 127.5
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    spec = SimpleNamespace(fingerprint=16 * "0", name="none", dim=DIM)
    return SimpleNamespace(spec=spec, folder=Path("none"), passages=passages)


@contextmanager
def freeze_time() -> Iterator[None]:
    """Freeze names and clock; copy no encoder and train no router."""
    count = itertools.count(1)
    clock = SimpleNamespace(now=lambda zone: START + timedelta(days=1))
    with ExitStack() as stack:
        for target, name, value in (
            (manifests, "time", SimpleNamespace(strftime=lambda *_: "20260303090000", gmtime=lambda: None)),
            (manifests, "secrets", SimpleNamespace(token_hex=lambda n: f"{next(count):0{2 * n}x}")),
            (writer, "datetime", clock),
            (sys.modules["pipelines.ingest.commit"], "datetime", clock),
            (writer, "copy_encoder", lambda *_: ()),
            (sys.modules["pipelines.ingest.commit"], "load_router", lambda *_: "there is no encoder"),
            (sys.modules["pipelines.ingest.enrich"], "load_type_model", lambda *_: "there is no encoder"),
            # Format 3 began without these.
            (sys.modules["pipelines.ingest.enrich"], "_embed_facts", lambda *_: None),
            (sys.modules["pipelines.ingest.commit"], "_index_changes", lambda *_: ()),
        ):
            stack.enter_context(patch.object(target, name, value))
        yield


def take_in(root: Path, encoder: Any, turns: Sequence[Turn], day: int) -> None:
    """Accept and enrich one document."""
    lines = [
        {"session": session, "id": turn, "text": text, "ts": (START + timedelta(minutes=i)).isoformat(), **more}
        for i, (session, turn, text, more) in enumerate(turns)
    ]
    text = "".join(orjson.dumps({"project": "bakery", **line}).decode() + "\n" for line in lines)
    envelope = inbox.Envelope(
        document=inbox.name_document(text, "jsonl", None, ()),
        path=f"/home/ana/talks/day-{day}.jsonl",
        text=text,
        format="jsonl",
        project=None,
        acl=(),
        mtime=START,
        accepted=START + timedelta(days=day),
        redacted={},
        problems=(),
    )
    inbox.accept_envelope(root, envelope)
    enrich(root, envelope.document, encoder, EstimatedCounter(), Settings())  # type: ignore[arg-type]


def id_of(root: Path, word: str) -> str:
    """Return the id of the first live item whose text contains the word."""
    snapshot = Snapshot.open(root)
    entries = snapshot.text(np.flatnonzero(snapshot.alive))
    return str(next(entry["id"] for entry in entries if word in entry["text"]))


def forget_row(root: Path, identity: str) -> None:
    """Publish a generation in which an item of the only segment is forgotten."""
    with writer.acquire_lock(root, 1.0) as held:
        snapshot = Snapshot.open(root)
        manifest, row = snapshot.manifest, snapshot.find(identity)
        if manifest is None or row is None:
            raise StoreError(f"{root} holds no {identity}")
        new = writer.build_next(
            held,
            snapshot.name,
            manifest,
            deletes=(writer.write_deletes(root, manifest.segments[0].id, np.array([row], np.uint32)),),
            forgotten=writer.write_array(root, "forgotten", np.array([int(identity, 16)], np.uint64)),
            counts={**manifest.counts, "items": manifest.counts["items"] - 1},
        )
        writer.publish_generation(held, new)


def expand_row(root: Path, identity: str, asked: Sequence[str]) -> None:
    """Publish questions for one item of the only segment."""
    with writer.acquire_lock(root, 1.0) as held:
        snapshot = Snapshot.open(root)
        manifest, row = snapshot.manifest, snapshot.find(identity)
        if manifest is None or row is None:
            raise StoreError(f"{root} holds no {identity}")
        target = root / "indexes" / manifests.make_id()
        write_queries(target / KIND, np.array([row], np.uint32), [identity], [asked])
        files = manifests.describe_tree(root, target)
        index = Index(target.name, KIND, (manifest.segments[0].id,), files, {"model": "none", "fingerprint": "0"})
        writer.publish_generation(
            held, writer.build_next(held, snapshot.name, manifest, indexes=(*manifest.indexes, index))
        )


def break_all(whole: Path, target: Path) -> None:
    """Write every broken store as its difference from the whole one."""
    name = str(manifests.read_current(whole))
    manifest = manifests.load(whole, name)
    segment = f"segments/{manifest.segments[-1].id}"
    deletes = max(entry.file.path for entry in manifest.deletes)  # names count up: it came with this generation

    def overlay(variant: str, file: str, data: bytes | None, says: str, **more: bytes) -> None:
        """Replace a file by `data`; None removes it."""
        changed = {file: data, **more}
        folder = target / variant
        folder.mkdir(parents=True)
        for path, content in changed.items():
            if content is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        gone = [path for path, content in changed.items() if content is None]
        raw = {"remove": gone, "damaged": file, "says": says}
        (folder / "overlay.json").write_bytes(orjson.dumps(raw, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    def data(file: str) -> bytes:
        return (whole / file).read_bytes()

    codes, entity, text = (f"{segment}/{file}" for file in ("vectors.i8.npy", "mentions.entity.npy", "text.arrow"))
    overlay("truncated", codes, data(codes)[:-DIM], "is damaged: it has")
    overlay("checksum", entity, flip_byte(data(entity), -1), "is damaged: its sha256 is")
    overlay("missing", text, None, "is damaged: the file is missing")
    overlay("deletes", deletes, data(deletes)[:-2], "is damaged: it has")
    at = f"manifests/{name}"
    overlay("manifest", at, flip_byte(data(at), len(data(at)) // 2), "is damaged: its bytes do not match its name")
    later = orjson.dumps({"format": manifest.format + 1, "generation": manifest.generation + 1, "parent": name})
    newer = f"{manifest.generation + 1:08d}-{hashlib.sha256(later).hexdigest()[:16]}.json"
    overlay(
        "newer",
        f"manifests/{newer}",
        later,
        f"is of store format {manifest.format + 1}; this Helix knows formats up to {manifest.format}",
        CURRENT=f"{newer}\n".encode(),
    )


def flip_byte(data: bytes, at: int) -> bytes:
    """Flip one bit."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def main() -> None:
    """Write all stores, replacing their folder."""
    target = STORES / f"format-{manifests.FORMAT}"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "whole"
        make(root)
        golden = target / "golden.json"
        kept = golden.read_bytes() if golden.exists() else None
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(root, target / "whole")
        if kept:
            golden.write_bytes(kept)  # by hand: what a store holds is checked against it, never taken from it
    for folder, _, files in os.walk(target / "whole", topdown=False):
        if not files and not any(Path(folder).iterdir()):
            Path(folder).rmdir()  # git keeps none
    break_all(target / "whole", target)


if __name__ == "__main__":
    main()
