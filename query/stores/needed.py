"""The stores that a request needs."""

from __future__ import annotations

from collections.abc import Sequence

from query.auth import OWNER, Caller
from query.schema.requests import WideRecallRequest


def find_needed(args: Sequence[object]) -> tuple[Caller, list[str]]:
    """Return the caller among the arguments of a method of the service, and the stores that its answer comes from.

    They are the one of the request's path, else those that the request names, else all of the caller's key.
    """
    caller = next((one for one in args if isinstance(one, Caller)), OWNER)
    if caller.store is not None:
        return caller, [caller.store]
    named = next((one.stores for one in args if isinstance(one, WideRecallRequest)), ())
    return caller, list(dict.fromkeys(named or caller.grants or ()))
