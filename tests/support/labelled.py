"""Precision and recall on the labelled sets: every test that measures adds its lines, the summary prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parent / "data"

REPORT: Final[list[str]] = []
"""Lines in the order of the tests."""


def report(name: str, rows: Mapping[str, tuple[float, float, int]]) -> None:
    """Add a block to `REPORT`: by label its precision, its recall and how many texts carry it."""
    REPORT.append(name)
    REPORT.extend(
        f"  {label:<16} precision {precision:.3f}  recall {recall:.3f}  of {count}"
        for label, (precision, recall, count) in rows.items()
    )


def labelled(name: str, split: str | None = None) -> list[dict[str, Any]]:
    """The examples of `tests/support/data/<name>.jsonl`, of one split where it is given.

    Rules were tuned on `dev`; `test` was labelled by the same guide with other topics, and not looked at.
    """
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if split in (None, row["split"])]
