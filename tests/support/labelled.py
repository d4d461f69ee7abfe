"""Labelled sets and tables of cases, with precision and recall, which measuring tests report in the summary."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parent / "data"

REPORT: Final[list[str]] = []
"""Lines in the order of the tests."""

Rates = tuple[float, float, int]
"""Precision, recall, and the number of examples with the label."""


def load_labelled(name: str, split: str | None = None) -> list[dict[str, Any]]:
    """Return the examples of `tests/support/data/<name>.jsonl`, all or of one split.

    Rules were tuned on `dev`. `test` was labelled by the same guide with other topics, and never used for tuning.
    """
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if split in (None, row["split"])]


def load_cases(name: str) -> dict[str, dict[str, Any]]:
    """Return the tables of `tests/support/data/cases/<name>.toml`: text → expected result, or lists of texts."""
    return tomllib.loads((DATA / "cases" / f"{name}.toml").read_text("utf-8"))


def rate(right: int, wrong: int, missed: int) -> Rates:
    return right / max(1, right + wrong), right / max(1, right + missed), right + missed


def rate_pairs(pairs: Sequence[tuple[object, object]], labels: Iterable[Any]) -> dict[Any, Rates]:
    """Return the rates of each label in (true, found) pairs."""
    return {
        label: rate(
            sum(true == found == label for true, found in pairs),
            sum(found == label != true for true, found in pairs),
            sum(true == label != found for true, found in pairs),
        )
        for label in labels
    }


def add_report(name: str, rows: Mapping[str, Rates]) -> None:
    """Add a block to `REPORT`: each label with its rates."""
    REPORT.append(name)
    REPORT.extend(
        f"  {label:<16} precision {precision:.3f}  recall {recall:.3f}  of {count}"
        for label, (precision, recall, count) in rows.items()
    )
