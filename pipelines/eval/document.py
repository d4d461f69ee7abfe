"""Parts of a written report: whole files, Markdown tables, plots as SVG whose bytes depend on the figures alone.

Colours are those of Okabe & Ito (2008), distinct for the colour-blind; lines differ by their markers as well.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix.errors import UsageError
from pipelines.eval.score import BUDGETS, KS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def check_matplotlib() -> None:
    """Check that plots can be drawn, before hours of measuring. Raises UsageError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib, which draws the plots, is not installed", "pip install 'helix-recall[report]'")


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file or none."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def fill_template(package: str, name: str, **values: str) -> str:
    """Fill a Markdown file of `package/data`; a section with an empty value is left out."""
    text = (files(package) / "data" / name).read_text("utf-8")
    sections = re.split(r"\n\n(?=## )", text.strip())
    complete = [section for section in sections if all(values[key] for key in re.findall(r"\{(\w+)\}", section))]
    return "\n\n".join(complete).format_map(values) + "\n"


def save_plots(draw: Mapping[str, Callable[[], Figure]], folder: Path, creator: str) -> dict[str, Path]:
    """Write each plot to `folder/NAME.svg`; return the files by name."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.svg" for name in draw}
    # A fixed salt makes the identifiers inside a file the same every time.
    with matplotlib.rc_context({"svg.hashsalt": "helix", "font.size": 9, "font.family": "DejaVu Sans"}):
        figures = {name: make() for name, make in draw.items()}
        for name, figure in figures.items():
            figure.savefig(paths[name], metadata={"Date": None, "Creator": creator}, facecolor="white")
    return paths


def make_panels(n: int, width: float, height: float, across: int | None = None) -> tuple[Figure, list[Axes]]:
    """Return a figure, off screen, with n panels, `across` a row (all by default); width and height are in inches."""
    from matplotlib.figure import Figure

    across = min(n, across or n)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(-(-n // across), across, squeeze=False)
    for axes in grid.flat[n:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:n])


def add_legend(figure: Figure, axes: Axes, columns: int | None = None) -> None:
    """Add the legend of one panel above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=columns or len(labels), frameon=False)


def add_grid(axes: Axes, axis: str = "both") -> None:
    """Draw grid lines below the data."""
    axes.grid(axis=axis, color="#dddddd")  # type: ignore[arg-type]
    axes.set_axisbelow(True)


_COLOURS = {"dense": "#56B4E9", "bm25": "#E69F00", "rrf": "#CC79A7", "helix": "#0072B2", "helix-paper": "#009E73"}
_OTHER = "#999999"
_MARKERS = {"dense": "s", "bm25": "^", "rrf": "D"}  # rows with curves, as well as the default profile
_ACROSS = 3  # panels

Reports = Mapping[str, Mapping[str, Any]]
"""Reports by label."""


def draw_plots(reports: Reports, folder: Path) -> dict[str, Path]:
    """Write every plot; return the files by name: bars, curves, packs."""
    draw = {
        "bars": lambda: _draw_bars(reports),
        "curves": lambda: _draw_lines(reports, "rec", KS, "k (turns or passages)", "recall@k"),
        "packs": lambda: _draw_lines(reports, "pack", BUDGETS, "budget of the pack (tokens)", "evidence in the pack"),
    }
    return save_plots(draw, folder, "helix eval report")


def _draw_bars(reports: Reports) -> Figure:
    """Draw rec@10 with its interval: a panel a set, a bar a row."""
    rows = max(len(_select_rows(report)) for report in reports.values())
    figure, panels = _make_set_panels(len(reports), 0.5 + 0.27 * rows)
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
        axes.set(title=_format_title(label, report), xlim=(0, 1.15), xlabel="recall@10")
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        add_grid(axes, "x")
    return figure


def _draw_lines(reports: Reports, metric: str, places: Sequence[int], x: str, y: str) -> Figure:
    """Draw a metric over its places: a panel a set, a line a row."""
    figure, panels = _make_set_panels(len(reports), 2.6)
    for axes, (label, report) in zip(panels, reports.items(), strict=True):
        for way in (*_MARKERS, default_profile(report)):
            row, colour = report["rows"][way], _COLOURS.get(way, _OTHER)
            values = [row[f"{metric}@{place}"] for place in places]
            low, high = zip(*(row["ci"][f"{metric}@{place}"] for place in places), strict=True)
            mark = _MARKERS.get(way, "o")
            axes.plot(range(len(places)), values, color=colour, marker=mark, markersize=4, label=way)
            axes.fill_between(range(len(places)), low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set(title=_format_title(label, report), ylim=(0, 1.02), xlabel=x, ylabel=y)
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


def _format_title(label: str, report: Mapping[str, Any]) -> str:
    return f"{label} ({report['questions']:,} questions)"


def _make_set_panels(n: int, height: float) -> tuple[Figure, list[Axes]]:
    across = min(n, _ACROSS)
    return make_panels(n, max(3.6 * across, 4.2), height * -(-n // across) + 0.5, across)
