"""The speed report: measures stores of several sizes, retains their figures, and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from pipelines.bench.peers.registry import check_peer
from pipelines.bench.process import Report, Say
from pipelines.bench.recall import measure
from pipelines.bench.speed_document import OUTSIDE, format_document
from pipelines.bench.speed_plots import BUDGETS, LEGS, Reports, draw_plots, select_main
from pipelines.bench.synthetic_store import build_store, default_root
from pipelines.eval.document import replace_file


class Workload(NamedTuple):
    """The questions of every store."""

    seed: int
    questions: int
    rounds: int
    peers: tuple[str, ...] = ()


def parse_sizes(text: str, *, alone: bool) -> list[int]:
    """Parse `10000,100000`; return the numbers, ascending.

    Args:
        alone: the store has a fixed place, so only one number is allowed.

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
    """Load the retained reports by items, ascending.

    Raises:
        StoreError: there are none, or a file is damaged.
    """
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
    plots = draw_plots(reports, folder)
    images = {name: f"{folder.name}/{path.name}" for name, path in plots.items()}
    replace_file(out, format_document(join_reports(reports), reports, images).encode())
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
