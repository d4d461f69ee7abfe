"""REST over one `Service`. Every error is a problem detail (RFC 9457)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from helix import __version__
from helix.errors import HelixError, UsageError
from query.metrics import TYPE, Metrics
from query.service import Service
from query.wire import FeedbackRequest, RecallRequest

PROBLEM = "application/problem+json"
MAX_BODY = 256 * 1024  # bytes; a query is at most 10,000 characters


def problem(status: int, title: str, detail: str, instance: str) -> JSONResponse:
    """One problem detail."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": instance}
    return JSONResponse(body, status_code=status, media_type=PROBLEM)


def _no_item(request: Request) -> JSONResponse:
    """The same words whether there is no such item or the principal may not see it."""
    return problem(404, "Not Found", "no live item has this id", request.url.path)


def create_app(service: Service) -> FastAPI:
    """The application; starts and stops the service with itself."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(title="Helix", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def bounded(request: Request, call_next: Any) -> Response:
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return problem(413, "Content Too Large", f"a body has at most {MAX_BODY} bytes", request.url.path)
        if request.method == "POST" and "content-length" not in request.headers:
            return problem(411, "Length Required", "send Content-Length", request.url.path)
        response: Response = await call_next(request)
        return response

    metrics = Metrics(service)

    def recall(sent: RecallRequest) -> dict[str, Any]:
        try:
            found = service.recall(sent)
        except HelixError as error:
            metrics.failed(isinstance(error, UsageError))
            raise
        metrics.recalled(found)
        return found

    @app.exception_handler(HelixError)
    def failed(request: Request, error: HelixError) -> JSONResponse:
        status, title = (400, "Bad Request") if isinstance(error, UsageError) else (503, "Service Unavailable")
        return problem(status, title, str(error), request.url.path)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        what = "; ".join(f"{'.'.join(map(str, entry['loc'][1:]))}: {entry['msg']}" for entry in error.errors())
        return problem(400, "Bad Request", what, request.url.path)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), str(error.detail), request.url.path)

    @app.get("/v1/recall", summary="Recall, by query parameters")
    def recall_get(request: Annotated[RecallRequest, Query()]) -> dict[str, Any]:
        return recall(request)

    @app.post("/v1/recall", summary="Recall, by a JSON body")
    def recall_post(request: RecallRequest) -> dict[str, Any]:
        return recall(request)

    @app.get("/v1/items/{id}", summary="One item, by its id", response_model=None)
    def item(
        request: Request, identity: Annotated[str, Path(alias="id")], principal: str | None = None
    ) -> dict[str, Any] | Response:
        return service.fetch(identity, principal) or _no_item(request)

    @app.post("/v1/feedback", summary="Say what became of an item", status_code=202, response_model=None)
    def feedback(request: Request, sent: FeedbackRequest) -> dict[str, Any] | Response:
        return service.feedback(sent) or _no_item(request)

    @app.get("/v1/status", summary="What is published, what waits")
    def status() -> dict[str, Any]:
        return service.status()

    @app.get("/healthz", summary="The process lives")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", summary="Counts and times, for Prometheus", response_class=Response)
    def measured() -> Response:
        return Response(metrics.text(), media_type=TYPE)

    @app.get("/readyz", summary="A generation is open and answers", response_model=None)
    def readyz(request: Request) -> Response:
        if not service.ready:
            return problem(503, "Service Unavailable", service.trouble or "no generation is open yet", request.url.path)
        return JSONResponse({"status": "ready", "snapshot": service.memory.snapshot.generation})

    return app
