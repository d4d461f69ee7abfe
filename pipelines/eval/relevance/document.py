"""The section of the quality report about relevance: tables, reliability diagrams, risk over coverage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipelines.eval.document import (
    add_grid,
    add_legend,
    fill_template,
    format_table,
    make_panels,
    replace_file,
    save_plots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE: Final = "relevance.md"
"""The section, in the folder of the report's plots."""

HEADING: Final = "## Relevance"

_STYLES: Final = {"conversation": ("#0072B2", "o"), "set": ("#E69F00", "s")}
_SECTION: Final = re.compile(rf"^{HEADING}\n.*?(?=^## |\Z)", re.M | re.S)

Reports = Mapping[str, Mapping[str, Any]]
"""Reports of `measure_relevance` by what was left out of the fit."""


def write_section(reports: Reports, out: Path) -> list[Path]:
    """Write the section and its plots to the report's folder, and put it into the report; return the written files.

    Args:
        out: the report; without one, only its folder is written.
    """
    folder = out.with_suffix("")
    draw = {
        "calibration": lambda: _draw_calibration(reports),
        "coverage": lambda: _draw_coverage(reports),
    }
    plots = save_plots(draw, folder, "helix eval relevance")
    section = format_section(reports, folder.name)
    replace_file(folder / FILE, section.encode())
    written = [folder / FILE, *plots.values()]
    if out.is_file():
        replace_file(out, insert_section(out.read_text("utf-8"), section).encode())
        written.append(out)
    return written


def insert_section(text: str, section: str) -> str:
    """Return a report with the section in place of the one it has, else at its end."""
    whole = f"{section.strip()}\n"
    if _SECTION.search(text):
        return _SECTION.sub(lambda found: whole + ("\n" if text[found.end() :] else ""), text, count=1)
    return f"{text.rstrip()}\n\n{whole}"


def format_section(reports: Reports, folder: str) -> str:
    """Format reports as a section in Markdown; `folder` has the plots."""
    first = next(iter(reports.values()))
    return fill_template(
        "pipelines.eval",
        "relevance.md",
        folder=folder,
        least=f"{first['least']:g}",
        cases=f"{first['cases']:,}",
        separation="\n\n".join(map(_format_separation, reports.values())),
        prompts="\n\n".join(filter(None, [format_table(*_tabulate_prompts(reports)), _format_logs(reports)])),
        calibration=format_table(*_tabulate_calibration(reports)),
    )


_COLUMNS: Final = {
    "other": "another haystack",
    "hard": "without the evidence",
    "abstention": "abstention",
    "emptied": "emptied",
    "passed": "others answered",
}


def _format_separation(report: Mapping[str, Any]) -> str:
    """Format what a report separates, a line a set."""
    head = [f"by {report['by']}", "questions", *_COLUMNS.values()]
    rows = [
        [name, f"{row['answerable']:,}", *(_format(row[column]) for column in _COLUMNS)]
        for name, row in report["sets"].items()
    ]
    return format_table(head, rows)


def _tabulate_prompts(reports: Reports) -> tuple[list[str], list[list[str]]]:
    names = next(iter(reports.values()))["prompts"]
    return ["prompts", *(f"answered, by {by}" for by in reports)], [
        [name, *(_format(report["prompts"][name]) for report in reports.values())] for name in names
    ]


def _format_logs(reports: Reports) -> str:
    """Format the shares of prompts of logs that pass, with a line about them; empty without logs."""
    first = next(iter(reports.values()))
    if not first["logs"]:
        return ""
    head = ["prompts of real logs", "cases"]
    for by in reports:
        head += [f"answered, by {by}", f"spoken by hooks, by {by}"]
    rows = []
    for name, one in first["logs"].items():
        row = [name, f"{one['cases']:,}"]
        for report in reports.values():
            row += [_format(report["logs"][name][threshold]) for threshold in ("passed", "spoken")]
        rows.append(row)
    about = (
        f"Prompts of real logs of agents; hooks speak from {first['hook']:g}. *Nothing said*: asked of the "
        "earlier sessions of their own project that share no rare term with the prompt and its reply."
    )
    return f"{about}\n\n{format_table(head, rows)}"


def _tabulate_calibration(reports: Reports) -> tuple[list[str], list[list[str]]]:
    return ["expected calibration error", *(f"by {by}" for by in reports)], [
        [f"`{name}`", *(_format(report["ece"][name]) for report in reports.values())]
        for name in ("answered", "relevance")
    ]


def _format(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _draw_calibration(reports: Reports) -> Figure:
    """Draw the share of positives over the probability: a panel a probability, a line a way of leaving out."""
    figure, panels = make_panels(2, 7.2, 3.4)
    for axes, name in zip(panels, ("answered", "relevance"), strict=True):
        axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
        for by, report in reports.items():
            bins = report["calibration"][name]
            _draw_line(axes, by, [one["predicted"] for one in bins], [one["observed"] for one in bins])
        observed = "questions that can be answered" if name == "answered" else "items that help"
        axes.set(title=name, xlabel="probability", ylabel=f"share of {observed}", xlim=(0, 1), ylim=(0, 1))
    add_legend(figure, panels[0])
    return figure


def _draw_coverage(reports: Reports) -> Figure:
    """Draw the share of wrong answers over the share of questions that are answered."""
    figure, (axes,) = make_panels(1, 4.6, 3.2)
    for by, report in reports.items():
        coverage, risk = zip(*report["coverage"], strict=True)
        _draw_line(axes, by, coverage, risk)
    axes.set(xlabel="share answered, the surest first", ylabel="share without an answer", xlim=(0, 1), ylim=(0, None))
    add_legend(figure, axes)
    return figure


def _draw_line(axes: Axes, by: str, x: Any, y: Any) -> None:
    colour, mark = _STYLES.get(by, ("#009E73", "^"))
    axes.plot(x, y, color=colour, marker=mark, markersize=3, label=f"by {by}")
    add_grid(axes)
