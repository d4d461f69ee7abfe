"""The speed report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from pipelines.bench.process import Report
from pipelines.bench.questions import FILTERED, OPEN
from pipelines.bench.speed_plots import BUDGETS, LEGS, MILLION, Reports, select_main
from pipelines.eval.document import format_table

OUTSIDE: Final = "outside the stages"
"""Reading the question, and fetching texts."""


def format_document(report: Report, reports: Reports, images: Mapping[str, str]) -> str:
    """Format the report.

    Args:
        report: the select_main report, with `growth`.
        reports: all reports by items, ascending.
        images: paths of the plots stages, growth, effort and clients, relative to the report.
    """
    parts = [
        "# Speed, measured",
        "Written by `helix bench recall`; figures are not edited by hand. Times are milliseconds, unless noted.",
        "## How it was measured",
        _format_method(reports),
        "## Targets",
        _format_targets(report),
        f"## Stages, at {report['items']:,} items",
        _format_stages(report),
        f"![A pair of bars a stage: its median and 95th percentile, with its budget]({images['stages']})",
        "*Milliseconds by stage; the line is the budget. During embedding a second thread finds the allowed rows of a "
        "filter and runs the lexical leg; then it takes half of the dense leg.*",
        "## Kinds of question",
        _format_kinds(report),
        "## Growth",
        _format_growth(report, reports),
        f"![Three lines over the number of items: median, 95th and 99th percentile]({images['growth']})",
        "*The whole recall against the number of items; both axes are logarithmic.*",
        "## Recall of the legs",
        *_format_legs(reports),
        f"![A line a store: recall@100 over the median milliseconds of the dense leg]({images['effort']})",
        "*Recall@100 of the dense leg against its median time, by the probed lists; the ring marks the default.*",
        "## Clients",
        _format_clients(report),
        f"![Two panels over the number of clients: recalls a second, and the 95th percentile]({images['clients']})",
        "*Throughput and 95th percentile against clients, each of which asks again after its answer.*",
        "## Opening, memory, building",
        _format_opening(reports),
        *_format_limit(report),
        *_format_peers(reports),
        *_format_vectors(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_method(reports: Reports) -> str:
    machines: dict[bytes, list[int]] = {}
    for items, one in reports.items():
        machines.setdefault(orjson.dumps(one["machine"]), []).append(items)
    lines = []
    for sizes in machines.values():
        machine = reports[sizes[0]]["machine"]
        lines.append(
            f"- {' and '.join(f'{items:,}' for items in sizes)} items: {machine['date']}, {machine['cpu']}, "
            f"{machine['cores']} cores, {machine['memory_gb']:g} GB, one core reads "
            f"{machine['bandwidth_gb_s']:g} GB/s; helix {machine['helix']}, encoder {machine['encoder']}, Python "
            f"{machine['python']}, NumPy {machine['numpy']}, ONNX Runtime {machine['onnxruntime']}, FAISS "
            f"{machine['faiss']}."
        )
    real = ", ".join(f"{one['real']:,} of {items:,}" for items, one in reports.items())
    main = select_main(reports)
    lines += [
        "- The items are synthetic: text of a Zipfian vocabulary with topics, names, paths, identifiers and errors, in "
        "sessions of 100 projects of skewed size, with entities, links and facts. The vectors of some whole sessions "
        f"({real}) are the encoder's own; the others are drawn from where it puts texts on their topics (below). "
        "The same seed gives the same items.",
        f"- {main['questions']} questions made of items with real vectors, as many of each kind: {', '.join(OPEN)}; "
        f"under a filter {', '.join(FILTERED)}. `window` is a week around the item, `acl` a principal's view, `type` "
        "one of five. Without a filter 3 % of the sessions are hidden as well: they have an ACL.",
        f"- One client in a fresh process, after one round to warm up; then {main['rounds']} rounds in random order "
        "with other measurements between them. Every recall is timed by itself, with embedding and packing. No answer "
        "is cached (`HELIX_ANSWERS=0`); the time of a cached answer is under opening.",
    ]
    return "\n".join(lines)


def _format_targets(report: Report) -> str:
    """Format the targets at a million items, and the measured figures."""
    total, four, growth = report["total"], report["clients"].get("4"), report["growth"]
    filtered = max(report["kinds"][kind]["ratio"]["p95"] for kind in FILTERED if kind in report["kinds"])
    rows = [
        (
            "whole recall, p95",
            f"≤ {_limit_of(report['items']):g}",
            total["p95"],
            total["p95"] <= _limit_of(report["items"]),
        ),
        ("dense recall@100", "≥ 0.99", report["recall_at_100"]["dense"], report["recall_at_100"]["dense"] >= 0.99),
        ("slowest filtered kind over unfiltered, p95", "≤ 1, within 5 %", filtered, filtered <= 1.05),
        ("first answer after opening", "≤ 60", (first := report["open_ms"]["warm"]["answer"]), first <= 60),
    ]
    if four:
        rows.append(("4 clients, recalls a second", "≥ 150", four["qps"], four["qps"] >= 150))
        rows.append(("4 clients, p95", "≤ 50", four["p95"], four["p95"] <= 50))
    if len(growth) > 1:
        ratio = growth[str(report["items"])]["ratio"]
        rows.append((f"p95 over that of {int(min(growth, key=int)):,} items", "≤ 3", ratio, ratio <= 3))
    if report["limit"]:
        ratio = report["limit"]["ratio"]
        rows.append(("median over the least it can cost", "≤ 2", ratio, ratio <= 2))
    hybrid = {name: one["p95"] for name, one in report["peers"].items() if one["hybrid"]}
    if hybrid:
        name = min(hybrid, key=hybrid.__getitem__)
        share = report["peers"][name]["ratio"]
        rows.append((f"p95 over that of the fastest peer's search alone ({name})", "≤ 0.5", share, share <= 0.5))
    larger = sorted(int(items) for items in growth if int(items) > report["items"])
    p95 = [(items, growth[str(items)]["p95"]) for items in larger]
    rows += [
        (f"whole recall of {items:,} items, p95", "≤ 45", value, value <= _limit_of(items)) for items, value in p95
    ]
    return format_table(
        [f"at {report['items']:,} items", "target", "measured", "met"],
        [[label, target, _figure(value), "yes" if met else "**no**"] for label, target, value, met in rows],
    )


def _limit_of(items: int) -> float:
    """Return the target of a whole recall in milliseconds at the 95th percentile."""
    return 15 if items <= MILLION else 45


def _format_stages(report: Report) -> str:
    rows = [
        ("whole recall", report["total"]),
        *report["stages"].items(),
        (LEGS, report["legs"]),
        (OUTSIDE, report["outside"]),
    ]
    return format_table(
        ["stage", "p50", "p95", "p99", "budget, p95"],
        [[name, *_percentiles(one), f"{BUDGETS[name]:g}" if name in BUDGETS else ""] for name, one in rows],
    )


def _format_kinds(report: Report) -> str:
    summary = [["all without a filter", *_percentiles(report["unfiltered"]), "", "", ""]]
    summary += [["all under a filter", *_percentiles(report["filtered"]), "", "", ""]]
    return format_table(
        ["kind", "p50", "p95", "p99", "p50 to unfiltered", "p95 to unfiltered", "items searched"],
        [
            *summary,
            *(
                [
                    kind,
                    *_percentiles(one),
                    f"{one['ratio']['p50']:.2f}",
                    f"{one['ratio']['p95']:.2f}",
                    f"{report['allowed_rows'].get(kind, 0):,}",
                ]
                for kind, one in report["kinds"].items()
            ),
        ],
    )


def _format_growth(report: Report, reports: Reports) -> str:
    growth = report["growth"]
    stages = list(dict.fromkeys(stage for one in reports.values() for stage in one["stages"]))
    return format_table(
        ["items", "p50", "p95", "p99", "p95 over the smallest", *(f"{stage}, p95" for stage in stages)],
        [
            [
                f"{items:,}",
                *_percentiles(one["total"]),
                f"{growth[str(items)]['ratio']:.2f}",
                *(_figure(one["stages"][stage]["p95"]) if stage in one["stages"] else "" for stage in stages),
            ]
            for items, one in reports.items()
        ],
    )


def _format_legs(reports: Reports) -> Iterator[str]:
    yield (
        "The share of the 100 best rows of an exact search that a leg finds. Dense: the inner products with all int8 "
        "vectors that the filter allows. BM25: every posting of every term scored."
    )
    yield format_table(
        ["items", "dense", "bm25"],
        [
            [f"{items:,}", *(f"{one['recall_at_100'][leg]:.4f}" for leg in ("dense", "bm25"))]
            for items, one in reports.items()
        ],
    )
    report = select_main(reports)
    yield format_table(
        [f"at {report['items']:,} items", "dense", "bm25"],
        [[kind, f"{one['dense']:.4f}", f"{one['bm25']:.4f}"] for kind, one in report["recall_by_kind"].items()],
    )


def _format_clients(report: Report) -> str:
    rows = []
    for n in report["clients"]:
        by_processes, by_threads = report["clients"][n], report["threads"][n]
        rows.append([n, *(f"{one['qps']:.0f}" for one in (by_processes, by_threads))])
        rows[-1] += [_figure(one["p95"]) for one in (by_processes, by_threads)]
    return (
        "Worker processes, one a core, that answer through a pipe; and threads of one process, which share its "
        "interpreter.\n\n"
    ) + format_table(["clients", "processes, recalls/s", "threads, recalls/s", "processes, p95", "threads, p95"], rows)


def _format_opening(reports: Reports) -> str:
    return format_table(
        [
            *("items", "import", "open", "first answer", "the same, files not cached", "asked again, p50"),
            *("MB of a reader", "items/s built"),
        ],
        [
            [
                f"{items:,}",
                *(f"{one['open_ms']['warm'][part]:.0f}" for part in ("import", "open", "answer")),
                " + ".join(f"{one['open_ms']['cold'][part]:.0f}" for part in ("import", "open", "answer")),
                f"{one['repeated']['p50']:.3f}",
                f"{one['memory_mb']['after_all']['anonymous']:.0f}",
                f"{one['build']['items_per_second']:,.0f}",
            ]
            for items, one in reports.items()
        ],
    )


def _format_limit(report: Report) -> Iterator[str]:
    if not (least := report["limit"]):
        return
    yield "## The least it can cost"
    yield (
        "The parts that no recall with this encoder and this index can do without, and the whole: medians over the "
        "questions without a filter. The parts are one run of the ONNX session on the tokenised question, one search "
        "of the dense index by the library alone, and the bytes that the other stages read, at the speed one core "
        "reads memory. The bytes are all postings of the question's terms with their lengths, the rescored codes, the "
        "edges the walk may read, for each candidate the terms in order of five turns, three codes and a signature, "
        "and the returned texts; not the columns."
    )
    sizes = {name.removeprefix("bytes of "): size for name, size in least.items() if name.startswith("bytes of ")}
    yield format_table(
        ["part", "ms"],
        [
            ["ONNX run", _figure(least["onnx"])],
            ["library's search", _figure(least["library"])],
            [
                "bytes: " + ", ".join(f"{stage} {size / 1e3:,.0f} kB" for stage, size in sizes.items()),
                f"{least['scan']:.3f}",
            ],
            ["least", _figure(least["least"])],
            ["whole recall", _figure(least["total"])],
            ["whole over least", f"{least['ratio']:.2f}"],
        ],
    )


def _format_peers(reports: Reports) -> Iterator[str]:
    rows = [(items, name, one) for items, report in reports.items() for name, one in report["peers"].items()]
    if not rows:
        return
    yield "## Peers"
    yield (
        "The same items, vectors and questions in the same run. A peer searches for 100 rows with a given vector, "
        "without embedding, graph, ranking or packing. Its effort is the least that finds as many of the nearest 100 "
        "as Helix does without a filter, or 99 % if Helix finds more. Helix answers the same questions without a "
        "filter by whole recalls in alternate rounds: the ratio of its p95 to the peer's hardly depends on the "
        "machine's speed at the time."
    )
    yield format_table(
        [
            "of items",
            "peer",
            *("p50", "p95", "p99", "Helix, p95", "ratio", "in a project, p95"),
            *("dense recall@100", "built in s", "MB on disk"),
        ],
        [
            [
                f"{one['items']:,} of {items:,}" if one["items"] < items else f"{items:,}",
                name if one["hybrid"] else f"{name} (dense only)",
                *_percentiles(one),
                _figure(one["helix"]["p95"]),
                f"{one['ratio']:.2f}",
                _figure(one["project"]["p95"]) if "project" in one else "no filter",
                f"{one['dense_recall_at_100']:.4f}",
                f"{one['build']['seconds']:,.0f}",
                f"{one['build']['bytes'] / 1e6:,.0f}",
            ]
            for items, name, one in rows
        ],
    )
    latest = {name: one for _, name, one in rows}
    yield "\n".join(
        f"- **{name}** ({', '.join(f'{package} {number}' for package, number in one['versions'].items())}): "
        f"{one['configured']}; {one['knob']} {one['effort']}. Fuses by: {one['fuses']}. Lacks: {one['lacks']}."
        for name, one in latest.items()
    )


def _format_vectors(report: Report) -> Iterator[str]:
    if "synthetic" not in (kinds := report["vectors"]):
        return
    yield "## Real and synthetic vectors"
    yield "As many items of either kind in whole sessions: cosines of random pairs and of neighbours, and the spectrum."
    names = {
        "pairs": "pairs, {}th percentile",
        "neighbour": "neighbour {}, median",
        "variance": "variance along {} axes",
    }
    columns = [(part, key) for part in names for key in kinds["real"][part]]
    yield format_table(
        ["vectors", *(names[part].format(key) for part, key in columns)],
        [[name, *(f"{kinds[name][part][key]:.3f}" for part, key in columns)] for name in ("real", "synthetic")],
    )


def _percentiles(one: Mapping[str, float]) -> list[str]:
    return [_figure(one[name]) for name in ("p50", "p95", "p99")]


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
