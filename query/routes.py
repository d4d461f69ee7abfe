"""The routes of REST over the service of one store, or of many.

The names of route functions are the operation ids of OpenAPI, so they stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from helix.errors import AccessError, HelixError, UsageError
from query.auth import Caller
from query.metrics import TYPE, QueryMetrics
from query.middleware import CALLER
from query.routing import ALWAYS, ONE, POSTED, ItemId, RawJson, Who, describe_problems, require
from query.schema import answers, entities, pages, requests, stores
from query.schema.decisions import DecisionList
from query.store_state import OUTDATED
from query.stores.many import AnyService, ManyStores
from query.write_routes import add_write_routes


class DirectRoute(APIRoute):
    """A route whose query, or JSON body, goes straight into its model; FastAPI explains one that does not fit.

    FastAPI's own way to the same call takes 0.4 ms more for a body, 1.2 ms for a query (measured).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        explain = super().get_route_handler()
        (field,) = (*self.dependant.query_params, *self.dependant.body_params)
        model = cast(type[BaseModel], field.field_info.annotation)
        read = _read_body if self.dependant.body_params else _read_query
        endpoint = cast(Callable[[Caller, BaseModel], Awaitable[Response]], self.endpoint)

        async def handle(request: Request) -> Response:
            try:
                found = await read(request, model)
            except ValidationError:
                found = None
            return await (explain(request) if found is None else endpoint(request.scope[CALLER], found))

        return handle


async def _read_body(request: Request, model: type[BaseModel]) -> BaseModel | None:
    """Read the model in a body; None for a body that is not JSON."""
    is_json = request.headers.get("content-type") == "application/json"
    return model.model_validate_json(await request.body()) if is_json else None


async def _read_query(request: Request, model: type[BaseModel]) -> BaseModel:
    """Read the model in query parameters, the last of each. A list is never read: a single text does not fit it."""
    return model.model_validate(dict(request.query_params))


_EVENT: Final = {"type": "object", "properties": {name: {"type": "string"} for name in ("data", "event", "id")}}
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "events until the last", "content": {"text/event-stream": {"schema": _EVENT}}},
    204: {"description": "the client has the last event, and need not reconnect"},
}

_NO_JOB: Final = "no recall of yours has this id, or it has expired"

SessionId = Annotated[requests.SessionId, Path(alias="id")]


def make_routers(service: AnyService, metrics: QueryMetrics) -> tuple[APIRouter, ...]:
    """Return the routers of the whole API."""
    v1 = APIRouter(prefix="/v1", responses=ALWAYS)
    asked = APIRouter(prefix="/v1", responses=ALWAYS, route_class=DirectRoute)
    posted = APIRouter(prefix="/v1", responses=POSTED, route_class=DirectRoute)
    _add_recall_routes(asked, posted, service, metrics)
    _add_deep_routes(v1, posted, service, metrics)
    _add_browse_routes(v1, service)
    _add_entity_routes(v1, service)
    _add_agent_routes(v1, posted, service)
    add_write_routes(v1, service)
    if isinstance(service, ManyStores):
        _add_store_routes(v1, service)
    return asked, posted, v1, _make_process_routes(service, metrics)


def _add_recall_routes(asked: APIRouter, posted: APIRouter, service: AnyService, metrics: QueryMetrics) -> None:
    def run(request: requests.RecallRequest, caller: Caller) -> RawJson:
        try:
            answer = service.recall(request, caller)
        except HelixError as error:
            metrics.count_failure(
                isinstance(error, UsageError), None if isinstance(error, AccessError) else caller.store
            )
            raise
        metrics.count_answer(answer, caller.store)
        return RawJson(answer)

    @asked.get("/recall", summary="Recall, by query parameters", response_model=answers.RecallAnswer, tags=["recall"])
    async def recall_get(caller: Who, request: Annotated[requests.WideRecallRequest, Query()]) -> RawJson:
        return await service.run_in_turn(run, request, caller)

    @posted.post("/recall", summary="Recall, by a JSON body", response_model=answers.RecallAnswer, tags=["recall"])
    async def recall_post(caller: Who, request: requests.WideRecallRequest) -> RawJson:
        return await service.run_in_turn(run, request, caller)

    about = "A context as text: for a question, or a briefing about the newest sessions"

    @asked.get("/context", summary=about, response_class=PlainTextResponse, tags=["recall"])
    async def context(caller: Who, request: Annotated[requests.ContextRequest, Query()]) -> PlainTextResponse:
        return PlainTextResponse(await service.run_in_turn(service.context, request, caller))


def _add_deep_routes(v1: APIRouter, posted: APIRouter, service: AnyService, metrics: QueryMetrics) -> None:
    post = partial(posted.post, response_model=answers.DeepAnswer, tags=["recall"])
    get = partial(v1.get, tags=["recall"])

    @post("/recall/deep", summary="Recall with a language model: a first answer, and a job", status_code=202)
    async def deep(caller: Who, request: requests.RecallRequest) -> RawJson:
        report = await service.run_in_turn(service.start_deep, request, caller)
        metrics.count_answer(report["answer"])
        place = f"/v1/recall/deep/{report['job']}"
        return RawJson(report, status_code=202, headers={"location": place, "retry-after": "1"})

    about = "The status of a job, with the best answer so far"

    @get("/recall/deep/{job}", summary=about, response_model=answers.DeepAnswer, responses=ONE)
    async def deep_job(caller: Who, job: requests.JobId) -> RawJson:
        return RawJson(require(await service.run_in_turn(service.report_deep, job, caller), _NO_JOB))

    about, responses = "The same as server-sent events: `first`, then `deep`", {**ONE, **_EVENTS}

    @get("/recall/deep/{job}/events", summary=about, response_class=Response, responses=responses)
    async def deep_events(caller: Who, job: requests.JobId, request: Request) -> Response:
        stream = require(await service.stream_deep(job, caller), _NO_JOB)
        if request.headers.get("last-event-id") == "deep":
            return Response(status_code=204)
        return EventSourceResponse(stream, headers={"x-accel-buffering": "no"})


def _add_browse_routes(v1: APIRouter, service: AnyService) -> None:
    browse = partial(v1.get, tags=["browse"])
    find = partial(browse, responses=ONE)

    @find("/items/{id}", summary="One item", response_model=answers.StoredItem)
    def item(caller: Who, identity: ItemId, request: Annotated[requests.PrincipalRequest, Query()]) -> RawJson:
        return RawJson(require(service.fetch(identity, request, caller)))

    @find("/items/{id}/around", summary="The items before and after one", response_model=answers.ItemWindow)
    def around(caller: Who, identity: ItemId, request: Annotated[requests.AroundRequest, Query()]) -> RawJson:
        return RawJson(require(service.browse("around", request, caller, identity)))

    @find("/items/{id}/graph", summary="The connections of an item", response_model=answers.Neighbourhood)
    def graph(caller: Who, identity: ItemId, request: Annotated[requests.MomentRequest, Query()]) -> RawJson:
        return RawJson(require(service.browse("neighbours", request, caller, identity)))

    @find("/sessions/{id:path}", summary="A session in reading order", response_model=answers.SessionPage)
    def session(caller: Who, identity: SessionId, request: Annotated[requests.SessionRequest, Query()]) -> RawJson:
        return RawJson(require(service.browse("session", request, caller, identity), "no live session has this name"))

    @browse("/timeline", summary="Sessions, newest first", response_model=answers.Timeline)
    def timeline(caller: Who, request: Annotated[requests.TimelineRequest, Query()]) -> RawJson:
        return RawJson(service.browse("timeline", request, caller))

    @browse("/facts", summary="Facts about an entity", response_model=answers.FactPage)
    def facts(caller: Who, request: Annotated[requests.FactsRequest, Query()]) -> RawJson:
        return RawJson(service.browse("facts", request, caller))

    @browse("/decisions", summary="Decisions that hold, and rejections", response_model=DecisionList)
    def decisions(caller: Who, request: Annotated[requests.DecisionsRequest, Query()]) -> RawJson:
        return RawJson(service.browse("decisions", request, caller))

    about = "The newest sessions, what holds, what is open, the last week, and questions to try"

    @browse("/home", summary=about, response_model=pages.HomePage)
    async def home(caller: Who, request: Annotated[requests.HomeRequest, Query()]) -> RawJson:
        return RawJson(await service.run_in_turn(service.open_page, "home", request, caller))

    @find("/outline", summary="The turns, steps, fixes and decisions of a session", response_model=pages.Outline)
    def outline(caller: Who, request: Annotated[requests.OutlineRequest, Query()]) -> RawJson:
        found = service.open_page("outline", request, caller, request.session)
        return RawJson(require(found, "no live session has this name"))

    @browse("/choices", summary="The values of each filter", response_model=answers.FilterChoices)
    def choices(caller: Who, request: Annotated[requests.PrincipalRequest, Query()]) -> RawJson:
        return RawJson(service.browse("choices", request, caller))


def _add_entity_routes(v1: APIRouter, service: AnyService) -> None:
    browse = partial(v1.get, tags=["browse"])

    @browse("/entities", summary="People, files and other names", response_model=entities.EntityPage)
    def list_entities(caller: Who, request: Annotated[entities.EntitiesRequest, Query()]) -> RawJson:
        return RawJson(service.browse("entities", request, caller))

    @browse("/graph", summary="Names that items name together", response_model=entities.EntityGraph)
    def entity_graph(caller: Who, request: Annotated[entities.GraphRequest, Query()]) -> RawJson:
        return RawJson(service.browse("graph", request, caller))

    @browse("/subject", summary="What is known of a person, a file or a topic", response_model=entities.Subject)
    def subject(caller: Who, request: Annotated[entities.SubjectRequest, Query()]) -> RawJson:
        return RawJson(service.browse("subject", request, caller))


def _add_agent_routes(v1: APIRouter, posted: APIRouter, service: AnyService) -> None:
    post = partial(v1.post, status_code=202, responses={**POSTED, **ONE}, tags=["tell"])

    @post("/feedback", summary="Give feedback on an item", response_model=answers.FeedbackReceipt)
    def feedback(caller: Who, request: requests.FeedbackRequest) -> RawJson:
        return RawJson(require(service.feedback(request, caller)), status_code=202)

    about = "The context that an agent's hook adds"

    @posted.post("/hook", summary=about, response_model=answers.HookAnswer, tags=["tell"])
    async def hook(caller: Who, request: requests.HookRequest) -> RawJson:
        return RawJson(await service.run_in_turn(service.hook, request, caller))


def _add_store_routes(v1: APIRouter, service: ManyStores) -> None:
    @v1.get("/stores", summary="Your stores on this server", response_model=stores.StoreList, tags=["operate"])
    def list_stores(caller: Who) -> RawJson:
        return RawJson({"stores": service.list_stores(caller)})


def _make_process_routes(service: AnyService, metrics: QueryMetrics) -> APIRouter:
    """Return the routes about the process itself."""
    router = APIRouter(tags=["operate"])

    @router.get("/v1/status", summary="The store's state", response_model=answers.StoreStatus, responses=ALWAYS)
    def status(caller: Who) -> RawJson:
        return RawJson(service.status(caller))

    @router.get("/healthz", summary="The process lives", response_model=answers.Health)
    async def healthz() -> RawJson:
        return RawJson({"status": "ok"})

    ready = partial(router.get, response_model=answers.Health, responses=describe_problems(503))

    @ready("/readyz", summary="A generation is open and answers")
    async def readyz(request: Request) -> Response:
        if not service.is_ready:
            raise HTTPException(503, service.trouble or "no generation is open yet")
        state = {"status": "ready", **service.describe_ready()}
        return RawJson({**state, "trouble": OUTDATED} if service.trouble else state)

    measure = partial(router.get, response_class=PlainTextResponse, responses=describe_problems(401, 403, 429, 503))

    @measure("/metrics", summary="Counts and times, for Prometheus", operation_id="measured_metrics_get")
    def render_metrics() -> Response:
        return Response(metrics.render(), media_type=TYPE)

    return router
