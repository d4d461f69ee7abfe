"""The deep tier in a query process: a job for a worker, and an answer without a model meanwhile.

This process asks no model and opens no connection. It leaves a job in the store, and later reads the model's reply.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import orjson
from fastapi.sse import format_sse_event

from helix.deep import jobs
from helix.deep.arguments import from_arguments
from helix.deep.context import prepare
from helix.deep.fusion import compose_answer, fall_back
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.types import Bundle
from query.auth import Caller
from query.schema.answers import make_options, render_bundle
from query.schema.requests import RecallRequest

LOOK: Final = 0.05
"""Seconds between two looks for a job's outcome."""

PING: Final = 5.0
"""Seconds of silence before a stream sends a comment: proxies close silent streams."""


def start_job(memory: Memory, request: RecallRequest, caller: Caller) -> dict[str, Any]:
    """Answer without a model and leave a job for a worker; return `report_job` of it.

    Raises:
        UsageError: see `Memory.recall`.
        StoreError: too many jobs wait, or the store cannot be written.
    """
    if request.why_not is not None:
        raise UsageError("why_not belongs to the ordinary recall", "ask for it at /v1/recall")
    options = replace(make_options(request, caller.projects), principal=caller.check_principal(request.principal))
    plain = memory.answer(request.query, options)
    job = jobs.place(memory.root, request.query, options, memory.settings.deep_seconds, owner=caller.key)
    if plain.skipped:
        jobs.finish(memory.root, job, jobs.Outcome(None), time.time())
    elif not jobs.has_worker(memory.root):
        jobs.finish(memory.root, job, jobs.Outcome(None, jobs.NO_WORKER), time.time())
    return report_job(memory, job, plain)


def find_job(memory: Memory, identity: str, caller: Caller) -> jobs.Job | None:
    """Return the caller's own job of that id; None for others."""
    job = jobs.read(memory.root, identity)
    return job if job is not None and caller.key in ("", job.owner) else None


def report_job(memory: Memory, job: jobs.Job, plain: Bundle | None = None) -> dict[str, Any]:
    """Return a job's status with the best answer so far.

    Args:
        plain: the answer without a model, where it is already known.
    """
    began, outcome = time.perf_counter(), jobs.read_outcome(memory.root, job)
    query, options = from_arguments(job.arguments)
    plain = plain or memory.answer(query, replace(options, explain=job.explain))
    if outcome is None:
        status = "running" if jobs.is_claimed(memory.root, job) else "waiting"
    else:
        status = "done"
        if outcome.replies is not None:
            question = prepare(memory.deep_context, query, options)
            plain = compose_answer(question, plain, outcome.replies, began)
        elif outcome.failed:
            plain = fall_back(plain, outcome.failed)
    return {"job": job.id, "status": status, "answer": render_bundle(plain)}


def mark_expired(report: dict[str, Any]) -> dict[str, Any]:
    """Return the last report of a job whose file is gone, as done and degraded."""
    answer = report["answer"]
    degraded = [*answer["degraded"], f"deep: {jobs.FORGOTTEN}"]
    return {**report, "status": "done", "answer": {**answer, "degraded": degraded}}


async def wait_for_outcome(memory: Memory, job: jobs.Job, seconds: float = float("inf")) -> bool:
    """Wait for a job's outcome, at most so long; return whether it came. Every job has one by its deadline."""
    deadline = time.monotonic() + seconds
    while jobs.read_outcome(memory.root, job) is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK)
    return True


async def stream_events(
    memory: Memory, job: jobs.Job, seconds: float, report: Callable[[], Awaitable[dict[str, Any]]]
) -> AsyncIterator[bytes]:
    """Yield server-sent events: `first` at once with the answer without a model, `deep` with its replacement.

    Args:
        seconds: the longest life of the stream; a client reconnects by itself.
        report: returns `report_job` of the job.
    """
    deadline = time.monotonic() + seconds
    state = await report()
    if state["status"] != "done":
        yield _format_event("first", state)
        while not await wait_for_outcome(memory, job, min(PING, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return
            yield format_sse_event(comment="the model is asked")
        state = await report()
    yield _format_event("deep", state)


def _format_event(name: str, report: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=orjson.dumps(report).decode(), event=name, id=name)
