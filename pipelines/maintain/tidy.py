"""The upkeep after a commit: merges, garbage collection, and unfinished deletions."""

from __future__ import annotations

from pathlib import Path

from helix.errors import Damaged
from helix.settings import Settings
from helix.snapshot.checked_arrays import REMEDY
from helix.snapshot.gc import collect_garbage
from pipelines.maintain.compact import compact
from pipelines.maintain.forget import resume


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
