"""The plots of the quality report, as SVG.

Colours are those of Okabe & Ito (2008), distinct for the colour-blind; lines differ by their markers as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.eval.document import add_grid, add_legend, make_panels, save_plots
from pipelines.eval.score import BUDGETS, KS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"dense": "#56B4E9", "bm25": "#E69F00", "rrf": "#CC79A7", "helix": "#0072B2", "helix-paper": "#009E73"}
_OTHER = "#999999"
_MARKERS = {"dense": "s", "bm25": "^", "rrf": "D"}  # rows with curves, as well as the default profile
_ACROSS = 3  # panels

Reports = Mapping[str, Mapping[str, Any]]
"""Reports by label."""


def draw_plots(reports: Reports, folder: Path) -> dict[str, Path]:
    """Write every plot; return the files by name: bars, curves, packs."""
    draw = {"bars": _draw_bars, "curves": _draw_curves, "packs": _draw_packs}
    return save_plots({name: partial(make, reports) for name, make in draw.items()}, folder, "helix eval report")


def _draw_bars(reports: Reports) -> Figure:
    """Draw rec@10 with its interval: a panel a set, a bar a row."""
    rows = max(len(_select_rows(report)) for report in reports.values())
    figure, panels = _make_panels(len(reports), 0.5 + 0.27 * rows)
    for axes, (label, report) in zip(panels, reports.items(), strict=True):
        own = _select_rows(report)
        values = [row["rec@10"] for row in own.values()]
        errors = [
            [max(row["rec@10"] - row["low"], 0.0) for row in own.values()],
            [max(row["high"] - row["rec@10"], 0.0) for row in own.values()],
        ]
        axes.barh(
            list(own),
            values,
            xerr=errors,
            color=[_COLOURS.get(way, _OTHER) for way in own],
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#222222"},
        )
        for i, row in enumerate(own.values()):
            axes.text(min(row["high"] + 0.02, 1.02), i, f"{row['rec@10']:.3f}", va="center", fontsize=8)
        axes.invert_yaxis()
        axes.set(title=_title(label, report), xlim=(0, 1.15), xlabel="recall@10")
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        add_grid(axes, "x")
    return figure


def _draw_curves(reports: Reports) -> Figure:
    """Draw recall@k over k: a panel a set, a line a row."""
    return _draw_lines(reports, "rec", KS, "k (turns or passages)", "recall@k")


def _draw_packs(reports: Reports) -> Figure:
    """Draw the share of evidence in the pack over its budget: a panel a set, a line a row."""
    return _draw_lines(reports, "pack", BUDGETS, "budget of the pack (tokens)", "evidence in the pack")


def _draw_lines(reports: Reports, metric: str, places: Sequence[int], x: str, y: str) -> Figure:
    figure, panels = _make_panels(len(reports), 2.6)
    for axes, (label, report) in zip(panels, reports.items(), strict=True):
        for way in (*_MARKERS, default_profile(report)):
            row, colour = report["rows"][way], _COLOURS.get(way, _OTHER)
            values = [row[f"{metric}@{place}"] for place in places]
            low, high = zip(*(row["ci"][f"{metric}@{place}"] for place in places), strict=True)
            mark = _MARKERS.get(way, "o")
            axes.plot(range(len(places)), values, color=colour, marker=mark, markersize=4, label=way)
            axes.fill_between(range(len(places)), low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set(title=_title(label, report), ylim=(0, 1.02), xlabel=x, ylabel=y)
        axes.set_xticks(range(len(places)), [f"{place:,}" for place in places])
        add_grid(axes)
    add_legend(figure, panels[0])
    return figure


def _select_rows(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows that search each haystack separately."""
    return {way: row for way, row in report["rows"].items() if not way.endswith(" pooled")}


def default_profile(report: Mapping[str, Any]) -> str:
    """Return the first profile of a report, which represents Helix."""
    return str(report["asked"]["profiles"][0])


def _title(label: str, report: Mapping[str, Any]) -> str:
    return f"{label} ({report['questions']:,} questions)"


def _make_panels(n: int, height: float) -> tuple[Figure, list[Axes]]:
    across = min(n, _ACROSS)
    return make_panels(n, max(3.6 * across, 4.2), height * -(-n // across) + 0.5, across)
