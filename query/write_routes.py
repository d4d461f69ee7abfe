"""The routes of REST that write, and those that say what a caller may write. No GET changes anything."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter

from query import kept_out, writes
from query.auth import SCOPES
from query.routing import ONE, POSTED, ItemId, RawJson, Who, require
from query.schema import writes as wire
from query.schema.tools import NoteReceipt
from query.stores.many import AnyService


def add_write_routes(v1: APIRouter, service: AnyService) -> None:
    """Add the routes. They run in threads: a deletion takes seconds."""
    _add_rights(v1, service)
    _add_notes(v1, service)
    _add_deletions(v1, service)


def _add_rights(v1: APIRouter, service: AnyService) -> None:
    @v1.get("/rights", summary="What you may do here", response_model=wire.Rights, tags=["operate"])
    def rights(caller: Who) -> RawJson:
        scopes = [scope for scope in SCOPES if scope in caller.scopes]
        projects = None if caller.projects is None else list(caller.projects)
        return RawJson({"key": bool(caller.key), "principal": caller.principal, "projects": projects, "scopes": scopes})

    @v1.get("/kept-out", summary="What is kept out of the store", response_model=wire.KeptOutList, tags=["operate"])
    def list_kept_out(caller: Who) -> RawJson:
        return RawJson({"off": kept_out.list_kept_out(service, caller)})


def _add_notes(v1: APIRouter, service: AnyService) -> None:
    post = partial(v1.post, status_code=202, response_model=NoteReceipt, tags=["tell"])

    def accept(receipt: dict[str, Any]) -> RawJson:
        return RawJson(receipt, status_code=202)

    @post("/notes", summary="Remember a note", responses=POSTED)
    def remember(caller: Who, request: wire.NoteRequest) -> RawJson:
        fields = request.model_dump(exclude={"principal"})
        return accept(writes.remember(service, caller.act_as(request.principal), **fields))

    about = "Pin an item: a note with its text at the top of every briefing"

    @post("/items/{id}/pin", summary=about, responses={**POSTED, **ONE})
    def pin(caller: Who, identity: ItemId, request: wire.PinRequest) -> RawJson:
        return accept(require(writes.pin(service, caller.act_as(request.principal), identity, by=request.by)))

    about = "Correct an item: a note that replaces it from now on"

    @post("/items/{id}/correct", summary=about, responses={**POSTED, **ONE})
    def correct(caller: Who, identity: ItemId, request: wire.CorrectionRequest) -> RawJson:
        found = writes.correct(service, caller.act_as(request.principal), identity, request.text, by=request.by)
        return accept(require(found))


def _add_deletions(v1: APIRouter, service: AnyService) -> None:
    post = partial(v1.post, responses=POSTED, tags=["tell"])
    about = "Forget items or a session for good: a preview, then with its word the deletion"

    @post("/forget", summary=about, response_model=wire.ForgetPreview | wire.ForgetDone)
    def forget(caller: Who, request: wire.ForgetRequest) -> RawJson:
        found = writes.plan_removal(service, caller.act_as(request.principal), request.items, request.session)
        if request.confirm:
            return RawJson({"forgotten": True, "receipt": writes.forget(found, request.confirm)})
        shown = found.choose_newest().describe()
        return RawJson({"forgotten": False, "total": len(found.rows), "items": shown, "confirm": found.word})

    about = "Keep what is said in a session out of the store from now on, or store it again"

    @post("/sessions/keep-out", summary=about, response_model=wire.SwitchedSession)
    def keep_out(caller: Who, request: wire.KeepOutRequest) -> RawJson:
        return RawJson(kept_out.keep_out(service, caller.act_as(request.principal), request.session, request.off))
