"""The speed report: measures stores of several sizes, retains their figures, and writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from pipelines.bench.peers.registry import check_peer
from pipelines.bench.process import Report, Say
from pipelines.bench.recall import measure
from pipelines.bench.speed_document import BUDGETS, LEGS, OUTSIDE, Reports, format_document, select_main
from pipelines.bench.synthetic_store import build_store, default_root
from pipelines.eval.document import add_grid, add_legend, make_panels, replace_file, save_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Workload(NamedTuple):
    """The questions of every store."""

    seed: int
    questions: int
    rounds: int
    peers: tuple[str, ...] = ()


def parse_sizes(text: str, *, alone: bool) -> list[int]:
    """Parse `10000,100000`; return the numbers, ascending; only one is allowed if the store has a place `alone`.

    Raises:
        UsageError: the text is no list of numbers, or there are too many.
    """
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise UsageError(f"--items {text} is no number of items", "write for instance 10000,1000000")
    if alone and len(sizes) > 1:
        raise UsageError("--store is one store, --items are several", "leave out --store")
    return sizes


def measure_size(
    items: int, workload: Workload, root: Path | None, keep: Path | None, settings: Settings, say: Say
) -> Report:
    """Build the store unless it exists, and measure it; retain the report in `keep`.

    Raises:
        UsageError: a number is not positive, a peer is unknown, or the store's place holds something else.
    """
    if workload.questions < 1 or workload.rounds < 1:
        raise UsageError(f"{workload.questions} questions in {workload.rounds} rounds", "give positive numbers")
    for name in workload.peers:
        check_peer(name)
    root = root or default_root(items, settings)
    build_store(root, items, workload.seed, settings, say)
    report = measure(
        root,
        settings,
        lambda line: say(f"{items:,} items: {line}"),
        n=workload.questions,
        rounds=workload.rounds,
        peers=workload.peers,
    )
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        replace_file(keep / f"recall-{items}.json", orjson.dumps(report, option=orjson.OPT_INDENT_2))
    return report


def load_reports(keep: Path) -> dict[int, Report]:
    """Load the retained reports by items, ascending. Raises StoreError if there are none, or a file is damaged."""
    reports = {}
    for path in keep.glob("recall-*.json"):
        try:
            report = orjson.loads(path.read_bytes())
            reports[int(report["items"])] = report
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise StoreError(f"{path} is damaged: {error}", "remove it and measure again") from None
    if not reports:
        raise StoreError(f"nothing was measured in {keep}", "name --items")
    return {items: reports[items] for items in sorted(reports)}


def join_reports(reports: Reports, among: Sequence[int] = ()) -> Report:
    """Return the main report, of these sizes if any are given, with `growth`: all totals.

    The ratio of a total is its p95 over that of the smallest store.
    """
    least = reports[min(reports)]
    growth = {
        str(items): {**one["total"], "ratio": round(one["total"]["p95"] / least["total"]["p95"], 2)}
        for items, one in sorted(reports.items())
    }
    return {**select_main({items: reports[items] for items in among or reports}), "growth": growth}


def write(reports: Reports, out: Path) -> Path:
    """Write the report, with its plots in a folder of the same name."""
    folder = out.with_suffix("")
    draw_plots(reports, folder)
    replace_file(out, format_document(join_reports(reports), reports, folder.name).encode())
    return out


def format_report(report: Report) -> str:
    """Format the report for a terminal."""
    lines = [f"{report['items']:,} items, {report['machine']['cores']} cores, {report['questions']} questions"]

    def add(label: str, text: str) -> None:
        lines.append(f"  {label:22} {text}")

    add("whole recall", _format_times(report["total"]))
    for stage, one in {**report["stages"], LEGS: report["legs"], OUTSIDE: report["outside"]}.items():
        add(f"  {stage}", _format_times(one) + (f"   budget {BUDGETS[stage]:g}" if stage in BUDGETS else ""))
    for kind, one in report["kinds"].items():
        add(f"  {kind}", f"{_format_times(one)}   p95 {one['ratio']['p95']:.2f} of unfiltered")
    add("recall@100", ", ".join(f"{leg} {share:.4f}" for leg, share in report["recall_at_100"].items()))
    for key, label in (("clients", "clients, processes"), ("threads", "clients, threads")):
        rates = (f"{n}: {one['qps']:.0f}/s, p95 {one['p95']:.1f} ms" for n, one in report[key].items())
        add(label, "; ".join(rates))
    for name, one in report["open_ms"].items():
        add(f"opening, {name}", ", ".join(f"{part} {one[part]:.0f} ms" for part in ("import", "open", "answer")))
    add("asked again", _format_times(report["repeated"]))
    add("memory of a reader", f"{report['memory_mb']['after_all']['anonymous']:.0f} MB of its own")
    if least := report["limit"]:
        add("least it can cost", f"{least['least']:.2f} ms; the whole takes {least['ratio']:.2f} times as long")
    add("built", f"{report['build']['items_per_second']:,.0f} items/s")
    for name, one in report["peers"].items():
        add(
            f"peer {name}",
            f"{_format_times(one)} over {one['items']:,} items, recall@100 {one['dense_recall_at_100']:.4f}; "
            f"Helix in turn p95 {one['helix']['p95']:.1f} ms ({one['ratio']:.2f})",
        )
    growth = report["growth"]
    if len(growth) > 1:
        totals = (f"{int(items):,}: p95 {one['p95']:.1f} ms ({one['ratio']:.2f})" for items, one in growth.items())
        add("growth", "; ".join(totals))
    return "\n".join(lines)


def _format_times(one: Mapping[str, float]) -> str:
    return f"p50 {one['p50']:6.2f}  p95 {one['p95']:6.2f}  p99 {one['p99']:6.2f} ms"


_BLUE, _SKY, _ORANGE, _GREEN, _PINK = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"
_LINES = {"p50": (_SKY, "s"), "p95": (_BLUE, "o"), "p99": (_PINK, "^")}
_SIZES = ((_SKY, "s"), (_ORANGE, "^"), (_BLUE, "o"), (_GREEN, "D"), (_PINK, "v"))


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
