"""Replication of one worker machine: `pipelines.maintain.replication`, whose failures are logged and retried.

Nothing here raises because the share is out of reach: what could not be done is done by the next round of `keep_up`,
at a worker's start and then every HELIX_RECONCILE_INTERVAL. Without HELIX_SHARE there are no others, and nothing to do.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from helix.errors import HelixError
from helix.settings import Settings
from helix.snapshot.replication import remote as sync
from pipelines.maintain import replication as share

log = logging.getLogger("helix.share")

_JOIN: Final = 60.0  # seconds: more than S3 takes to be given up


def hand_over(root: Path, settings: Settings, documents: Sequence[str]) -> list[str]:
    """Offer what was accepted; the documents whose messages may go out."""
    if not settings.share:
        return list(documents)
    try:
        return share.hand_over(root, settings, documents)
    except (HelixError, OSError) as error:
        log.warning("accepted, but not offered to other machines yet: %s", error)
        return list(documents) if share.is_home(root) else []


def receive(root: Path, settings: Settings, document: str) -> bool:
    """Whether a document is to be enriched here, now that all it takes is here."""
    if not settings.share:
        return True
    try:
        return share.receive(root, settings, document)
    except (HelixError, OSError) as error:
        log.warning("waits: %s", error, extra={"document": document})
        return False


def hand_in(root: Path, settings: Settings, document: str, fingerprint: str) -> None:
    """Send home what was made of a document here."""
    if not settings.share:
        return
    try:
        share.hand_in(root, settings, document, fingerprint)
    except (HelixError, OSError) as error:
        log.warning("made, but not handed in yet: %s", error, extra={"document": document})


def collect(root: Path, settings: Settings, fingerprint: str) -> None:
    """Before a commit: what other machines made."""
    if not settings.share:
        return
    try:
        found = share.collect(root, settings, fingerprint)
    except (HelixError, OSError) as error:
        log.warning("nothing is collected from other machines: %s", error)
        return
    if found != share.Collected(0, 0, 0):
        counts = {"envelopes": found.envelopes, "parts": found.parts, "waiting": found.waiting}
        log.info("collected from other machines", extra=counts)


def publish(root: Path, settings: Settings) -> None:
    """After a commit: what other machines are to see."""
    if not settings.share:
        return
    try:
        share.publish(root, settings)
    except (HelixError, OSError) as error:
        log.warning("committed, but not published to other machines yet: %s", error)


def keep_up(root: Path, settings: Settings) -> None:
    """A round of what has to happen from time to time, in a thread beside a worker."""
    if not settings.share:
        return
    _end_in_order(settings.share)
    if not _at_work.acquire(blocking=False):  # the process ends
        return
    try:
        share.keep_up(root, settings)
    except Exception as error:  # noqa: BLE001  the thread must go on: the next round is another try
        log.warning("out of step with other machines: %s", error)
    finally:
        _at_work.release()


_at_work: Final = threading.Lock()


@cache
def _end_in_order(url: str) -> None:
    """Have the process end only when no round is under way: S3 cannot be shut down in one, and would never end."""
    with contextlib.suppress(HelixError):  # what shuts it down runs last, so it has to be registered first
        sync.connect(url)
    atexit.register(_at_work.acquire, timeout=_JOIN)
