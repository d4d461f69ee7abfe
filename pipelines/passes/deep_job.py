"""The job behind the tier deep: ask a language model about one question, and leave its replies for whoever waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from helix.deep import ask as asking
from helix.deep import jobs
from helix.deep.replies import Unanswered
from helix.errors import HelixError
from helix.sdk.memory import Memory
from helix.settings import Settings


def run(root: Path, identity: str, memory: Callable[[], Memory], settings: Settings) -> jobs.Outcome | None:
    """Do one job; what came of it, None where there is nothing to do: it is gone, done, or another process is at it.

    Args:
        memory: opens the store's newest generation.
    """
    with jobs.claim(root, identity) as mine:
        job = jobs.read(root, identity) if mine else None
        if job is None or jobs.outcome(root, job) is not None:
            return None
        began = time.time()
        try:
            found = _asked(job, memory, settings)
        except BaseException:  # whoever waits is told at once; what it was is said in the log
            jobs.finish(root, job, jobs.Outcome(None, "the worker failed"), began)
            raise
        jobs.finish(root, job, found, began)
        return found


def _asked(job: jobs.Job, memory: Callable[[], Memory], settings: Settings) -> jobs.Outcome:
    seconds = min(settings.deep_seconds, job.deadline - time.time())
    try:
        if seconds <= 0:
            raise Unanswered("no worker had time for it")
        return jobs.Outcome(asking.replies(memory(), job.arguments, settings, seconds))
    except (Unanswered, HelixError) as error:
        return jobs.Outcome(None, str(error))
