"""Parts of a written report: whole files, Markdown tables, plots as SVG whose bytes depend on the figures alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def check_matplotlib() -> None:
    """Check that plots can be drawn, before hours of measuring.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib, which draws the plots, is not installed", "pip install 'helix-recall[report]'")


def replace_file(path: Path, data: bytes) -> None:
    """Write a whole file or none."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def save_plots(draw: Mapping[str, Callable[[], Figure]], folder: Path, creator: str) -> dict[str, Path]:
    """Write each plot to `folder/NAME.svg`; return the files by name."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.svg" for name in draw}
    # A fixed salt makes the identifiers inside a file the same every time.
    with matplotlib.rc_context({"svg.hashsalt": "helix", "font.size": 9, "font.family": "DejaVu Sans"}):
        figures = {name: make() for name, make in draw.items()}
        for name, figure in figures.items():
            figure.savefig(files[name], metadata={"Date": None, "Creator": creator}, facecolor="white")
    return files


def make_panels(n: int, width: float, height: float, across: int | None = None) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels, off screen.

    Args:
        width, height: of the whole figure, in inches.
        across: panels a row; all by default.
    """
    from matplotlib.figure import Figure

    across = min(n, across or n)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(-(-n // across), across, squeeze=False)
    for axes in grid.flat[n:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:n])


def add_legend(figure: Figure, axes: Axes, columns: int | None = None) -> None:
    """Add the legend of one panel above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=columns or len(labels), frameon=False)


def add_grid(axes: Axes, axis: str = "both") -> None:
    """Draw grid lines below the data."""
    axes.grid(axis=axis, color="#dddddd")  # type: ignore[arg-type]
    axes.set_axisbelow(True)
