"""The figures of docs/quality.md and docs/speed.md as JSON, for `03_quality_and_speed`.

A set's report has the shape of the files of `helix eval report --keep DIR`, as far as the document has their figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
OUT = HERE / "results"

Row = dict[str, str]
"""A row of a table, by column heading."""

_FIGURE = re.compile(r"(-?[\d.,]+)(?: \[(-?[\d.]+), (-?[\d.]+)\])?")
_MADE = re.compile(r"^- ([\w, ]+|[\d,]+ items): (\d{4}-\d\d-\d\d), (.*)\.$", re.M)


def read_tables(text: str, heading: str) -> list[list[Row]]:
    """Read the tables between a heading and the next one of its level or above.

    Raises:
        ValueError: the text has no such heading.
    """
    level = heading.partition(" ")[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    if not found:
        raise ValueError(f"there is no heading {heading!r}")
    part = re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.M)[0]
    blocks = re.findall(r"(?:^\|.*\n?)+", part, flags=re.M)
    return [list(_rows(block.splitlines())) for block in blocks]


def _rows(lines: list[str]) -> Iterator[Row]:
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    for cells in body:
        yield dict(zip(head, cells, strict=True))


def parse_number(cell: str) -> float:
    """Return the first number of a cell like `1,890` or `0.473 [0.442, 0.503]`."""
    return _number(_match(cell)[1])


def parse_interval(cell: str) -> tuple[float, float] | None:
    """Return the interval of a cell like `0.473 [0.442, 0.503]`; None if it has no interval."""
    found = _match(cell)
    return (_number(found[2]), _number(found[3])) if found[2] else None


def _match(cell: str) -> re.Match[str]:
    found = _FIGURE.match(cell)
    if found is None:
        raise ValueError(f"{cell!r} holds no figure")
    return found


def _number(text: str) -> float:
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() and "." not in text else value


def read_quality(text: str) -> dict[str, dict[str, Any]]:
    """Read the reports of docs/quality.md, by set."""
    made = {label.strip(): (date, how) for labels, date, how in _MADE.findall(text) for label in labels.split(",")}
    reports: dict[str, dict[str, Any]] = {}
    for head in read_tables(text, "## All sets")[0]:
        label = head["set"]
        main, at, *_ = read_tables(text, f"### {label}")  # a third one ranks sessions
        rows: dict[str, dict[str, Any]] = {}
        for row in (*main, *at):
            one = rows.setdefault(row["row"], {"ci": {}})
            for name, cell in row.items():
                if name != "row":
                    one[name] = parse_number(cell)
                    if ends := parse_interval(cell):
                        one["ci"][name] = ends
        reports[label] = {
            "questions": parse_number(head["questions"]),
            "haystacks": {"count": parse_number(head["haystacks"]), "median": parse_number(head["median turns"])},
            "rows": rows,
            "kinds": {},
            "made": {"date": made[label][0], "how": made[label][1]},
        }
    for row in read_tables(text, "## By kind of question")[0]:
        low, high = parse_interval(row["rec@10"]) or (None, None)
        own = {
            "questions": parse_number(row["questions"]),
            "any@10": parse_number(row["any@10"]),
            "rec@10": parse_number(row["rec@10"]),
        }
        reports[row["set"]]["kinds"][row["kind"]] = {**own, "low": low, "high": high}
    return reports


def read_speed(text: str) -> dict[str, dict[str, Any]]:
    """Read the reports of docs/speed.md, by number of items; one of them has every figure."""
    made = {items.removesuffix(" items"): (date, how) for items, date, how in _MADE.findall(text)}
    legs, by_kind = read_tables(text, "## Recall of the legs")
    found = {row["items"]: {leg: parse_number(row[leg]) for leg in ("dense", "bm25")} for row in legs}
    reports: dict[str, dict[str, Any]] = {}
    for row in read_tables(text, "## Growth")[0]:
        stages = {
            name.removesuffix(", p95"): {"p95": parse_number(row[name])} for name in row if name.endswith(", p95")
        }
        reports[row["items"].replace(",", "")] = {
            "items": parse_number(row["items"]),
            "total": _percentiles(row),
            "stages": stages,
            "recall_at_100": found[row["items"]],
            "made": {"date": made[row["items"]][0], "how": made[row["items"]][1]},
        }
    for row in read_tables(text, "## Peers")[0]:
        peers = reports[row["of items"].split()[-1].replace(",", "")].setdefault("peers", {})
        peers[row["peer"]] = {
            **_percentiles(row),
            "helix": {"p95": parse_number(row["Helix, p95"])},
            "ratio": parse_number(row["ratio"]),
        }
    [heading] = re.findall(r"^## Stages, at [\d,]+ items$", text, re.M)
    main = reports[heading.split()[-2].replace(",", "")]
    for row in read_tables(text, heading)[0]:
        budget = {"budget": parse_number(row["budget, p95"])} if row["budget, p95"] else {}
        if row["stage"] in main["stages"]:
            main["stages"][row["stage"]] |= {**_percentiles(row), **budget}
        else:
            main.setdefault("background", {})[row["stage"]] = {**_percentiles(row), **budget}
    main["kinds"] = {
        row["kind"]: {**_percentiles(row), "allowed_rows": parse_number(row["items searched"] or "0")}
        for row in read_tables(text, "## Kinds of question")[0]
    }
    clients = read_tables(text, "## Clients")[0]
    for name, of in (("clients", "processes"), ("threads", "threads")):
        main[name] = {
            row["clients"]: {"qps": parse_number(row[f"{of}, recalls/s"]), "p95": parse_number(row[f"{of}, p95"])}
            for row in clients
        }
    [name] = [name for name in by_kind[0] if name not in ("dense", "bm25")]
    main["recall_by_kind"] = {row[name]: {leg: parse_number(row[leg]) for leg in ("dense", "bm25")} for row in by_kind}
    return reports


def read_levers(text: str) -> list[dict[str, Any]]:
    """Read the value of each part: the change of recall@10 without it, by set, and the sets whose interval omits 0."""
    found = []
    for row in read_tables(text, "## What each part is worth")[0]:
        part, _, lever = row["without"].rpartition(" (")
        cells = {name.lower(): row[name] for name in ("LoCoMo", "BEAM", "MuSiQue", "Cranfield", "NPL")}
        changes = {name: float(cell.strip("*").replace("−", "-")) for name, cell in cells.items()}
        sure = [name for name, cell in cells.items() if cell.startswith("**")]
        found.append({"without": part, "lever": lever.strip("`)"), "changes": changes, "sure": sure})
    return found


def read_targets(text: str) -> list[dict[str, str]]:
    """Read the targets and the figures reached; `why` explains a missed target."""
    return [
        {"target": row["target"], "reached": row["reached"], "why": row[""]}
        for row in read_tables(text, "## What bounds it")[0]
    ]


def _percentiles(row: Row) -> dict[str, float]:
    return {name: parse_number(row[name]) for name in ("p50", "p95", "p99")}


def render_results() -> dict[str, str]:
    """Return the current text of the files in `results`, by name."""
    text = (DOCS / "quality.md").read_text("utf-8")
    found = {
        "quality": read_quality(text),
        "levers": read_levers(text),
        "targets": read_targets(text),
        "speed": read_speed((DOCS / "speed.md").read_text("utf-8")),
    }
    return {f"{name}.json": json.dumps(one, indent=1, ensure_ascii=False) + "\n" for name, one in found.items()}


def write_results() -> None:
    """Write the files."""
    OUT.mkdir(exist_ok=True)
    for name, text in render_results().items():
        (OUT / name).write_text(text, "utf-8")
