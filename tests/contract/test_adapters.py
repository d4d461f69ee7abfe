"""The retrievers for LangChain and LlamaIndex: the real packages, without a model or a network."""

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


class OtherMemory:
    """A memory of another class, such as a remote one. It notes the calls, and reports a missing leg."""

    def __init__(self, memory: helix.Memory) -> None:
        self.memory = memory
        self.calls: list[tuple[str, dict[str, Any], threading.Thread]] = []

    def recall(self, query: str, *, k: int = 10, project: str | None = None) -> Bundle:
        self.calls.append((query, {"k": k, "project": project}, threading.current_thread()))
        return replace(self.memory.recall(query, k=k, project=project), degraded=("dense: encoder missing",))


# Imported inside tests: every process of the suite collects this file.
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
def test_a_retriever_returns_the_recalled_items_in_order(memory: helix.Memory, retrieve: Retrieve) -> None:
    own = memory.recall(QUESTION, **OPTIONS)
    assert len(own.items) == 4
    found = retrieve(memory, OPTIONS, QUESTION)
    assert found == [(item.id, item.text, metadata(item, own)) for item in own.items]
    fields = found[0][2]
    names = ("session", "turns", "speaker", "project", "type")
    assert [fields[name] for name in names] == ["c3", ["c3:2"], "Ana", "holidays", "episodic"]
    assert fields["time"].startswith("2026-02-10T20:31")
    assert Path(fields["source"]).name == "chat.jsonl"
    assert fields["score"] == own.items[0].score
    assert fields["why"]["bm25"] == own.items[0].why["bm25"]
    assert json.loads(json.dumps(fields)) == fields


@both
def test_any_memory_works_and_its_degradation_is_reported(memory: helix.Memory, retrieve: Retrieve) -> None:
    other = OtherMemory(memory)
    found = retrieve(other, {"k": 2, "project": "holidays"}, QUESTION)
    assert [(query, options) for query, options, _ in other.calls] == [(QUESTION, {"k": 2, "project": "holidays"})]
    assert [known["project"] for *_, known in found] == ["holidays"] * 2
    assert all(known["degraded"] == ["dense: encoder missing"] for *_, known in found)


@both
def test_a_question_that_needs_no_memory_returns_nothing(memory: helix.Memory, retrieve: Retrieve) -> None:
    assert memory.recall("what is 17*23").skipped
    assert retrieve(memory, {}, "what is 17*23") == []


@both
def test_errors_are_raised_unchanged(memory: helix.Memory, retrieve: Retrieve) -> None:
    with pytest.raises(UsageError, match="unknown project 'nowhere'"):
        retrieve(memory, {"project": "nowhere"}, QUESTION)


def test_langchain_batch_and_async_answer_the_same(memory: helix.Memory) -> None:
    retriever = langchain(memory, OPTIONS)
    expected = [[item.id for item in memory.recall(query, **OPTIONS).items] for query in (QUESTION, OTHER)]
    assert [[it.id for it in found] for found in retriever.batch([QUESTION, OTHER])] == expected
    assert [it.id for it in asyncio.run(retriever.ainvoke(QUESTION))] == expected[0]
    assert [[it.id for it in found] for found in asyncio.run(retriever.abatch([QUESTION, OTHER]))] == expected


def test_langchain_runs_in_a_chain(memory: helix.Memory) -> None:
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    def prompt(given: dict[str, Any]) -> str:
        return "\n".join([*(it.page_content for it in given["memories"]), given["question"]])

    chain = {"memories": langchain(memory, OPTIONS), "question": RunnablePassthrough()} | RunnableLambda(prompt)
    lines = [item.text for item in memory.recall(QUESTION, **OPTIONS).items]
    assert chain.invoke(QUESTION) == "\n".join([*lines, QUESTION])


def test_langchain_refuses_an_object_without_recall(memory: helix.Memory) -> None:
    with pytest.raises(ValueError, match="memory"):
        langchain(object(), {})


def test_llama_index_async_does_not_block_the_loop(memory: helix.Memory) -> None:
    other = OtherMemory(memory)
    found = asyncio.run(llama_index(other, {"k": 3}).aretrieve(QUESTION))
    assert [it.node_id for it in found] == [item.id for item in memory.recall(QUESTION, k=3).items]
    ((_, _, thread),) = other.calls
    assert thread is not threading.current_thread()


def test_llama_index_runs_in_a_query_engine(memory: helix.Memory) -> None:
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    engine = RetrieverQueryEngine.from_args(llama_index(memory, OPTIONS), llm=MockLLM())
    answer = engine.query(QUESTION)
    own = memory.recall(QUESTION, **OPTIONS)
    assert [(it.node_id, it.score) for it in answer.source_nodes] == [(item.id, item.score) for item in own.items]
    # The mock repeats its prompt: texts with speaker and time, without the fields that are not for reading.
    assert all(item.text in str(answer) for item in own.items)
    assert "speaker: Ana" in str(answer)
    assert "salience" not in str(answer)
    assert own.items[0].source not in str(answer)


def test_no_framework_is_imported_without_an_adapter() -> None:
    statement = "import helix.sdk.memory, helix.adapters, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True)
    assert "helix.adapters" in done.stdout.split()
    assert not {name.partition(".")[0] for name in done.stdout.split()} & {"langchain_core", "llama_index"}
