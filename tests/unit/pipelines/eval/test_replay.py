"""Replay of the prompt hook over made-up logs: order of time, evidence, and prompts that nothing was said about."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.eval.relevance import log_cases
from pipelines.eval.relevance.figures import JudgedCases, share_passed
from pipelines.eval.relevance.log_cases import select_unsaid
from pipelines.eval.replay.evidence import TermIndex, find_needed, find_terms, measure_evidence
from pipelines.eval.replay.hook import BEFORE, HookCaller, list_settings
from pipelines.eval.replay.logs import MOST_CHARS, LoggedPrompt, Logs, bound_prompt, clean_prompt, open_logs
from pipelines.eval.replay.measure import Addition, HookSetting, HookState, replay, summarise
from query.hooks.protocol import build_request

SESSIONS = {
    "monday": [
        ("2026-03-02T09:00:00Z", "user", "Where does the tax of an order come from?"),
        ("2026-03-02T09:01:00Z", "assistant", "From tax_table.csv, which load_rates() reads for the region NL-7731."),
    ],
    "tuesday": [
        ("2026-03-03T09:00:00Z", "user", "The tax of Dutch orders is wrong, please repair it."),
        ("2026-03-03T09:05:00Z", "assistant", "[Edit] tax_table.csv: NL-7731 had the rate of 2024. See audit.md."),
        ("2026-03-03T09:10:00Z", "user", "And the audit?"),
        ("2026-03-03T09:11:00Z", "assistant", "audit.md is written; load_rates() and tax_table.csv are as they were."),
    ],
    "wednesday": [
        ("2026-03-04T09:00:00Z", "user", "Give the gallery a dark mode that follows prefers-color-scheme."),
        ("2026-03-04T09:05:00Z", "assistant", "[Edit] gallery.css and theme_switch.js follow prefers_dark now."),
    ],
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, no_router: None) -> Logs:
    folder = tmp_path_factory.mktemp("replay")
    (folder / "logs" / "shop").mkdir(parents=True)
    for name, turns in SESSIONS.items():
        lines = [
            {"session": name, "id": f"{name}{i}", "role": role, "text": text, "timestamp": time}
            for i, (time, role, text) in enumerate(turns)
        ]
        path = folder / "logs" / "shop" / f"{name}.jsonl"
        path.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    return open_logs(folder / "logs", load(), folder / "work")


ALL = HookSetting("all", 0.0, 0.0, 1_000)


def give_everything(
    memory: Memory, snap: Snapshot, prompt: LoggedPrompt, setting: HookSetting, state: HookState, at: datetime | None
) -> Addition:
    """A hook that adds every item of the store."""
    entries = snap.text(np.flatnonzero(snap.alive))
    assert all(entry["time"] < at for entry in entries)
    return Addition("\n".join(entry["text"] for entry in entries), tuple(entry["id"] for entry in entries), 100)


def test_prompts_come_in_the_order_of_time_with_their_replies(logs: Logs) -> None:
    assert [prompt.text[:12] for prompt in logs.prompts] == [
        "Where does t",
        "The tax of D",
        "And the audi",
        "Give the gal",
    ]
    audit = logs.prompts[2]
    assert [item.text[:6] for item in audit.before] == ["The ta", "[Edit]"]
    assert [item.text[:8] for item in audit.reply] == ["audit.md"]
    assert {prompt.source for prompt in logs.prompts} == {"shop"}
    assert [Path(name).name for name in logs.projects] == ["shop"]  # that of the folder


def test_nothing_said_later_or_in_the_session_is_ever_given(logs: Logs) -> None:
    done = replay(logs, [ALL], give_everything, lambda line: None)
    given = [set(one.answers["all"].items) for one in done]
    sessions = [{logs.by_row[logs.snap.row_map.find(item)].session for item in items} for items in given]  # type: ignore[index]
    first, second = done[0].prompt.session, done[1].prompt.session
    assert sessions == [set(), {first}, {first}, {first, second}]


def test_evidence_is_the_weight_of_needed_terms_that_is_given(logs: Logs) -> None:
    done = replay(logs, [ALL], give_everything, lambda line: None)
    assert set(done[1].needed) == {"tax_table.csv", "nl-7731"}  # neither audit.md, which is new, nor 2024
    assert set(done[2].needed) == {"load_rates"}  # the session holds the others already
    assert [one.evidence["all"] for one in done] == [0, 1, 1, 0]
    assert not done[3].needed
    report = summarise(done, [ALL], "all")
    assert report["prompts"] == {"all": 4, "with_earlier": 3}
    assert report["with_needed"] == 2
    assert report["all"][0]["evidence"] == 1
    assert report["all"][0]["tokens_a_prompt"] == 75
    assert report["with_earlier"][0]["tokens_ratio"] == 1


def test_rare_terms_weigh_more() -> None:
    texts = {0: "see load_rates and tax_table.csv", 1: "load_rates again", 2: "nothing", 3: "load_rates ran"}
    index = TermIndex(texts, 4)
    needed = index.weigh({"load_rates", "tax_table.csv", "audit.md"}, np.array([0, 1, 2]), common=1.0)
    assert needed == pytest.approx({"load_rates": np.log(3 / 2), "tax_table.csv": np.log(3)})
    share = measure_evidence(needed, {"tax_table.csv"})
    assert share == pytest.approx(np.log(3) / (np.log(3) + np.log(1.5)))
    assert measure_evidence({}, {"tax_table.csv"}) == 0
    assert find_needed(index, "load_rates?", [], [3], np.array([0, 1])) == {}


def test_terms_are_names_and_identifiers() -> None:
    text = "The file src/tax_table.csv, e.g. for Priya: loadRates() --dry-run 1029 and 12. Then done."
    assert find_terms(text) == {"tax_table.csv", "priya", "loadrates", "dry-run", "1029"}


def test_a_prompt_is_bounded_as_the_hook_does() -> None:
    long = "".join(f"word{i} " for i in range(MOST_CHARS))
    request = build_request("UserPromptSubmit", {"prompt": long})
    assert request is not None
    assert bound_prompt(long) == request["prompt"]
    assert clean_prompt("<system-reminder>be brief</system-reminder>") == ""
    assert clean_prompt("…") == ""


def test_sessions_that_share_a_term_with_prompt_or_reply_count_as_said(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cases, "LEAST_ITEMS", 1)
    index = TermIndex({item.row: item.text for item in logs.items}, logs.snap.rows)
    tax, _, gallery = (select_unsaid(logs, index, prompt) for prompt in logs.prompts[1:])
    assert not len(tax)  # its reply has tax_table.csv, as monday has
    assert {logs.by_row[row].session for row in gallery.tolist()} == {prompt.session for prompt in logs.prompts[:2]}


def test_the_hook_gives_an_item_once(logs: Logs) -> None:
    now = list_settings(0.0, sweep=False)[2]._replace(relevance=0.0)
    done = replay(logs, [BEFORE._replace(profile="helix"), now], HookCaller(), lambda line: None)
    assert set(done[1].answers["before"].items) & set(done[2].answers["before"].items)
    assert done[1].answers["now"].items
    assert not set(done[1].answers["now"].items) & set(done[2].answers["now"].items)


def test_the_share_above_each_threshold_is_by_source() -> None:
    answered = np.array([0.05, 0.2, 0.4, 0.9], np.float32)
    empty = np.zeros(0)
    judged = JudgedCases(empty, empty, answered, empty, empty.astype(np.float32), empty.astype(bool))
    sources = np.array(["a", "a", "b", ""])
    assert share_passed(judged, sources, {"passed": 0.12, "spoken": 0.3}) == {
        "a": {"cases": 2, "passed": 0.5, "spoken": 0.0},
        "b": {"cases": 1, "passed": 1.0, "spoken": 1.0},
    }
