"""Deletes old files of a remote while other pushes may run: none loses a file that it has sent or found.

A file is named by its content, so a push may find a file that another push is about to delete. Two pointers keep them
apart, each replaced on a condition that the server checks. The one that deletes first marks PRUNE as busy, then writes
CURRENT, with a new mark if the name stays: pushes that began before can no longer replace CURRENT, and start over. A
push reads CURRENT first, then waits while PRUNE is busy. So the one that deletes has the remote to itself, and no list
and no date matters.

It renews PRUNE while it deletes. A push that sees the same busy mark for LEASE seconds, by its own stopwatch, takes
over: the other was killed. Each batch of deletions ends well within LEASE. Only a process that is stopped between its
last look and a deletion, for longer than LEASE, could still delete a file that was sent again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from helix.errors import StoreError
from helix.snapshot import paths
from helix.snapshot.replication import object_store
from helix.snapshot.replication.object_store import Overtaken, Pointer, RemoteStore
from helix.util.failpoints import failpoint

PRUNE: Final = "PRUNE"
FREE, BUSY = "free", "busy"
LEASE = 60.0  # seconds
RENEWAL = 10.0  # seconds after which the mark is renewed
_LOOK: Final = 0.5  # seconds between two looks of a push that waits


def wait_for_prune(remote: RemoteStore) -> Pointer | None:
    """Wait until no other push deletes files there; return PRUNE as read last. Call it after CURRENT was read."""
    seen, since = None, 0.0
    while (found := object_store.read_pointer(remote, PRUNE)) and found.data.startswith(BUSY.encode()):
        if found != seen:
            seen, since = found, time.monotonic()
        elif time.monotonic() - since > LEASE:
            with suppress(Overtaken):
                object_store.replace_pointer(remote, PRUNE, FREE, found)
            continue
        time.sleep(random.uniform(_LOOK / 2, _LOOK))
    return found


@contextmanager
def hold_prune(remote: RemoteStore, found: Pointer | None) -> Iterator[Callable[[], None]]:
    """Become the only one that deletes files there. Yield a function to call before each batch.

    Args:
        found: PRUNE as `wait_for_prune` returned it.

    Raises:
        Overtaken: another one is at it, or was.
    """
    mine, renewed = object_store.replace_pointer(remote, PRUNE, BUSY, found), time.monotonic()

    def renew() -> None:
        nonlocal mine, renewed
        if time.monotonic() - renewed < RENEWAL:
            return
        try:
            mine, renewed = object_store.replace_pointer(remote, PRUNE, BUSY, mine), time.monotonic()
        except Overtaken:
            text = f"another push has taken over the removal of old files of {remote.url}"
            raise StoreError(text, "run the command again") from None

    try:
        yield renew
    finally:
        with suppress(Overtaken, StoreError):  # the next push waits for LEASE
            object_store.replace_pointer(remote, PRUNE, FREE, mine)


def delete_files(remote: RemoteStore, names: Sequence[str], renew: Callable[[], None]) -> int:
    """Delete files in batches; return their number."""
    for start in range(0, len(names), object_store.THREADS):
        renew()
        batch = names[start : start + object_store.THREADS]
        object_store.map_parallel(lambda name: object_store.delete_file(remote, name), batch)
        failpoint("prune.batch")
    return len(names)


def delete_unfinished(remote: RemoteStore) -> int:
    """Delete files of killed pushes that are in the making in a shared folder; return their number."""
    count = 0
    for folder in (remote.folder, remote.folder / "manifests") if remote.folder else ():
        for path in folder.glob(f"{paths.TEMPORARY}*"):
            if not paths.is_held(path):
                path.unlink(missing_ok=True)
                count += 1
    return count
