"""The official MCP client, over any transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def run_client(server: Any, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return the result of some work with a client of a server: an object, a URL, or the parameters of a command."""

    async def run() -> Any:
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(run())


def call_tool(server: Any, tool: str, **arguments: Any) -> Any:
    """Call a tool, check its answer, and return it."""
    found = run_client(server, lambda client: client.call_tool(tool, arguments))
    assert found.is_error is not True, found.content
    assert json.loads(found.content[0].text) == found.structured_content  # for clients that read text only
    return found.structured_content


def run_over_http(url: str, key: str | None, work: Any) -> Any:
    """Return the result of some work with a client over HTTP, with a key."""

    async def run() -> Any:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as c,
        ):
            return await work(c)

    return asyncio.run(run())
