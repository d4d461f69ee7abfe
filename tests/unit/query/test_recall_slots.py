"""A server runs a few recalls at once; the others wait, and other requests do not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from helix.settings import Settings
from query.rest import create_app
from query.service import MAX_RUNNING, QueryService

ASKED = {"query": "why sqlite"}
TOOL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "recall", "arguments": ASKED}}
AGENT = {"accept": "application/json, text/event-stream"}
RECALLS = {
    "post": ("POST", "/v1/recall", ASKED),
    "get": ("GET", "/v1/recall?query=why+sqlite", None),
    "context": ("GET", "/v1/context?query=why+sqlite", None),
    "hook": ("POST", "/v1/hook", {"event": "UserPromptSubmit", "prompt": "why sqlite", "project": "helix"}),
    "mcp": ("POST", "/mcp", TOOL),
}


@pytest.fixture(scope="module")
def service(sample_store: Path) -> QueryService:
    return QueryService(sample_store, Settings())


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[TestClient]:
    with TestClient(create_app(service), "http://localhost") as made:
        yield made


@pytest.mark.parametrize("kind", RECALLS)
def test_a_recall_waits_while_all_slots_are_busy(client: TestClient, service: QueryService, kind: str) -> None:
    method, path, body = RECALLS[kind]
    release = threading.Event()
    taken = [service._pool.submit(release.wait, 60) for _ in range(MAX_RUNNING)]
    with ThreadPoolExecutor(1) as other:
        try:
            asked = other.submit(client.request, method, path, json=body, headers=AGENT)
            assert not wait([asked], timeout=0.3).done
            assert client.get("/healthz").json() == {"status": "ok"}
            assert client.get("/v1/choices").status_code == 200
        finally:
            release.set()
        assert asked.result(60).status_code == 200
    assert all(one.result() for one in taken)


def test_so_many_run_at_once_in_the_order_they_came_and_an_error_reaches_its_caller(service: QueryService) -> None:
    begun: list[int] = []
    under_way: list[int] = []
    most: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        under_way.append(number)
        most.append(len(under_way))
        threading.Event().wait(0.002)
        under_way.remove(number)
        return number

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(service.run_in_turn(work, number) for number in range(50)))

    assert asyncio.run(all_of_them()) == list(range(50))
    assert max(most) == MAX_RUNNING
    assert all(abs(place - number) < MAX_RUNNING for place, number in enumerate(begun))
    with pytest.raises(KeyError, match="lost"):
        asyncio.run(service.run_in_turn({}.__getitem__, "lost"))
