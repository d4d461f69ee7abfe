"""The deep tier of the SDK: a worker asks the model where one runs, else this process, where it knows an endpoint."""

from __future__ import annotations

import time
from dataclasses import replace

from helix.deep import jobs
from helix.deep.arguments import redact_question
from helix.deep.ask import NO_ENDPOINT, fetch_replies
from helix.deep.context import DeepContext, Recall, prepare
from helix.deep.fusion import compose_answer, fall_back
from helix.deep.replies import Replies, Unanswered
from helix.errors import HelixError, UsageError
from helix.types import Bundle, RecallOptions


def recall_deep(context: DeepContext, recall: Recall, query: str, options: RecallOptions) -> Bundle:
    """Answer in the deep tier; if the model fails, return the fast answer with the reason.

    Args:
        recall: the store's ordinary recall.

    Raises:
        UsageError: as `Memory.recall`.
    """
    if options.why_not is not None:
        raise UsageError("why_not belongs to the ordinary recall", "ask for it without the tier deep")
    began = time.perf_counter()
    plain = recall(query, replace(options, tier="fast"))
    if plain.skipped:
        return plain
    query, options = redact_question(query, options)
    try:
        replies = _fetch(context, query, options)
        return compose_answer(prepare(context, query, options), plain, replies, began)
    except Unanswered as error:
        return fall_back(plain, str(error))


def _fetch(context: DeepContext, query: str, options: RecallOptions) -> Replies:
    settings = context.settings
    if not jobs.has_worker(context.root):
        if not (settings.deep_url or settings.rerank_url):
            raise Unanswered(f"{NO_ENDPOINT}, and {jobs.NO_WORKER}")
        return fetch_replies(context, query, options, settings, settings.deep_seconds)
    try:
        job = jobs.place(context.root, query, options, settings.deep_seconds)
    except HelixError as error:
        raise Unanswered(str(error)) from None
    outcome = jobs.wait_for_outcome(context.root, job)
    if outcome.replies is None:
        raise Unanswered(outcome.failed)
    return outcome.replies
