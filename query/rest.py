"""REST over one `Service`. Every error is a problem detail (RFC 9457)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, TypeVar, cast

import orjson
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from helix import __version__
from helix.errors import HelixError, UsageError
from query import schema as wire
from query.auth import Caller, Keys
from query.mcp import mounted
from query.metrics import TYPE, Metrics
from query.middleware import CALLER, PROBLEM, Answer, Guard, Policy, problem_of
from query.service import BEHIND, Service

ABOUT: Final = """
Memory for coding agents and assistants: ranked, explained, within a token budget, and no language model asked.

Requests from this machine need no key. Others send one (`helix keys create`) as `Authorization: Bearer hx_…`; it sees
the projects and the ACLs of its principal and nothing else. What is recalled is quoted data of the past, no order.
"""

PAGE: Final = FilePath(__file__).with_name("page")

_SAID: Final = {
    400: "an argument is out of range, or names what is not there",
    401: "no key, or one that is unknown, expired or revoked",
    403: "this key may not, or another site's page asks",
    404: "nothing there that you may see",
    411: "the length of the body is not stated",
    413: "the body is too large",
    429: "too many requests",
    503: "no generation is open, too much is under way, or it takes too long",
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of errors."""
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _SAID[status], "content": problem} for status in statuses}


_ALWAYS = _problems(400, 401, 403, 413, 429, 503)
_POSTED = {**_ALWAYS, **_problems(411)}
_ONE = {**_ALWAYS, **_problems(404)}


class Json(JSONResponse):
    """JSON as it is; what goes out is not validated a second time."""

    def render(self, content: Any) -> bytes:
        """Bytes."""
        return orjson.dumps(content)


async def who(request: Request) -> Caller:
    """Who asks: the guard knows. Not a plain function: that would be asked in a thread of its own."""
    caller: Caller = request.scope[CALLER]
    return caller


class Direct(APIRoute):
    """A body that goes straight into its model; one that does not fit is FastAPI's to explain.

    Its own way to the same call takes about .4 ms more when a recall has just emptied the caches (measured).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI: Custom Request and APIRoute class."""
        explained = super().get_route_handler()
        model = cast(type[BaseModel], self.dependant.body_params[0].field_info.annotation)
        endpoint = cast(Callable[[Caller, BaseModel], Awaitable[Response]], self.endpoint)

        async def answered(request: Request) -> Response:
            if request.headers.get("content-type") != "application/json":
                return await explained(request)
            try:
                sent = model.model_validate_json(await request.body())
            except ValidationError:
                return await explained(request)
            return await endpoint(request.scope[CALLER], sent)

        return answered


_EVENT: Final = {"type": "object", "properties": {name: {"type": "string"} for name in ("data", "event", "id")}}

_NO_JOB: Final = "no recall of yours has this id, or none any more"

Who = Annotated[Caller, Depends(who)]
ItemId = Annotated[wire.ItemId, Path(alias="id")]
Found = TypeVar("Found")


def _there(found: Found | None, what: str = "no live item has this id") -> Found:
    """What was found. The same words whether there is none or the caller may not see it."""
    if found is None:
        raise HTTPException(404, what)
    return found


def create_app(service: Service, policy: Policy | None = None, keys: Keys | None = None) -> Guard:
    """The application; starts and stops the service with itself.

    Args:
        policy: how it is reached; from this machine, without keys, where not given.
        keys: those it knows; none where not given.
    """
    metrics = Metrics(service)
    service.failed = metrics.reload_failures.inc
    agents = mounted(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            async with agents.running():
                yield
        finally:
            service.stop()

    app = FastAPI(
        title="Helix",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
        responses={},
    )
    # Side by side: FastAPI would look for the way through each of its routers anew, with every request.
    for one in (*_asked(service, metrics), _operated(service, metrics), agents):
        app.router.routes.extend(one.routes)
    app.mount("/page", StaticFiles(directory=PAGE))

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    _errors(app)
    _described(app)

    return Guard(app, keys or Keys(None), policy or Policy())


def _asked(service: Service, metrics: Metrics) -> tuple[APIRouter, APIRouter]:
    """What is asked of the memory."""
    v1 = APIRouter(prefix="/v1", responses=_ALWAYS)
    direct = APIRouter(prefix="/v1", responses=_POSTED, route_class=Direct)

    def recall(sent: wire.RecallRequest, caller: Caller) -> Json:
        try:
            found = service.recall(sent, caller)
        except HelixError as error:
            metrics.failed(isinstance(error, UsageError))
            raise
        metrics.recalled(found)
        return Json(found)

    @v1.get("/recall", summary="Recall, by query parameters", response_model=wire.Recalled, tags=["recall"])
    async def recall_get(caller: Who, request: Annotated[wire.RecallRequest, Query()]) -> Json:
        return await service.in_turn(recall, request, caller)

    @direct.post("/recall", summary="Recall, by a JSON body", response_model=wire.Recalled, tags=["recall"])
    async def recall_post(caller: Who, request: wire.RecallRequest) -> Json:
        return await service.in_turn(recall, request, caller)

    @direct.post(
        "/recall/deep",
        summary="Recall with the help of a language model: a first answer, and a job for a better one",
        status_code=202,
        response_model=wire.DeepRecall,
        tags=["recall"],
    )
    async def deep(caller: Who, request: wire.RecallRequest) -> Json:
        found = await service.in_turn(service.deep, request, caller)
        metrics.recalled(found["answer"])
        where = f"/v1/recall/deep/{found['job']}"
        return Json(found, status_code=202, headers={"location": where, "retry-after": "1"})

    @v1.get(
        "/recall/deep/{job}",
        summary="How it stands, with the best answer there is",
        response_model=wire.DeepRecall,
        responses=_ONE,
        tags=["recall"],
    )
    async def deep_job(caller: Who, job: wire.JobId) -> Json:
        return Json(_there(await service.in_turn(service.deep_job, job, caller), _NO_JOB))

    @v1.get(
        "/recall/deep/{job}/events",
        summary="The same as server-sent events: `first`, then `deep`",
        response_class=Response,
        responses={
            **_ONE,
            200: {"description": "events until the last", "content": {"text/event-stream": {"schema": _EVENT}}},
            204: {"description": "it was told already: the client need not come back"},
        },
        tags=["recall"],
    )
    async def deep_events(caller: Who, job: wire.JobId, request: Request) -> Response:
        stream = _there(await service.deep_events(job, caller), _NO_JOB)
        if request.headers.get("last-event-id") == "deep":
            return Response(status_code=204)
        return EventSourceResponse(stream, headers={"x-accel-buffering": "no"})

    @v1.get(
        "/context",
        summary="A context as text: of a question, or where things stand",
        response_class=PlainTextResponse,
        tags=["recall"],
    )
    async def context(caller: Who, request: Annotated[wire.ContextRequest, Query()]) -> PlainTextResponse:
        return PlainTextResponse(await service.in_turn(service.context, request, caller))

    @v1.get("/items/{id}", summary="One item", response_model=wire.StoredItem, responses=_ONE, tags=["browse"])
    def item(caller: Who, identity: ItemId, request: Annotated[wire.Asked, Query()]) -> Json:
        return Json(_there(service.fetch(identity, request, caller)))

    @v1.get(
        "/items/{id}/around",
        summary="The items before and after one",
        response_model=wire.Around,
        responses=_ONE,
        tags=["browse"],
    )
    def around(caller: Who, identity: ItemId, request: Annotated[wire.AroundRequest, Query()]) -> Json:
        return Json(_there(service.around(identity, request, caller)))

    @v1.get(
        "/items/{id}/graph",
        summary="What an item is connected with",
        response_model=wire.Neighbourhood,
        responses=_ONE,
        tags=["browse"],
    )
    def graph(caller: Who, identity: ItemId, request: Annotated[wire.Asked, Query()]) -> Json:
        return Json(_there(service.neighbours(identity, request, caller)))

    @v1.get(
        "/sessions/{id:path}",
        summary="A session in reading order",
        response_model=wire.SessionPage,
        responses=_ONE,
        tags=["browse"],
    )
    def session(
        caller: Who,
        identity: Annotated[wire.SessionId, Path(alias="id")],
        request: Annotated[wire.SessionRequest, Query()],
    ) -> Json:
        return Json(_there(service.session(identity, request, caller), "no live session has this name"))

    @v1.get("/timeline", summary="Sessions, newest first", response_model=wire.Timeline, tags=["browse"])
    def timeline(caller: Who, request: Annotated[wire.TimelineRequest, Query()]) -> Json:
        return Json(service.timeline(request, caller))

    @v1.get("/facts", summary="What is stated about an entity", response_model=wire.Facts, tags=["browse"])
    def facts(caller: Who, request: Annotated[wire.FactsRequest, Query()]) -> Json:
        return Json(service.facts(request, caller))

    @v1.get("/choices", summary="What there is to filter by", response_model=wire.Choices, tags=["browse"])
    def choices(caller: Who, request: Annotated[wire.Asked, Query()]) -> Json:
        return Json(service.choices(request, caller))

    @v1.post(
        "/feedback",
        summary="Say what became of an item",
        status_code=202,
        response_model=wire.Feedback,
        responses={**_POSTED, **_ONE},
        tags=["tell"],
    )
    def feedback(caller: Who, request: wire.FeedbackRequest) -> Json:
        return Json(_there(service.feedback(request, caller)), status_code=202)

    @direct.post(
        "/hook", summary="What an agent's hook adds to its context", response_model=wire.HookAnswer, tags=["tell"]
    )
    async def hook(caller: Who, request: wire.HookRequest) -> Json:
        return Json(await service.in_turn(service.hook, request, caller))

    return direct, v1


def _operated(service: Service, metrics: Metrics) -> APIRouter:
    """What is asked of the process."""
    router = APIRouter(tags=["operate"])

    @router.get("/v1/status", summary="What is published, what waits", response_model=wire.Status, responses=_ALWAYS)
    def status(caller: Who) -> Json:
        return Json(service.status(caller))

    @router.get("/healthz", summary="The process lives", response_model=wire.Health)
    async def healthz() -> Json:
        return Json({"status": "ok"})

    @router.get(
        "/readyz", summary="A generation is open and answers", response_model=wire.Health, responses=_problems(503)
    )
    async def readyz(request: Request) -> Response:
        if not service.ready:
            raise HTTPException(503, service.trouble or "no generation is open yet")
        found = {"status": "ready", "snapshot": service.memory.snapshot.generation}
        return Json({**found, "trouble": BEHIND} if service.trouble else found)

    @router.get(
        "/metrics",
        summary="Counts and times, for Prometheus",
        response_class=PlainTextResponse,
        responses=_problems(401, 403, 429, 503),
    )
    def measured() -> Response:
        return Response(metrics.text(), media_type=TYPE)

    return router


def _errors(app: FastAPI) -> None:
    """Whatever is wrong is a problem detail."""

    def answered(answer: Answer) -> Response:
        return Response(orjson.dumps(answer.body), answer.status, answer.headers, PROBLEM)

    @app.exception_handler(HelixError)
    def failed(request: Request, error: HelixError) -> Response:
        return answered(problem_of(error, request.url.path))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        what = "; ".join(f"{'.'.join(map(str, entry['loc'][1:]))}: {entry['msg']}" for entry in error.errors())
        return answered(Answer(400, what, request.url.path))

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        headers = error.headers
        if error.status_code == 405:  # of two routes of a path, one knows nothing of the other's method
            asked = [{**request.scope, "method": method} for method in ("GET", "POST")]
            taken = [one for one in asked if any(route.matches(one)[0] == Match.FULL for route in app.routes)]
            headers = {"Allow": ", ".join(one["method"] for one in taken)}
        return answered(Answer(error.status_code, str(error.detail), request.url.path, headers=headers))

    @app.exception_handler(Exception)
    def unforeseen(request: Request, error: Exception) -> Response:
        return answered(Answer(500, f"{type(error).__name__}, which nobody foresaw", request.url.path, "see the log"))


def _described(app: FastAPI) -> None:
    """What OpenAPI cannot see: the key, and the shape of a problem."""
    plain: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = plain()
            parts = found["components"]
            parts["schemas"] |= _schemas(wire.Problem)
            for name in ("HTTPValidationError", "ValidationError"):
                parts["schemas"].pop(name, None)
            parts["securitySchemes"] = {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key: 'helix keys create'"}
            }
            for path, methods in found["paths"].items():
                for one in methods.values():
                    one["responses"].pop("422", None)
                    if path.startswith("/v1/") or path == "/metrics":
                        one["security"] = [{}, {"key": []}]
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _schemas(*models: type[BaseModel]) -> dict[str, Any]:
    return {model.__name__: model.model_json_schema() for model in models}
