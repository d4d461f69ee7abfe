"""A memory as LangChain and LlamaIndex meet it: the real packages, without a model or a network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import helix
from helix.adapters import metadata
from helix.errors import UsageError
from helix.types import Bundle

QUESTION = "What did I tell Priya about vacation?"
OTHER = "why sqlite"
OPTIONS = {"k": 4, "now": "2026-06-01T00:00:00Z"}


@pytest.fixture(scope="module")
def memory(sample_store: Path) -> helix.Memory:
    return helix.open(sample_store)


class Elsewhere:
    """A memory that is no `Memory`, as behind a server: it keeps what was asked, and says that a leg was missing."""

    def __init__(self, memory: helix.Memory) -> None:
        self.memory = memory
        self.asked: list[tuple[str, dict[str, Any], threading.Thread]] = []

    def recall(self, query: str, *, k: int = 10, project: str | None = None) -> Bundle:
        self.asked.append((query, {"k": k, "project": project}, threading.current_thread()))
        return replace(self.memory.recall(query, k=k, project=project), degraded=("dense: encoder missing",))


# The frameworks are imported where they are tested: every process of the suite collects this file.
def langchain(memory: Any, options: Any) -> Any:
    from helix.adapters.langchain import HelixRetriever

    return HelixRetriever(memory=memory, options=options)


def llama_index(memory: Any, options: Any) -> Any:
    from helix.adapters.llama_index import HelixRetriever

    return HelixRetriever(memory, options)


def documents(memory: Any, options: Any, question: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [(it.id, it.page_content, it.metadata) for it in langchain(memory, options).invoke(question)]


def nodes(memory: Any, options: Any, question: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [(it.node_id, it.text, it.metadata) for it in llama_index(memory, options).retrieve(question)]


both = pytest.mark.parametrize("retrieve", [documents, nodes])
Retrieve = Callable[[Any, Any, str], list[tuple[str, str, dict[str, Any]]]]


@both
def test_it_gives_what_recall_gives_in_its_order(memory: helix.Memory, retrieve: Retrieve) -> None:
    own = memory.recall(QUESTION, **OPTIONS)
    assert len(own.items) == 4
    found = retrieve(memory, OPTIONS, QUESTION)
    assert found == [(item.id, item.text, metadata(item, own)) for item in own.items]
    said = found[0][2]
    assert said["session"] == "c3"
    assert said["turns"] == ["c3:2"]
    assert said["speaker"] == "Ana"
    assert said["time"].startswith("2026-02-10T20:31")
    assert said["project"] == "holidays"
    assert said["type"] == "episodic"
    assert Path(said["source"]).name == "chat.jsonl"
    assert said["score"] == own.items[0].score
    assert said["why"]["bm25"] == own.items[0].why["bm25"]
    assert json.loads(json.dumps(said)) == said


@both
def test_any_memory_will_do_and_what_it_went_without_is_said(memory: helix.Memory, retrieve: Retrieve) -> None:
    elsewhere = Elsewhere(memory)
    found = retrieve(elsewhere, {"k": 2, "project": "holidays"}, QUESTION)
    assert [(query, options) for query, options, _ in elsewhere.asked] == [(QUESTION, {"k": 2, "project": "holidays"})]
    assert [known["project"] for *_, known in found] == ["holidays"] * 2
    assert all(known["degraded"] == ["dense: encoder missing"] for *_, known in found)


@both
def test_a_question_that_needs_no_memory_gives_nothing(memory: helix.Memory, retrieve: Retrieve) -> None:
    assert memory.recall("what is 17*23").skipped
    assert retrieve(memory, {}, "what is 17*23") == []


@both
def test_errors_go_through_as_they_are(memory: helix.Memory, retrieve: Retrieve) -> None:
    with pytest.raises(UsageError, match="unknown project 'nowhere'"):
        retrieve(memory, {"project": "nowhere"}, QUESTION)


def test_langchain_batch_and_async(memory: helix.Memory) -> None:
    retriever = langchain(memory, OPTIONS)
    expected = [[item.id for item in memory.recall(query, **OPTIONS).items] for query in (QUESTION, OTHER)]
    assert [[it.id for it in found] for found in retriever.batch([QUESTION, OTHER])] == expected
    assert [it.id for it in asyncio.run(retriever.ainvoke(QUESTION))] == expected[0]
    assert [[it.id for it in found] for found in asyncio.run(retriever.abatch([QUESTION, OTHER]))] == expected


def test_langchain_in_a_chain(memory: helix.Memory) -> None:
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    def prompt(given: dict[str, Any]) -> str:
        return "\n".join([*(it.page_content for it in given["memories"]), given["question"]])

    chain = {"memories": langchain(memory, OPTIONS), "question": RunnablePassthrough()} | RunnableLambda(prompt)
    lines = [item.text for item in memory.recall(QUESTION, **OPTIONS).items]
    assert chain.invoke(QUESTION) == "\n".join([*lines, QUESTION])


def test_langchain_refuses_what_cannot_recall(memory: helix.Memory) -> None:
    with pytest.raises(ValueError, match="memory"):
        langchain(object(), {})


def test_llama_index_async_does_not_hold_up_the_loop(memory: helix.Memory) -> None:
    elsewhere = Elsewhere(memory)
    found = asyncio.run(llama_index(elsewhere, {"k": 3}).aretrieve(QUESTION))
    assert [it.node_id for it in found] == [item.id for item in memory.recall(QUESTION, k=3).items]
    ((_, _, thread),) = elsewhere.asked
    assert thread is not threading.current_thread()


def test_llama_index_in_a_query_engine(memory: helix.Memory) -> None:
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    engine = RetrieverQueryEngine.from_args(llama_index(memory, OPTIONS), llm=MockLLM())
    answer = engine.query(QUESTION)
    own = memory.recall(QUESTION, **OPTIONS)
    assert [(it.node_id, it.score) for it in answer.source_nodes] == [(item.id, item.score) for item in own.items]
    # The mock says what it was asked: the texts with who said them and when, without what is not for reading.
    assert all(item.text in str(answer) for item in own.items)
    assert "speaker: Ana" in str(answer)
    assert "salience" not in str(answer)
    assert own.items[0].source not in str(answer)


def test_without_an_adapter_no_framework_is_imported() -> None:
    statement = "import helix.sdk.memory, helix.adapters, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True)
    assert "helix.adapters" in done.stdout.split()
    assert not {name.partition(".")[0] for name in done.stdout.split()} & {"langchain_core", "llama_index"}
