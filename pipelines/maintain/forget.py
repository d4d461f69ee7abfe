"""Forgetting: what is forgotten is gone from recall with the next generation, and then from every byte of the store.

Two phases. First a generation is published in which the items are deleted rows, and their ids are kept as a list of
what must never come back. Then every file that ever held them is rewritten without them or removed: segments and dense
indexes of any generation, envelopes, parts, document tables, access counts and events. A receipt lists each with its
hash before and after. `purges/` says what is under way, so that a kill at any step is made up for by the next writer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.deep import jobs
from helix.encoders.registry import sha256
from helix.errors import Damaged, StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.checked_arrays import map_npy
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.access_events import dump_access, read_access
from helix.snapshot.ledger.access_events import select as select_access
from helix.snapshot.manifest import File, Manifest, new_id
from helix.snapshot.replication import remote as sync
from helix.snapshot.segment.arrays import lookup
from helix.snapshot.segment.batch import digest
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.open import forgotten_keys, read_table
from helix.snapshot.verify import require_whole
from helix.types import U64
from helix.util.failpoints import failpoint
from pipelines.ingest.commit import counted, recounted
from pipelines.ingest.dedupe import live_sessions, open_base
from pipelines.maintain import replication as share
from pipelines.maintain.compact import Conflict, DamagedSegment, merge_segments
from pipelines.maintain.deletion_plan import Selection, ids_of, nothing_of, segments_of, select
from pipelines.maintain.residue import dump, kept_of
from pipelines.maintain.touch import touch

Say = Callable[[str], None]

_WAIT_FOR_BUILDERS = 1_800.0  # seconds


def forget(root: Path, selection: Selection, settings: Settings, say: Say | None = None) -> dict[str, Any]:
    """Forget and return the receipt. Blocks until the last file is gone.

    Raises:
        UsageError: nothing in the store is of that name.
        StoreError: the store cannot be written, or a merge that began before does not end.
    """
    asked = digest(selection.value)
    interrupted = [path.stem for path in _purges(root) if (_read(path) or {}).get("asked") == asked]
    resume(root, settings, say)
    found = select(root, selection, settings)
    if found.is_empty:
        if interrupted:  # this very command was killed before: it is done now
            return _read(root / "receipts" / f"{interrupted[-1]}.json") or {}
        raise nothing_of(selection)
    identity = new_id()
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
    return done or _read(root / "receipts" / f"{identity}.json") or {}  # another process may have been faster


def resume(root: Path, settings: Settings, say: Say | None = None) -> list[dict[str, Any]]:
    """Finish what an interrupted run began; the receipts."""
    done = [_run(root, path.stem, settings, say) for path in _purges(root)]
    return [receipt for receipt in done if receipt]


def _purges(root: Path) -> list[Path]:
    return sorted((root / "purges").glob("[0-9]*.json"))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError):
        raise StoreError(
            f"{path} is damaged: not JSON", "move it away, and forget the same again: what is gone already stays gone"
        ) from None


# ---------------------------------------------------------------- the work


def _save(root: Path, purge: dict[str, Any]) -> None:
    (root / "purges").mkdir(mode=0o700, exist_ok=True)
    paths.write_file(root / "purges" / f"{purge['id']}.json", orjson.dumps(purge))


def _run(root: Path, identity: str, settings: Settings, say: Say | None) -> dict[str, Any] | None:
    """Carry one purge through. None where another process is at it or has finished it."""
    with paths.told(root), _alone(root / "purges", identity):
        path = root / "purges" / f"{identity}.json"
        purge = _read(path)
        if purge is None:
            return None
        keys = np.sort(ids_of(purge["items"]))
        for pointer in writer.LOCKS:  # whether there is one is looked up under its lock: a reindex may just begin
            _delete_rows(root, keys, settings, pointer)
        _start_over(root, keys, purge, settings)
        failpoint("forget.deleted")
        _wait_for(paths.builders(root), say)
        _note(root, purge, keys)
        failpoint("forget.planned")
        for pointer in writer.LOCKS:
            leave_out(root, keys, settings, pointer, say, purge["segments"])
        failpoint("forget.rewritten")
        _settle(root, say)
        left_out = {document: _left_out(purge, document) for document in purge["documents"]}
        with writer.lock(root, settings.lock_wait):  # nobody takes away what is read
            kept = kept_of(root, purge["documents"], left_out, settings)
        for document, records in kept.items():
            _forget_document(root, document, dump(records))
        jobs.empty(root)
        failpoint("forget.envelopes")
        if settings.share:
            _note_share(root, purge, settings)
            share.forget(root, settings, purge["documents"])
        touch(root, settings)
        with writer.lock(root, settings.lock_wait):
            scrub_events(root, set(purge["items"]))
        for pointer in writer.LOCKS:
            _publish_sidecars(root, keys, set(purge["documents"]), settings, pointer)
        failpoint("forget.published")
        _note(root, purge, keys)  # what another process made meanwhile of what it had read before
        with writer.lock(root, settings.lock_wait, "NEXT"), writer.lock(root, settings.lock_wait):
            _remove(root, [entry["path"] for entry in purge["files"]], keys, set(purge["documents"]))
        failpoint("forget.removed")
        if settings.share:
            _note_share(root, purge, settings)
            share.publish(root, settings, keep=1)
            left = share.holding(sync.connect(settings.share), (), {entry["before"] for entry in purge["files"]})
            purge["share"] = sorted({*purge["share"]} - {*left})  # other items have files of the same bytes
        receipt = _receipt(root, purge)
        paths.write_file(root / "receipts" / f"{identity}.json", orjson.dumps(receipt, option=orjson.OPT_INDENT_2))
        failpoint("forget.receipt")
        path.unlink(missing_ok=True)
        return receipt


@contextlib.contextmanager
def _alone(folder: Path, identity: str) -> Iterator[None]:
    """One process a purge."""
    handle = os.open(folder / f"{identity}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if not (folder / f"{identity}.json").exists():  # else whoever waits for the lock goes on with the purge
            (folder / f"{identity}.lock").unlink(missing_ok=True)
        os.close(handle)


def _note(root: Path, purge: dict[str, Any], keys: U64) -> None:
    """Write down which files hold any of it, for the receipt and for whoever finishes this."""
    known = {entry["path"] for entry in purge["files"]}
    affected = _affected(root, keys, purge)
    purge["files"] += [{"path": file, "before": digest} for file, digest in affected if file not in known]
    _save(root, purge)


def _note_share(root: Path, purge: dict[str, Any], settings: Settings) -> None:
    """The same of the objects where machines without a common folder meet."""
    digests = {entry["before"] for entry in purge["files"]}
    found = share.holding(sync.connect(settings.share), purge["documents"], digests)
    purge["share"] = sorted({*purge.get("share", ()), *found})
    _save(root, purge)


def _delete_rows(root: Path, keys: U64, settings: Settings, pointer: str) -> None:
    """Phase one: the next generation no longer shows the items, and never takes them in again."""
    with writer.lock(root, settings.lock_wait, pointer) as held:
        base = open_base(root, pointer)
        if base.manifest is None or base.name is None:
            return
        lists = [entry.file for entry in base.manifest.deletes]
        require_whole(root, [*lists, base.manifest.forgotten] if base.manifest.forgotten else lists)
        forgotten = np.union1d(base.forgotten, keys)
        deletes = {entry.segment: entry for entry in base.manifest.deletes}
        after, gone, touched = [], 0, [np.empty(0, np.uint64)]
        for segment, live in zip(base.opened, base.alive, strict=True):
            row = lookup(segment["ids.key"], segment["ids.row"], keys)
            row = row[row >= 0]
            row = row[live[row]]
            left = live.copy()
            left[row] = False
            after.append(left)
            if len(row):
                deletes[segment.id] = writer.write_deletes(root, segment.id, np.flatnonzero(~left).astype(np.uint32))
                touched.append(segment.column("session")[row])
                gone += len(row)
        if not gone and len(forgotten) == len(forgotten_keys(root, base.manifest)):
            return
        sessions = np.unique(np.concatenate(touched))
        fewer = len(sessions) - int(live_sessions(base.opened, after, sessions).sum())
        counts = {**base.manifest.counts, "items": base.manifest.counts["items"] - gone}
        counts["sessions"] -= fewer
        new = writer.following(
            held,
            base.name,
            base.manifest,
            coverage=recounted(base.manifest.coverage, counts["items"]),
            deletes=tuple(deletes.values()),
            forgotten=writer.write_array(root, "forgotten", forgotten),
            counts=counts,
        )
        told = {**new.coverage, **counted(root, new, settings)}
        writer.publish(held, dataclasses.replace(new, coverage=told))


def _start_over(root: Path, keys: U64, purge: dict[str, Any], settings: Settings) -> None:
    """Give up a lineage under way that cuts one of the turns otherwise: other items of it hold the same words.

    Likewise one that has an older version of an item and not yet the newest.
    """
    with writer.lock(root, settings.lock_wait, "NEXT"):
        name = manifests.current_name(root, "NEXT")
        if name is None:
            return
        turns = {turn for folder in segments_of(root) if _holds(folder, keys) for turn in _turns(folder, keys, True)}
        for segment in manifests.load(root, name).segments:
            if segment.id in purge["segments"] or turns & set(_turns(root / "segments" / segment.id, keys, False)):
                (root / "NEXT").unlink()  # a running reindex begins anew
                paths.sync_folder(root)
                return


def _turns(folder: Path, keys: U64, of: bool) -> list[tuple[str, ...]]:
    """Source, session and turns of the items of a segment that are among the keys, or that are not."""
    table = read_table(folder / "items.parquet", columns=["id", "source", "session", "turns"])
    chosen = table.filter(pa.array(np.isin(ids_of(table["id"].to_pylist()), keys) == of)).to_pylist()
    return [(row["source"], row["session"], *row["turns"]) for row in chosen]


def _wait_for(builders: Sequence[Path], say: Say | None) -> None:
    """A merge that began before the rows were deleted still carries them: let it end."""
    deadline = time.monotonic() + _WAIT_FOR_BUILDERS
    said = False
    while any(paths.is_held(path / "lock") for path in builders):
        if time.monotonic() > deadline:
            raise StoreError(
                "a merge that began before does not end",
                "the items are gone from recall already; stop the other process and run 'helix compact' to finish",
            )
        if say and not said:
            say("waiting for a merge to end")
            said = True
        time.sleep(0.05)


def _affected(root: Path, keys: U64, purge: dict[str, Any]) -> list[tuple[str, str]]:
    """(path, sha256) of every file that holds any of it now."""
    documents = set(purge["documents"])
    hashes = _recorded(root)
    found: list[Path] = []
    # Another pipeline cuts a turn into other items; so of an older lineage goes whatever the documents gave it.
    current = _current(root)
    segments = {
        folder.name
        for folder in segments_of(root)
        if folder.name in purge["segments"]
        or _holds(folder, keys)
        or (folder.name not in current and _is_of(folder, documents))
    }
    for name in segments:
        found += sorted(path for path in (root / "segments" / name).rglob("*") if path.is_file())
    named = set()
    for manifest in _manifests(root).values():
        for index in manifest.indexes:
            named.add(index.id)
            if segments & set(index.covers):
                found += [root / file.path for file in index.files]
        found += [root / entry.file.path for entry in manifest.deletes if entry.segment in segments]
    for folder in (root / "indexes").glob("[0-9]*"):
        if folder.name not in named:  # left by a kill: whose vectors it holds cannot be told
            found += sorted(path for path in folder.rglob("*") if path.is_file())
    for path in (root / "documents").glob("[0-9]*.parquet"):
        if pc.any(_with_path(read_table(path, columns=["document", "path"]), documents)).as_py():
            found.append(path)
    for path in (root / "access").glob("[0-9]*.npz"):
        if np.isin(read_access(path).key, keys).any():
            found.append(path)
    for document in documents:
        found += [root / "inbox" / document] if _in_envelope(root, document, _left_out(purge, document)) else []
        found.append(root / "dead" / f"{document}.json")
        for part in (root / "parts").glob(f"{document}-*"):
            found += sorted(path for path in part.rglob("*") if path.is_file())
    items = {f"{key:016x}".encode() for key in keys.tolist()}
    for path in (root / "events").glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError):  # its process may remove an empty one at any moment
            data = path.read_bytes()
            if any(item in data for item in items):
                found.append(path)
    return [
        (str(path.relative_to(root)), hashes.get(str(path.relative_to(root))) or sha256(path))
        for path in dict.fromkeys(found)
        if path.is_file()
    ]


def _with_path(table: pa.Table, documents: set[str]) -> Any:
    """bool[n]: rows of a document table about one of these, which still say where it came from."""
    hit = pc.is_in(table["document"], pa.array(sorted(documents), pa.string()))
    return pc.and_(hit, pc.not_equal(table["path"], ""))


def _left_out(purge: dict[str, Any], document: str) -> set[str]:
    """Ids of the items that the document, as far as it is not published, has to lose."""
    return {*purge["items"], *purge["versions"].get(document, ())}


def _in_envelope(root: Path, document: str, ids: set[str]) -> bool:
    """Whether a document's envelope holds any of the items."""
    try:
        envelope = ledger.read(root, document)
    except StoreError:  # missing, or damaged and to be replaced all the same
        return True
    return not envelope.forgotten or any(f'"{item}"' in envelope.text for item in ids)


def _holds(folder: Path, keys: U64) -> bool:
    found = map_npy(folder / "ids.key.npy", ARRAYS["ids.key"])
    return bool((lookup(found, np.arange(len(found), dtype=np.uint32), keys) >= 0).any())


def _current(root: Path) -> set[str]:
    """The segments of CURRENT and NEXT."""
    names = [name for pointer in writer.LOCKS if (name := manifests.current_name(root, pointer))]
    return {segment.id for name in names for segment in manifests.load(root, name).segments}


def _is_of(folder: Path, documents: set[str]) -> bool:
    table = read_table(folder / "items.parquet", columns=["document"])
    return bool(pc.any(pc.is_in(table["document"], pa.array(sorted(documents), pa.string()))).as_py())


def _manifests(root: Path) -> dict[str, Manifest]:
    """Every manifest on disk that can be read."""
    found: dict[str, Manifest] = {}
    for path in (root / "manifests").glob("[0-9]*.json"):
        try:
            found[path.name] = manifests.parse(path.name, path.read_bytes())
        except StoreError:
            continue
    return found


def _recorded(root: Path) -> dict[str, str]:
    return {file.path: file.sha256 for manifest in _manifests(root).values() for file in manifest.files()}


def leave_out(
    root: Path, keys: U64, settings: Settings, pointer: str, say: Say | None = None, segments: Sequence[str] = ()
) -> None:
    """Phase two: every segment of the generation that holds any of it is merged with itself, deleted rows left out.

    Args:
        segments: others that have to be.

    Raises:
        Damaged: a segment that holds any of it is; all the others were rewritten.
    """
    damaged: dict[str, DamagedSegment] = {}
    while True:
        _delete_rows(root, keys, settings, pointer)  # of a reindex that began meanwhile
        name = manifests.current_name(root, pointer)
        manifest = manifests.load(root, name, write=True) if name else None
        held = [
            segment
            for segment in (manifest.segments if manifest else ())
            if segment.id not in damaged and (segment.id in segments or _holds(root / "segments" / segment.id, keys))
        ]
        if manifest is None or not held:
            break
        if say:
            say(f"rewriting a segment of {held[0].rows:,} items")
        try:
            merge_segments(root, [held[0].id], settings, pointer)
        except Conflict:  # another merge was faster: look again
            continue
        except DamagedSegment as error:
            damaged[error.segment] = error
    for found in damaged.values():
        raise Damaged(
            f"{found.what}; it still holds what is to be forgotten, which no recall finds any more",
            "restore it from a backup or another copy of the store ('helix pull'), or make all of it anew ('helix "
            "reindex'); the next 'helix ingest' or 'helix compact' then finishes the deletion",
        )


def _settle(root: Path, say: Say | None) -> None:
    """What others are writing this very moment may hold it, too: let it become a file, or remove what a kill left."""
    folders = (root, *(root / name for name in paths.FOLDERS))
    left = [path for folder in folders for path in folder.glob(f"{paths.TEMPORARY}*")]
    if left and say:
        say(f"waiting for {len(left)} unfinished files")
    while left:
        for path in left:
            if paths.age(path) > paths.STALE:
                paths.remove(path)
        left = [path for path in left if path.exists()]
        time.sleep(0.02)


def _forget_document(root: Path, document: str, kept: str) -> None:
    if (root / "inbox" / document).exists():
        ledger.forget(root, document, kept)
    for part in (root / "parts").glob(f"{document}-*"):  # after the envelope, or it might be made again
        paths.remove(part)
    # What was said when it failed may quote it.
    (root / "tries" / document).unlink(missing_ok=True)
    if kept and (root / "dead" / f"{document}.json").exists():  # what is left stays set aside until it is offered again
        ledger.give_up(root, document, "set aside before a part of it was forgotten")
    else:  # with an envelope that is empty, it will now get through
        (root / "dead" / f"{document}.json").unlink(missing_ok=True)


def drop_dead(root: Path, document: str) -> None:
    """Take the text of a document away that was given up. Its name stays: it counts as taken in, with nothing in it."""
    _forget_document(root, document, "")


def scrub_events(root: Path, items: set[str]) -> None:
    """Blank the lines about these items. In place: another process may be appending to the same file."""
    for path in (root / "events").glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError), path.open("r+b", buffering=0) as file:
            at = 0
            for line in file.read().splitlines(keepends=True):
                if any(item.encode() in line for item in items):
                    os.pwrite(file.fileno(), b" " * (len(line) - line.endswith(b"\n")), at)
                at += len(line)
            os.fsync(file.fileno())


def _publish_sidecars(root: Path, keys: U64, documents: set[str], settings: Settings, pointer: str) -> None:
    """Document tables without the paths, access counts without the items."""
    with writer.lock(root, settings.lock_wait, pointer) as held:
        name = manifests.current_name(root, pointer)
        if name is None:
            return
        manifest = manifests.load(root, name, write=True)
        files = [_without_paths(root, file, documents) for file in manifest.documents]
        access = _without(root, manifest.access, keys)
        if tuple(files) != manifest.documents or access != manifest.access:
            writer.publish(held, writer.following(held, name, manifest, documents=tuple(files), access=access))


def _without_paths(root: Path, file: File, documents: set[str]) -> File:
    table = read_table(root / file.path)
    shown = _with_path(table, documents)
    if not pc.any(shown).as_py():
        return file
    require_whole(root, [file])
    blank = pc.if_else(shown, "", table["path"])
    return writer.write_documents(root, table.set_column(table.schema.get_field_index("path"), "path", blank))


def _without(root: Path, file: File | None, keys: U64) -> File | None:
    if file is None:
        return None
    require_whole(root, [file])
    known = read_access(root / file.path)
    keep = ~np.isin(known.key, keys)
    if keep.all():
        return file
    path = root / "access" / f"{new_id()}.npz"
    paths.write_file(path, dump_access(select_access(known, keep)))
    return manifests.describe(root, path, int(keep.sum()))


def _remove(root: Path, files: Sequence[str], keys: U64, documents: set[str]) -> None:
    """Delete what held it and is no longer named by what is current, and older generations that name it."""
    current = {name for pointer in writer.LOCKS if (name := manifests.current_name(root, pointer))}
    all_manifests = _manifests(root)
    named = {file.path for name in current for file in all_manifests[name].files()}
    owned = ("segments/", "indexes/", "deletes/", "documents/", "access/")
    gone = {path for path in files if path.startswith(owned) and path not in named}
    # Earlier lists of what is forgotten hold nothing but ids; with the generations that named them they are of no use.
    lists = {str(path.relative_to(root)) for path in (root / "forgotten").glob("[0-9]*.npy")}
    kept = [m for name, m in all_manifests.items() if name in current or not gone & {file.path for file in m.files()}]
    gone |= lists - {file.path for manifest in kept for file in manifest.files()}
    for name, manifest in all_manifests.items():
        if name not in current and gone & {file.path for file in manifest.files()}:
            (root / "manifests" / name).unlink(missing_ok=True)
    failpoint("forget.manifests")
    for path in sorted(gone):
        parts = Path(path).parts
        paths.remove(root / parts[0] / parts[1])
    for folder in owned:
        if (root / folder).is_dir():
            paths.sync_folder(root / folder)


def _receipt(root: Path, purge: dict[str, Any]) -> dict[str, Any]:
    """What was done, file by file: hash before, hash now or null where it is gone."""
    files = []
    for entry in purge["files"]:
        path = root / entry["path"]
        files.append({**entry, "after": sha256(path) if path.is_file() else None})
    actions = Counter("removed" if entry["after"] is None else "rewritten" for entry in files)
    name, manifest = ledger.current(root)
    return {
        "id": purge["id"],
        "kind": purge["kind"],
        "began": purge["began"],
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": purge["items"],
        "documents": purge["documents"],
        "snapshot": manifest.generation if manifest else 0,
        "manifest": name,
        "removed": actions["removed"],
        "rewritten": actions["rewritten"],
        "files": files,
        **({"share": _there(purge["share"])} if "share" in purge else {}),
    }


def _there(names: Sequence[str]) -> list[dict[str, str]]:
    """What became of each object of the share: an envelope is replaced, all else goes."""
    return [{"path": name, "action": "replaced" if name.startswith("inbox/") else "removed"} for name in names]
