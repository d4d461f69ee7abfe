"""The MCP tools that write: remember, correct, feedback and forget. A key needs their scopes; stdio has the owner's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from helix.errors import HelixError
from helix.util.sanitise import sanitise_all
from query import writes
from query.auth import Caller
from query.schema import requests as wire
from query.schema.tools import ForgetAnswer, NoteReceipt
from query.stores.many import AnyService

_WRITES: Final = ToolAnnotations(
    read_only_hint=False, idempotent_hint=False, open_world_hint=False, destructive_hint=False
)
_DELETES: Final = ToolAnnotations(
    read_only_hint=False, idempotent_hint=True, open_world_hint=False, destructive_hint=True
)

Note = Annotated[str, Field(min_length=1, max_length=4_000, description="what to remember, in whole sentences")]
ItemIds = Annotated[list[str], Field(min_length=1, max_length=50, description="item ids, or places such as s1#t2")]

FindCaller = Callable[[Context[Any, Any]], Caller]
FindProject = Callable[[Context[Any, Any], str | None], str | None]


def add_writing(server: MCPServer, service: AnyService, find_caller: FindCaller, find_project: FindProject) -> None:
    """Add the tools that write."""
    _add_notes(server, service, find_caller, find_project)
    _add_verdicts(server, service, find_caller)


def _add_notes(server: MCPServer, service: AnyService, find_caller: FindCaller, find_project: FindProject) -> None:
    @server.tool(
        description="Remember a note for later sessions, such as a decision, a convention or a working command. It is "
        "marked as an agent's, and weighs less than what the user said. Only what the user stated or the work showed.",
        annotations=_WRITES,
    )
    def remember(
        context: Context,
        text: Note,
        project: wire.Project = None,
        scope: Annotated[str, Field(description="project, or user: for all projects")] = "project",
        type: wire.Type = None,
        pin: Annotated[bool, Field(description="show it at the start of every session")] = False,
    ) -> NoteReceipt:
        with _translate_errors():
            named = find_project(context, project)
            found = writes.remember(
                service, find_caller(context), text, project=named, scope=scope, type=type, pinned=pin
            )
        return NoteReceipt(**sanitise_all(found))

    @server.tool(
        description="Correct an item that is wrong or no longer holds: your text replaces it from now on.",
        annotations=_WRITES,
    )
    def correct(context: Context, item: wire.ItemId, text: Note) -> NoteReceipt:
        with _translate_errors():
            found = writes.correct(service, find_caller(context), item, text)
        if found is None:
            raise ToolError(f"no live item is {item[:64]!r}; take it from recall, search or timeline")
        return NoteReceipt(**sanitise_all(found))


def _add_verdicts(server: MCPServer, service: AnyService, find_caller: FindCaller) -> None:
    @server.tool(
        description="Tell what became of an item: used, helpful, wrong or stale.",
        annotations=_WRITES,
    )
    def feedback(
        context: Context,
        item: wire.ItemId,
        kind: Annotated[str, Field(description="used, helpful, wrong or stale")],
    ) -> dict[str, str]:
        caller = find_caller(context)
        with _translate_errors():
            caller.check_scope("feedback")
            event = service.feedback(wire.FeedbackRequest(item=item, kind=kind), caller)
        if event is None:
            raise ToolError(f"no live item is {item[:64]!r}; take it from recall, search or timeline")
        return {"item": event["item"], "kind": event["kind"]}

    @server.tool(
        description="Forget items for good, from every byte of the store. Without `confirm` it only tells what would "
        "go and returns a word; show that to the user, and call again with the word once the user agrees.",
        annotations=_DELETES,
    )
    def forget(
        context: Context,
        items: ItemIds,
        confirm: Annotated[str, Field(max_length=64, description="the word of the first call")] = "",
    ) -> ForgetAnswer:
        caller = find_caller(context)
        with _translate_errors():
            found = writes.plan_removal(service, caller, items)
            if not confirm:
                shown = [{"id": one["id"], "text": one["text"]} for one in found.describe()]
                return ForgetAnswer(forgotten=False, items=shown, confirm=found.word)
            receipt = writes.forget(found, confirm)
        return ForgetAnswer(forgotten=True, receipt=sanitise_all(receipt))


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise the service's errors as errors of MCP, with the remedy."""
    try:
        yield
    except HelixError as error:
        raise ToolError(str(error)) from None
