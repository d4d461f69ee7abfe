"""Parts of every route of REST: the caller, the JSON answer, and OpenAPI's entries for errors."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import orjson
from fastapi import Depends, Path, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from query.auth import Caller
from query.middleware import CALLER, PROBLEM
from query.schema import requests

_PROBLEMS: Final = {
    400: "an argument is out of range, or names something unknown",
    401: "the key is missing, unknown, expired or revoked",
    403: "this key lacks the right, or another site's page asks",
    404: "it does not exist, or you may not see it",
    411: "the length of the body is not stated",
    413: "the body is too large",
    429: "too many requests",
    503: "no generation is open, too much is under way, or it takes too long",
}


def describe_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's entry for each status of an error."""
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDetail"}}}
    return {status: {"description": _PROBLEMS[status], "content": problem} for status in statuses}


ALWAYS = describe_problems(400, 401, 403, 413, 429, 503)
POSTED = {**ALWAYS, **describe_problems(411)}
ONE = {**ALWAYS, **describe_problems(404)}


class RawJson(JSONResponse):
    """A JSON answer that is not validated again."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        return orjson.dumps(content)


async def get_caller(request: Request) -> Caller:
    """Return the caller that the guard found. Async, because FastAPI runs plain functions in a thread."""
    caller: Caller = request.scope[CALLER]
    return caller


Who = Annotated[Caller, Depends(get_caller)]
ItemId = Annotated[requests.ItemId, Path(alias="id")]
T = TypeVar("T")


def require(result: T | None, text: str = "no live item has this id") -> T:
    """Return a result, or raise 404: with the same text for a hidden one as for a missing one."""
    if result is None:
        raise HTTPException(404, text)
    return result
