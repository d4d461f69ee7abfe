"""Telemetry: metrics, and logs without any text of a document."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from helix.cli.logging import build_formatter
from helix.settings import load
from query.rest import create_app
from query.service import QueryService

NAME = "ab" * 32


@pytest.fixture(params=[True, False], ids=["json", "plain"])
def log(request: pytest.FixtureRequest) -> tuple[bool, logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(build_formatter(json=request.param))
    logger = logging.Logger("helix.test")
    logger.addHandler(handler)
    return request.param, logger, stream


def test_log_fields_are_sent_with_an_error(log: tuple[bool, logging.Logger, io.StringIO]) -> None:
    as_json, logger, stream = log
    logger.info("enriched", extra={"document": NAME, "items": 3})
    if as_json:
        entry = json.loads(stream.getvalue())
        assert entry.pop("time").endswith("Z")
        assert entry.pop("process") > 0
        assert entry == {"level": "INFO", "logger": "helix.test", "event": "enriched", "document": NAME, "items": 3}
    else:
        assert stream.getvalue().endswith(f"enriched  document={NAME[:12]}… items=3\n")


def test_the_arguments_of_a_task_are_not_sent(log: tuple[bool, logging.Logger, io.StringIO]) -> None:
    _, logger, stream = log
    logger.info("received", extra={"data": {"args": "a zorbified word"}})
    assert "zorbified" not in stream.getvalue()
    assert "received" in stream.getvalue()


@pytest.fixture
def client(sample_store: Path) -> Iterator[TestClient]:
    with TestClient(create_app(QueryService(sample_store, load())), "http://localhost") as made:
        yield made


def value(text: str, series: str) -> float:
    return float(next(line for line in text.splitlines() if line.startswith(series)).rsplit(" ", 1)[1])


def test_recalls_are_counted_by_outcome(client: TestClient) -> None:
    for _ in range(3):
        assert client.get("/v1/recall", params={"query": "why sqlite"}).status_code == 200
    assert client.get("/v1/recall", params={"query": "why sqlite", "profile": "nobody"}).status_code == 400
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    entry = answer.text
    assert value(entry, 'helix_recalls_total{outcome="answered"}') == 3
    assert value(entry, 'helix_recalls_total{outcome="refused"}') == 1
    assert value(entry, "helix_recall_seconds_count") == 3
    assert 0 < value(entry, "helix_recall_seconds_sum") < 10
    assert value(entry, 'helix_stage_seconds_count{stage="lexical"}') >= 1
    status = client.get("/v1/status").json()
    assert value(entry, "helix_items ") == status["items"]
    assert value(entry, "helix_generation ") == status["generation"]
    assert value(entry, "helix_ready ") == 1
    assert value(entry, "process_resident_memory_bytes ") > 1e7


def test_an_unreadable_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("00000001-0123456789abcdef.json\n")
    with TestClient(create_app(QueryService(tmp_path, load())), "http://localhost") as made:
        assert made.get("/v1/recall", params={"query": "why"}).status_code == 503
        entry = made.get("/metrics").text
    assert value(entry, "helix_ready ") == 0
    assert value(entry, "helix_trouble ") == 1
    assert value(entry, 'helix_recalls_total{outcome="failed"}') == 1
