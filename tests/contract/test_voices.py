"""The voices of `helix recall`, `show` and `timeline`: a speaker, the user, the agent or a tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from helix.sdk.open import open_memory
from helix.settings import load
from helix.sources.registry import FORMATS
from helix.work.voices import AGENTS
from query.cli.voices import find_voices


@pytest.fixture(scope="module")
def heads(sample_store: Path) -> dict[str, set[str]]:
    """The voices of the sample's items by format and role."""
    memory = open_memory(sample_store, load(), warm=False)
    found: dict[str, set[str]] = {}
    sessions = memory.timeline(limit=50)["sessions"]
    for session in sessions:
        items = memory.session(session["session"], limit=200)["items"]
        voices = find_voices(memory.snapshot, items)
        for item in items:
            assert item["voice"] == voices[item["id"]]
            found.setdefault(f"{session['agent'] or Path(session['source']).suffix} {item['role']}", set()).add(
                voices[item["id"]]
            )
    return found


def test_agents_are_named_by_their_log_and_people_by_their_name(heads: dict[str, set[str]]) -> None:
    assert heads["claude-code user"] == {"you"}
    assert heads["claude-code assistant"] == {"claude-code"}
    assert heads["claude-code tool"] == {"tool"}
    assert heads[".md document"] == {""}
    assert heads[".jsonl user"] == {"Ana", "Priya", "Marco"}


def test_every_format_of_an_agent_is_listed() -> None:
    others = {"note", "team", "vault", "captions", "slack", "jsonl", "specstory", "meeting", "markdown"}
    assert {*AGENTS} == set(FORMATS) - others


def test_the_text_says_it_and_the_json_is_unchanged(sample_store: Path, run_helix) -> None:
    call = ("recall", "database is locked", "--store", sample_store, "--k", "5")
    text = run_helix(*call).stdout
    assert re.search(r"^ ?1 .* · claude-code · 2026-05-12 07:\d\d", text, re.M)
    assert re.search(r" · tool · 2026-05-12 ", text)
    items = json.loads(run_helix(*call, "--json").stdout)["items"]
    assert {item["speaker"] for item in items} == {None}
    shown = run_helix("show", items[0]["id"], "--store", sample_store).stdout
    assert re.search(r"^claude-code · 2026-05-12 07:\d\d", shown, re.M)
    assert re.search(r"^tool · ", shown, re.M)
    days = run_helix("timeline", "--store", sample_store).stdout
    assert " · ledgerline · claude-code · 43 items" in days
    assert " · home · Ana, Priya, Marco · 10 items" in days


def test_the_assistant_of_a_log_of_no_agent_stays_one(tmp_path: Path, run_helix) -> None:
    log = tmp_path / "a.jsonl"
    turns = [("user", "which herb is it"), ("assistant", "the herb is parsley")]
    log.write_text("".join(json.dumps({"session": "s", "role": who, "text": text}) + "\n" for who, text in turns))
    run_helix("ingest", log, "--store", tmp_path / "s")
    shown = run_helix("show", "s", "--store", tmp_path / "s").stdout
    assert [line.partition(" · ")[0] for line in shown.splitlines() if " · by " in line] == ["you", "assistant"]
