"""The speed report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from pipelines.bench.process import Report
from pipelines.bench.questions import FILTERED, OPEN
from pipelines.eval.document import fill_template, format_table

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

OUTSIDE: Final = "outside the stages"
"""Reading the question, and fetching texts."""

Reports = Mapping[int, Mapping[str, Any]]
_SUMMARY: Final = {"without": "unfiltered", "under": "filtered"}
_PARTS: Final = ("import", "open", "answer")


def select_main(reports: Reports) -> Mapping[str, Any]:
    """Return the report of the largest store up to a million items, for which the budgets are."""
    return reports[max([items for items in reports if items <= MILLION] or reports)]


def format_document(report: Report, reports: Reports, folder: str) -> str:
    """Format the main report, with `growth`, and all reports by items, ascending; `folder` has the plots."""
    main = select_main(reports)
    return fill_template(
        "pipelines.bench",
        "speed.md",
        machines="\n".join(_list_machines(reports)),
        real=", ".join(f"{one['real']:,} of {items:,}" for items, one in reports.items()),
        questions=str(main["questions"]),
        rounds=str(main["rounds"]),
        unfiltered=", ".join(OPEN),
        filtered=", ".join(FILTERED),
        targets=_format_targets(report),
        items=f"{report['items']:,}",
        stages=_format_stages(report),
        kinds=_format_kinds(report),
        growth=_format_growth(report, reports),
        legs=_format_legs(reports),
        clients=_format_clients(report),
        opening=_format_opening(reports),
        limit=_format_limit(report),
        peers=_format_peers(reports),
        vectors=_format_vectors(report),
        folder=folder,
    )


def _list_machines(reports: Reports) -> Iterator[str]:
    machines: dict[bytes, list[int]] = {}
    for items, one in reports.items():
        machines.setdefault(orjson.dumps(one["machine"]), []).append(items)
    for sizes in machines.values():
        machine = reports[sizes[0]]["machine"]
        yield (
            f"- {' and '.join(f'{items:,}' for items in sizes)} items: {machine['date']}, {machine['cpu']}, "
            f"{machine['cores']} cores, {machine['memory_gb']:g} GB, one core reads "
            f"{machine['bandwidth_gb_s']:g} GB/s; helix {machine['helix']}, encoder {machine['encoder']}, Python "
            f"{machine['python']}, NumPy {machine['numpy']}, ONNX Runtime {machine['onnxruntime']}, FAISS "
            f"{machine['faiss']}."
        )


def _format_targets(report: Report) -> str:
    """Format the targets at a million items, and the measured figures."""
    items, growth, four = report["items"], report["growth"], report["clients"].get("4")
    dense, kinds = report["recall_at_100"]["dense"], report["kinds"]
    filtered = max(float(kinds[kind]["ratio"]["p95"]) for kind in FILTERED if kind in kinds)
    rows = [
        _at_most("whole recall, p95", _find_limit(items), report["total"]["p95"]),
        ("dense recall@100", "≥ 0.99", dense, dense >= 0.99),
        ("slowest filtered kind over unfiltered, p95", "≤ 1, within 5 %", filtered, filtered <= 1.05),
        _at_most("first answer after opening", 60, report["open_ms"]["warm"]["answer"]),
    ]
    if four:
        rows.append(("4 clients, recalls a second", "≥ 150", four["qps"], four["qps"] >= 150))
        rows.append(_at_most("4 clients, p95", 50, four["p95"]))
    if len(growth) > 1:
        rows.append(_at_most(f"p95 over that of {int(min(growth, key=int)):,} items", 3, growth[str(items)]["ratio"]))
    if report["limit"]:
        rows.append(_at_most("median over the least it can cost", 2, report["limit"]["ratio"]))
    if hybrid := {name: one["p95"] for name, one in report["peers"].items() if one["hybrid"]}:
        name = min(hybrid, key=hybrid.__getitem__)
        label = f"p95 over that of the fastest peer's search alone ({name})"
        rows.append(_at_most(label, 0.5, report["peers"][name]["ratio"]))
    for size in sorted(int(each) for each in growth if int(each) > items):
        value = growth[str(size)]["p95"]
        rows.append((f"whole recall of {size:,} items, p95", "≤ 45", value, value <= _find_limit(size)))
    return format_table(
        [f"at {items:,} items", "target", "measured", "met"],
        [[label, target, _format(value), "yes" if met else "**no**"] for label, target, value, met in rows],
    )


def _at_most(label: str, limit: float, value: float) -> tuple[str, str, float, bool]:
    return label, f"≤ {limit:g}", value, value <= limit


def _find_limit(items: int) -> float:
    """Return the target of a whole recall in milliseconds at the 95th percentile."""
    return 15 if items <= MILLION else 45


def _format_stages(report: Report) -> str:
    last = ((LEGS, report["legs"]), (OUTSIDE, report["outside"]))
    rows = [("whole recall", report["total"]), *report["stages"].items(), *last]
    return format_table(
        ["stage", "p50", "p95", "p99", "budget, p95"],
        [[name, *_format_percentiles(one), f"{BUDGETS[name]:g}" if name in BUDGETS else ""] for name, one in rows],
    )


def _format_kinds(report: Report) -> str:
    rows = [[f"all {name} a filter", *_format_percentiles(report[key]), "", "", ""] for name, key in _SUMMARY.items()]
    for kind, one in report["kinds"].items():
        ratios = (f"{one['ratio'][name]:.2f}" for name in ("p50", "p95"))
        rows.append([kind, *_format_percentiles(one), *ratios, f"{report['allowed_rows'].get(kind, 0):,}"])
    head = ["kind", "p50", "p95", "p99", "p50 to unfiltered", "p95 to unfiltered", "items searched"]
    return format_table(head, rows)


def _format_growth(report: Report, reports: Reports) -> str:
    growth = report["growth"]
    stages = list(dict.fromkeys(stage for one in reports.values() for stage in one["stages"]))
    return format_table(
        ["items", "p50", "p95", "p99", "p95 over the smallest", *(f"{stage}, p95" for stage in stages)],
        [
            [
                f"{items:,}",
                *_format_percentiles(one["total"]),
                f"{growth[str(items)]['ratio']:.2f}",
                *(_format(one["stages"][stage]["p95"]) if stage in one["stages"] else "" for stage in stages),
            ]
            for items, one in reports.items()
        ],
    )


def _format_legs(reports: Reports) -> str:
    by_items = [
        [f"{items:,}", *(f"{one['recall_at_100'][leg]:.4f}" for leg in ("dense", "bm25"))]
        for items, one in reports.items()
    ]
    main = select_main(reports)
    by_kind = [[kind, f"{one['dense']:.4f}", f"{one['bm25']:.4f}"] for kind, one in main["recall_by_kind"].items()]
    tables = (("items", by_items), (f"at {main['items']:,} items", by_kind))
    return "\n\n".join(format_table([label, "dense", "bm25"], rows) for label, rows in tables)


def _format_clients(report: Report) -> str:
    rows = []
    for n in report["clients"]:
        ways = (report["clients"][n], report["threads"][n])
        rows.append([n, *(f"{one['qps']:.0f}" for one in ways), *(_format(one["p95"]) for one in ways)])
    return format_table(
        ["clients", "processes, recalls/s", "threads, recalls/s", "processes, p95", "threads, p95"], rows
    )


def _format_opening(reports: Reports) -> str:
    head = ["items", "import", "open", "first answer", "the same, files not cached", "asked again, p50"]
    return format_table(
        [*head, "MB of a reader", "items/s built"],
        [
            [
                f"{items:,}",
                *(f"{one['open_ms']['warm'][part]:.0f}" for part in _PARTS),
                " + ".join(f"{one['open_ms']['cold'][part]:.0f}" for part in _PARTS),
                f"{one['repeated']['p50']:.3f}",
                f"{one['memory_mb']['after_all']['anonymous']:.0f}",
                f"{one['build']['items_per_second']:,.0f}",
            ]
            for items, one in reports.items()
        ],
    )


def _format_limit(report: Report) -> str:
    if not (least := report["limit"]):
        return ""
    sizes = {name.removeprefix("bytes of "): size for name, size in least.items() if name.startswith("bytes of ")}
    rows = {
        "ONNX run": _format(least["onnx"]),
        "library's search": _format(least["library"]),
        "bytes: " + ", ".join(f"{stage} {size / 1e3:,.0f} kB" for stage, size in sizes.items()): f"{least['scan']:.3f}",
        "least": _format(least["least"]),
        "whole recall": _format(least["total"]),
        "whole over least": f"{least['ratio']:.2f}",
    }
    return format_table(["part", "ms"], [*rows.items()])


def _format_peers(reports: Reports) -> str:
    rows = [(items, name, one) for items, report in reports.items() for name, one in report["peers"].items()]
    if not rows:
        return ""
    head = ["of items", "peer", "p50", "p95", "p99", "Helix, p95", "ratio", "in a project, p95", "dense recall@100"]
    table = format_table(
        [*head, "built in s", "MB on disk"],
        [
            [
                f"{one['items']:,} of {items:,}" if one["items"] < items else f"{items:,}",
                name if one["hybrid"] else f"{name} (dense only)",
                *_format_percentiles(one),
                _format(one["helix"]["p95"]),
                f"{one['ratio']:.2f}",
                _format(one["project"]["p95"]) if "project" in one else "no filter",
                f"{one['dense_recall_at_100']:.4f}",
                f"{one['build']['seconds']:,.0f}",
                f"{one['build']['bytes'] / 1e6:,.0f}",
            ]
            for items, name, one in rows
        ],
    )
    latest = {name: one for _, name, one in rows}
    notes = (
        f"- **{name}** ({', '.join(f'{package} {number}' for package, number in one['versions'].items())}): "
        f"{one['configured']}; {one['knob']} {one['effort']}. Fuses by: {one['fuses']}. Lacks: {one['lacks']}."
        for name, one in latest.items()
    )
    return table + "\n\n" + "\n".join(notes)


def _format_vectors(report: Report) -> str:
    if "synthetic" not in (kinds := report["vectors"]):
        return ""
    names = {
        "pairs": "pairs, {}th percentile",
        "neighbour": "neighbour {}, median",
        "variance": "variance along {} axes",
    }
    columns = [(part, key) for part in names for key in kinds["real"][part]]
    return format_table(
        ["vectors", *(names[part].format(key) for part, key in columns)],
        [[name, *(f"{kinds[name][part][key]:.3f}" for part, key in columns)] for name in ("real", "synthetic")],
    )


def _format_percentiles(one: Mapping[str, float]) -> list[str]:
    return [_format(one[name]) for name in ("p50", "p95", "p99")]


def _format(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
