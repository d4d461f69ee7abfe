"""The progress of `helix ingest` on a terminal: how much is done, how fast, how long still, and what recall finds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from helix.cli.terminal import format_count, is_drawn
from helix.util.ages import format_seconds

if TYPE_CHECKING:
    from pipelines.embedded.state import IngestState, Observe

_WIDTH = 24  # of the bar


def describe_state(state: IngestState) -> str:
    """Return the figures of a running ingest in one line."""
    if not state.documents:
        return f"{state.files:,} of {format_count(state.files_total, 'file')} read"
    left = format_seconds(state.seconds_left)
    parts = [f"{state.share:.0%}", f"{state.rate:.0f} items/s"]
    parts += [f"{left} left"] if left and state.share < 1 else []
    parts += [f"{format_count(state.searchable, 'item')} searchable" if state.searchable else "nothing searchable yet"]
    return " · ".join(parts)


@contextmanager
def show_ingest(enabled: bool) -> Iterator[Observe | None]:
    """Draw the bar on stderr if that is a terminal; yield None otherwise."""
    if not enabled or not is_drawn(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(_WIDTH), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("ingest", total=1.0, figures="looking for files")

        def show(state: IngestState) -> None:
            share = state.share if state.documents else 0.0
            bars.update(task, completed=share, figures=describe_state(state))

        yield show
