"""The tier deep as a query process serves it: a job for a worker, the answer without a model meanwhile.

This process asks no model and opens no connection: it leaves a file in the store, and later reads what a model said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import orjson
from fastapi.sse import format_sse_event

from helix.deep import jobs
from helix.deep.fusion import answered, checked, fallen_back
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.types import Bundle
from query.auth import Caller
from query.schema import RecallRequest, response

LOOK: Final = 0.05
"""Seconds between two looks for what came of a job."""

PING: Final = 5.0
"""Seconds of silence after which a stream says that it lives: proxies end those that say nothing."""


def begin(memory: Memory, request: RecallRequest, caller: Caller) -> dict[str, Any]:
    """Answer without a model, and leave the question for a worker; what `look` gives.

    Raises:
        UsageError: see `Memory.recall`.
        StoreError: too many wait, or the store cannot be written.
    """
    if request.why_not is not None:
        raise UsageError("why_not is of the ordinary recall", "ask for it at /v1/recall")
    arguments = request.model_dump(exclude={"explain", "why_not"})
    arguments |= {"principal": caller.speaks_for(request.principal), "projects": caller.projects}
    plain = memory.recall(**arguments, explain=request.explain)
    seconds = memory.settings.deep_seconds
    job = jobs.place(memory.root, arguments, seconds, owner=caller.key, explain=request.explain)
    if plain.skipped:
        jobs.finish(memory.root, job, jobs.Outcome(None), time.time())
    elif not jobs.attended(memory.root):
        jobs.finish(memory.root, job, jobs.Outcome(None, jobs.NOBODY), time.time())
    return told(memory, job, plain)


def look(memory: Memory, identity: str, caller: Caller) -> dict[str, Any] | None:
    """How a job stands, and the best answer there is. None where there is none of that id that is the caller's."""
    job = mine(memory, identity, caller)
    return None if job is None else told(memory, job)


def mine(memory: Memory, identity: str, caller: Caller) -> jobs.Job | None:
    """The caller's own job of that id."""
    job = jobs.read(memory.root, identity)
    return job if job is not None and caller.key in ("", job.owner) else None


def told(memory: Memory, job: jobs.Job, plain: Bundle | None = None) -> dict[str, Any]:
    """How a job stands, and the best answer there is.

    Args:
        plain: that without a model, where it is known already.
    """
    began, outcome = time.perf_counter(), jobs.outcome(memory.root, job)
    plain = plain or memory.recall(**job.arguments, explain=job.explain)
    if outcome is None:
        status = "running" if jobs.is_claimed(memory.root, job) else "waiting"
    else:
        status = "done"
        if outcome.replies is not None:
            plain = answered(checked(memory, job.arguments), plain, outcome.replies, began)
        elif outcome.failed:
            plain = fallen_back(plain, outcome.failed)
    return {"job": job.id, "status": status, "answer": response(plain)}


def forgotten(found: dict[str, Any]) -> dict[str, Any]:
    """How a job stood, when there is none any more."""
    answer = found["answer"]
    return {
        **found,
        "status": "done",
        "answer": {**answer, "degraded": [*answer["degraded"], f"deep: {jobs.FORGOTTEN}"]},
    }


async def ended(memory: Memory, job: jobs.Job, seconds: float = float("inf")) -> bool:
    """Wait until something came of a job, at most so long; whether it did. Something does, by its deadline."""
    deadline = time.monotonic() + seconds
    while jobs.outcome(memory.root, job) is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK)
    return True


async def events(
    memory: Memory, job: jobs.Job, seconds: float, how: Callable[[], Awaitable[dict[str, Any]]]
) -> AsyncIterator[bytes]:
    """Server-sent events: `first` at once with the answer without a model, `deep` with the one that replaces it.

    Args:
        seconds: after which the stream ends, whether that is there or not: a client comes back by itself.
        how: gives `told` of the job.
    """
    deadline = time.monotonic() + seconds
    found = await how()
    if found["status"] != "done":
        yield _event("first", found)
        while not await ended(memory, job, min(PING, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return
            yield format_sse_event(comment="the model is asked")
        found = await how()
    yield _event("deep", found)


def _event(name: str, found: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=orjson.dumps(found).decode(), event=name, id=name)
