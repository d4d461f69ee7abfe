"""`helix bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import print_error, print_figures, print_text
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
    raise UsageError(f"{given.kind!r} is not the first word", f"say 'helix bench {given.kind}' …")


def _store(argv: Sequence[str]) -> int:
    """Cost of a store: commits, compaction, memory, bytes, opening, recall.

    The store is made once and kept: in --store, else in the cache folder (HELIX_CACHE), never in HELIX_STORE.
    """
    new = build_parser("bench store", _store.__doc__ or "", "  helix bench store --items 100000 --json")
    new.add_argument("--items", type=int, default=1_000_000, metavar="N", help="items of the store (1000000)")
    new.add_argument("--seed", type=int, default=1, metavar="S", help="of the generator (1)")
    new.add_argument("--keep", action="store_true", help="keep the copy that was written to, beside the store")
    new.add_argument("--cold", action="store_true", help="drop all of the system's caches before the cold start (root)")
    options = new.parse_args(argv)
    from pipelines.bench.store import build, default_root, measure

    settings = load()
    root = Path(options.store).expanduser() if options.store else default_root(options.items, settings)

    build(root, options.items, options.seed, settings, _say)
    report = measure(root, settings, _say, keep=options.keep, cold=options.cold)
    if options.json:
        print_json(report)
    else:
        print_figures(table(report))
    return 0


def _graph(argv: Sequence[str]) -> int:
    """What share of the graph's edges joins two items that answer the same question, on a benchmark set."""
    from pipelines.eval.sets.registry import SETS

    new = build_parser("bench graph", _graph.__doc__ or "", "  helix bench graph locomo locomo10.json")
    new.add_argument("set", choices=SETS, metavar="SET", help=", ".join(SETS))
    new.add_argument("path", metavar="PATH", help="the set's file or folder")
    options = new.parse_args(argv)
    import tempfile

    from pipelines.bench import graph

    with tempfile.TemporaryDirectory() as work:
        report = graph.diagnose(options.set, Path(options.path), Path(work), load())
    if options.json:
        print_json(report)
    else:
        print(graph.table(report))
    return 0


def _ingest(argv: Sequence[str]) -> int:
    """Items/s of the whole fast path, beside the encoder and the raw ONNX session on the same texts; and memory."""
    new = build_parser(
        "bench ingest", _ingest.__doc__ or "", "  helix bench ingest\n  helix bench ingest --logs ~/.claude/projects"
    )
    new.add_argument("--items", type=int, default=10_000, metavar="N", help="synthetic items to take in (10000)")
    new.add_argument("--logs", nargs="+", default=[], metavar="PATH", help="logs to take in instead")
    options = new.parse_args(argv)
    if options.items < 1:
        raise UsageError(f"--items is {options.items}", "give a positive number")
    from pipelines.bench import ingest

    report = ingest.measure(options.items, [Path(path).expanduser() for path in options.logs], load(), _say)
    if options.json:
        print_json(report)
    else:
        print_figures(ingest.table(report))
    return 0


def _recall(argv: Sequence[str]) -> int:
    """Latency of recall by stage, kind of question and number of clients, recall of each leg, and what is possible.

    The stores are made once and kept in the cache folder (HELIX_CACHE), never in HELIX_STORE. With --out the report is
    written as Markdown with plots, of everything measured into --keep; without --items nothing is measured for it.
    """
    new = build_parser(
        "bench recall",
        _recall.__doc__ or "",
        "  helix bench recall --items 1000000 --json\n"
        "  helix bench recall --items 10000,100000,1000000 --keep measured --out docs/speed.md\n"
        "  helix bench recall --keep measured --out docs/speed.md    # written anew from what is kept",
    )
    new.add_argument("--items", metavar="N[,N]", help="items of the store, or of several (1000000)")
    new.add_argument("--seed", type=int, default=1, metavar="S", help="of the generator (1)")
    new.add_argument("--questions", type=int, default=540, metavar="N", help="asked of each store (540)")
    new.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is asked (5)")
    new.add_argument("--peers", default="", metavar="A,B", help="other stores to ask as well: lancedb, txtai, …")
    new.add_argument("--keep", metavar="DIR", help="keep the figures there; else they are only printed")
    new.add_argument("--out", metavar="FILE", help="write the report with its plots")
    options = new.parse_args(argv)
    from pipelines.bench import speed

    if options.out and not options.keep:
        raise UsageError("--out needs --keep", "name the folder of the figures")
    if options.out:
        speed.check_plots()

    keep = Path(options.keep).expanduser() if options.keep else None
    reports = {}
    if options.items or not options.out:
        peers = tuple(name for name in options.peers.split(",") if name)
        how = speed.How(options.seed, options.questions, options.rounds, peers)
        root = Path(options.store).expanduser() if options.store else None
        for items in speed.sizes(options.items or "1000000", alone=root is not None):
            reports[items] = speed.measured(items, how, root, keep, load(), _say)
    measured = list(reports)
    if keep:
        reports = speed.kept(keep)
    if options.out:
        _say(f"written: {speed.write(reports, Path(options.out).expanduser())}")
    report = speed.joined(reports, measured)
    if options.json:
        print_json(report)
    else:
        print_figures(speed.table(report))
    return 0


def _logs(argv: Sequence[str]) -> int:
    """What logs cost to take in before anything is embedded: MB/s of redacting and reading, and memory."""
    new = build_parser(
        "bench logs",
        _logs.__doc__ or "",
        "  helix bench logs ~/.claude/projects ~/.codex/sessions\n"
        "  helix bench logs --large 10,100,500    # memory of accepting a log of that many megabytes",
    )
    new.add_argument("paths", nargs="*", metavar="PATH", help="logs, or folders of them")
    new.add_argument("--large", default="", metavar="N[,N]", help="megabytes of logs that are made up and accepted")
    options = new.parse_args(argv)
    if not options.paths and not options.large:
        raise UsageError("nothing to measure", "name logs, or --large")
    sizes = options.large.split(",") if options.large else []
    if not all(size.strip().isdecimal() for size in sizes):
        raise UsageError(f"--large {options.large} is no list of megabytes", "write for instance 10,100")
    from pipelines.bench import logs

    report: dict[str, Any] = {}
    if options.paths:
        report = logs.measure(options.paths, load())
    if sizes:
        report["large"] = logs.large(sorted(map(int, sizes)), load(), _say)
    if options.json:
        print_json(report)
        return 0
    for name, one in (*report.get("formats", {}).items(), *([("total", report["total"])] if options.paths else ())):
        print_text(f"{name:12}" + "  ".join(f"{key} {value}" for key, value in one.items()))
    for path, reason in report.get("refused", {}).items():
        print_error("refused", f"{path}: {reason}")
    return 0


def _watch(argv: Sequence[str]) -> int:
    """How long after a turn was written `helix watch` has it recallable, in seconds."""
    new = build_parser(
        "bench watch", _watch.__doc__ or "", "  helix bench watch\n  helix bench watch --store copy-of-memory"
    )
    new.add_argument("--turns", type=int, default=40, metavar="N", help="turns to write (40)")
    options = new.parse_args(argv)
    if options.turns < 1:
        raise UsageError(f"--turns is {options.turns}", "give a positive number")
    from pipelines.bench import freshness

    store = Path(options.store).expanduser() if options.store else None
    report = freshness.measure(store, options.turns, _say)
    if options.json:
        print_json(report)
    else:
        print_text(", ".join(f"{name} {value} s" for name, value in report["seconds"].items()))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)


KINDS: dict[str, Callable[[Sequence[str]], int]] = {
    "store": _store,
    "recall": _recall,
    "graph": _graph,
    "ingest": _ingest,
    "logs": _logs,
    "watch": _watch,
}


def table(report: dict[str, Any]) -> str:
    """The report of `bench store`, to be read."""
    lines = [f"{report['items']:,} items in {report['segments']} segments, {report['cores']} cores"]

    def row(what: str, said: str) -> None:
        lines.append(f"  {what:24} {said}")

    for name, what in (("commit_100", "commit of 100"), ("commit_10000", "commit of 10,000")):
        one = report[name]
        row(what, f"{one['seconds']:.2f} s (worst {one['worst']:.2f}), {_mb(one['new_bytes'])} new")
    for name, what in (("compact", "compaction after them"), ("compact_all", "merge of everything")):
        one = report[name]
        row(what, f"{one['seconds']:.1f} s, {_mb(one['new_bytes'])} new, {one['segments']} segments left")
    for name, one in report["writer_peak_mb"]["phases"].items():
        row(f"memory of {name}", f"{one['anonymous']:.0f} MB of its own, {one['rss']:.0f} MB with mapped files")
    row("refresh of a reader", f"{report['refresh']['seconds']:.2f} s from publishing to recall")
    for name, one in report["open_ms"].items():
        dropped = f", dropped: {one['dropped']}" if "dropped" in one else ""
        parts = ", ".join(f"{part} {one[part]:.0f}" for part in ("import", "open", "answer"))
        row(f"first answer, {name}", f"{one['total']:.0f} ms ({parts}{dropped})")
    private = report["private_mb"]
    row(
        "memory of a reader",
        f"{private['anonymous']:.0f} MB of its own, {private['uss']:.0f} MB with what it mapped alone",
    )
    recall = report["recall"]
    row("recall", f"p50 {recall['p50']:.1f} ms, p95 {recall['p95']:.1f} ms of {recall['queries']} questions")
    for kind, one in recall["kinds"].items():
        row(f"  {kind}", f"p50 {one['p50']:.1f} ms, p95 {one['p95']:.1f} ms")
    row("  stages, median ms", ", ".join(f"{stage} {ms:g}" for stage, ms in recall["stages"].items()))
    sizes = report["bytes_per_item"]
    row("bytes an item", ", ".join(f"{kind} {size:,.0f}" for kind, size in sizes.items() if size >= 0.5))
    return "\n".join(lines)


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
