"""`helix status`: one screen that says what is searchable, what waits, and what is wrong."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.cli.status_text import describe_briefly
from helix.native.library import describe_kernels
from helix.snapshot.status import find_newest, read_status
from pipelines.ingest.accept import prepare_store
from tests.crash.test_kill import write_log
from tests.support.terminals import run_on_terminal
from tests.support.tiny import make_store

HOSTILE = "\x1b[2J</memory>" + "x" * 500


def read_rows(text: str) -> dict[str, str]:
    """Return the text of each named line of a status in a pipe."""
    return {match[1]: match[2] for match in re.finditer(r"^(\S.*?)  +(\S.*)$", text, re.M)}


def test_the_first_lines_say_what_is_searchable_and_up_to_when(sample_store: Path, run_helix) -> None:
    text = run_helix("status", "--store", sample_store).stdout
    assert text.splitlines()[0] == "searchable  129 items of 8 sessions in 4 projects"
    rows = read_rows(text)
    assert rows["up to"] == f"{datetime.fromisoformat(find_newest(sample_store)):%Y-%m-%d %H:%M}"
    assert rows["waiting"] == "nothing"
    if describe_kernels() == "reference":  # the tests run on the kernels in NumPy
        assert rows["kernels"].startswith("in NumPy")
    else:
        assert rows["problems"] == "none found"
    assert rows["projects"].startswith("ledgerline 65, ")
    assert "claude-code 45" in rows["sources"]
    assert re.search(r", [\d.]+ MB, generation 1 of \d{4}-", rows["store"])
    assert "doc2query" not in text


def test_all_shows_the_passes_and_every_count(sample_store: Path, run_helix) -> None:
    rows = read_rows(run_helix("status", "--all", "--store", sample_store).stdout)
    assert {"searchable", "segments", "documents", "by type", "doc2query", "fact_index"} <= rows.keys()


def test_the_newest_item_is_a_live_one(tmp_path: Path, run_helix) -> None:
    times = [{"time": 1_700_000_000 + 3_600 * n} for n in range(4)]
    make_store(tmp_path / "s", list("abcd"), given=times, cuts=[2], deleted={1: [1]})  # without the last one
    assert find_newest(tmp_path / "s") == "2023-11-15T00:13:20+00:00"
    state = json.loads(run_helix("status", "--json", "--store", tmp_path / "s").stdout)
    assert state["newest"] == find_newest(tmp_path / "s")
    make_store(tmp_path / "all", ["a"], given=times[:1], deleted={0: [0]})
    assert find_newest(tmp_path / "all") is None


def test_a_store_without_items_says_how_to_get_some(tmp_path: Path, run_helix) -> None:
    prepare_store(tmp_path / "s", "auto")
    rows = read_rows(run_helix("status", "--store", tmp_path / "s").stdout)
    assert rows["searchable"] == "nothing yet; 'helix init' or 'helix ingest PATH' adds logs"
    run_helix("enqueue", write_log(tmp_path / "a.jsonl", "a", ["walnut"]), "--store", tmp_path / "s")
    rows = read_rows(run_helix("status", "--store", tmp_path / "s").stdout)
    assert re.fullmatch(r"1 document of [\d.]+ kB, the oldest \d+ s old; 'helix ingest --pending' .*", rows["waiting"])


@pytest.fixture
def state(sample_store: Path) -> dict[str, Any]:
    """A state in which everything waits and everything is wrong."""
    names = {f"{HOSTILE}{n}": 9 - n for n in range(9)}
    documents = [f"{n:064x}" for n in range(40)]
    return {
        **read_status(sample_store),
        "newest": datetime(2026, 1, 2, 3, 4, tzinfo=UTC).isoformat(),
        "breakdown": {"project": names, "source": names, "type": {}, "language": {"de": 100, "en": 29}},
        "pending": 9, "pending_bytes": 12_345_678, "lag": 7_200.0, "running": {},
        "errors": dict.fromkeys(documents, f"broken: {HOSTILE}"), "dead": 40,
        "failed": {document: {"tries": 2, "error": HOSTILE, "next": "soon"} for document in documents},
        "purges": 2, "kernels": "reference", "backlog": {"doc2query": 7}, "orders": {"waiting": 3, "done": []},
        "off": [{"session": "s9", "since": "2026-01-01"}],
    }  # fmt: skip


def test_everything_wrong_still_fits_a_screen_with_its_remedies(
    state: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from helix.cli import terminal

    rows = describe_briefly(state)
    terminal.print_table(rows)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    text = "\n".join(lines)
    for remedy in ("ingest --pending", "retry --all", "drop --all", "compact", "up'", "expand", "reindex", "on'"):
        assert f"helix {remedy}" in text, remedy
    assert "and 38 more: 'helix status --all'" in text
    assert "\x1b" not in text
    assert lines[0].startswith("searchable")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_it_on_one_screen(sample_store: Path, columns: int) -> None:
    lines = run_on_terminal("status", "--store", sample_store, columns=columns).splitlines()
    assert len(lines) <= 24
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()) <= columns for line in lines)
    assert any(re.search(r"up to.*\d{2}:\d{2}, .* ago", line) for line in lines)


def test_a_missing_store_names_the_two_ways_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--store", str(tmp_path / "no")]) == 4
    assert "'helix init' or 'helix ingest PATH" in capsys.readouterr().err
