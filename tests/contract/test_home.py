"""The home of a store and the outline of a session: they agree with the other paths, and show nothing hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import helix
from helix.errors import UsageError
from helix.sdk import questions
from helix.sdk.memory import Memory
from helix.sdk.notes import write_note
from helix.settings import Settings
from helix.snapshot.paths import create_folders
from helix.stages.relevance import LEAST_ANSWERED
from pipelines.embedded.ingest import ingest
from query.schema.pages import HomePage, Outline
from tests.support.agent_log import run, write_harbour_logs, write_log
from tests.support.serving import serving

SETTINGS = Settings()
HIDDEN = "tollgate"
"""A word of every hidden text."""

REPORT = "Lookup is case-insensitive (`registry.Get`, `registry.go:106-131`)."
"""What an agent reads in code: a fact that holds, and no decision."""


@pytest.fixture(scope="module", autouse=True)
def time_for_questions() -> Iterator[None]:
    """Time to check every question: a busy machine needs more than the usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "SECONDS", 60.0)
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sessions of harbour, one that repairs its docs, notes, a chat of decisions, and what only ines may read."""
    root = tmp_path_factory.mktemp("home")
    write_harbour_logs(root / "logs")
    write_log(root / "logs", "aaaa0004", "2026-05-12T10:00:00", [
        ("ask", "and now?"),
        ("say", REPORT),
        *run("make docs", "done", False),
        *run("git mv a.md b.md", "fatal: not under version control, source=a.md", True),
    ])  # fmt: skip
    turns = [
        ("2026-03-01T09:00:00Z", "Ana", "We use Jenkins for CI."),
        ("2026-05-11T09:00:00Z", "Ana", "We switched CI from Jenkins to Buildkite because of the queue times."),
    ]
    lines = [{"session": "talk", "role": "user", "speaker": who, "text": text, "ts": time} for time, who, text in turns]
    (root / "logs" / "talk.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    write_log(root / "hidden", "bbbb0001", "2026-05-12T12:00:00", [
        ("ask", f"Never deploy the {HIDDEN} on a Friday."),
        ("ask", f"We decided to use Caddy for the {HIDDEN} because nginx needs a person."),
        *run(f"make {HIDDEN}", f"make: *** [{HIDDEN}] Error 2", True),
        ("say", f"The {HIDDEN} does not build. Shall I go on with the {HIDDEN}?"),
    ])  # fmt: skip
    create_folders(root / "store")
    write_note(root / "store", "Releases are cut on Mondays.", by="user", project="harbour", pinned=True)
    ingest(root / "store", [root / "logs"], SETTINGS)
    ingest(root / "store", [root / "hidden"], SETTINGS, acl=["ines"])
    return root / "store"


@pytest.fixture(scope="module")
def memory(store: Path) -> Memory:
    return Memory(store, SETTINGS, warm=False)


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[httpx.Client]:
    with serving(store, SETTINGS) as client:
        yield client


@pytest.fixture(scope="module")
def sample(sample_store: Path) -> Memory:
    return helix.open(sample_store)


# ---------------------------------------------------------------- the home


def test_the_home_of_the_sample_agrees_with_the_other_answers(sample: Memory) -> None:
    home = sample.pages.home()
    HomePage.model_validate(home)
    choices, timeline = sample.choices(), sample.timeline(limit=100)
    assert {name: home[name] for name in ("items", "sessions", "first", "last")} == {
        name: choices[name] for name in ("items", "sessions", "first", "last")
    }
    names = [one["session"] for one in timeline["sessions"]]
    (branch,) = (name for name in names if "~" in name)  # a session and its branch come once
    assert branch.partition("~")[0] in names
    assert [one["session"] for one in home["recent"]] == [name for name in names if name != branch][:12]
    known = {one["item"]: one for one in sample.decisions(limit=100)["decisions"]}
    assert home["holds"]["decisions"]
    assert all(known[one["item"]] == one for one in home["holds"]["decisions"])
    for session in home["recent"]:
        for one in session["decided"]:
            assert known[one["item"]]["session"] == session["session"]


def test_every_question_has_a_relevant_answer(sample: Memory, memory: Memory) -> None:
    for one in (sample, memory):
        asked = one.pages.home()["questions"]
        assert 4 <= len(asked) <= 6
        for question in asked:
            found = one.recall(question["text"], k=5)
            assert found.answered >= LEAST_ANSWERED, question
    texts = [question["text"] for question in memory.pages.home()["questions"]]
    assert "Why did we choose Buildkite for CI?" in texts
    assert "What did we have for CI before Buildkite?" in texts
    assert "How did we fix “KeyError: 'tide'”?" in texts
    assert "What did we change in queue.py, and why?" in texts


def test_a_question_without_a_relevant_answer_is_left_out() -> None:
    class Answer:
        def __init__(self, answered: float, item: str) -> None:
            self.answered, self.items = answered, [type("Shown", (), {"id": item})]

    suggested = [questions.Suggestion(text, text, ("own",)) for text in ("good", "weak", "other", "later")]
    answers = {"good": Answer(0.9, "own"), "weak": Answer(0.0, "own"), "other": Answer(0.9, "else")}
    known = {"later": True}
    found = questions.check_questions(suggested, answers.__getitem__, known)  # type: ignore[arg-type]
    assert [one["text"] for one in found] == ["good", "later"]
    assert known == {"good": True, "weak": False, "other": False, "later": True}


def test_questions_without_time_come_with_the_next_call(monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    memory = Memory(store, SETTINGS, warm=False)
    monkeypatch.setattr(questions, "SECONDS", -1.0)
    assert memory.pages.home()["questions"] == []
    monkeypatch.setattr(questions, "SECONDS", 60.0)
    assert memory.pages.home()["questions"]


def test_rules_what_is_open_and_the_week(memory: Memory) -> None:
    home = memory.pages.home(project="harbour", as_of="2026-05-05")
    rules = [(rule["kind"], rule["text"]) for rule in home["holds"]["rules"]]
    assert ("rule", "Don't use npm here, use pnpm.") in rules
    (failed, asked) = home["open"]
    assert (failed["kind"], failed["text"]) == ("failed", "make: *** [docs] Error 2")
    assert (asked["kind"], asked["text"].endswith("Shall I install it?")) == ("asked", True)
    assert {one["session"] for one in home["open"]} == {"aaaa0003"}
    week = home["week"]
    assert (week["since"], week["until"]) == ("2026-04-28T00:00:00Z", "2026-05-05T00:00:00Z")
    assert (week["items"], week["sessions"]) == (home["items"], 3)


def test_an_agents_report_is_no_decision(memory: Memory) -> None:
    home, listed = memory.pages.home(project="harbour"), memory.decisions("harbour")["decisions"]
    assert REPORT in {one["text"] for one in listed}
    decided = [one["text"] for session in home["recent"] for one in session["decided"]]
    for texts in ([one["text"] for one in home["holds"]["decisions"]], decided):
        assert texts
        assert REPORT not in texts
    assert REPORT not in {one["text"] for one in outline(memory, "aaaa0004")["decisions"]}


def test_a_pinned_note_is_the_first_rule(memory: Memory) -> None:
    rules = memory.pages.home(project="harbour")["holds"]["rules"]
    assert (rules[0]["kind"], rules[0]["text"]) == ("pinned", "Releases are cut on Mondays.")
    assert "pinned notes" not in {one["session"] for one in memory.pages.home()["recent"]}


def test_a_failure_that_passed_in_a_later_session_is_not_open(memory: Memory) -> None:
    left = [one["text"] for one in memory.pages.home(project="harbour")["open"]]
    assert not any("Error 2" in text for text in left)
    assert any("Shall I install it?" in text for text in left)
    assert not any("version control" in text for text in left)  # a command that was only tried


def test_a_week_without_anything_is_the_last_one_with_something(memory: Memory) -> None:
    week = memory.pages.home(project="default", as_of="2027-01-01")["week"]
    assert (week["since"], week["until"]) == ("2026-05-04T09:00:00Z", "2026-05-11T09:00:00Z")
    assert (week["items"], week["sessions"]) == (1, 1)
    (change,) = week["replaced"]
    assert (change["topic"], change["was"], change["now"]) == ("CI", "Jenkins", "Buildkite")
    assert [one["value"] for one in week["decided"]] == ["Buildkite"]


def test_the_home_of_a_project_and_of_a_moment(memory: Memory) -> None:
    harbour = memory.pages.home(project="harbour")
    assert {one["project"] for one in harbour["recent"]} == {"harbour"}
    assert harbour["items"] < memory.pages.home()["items"]
    early = memory.pages.home(as_of="2026-05-01T23:00:00Z")
    assert [one["session"] for one in early["recent"]] == ["aaaa0001", "talk"]
    assert [one["value"] for one in early["holds"]["decisions"] if one["topic"] == "CI"] == ["Jenkins"]
    with pytest.raises(UsageError, match="unknown project 'nope'"):
        memory.pages.home(project="nope")


def test_nothing_hidden_is_shown_or_counted(memory: Memory, client: httpx.Client) -> None:
    moment = "2026-05-13"
    seen, whole = memory.pages.home(as_of=moment), memory.pages.home(as_of=moment, principal="ines")
    assert HIDDEN not in json.dumps(seen)
    assert "bbbb0001" not in json.dumps(seen)
    text = json.dumps(whole)
    assert text.count(HIDDEN) > 5
    assert {one["session"] for one in whole["recent"]} - {one["session"] for one in seen["recent"]} == {"bbbb0001"}
    hidden = memory.session("bbbb0001", principal="ines")["total"]
    assert whole["items"] - seen["items"] == hidden > 0
    assert whole["sessions"] - seen["sessions"] == 1
    assert {one["kind"] for one in whole["open"] if HIDDEN in one["text"]} == {"failed", "asked"}
    assert whole["week"]["items"] - seen["week"]["items"] == hidden
    assert whole["week"]["sessions"] - seen["week"]["sessions"] == 1
    assert any(HIDDEN in rule["text"] for rule in whole["holds"]["rules"])
    assert any(HIDDEN in one["text"] for one in whole["holds"]["decisions"])
    # The same over REST, for the owner without and with a name.
    assert client.get(f"/v1/home?as_of={moment}").json() == json.loads(json.dumps(seen))
    assert client.get(f"/v1/home?as_of={moment}&principal=ines").json() == json.loads(text)


def test_an_empty_store_has_an_empty_home(tmp_path: Path) -> None:
    create_folders(tmp_path)
    home = Memory(tmp_path, SETTINGS, warm=False).pages.home()
    HomePage.model_validate(home)
    assert (home["items"], home["sessions"], home["first"], home["recent"], home["questions"]) == (0, 0, None, [], [])
    assert (home["open"], home["holds"]["decisions"], home["week"]["items"]) == ([], [], 0)


# ---------------------------------------------------------------- the outline


def outline(memory: Memory, session: str, **options: Any) -> dict[str, Any]:
    found = memory.pages.outline(session, **options)
    assert found is not None
    Outline.model_validate(found)
    return found


def test_an_outline_follows_the_work_of_a_session(memory: Memory) -> None:
    found = outline(memory, "aaaa0002")
    items = memory.session("aaaa0002")["items"]
    assert [turn["id"] for turn in found["turns"]] == [item["id"] for item in items]
    assert [turn["place"] for turn in found["turns"]] == list(range(len(items)))
    assert [turn["voice"] for turn in found["turns"]] == [item["voice"] for item in items]
    assert {turn["voice"] for turn in found["turns"]} == {"you", "claude-code", "tool"}
    assert (found["agent"], found["total"], found["more"]) == ("claude-code", len(items), False)
    heads = {turn["head"]: turn for turn in found["turns"]}
    assert heads["build the tool"]["marks"] == []
    said = heads["The retry belongs into pop, since push must stay quick."]
    edit = found["turns"][said["place"] + 1]
    assert (said["edited"], edit["marks"], edit["edited"]) == (0, ["edit"], 1)
    assert found["files"][0]["path"] == "/srv/harbour/src/queue.py"
    assert (found["files"][0]["edits"], found["files"][0]["items"][0]) == (2, edit["id"])
    assert [one["commit"] for one in found["commits"]] == ["1a2b3c4"]
    by_id = {turn["id"]: turn for turn in found["turns"]}
    assert "commit" in by_id[found["commits"][0]["item"]]["marks"]


def test_an_outline_tells_what_came_of_a_failure(memory: Memory) -> None:
    found = outline(memory, "aaaa0002")
    packages, test = found["fixes"]
    assert (packages["held"], packages["changes"], test["held"]) == (True, [], True)
    assert test["line"].startswith("→ fixed: changed srv/harbour/src/queue.py; `pytest -q` passed")
    by_id = {turn["id"]: turn for turn in found["turns"]}
    assert "error" in by_id[test["failed"]]["marks"]
    assert "fix" in by_id[test["shown"]]["marks"]
    assert set(test["changes"]) <= set(found["files"][0]["items"])
    (result,) = found["steps"][test["failed"]]
    (call,) = found["steps"][result["result_of"]]
    assert (call["action"], call["target"], result["outcome"]) == ("run", "pytest -q", "failed")
    assert result["error"]


def test_an_outline_marks_questions_and_decisions(memory: Memory) -> None:
    last = outline(memory, "aaaa0003")["turns"][-1]
    assert (last["head"][:23], last["marks"]) == ("The docs do not build. ", ["asked"])
    found = outline(memory, "talk")
    assert [(one["topic"], one["value"], one["holds"]) for one in found["decisions"]] == [
        ("CI", "Jenkins", False),
        ("CI", "Buildkite", True),
    ]
    assert found["decisions"][0]["replaced_by"]["id"] == found["decisions"][1]["item"]
    assert [turn["marks"] for turn in found["turns"]] == [["decision"], ["decision"]]
    assert "Buildkite" in [one["name"] for one in found["entities"]]
    assert found["agent"] is None


def test_an_outline_as_of_a_moment_and_of_what_is_hidden(memory: Memory, client: httpx.Client) -> None:
    early = outline(memory, "talk", as_of="2026-04-01")
    assert (early["total"], [one["holds"] for one in early["decisions"]]) == (1, [True])
    assert memory.pages.outline("talk", as_of="2026-01-01") is None
    assert memory.pages.outline("bbbb0001") is None
    assert outline(memory, "bbbb0001", principal="ines")["total"] > 0
    assert memory.pages.outline("bbbb0001") is None  # what is kept for ines stays hers
    assert outline(memory, "talk")["total"] == 2
    assert memory.pages.outline("talk", projects=["harbour"]) is None
    own = client.get("/v1/outline?session=talk&as_of=2026-04-01")
    assert own.json() == json.loads(json.dumps(early))
    missing, hidden = (client.get(f"/v1/outline?session={name}") for name in ("nope", "bbbb0001"))
    assert (missing.status_code, hidden.status_code) == (404, 404)
    assert missing.json()["detail"] == hidden.json()["detail"]
    assert client.get("/v1/outline?session=bbbb0001&principal=ines").status_code == 200


def test_the_pieces_of_a_long_turn_are_numbered(sample: Memory) -> None:
    for session in sample.timeline(limit=100)["sessions"]:
        found = outline(sample, session["session"])
        items = sample.session(session["session"], limit=1000)["items"]
        turns = [item["turns"] for item in items]
        begins = [turn["piece"] == 0 for turn in found["turns"]]
        assert begins == [i == 0 or turns[i] != turns[i - 1] for i in range(len(turns))]


def test_a_recalled_item_has_a_role_and_a_voice(memory: Memory) -> None:
    for item in memory.recall("why did the queue test fail", k=10).items:
        stored = memory.item(item.id)
        assert (item.role, item.voice) == (stored["role"], stored["voice"])
