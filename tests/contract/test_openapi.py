"""REST against its own specification, with right and wrong requests by Schemathesis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix.settings import Settings
from query.publisher import NotePublisher
from tests.support.serving import serving


@pytest.fixture(scope="module")
def client(served_store: Path) -> Iterator[httpx.Client]:
    with pytest.MonkeyPatch.context() as patch, serving(served_store, Settings()) as client:
        patch.setattr(NotePublisher, "start", lambda _: None)  # notes of the requests wait in the inbox
        yield client


@pytest.fixture(scope="module")
def specification(client: httpx.Client) -> dict[str, Any]:
    return dict(client.get("/openapi.json").json())


@pytest.mark.parametrize("examples", [1, pytest.param(100, marks=pytest.mark.soak)])
def test_answers_match_the_specification(client: httpx.Client, tmp_path: Path, examples: int) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{client.base_url}/openapi.json"]
    options = ["--checks", "all", "--max-examples", str(examples), "--seed", "1", "--no-color"]
    # An unknown name fits its schema and is refused: only the store knows the names.
    left_out = ["--exclude-checks", "positive_data_acceptance", "--exclude-path", "/metrics"]
    done = subprocess.run(
        [*command, *options, *left_out], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tested: 31" in done.stdout


def test_every_field_and_every_error_is_described(specification: dict[str, Any]) -> None:
    for path, methods in specification["paths"].items():
        for one in methods.values():
            assert one["summary"]
            for parameter in one.get("parameters", ()):
                assert parameter["description"], (path, parameter["name"])
            problems = {status for status in one["responses"] if not status.startswith("2")}
            for status in problems:
                assert list(one["responses"][status]["content"]) == ["application/problem+json"], (path, status)
            if path.startswith("/v1/"):
                assert {"400", "401", "403", "413", "429", "503"} <= problems
                assert one["security"] == [{}, {"key": []}]
    for name in ("RecallRequest", "FeedbackRequest"):
        for field in specification["components"]["schemas"][name]["properties"].values():
            assert field["description"]


def test_the_examples_are_answered_and_a_405_names_every_method(
    client: httpx.Client, specification: dict[str, Any]
) -> None:
    parameters = specification["paths"]["/v1/recall"]["get"]["parameters"]
    examples = {one["name"]: one["schema"]["examples"][0] for one in parameters if one["schema"].get("examples")}
    for name in (
        "k",
        "budget",
        "project",
        "type",
        "since",
        "until",
        "as_of",
        "ingested_as_of",
        "session",
        "speaker",
        "profile",
    ):
        found = client.get("/v1/recall", params={"query": examples["query"], name: examples[name]})
        assert found.status_code == 200, found.text
        assert found.json()["items"] or name == "ingested_as_of", name  # before everything in the store
    item = client.get("/v1/recall", params={"query": examples["query"]}).json()["items"][0]
    (identity,) = (one for one in specification["paths"]["/v1/items/{id}"]["get"]["parameters"] if one["name"] == "id")
    assert identity["schema"]["examples"] == [item["id"]]
    for path, methods in (("/v1/recall", "GET, POST"), ("/v1/feedback", "POST"), ("/v1/timeline", "GET")):
        found = client.delete(path)
        assert (found.status_code, found.headers["allow"]) == (405, methods)
