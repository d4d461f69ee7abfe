"""`helix bench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from helix.cli.parser import Parser, build_parser, print_json
from helix.cli.terminal import print_error, print_figures, print_note, print_text
from helix.errors import UsageError
from helix.settings import load


def bench(argv: Sequence[str]) -> int:
    """Measure this machine."""
    if argv and argv[0] in KINDS:
        return KINDS[argv[0]](argv[1:])
    kinds = "\n".join(f"  {name:8}{(kind.__doc__ or '').splitlines()[0]}" for name, kind in KINDS.items())
    new = build_parser(
        "bench",
        bench.__doc__ or "",
        "  helix bench recall --items 100000\n  helix bench ingest --logs ~/.claude/projects\n"
        "  helix bench store --help\n\n"
        f"kinds:\n{kinds}",
    )
    new.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help="what to measure")
    given = new.parse_args(argv)
    raise UsageError(f"{given.kind!r} has to be the first word", f"run 'helix bench {given.kind}' …")


def _build_parser(kind: Callable[[Sequence[str]], int], examples: str) -> Parser:
    return build_parser(kind.__name__.removeprefix("_").replace("_", " "), kind.__doc__ or "", examples)


def _print_report(
    report: dict[str, Any], as_json: bool, format_text: Callable[[dict[str, Any]], str], show: Callable[[str], None]
) -> int:
    if as_json:
        print_json(report)
    else:
        show(format_text(report))
    return 0


def _check_positive(option: str, number: int) -> None:
    if number < 1:
        raise UsageError(f"{option} is {number}", "give a positive number")


def _expand(path: str | None) -> Path | None:
    return Path(path).expanduser() if path else None


def _bench_store(argv: Sequence[str]) -> int:
    """Measure the cost of a store: commits, compaction, memory, bytes, opening, recall.

    The store is made once, in --store or else in the cache folder (HELIX_CACHE), never in HELIX_STORE.
    """
    new = _build_parser(_bench_store, "  helix bench store --items 100000 --json")
    new.add_argument("--items", type=int, default=1_000_000, metavar="N", help="items of the store (1000000)")
    new.add_argument("--seed", type=int, default=1, metavar="S", help="of the generator (1)")
    new.add_argument("--keep", action="store_true", help="keep the copy that the commits changed, next to the store")
    new.add_argument("--cold", action="store_true", help="drop all of the system's caches before the cold start (root)")
    options = new.parse_args(argv)
    from pipelines.bench import store
    from pipelines.bench.synthetic_store import build_store, default_root

    settings = load()
    root = _expand(options.store) or default_root(options.items, settings)
    build_store(root, options.items, options.seed, settings, print_note)
    report = store.measure(root, settings, print_note, keep=options.keep, cold=options.cold)
    return _print_report(report, options.json, store.format_report, print_figures)


def _bench_graph(argv: Sequence[str]) -> int:
    """Measure the share of the graph's edges that joins two items with the same answer, on a benchmark set."""
    from pipelines.eval.sets.registry import SETS

    new = _build_parser(_bench_graph, "  helix bench graph locomo locomo10.json")
    new.add_argument("set", choices=SETS, metavar="SET", help=", ".join(SETS))
    new.add_argument("path", metavar="PATH", help="the set's file or folder")
    options = new.parse_args(argv)
    import tempfile

    from pipelines.bench import graph

    with tempfile.TemporaryDirectory() as work:
        report = graph.diagnose(options.set, Path(options.path), Path(work), load())
    return _print_report(report, options.json, graph.format_report, print)


def _bench_ingest(argv: Sequence[str]) -> int:
    """Measure items/s of the whole fast path, the encoder and the raw ONNX session on the same texts, and memory."""
    new = _build_parser(_bench_ingest, "  helix bench ingest\n  helix bench ingest --logs ~/.claude/projects")
    new.add_argument("--items", type=int, default=10_000, metavar="N", help="synthetic items to ingest (10000)")
    new.add_argument("--logs", nargs="+", default=[], metavar="PATH", help="logs to ingest instead")
    options = new.parse_args(argv)
    _check_positive("--items", options.items)
    from pipelines.bench import ingest

    report = ingest.measure(options.items, [Path(path).expanduser() for path in options.logs], load(), print_note)
    return _print_report(report, options.json, ingest.format_report, print_figures)


def _bench_recall(argv: Sequence[str]) -> int:
    """Measure latency by stage, kind of question and number of clients, recall of each leg, and the least time.

    The stores are made once, in the cache folder (HELIX_CACHE), never in HELIX_STORE. --out writes the report of all
    figures in --keep as Markdown with plots; without --items it measures nothing.
    """
    new = _build_parser(
        _bench_recall,
        "  helix bench recall --items 1000000 --json\n"
        "  helix bench recall --items 10000,100000,1000000 --keep measured --out docs/speed.md\n"
        "  helix bench recall --keep measured --out docs/speed.md    # write the report again",
    )
    new.add_argument("--items", metavar="N[,N]", help="items of the store, or of several (1000000)")
    new.add_argument("--seed", type=int, default=1, metavar="S", help="of the generator (1)")
    new.add_argument("--questions", type=int, default=540, metavar="N", help="questions to each store (540)")
    new.add_argument("--rounds", type=int, default=5, metavar="N", help="times each is asked (5)")
    new.add_argument("--peers", default="", metavar="A,B", help="other stores to ask as well: lancedb, txtai, …")
    new.add_argument("--keep", metavar="DIR", help="folder to keep the figures in; else they are only printed")
    new.add_argument("--out", metavar="FILE", help="write the report with its plots")
    options = new.parse_args(argv)
    from pipelines.bench import speed
    from pipelines.eval.document import check_matplotlib

    if options.out and not options.keep:
        raise UsageError("--out needs --keep", "name the folder of the figures")
    if options.out:
        check_matplotlib()

    keep = _expand(options.keep)
    reports = {}
    if options.items or not options.out:
        peers = tuple(name for name in options.peers.split(",") if name)
        workload = speed.Workload(options.seed, options.questions, options.rounds, peers)
        root = _expand(options.store)
        for items in speed.parse_sizes(options.items or "1000000", alone=root is not None):
            reports[items] = speed.measure_size(items, workload, root, keep, load(), print_note)
    measured = list(reports)
    if keep:
        reports = speed.load_reports(keep)
    if options.out:
        print_note(f"written: {speed.write(reports, Path(options.out).expanduser())}")
    report = speed.join_reports(reports, measured)
    return _print_report(report, options.json, speed.format_report, print_figures)


def _bench_logs(argv: Sequence[str]) -> int:
    """Measure the cost of accepting logs, before the encoder: MB/s of redacting and reading, and memory."""
    new = _build_parser(
        _bench_logs,
        "  helix bench logs ~/.claude/projects ~/.codex/sessions\n"
        "  helix bench logs --large 10,100,500    # memory of accepting a log of that many megabytes",
    )
    new.add_argument("paths", nargs="*", metavar="PATH", help="logs, or folders of them")
    new.add_argument("--large", default="", metavar="N[,N]", help="megabytes of made-up logs to accept")
    options = new.parse_args(argv)
    if not options.paths and not options.large:
        raise UsageError("nothing to measure", "name logs, or --large")
    sizes = options.large.split(",") if options.large else []
    if not all(size.strip().isdecimal() for size in sizes):
        raise UsageError(f"--large {options.large} is no list of megabytes", "write for instance 10,100")
    from pipelines.bench import logs

    report: dict[str, Any] = {}
    if options.paths:
        report = logs.measure_logs(options.paths, load())
    if sizes:
        report["large"] = logs.measure_large(sorted(map(int, sizes)), load(), print_note)
    if options.json:
        print_json(report)
        return 0
    for name, one in (*report.get("formats", {}).items(), *([("total", report["total"])] if options.paths else ())):
        print_text(f"{name:12}" + "  ".join(f"{key} {value}" for key, value in one.items()))
    for path, reason in report.get("refused", {}).items():
        print_error("refused", f"{path}: {reason}")
    return 0


def _bench_shards(argv: Sequence[str]) -> int:
    """Measure recalls over several stores of one size, each in a process of its own.

    The stores are made once, in the cache folder (HELIX_CACHE), never in HELIX_STORE.
    """
    new = _build_parser(_bench_shards, "  helix bench shards --shards 4 --items 1000000")
    new.add_argument("--shards", type=int, default=4, metavar="N", help="stores (4)")
    new.add_argument("--items", type=int, default=1_000_000, metavar="N", help="items of each (1000000)")
    new.add_argument("--questions", type=int, default=200, metavar="N", help="questions (200)")
    options = new.parse_args(argv)
    _check_positive("--shards", options.shards)
    from pipelines.bench import shards

    settings = load()
    roots = shards.list_roots(options.shards, options.items, settings)
    report = shards.measure(roots, options.items, options.questions, settings, print_note)
    return _print_report(report, options.json, shards.format_report, print_figures)


def _bench_watch(argv: Sequence[str]) -> int:
    """Measure the seconds from writing a turn until `helix watch` has it recallable."""
    new = _build_parser(_bench_watch, "  helix bench watch\n  helix bench watch --store copy-of-memory")
    new.add_argument("--turns", type=int, default=40, metavar="N", help="turns to write (40)")
    options = new.parse_args(argv)
    _check_positive("--turns", options.turns)
    from pipelines.bench import logs

    report = logs.measure_freshness(_expand(options.store), options.turns, print_note)
    return _print_report(report, options.json, logs.format_seconds, print_text)


KINDS: dict[str, Callable[[Sequence[str]], int]] = {
    "store": _bench_store,
    "recall": _bench_recall,
    "graph": _bench_graph,
    "ingest": _bench_ingest,
    "logs": _bench_logs,
    "watch": _bench_watch,
    "shards": _bench_shards,
}
