"""Deep recall with a rerank API, alone and with a chat model, in the styles of Cohere, Jina and Voyage."""

from __future__ import annotations

import json
import logging
import re
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helix.deep import jobs
from helix.sdk.open import open_memory
from helix.settings import Settings, load
from helix.types import Bundle
from pipelines.embedded.ingest import ingest
from tests.contract.test_deep import NOW, QUESTION, without_clock
from tests.support.chat_server import STATUSES, TRANSPORT_FAULTS, Chat
from tests.support.fleet import worker
from tests.support.processes import pick_port, wait_until
from tests.support.rerank_replies import RERANK_FAULTS, STYLES
from tests.support.serving import serving
from workers.cli.up import _list_commands

KEY = "pa-reranker-key"


@pytest.fixture
def chat(chat: Chat, tmp_path: Path) -> Chat:
    """The endpoints with a log of this test."""
    return chat.start_log(tmp_path.name)


def settings(chat: Chat, **given: Any) -> Settings:
    """Return settings with a rerank API and no chat endpoint."""
    asked = {"rerank_url": f"{chat.url}/rerank", "rerank_model": "cohere", "rerank_key": KEY}
    return replace(load(), **{**asked, "deep_projects": "*", "deep_seconds": 10.0, "answers": 0, **given})


def recall_deep(root: Path, chat: Chat, query: str = QUESTION, *, k: int = 10, **given: Any) -> Bundle:
    return open_memory(root, settings(chat, **given)).recall(query, now=NOW, tier="deep", k=k)


@pytest.mark.parametrize("style", STYLES)
def test_a_rerank_api_alone_orders_the_memories(own_store: Path, chat: Chat, style: str) -> None:
    plain = open_memory(own_store, settings(chat)).recall(QUESTION, now=NOW)
    found = recall_deep(own_store, chat, rerank_model=style)
    assert (found.degraded, "passport" in plain.items[0].text) == ((), False)
    assert "passport" in found.items[0].text
    assert found.items[0].why["model"] == 1
    assert any(item is found.items[0] for item in found.packed)
    (request,) = chat.list_requests()
    assert request["path"].endswith("/v1/rerank")
    assert request["key"] == f"Bearer {KEY}"
    body = request["body"]
    assert set(body) == {"model", "query", "documents"}
    assert (body["model"], body["query"]) == (style, QUESTION)
    assert found.deep is not None
    ranked = found.deep["rerank"]
    assert (ranked["model"], ranked["documents"]) == (style, len(body["documents"]))
    assert ranked["billed"] == ({"search_units": 1} if style == "cohere" else {"total_tokens": 815})
    assert 0 < ranked["ms"] < 10_000
    assert (found.deep["model"], found.deep["calls"], found.deep["techniques"]) == ("", 1, ["rerank"])
    assert (found.deep["sent"], found.deep["wordings"]) == (ranked["documents"], {})
    # Each memory is sent in the form of the fast answer's order: day, speaker, text.
    assert 1 < len(body["documents"]) <= 40
    assert all(" ".join(item.text.split())[:20] in "\n".join(body["documents"]) for item in plain.items)


def test_a_partial_ranking_leaves_the_others_in_their_order(own_store: Path, chat: Chat) -> None:
    whole = recall_deep(own_store, chat, k=40)
    partial = recall_deep(own_store, chat, k=40, rerank_model="jina-3")
    by_model = sorted(partial.items, key=lambda item: item.why["model"])
    assert [item.id for item in by_model[:3]] == [
        item.id for item in sorted(whole.items, key=lambda item: item.why["model"])[:3]
    ]
    documents = chat.list_rankings()[-1]["documents"]
    places = [next(i for i, text in enumerate(documents) if item.text[:40] in text) for item in by_model[3:]]
    assert places == sorted(places)


def test_with_a_chat_model_the_rerank_api_orders_what_the_wordings_found(own_store: Path, chat: Chat) -> None:
    found = recall_deep(own_store, chat, deep_url=chat.url, deep_model="good", deep_key="sk-chat")
    assert found.degraded == ()
    assert found.deep is not None
    requests = chat.list_requests()
    ends = sorted(request["path"].rpartition("/v1/")[2] for request in requests)
    assert ends == ["chat/completions"] * 3 + ["rerank"]
    keys = {request["path"].rpartition("/v1/")[2]: request["key"] for request in requests}
    assert keys == {"chat/completions": "Bearer sk-chat", "rerank": f"Bearer {KEY}"}
    assert "indices" not in chat.read_text()  # the chat model is asked for no order
    assert (found.deep["model"], found.deep["rerank"]["model"], found.deep["calls"]) == ("good", "cohere", 4)
    assert "passport" in found.items[0].text
    chat.forget()
    assert recall_deep(own_store, chat, deep_url=chat.url, deep_model="good", deep_techniques="hyde").degraded == ()
    assert chat.list_rankings() == []


def test_only_permitted_memories_and_no_secret_are_sent(own_store: Path, chat: Chat) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    log = own_store.parent / "secret.jsonl"
    texts = (f"The laptop's token is {secret}", "The laptop's bag is blue")
    lines = [{"session": "s", "id": str(i), "text": text, "project": "holidays"} for i, text in enumerate(texts)]
    log.write_text("\n".join(map(json.dumps, lines)))
    assert not ingest(own_store, [log], load()).refused
    found = recall_deep(own_store, chat, f"is {secret} the laptop's?", deep_projects="holidays")
    assert found.deep is not None
    assert found.deep["sent"] > 1
    assert "The laptop's token is" in chat.read_text()
    assert secret not in chat.read_text()
    assert "Redis" not in chat.read_text()  # of another project
    chat.forget()
    nothing = recall_deep(own_store, chat, deep_projects="")
    assert "HELIX_DEEP_PROJECTS" in nothing.deep["left_out"]["rerank"]
    assert "rerank" not in nothing.deep
    assert chat.list_requests() == []


def test_documents_and_question_are_cut(own_store: Path, chat: Chat) -> None:
    def measure(**given: Any) -> int:
        chat.forget()
        assert recall_deep(own_store, chat, **given).degraded == ()
        return sum(map(len, chat.list_rankings()[0]["documents"]))

    assert measure(deep_tokens=1_000) < measure() // 2
    chat.forget()
    recall_deep(own_store, chat, f"laptop \u200b{'x' * 5_000}\n\nlaptop")
    (body,) = chat.list_rankings()
    assert len(body["query"]) <= 2_000
    assert not [text for text in (body["query"], *body["documents"]) if re.search(r"[\u200b\n]", text)]


def test_options_add_and_remove_fields(own_store: Path, chat: Chat) -> None:
    recall_deep(own_store, chat, rerank_options='{"top_n": 5, "max_tokens_per_doc": 512, "model": "voyage"}')
    (body,) = chat.list_rankings()
    assert (body["top_n"], body["max_tokens_per_doc"], body["model"]) == (5, 512, "voyage")


def test_a_repeated_question_needs_no_request(own_store: Path, chat: Chat) -> None:
    first = recall_deep(own_store, chat)
    chat.forget()
    again = recall_deep(own_store, chat)
    assert chat.list_requests() == []
    assert (again.items, again.deep["cached"], again.deep["calls"]) == (first.items, True, 0)
    assert again.deep["rerank"] == first.deep["rerank"]
    for changed in ({"rerank_model": "jina"}, {"rerank_options": '{"top_n": 9}'}, {"rerank_url": chat.url}):
        chat.forget()
        assert recall_deep(own_store, chat, **changed).degraded == ()
        assert len(chat.list_requests()) == 1, changed


@pytest.mark.parametrize("fault", [*TRANSPORT_FAULTS, *RERANK_FAULTS])
def test_any_fault_leaves_the_fast_answer(own_store: Path, chat: Chat, fault: str, caplog: Any) -> None:
    seconds = 2.0 if fault in ("slow", "drip") else 120.0
    memory = open_memory(own_store, settings(chat, rerank_model=fault, deep_seconds=seconds))
    plain = memory.recall(QUESTION, now=NOW)
    began = time.monotonic()
    with caplog.at_level(logging.DEBUG):
        found = memory.recall(QUESTION, now=NOW, tier="deep")
    assert time.monotonic() - began < 60
    assert without_clock(found) == without_clock(plain)
    (reason,) = found.degraded
    assert reason.startswith("deep: rerank: the endpoint")
    if fault in STATUSES:
        assert f"the endpoint answers {STATUSES[fault]}" in reason
    assert ("has more than" in reason) == (fault == "huge")
    assert KEY not in reason
    assert KEY not in caplog.text
    assert chat.url not in reason
    assert len(chat.list_requests()) == 1  # nothing is repeated
    assert not list((own_store / "deep").glob("*.kept"))
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (own_store / "deep").iterdir())


def test_a_failing_rerank_api_spoils_the_wordings_too(own_store: Path, chat: Chat) -> None:
    found = recall_deep(own_store, chat, deep_url=chat.url, deep_model="good", rerank_model="429")
    assert found.deep is None
    assert re.fullmatch(r"deep: rerank: the endpoint answers 429: too many requests.*", found.degraded[0])


def test_a_wrong_setting_is_reported(own_store: Path, chat: Chat) -> None:
    for given, message in (
        ({"rerank_url": ""}, "no endpoint is named (HELIX_DEEP_URL or HELIX_RERANK_URL), and no worker"),
        ({"rerank_url": "api.voyageai.com/v1"}, "HELIX_RERANK_URL is no URL"),
        ({"rerank_url": f"http://127.0.0.1:{pick_port()}/v1"}, "rerank: the endpoint cannot be reached"),
        ({"rerank_model": ""}, "HELIX_RERANK_MODEL"),
        ({"rerank_key": "käse"}, "HELIX_RERANK_KEY has characters"),
        ({"rerank_options": "[1]"}, "HELIX_RERANK_OPTIONS is no JSON object"),
        ({"deep_techniques": "hyde,query2doc"}, "HELIX_DEEP_TECHNIQUES has none"),
    ):
        found = recall_deep(own_store, chat, **given)
        assert message in found.degraded[0], given
        assert "käse" not in found.degraded[0]
        assert found.items
    assert chat.list_requests() == []


def test_helix_up_runs_a_deep_worker_where_an_endpoint_is_set() -> None:
    options = Namespace(bulk=1, metrics_port=0, port=1, watch=False)
    for given, is_run in (({}, False), ({"rerank_url": "http://h/rerank"}, True), ({"deep_url": "http://h"}, True)):
        assert ("deep" in _list_commands(options, Settings(**given))) == is_run


def test_a_worker_asks_the_rerank_api_for_the_query_process(
    own_store: Path, chat: Chat, redis_url: str, tmp_path: Path, call_helix
) -> None:
    own = {"HELIX_RERANK_URL": f"{chat.url}/rerank", "HELIX_RERANK_MODEL": "voyage", "HELIX_RERANK_KEY": KEY}
    log, broker = tmp_path / "worker.log", f"{redis_url.removesuffix('0')}9"
    with worker(own_store, broker, "deep", log, HELIX_DEEP_PROJECTS="*", HELIX_DEEP_SECONDS="20", **own) as process:
        wait_until(60, lambda: jobs.has_worker(own_store) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        with serving(own_store, replace(load(), deep_seconds=20.0)) as client:
            job = client.post("/v1/recall/deep", json={"query": QUESTION, "now": NOW}).json()["job"]
            answer: dict[str, Any] = {}

            def is_done() -> bool:
                answer.update(client.get(f"/v1/recall/deep/{job}").raise_for_status().json())
                return bool(answer["status"] == "done")

            wait_until(60, is_done)
        done = call_helix("recall", QUESTION, "--now", NOW, "--tier", "deep", "--store", own_store)
    assert "passport" in answer["answer"]["items"][0]["text"]
    assert (answer["answer"]["degraded"], answer["answer"]["deep"]["rerank"]["model"]) == ([], "voyage")
    assert "deep · voyage · cached · " in done.stdout
    assert "815 total tokens billed" in done.stdout
    assert len(chat.list_requests()) == 1
    assert KEY not in log.read_text()
    assert not [path for path in own_store.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
