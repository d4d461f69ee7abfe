"""Forgetting: recall loses the items with the next generation, and then every byte of the store does.

The first phase publishes a generation in which the items are deleted rows and their ids are forgotten for good. The
second phase rewrites or removes every file that held them: segments and indexes of any generation, envelopes, parts,
document tables, access counts and events. A receipt lists each file with its hash before and after. `purges/` records
the unfinished deletions, which the next writer completes after a kill at any step.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.deep import jobs
from helix.errors import Damaged, StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.checked_arrays import REMEDY
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.access_events import dump_access, read_access, select_access
from helix.snapshot.manifest import File, make_id
from helix.snapshot.paths import hold_lock
from helix.snapshot.replication.object_store import connect
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.open import read_table
from helix.snapshot.verify import require_whole
from helix.types import U64
from helix.util.failpoints import failpoint
from helix.util.hashing import hash_file
from pipelines.ingest.forgotten import list_purges, read_purge
from pipelines.maintain import deletion_steps
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection, list_segments, parse_ids, plan_deletion, refuse_nothing
from pipelines.maintain.replication import primary
from pipelines.maintain.touch import touch

Say = Callable[[str], None]

_WAIT_FOR_BUILDERS: Final = 1_800.0  # seconds


def forget(root: Path, selection: Selection, settings: Settings, say: Say | None = None) -> dict[str, Any]:
    """Forget the selection and return the receipt. Returns once the last file is gone.

    Raises:
        UsageError: the store holds nothing of that name.
        StoreError: the store cannot be written, or an earlier merge does not end.
    """
    asked = hash_parts(selection.value)
    interrupted = [path.stem for path in list_purges(root) if (read_purge(path) or {}).get("asked") == asked]
    resume(root, settings, say)
    found = plan_deletion(root, selection, settings)
    if found.is_empty:
        if interrupted:  # a kill interrupted this very command: it is finished now
            return read_purge(root / "receipts" / f"{interrupted[-1]}.json") or {}
        raise refuse_nothing(root, selection)
    identity = make_id()
    purge = {
        "id": identity,
        "kind": "items" if selection.items else "session" if selection.session is not None else "project",
        "asked": asked,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": [f"{key:016x}" for key in found.keys.tolist()],
        "documents": sorted(found.documents),
        "versions": {document: sorted(ids) for document, ids in sorted(found.versions.items())},
        "segments": sorted(found.segments),
        "files": [],
    }
    _save(root, purge)
    failpoint("forget.purge")
    done = _run(root, identity, settings, say)
    return done or read_purge(root / "receipts" / f"{identity}.json") or {}  # another process may have been faster


def resume(root: Path, settings: Settings, say: Say | None = None) -> list[dict[str, Any]]:
    """Finish interrupted deletions; return their receipts."""
    done = [_run(root, path.stem, settings, say) for path in list_purges(root)]
    return [receipt for receipt in done if receipt]


def _save(root: Path, purge: dict[str, Any]) -> None:
    (root / "purges").mkdir(mode=0o700, exist_ok=True)
    paths.write_file(root / "purges" / f"{purge['id']}.json", orjson.dumps(purge))


def _run(root: Path, identity: str, settings: Settings, say: Say | None) -> dict[str, Any] | None:
    """Carry out one deletion; return None where another process has finished it."""
    with paths.name_path_in_errors(root), _claim(root / "purges", identity):
        path = root / "purges" / f"{identity}.json"
        purge = read_purge(path)
        if purge is None:
            return None
        keys, documents = np.sort(parse_ids(purge["items"])), set(purge["documents"])
        for pointer in writer.LOCKS:  # each under its lock: a reindex may begin at any time
            deletion_steps.delete_rows(root, keys, settings, pointer)
        _abandon_reindex(root, keys, purge, settings)
        failpoint("forget.deleted")
        _wait_for_builders(root, say)
        _note_files(root, purge, keys)
        failpoint("forget.planned")
        for pointer in writer.LOCKS:
            deletion_steps.drop_rows(root, keys, settings, pointer, say, purge["segments"])
        failpoint("forget.rewritten")
        _wait_for_temporaries(root, say)
        lost = {document: deletion_steps.list_lost_items(purge, document) for document in purge["documents"]}
        with writer.acquire_lock(root, settings.lock_wait):  # no file is removed while it is read
            residue = deletion_steps.read_residue(root, purge["documents"], lost, settings)
        for document, records in residue.items():
            _forget_document(root, document, deletion_steps.dump_records(records))
        jobs.empty(root)
        failpoint("forget.envelopes")
        if settings.share:
            _note_share(root, purge, settings)
            primary.forget(root, settings, purge["documents"])
        touch(root, settings)
        with writer.acquire_lock(root, settings.lock_wait):
            scrub_events(root, set(purge["items"]))
        for pointer in writer.LOCKS:
            _publish_sidecars(root, keys, documents, settings, pointer)
        failpoint("forget.published")
        _note_files(root, purge, keys)  # again: other processes may have written what they read before
        with writer.acquire_lock(root, settings.lock_wait, "NEXT"), writer.acquire_lock(root, settings.lock_wait):
            _remove_files(root, [entry["path"] for entry in purge["files"]])
        failpoint("forget.removed")
        if settings.share:
            _note_share(root, purge, settings)
            primary.publish(root, settings, keep=1)
            left = primary.find_objects(connect(settings.share), (), {entry["before"] for entry in purge["files"]})
            purge["share"] = sorted({*purge["share"]} - {*left})  # files of other items with equal bytes
        receipt = _make_receipt(root, purge)
        paths.write_file(root / "receipts" / f"{identity}.json", orjson.dumps(receipt, option=orjson.OPT_INDENT_2))
        failpoint("forget.receipt")
        path.unlink(missing_ok=True)
        return receipt


@contextlib.contextmanager
def _claim(folder: Path, identity: str) -> Iterator[None]:
    """Carry out a deletion in one process at a time."""
    path = folder / f"{identity}.lock"
    with hold_lock(path):
        try:
            yield
        finally:
            if not path.with_suffix(".json").exists():  # otherwise a waiting process continues with it
                path.unlink(missing_ok=True)


def _note_files(root: Path, purge: dict[str, Any], keys: U64) -> None:
    """Record the files that hold anything of it, for the receipt and for a resumed run."""
    known = {entry["path"] for entry in purge["files"]}
    affected = deletion_steps.find_affected(root, keys, purge)
    purge["files"] += [{"path": file, "before": digest} for file, digest in affected if file not in known]
    _save(root, purge)


def _note_share(root: Path, purge: dict[str, Any], settings: Settings) -> None:
    """Record the objects of the share that hold anything of it."""
    digests = {entry["before"] for entry in purge["files"]}
    found = primary.find_objects(connect(settings.share), purge["documents"], digests)
    purge["share"] = sorted({*purge.get("share", ()), *found})
    _save(root, purge)


def _abandon_reindex(root: Path, keys: U64, purge: dict[str, Any], settings: Settings) -> None:
    """Abandon a lineage being built that holds the same words in other items, or older versions of the items."""
    with writer.acquire_lock(root, settings.lock_wait, "NEXT"):
        name = manifests.read_current(root, "NEXT")
        if name is None:
            return
        folders = [folder for folder in list_segments(root) if deletion_steps.has_rows(folder, keys)]
        turns = {turn for folder in folders for turn in _read_turns(folder, keys, True)}
        for segment in manifests.load(root, name).segments:
            folder = root / "segments" / segment.id
            if segment.id in purge["segments"] or not turns.isdisjoint(_read_turns(folder, keys, False)):
                (root / "NEXT").unlink()  # a running reindex starts over
                paths.sync_folder(root)
                return


def _read_turns(folder: Path, keys: U64, inside: bool) -> list[tuple[str, ...]]:
    """Return (source, session, *turns) of a segment's items that are among the keys, or of those that are not."""
    table = read_table(folder / "items.parquet", columns=["id", "source", "session", "turns"])
    chosen = table.filter(pa.array(np.isin(parse_ids(table["id"].to_pylist()), keys) == inside)).to_pylist()
    return [(row["source"], row["session"], *row["turns"]) for row in chosen]


def _wait_for_builders(root: Path, say: Say | None) -> None:
    """Wait for merges that began before the rows were deleted: they still carry them."""
    builders = paths.list_builders(root)
    deadline = time.monotonic() + _WAIT_FOR_BUILDERS
    waiting = False
    while any(paths.is_held(path / "lock") for path in builders):
        if time.monotonic() > deadline:
            raise StoreError(
                "a merge that began before does not end",
                "recall no longer finds the items; stop the other process and run 'helix compact' to finish",
            )
        if say and not waiting:
            say("waiting for a merge to end")
            waiting = True
        time.sleep(0.05)


def _wait_for_temporaries(root: Path, say: Say | None) -> None:
    """Wait until unfinished files, which may hold the items, are complete; remove those a kill left."""
    folders = (root, *(root / name for name in paths.FOLDERS))
    left = [path for folder in folders for path in folder.glob(f"{paths.TEMPORARY}*")]
    if left and say:
        say(f"waiting for {len(left)} unfinished files")
    while left:
        for path in left:
            if paths.measure_age(path) > paths.STALE:
                paths.remove_path(path)
        left = [path for path in left if path.exists()]
        time.sleep(0.02)


def _forget_document(root: Path, document: str, residue: str) -> None:
    if (root / "inbox" / document).exists():
        inbox.forget_text(root, document, residue)
    for part in (root / "parts").glob(f"{document}-*"):  # after the envelope, or it might be made again
        paths.remove_path(part)
    (root / "tries" / document).unlink(missing_ok=True)  # its error may quote the text
    if residue and (root / "dead" / f"{document}.json").exists():  # the rest stays set aside until it is offered again
        inbox.give_up(root, document, "set aside before a part of it was forgotten")
    else:  # an empty envelope can be enriched
        (root / "dead" / f"{document}.json").unlink(missing_ok=True)


def drop_dead(root: Path, document: str) -> None:
    """Remove the text of a document that was given up. It counts as ingested, with no items."""
    _forget_document(root, document, "")


def scrub_events(root: Path, items: set[str]) -> None:
    """Blank the event lines about the items, in place: another process may append to the same file."""
    for path in (root / "events").glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError), path.open("r+b", buffering=0) as file:
            at = 0
            for line in file.read().splitlines(keepends=True):
                if any(item.encode() in line for item in items):
                    os.pwrite(file.fileno(), b" " * (len(line) - line.endswith(b"\n")), at)
                at += len(line)
            os.fsync(file.fileno())


def _publish_sidecars(root: Path, keys: U64, documents: set[str], settings: Settings, pointer: str) -> None:
    """Publish document tables without the documents' paths, and access counts without the items."""
    with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
        name = manifests.read_current(root, pointer)
        if name is None:
            return
        manifest = manifests.load(root, name, write=True)
        files = tuple(_blank_paths(root, file, documents) for file in manifest.documents)
        access = _drop_access(root, manifest.access, keys)
        if files != manifest.documents or access != manifest.access:
            writer.publish_generation(held, writer.build_next(held, name, manifest, documents=files, access=access))


def _blank_paths(root: Path, file: File, documents: set[str]) -> File:
    table = read_table(root / file.path)
    hit = deletion_steps.match_paths(table, documents)
    if not pc.any(hit).as_py():
        return file
    require_whole(root, [file])
    blank = pc.if_else(hit, "", table["path"])
    return writer.write_documents(root, table.set_column(table.schema.get_field_index("path"), "path", blank))


def _drop_access(root: Path, file: File | None, keys: U64) -> File | None:
    if file is None:
        return None
    require_whole(root, [file])
    known = read_access(root / file.path)
    left = ~np.isin(known.key, keys)
    if left.all():
        return file
    path = root / "access" / f"{make_id()}.npz"
    paths.write_file(path, dump_access(select_access(known, left)))
    return manifests.describe_file(root, path, int(left.sum()))


def _remove_files(root: Path, files: Sequence[str]) -> None:
    """Remove affected files that the current generations do not name, and older generations that name them."""
    current = {name for pointer in writer.LOCKS if (name := manifests.read_current(root, pointer))}
    named = {
        name: {file.path for file in manifest.files()} for name, manifest in deletion_steps.load_manifests(root).items()
    }
    in_use = {path for name in current for path in named[name]}
    owned = ("segments/", "indexes/", "deletes/", "documents/", "access/")
    gone = {path for path in files if path.startswith(owned)} - in_use
    obsolete = {name for name, paths_of in named.items() if name not in current and not gone.isdisjoint(paths_of)}
    # Lists of forgotten ids go with the generations that named them.
    lists = {str(path.relative_to(root)) for path in (root / "forgotten").glob("[0-9]*.npy")}
    gone |= lists - {path for name in named.keys() - obsolete for path in named[name]}
    obsolete = {name for name, paths_of in named.items() if name not in current and not gone.isdisjoint(paths_of)}
    for name in obsolete:
        (root / "manifests" / name).unlink(missing_ok=True)
    failpoint("forget.manifests")
    for path in sorted(gone):
        parts = Path(path).parts
        paths.remove_path(root / parts[0] / parts[1])
    for folder in owned:
        if (root / folder).is_dir():
            paths.sync_folder(root / folder)


def _make_receipt(root: Path, purge: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome, file by file: hash before, and hash after or null for a removed file."""
    files = []
    for entry in purge["files"]:
        path = root / entry["path"]
        files.append({**entry, "after": hash_file(path) if path.is_file() else None})
    actions = Counter("removed" if entry["after"] is None else "rewritten" for entry in files)
    name, manifest = inbox.load_current(root)
    # The share replaces an envelope and removes every other object.
    objects = [
        {"path": name, "action": "replaced" if name.startswith("inbox/") else "removed"}
        for name in purge.get("share", ())
    ]
    return {
        **{key: purge[key] for key in ("id", "kind", "began")},
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": purge["items"],
        "documents": purge["documents"],
        "snapshot": manifest.generation if manifest else 0,
        "manifest": name,
        "removed": actions["removed"],
        "rewritten": actions["rewritten"],
        "files": files,
        **({"share": objects} if "share" in purge else {}),
    }


def tidy(root: Path, settings: Settings) -> None:
    """Merge segments by the policy, remove files no generation needs, and finish interrupted deletions.

    Raises:
        StoreError: something is damaged; the rest was done.
    """
    done = compact(root, settings)
    if done.merged:
        collect_garbage(root, settings.keep_generations, settings.gc_grace, settings.lock_wait)
    resume(root, settings)
    if done.damaged:
        raise Damaged(f"{root}: {done.damaged[0]}", REMEDY)
