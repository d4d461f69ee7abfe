"""Notes: `helix remember`, `correct` and `feedback`, and the tools of MCP that write; who may, and what it weighs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helix.sdk.memory import Memory
from helix.sdk.open import open_memory
from helix.settings import Settings, load
from query import auth
from query.mcp import build_server
from query.serve import make_policy
from query.service import QueryService
from tests.support.clients import call_tool, run_client, run_over_http
from tests.support.processes import wait_until
from tests.support.serving import serving

pytestmark = pytest.mark.usefixtures("encoders")

RULE = "Never edit codegen.py by hand: make codegen writes it."
SECRET = "sk-ant-api03-" + "Zq8Rw2Lx" * 11 + "-AAAA"


def remember(run_helix: Any, store: Path, *words: str) -> dict[str, Any]:
    done = run_helix(*words, "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def read(store: Path) -> Memory:
    return open_memory(store, load(), warm=False)


def brief(memory: Memory, project: str = "ledgerline") -> str:
    from query.hooks.briefing import brief_project

    return brief_project(memory.snapshot, project, 1_200).text


def test_a_note_of_the_user_is_a_rule_and_one_of_an_agent_is_not(own_store: Path, run_helix: Any) -> None:
    remember(run_helix, own_store, "remember", RULE, "--project", "ledgerline", "--pin")
    remember(run_helix, own_store, "remember", "answer in metric units", "--scope", "user", "--pin")
    note = "Always run the migrations twice."
    remember(run_helix, own_store, "remember", note, "--project", "ledgerline", "--by", "agent")
    memory = read(own_store)
    text = brief(memory)
    rules, _, rest = text.partition("Notes of agents, not confirmed by the user:")
    assert RULE in rules
    assert "answer in metric units" in rules
    assert "answer in metric units" in brief(memory, "holidays")
    assert RULE not in brief(memory, "holidays")
    assert note not in rules
    assert note in rest
    (own,) = [item for item in memory.recall("codegen.py by hand", k=5).items if item.text == RULE]
    (theirs,) = [item for item in memory.recall("run the migrations twice", k=5).items if item.text == note]
    found = {item.id: memory.item(item.id) for item in (own, theirs)}
    assert found[own.id]["confidence"] > 0.5 > found[theirs.id]["confidence"]
    assert (found[own.id]["role"], found[theirs.id]["role"]) == ("user", "assistant")


def test_a_shell_that_an_agent_opened_writes_as_the_agent(own_store: Path, call_helix: Any) -> None:
    for environ, role in (({"CLAUDECODE": "1"}, "assistant"), ({}, "user")):
        done = call_helix("remember", f"Prefer tabs, {role}.", "--store", own_store, "--json", **environ)
        assert done.returncode == 0, done.stderr
        assert read(own_store).item(json.loads(done.stdout)["id"])["role"] == role


def test_a_correction_replaces_until_it_is_forgotten(own_store: Path, run_helix: Any) -> None:
    first = remember(run_helix, own_store, "remember", "We deploy on Thursdays.", "--project", "ledgerline")
    place = f"notes#{read(own_store).item(first['id'])['turns'][0]}"
    second = remember(run_helix, own_store, "correct", place, "We deploy on Mondays.")
    assert (second["corrects"], second["project"]) == (first["id"], "ledgerline")
    found = {item.id: item for item in read(own_store).recall("when do we deploy", k=10).items}
    assert list(found).index(second["id"]) < list(found).index(first["id"])
    assert found[first["id"]].replaced_by["id"] == second["id"]
    assert run_helix("forget", "--item", second["id"], "--store", own_store).returncode == 0
    (back,) = [item for item in read(own_store).recall("when do we deploy", k=10).items if item.id == first["id"]]
    assert back.replaced_by is None


def test_an_agent_corrects_no_rule_of_the_user_away(own_store: Path, run_helix: Any) -> None:
    rule = remember(run_helix, own_store, "remember", RULE, "--project", "ledgerline", "--pin")
    change = "codegen.py may be edited by hand."
    remember(run_helix, own_store, "correct", rule["id"], change, "--by", "agent")
    assert RULE in brief(read(own_store)).partition("Notes of agents")[0]
    remember(run_helix, own_store, "correct", rule["id"], change)
    assert RULE not in brief(read(own_store))


def test_a_secret_in_a_note_reaches_no_file(own_store: Path, run_helix: Any) -> None:
    receipt = remember(run_helix, own_store, "remember", f"the key is {SECRET}", "--author", f"ana {SECRET}")
    assert sum(receipt["redacted"].values()) == 1
    assert not [path for path in own_store.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert "the key is" in read(own_store).item(receipt["id"])["text"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("remember", "  "), "the note is empty"),
        (("remember", "x" * 5_000), "more than 4,000"),
        (("remember", "a note", "--scope", "team"), "none of project, user"),
        (("remember", "a note", "--type", "idea"), "none of"),
        (("remember", "a note", "--by", "nobody"), "none of user, agent"),
        (("correct", "f" * 16, "a note"), "no live item"),
        (("correct", "nowhere#7", "a note"), "no live item"),
        (("feedback", "f" * 16, "used"), "no live item"),
        (("feedback", "f" * 16, "liked"), "liked"),
    ],
)
def test_a_wrong_note_is_refused(own_store: Path, run_helix: Any, words: tuple[str, ...], message: str) -> None:
    before = sorted(own_store.rglob("*"))
    done = run_helix(*words, "--store", own_store)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert sorted(own_store.rglob("*")) == before


def test_feedback_is_an_event(own_store: Path, run_helix: Any) -> None:
    (item,) = read(own_store).recall("why sqlite", k=1).items
    assert remember(run_helix, own_store, "feedback", item.id, "stale")["kind"] == "stale"
    place = f"{item.session}#{item.turns[0]}"
    assert remember(run_helix, own_store, "feedback", place, "used")["item"] == item.id
    lines = [json.loads(line) for path in (own_store / "events").glob("*.jsonl") for line in path.open()]
    assert sorted((line["item"], line["kind"]) for line in lines) == [(item.id, "stale"), (item.id, "used")]


# ---------------------------------------------------------------- over MCP


@pytest.fixture
def service(own_store: Path) -> Iterator[QueryService]:
    service = QueryService(own_store, Settings(reload_interval=0.05))
    service.start()
    yield service
    service.stop()


def test_an_agent_remembers_corrects_and_forgets(service: QueryService, own_store: Path) -> None:
    server = build_server(service)
    note = call_tool(server, "remember", text="The staging port is 8123.", project="ledgerline", type="semantic")
    wait_until(60, lambda: service.memory.item(note["id"]))
    entry = service.memory.item(note["id"])
    assert (entry["role"], entry["type"], entry["project"]) == ("assistant", "semantic", "ledgerline")
    change = call_tool(server, "correct", item=note["id"], text="The staging port is 8124.")
    assert change["corrects"] == note["id"]
    wait_until(60, lambda: service.memory.item(change["id"]))
    found = {item.id: item for item in service.memory.recall("what is the staging port", k=5).items}
    assert list(found).index(change["id"]) < list(found).index(note["id"])
    assert found[note["id"]].replaced_by["id"] == change["id"]
    for place in (change["id"], f"notes#{service.memory.item(change['id'])['turns'][0]}"):
        assert call_tool(server, "feedback", item=place, kind="helpful") == {"item": change["id"], "kind": "helpful"}
        assert call_tool(server, "fetch", id=place)["id"] == change["id"]
    planned = call_tool(server, "forget", items=[note["id"], change["id"]])
    assert (planned["forgotten"], planned["receipt"]) == (False, None)
    assert [one["id"] for one in planned["items"]] == [note["id"], change["id"]]
    assert service.memory.item(note["id"])
    wrong = run_client(
        server, lambda client: client.call_tool("forget", {"items": [note["id"]], "confirm": planned["confirm"]})
    )
    assert wrong.is_error  # the word is of other items
    done = call_tool(server, "forget", items=[note["id"], change["id"]], confirm=planned["confirm"])
    assert done["forgotten"]
    assert done["receipt"]
    wait_until(60, lambda: service.memory.item(note["id"]) is None and service.memory.item(change["id"]) is None)
    assert not [path for path in own_store.rglob("*.parquet") if b"staging port" in path.read_bytes()]


def test_a_key_writes_only_with_its_scopes_and_in_its_projects(own_store: Path, tmp_path: Path) -> None:
    settings = Settings(keys=str(tmp_path / "keys.json"))
    path = auth.get_key_file(own_store, settings)
    reader, _ = auth.create_key(path, "ana")
    writer, _ = auth.create_key(path, "ana", projects=["holidays"], scopes=["recall", "remember", "forget"])
    policy = replace(make_policy("0.0.0.0", settings), rate=0.0)
    (hidden,) = read(own_store).recall("why sqlite and not postgres", k=1, project="ledgerline").items
    with serving(own_store, settings, policy) as http:

        def call(key: str, tool: str, **arguments: Any) -> str:
            """Return a refusal's text; empty where the call is accepted."""
            found = run_over_http(f"{http.base_url}/mcp", key, lambda client: client.call_tool(tool, arguments))
            return str(found.content[0].text) if found.is_error else ""

        assert "remember" in call(reader, "remember", text="a note")
        assert "forget" in call(reader, "forget", items=[hidden.id])
        assert "own projects only" in call(writer, "remember", text="a note", project="ledgerline")
        assert "own projects only" in call(writer, "remember", text="a note", scope="user", project="holidays")
        assert "own projects only" in call(writer, "remember", text="a note")
        assert "no live item" in call(writer, "correct", item=hidden.id, text="we use postgres")
        assert "no live item" in call(writer, "forget", items=[hidden.id])
        assert call(writer, "remember", text="The ferry leaves at nine.", project="holidays") == ""
    assert read(own_store).item(hidden.id)
