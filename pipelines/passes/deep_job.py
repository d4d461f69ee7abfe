"""The job of the deep tier: ask a language model about one question, and write its replies for the caller."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from helix.deep import jobs
from helix.deep.arguments import from_arguments
from helix.deep.ask import fetch_replies
from helix.deep.replies import Unanswered
from helix.errors import HelixError
from helix.sdk.memory import Memory
from helix.settings import Settings


def run(root: Path, identity: str, memory: Callable[[], Memory], settings: Settings) -> jobs.Outcome | None:
    """Do one job; return its outcome, or None if it is gone, done, or claimed by another process.

    Args:
        memory: opens the store's newest generation.
    """
    with jobs.claim(root, identity) as mine:
        job = jobs.read(root, identity) if mine else None
        if job is None or jobs.read_outcome(root, job) is not None:
            return None
        began = time.time()
        try:
            outcome = _ask(job, memory, settings)
        except BaseException:  # the caller must not wait for the deadline; the worker logs the error
            jobs.finish(root, job, jobs.Outcome(None, "the worker failed"), began)
            raise
        jobs.finish(root, job, outcome, began)
        return outcome


def _ask(job: jobs.Job, memory: Callable[[], Memory], settings: Settings) -> jobs.Outcome:
    seconds = min(settings.deep_seconds, job.deadline - time.time())
    try:
        if seconds <= 0:
            raise Unanswered("no worker had time for it")
        query, options = from_arguments(job.arguments)
        return jobs.Outcome(fetch_replies(memory().deep_context, query, options, settings, seconds))
    except (Unanswered, HelixError) as error:
        return jobs.Outcome(None, str(error))
