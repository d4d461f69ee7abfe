"""The plots of the speed report, as SVG. Colours as in `pipelines.eval.document`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.eval.document import add_grid, add_legend, make_panels, save_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MILLION: Final = 1_000_000

LEGS: Final = "dense ∥ lexical"
"""The longer of both legs: they run in parallel and have one budget."""

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
"""Milliseconds at the 95th percentile, for a million items on two cores."""

_BLUE, _SKY, _ORANGE, _GREEN, _PINK = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"
_LINES = {"p50": (_SKY, "s"), "p95": (_BLUE, "o"), "p99": (_PINK, "^")}
_SIZES = ((_SKY, "s"), (_ORANGE, "^"), (_BLUE, "o"), (_GREEN, "D"), (_PINK, "v"))

Reports = Mapping[int, Mapping[str, Any]]


def select_main(reports: Reports) -> Mapping[str, Any]:
    """Return the report of the largest store up to a million items, for which the budgets are."""
    return reports[max([items for items in reports if items <= MILLION] or reports)]


def draw_plots(reports: Reports, folder: Path) -> dict[str, Path]:
    """Write every plot; return the files by name: stages, growth, effort, clients."""
    main = select_main(reports)
    draw: dict[str, Callable[[], Figure]] = {
        "stages": lambda: _draw_stages(main),
        "growth": lambda: _draw_growth(reports),
        "effort": lambda: _draw_effort(reports),
        "clients": lambda: _draw_clients(main),
    }
    return save_plots(draw, folder, "helix bench recall")


def _draw_stages(report: Mapping[str, Any]) -> Figure:
    """Draw two bars a stage, and the budget as a line."""
    rows = {**report["stages"], LEGS: report["legs"], "whole recall": report["total"]}
    figure, (axes,) = make_panels(1, 6.4, 0.8 + 0.42 * len(rows))
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
    add_grid(axes, "x")
    return figure


def _draw_growth(reports: Reports) -> Figure:
    """Draw p50, p95 and p99 of the whole recall over the number of items."""
    figure, (axes,) = make_panels(1, 5.0, 3.2)
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
    add_grid(axes)
    return figure


def _draw_effort(reports: Reports) -> Figure:
    """Draw recall@100 over the median milliseconds of the dense leg: a line a store, a point a number of lists."""
    figure, (axes,) = make_panels(1, 5.0, 3.6)
    for (items, report), (colour, mark) in zip(reports.items(), cycle(_SIZES), strict=False):
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
    low, high = axes.get_xlim()
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    add_legend(figure, axes, columns=2)  # the lines fill the panel
    add_grid(axes)
    return figure


def _draw_clients(report: Mapping[str, Any]) -> Figure:
    """Draw recalls a second, and p95, over the number of clients: processes and threads."""
    figure, panels = make_panels(2, 7.2, 2.8)
    ways = (("clients", "processes", _BLUE, "o"), ("threads", "threads of one process", _ORANGE, "^"))
    for axes, figure_name, label in zip(panels, ("qps", "p95"), ("recalls a second", "p95, ms"), strict=True):
        for key, name, colour, mark in ways:
            values = [one[figure_name] for one in report[key].values()]
            axes.plot(range(len(values)), values, color=colour, marker=mark, markersize=5, label=name)
        axes.set_xticks(range(len(report["clients"])), list(report["clients"]))
        axes.set(xlabel="clients", ylabel=label)
        axes.set_ylim(bottom=0)
        add_grid(axes)
    add_legend(figure, panels[0])
    return figure
