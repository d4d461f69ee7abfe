"""The report of `helix ingest`: what came in, what stayed out and why, and what to do about it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from helix.cli.main import main
from pipelines.cli.ingest_report import print_report
from pipelines.ingest.accept_all import IngestReport
from tests.crash.test_kill import write_log


def test_only_what_there_is_has_a_figure(tmp_path: Path, run_helix) -> None:
    log, store = write_log(tmp_path / "a.jsonl", "a", ["walnut bread"]), tmp_path / "s"
    first = run_helix("ingest", log, "--store", store).stdout
    assert re.fullmatch(r"1 document accepted; 1 turn, 1 new item; generation 1 in [\d.]+ s\n", first)
    again = run_helix("ingest", log, "--store", store).stdout
    assert again.startswith("0 documents accepted, 1 duplicate; 0 turns, 0 new items; generation 1 in ")
    (tmp_path / "b.bin").write_bytes(b"a\0b")
    refused = run_helix("ingest", tmp_path / "b.bin", "--store", store)
    assert refused.stdout.startswith("0 documents accepted, 1 refused; ")
    assert refused.stderr.startswith(f"helix ingest: {tmp_path}/b.bin: binary input: a NUL byte at offset 1; give text")
    assert refused.returncode == 3


def test_an_empty_folder_is_named_with_the_remedy(tmp_path: Path, run_helix) -> None:
    (tmp_path / "none").mkdir()
    done = run_helix("ingest", tmp_path / "none", "--store", tmp_path / "s")
    assert f"no file to read in {tmp_path}/none: name a log or a folder of logs" in done.stderr
    assert done.returncode == 0


def test_a_store_is_no_input(tmp_path: Path, run_helix) -> None:
    store = tmp_path / "helix-store"
    write_log(tmp_path / "a.jsonl", "a", ["walnut bread"])
    for _ in range(2):
        done = run_helix("ingest", tmp_path, "--store", store, "--json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["duplicates"] == 1
    assert json.loads(done.stdout)["refused"] == []


@pytest.fixture
def report(tmp_path: Path) -> IngestReport:
    kinds = {f"event of \x1b[2J{'long/' * 30}{n}": n for n in range(1, 15)}
    return IngestReport(1, turns=2, unknown=Counter(kinds), junk=Counter({"host": 9_000, "repeated": 1}), chars=10_000)


def test_unknown_records_are_a_short_line(
    sample_store: Path, report: IngestReport, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(sample_store, report, 1.0, ["a"], verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "left out as junk: 47.4% of the text (host 47.4%)"
    assert lines[-1].startswith("left out as unknown: 105 records (event of ")
    assert lines[-1].endswith(" 12, …; --verbose names all 14 kinds)")
    assert len(lines[-1]) < 240
    print_report(sample_store, report, 1.0, ["a"], verbose=True)
    text = capsys.readouterr().out
    assert text.count("event of ") == 14
    assert "repeated 0.0%" in text
    assert "\x1b" not in text


def test_a_queued_document_waits_for_a_command_that_runs(tmp_path: Path, run_helix) -> None:
    log, store = write_log(tmp_path / "a.jsonl", "a", ["walnut bread"]), tmp_path / "s"
    done = run_helix("enqueue", log, "--store", store)
    assert "'helix ingest --pending' at once" in done.stderr
    assert main(["ingest", "--pending", "--store", str(store)]) == 0
