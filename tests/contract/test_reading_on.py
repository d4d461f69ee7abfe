"""Commands to read on from an answer: `helix show`, `sessions`, `timeline` and `diff`, and the look of an answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import helix
from helix.cli.main import main
from helix.errors import UsageError
from helix.util.ages import format_age
from query.cli.answer_text import ID_DIGITS, SHOWN_CHARS, _choose_passage
from query.cli.marks import find_marks
from query.cli.sessions import shorten_names
from tests.contract.test_terminal import Draw, draw, plain  # noqa: F401 — a fixture
from tests.support.tiny import list_ids, make_store

QUESTION = "What did I tell Priya about vacation?"
MARCH = "I told Priya we can do March for vacation"


def test_the_short_id_of_an_answer_shows_its_conversation(sample_store: Path, call_helix) -> None:
    store = ("--store", sample_store)
    done = call_helix("recall", *QUESTION.split(), "--k", "1", *store)  # without quotes
    match = re.match(r" 1 +\d+%  .* · Ana · 2026-02-10 20:31  ([0-9a-f]{8})\n    " + MARCH, done.stdout)
    assert match, done.stdout
    assert "<memory>" not in done.stdout
    assert "<memory>" in call_helix("recall", QUESTION, "--context", *store).stdout
    shown = call_helix("show", match[1], *store).stdout
    assert MARCH in shown
    assert "How far are you with the sunshine project?" in shown  # what was said before it
    assert (
        len(re.findall(r"^\S.* [0-9a-f]{8}$", shown, re.M)) == 4
    )  # one before, which begins the session, and two after
    found = json.loads(call_helix("show", match[1], "--around", "1", "--json", *store).stdout)
    assert [len(found["items"]), found["at"]] == [3, 1]
    assert found["items"][1]["id"].startswith(match[1])


def test_a_session_is_shown_by_its_name_or_its_beginning(sample_store: Path, call_helix) -> None:
    store = ("--store", sample_store)
    whole = call_helix("show", "c3", *store).stdout
    assert whole.index("How far are you") < whole.index(MARCH)
    page = json.loads(call_helix("show", "c3", "--json", "--offset", "2", *store).stdout)
    assert page["offset"] == 2
    assert page["session"] == "c3"
    wrong = call_helix("show", "nothing-like-this", *store)
    assert (wrong.returncode, "no item and no session" in wrong.stderr) == (2, True)
    several = call_helix("show", "c", *store)
    assert several.returncode == 2
    assert "sessions begin with 'c'" in several.stderr


def test_an_id_of_several_items_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "s", [f"walnut {i}" for i in range(1_200)])
    memory = helix.open(tmp_path / "s")
    ids = list_ids(tmp_path / "s")
    beginning = next(one[:4] for one in ids if sum(other.startswith(one[:4]) for other in ids) == 1)
    found = memory.item(beginning)
    assert found is not None
    assert found["id"].startswith(beginning)
    assert memory.item(ids[0][:3]) is None  # too short to be one
    shared, count = Counter(one[:4] for one in ids).most_common(1)[0]
    assert count > 1
    with pytest.raises(UsageError, match=f"{count} items have an id that begins with {shared}"):
        memory.item(shared)


def test_sessions_and_the_timeline_list_the_newest_first(sample_store: Path, call_helix) -> None:
    store = ("--store", sample_store)
    lines = call_helix("sessions", *store).stdout.splitlines()
    assert len(lines) == 8
    days = [line[:10] for line in lines if line[:4].isdigit()]
    assert days == sorted(days, reverse=True)
    some = call_helix("sessions", "--limit", "2", *store)
    assert len(some.stdout.splitlines()) == 2
    assert "2 of 8 sessions: --offset 2 shows the next" in some.stderr
    of_february = json.loads(call_helix("sessions", "--until", "2026-02-28", "--json", *store).stdout)
    assert 0 < of_february["total"] < 8
    shown = call_helix("timeline", *store).stdout
    assert re.search(r"^[A-Z][a-z]+day, 2026-02-10$", shown, re.M)
    assert re.search(r"^  .* · holidays · Marco, Ana · \d+ items", shown, re.M)
    empty = call_helix("timeline", "--since", "2030-01-01", *store)
    assert (empty.stdout, empty.returncode) == ("", 0)
    assert empty.stderr


def test_names_are_shortened_as_far_as_they_differ() -> None:
    assert shorten_names(["b18d71f0-aaaa", "b18d71f0-bbbb", "c3"]) == ["b18d71f0-a", "b18d71f0-b", "c3"]
    assert shorten_names(["94a15dbc4711", "0f2b6c1d9999"]) == ["94a15dbc", "0f2b6c1d"]
    assert shorten_names(["same-name-here", "same-name-here-too"])[0] == "same-name-here"


def test_a_diff_lists_what_came_and_what_went(own_store: Path, call_helix, tmp_path: Path) -> None:
    store = ("--store", own_store)
    note = tmp_path / "note.md"
    note.write_text("# Kitchen\n\nThe zirconium whisk is in the third drawer.\n")
    assert call_helix("ingest", note, *store).returncode == 0
    after = call_helix("status", "--json", *store)
    generation = json.loads(after.stdout)["generation"]
    shown = call_helix("diff", "1", str(generation), *store).stdout
    assert re.search(r"^1 item added\n\+ [0-9a-f]{8}  .*zirconium whisk", shown, re.M)
    assert "0 items removed" in shown
    back = json.loads(call_helix("diff", str(generation), "1", "--json", *store).stdout)
    assert (back["added"]["total"], back["removed"]["total"]) == (0, 1)
    assert call_helix("diff", "1", "99", *store).returncode == 2


def test_a_terminal_shows_ages_and_marks_the_words_of_the_question(sample_store: Path, draw: Draw) -> None:  # noqa: F811
    call = ["recall", "what did I tell Priya about vacations?", "--k", "1", "--store", str(sample_store)]
    text = draw(lambda: main(call), columns=160)
    assert re.search(r"ago \(2026-02-10\)", plain(text))
    marked = re.findall(r"\x1b\[1;4m(\w+)", text)
    assert marked == ["Priya", "vacation"]  # by stems, without "about"


def test_a_long_text_is_cut_around_the_words_of_the_question() -> None:
    text = "lorem ipsum " * 60 + "the walnut press broke down " + "dolor sit amet " * 60
    marks = list(find_marks(text, "why did the walnut presses break"))
    assert [text[begin:end] for begin, end in marks] == ["walnut", "press"]
    begin, end = _choose_passage(len(text), marks)
    assert end - begin == SHOWN_CHARS
    assert "the walnut press broke" in text[begin:end]
    assert _choose_passage(40, []) == (0, 40)
    assert _choose_passage(900, []) == (0, SHOWN_CHARS)
    assert list(find_marks("the and of", "the of and")) == []
    assert ID_DIGITS == 8


AGES = {
    10: "now", 50: "1 minute ago", 3_500: "58 minutes ago", 5 * 3_600: "5 hours ago", 26 * 3_600: "yesterday",
    3 * 86_400: "3 days ago", 10 * 86_400: "10 days ago", 40 * 86_400: "6 weeks ago", 300 * 86_400: "10 months ago",
    800 * 86_400: "2 years ago", -3 * 3_600: "in 3 hours",
}  # fmt: skip


def test_ages_are_as_a_person_says_them() -> None:
    now = datetime(2026, 11, 29, 14, tzinfo=UTC)
    assert {seconds: format_age(now - timedelta(seconds=seconds), now) for seconds in AGES} == AGES
