"""The quality report: measured once, kept, gone on with after a cut, and written as tables and plots."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.errors import InputRefused, StoreError, UsageError
from helix.settings import load
from pipelines.eval import report
from pipelines.eval.plots import draw
from pipelines.eval.report import Job, job, markdown, measure, write
from tests.support.benchmarks import locomo, musique

PROFILES = ("helix", "annie")


@pytest.fixture(scope="module", autouse=True)
def no_router(cache: Path) -> Iterator[None]:
    """Trained with every new store, in seconds, and no matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.ingest.commit.load_router", lambda *_: "not here")
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Job], Path]:
    """Two tiny sets and the folder their figures are kept in. Read it only."""
    folder = tmp_path_factory.mktemp("report")
    jobs = [Job("musique", "musique", musique(folder / "hops")), Job("locomo", "talk", locomo(folder / "talk.json"))]
    assert measure(jobs, folder / "keep", load(), profiles=PROFILES, say=lambda _: None) == []
    return jobs, folder / "keep"


@pytest.fixture
def keep(measured: tuple[list[Job], Path], tmp_path: Path) -> Path:
    """A copy of the figures, without the stores."""
    shutil.copytree(measured[1], tmp_path / "keep", ignore=shutil.ignore_patterns("stores"))
    return tmp_path / "keep"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sets that are measured from now on; nothing is, really."""
    seen: list[str] = []

    def evaluated(name: str, path: Path, *_: Any, store: Path, **given: Any) -> dict[str, Any]:
        seen.append(f"{name} {path.name} {','.join(given['profiles'])}")
        if not path.exists():
            raise InputRefused(f"{path} is no {name} set")
        return {"rows": {}, "store": store.name}

    monkeypatch.setattr(report, "evaluate", evaluated)
    return seen


def reports(keep: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(keep.glob("*.json"))}


def tables(text: str) -> list[list[list[str]]]:
    """Rows of every table, without the line under the head."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[table[0], *table[2:]] for table in found if table]


# ---------------------------------------------------------------- the text


def test_the_report(keep: Path, tmp_path: Path) -> None:
    out = tmp_path / "docs" / "quality.md"
    (tmp_path / "docs" / "quality").mkdir(parents=True)
    (tmp_path / "docs" / "quality" / "levers.md").write_text("## Levers\n\nBy hand: *x* | y.\n")
    assert write(keep, out) == ["talk", "musique"]  # in the order in which sets are known
    text, figures = out.read_text(), reports(keep)
    for name in ("bars", "curves", "packs"):
        assert f"(quality/{name}.svg)" in text
        root = ElementTree.parse(tmp_path / "docs" / "quality" / f"{name}.svg").getroot()
        assert root.tag.endswith("svg")
    assert text.endswith("## Levers\n\nBy hand: *x* | y.\n")
    found = tables(text.partition("## Levers")[0])
    assert all(len({len(row) for row in table}) == 1 for table in found)
    summary, talk_main, talk_ks, musique_main, _, kinds, pooled, profiles = found
    helix = figures["talk"]["rows"]["helix"]
    assert [row[0] for row in summary[1:]] == ["talk", "musique"]
    assert summary[1][1:4] == ["6", "2", "5"]
    assert summary[1][summary[0].index("default")] == f"{helix['rec@10']:.3f}"
    for told, name in zip(summary[1][-2:], ("rec@10", "ndcg@10"), strict=True):
        assert told.startswith(f"{helix['gain'][name][0]:+.3f} [")
        assert told.endswith(f"({helix['gain']['over'][name]})")
    assert [row[0] for row in talk_main[1:]] == list(figures["talk"]["rows"])
    assert talk_main[4][1] == f"{helix['rec@10']:.3f} [{helix['low']:.3f}, {helix['high']:.3f}]"
    assert dict(zip(talk_ks[0], talk_ks[4], strict=True))["all@20"] == f"{helix['all@20']:.3f}"
    assert [row[0] for row in musique_main[1:]] == ["dense", "bm25", "rrf", *PROFILES]  # one haystack: nothing pooled
    assert [row[:3] for row in kinds[1:]] == [
        ["talk", "single-hop", "1"],
        ["talk", "temporal", "5"],
        ["musique", "2hop", "1"],
    ]
    assert [row[:2] for row in pooled[1:]] == [["talk", way] for way in ("dense", "bm25", "rrf", "helix")]
    assert profiles[0] == ["set", *PROFILES]
    assert profiles[1][1].startswith(f"{helix['rec@10']:.3f} (")


def test_the_report_says_how_and_what_was_left_out(keep: Path) -> None:
    text = markdown(reports(keep), dict.fromkeys(("bars", "curves", "packs"), "x.svg"))
    made = reports(keep)["talk"]["made"]
    for said in (made["date"], f"helix {made['helix']}", "encoder all-MiniLM-L6-v2", "with seed 0"):
        assert said in text
    assert "- Left out: 2 questions (no gold turn)." in text
    assert "1 pieces of evidence name no turn and were dropped." in text
    assert "- **Note:** k = 10 is more than a fifth of the haystack for 6 of 6 questions" in text
    assert "- questions for which fewer than 20 turns came back: bm25 " in text
    for word in ("zorblatt", "Zorblatt", "deep", "Lake"):  # nothing a set says
        assert word not in text


def test_the_same_figures_give_the_same_plots(keep: Path, tmp_path: Path) -> None:
    first, second = draw(reports(keep), tmp_path / "a"), draw(reports(keep), tmp_path / "b")
    assert [path.read_bytes() for path in first.values()] == [path.read_bytes() for path in second.values()]
    changed = reports(keep)
    changed["talk"]["rows"]["helix"]["rec@10"] = 0.123
    third = draw(changed, tmp_path / "c")
    assert third["bars"].read_bytes() != first["bars"].read_bytes()
    assert third["packs"].read_bytes() == first["packs"].read_bytes()


@pytest.mark.parametrize("n", [1, 4])
def test_as_many_panels_as_sets(keep: Path, tmp_path: Path, n: int) -> None:
    one = reports(keep)["talk"]
    draw({f"set{i}": one for i in range(n)}, tmp_path)
    for name in ("bars", "curves", "packs"):
        assert (tmp_path / f"{name}.svg").read_text().count('id="axes_') == n


# ---------------------------------------------------------------- measured once


def test_what_is_kept_is_not_measured_again(measured: tuple[list[Job], Path], keep: Path, watched: list[str]) -> None:
    jobs, _ = measured
    said: list[str] = []
    assert measure(jobs, keep, load(), profiles=PROFILES, say=said.append) == []
    assert (watched, said) == ([], ["musique: kept", "talk: kept"])
    # Cut off while it was written, or asked for something else: anew, and only that.
    (keep / "talk.json").write_text((keep / "talk.json").read_text()[:-100])
    measure(jobs, keep, load(), profiles=PROFILES, say=said.append)
    assert watched == ["locomo talk.json helix,annie"]
    watched.clear()
    measure(jobs, keep, load(), profiles=("helix",), say=said.append)
    assert watched == ["musique hops helix", "locomo talk.json helix"]


def test_a_cut_leaves_what_was_measured(
    measured: tuple[list[Job], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, kept = measured
    real = report.evaluate

    def cut(name: str, *given: Any, **more: Any) -> Any:
        if name == "locomo":
            raise KeyboardInterrupt
        return real(name, *given, **more)

    monkeypatch.setattr(report, "evaluate", cut)
    with pytest.raises(KeyboardInterrupt):
        measure(jobs, tmp_path, load(), profiles=("helix",), say=lambda _: None)
    assert [path.name for path in tmp_path.glob("*.json")] == ["musique.json"]
    assert write(tmp_path, tmp_path / "out" / "q.md") == ["musique"]
    own = reports(tmp_path)["musique"]["rows"]["helix"]
    assert own["mrr"] == reports(kept)["musique"]["rows"]["helix"]["mrr"]


def test_another_path_is_another_store(watched: list[str], tmp_path: Path) -> None:
    stores = []
    for name in ("a.json", "b.json", "a.json"):
        path = locomo(tmp_path / "sets" / name)
        measure([Job("locomo", "x", path)], tmp_path / "keep", load(), profiles=("helix",), say=lambda _: None)
        stores.append(reports(tmp_path / "keep")["x"]["store"])
    assert len(watched) == 3
    assert stores[0] == stores[2] != stores[1]


# ---------------------------------------------------------------- the command


def test_one_set_that_is_refused_does_not_stop_the_others(
    tmp_path: Path, keep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["eval", "report", "beam=nowhere", "--keep", str(keep), "--out", "q.md", "--profile", "helix"]
    assert main([*given, "--json"]) == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"report": "q.md", "sets": ["talk", "musique"], "refused": ["beam"]}
    assert "nowhere is no beam set" in shown.err
    assert (tmp_path / "q.md").is_file()
    assert main(["eval", "report", "--keep", str(keep), "--out", "q.md"]) == 0
    assert capsys.readouterr().out == "q.md: talk, musique\n"


def test_a_job_as_it_is_written() -> None:
    assert job("locomo=in.json") == Job("locomo", "locomo", Path("in.json"))
    assert job("beir:scifact=a=b/c") == Job("beir", "scifact", Path("a=b/c"))


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["locomo"], 2, "is not SET=PATH"),
        (["squad=x"], 2, "no set 'squad'"),
        (["beir:a/b=x"], 2, "no label"),
        (["beir=x", "beir=y"], 2, "SET:LABEL=PATH"),
        (["beir=x", "--profile", "nobody"], 2, "nobody"),
        ([], 4, "nothing was measured"),
    ],
)
def test_wrong_use_of_the_command(
    given: list[str], status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "report", *given, "--keep", str(tmp_path / "keep"), "--out", str(tmp_path / "q.md")]) == status
    shown = capsys.readouterr()
    assert said in shown.err
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)
    assert not (tmp_path / "q.md").exists()


def test_a_folder_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "report", "locomo=x"]) == 2
    assert "--keep" in capsys.readouterr().err


def test_without_matplotlib_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, watched: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"helix-recall\[report\]"):
        measure([Job("locomo", "x", tmp_path)], tmp_path, load(), say=lambda _: None)
    assert watched == []


def test_nothing_kept(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(StoreError, match="nothing was measured"):
        write(tmp_path, tmp_path / "q.md")
