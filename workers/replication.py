"""Replication of one worker machine. It calls `pipelines.maintain.replication`, and logs failures.

No function raises because the share cannot be reached: `keep_up` tries again, at a worker's start and in each
HELIX_RECONCILE_INTERVAL. Without HELIX_SHARE all of them do nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from helix.errors import HelixError
from helix.settings import Settings
from pipelines.maintain.replication import member, primary

log = logging.getLogger("helix.share")

_JOIN: Final = 60.0
"""Seconds to wait for a round at exit: more than S3's time-out."""


@contextlib.contextmanager
def _log_errors(failure: str, document: str = "") -> Iterator[None]:
    """Log the errors of a share, and continue."""
    try:
        yield
    except (HelixError, OSError) as error:
        log.warning("%s: %s", failure, error, extra={"document": document} if document else None)


def hand_over(root: Path, settings: Settings, documents: Sequence[str]) -> list[str]:
    """Offer accepted documents to other machines; return those whose messages may be sent."""
    if not settings.share:
        return list(documents)
    with _log_errors("accepted, but not offered to other machines yet"):
        return member.hand_over(root, settings, documents)
    return list(documents) if primary.is_primary(root) else []


def receive(root: Path, settings: Settings, document: str) -> bool:
    """Fetch the envelopes of a document; return whether it can be enriched here."""
    if not settings.share:
        return True
    with _log_errors("waits", document):
        return member.receive(root, settings, document)
    return False


def hand_in(root: Path, settings: Settings, document: str, fingerprint: str) -> None:
    """Send a part to the primary."""
    if settings.share:
        with _log_errors("made, but not handed in yet", document):
            member.hand_in(root, settings, document, fingerprint)


def collect(root: Path, settings: Settings, fingerprint: str) -> None:
    """Fetch the parts of other machines, before a commit."""
    if not settings.share:
        return
    with _log_errors("nothing is collected from other machines"):
        collected = primary.collect(root, settings, fingerprint)
        if collected != primary.CollectedObjects(0, 0, 0):
            counts = {"envelopes": collected.envelopes, "parts": collected.parts, "waiting": collected.waiting}
            log.info("collected from other machines", extra=counts)


def publish(root: Path, settings: Settings) -> None:
    """Publish a generation to other machines, after a commit."""
    if settings.share:
        with _log_errors("committed, but not published to other machines yet"):
            primary.publish(root, settings)


def keep_up(root: Path, settings: Settings) -> None:
    """Do one round of the periodic work; called in a background thread."""
    if not settings.share:
        return
    _wait_at_exit()
    if not _round.acquire(blocking=False):  # the process ends
        return
    try:
        member.keep_up(root, settings)
    except Exception as error:  # noqa: BLE001 — the thread continues with the next round
        log.warning("out of step with other machines: %s", error)
    finally:
        _round.release()


_round: Final = threading.Lock()


@cache
def _wait_at_exit() -> None:
    """Let the process end only between rounds: one that is cut off is repeated, and logs an error."""
    atexit.register(_round.acquire, timeout=_JOIN)
