"""Lists and graphs of entities, and what is known of one: by SDK and REST, within what the caller may see."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import helix
from helix.errors import UsageError
from helix.sdk.client import Remote
from helix.sdk.memory import Memory
from helix.settings import Settings, load
from helix.snapshot.sql import run_statement
from query.schema import entities
from tests.support.serving import serving

FILES = "`src/alpha/core.py` imports `src/alpha/util.py`."
NOTES: tuple[dict[str, Any], ...] = (
    {"session": "t1", "id": "1", "speaker": "Zoe", "text": "I live in Oslo since January.", "ts": "2026-01-10"},
    {"session": "t2", "id": "1", "speaker": "Zoe", "text": "I moved to Rome last week.", "ts": "2026-03-10"},
    {"session": "t3", "id": "1", "speaker": "Hal", "text": "Zoe met Quentin.", "ts": "2026-03-11", "acl": ["hal"]},
    {"session": "t3", "id": "2", "speaker": "Hal", "text": "See `lib/beta/core.py`.", "ts": "2026-03-12",
     "acl": ["hal"]},
    {"session": "t4", "id": "1", "speaker": "Zoe", "text": FILES, "ts": "2026-03-13", "project": "shop"},
    {"session": "t4", "id": "2", "speaker": "Zoe", "text": f"Again: {FILES}", "ts": "2026-03-14", "project": "shop"},
    {"session": "t5", "id": "1", "speaker": "Ivo", "text": "We use Jenkins for CI.", "ts": "2026-01-12",
     "project": "shop"},
    {"session": "t6", "id": "1", "speaker": "Ivo", "text": "We switched from Jenkins to Buildkite for CI.",
     "ts": "2026-03-15", "project": "shop"},
    {"session": "t7", "id": "1", "speaker": "Ivo", "text": "We decided against Kafka because it is too much to run.",
     "ts": "2026-03-16", "project": "shop"},
)  # fmt: skip


@pytest.fixture(scope="module")
def store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, with a fact and a decision that changed, and with items for one reader only."""
    from pipelines.embedded.ingest import ingest

    folder = tmp_path_factory.mktemp("graph")
    shutil.copytree(sample_store, folder / "store", ignore=shutil.ignore_patterns("pins"))
    (folder / "store" / "pins").mkdir()
    (folder / "notes.jsonl").write_text("\n".join(json.dumps(note) for note in NOTES))
    ingest(folder / "store", [folder / "notes.jsonl"], load())
    return folder / "store"


@pytest.fixture(scope="module")
def memory(store: Path) -> Memory:
    return helix.open(store)


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[httpx.Client]:
    with serving(store, Settings()) as client:
        yield client


def name_all(found: dict[str, Any]) -> set[str]:
    """Return the names of a list or of a graph."""
    return {one.get("name", one.get("label")) for one in found.get("entities", found.get("nodes"))}


def find_track(found: dict[str, Any], topic: str) -> list[dict[str, Any]]:
    (track,) = [one for one in found["tracks"] if one["topic"] == topic]
    return list(track["spans"])


# ---------------------------------------------------------------- every path


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/entities?kind=person&limit=5", entities.EntityPage),
        ("/v1/graph?limit=40", entities.EntityGraph),
        ("/v1/graph?kinds=person,place&around=Zoe", entities.EntityGraph),
        ("/v1/subject?name=Zoe", entities.Subject),
        ("/v1/subject?name=CI&project=shop", entities.Subject),
    ],
)
def test_an_answer_has_its_schema(client: httpx.Client, path: str, model: Any) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    model.model_validate(answer.json())
    assert set(answer.json()) == set(model.model_fields)


def test_rest_and_a_connection_return_what_the_store_does(memory: Memory, client: httpx.Client) -> None:
    with helix.connect(str(client.base_url)) as remote:
        assert isinstance(remote, Remote)
        for one in (memory, remote):
            assert one.entities(kind="person", query="o") == client.get("/v1/entities?kind=person&query=o").json()
            graph = one.graph(kinds=["person", "path"], limit=30, as_of="2026-04-01")
            assert graph == client.get("/v1/graph?kinds=person,path&limit=30&as_of=2026-04-01").json()
            assert one.subject("Zoe", as_of="2026-02-01") == client.get("/v1/subject?name=Zoe&as_of=2026-02-01").json()


def test_a_wrong_argument_is_refused(memory: Memory, client: httpx.Client) -> None:
    for path in (
        *("entities?limit=0", "entities?limit=1001", "entities?offset=-1", "entities?project=nope", "entities?what=1"),
        *("graph?limit=0", "graph?limit=10001", "graph?project=nope", "graph?around=", f"graph?around={'x' * 201}"),
        *("subject", "subject?name=", f"subject?name={'x' * 201}", "subject?name=Zoe&project=nope"),
        *("entities?as_of=never", "subject?name=Zoe&as_of=never"),
    ):
        assert client.get(f"/v1/{path}").status_code == 400, path
    with pytest.raises(UsageError, match="limit is 10001"):
        memory.graph(limit=10_001)


def test_an_unknown_name_is_a_notice(memory: Memory) -> None:
    assert memory.entities(query="xyzzy")["notice"] == "no item names an entity of this name"
    assert memory.entities(kind="planet")["notice"] == "no item names an entity of the kind planet"
    for found in (memory.graph(around="Xyzzy"), memory.subject("Xyzzy")):
        assert found["notice"].startswith("no item names Xyzzy")
        assert not any(found.get(name) for name in ("nodes", "edges", "tracks", "related", "sessions", "total"))


# ---------------------------------------------------------------- what the caller sees


def test_a_hidden_item_has_no_part_in_any_answer(memory: Memory) -> None:
    public, own = memory.entities(limit=1000), memory.entities(limit=1000, principal="hal")
    assert {"Quentin", "Hal"} <= name_all(own) - name_all(public)
    items = [{one["name"]: one["items"] for one in found["entities"]} for found in (public, own)]
    assert [found["Zoe"] for found in items] == [4, 5]
    assert sum(public["kinds"].values()) == public["total"] < own["total"]
    # A path that only Hal sees makes the end of another one ambiguous.
    assert "core.py" in items[0]
    assert {"alpha/core.py", "beta/core.py"} <= set(items[1])
    assert "core.py" not in items[1]
    assert "Quentin" in name_all(memory.graph(principal="hal")) - name_all(memory.graph())
    assert [one["name"] for one in memory.subject("Zoe", principal="hal")["related"]].count("Quentin") == 1
    assert "Quentin" not in json.dumps(memory.subject("Zoe"))
    for hidden in ("Quentin", "Hal", "lib/beta/core.py"):
        assert memory.subject(hidden)["notice"].startswith("no item names")
        assert memory.graph(around=hidden)["nodes"] == []
    identity = next(one["id"] for one in own["entities"] if one["name"] == "Quentin")
    assert memory.graph(around=identity)["nodes"] == []
    assert memory.subject(identity)["items"] == 0


def test_other_projects_count_as_hidden_ones(memory: Memory) -> None:
    of_shop = memory.entities(project="shop", limit=1000)
    assert {one["name"]: one["items"] for one in of_shop["entities"]}["Zoe"] == 2
    assert "Oslo" not in name_all(of_shop) | name_all(memory.graph(project="shop"))
    found = memory.subject("Zoe", project="shop")
    assert (found["items"], found["tracks"]) == (2, [])
    assert memory.entities(projects=["shop"], limit=1000) == of_shop


def test_an_earlier_moment_knows_nothing_of_later_items(memory: Memory) -> None:
    for one in (memory.entities, memory.graph):
        assert "Rome" in name_all(one(limit=1000))
        assert "Rome" not in name_all(one(limit=1000, as_of="2026-02-01"))
    found = memory.subject("Zoe", as_of="2026-02-01")
    (span,) = find_track(found, "lives in")
    assert (span["value"], span["until"], span["holds"], found["items"]) == ("Oslo", None, True, 1)
    early = memory.subject("Rome", as_of="2026-02-01")
    assert early["items"] == 0
    assert early["notice"] == "nothing was said by 2026-02-01 (as_of); the earliest item is of 2026-03-10"


# ---------------------------------------------------------------- lists


def test_a_list_counts_as_sql_does(memory: Memory, store: Path) -> None:
    statement = (
        "SELECT n.kind, e.dst AS id, count(*) AS n FROM edges e JOIN (SELECT DISTINCT kind, hash FROM entities) n "
        "ON e.dst = n.hash WHERE e.kind = 'mentions' GROUP BY ALL"
    )
    with run_statement(store, statement) as answer:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    for kind in ("error", "date", "commit", "identifier"):
        found = memory.entities(kind=kind, limit=1000)
        assert {one["id"]: one["items"] for one in found["entities"]} == {
            one["id"]: one["n"] for one in rows if one["kind"] == kind
        }
        assert found["kinds"][kind] == found["total"] > 0


def test_the_most_named_come_first_a_page_at_a_time(memory: Memory) -> None:
    whole = memory.entities(limit=1000)
    assert whole["entities"] == sorted(whole["entities"], key=lambda one: (-one["items"], one["id"]))
    assert memory.entities(offset=3, limit=4)["entities"] == whole["entities"][3:7]
    people = memory.entities(kind="person")
    assert people["entities"] == [one for one in whole["entities"] if one["kind"] == "person"]
    assert people["kinds"] == whole["kinds"]
    assert {one["name"] for one in people["entities"][:3]} == {"Ana", "Marco", "Priya"}


def test_a_speaker_is_the_person_of_that_name(memory: Memory) -> None:
    people = {one["name"]: one for one in memory.entities(kind="person")["entities"]}
    zoe = people["Zoe"]
    assert (zoe["speaker"], zoe["turns"], zoe["items"], zoe["facts"]) == (True, 4, 4, 2)
    assert (zoe["first"], zoe["last"]) == ("2026-01-10T00:00:00Z", "2026-03-14T00:00:00Z")
    assert people["Priya"]["items"] > people["Priya"]["turns"] > 0
    assert memory.choices()["speakers"]["Priya"] == people["Priya"]["turns"]


def test_a_query_is_a_part_of_the_name_in_any_case(memory: Memory) -> None:
    assert {"Zoe"} == name_all(memory.entities(query="ZO", kind="person"))
    found = memory.entities(query="alpha/")
    assert {"core.py", "util.py"} == name_all(found)
    assert found["kinds"] == {"path": 2}


# ---------------------------------------------------------------- graphs


def test_edges_are_between_nodes_that_items_name_together(memory: Memory) -> None:
    found = memory.graph(limit=60)
    ids = [node["id"] for node in found["nodes"]]
    assert len(set(ids)) == len(ids) == min(60, found["total"])
    weights = [edge["weight"] for edge in found["edges"]]
    assert weights == sorted(weights, reverse=True)
    assert min(weights) > 0
    label = {node["id"]: node["label"] for node in found["nodes"]}
    common = {frozenset((label[edge["from"]], label[edge["to"]])): edge["items"] for edge in found["edges"]}
    assert common[frozenset(("core.py", "util.py"))] == 2
    assert len(common) == len(found["edges"])
    assert {"identifier", "date", "command"}.isdisjoint(node["kind"] for node in found["nodes"])
    group = {node["label"]: node["group"] for node in found["nodes"]}
    assert group["core.py"] == group["util.py"] != group["Ana"]
    for one in found["groups"]:
        assert one["nodes"] == sum(node["group"] == one["id"] for node in found["nodes"]) > 1
        assert group[one["label"]] == one["id"]
    joined = {end for edge in found["edges"] for end in (edge["from"], edge["to"])}
    assert {node["id"] for node in found["nodes"] if node["group"] is None} == set(ids) - joined


def test_a_graph_has_the_kinds_that_are_asked_for(memory: Memory) -> None:
    found = memory.graph(kinds="identifier, person")
    assert {node["kind"] for node in found["nodes"]} == {"identifier", "person"}
    assert memory.graph(kinds=["planet"])["notice"] == "no item names an entity of these kinds"
    few = memory.graph(limit=5)
    assert few["nodes"][0]["id"] == memory.graph(limit=60)["nodes"][0]["id"]
    assert (len(few["nodes"]), few["total"]) == (5, memory.graph()["total"])


def test_a_neighbourhood_is_of_what_the_same_items_name(memory: Memory) -> None:
    found = memory.graph(around="core.py")
    assert [node["label"] for node in found["nodes"]] == ["core.py", "util.py", "Zoe"]
    assert found == memory.graph(around=found["nodes"][0]["id"]) == memory.graph(around="src/alpha/core.py")
    assert [node["label"] for node in memory.graph(around="core.py", kinds="person")["nodes"]] == ["core.py", "Zoe"]


def test_the_same_store_has_the_same_graph(memory: Memory, store: Path) -> None:
    assert memory.graph(limit=50) is memory.graph(limit=50)  # kept
    assert json.dumps(helix.open(store).graph(limit=50)) == json.dumps(memory.graph(limit=50))


# ---------------------------------------------------------------- one subject


def test_a_person_in_time(memory: Memory) -> None:
    found = memory.subject("zoe")
    assert (found["name"], found["kind"], found["items"], found["notice"]) == ("Zoe", "person", 4, None)
    oslo, rome = find_track(found, "lives in")
    assert (oslo["value"], oslo["until"], oslo["holds"]) == ("Oslo", rome["since"], False)
    assert (rome["value"], rome["until"], rome["holds"]) == ("Rome", None, True)
    assert rome["since"].startswith("2026-03-0")
    assert (rome["text"], rome["by"], rome["session"], rome["kind"]) == ("Zoe lives in Rome", "Zoe", "t2", "fact")
    assert memory.item(rome["item"])["text"] == "I moved to Rome last week."
    assert {"Oslo", "Rome"} <= {one["name"] for one in found["related"]}
    assert [(one["session"], one["items"]) for one in found["sessions"]] == [("t4", 2), ("t2", 1), ("t1", 1)]


@pytest.mark.parametrize("name", ["Jenkins", "buildkite"])
def test_a_decision_with_what_it_replaced(memory: Memory, name: str) -> None:
    found = memory.subject(name)
    jenkins, buildkite = find_track(found, "CI")
    assert (jenkins["value"], jenkins["holds"], jenkins["session"]) == ("Jenkins", False, "t5")
    assert (buildkite["value"], buildkite["holds"], buildkite["session"]) == ("Buildkite", True, "t6")
    assert jenkins["until"] == buildkite["since"] == "2026-03-15T00:00:00Z"
    assert {jenkins["kind"], buildkite["kind"]} == {"decision"}
    said = [(span["item"], span["value"]) for track in found["tracks"] for span in track["spans"]]
    assert len(set(said)) == len(said)  # a fact that a decision says is not listed again


def test_a_rejection(memory: Memory) -> None:
    (span,) = find_track(memory.subject("Kafka"), "rejected")
    assert (span["value"], span["kind"], span["holds"], span["by"]) == ("Kafka", "rejected", True, "Ivo")


def test_a_subject_of_facts_need_not_be_an_entity(memory: Memory) -> None:
    found = memory.subject("timeout")
    assert (found["kind"], found["items"], found["notice"]) == (None, 3, None)
    assert [span["value"] for span in find_track(found, "timeout")] == ["3600 seconds"]


def test_a_file_by_the_end_of_its_path(memory: Memory) -> None:
    for name in ("core.py", "alpha/core.py", "src/alpha/core.py"):
        assert memory.subject(name)["name"] == "core.py"
    assert memory.subject("core.py", principal="hal")["kind"] is None  # two files end so
