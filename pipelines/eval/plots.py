"""The plots of the quality report, as SVG: the same figures give the same bytes.

Colours are those of Okabe & Ito (2008), told apart by the colour-blind; lines differ by their markers, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.eval.score import BUDGETS, KS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "dense": "#56B4E9",
    "bm25": "#E69F00",
    "rrf": "#CC79A7",
    "helix": "#0072B2",
    "helix-paper": "#009E73",
}
_OTHER = "#999999"
_MARKERS = {"dense": "s", "bm25": "^", "rrf": "D"}  # of the rows that have curves, beside the default profile
_ACROSS = 3  # panels

Reports = Mapping[str, Mapping[str, Any]]
"""Reports by label."""


def draw(reports: Reports, folder: Path) -> dict[str, Path]:
    """Write every plot; its file, by name: bars, curves, packs."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    # A salt instead of a random one: identifiers inside the file are the same every time.
    with matplotlib.rc_context({"svg.hashsalt": "helix", "font.size": 9, "font.family": "DejaVu Sans"}):
        for name, figure in (("bars", bars(reports)), ("curves", curves(reports)), ("packs", packs(reports))):
            out[name] = folder / f"{name}.svg"
            figure.savefig(out[name], metadata={"Date": None, "Creator": "helix eval report"}, facecolor="white")
    return out


def bars(reports: Reports) -> Figure:
    """rec@10 with its interval: a panel a set, a bar a row."""
    rows = max(len(separate(report)) for report in reports.values())
    figure, panels = _panels(len(reports), 0.5 + 0.27 * rows)
    for axes, (label, report) in zip(panels, reports.items(), strict=True):
        own = separate(report)
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
        axes.grid(axis="x", color="#dddddd")
        axes.set_axisbelow(True)
    return figure


def curves(reports: Reports) -> Figure:
    """recall@k over k: a panel a set, a line a row."""
    return _lines(reports, "rec", KS, "k (turns or passages)", "recall@k")


def packs(reports: Reports) -> Figure:
    """Evidence recall in the pack over its budget: a panel a set, a line a row."""
    return _lines(reports, "pack", BUDGETS, "budget of the pack (tokens)", "evidence in the pack")


def _lines(reports: Reports, metric: str, places: Sequence[int], x: str, y: str) -> Figure:
    figure, panels = _panels(len(reports), 2.6)
    for axes, (label, report) in zip(panels, reports.items(), strict=True):
        for way in (*_MARKERS, default(report)):
            row, colour = report["rows"][way], _COLOURS.get(way, _OTHER)
            values = [row[f"{metric}@{place}"] for place in places]
            low, high = zip(*(row["ci"][f"{metric}@{place}"] for place in places), strict=True)
            mark = _MARKERS.get(way, "o")
            axes.plot(range(len(places)), values, color=colour, marker=mark, markersize=4, label=way)
            axes.fill_between(range(len(places)), low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set(title=_title(label, report), ylim=(0, 1.02), xlabel=x, ylabel=y)
        axes.set_xticks(range(len(places)), [f"{place:,}" for place in places])
        axes.grid(color="#dddddd")
        axes.set_axisbelow(True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def separate(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a report that ask each haystack by itself."""
    return {way: row for way, row in report["rows"].items() if not way.endswith(" pooled")}


def default(report: Mapping[str, Any]) -> str:
    """The profile that stands for Helix in a report: the first that was asked for."""
    return str(report["asked"]["profiles"][0])


def _title(label: str, report: Mapping[str, Any]) -> str:
    return f"{label} ({report['questions']:,} questions)"


def _panels(n: int, height: float) -> tuple[Figure, list[Axes]]:
    """n panels, a few a line; nothing is drawn on a screen."""
    from matplotlib.figure import Figure

    across = min(n, _ACROSS)
    down = -(-n // across)
    figure = Figure(figsize=(max(3.6 * across, 4.2), height * down + 0.5), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[n:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:n])
