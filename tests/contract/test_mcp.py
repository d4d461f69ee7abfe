"""`helix mcp` as an agent meets it: the official client, over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from helix.memory import open as open_store

QUESTION = "What did I tell Priya about vacation?"


def asked(store: Path, cache: Path, work: Any) -> Any:
    arguments = ["-m", "helix.cli", "mcp", "--store", str(store)]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env={**os.environ, "HELIX_CACHE": str(cache)}
    )

    async def run() -> Any:
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(run())


def test_the_tool_says_what_it_is(sample_store: Path, cache: Path) -> None:
    async def work(client: Client) -> Any:
        return client.instructions, await client.list_tools()

    instructions, listed = asked(sample_store, cache, work)
    (tool,) = [tool for tool in listed.tools if tool.name == "recall"]
    assert "quoted data" in instructions
    assert tool.annotations.read_only_hint is True
    assert set(tool.input_schema["required"]) == {"query"}
    assert tool.output_schema["properties"].keys() == {"context", "items", "tokens", "degraded"}


def test_it_answers_as_the_library_does(sample_store: Path, cache: Path) -> None:
    async def work(client: Client) -> Any:
        return await client.call_tool("recall", {"query": QUESTION, "k": 5, "budget": 800})

    found = asked(sample_store, cache, work)
    own = open_store(sample_store).recall(QUESTION, k=5, budget=800)
    assert found.is_error is not True
    assert found.structured_content["context"] == own.context
    assert [item["id"] for item in found.structured_content["items"]] == [item.id for item in own.items]
    assert json.loads(found.content[0].text)["tokens"] == own.tokens


def test_what_is_wrong_is_said_with_its_remedy(sample_store: Path, cache: Path, tmp_path: Path) -> None:
    async def work(client: Client) -> Any:
        return await client.call_tool("recall", {"query": QUESTION, "project": "nowhere"})

    found = asked(sample_store, cache, work)
    assert found.is_error is True
    assert "unknown project 'nowhere'" in found.content[0].text
    found = asked(tmp_path / "none", cache, work)
    assert found.is_error is True
    assert "Traceback" not in found.content[0].text
