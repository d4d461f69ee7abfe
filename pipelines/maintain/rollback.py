"""Rolling back: an earlier generation becomes the newest one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from helix.errors import NewerStore, StoreError, UsageError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import File, Lineage, Manifest, new_id
from helix.snapshot.paths import TEMPORARY
from helix.snapshot.segment.open import check_files
from helix.util.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class RolledBack:
    """`generation` holds what `to` held; `set_aside` are the documents taken in since."""

    generation: int
    to: int
    set_aside: tuple[str, ...]


def rollback(root: Path, settings: Settings, to: int | None = None) -> RolledBack:
    """Publish a new generation with the content of an earlier one.

    Where none is named, it is the newest that holds something else than the current one, which a merge or a fold of
    access events does not; the one right before where files of the current one are damaged.

    Documents taken in since are set aside (`dead/`), or the next ingest would publish them again; offering one again
    takes it in again. What was forgotten stays forgotten.

    Raises:
        UsageError: there is no such generation any more.
        StoreError: its files are damaged, or another writer is at work.
    """
    with writer.lock(root, settings.lock_wait) as held:
        history = manifests.generations(root)
        if not history:
            raise StoreError(f"nothing was published to {root} yet", "ingest something first")
        name, now = history[0]
        earlier = {manifest.generation: manifest for _, manifest in history[1:]}
        number = to if to is not None else _before(root, now, earlier)
        if number not in earlier:
            there = ", ".join(map(str, sorted(earlier))) or "none"
            raise UsageError(
                f"no generation {number} to return to", f"there are: {there} (the current is {now.generation})"
            )
        chosen = earlier[number]
        counted = now if now.access is None or _whole(root, [now.access]) else chosen
        new = writer.following(
            held,
            name,
            now,
            lineage=chosen.lineage,
            segments=chosen.segments,
            deletes=chosen.deletes,
            indexes=chosen.indexes,
            documents=chosen.documents,
            encoder=chosen.encoder,
            coverage=chosen.coverage,
            counts=chosen.counts,
            access=counted.access,
            watermarks=counted.watermarks,
        )
        check_files(root, new.files())
        returning = ledger.done(root, chosen)
        since = sorted(_taken_in(root, now) - returning)
        for document in since:  # before publishing: a kill here sets aside what is still published, and loses nothing
            if (root / "inbox" / document).exists():
                ledger.give_up(root, document, f"{ledger.ROLLED_BACK} {now.generation} to {number}")
        failpoint("rollback.set_aside")
        (root / "NEXT").unlink(missing_ok=True)  # a reindex under way holds what is taken back: it starts over
        writer.publish(held, new)
        for document in returning & ledger.dead(root).keys():  # set aside by an earlier rollback, which this one undoes
            ledger.revive(root, document)
        return RolledBack(new.generation, number, tuple(since))


def mend(root: Path, settings: Settings) -> RolledBack | None:
    """Publish the content of the newest whole generation where CURRENT, or the manifest it names, is damaged.

    A generation that a reindex is building does not count. Of several lineages, the one that holds the most documents
    counts: a reindex that was given up holds a part of them. Nothing is set aside, since nobody can tell what was
    taken in since: the next ingest publishes it again.

    Returns:
        None where CURRENT is whole.

    Raises:
        StoreError: there is no store, no generation is whole, or another writer is at work.
    """
    if _fault(root) is None:
        return None
    with writer.lock(root, settings.lock_wait, mend=True) as held:
        if (fault := _fault(root)) is None:  # another process was quicker
            return None
        for name, manifest in _candidates(root):
            if _whole(root, manifest.files()):
                if (root / "CURRENT").is_dir():  # nothing replaces a folder in one step
                    (root / "CURRENT").rename(root / f"{TEMPORARY}{new_id()}")  # the next writer sweeps it
                writer.point(root, name)
                failpoint("mend.pointed")
                # Above every number there is: what could not be read is superseded, too.
                number = max(manifests.number(path) for path in manifests.paths_of(root)) + 1
                new = replace(writer.following(held, name, manifest), generation=number)
                writer.publish(held, new)
                return RolledBack(number, manifest.generation, ())
    raise StoreError(
        fault.what, "no generation is whole: restore the store from a backup, or 'helix pull' a copy of it"
    )


def listed(root: Path) -> list[tuple[str, Manifest]]:
    """List the generations to return to, newest first: the parents of CURRENT, or all where it is damaged."""
    return _candidates(root) if _fault(root) else manifests.generations(root)


def _fault(root: Path) -> StoreError | None:
    """Return why the current generation cannot be told, where there are others; None where it can.

    Raises:
        StoreError: there is no store, or one of a newer format.
    """
    try:
        ledger.current(root)
    except NewerStore:
        raise
    except StoreError as error:
        if not manifests.whole(root):
            raise
        return error
    return None


def _candidates(root: Path) -> list[tuple[str, Manifest]]:
    """Generations that CURRENT may have led to, the likeliest first."""
    found = manifests.whole(root)
    with suppress(StoreError):
        building = {name for name, _ in manifests.chain(root, manifests.current_name(root, "NEXT"))}
        found = [entry for entry in found if entry[0] not in building]
    documents: dict[Lineage, int] = {}
    for _, manifest in found:  # of each lineage its newest comes first
        documents.setdefault(manifest.lineage, manifest.counts["documents"])
    return sorted(found, key=lambda entry: documents[entry[1].lineage], reverse=True)


def _before(root: Path, now: Manifest, earlier: Mapping[int, Manifest]) -> int:
    """The generation meant where none is named; 0 where there is none."""
    if _whole(root, now.files()):
        for number in sorted(earlier, reverse=True):
            if (earlier[number].counts, earlier[number].lineage) != (now.counts, now.lineage):
                return number
    return max(earlier, default=0)


def _taken_in(root: Path, now: Manifest) -> set[str]:
    """The current generation's documents; where its tables are damaged, all that were accepted and did not fail."""
    if _whole(root, now.documents):
        return ledger.done(root, now)
    return set(ledger.accepted(root)) - ledger.dead(root).keys()


def _whole(root: Path, files: Iterable[File]) -> bool:
    try:
        check_files(root, files)
    except StoreError:
        return False
    return True
