"""Figures and cases of relevance."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.eval.relevance.cases import _keep_few, read_prompts
from pipelines.eval.relevance.document import format_section, insert_section, write_section
from pipelines.eval.relevance.figures import (
    BINS,
    JudgedCases,
    bin_calibration,
    measure_auc,
    measure_calibration,
    summarise,
    trace_coverage,
)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    assert measure_auc(f32(0.9, 0.4), f32(0.5, 0.1)) == 0.75
    assert measure_auc(f32(0.5), f32(0.5)) == 0.5
    assert measure_auc(f32(0.5), f32()) is None


def test_the_calibration_error_is_weighted_by_case() -> None:
    bins = bin_calibration(f32(0.1, 0.1, 0.9, 1.0), np.array([0, 1, 1, 1]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert [one["weight"] for one in bins] == pytest.approx([0.5, 0.25, 0.25])
    assert bins[0]["predicted"] == pytest.approx(0.1)
    assert bins[0]["observed"] == 0.5
    assert measure_calibration(bins) == pytest.approx(0.5 * 0.4 + 0.25 * 0.1, abs=1e-4)
    heavy = bin_calibration(f32(0.1, 0.1), np.array([0, 1]), np.array([3.0, 1.0]))
    assert heavy[0]["observed"] == 0.25
    assert len(bin_calibration(np.linspace(0, 1, 500, dtype=np.float32), np.ones(500), np.ones(500))) == BINS


def test_coverage_begins_with_the_surest() -> None:
    points = trace_coverage(f32(0.2, 0.9, 0.5), np.array([0.0, 1.0, 0.0]), np.ones(3))
    assert np.array(points) == pytest.approx(np.array([(1 / 3, 0), (2 / 3, 0.5), (1, 2 / 3)]), abs=1e-3)


def test_the_figures_of_a_few_cases() -> None:
    judged = JudgedCases(
        np.array(["a", "a", "a", "b", "b", "p"]),
        np.array(["own", "other", "hard", "own", "other", "none"]),
        f32(0.9, 0.2, 0.8, 0.05, 0.1, 0.0),
        np.array([0, 0, 1]),
        f32(0.7, 0.1, 0.1),
        np.array([True, False, False]),
    )
    found = summarise(judged, {"cases": np.ones(6)}, 0.12)
    assert found["sets"]["a"] == {
        **{"answerable": 1, "other": 1.0, "hard": 1.0, "abstention": None},
        **{"emptied": 0.0, "passed": 1.0},
    }
    assert (found["sets"]["b"]["emptied"], found["sets"]["b"]["passed"]) == (1.0, 0.0)
    assert found["sets"]["all"]["other"] == 0.5
    assert found["prompts"] == {"p": 0.0}
    assert found["ece"]["relevance"] == pytest.approx((0.3 + 0.1 + 0.1) / 3, abs=1e-3)


def test_a_small_haystack_keeps_the_evidence() -> None:
    alive = np.ones(200, bool)
    alive[100:] = False
    for seed in range(20):
        few = _keep_few(alive, frozenset({40, 90}), random.Random(seed))
        assert few[[40, 90]].all()
        assert 1 <= few.sum() <= 57
        assert not few[100:].any()


def test_the_prompts_to_measure_with_are_none_of_the_training() -> None:
    from pipelines.training.router import read_training_prompts

    trained = {line.lower().rstrip(" ?!.") for lines in read_training_prompts().values() for line in lines}
    for name, least in (("no_memory", 200), ("chores", 40)):
        prompts = read_prompts(name)
        assert len(prompts) >= least
        assert not trained & {line.lower().rstrip(" ?!.") for line in prompts}


def make_reports() -> dict[str, Any]:
    judged = JudgedCases(
        np.array(["a", "a", "a", "p"]),
        np.array(["own", "other", "hard", "none"]),
        f32(0.9, 0.2, 0.8, 0.0),
        np.array([0, 0, 1]),
        f32(0.7, 0.1, 0.1),
        np.array([True, False, False]),
    )
    figures = summarise(judged, {"cases": np.ones(4)}, 0.12)
    logs = {"prompts of logs to another project: aider": {"cases": 9, "passed": 0.25, "spoken": 0.125}}
    more = {"cases": 4, "hook": 0.3, "logs": logs}
    return {by: {"by": by, **more, **figures} for by in ("conversation", "set")}


def test_the_section_replaces_the_one_of_before() -> None:
    report = "# Quality\n\n## Sets\n\none\n"
    once = insert_section(report, "## Relevance\n\nold\n")
    assert once == "# Quality\n\n## Sets\n\none\n\n## Relevance\n\nold\n"
    assert insert_section(once, "## Relevance\n\nnew\\1\n") == once.replace("old", "new\\1")
    between = insert_section("## Relevance\n\nold\n\n## Last\n\nend\n", "## Relevance\n\nnew")
    assert between == "## Relevance\n\nnew\n\n## Last\n\nend\n"


def test_the_section_has_every_figure_and_its_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    out = tmp_path / "quality.md"
    out.write_text("# Quality\n", "utf-8")
    written = write_section(make_reports(), out)
    assert {path.name for path in written} == {"relevance.md", "calibration.svg", "coverage.svg", "quality.md"}
    section = (tmp_path / "quality" / "relevance.md").read_text("utf-8")
    assert section in out.read_text("utf-8")
    assert section.count("| a | 1 | 1.000 | 1.000 |  | 0.000 | 1.000 |") == 2
    assert "| prompts of logs to another project: aider | 9 | 0.250 | 0.125 | 0.250 | 0.125 |" in section
    assert "quality/coverage.svg" in section
    assert section == format_section(make_reports(), "quality")
