"""The benches of ingest and of the graph's edges: small runs, and pairs counted by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.errors import UsageError
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.bench import graph, ingest

KEYS = {"items", "raw", "encoder", "encoder_share", "whole", "whole_share", "first_seconds", "growth_mb", "cores"}


pytestmark = pytest.mark.usefixtures("no_router")


def check_report(report: dict[str, Any]) -> None:
    assert report.keys() >= KEYS
    assert all(report[name] > 0 for name in KEYS - {"growth_mb"})
    assert report["whole_share"] < 1.5  # the whole is never twice as fast as its part
    assert report["first_seconds"] <= report["items"] / report["whole"] + 0.1
    counts = [count for count, _ in report["memory_mb"]]
    assert counts == sorted(set(counts))
    assert all(10 < mb < 100_000 for _, mb in report["memory_mb"])


def test_ingest_is_compared_with_the_encoder_and_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "SLICE", 20)
    lines: list[str] = []
    report = ingest.measure(60, [], load(), lines.append)
    check_report(report)
    assert report["items"] == 60
    assert len(report["memory_mb"]) == 3  # one a document
    assert lines[-1].startswith("60 items are searchable after ")
    text = ingest.format_report(report)
    assert text.startswith("60 items")
    assert f"{100 * report['whole_share']:.0f} % of it" in text


def write_log(path: Path, n: int) -> None:
    lines = [{"session": path.stem, "id": str(i), "text": f"{path.stem} says {i} of {n}"} for i in range(n)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_logs_of_the_user_with_refused_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for i, name in enumerate("bdf"):
        write_log(folder / f"{name}.jsonl", 10 + i)
    shutil.copy(folder / "b.jsonl", folder / "c.jsonl")  # a duplicate
    (folder / "a.jsonl").write_bytes(b"\0\1\2\3" * 100)
    (folder / "e.jsonl").write_text("")
    assert main(["bench", "ingest", "--logs", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    check_report(report)
    assert report["items"] == 10 + 11 + 12


def test_too_few_documents_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "a.jsonl", 0)
    with pytest.raises(UsageError, match="too little"):
        ingest.measure(1, [tmp_path / "a.jsonl"], load(), lambda _: None)
    assert main(["bench", "ingest", "--items", "0"]) == 2
    assert "--items is 0" in capsys.readouterr().err


def write_talk(path: Path) -> Path:
    first = [("Ana", "D1:1", "Where is src/a.py?"), ("Bo", "D1:2", "Look into src/a.py.")]
    sessions = {
        "session_1": [*first, ("Ana", "D1:3", "I live in Lisbon.")],
        "session_2": [("Bo", "D2:1", "Lisbon is far."), ("Ana", "D2:2", "It rains.")],
    }
    conversation: dict[str, Any] = {
        name: [dict(zip(("speaker", "dia_id", "text"), turn, strict=True)) for turn in turns]
        for name, turns in sessions.items()
    }
    conversation |= {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_2_date_time": "9:00 am on 2 June, 2023"}
    evidence = [["D1:1", "D1:2"], ["D1:3", "D2:1", "D2:2"], ["D1:2", "D1:1"], ["D2:2"]]
    qa = [{"question": "?", "evidence": each} for each in evidence]
    path.write_text(json.dumps([{"sample_id": "c", "conversation": conversation, "qa": qa}]))
    return path


EDGES = {
    # items 0 to 4; of the ten pairs 01, 23, 24 and 34 answer together
    "next": (3, 2),  # 01 12 34
    "reply": (1, 1),  # 01
    "same": (1, 1),  # 01, by the file
    "session": (4, 2),  # 01 02 12 34
    "entity": (6, 3),  # 02 04 24 by Ana, 13 by Bo, 01 by the file, 23 by Lisbon
    "fact": (5, 3),  # Ana lives in Lisbon: 02 24 03 23 34
}


def test_edges_that_join_answers_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_talk(tmp_path / "in.json")
    report = graph.diagnose("locomo", path, tmp_path / "work", load())
    assert (report["set"], report["items"], report["gold_pairs"]) == ("locomo", 5, 4)
    assert report["chance"] == pytest.approx(4 / 10)
    assert {kind: (row["edges"], row["same_answer"]) for kind, row in report["edges"].items()} == EDGES
    for kind, (edges, hit) in EDGES.items():
        assert report["edges"][kind]["share"] == pytest.approx(hit / edges, abs=1e-5)
        assert report["edges"][kind]["gold_reached"] == pytest.approx(hit / 4, abs=1e-4)

    assert main(["bench", "graph", "locomo", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert main(["bench", "graph", "locomo", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "5 items, 4 pairs" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == list(EDGES)
    assert main(["bench", "graph", "squad", str(path)]) == 2


def test_hubs_join_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_talk(tmp_path / "in.json")
    graph.diagnose("locomo", path, tmp_path / "work", load())
    monkeypatch.setattr(graph, "MOST", 2)
    edges = graph.list_edges(Snapshot.open(tmp_path / "work" / "store"))
    counts = {kind: len({tuple(sorted(pair)) for pair in pairs.tolist()}) for kind, pairs in edges.items()}
    # Three items mention Ana, and three are of the first session.
    assert counts == {"next": 3, "reply": 1, "same": 1, "session": 1, "entity": 3, "fact": 0}
