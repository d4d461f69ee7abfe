"""`helix eval changes`: recall of what holds now, in histories where things change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import Cell, format_count, is_drawn, print_note, print_table, print_text
from helix.errors import InputRefused, UsageError
from helix.settings import load

_CATEGORIES: Final = ("above", "first", "then", "why", "marked")
"""Figures of the table of categories."""

_QUOTE: Final = 160
"""Characters of a quoted turn."""


def evaluate_changes(argv: Sequence[str]) -> int:
    """Measure recall of what holds now, of what held before and why, in histories where things change."""
    from pipelines.eval.changes.figures import FIGURES
    from pipelines.eval.changes.history import HALVES, PACKAGED, list_histories

    new = build_parser(
        "eval changes",
        evaluate_changes.__doc__ or "",
        "  helix eval changes --half dev --misses above,then\n"
        "  helix eval changes histories/ --store stores --json\n"
        "  helix eval changes histories/parcels --check\n\n"
        "figures:\n" + "\n".join(f"  {name:15}{meaning}" for name, meaning in FIGURES.items()),
    )
    new.add_argument(
        "path", nargs="?", metavar="PATH", help="a folder of histories, or of one history (the packaged ones)"
    )
    new.add_argument("--half", choices=(*HALVES, "all"), default="all", metavar="H", help="dev, test or all (all)")
    new.add_argument("--profile", default="helix", metavar="NAME", help="answer with this profile (helix)")
    new.add_argument(
        "--misses", default="", metavar="A,B", help="list each question or turn that fails one of these figures"
    )
    new.add_argument("--check", action="store_true", help="only check the histories, and count their parts")
    options = new.parse_args(argv)
    path = Path(options.path).expanduser() if options.path else PACKAGED
    if options.check:
        return _check(list_histories(path, options.half), options.json)
    misses = [name.strip() for name in options.misses.split(",") if name.strip()]
    if unknown := [name for name in misses if name not in FIGURES]:
        raise UsageError(f"no figure {unknown[0]!r}", f"there are {', '.join(FIGURES)}")
    from pipelines.eval.changes.measure import evaluate_changes as run

    report = run(
        path,
        load(),
        half=options.half,
        profile=options.profile,
        store=Path(options.store).expanduser() if options.store else None,
        misses=misses,
        say=print_note,
    )
    print_json(report) if options.json else _print_report(report)
    return 0


def _check(found: Sequence[tuple[Path, str]], as_json: bool) -> int:
    """Print the counts of each history, its faults, and what a packaged one would need; 3 if a history has faults."""
    from pipelines.eval.changes.history import count_parts, find_faults, list_shortfalls, parse_history

    checked: list[dict[str, Any]] = []
    for folder, half in found:
        try:
            history = parse_history(folder, half)
        except InputRefused as error:
            checked.append({"history": folder.name, "half": half, "counts": {}, "faults": [error.what], "short": []})
            continue
        faults, short = list(find_faults(history)), list_shortfalls(history)
        counts = count_parts(history)
        checked.append({"history": folder.name, "half": half, "counts": counts, "faults": faults, "short": short})
    if as_json:
        print_json({"histories": checked})
    else:
        print_text("\n".join(line for one in checked for line in _format_check(one)))
    return 3 if any(one["faults"] for one in checked) else 0


def _format_check(one: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{n} {name}" for name, n in one["counts"].items()) or "unreadable"
    place = "/".join(part for part in (one["half"], one["history"]) if part)
    faults = [f"  fault: {fault}" for fault in one["faults"]]
    return [f"{place}: {counts}", *faults, *(f"  too few for a packaged history: {line}" for line in one["short"])]


# ---------------------------------------------------------------- the figures in words


def _print_report(report: dict[str, Any]) -> None:
    rows: dict[str, dict[str, Any]] = report["rows"]
    *_, last = rows
    total, n = rows[last], len(report["histories"])
    counts = (format_count(report["questions"], "question"), format_count(report["items"], "item"))
    histories = "1 history" if n == 1 else f"{n} histories"
    print_text(f"changes: {', '.join(counts)} of {histories}, profile {report['profile']}")
    _print_block(
        ("", *rows, f"95 % of {last}", "n"),
        [
            [
                name,
                *(_format_share(row, name) for row in rows.values()),
                "[{:.3f}, {:.3f}]".format(*total["ci"][name]),
                f"{total['n'][name]:,}",
            ]
            for name in total["n"]
        ],
    )
    _print_block(
        (f"pairs, {last}", "pairs", *_CATEGORIES),
        [
            [name, str(row["groups"]), *(_format_share(row, one) for one in _CATEGORIES)]
            for name, row in total["categories"].items()
        ],
    )
    _print_block(
        (f"controls, {last}", "controls", "turns", "false"),
        [
            [name, str(row["groups"]), str(row["n"]["false"]), _format_share(row, "false")]
            for name, row in total["kinds"].items()
            if "false" in row
        ],
    )
    for line in (*report["notes"], *_format_misses(report.get("misses", ()))):
        print_text(line)


def _format_share(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.3f}" if name in row else ""


def _print_block(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table with its header, on a terminal and in a pipe."""
    if not rows:
        return
    right = range(1, len(header))
    print_text("")
    if is_drawn():
        print_table(rows, header, right)
    else:
        print_table([header, *rows], (), right)


def _format_misses(misses: Sequence[dict[str, Any]]) -> list[str]:
    return [line for miss in misses for line in _format_miss(miss)]


def _format_miss(miss: dict[str, Any]) -> list[str]:
    place = "/".join(part for part in (miss["half"], miss["history"], miss["id"]) if part)
    kind = f" ({miss['category']})" if miss["category"] else ""
    head = f"{', '.join(miss['failed'])}: {place}{kind}"
    if "question" not in miss:
        compared = [f"  compare  {_quote(one)}" for one in miss["compare"]]
        return ["", head, f"  {'not marked' if 'marked' in miss['failed'] else 'marked'}  {_quote(miss)}", *compared]
    found = [
        f"  {entry['rank']:2} {entry['is']:8} {' '.join(map(_quote, entry['turns']))}"
        for entry in miss["found"]
        if entry["is"] or entry["rank"] == 1
    ]
    missing = [f"   - {'missing':8} {_quote(one)}" for one in miss["missing"]]
    return ["", f"{head}: {miss['question']}", *found, *missing]


def _quote(turn: dict[str, str]) -> str:
    text = " ".join(turn["text"].split())
    return f"{turn['turn']}  {text if len(text) <= _QUOTE else text[: _QUOTE - 1] + '…'}"
