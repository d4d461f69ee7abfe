"""The plots of the speed report, as SVG: the same figures give the same bytes. Colours as in `pipelines.eval.plots`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MILLION: Final = 1_000_000

LEGS: Final = "dense ∥ lexical"
"""The longer of both legs: they run beside each other and have one budget."""

BUDGETS: Final = {
    "whole recall": 15.0,
    "embed": 4.0,
    "route": 0.3,
    LEGS: 5.0,
    "fuse": 0.2,
    "graph": 1.5,
    "rank": 2.5,
    "diversify": 0.7,
    "pack": 0.5,
}
"""Milliseconds at the 95th percentile, of a million items on two cores."""

_BLUE, _SKY, _ORANGE, _GREEN, _PINK = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"
_LINES = {"p50": (_SKY, "s"), "p95": (_BLUE, "o"), "p99": (_PINK, "^")}
_SIZES = ((_SKY, "s"), (_ORANGE, "^"), (_BLUE, "o"), (_GREEN, "D"), (_PINK, "v"))

Reports = Mapping[int, Mapping[str, Any]]


def main(reports: Reports) -> Mapping[str, Any]:
    """What the report is about: the largest store of a million items at most, for which the budgets are."""
    return reports[max([items for items in reports if items <= MILLION] or reports)]


def draw(reports: Reports, folder: Path) -> dict[str, Path]:
    """Write every plot; its file, by name: stages, growth, effort, clients."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    largest = main(reports)
    out = {}
    # A salt instead of a random one: identifiers inside the file are the same every time.
    with matplotlib.rc_context({"svg.hashsalt": "helix", "font.size": 9, "font.family": "DejaVu Sans"}):
        figures = {
            "stages": stages(largest),
            "growth": growth(reports),
            "effort": effort(reports),
            "clients": clients(largest),
        }
        for name, figure in figures.items():
            out[name] = folder / f"{name}.svg"
            figure.savefig(out[name], metadata={"Date": None, "Creator": "helix bench recall"}, facecolor="white")
    return out


def stages(report: Mapping[str, Any]) -> Figure:
    """Two bars a stage, the budget as a line."""
    rows = {**report["stages"], LEGS: report["legs"], "whole recall": report["total"]}
    figure, (axes,) = _panels(1, 6.4, 0.8 + 0.42 * len(rows))
    places = np.arange(len(rows))
    for name, shift in (("p50", -0.19), ("p95", 0.19)):
        values = [one[name] for one in rows.values()]
        axes.barh(places + shift, values, 0.36, color=_LINES[name][0], label=name)
        for place, value in zip(places.tolist(), values, strict=True):
            axes.text(value, place + shift, f" {value:.2f}", va="center", fontsize=7)
    budgets = [(place, BUDGETS[name]) for place, name in zip(places.tolist(), rows, strict=True) if name in BUDGETS]
    axes.vlines(
        [budget for _, budget in budgets],
        [place - 0.42 for place, _ in budgets],
        [place + 0.42 for place, _ in budgets],
        colors="#222222",
        linewidth=1.5,
        label="budget, p95",
    )
    axes.set_yticks(places, list(rows))
    axes.invert_yaxis()
    axes.set(title=f"{report['items']:,} items", xlabel="ms")
    axes.margins(x=0.12)
    axes.legend(frameon=False, loc="center right")
    _grid(axes, "x")
    return figure


def growth(reports: Reports) -> Figure:
    """p50, p95 and p99 of the whole recall over the number of items."""
    figure, (axes,) = _panels(1, 5.0, 3.2)
    for name, (colour, mark) in _LINES.items():
        values = [one["total"][name] for one in reports.values()]
        axes.plot(list(reports), values, color=colour, marker=mark, markersize=5, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="items", ylabel="ms")
    top = max(one["total"]["p99"] for one in reports.values())
    low = min(one["total"]["p50"] for one in reports.values())
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low / 2.5 <= tick <= top * 2.5]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks(list(reports), [f"{items:,}" for items in reports])
    axes.minorticks_off()
    axes.legend(frameon=False)
    _grid(axes)
    return figure


def effort(reports: Reports) -> Figure:
    """Recall@100 over the median milliseconds of the dense leg: a line a store, a point a number of lists."""
    figure, (axes,) = _panels(1, 5.0, 3.6)
    for (items, report), (colour, mark) in zip(reports.items(), _cycled(len(reports)), strict=True):
        points = report["effort"]
        if not points:
            continue
        x, y = [point["p50"] for point in points], [point["recall"] for point in points]
        axes.plot(x, y, color=colour, marker=mark, markersize=4, label=f"{items:,} items")
        used = [point for point in points if point["default"]]
        axes.plot(
            [point["p50"] for point in used],
            [point["recall"] for point in used],
            linestyle="none",
            marker="o",
            markersize=11,
            markerfacecolor="none",
            color="#222222",
        )
    axes.set(xlabel="ms, median", ylabel="recall@100")
    axes.set_xscale("log")
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if _inside(tick, axes.get_xlim())]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    handles, labels = axes.get_legend_handles_labels()
    if handles:  # above: the lines fill the panel
        figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    _grid(axes)
    return figure


def clients(report: Mapping[str, Any]) -> Figure:
    """Recalls a second, and p95, over the number of clients: processes and threads."""
    figure, panels = _panels(2, 3.6, 2.8)
    ways = (("clients", "processes", _BLUE, "o"), ("threads", "threads of one process", _ORANGE, "^"))
    for axes, what, label in zip(panels, ("qps", "p95"), ("recalls a second", "p95, ms"), strict=True):
        for key, name, colour, mark in ways:
            values = [one[what] for one in report[key].values()]
            axes.plot(range(len(values)), values, color=colour, marker=mark, markersize=5, label=name)
        axes.set_xticks(range(len(report["clients"])), list(report["clients"]))
        axes.set(xlabel="clients", ylabel=label)
        axes.set_ylim(bottom=0)
        _grid(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _cycled(n: int) -> list[tuple[str, str]]:
    return [_SIZES[i % len(_SIZES)] for i in range(n)]


def _inside(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]


def _grid(axes: Axes, axis: Any = "both") -> None:
    axes.grid(axis=axis, color="#dddddd")
    axes.set_axisbelow(True)


def _panels(n: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """n panels in a row; nothing is drawn on a screen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    return figure, list(figure.subplots(1, n, squeeze=False).flat)
