"""The speed report: stores of several sizes measured and kept, then written as Markdown with tables and plots."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from pipelines.bench import against
from pipelines.bench.questions import FILTERED, OPEN
from pipelines.bench.recall import measure
from pipelines.bench.speed_plots import BUDGETS, LEGS, MILLION, draw, main
from pipelines.bench.store import Report, Say, build, default_root

Reports = Mapping[int, Report]
"""Reports by items, ascending."""

OUTSIDE: Final = "outside the stages"
"""Reading the question, and fetching texts."""


class How(NamedTuple):
    """What every store is asked."""

    seed: int
    questions: int
    rounds: int
    peers: tuple[str, ...] = ()


# ---------------------------------------------------------------- measuring


def sizes(given: str, *, alone: bool) -> list[int]:
    """`10000,100000`, ascending.

    Args:
        alone: the store's place is given, so there can only be one.

    Raises:
        UsageError: it is not written so.
    """
    try:
        found = sorted({int(part) for part in given.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise UsageError(f"--items {given} is no number of items", "write for instance 10000,1000000")
    if alone and len(found) > 1:
        raise UsageError("--store is one store, --items are several", "leave out --store")
    return found


def measured(items: int, how: How, root: Path | None, keep: Path | None, settings: Settings, say: Say) -> Report:
    """Build the store where it is not there, and measure it; the report, kept in `keep`.

    Raises:
        UsageError: a number is not positive, a peer is unknown, or something else lies where the store would.
    """
    if how.questions < 1 or how.rounds < 1:
        raise UsageError(f"{how.questions} questions in {how.rounds} rounds", "give positive numbers")
    against.known(how.peers)
    root = root or default_root(items, settings)
    build(root, items, how.seed, settings, say)

    def told(line: str) -> None:
        say(f"{items:,} items: {line}")

    report = measure(root, settings, told, n=how.questions, rounds=how.rounds, peers=how.peers)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        _replace(keep / f"recall-{items}.json", orjson.dumps(report, option=orjson.OPT_INDENT_2))
    return report


def kept(keep: Path) -> dict[int, Report]:
    """What was measured, by items, ascending.

    Raises:
        StoreError: nothing was, or a file is damaged.
    """
    found = {}
    for path in keep.glob("recall-*.json"):
        try:
            report = orjson.loads(path.read_bytes())
            found[int(report["items"])] = report
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise StoreError(f"{path} is damaged: {error}", "remove it and measure again") from None
    if not found:
        raise StoreError(f"nothing was measured in {keep}", "name --items")
    return {items: found[items] for items in sorted(found)}


def _replace(path: Path, data: bytes) -> None:
    """A file is there whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def joined(reports: Reports, among: Sequence[int] = ()) -> Report:
    """The main report, of the stores of so many items if any are named; `growth` has the totals of all, with each p95
    over that of the smallest.
    """
    least = reports[min(reports)]
    growth = {
        str(items): {**one["total"], "ratio": round(one["total"]["p95"] / least["total"]["p95"], 2)}
        for items, one in sorted(reports.items())
    }
    return {**main({items: reports[items] for items in among or reports}), "growth": growth}


# ---------------------------------------------------------------- to be read


def table(report: Report) -> str:
    """The report in a terminal."""
    lines = [f"{report['items']:,} items, {report['machine']['cores']} cores, {report['questions']} questions"]

    def row(what: str, said: str) -> None:
        lines.append(f"  {what:22} {said}")

    row("whole recall", _three(report["total"]))
    for stage, one in {**report["stages"], LEGS: report["legs"], OUTSIDE: report["outside"]}.items():
        row(f"  {stage}", _three(one) + (f"   budget {BUDGETS[stage]:g}" if stage in BUDGETS else ""))
    for kind, one in report["kinds"].items():
        row(f"  {kind}", f"{_three(one)}   p95 {one['ratio']['p95']:.2f} of unfiltered")
    row("recall@100", ", ".join(f"{leg} {share:.4f}" for leg, share in report["recall_at_100"].items()))
    for what, name in (("clients", "clients, processes"), ("threads", "clients, threads")):
        said = (f"{n}: {one['qps']:.0f}/s, p95 {one['p95']:.1f} ms" for n, one in report[what].items())
        row(name, "; ".join(said))
    for name, one in report["open_ms"].items():
        row(f"opening, {name}", ", ".join(f"{part} {one[part]:.0f} ms" for part in ("import", "open", "answer")))
    row("asked again", _three(report["repeated"]))
    row("memory of a reader", f"{report['memory_mb']['after_all']['anonymous']:.0f} MB of its own")
    if least := report["limit"]:
        row("least it can cost", f"{least['least']:.2f} ms; the whole takes {least['ratio']:.2f} times as long")
    row("built", f"{report['build']['items_per_second']:,.0f} items/s")
    for name, one in report["peers"].items():
        row(
            f"peer {name}",
            f"{_three(one)} over {one['items']:,} items, recall@100 {one['dense_recall_at_100']:.4f}; "
            f"Helix beside it p95 {one['helix']['p95']:.1f} ms ({one['ratio']:.2f})",
        )
    if len(report["growth"]) > 1:
        said = (
            f"{int(items):,}: p95 {one['p95']:.1f} ms ({one['ratio']:.2f})" for items, one in report["growth"].items()
        )
        row("growth", "; ".join(said))
    return "\n".join(lines)


def check_plots() -> None:
    """Whether plots can be drawn: to be known before an hour of measuring.

    Raises:
        UsageError: there is nothing to draw them with.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib, which draws the plots, is not installed", "pip install 'helix-recall[report]'")


def write(reports: Reports, out: Path) -> Path:
    """Write the report, its plots into the folder beside it that is named like it."""
    folder = out.with_suffix("")
    images = draw(reports, folder)
    text = markdown(reports, {name: f"{folder.name}/{path.name}" for name, path in images.items()})
    _replace(out, text.encode())
    return out


def markdown(reports: Reports, images: Mapping[str, str]) -> str:
    """The report.

    Args:
        images: where the plots stages, growth, effort and clients lie, from where the report lies.
    """
    report = joined(reports)
    parts = [
        "# Speed, measured",
        "Written by `helix bench recall`; figures are not edited by hand. Milliseconds, if nothing else is said.",
        *_how(reports),
        "## Targets",
        _targets(report),
        f"## Stages, at {report['items']:,} items",
        _stages(report),
        f"![A pair of bars a stage: its median and 95th percentile, beside its budget]({images['stages']})",
        "*Milliseconds by stage; the line is the budget. Beside embedding, a second thread finds the rows a filter "
        "allows and runs the lexical leg; then it takes half of the dense one.*",
        "## Kinds of question",
        _kinds(report),
        "## Growth",
        _growth(reports),
        f"![Three lines over the number of items: median, 95th and 99th percentile]({images['growth']})",
        "*The whole recall against the number of items; both axes are logarithmic.*",
        "## Recall of the legs",
        *_legs(reports),
        f"![A line a store: recall@100 over the median milliseconds of the dense leg]({images['effort']})",
        "*Recall@100 of the dense leg against its median time, by the lists it looks at; the ringed point is what is "
        "used.*",
        "## Clients",
        _clients(report),
        f"![Two panels over the number of clients: recalls a second, and the 95th percentile]({images['clients']})",
        "*Throughput and 95th percentile against clients, each of which asks again as soon as it is answered.*",
        "## Opening, memory, building",
        _opening(reports),
        *_limit(report),
        *_peers(reports),
        *_vectors(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(reports: Reports) -> Iterator[str]:
    yield "## How it was measured"
    made: dict[bytes, list[int]] = {}
    for items, one in reports.items():
        made.setdefault(orjson.dumps(one["machine"]), []).append(items)
    measured_on = [
        (reports[same[0]]["machine"], " and ".join(f"{items:,}" for items in same)) for same in made.values()
    ]
    real = ", ".join(f"{one['real']:,} of {items:,}" for items, one in reports.items())
    lines = [
        f"- {which} items: {of['date']}, {of['cpu']}, {of['cores']} cores, {of['memory_gb']:g} GB, one "
        f"core reads {of['bandwidth_gb_s']:g} GB/s; helix {of['helix']}, encoder {of['encoder']}, Python "
        f"{of['python']}, NumPy {of['numpy']}, ONNX Runtime {of['onnxruntime']}, FAISS {of['faiss']}."
        for of, which in measured_on
    ]
    any_one = main(reports)
    lines += [
        "- The items are synthetic: text of a Zipfian vocabulary with topics, names, paths, identifiers and errors, in "
        "sessions of 100 projects of skewed size, with entities, links and facts. The vectors of some whole sessions "
        f"({real}) are the encoder's own; the others are drawn from where it puts texts on their topics (below). "
        "The same seed gives the same items.",
        f"- {any_one['questions']} questions made of items with real vectors, as many of each kind: {', '.join(OPEN)}; "
        f"under a filter {', '.join(FILTERED)}. `window` is a week around the item, `acl` a principal's view, `type` "
        "one of five. Without a filter 3 % of the sessions are hidden, too: they have an ACL.",
        f"- One client in a fresh process, after one round to warm up; then {any_one['rounds']} rounds in random "
        "order, other measurements between them, every recall timed by itself, with embedding and packing. No answer "
        "is kept (`HELIX_ANSWERS=0`); what it takes to be given a kept one is under opening.",
    ]
    yield "\n".join(lines)


def _targets(report: Report) -> str:
    """What is wanted at a million items, and what there is."""
    total, four, growth = report["total"], report["clients"].get("4"), report["growth"]
    filtered = max(report["kinds"][kind]["ratio"]["p95"] for kind in FILTERED if kind in report["kinds"])
    rows = [
        ("whole recall, p95", f"≤ {_goal(report['items']):g}", total["p95"], total["p95"] <= _goal(report["items"])),
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
    rows += [(f"whole recall of {items:,} items, p95", "≤ 45", value, value <= _goal(items)) for items, value in p95]
    return _table(
        [f"at {report['items']:,} items", "target", "measured", "met"],
        [[what, target, _figure(value), "yes" if met else "**no**"] for what, target, value, met in rows],
    )


def _goal(items: int) -> float:
    """Milliseconds a whole recall may take at the 95th percentile."""
    return 15 if items <= MILLION else 45


def _stages(report: Report) -> str:
    rows = [
        ("whole recall", report["total"]),
        *report["stages"].items(),
        (LEGS, report["legs"]),
        (OUTSIDE, report["outside"]),
    ]
    return _table(
        ["stage", "p50", "p95", "p99", "budget, p95"],
        [[name, *_percentiles(one), f"{BUDGETS[name]:g}" if name in BUDGETS else ""] for name, one in rows],
    )


def _kinds(report: Report) -> str:
    summary = [["all without a filter", *_percentiles(report["unfiltered"]), "", "", ""]]
    summary += [["all under a filter", *_percentiles(report["filtered"]), "", "", ""]]
    return _table(
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


def _growth(reports: Reports) -> str:
    growth = joined(reports)["growth"]
    stages = list(dict.fromkeys(stage for one in reports.values() for stage in one["stages"]))
    return _table(
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


def _legs(reports: Reports) -> Iterator[str]:
    yield (
        "The share of the 100 best rows by an exact search that a leg finds. Dense: the inner products with all int8 "
        "vectors the filter leaves. BM25: every posting of every term scored."
    )
    yield _table(
        ["items", "dense", "bm25"],
        [
            [f"{items:,}", *(f"{one['recall_at_100'][leg]:.4f}" for leg in ("dense", "bm25"))]
            for items, one in reports.items()
        ],
    )
    report = main(reports)
    yield _table(
        [f"at {report['items']:,} items", "dense", "bm25"],
        [[kind, f"{one['dense']:.4f}", f"{one['bm25']:.4f}"] for kind, one in report["recall_by_kind"].items()],
    )


def _clients(report: Report) -> str:
    rows = []
    for n in report["clients"]:
        by_processes, by_threads = report["clients"][n], report["threads"][n]
        rows.append([n, *(f"{one['qps']:.0f}" for one in (by_processes, by_threads))])
        rows[-1] += [_figure(one["p95"]) for one in (by_processes, by_threads)]
    return (
        "Worker processes, one a core, that answer through a pipe; and threads of one process, which share its "
        "interpreter.\n\n"
    ) + _table(["clients", "processes, recalls/s", "threads, recalls/s", "processes, p95", "threads, p95"], rows)


def _opening(reports: Reports) -> str:
    return _table(
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


def _limit(report: Report) -> Iterator[str]:
    if not (least := report["limit"]):
        return
    yield "## The least it can cost"
    yield (
        "What no recall with this encoder and this index can do without, beside the whole, medians over the questions "
        "without a filter: one run of the ONNX session on the tokenised question, one search of the dense index by the "
        "library alone, and the bytes the other stages look at, at the speed one core reads memory. The bytes are all "
        "postings of the question's terms with their lengths, the codes that are rescored, the edges the walk may "
        "read, of each candidate the terms in order of five turns, three codes and a signature, and the texts "
        "returned; not the columns."
    )
    sizes = {name.removeprefix("bytes of "): size for name, size in least.items() if name.startswith("bytes of ")}
    yield _table(
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


def _peers(reports: Reports) -> Iterator[str]:
    rows = [(items, name, one) for items, report in reports.items() for name, one in report["peers"].items()]
    if not rows:
        return
    yield "## Peers"
    yield (
        "The same items, vectors and questions in the same run: the search of each alone for 100 rows, the vector "
        "given, without embedding, graph, ranking or packing. The effort is the least that finds as many of the "
        "nearest 100 as Helix does without a filter, or 99 % where Helix finds more. Helix answers the same questions "
        "in alternate rounds, whole recalls without a filter: the ratio is of its p95 to the peer's, which a machine "
        "that slows down for a while hardly changes."
    )
    yield _table(
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
    told = {name: one for _, name, one in rows}
    yield "\n".join(
        f"- **{name}** ({', '.join(f'{package} {number}' for package, number in one['versions'].items())}): "
        f"{one['configured']}; {one['knob']} {one['effort']}. Fuses by: {one['fuses']}. Lacks: {one['lacks']}."
        for name, one in told.items()
    )


def _vectors(report: Report) -> Iterator[str]:
    if "synthetic" not in (found := report["vectors"]):
        return
    yield "## Real and synthetic vectors"
    yield "Of as many items in whole sessions: cosines of random pairs and to the nearest others, and the spectrum."
    names = {
        "pairs": "pairs, {}th percentile",
        "neighbour": "neighbour {}, median",
        "variance": "variance along {} axes",
    }
    columns = [(part, key) for part in names for key in found["real"][part]]
    yield _table(
        ["vectors", *(names[part].format(key) for part, key in columns)],
        [[name, *(f"{found[name][part][key]:.3f}" for part, key in columns)] for name in ("real", "synthetic")],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _three(one: Mapping[str, float]) -> str:
    return f"p50 {one['p50']:6.2f}  p95 {one['p95']:6.2f}  p99 {one['p99']:6.2f} ms"


def _percentiles(one: Mapping[str, float]) -> list[str]:
    return [_figure(one[name]) for name in ("p50", "p95", "p99")]


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
