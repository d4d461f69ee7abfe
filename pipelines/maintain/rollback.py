"""Rolling back: a new generation with the content of an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from helix.errors import NewerStore, StoreError, UsageError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import File, Lineage, Manifest, make_id
from helix.snapshot.paths import TEMPORARY
from helix.snapshot.segment.open import check_files
from helix.util.failpoints import failpoint

CONTENT: Final = ("lineage", "segments", "deletes", "indexes", "documents", "encoder", "coverage", "counts")
"""Fields of a manifest that another generation takes over; forgotten keys always stay those of CURRENT."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The outcome: `generation` has the content of `to`; `set_aside` lists the documents ingested since."""

    generation: int
    to: int
    set_aside: tuple[str, ...]


def rollback(root: Path, settings: Settings, to: int | None = None) -> RolledBack:
    """Publish a new generation with the content of an earlier one.

    By default that is the newest generation with other content than the current one; merges and folds of access events
    do not change content. If files of the current generation are damaged, it is the one before.

    Documents ingested since are set aside (`dead/`), or the next ingest would publish them again; offering a document
    again ingests it again. Forgotten items stay forgotten.

    Raises:
        UsageError: there is no such generation any more.
        StoreError: its files are damaged, or another writer holds the lock.
    """
    with writer.acquire_lock(root, settings.lock_wait) as held:
        history = manifests.list_generations(root)
        if not history:
            raise StoreError(f"nothing was published to {root} yet", "ingest something first")
        name, now = history[0]
        earlier = {manifest.generation: manifest for _, manifest in history[1:]}
        number = to if to is not None else _choose_earlier(root, now, earlier)
        if number not in earlier:
            numbers = ", ".join(map(str, sorted(earlier))) or "none"
            remedy = f"there are: {numbers} (the current is {now.generation})"
            raise UsageError(f"no generation {number} to return to", remedy)
        chosen = earlier[number]
        counted = now if now.access is None or _is_whole(root, [now.access]) else chosen
        content = {field: getattr(chosen, field) for field in CONTENT}
        new = writer.build_next(held, name, now, **content, access=counted.access, watermarks=counted.watermarks)
        check_files(root, new.files())
        returning = inbox.list_done(root, chosen)
        since = sorted(_list_documents(root, now) - returning)
        for document in since:  # before publishing: a kill here loses nothing
            if (root / "inbox" / document).exists():
                inbox.give_up(root, document, f"{inbox.ROLLED_BACK} {now.generation} to {number}")
        failpoint("rollback.set_aside")
        (root / "NEXT").unlink(missing_ok=True)  # a lineage being built holds newer documents: it starts over
        writer.publish_generation(held, new)
        for document in returning & inbox.list_dead(root).keys():  # set aside by a rollback that this one undoes
            inbox.revive_document(root, document)
        return RolledBack(new.generation, number, tuple(since))


def mend(root: Path, settings: Settings) -> RolledBack | None:
    """Publish the content of the newest whole generation if CURRENT, or the manifest it names, is damaged.

    Generations of a running reindex do not count. Of several lineages, the one with the most documents counts: an
    abandoned reindex has fewer. Nothing is set aside, since the documents ingested since are unknown: the next ingest
    publishes them again.

    Returns:
        None if CURRENT is whole.

    Raises:
        StoreError: there is no store, no generation is whole, or another writer holds the lock.
    """
    if _find_fault(root) is None:
        return None
    with writer.acquire_lock(root, settings.lock_wait, mend=True) as held:
        if (fault := _find_fault(root)) is None:  # another process was faster
            return None
        for name, manifest in _list_candidates(root):
            if _is_whole(root, manifest.files()):
                if (root / "CURRENT").is_dir():  # no rename replaces a folder
                    (root / "CURRENT").rename(root / f"{TEMPORARY}{make_id()}")  # the next writer sweeps it
                writer.write_pointer(root, name)
                failpoint("mend.pointed")
                # Above every number: unreadable generations are superseded too.
                number = max(manifests.parse_generation(path) for path in manifests.list_manifests(root)) + 1
                new = replace(writer.build_next(held, name, manifest), generation=number)
                writer.publish_generation(held, new)
                return RolledBack(number, manifest.generation, ())
    remedy = "no generation is whole: restore the store from a backup, or 'helix pull' a copy of it"
    raise StoreError(fault.what, remedy)


def list_generations(root: Path) -> list[tuple[str, Manifest]]:
    """List the generations to return to, newest first: the parents of CURRENT, or all where it is damaged."""
    return _list_candidates(root) if _find_fault(root) else manifests.list_generations(root)


def _find_fault(root: Path) -> StoreError | None:
    """Return why the current generation is unknown while others exist; None if it is known.

    Raises:
        StoreError: there is no store, or one of a newer format.
    """
    try:
        inbox.load_current(root)
    except NewerStore:
        raise
    except StoreError as error:
        if not manifests.load_readable(root):
            raise
        return error
    return None


def _list_candidates(root: Path) -> list[tuple[str, Manifest]]:
    """List the generations that CURRENT may have named, likeliest first."""
    found = manifests.load_readable(root)
    with suppress(StoreError):
        building = {name for name, _ in manifests.list_ancestors(root, manifests.read_current(root, "NEXT"))}
        found = [entry for entry in found if entry[0] not in building]
    documents: dict[Lineage, int] = {}
    for _, manifest in found:  # newest first in each lineage
        documents.setdefault(manifest.lineage, manifest.counts["documents"])
    return sorted(found, key=lambda entry: documents[entry[1].lineage], reverse=True)


def _choose_earlier(root: Path, now: Manifest, earlier: Mapping[int, Manifest]) -> int:
    """Return the default generation to roll back to; 0 for none."""
    if _is_whole(root, now.files()):
        for number in sorted(earlier, reverse=True):
            if (earlier[number].counts, earlier[number].lineage) != (now.counts, now.lineage):
                return number
    return max(earlier, default=0)


def _list_documents(root: Path, now: Manifest) -> set[str]:
    """Return the current generation's documents; if its tables are damaged, all accepted ones that did not fail."""
    if _is_whole(root, now.documents):
        return inbox.list_done(root, now)
    return set(inbox.list_accepted(root)) - inbox.list_dead(root).keys()


def _is_whole(root: Path, files: Iterable[File]) -> bool:
    try:
        check_files(root, files)
    except StoreError:
        return False
    return True
