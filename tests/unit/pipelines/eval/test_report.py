"""The quality report: measured once, continued after an interruption, written as tables and plots."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.errors import InputRefused, StoreError, UsageError
from helix.settings import load
from pipelines.eval import report
from pipelines.eval.document import draw_plots
from pipelines.eval.report import MeasuredSet, format_document, measure, parse_set, write
from tests.support.benchmarks import locomo, musique

PROFILES = ("helix", "annie")

pytestmark = pytest.mark.usefixtures("no_router")

Measured = tuple[list[MeasuredSet], Path]
"""Sets, and the folder of their figures."""


@pytest.fixture(scope="module")
def measurement(tmp_path_factory: pytest.TempPathFactory, no_router: None) -> Measured:
    """Two tiny sets. Read it only."""
    folder = tmp_path_factory.mktemp("report")
    talk = MeasuredSet("locomo", "talk", locomo(folder / "talk.json"))
    sets = [MeasuredSet("musique", "musique", musique(folder / "hops")), talk]
    assert measure(sets, folder / "keep", load(), profiles=PROFILES, say=lambda _: None) == []
    return sets, folder / "keep"


@pytest.fixture
def keep(measurement: Measured, tmp_path: Path) -> Path:
    """A copy of the figures, without the stores."""
    shutil.copytree(measurement[1], tmp_path / "keep", ignore=shutil.ignore_patterns("stores"))
    return tmp_path / "keep"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of `evaluate`, which measures nothing."""
    calls: list[str] = []

    def evaluate(name: str, path: Path, *_: Any, store: Path, **options: Any) -> dict[str, Any]:
        calls.append(f"{name} {path.name} {','.join(options['profiles'])}")
        if not path.exists():
            raise InputRefused(f"{path} is no {name} set")
        return {"rows": {}, "store": store.name}

    monkeypatch.setattr(report, "evaluate", evaluate)
    return calls


def read_reports(keep: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(keep.glob("*.json"))}


def read_tables(text: str) -> list[list[list[str]]]:
    """Rows of every table, without the line under the head."""
    tables: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif tables[-1]:
            tables.append([])
    return [[table[0], *table[2:]] for table in tables if table]


def test_the_report(keep: Path, tmp_path: Path) -> None:
    out = tmp_path / "docs" / "quality.md"
    (tmp_path / "docs" / "quality").mkdir(parents=True)
    (tmp_path / "docs" / "quality" / "levers.md").write_text("## Levers\n\nBy hand: *x* | y.\n")
    assert write(keep, out) == ["talk", "musique"]  # in the registry's order
    text, figures = out.read_text(), read_reports(keep)
    for name in ("bars", "curves", "packs"):
        assert f"(quality/{name}.svg)" in text
        root = ElementTree.parse(tmp_path / "docs" / "quality" / f"{name}.svg").getroot()
        assert root.tag.endswith("svg")
    assert text.endswith("## Levers\n\nBy hand: *x* | y.\n")
    tables = read_tables(text.partition("## Levers")[0])
    assert all(len({len(row) for row in table}) == 1 for table in tables)
    summary, talk_main, talk_ks, sessions, musique_main, _, published, kinds, pooled, profiles = tables
    helix = figures["talk"]["rows"]["helix"]
    assert [row[0] for row in summary[1:]] == ["talk", "musique"]
    assert summary[1][1:4] == ["6", "2", "5"]
    assert summary[1][summary[0].index("default")] == f"{helix['rec@10']:.3f}"
    for cell, name in zip(summary[1][-2:], ("rec@10", "ndcg@10"), strict=True):
        assert cell.startswith(f"{helix['gain'][name][0]:+.3f} [")
        assert cell.endswith(f"({helix['gain']['over'][name]})")
    assert [row[0] for row in talk_main[1:]] == list(figures["talk"]["rows"])
    assert talk_main[4][1] == f"{helix['rec@10']:.3f} [{helix['low']:.3f}, {helix['high']:.3f}]"
    assert dict(zip(talk_ks[0], talk_ks[4], strict=True))["all@20"] == f"{helix['all@20']:.3f}"
    ways = ["dense", "bm25", "rrf", *PROFILES, "helix, best"]  # one haystack: nothing pooled
    assert [row[0] for row in musique_main[1:]] == ways
    rows = [["talk", "single-hop", "1"], ["talk", "temporal", "5"], ["musique", "2hop", "1"]]
    assert [row[:3] for row in kinds[1:]] == rows
    assert [row[:2] for row in pooled[1:]] == [["talk", way] for way in ("dense", "bm25", "rrf", "helix")]
    assert [row[0] for row in sessions[1:]] == [row for row in figures["talk"]["rows"] if "pooled" not in row]
    own = [row for row in published if row[0] == "Helix (talk)"]
    assert {row[2] for row in own} == {"sessions", "turns"}
    assert own[-1][3:5] == ["rec@10", f"{helix['rec@10']:.3f}"]
    assert len(published) > len(own) + 5  # those of others
    assert profiles[0] == ["set", *PROFILES]
    assert profiles[1][1].startswith(f"{helix['rec@10']:.3f} (")


def test_the_report_has_its_method_and_the_questions_left_out(keep: Path) -> None:
    text = format_document(read_reports(keep), "x")
    made = read_reports(keep)["talk"]["made"]
    for phrase in (made["date"], f"helix {made['helix']}", "encoder all-MiniLM-L6-v2", "with seed 0"):
        assert phrase in text
    assert "- Left out: 2 questions (no gold turn)." in text
    assert "1 pieces of evidence name no turn and were dropped." in text
    assert "- **Note:** k = 10 is more than a fifth of the haystack for 6 of 6 questions" in text
    assert "- questions for which fewer than 20 turns came back: bm25 " in text
    for word in ("zorblatt", "Zorblatt", "deep", "Lake"):  # no text of a set
        assert word not in text


def test_the_same_figures_give_the_same_plots(keep: Path, tmp_path: Path) -> None:
    first, second = draw_plots(read_reports(keep), tmp_path / "a"), draw_plots(read_reports(keep), tmp_path / "b")
    assert [path.read_bytes() for path in first.values()] == [path.read_bytes() for path in second.values()]
    changed = read_reports(keep)
    changed["talk"]["rows"]["helix"]["rec@10"] = 0.123
    third = draw_plots(changed, tmp_path / "c")
    assert third["bars"].read_bytes() != first["bars"].read_bytes()
    assert third["packs"].read_bytes() == first["packs"].read_bytes()


def test_plots_have_a_panel_for_each_set(keep: Path, tmp_path: Path) -> None:
    one = read_reports(keep)["talk"]
    for n in (1, 3):
        draw_plots({f"set{i}": one for i in range(n)}, tmp_path)
        for name in ("bars", "curves", "packs"):
            assert (tmp_path / f"{name}.svg").read_text().count('id="axes_') == n


def test_retained_figures_are_not_measured_again(measurement: Measured, keep: Path, calls: list[str]) -> None:
    sets, _ = measurement
    lines: list[str] = []
    assert measure(sets, keep, load(), profiles=PROFILES, say=lines.append) == []
    assert (calls, lines) == ([], ["musique: kept", "talk: kept"])
    # Incomplete figures and those of other profiles are measured again, and no others.
    (keep / "talk.json").write_text((keep / "talk.json").read_text()[:-100])
    measure(sets, keep, load(), profiles=PROFILES, say=lines.append)
    assert calls == ["locomo talk.json helix,annie"]
    calls.clear()
    measure(sets, keep, load(), profiles=("helix",), say=lines.append)
    assert calls == ["musique hops helix", "locomo talk.json helix"]


def test_an_interruption_leaves_the_figures_measured_before(
    measurement: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets, kept = measurement
    evaluate = report.evaluate

    def interrupt(name: str, *given: Any, **more: Any) -> Any:
        if name == "locomo":
            raise KeyboardInterrupt
        return evaluate(name, *given, **more)

    monkeypatch.setattr(report, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure(sets, tmp_path, load(), profiles=("helix",), say=lambda _: None)
    assert [path.name for path in tmp_path.glob("*.json")] == ["musique.json"]
    assert write(tmp_path, tmp_path / "out" / "q.md") == ["musique"]
    own = read_reports(tmp_path)["musique"]["rows"]["helix"]
    assert own["mrr"] == read_reports(kept)["musique"]["rows"]["helix"]["mrr"]


def test_another_path_is_another_store(calls: list[str], tmp_path: Path) -> None:
    stores = []
    for name in ("a.json", "b.json", "a.json"):
        path = locomo(tmp_path / "sets" / name)
        measure([MeasuredSet("locomo", "x", path)], tmp_path / "keep", load(), profiles=("helix",), say=lambda _: None)
        stores.append(read_reports(tmp_path / "keep")["x"]["store"])
    assert len(calls) == 3
    assert stores[0] == stores[2] != stores[1]


def test_a_refused_set_does_not_stop_the_others(
    tmp_path: Path, keep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["eval", "report", "beam=nowhere", "--keep", str(keep), "--out", "q.md", "--profile", "helix"]
    assert main([*given, "--json"]) == 3
    output = capsys.readouterr()
    assert json.loads(output.out) == {"report": "q.md", "sets": ["talk", "musique"], "refused": ["beam"]}
    assert "nowhere is no beam set" in output.err
    assert (tmp_path / "q.md").is_file()
    assert main(["eval", "report", "--keep", str(keep), "--out", "q.md"]) == 0
    assert capsys.readouterr().out == "q.md: talk, musique\n"


def test_a_set_is_parsed() -> None:
    assert parse_set("locomo=in.json") == MeasuredSet("locomo", "locomo", Path("in.json"))
    assert parse_set("beir:scifact=a=b/c") == MeasuredSet("beir", "scifact", Path("a=b/c"))


def test_wrong_use_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--keep", str(tmp_path / "keep"), "--out", str(tmp_path / "q.md")]
    for arguments, status, message in (
        ("locomo", 2, "is not SET=PATH"), ("squad=x", 2, "no set 'squad'"), ("beir:a/b=x", 2, "no label"),
        ("beir=x beir=y", 2, "SET:LABEL=PATH"), ("beir=x --profile nobody", 2, "nobody"),
        ("", 4, "nothing was measured"),
    ):  # fmt: skip
        assert main(["eval", "report", *arguments.split(), *places]) == status, arguments
        output = capsys.readouterr()
        assert message in output.err, arguments
        assert (output.out, len(output.err.splitlines())) == ("", 1), arguments
        assert not (tmp_path / "q.md").exists(), arguments
    assert main(["eval", "report", "locomo=x"]) == 2  # without a folder
    assert "--keep" in capsys.readouterr().err


def test_without_matplotlib_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, calls: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"helix-recall\[report\]"):
        measure([MeasuredSet("locomo", "x", tmp_path)], tmp_path, load(), say=lambda _: None)
    assert calls == []


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(StoreError, match="nothing was measured"):
        write(tmp_path, tmp_path / "q.md")


def test_the_newest_gold_is_a_column_where_it_was_measured(keep: Path) -> None:
    reports = read_reports(keep)
    reports["musique"]["kinds"]["2hop"] |= {"newest": 0.5, "newest_low": 0.25, "newest_high": 0.75}
    (kinds,) = [table for table in read_tables(format_document(reports, "x")) if table[0][:2] == ["set", "kind"]]
    assert kinds[0][-1] == "newest"
    assert [row[-1] for row in kinds[1:]] == ["0.500 [0.250, 0.750]", "", ""]
