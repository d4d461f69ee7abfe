"""`Memory.recall(…, tier="deep")`: by a worker where one is there, else by this process, where it knows an endpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from helix.deep import ask as asking
from helix.deep import jobs
from helix.deep.fusion import answered, checked, fallen_back
from helix.deep.replies import Replies, Unanswered
from helix.errors import HelixError, UsageError
from helix.types import Bundle

if TYPE_CHECKING:
    from helix.sdk.memory import Memory


def recall(
    memory: Memory, arguments: Mapping[str, Any], *, explain: bool = False, why_not: str | None = None
) -> Bundle:
    """The answer of the tier deep; where the model is of no help, the answer without it, which then says why.

    Args:
        arguments: of `Memory.recall`, all but these.

    Raises:
        UsageError: as `Memory.recall`.
    """
    if why_not is not None:
        raise UsageError("why_not is of the ordinary recall", "ask for it without the tier deep")
    began = time.perf_counter()
    plain = memory.recall(**arguments, explain=explain)
    if plain.skipped:
        return plain
    asked = {**jobs.without_secrets(arguments), "now": arguments["now"] or datetime.now(UTC)}
    try:
        found = _replies(memory, asked)
        return answered(checked(memory, asked), plain, found, began)
    except Unanswered as error:
        return fallen_back(plain, str(error))


def _replies(memory: Memory, arguments: Mapping[str, Any]) -> Replies:
    settings = memory.settings
    if not jobs.attended(memory.root):
        if not settings.deep_url:
            raise Unanswered(f"no endpoint is named (HELIX_DEEP_URL), and {jobs.NOBODY}")
        return asking.replies(memory, arguments, settings, settings.deep_seconds)
    try:
        job = jobs.place(memory.root, arguments, settings.deep_seconds)
    except HelixError as error:
        raise Unanswered(str(error)) from None
    outcome = jobs.wait(memory.root, job)
    if outcome.replies is None:
        raise Unanswered(outcome.failed)
    return outcome.replies
