"""The quality report: measures each set once, retains its figures, and writes them with tables and plots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from helix.errors import InputRefused, StoreError, UsageError
from helix.recipes.load_profile import load as load_profile
from helix.settings import Settings
from helix.snapshot.segment.batch import hash_parts
from helix.util.wordlists import read_toml
from pipelines.eval.document import (
    Reports,
    check_matplotlib,
    default_profile,
    draw_plots,
    fill_template,
    format_table,
    replace_file,
)
from pipelines.eval.evaluate import Again, Say, evaluate
from pipelines.eval.score import BUDGETS, GAINS, KS, SESSION_METRICS, list_shortfalls
from pipelines.eval.sets.registry import SETS
from pipelines.eval.ways import ITEMS, LEGS, RANKED

PROFILES = ("helix", "helix-paper", "annie", "cems", "engram", "memoria")
PARTS = ("levers.md", "relevance.md")
"""Sections that are included: the effect of each part, written by hand, and what `helix eval relevance` writes."""

_LABEL = re.compile(r"[\w-][\w.-]{0,60}")
_NEWEST = "*newest*: the share of questions whose newest gold turn is ranked above the other gold turns."
_MAIN = ("rec@10", "ndcg@10", "pack@1000")  # with their intervals


_PUBLISHED = ("system", "set", "granularity", "metric", "value", "encoder", "tuned")

TUNED_ON = ("locomo", "beam", "musique")
"""Sets that the weights of the default profile were fitted to."""


class MeasuredSet(NamedTuple):
    """A set to measure, and its label in the report."""

    set: str
    label: str
    path: Path


def parse_set(text: str) -> MeasuredSet:
    """Parse `SET=PATH` or `SET:LABEL=PATH`. Raises UsageError if the text has another form, or no set has that name."""
    names, _, path = text.partition("=")
    name, _, label = names.partition(":")
    if not path:
        raise UsageError(f"{text!r} is not SET=PATH", "write for instance locomo=locomo10.json")
    if name not in SETS:
        raise UsageError(f"no set {name!r}", f"there are {', '.join(SETS)}")
    if not _LABEL.fullmatch(label or name):
        raise UsageError(f"{label!r} is no label", "use letters, digits, dots, - and _")
    return MeasuredSet(name, label or name, Path(path).expanduser())


def measure(
    sets: Sequence[MeasuredSet], keep: Path, settings: Settings, *, profiles: Sequence[str] = PROFILES, say: Say
) -> list[str]:
    """Measure the sets without retained figures; return the labels of refused ones.

    `keep` is the folder of LABEL.json and of stores. Figures of other profiles are measured again.

    Raises:
        UsageError: two sets have one label, a profile is unknown, or plots cannot be drawn.
    """
    check_matplotlib()
    labels = [one.label for one in sets]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise UsageError(f"the label {twice[0]!r} comes twice", "use different labels: SET:LABEL=PATH")
    for profile in profiles:
        load_profile(profile, settings.profiles)
    keep.mkdir(parents=True, exist_ok=True)
    refused = []
    for one in sets:
        asked: dict[str, Any] = {
            "set": one.set,
            "path": str(one.path.absolute()),
            "profiles": list(profiles),
            "best": True,
        }
        if _read_figures(keep / f"{one.label}.json").get("asked") == asked:
            say(f"{one.label}: kept")
            continue
        say(f"{one.label}: measuring")
        try:
            report = evaluate(
                one.set,
                one.path,
                settings,
                store=keep / "stores" / f"{one.label}-{hash_parts(one.set, asked['path'])[:8]}",  # a store for each set
                profiles=profiles,
                pooled=(*LEGS, *profiles[:1]),
                again=Again(best=True),
                say=lambda line, label=one.label: say(f"{label}: {line}"),  # type: ignore[misc]
            )
        except InputRefused as error:  # the other sets are measured
            say(f"{one.label}: {error}")
            refused.append(one.label)
            continue
        replace_file(keep / f"{one.label}.json", orjson.dumps({**report, "asked": asked}, option=orjson.OPT_INDENT_2))
    return refused


def _read_figures(path: Path) -> dict[str, Any]:
    """Read retained figures; {} for a missing or incomplete file."""
    try:
        figures = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return figures if isinstance(figures, dict) and "rows" in figures else {}


def write(keep: Path, out: Path) -> list[str]:
    """Write the report of all retained figures, with its plots in a folder of the same name; return the sets' labels.

    Raises:
        StoreError: the folder has no figures.
    """
    figures = {path.stem: report for path in sorted(keep.glob("*.json")) if (report := _read_figures(path))}
    if not figures:
        raise StoreError(f"nothing was measured in {keep}", "name sets: helix eval report SET=PATH …")
    order = list(SETS)
    labels = sorted(figures, key=lambda label: (order.index(figures[label]["set"]), label))
    reports = {label: figures[label] for label in labels}
    folder = out.with_suffix("")
    draw_plots(reports, folder)
    parts = [path.read_text("utf-8").strip() for name in PARTS if (path := folder / name).is_file()]
    replace_file(out, format_document(reports, folder.name, "\n\n".join(parts)).encode())
    return labels


def format_document(reports: Reports, folder: str, parts: str = "") -> str:
    """Format the reports of `evaluate` by label as Markdown; `folder` has the plots, `parts` are included unchanged."""
    text = fill_template(
        "pipelines.eval",
        "quality.md",
        machines="\n".join(_list_machines(reports)),
        k=str(ITEMS[RANKED]),
        budget=f"{RANKED:,}",
        ks=_list(KS),
        budgets=_list(BUDGETS),
        pack_ks=_list([ITEMS[budget] for budget in BUDGETS]),
        summary=_format_summary(reports),
        folder=folder,
        sets="\n\n".join(part for label, report in reports.items() for part in _format_set(label, report) if part),
        published=_format_published(reports),
        kinds=_format_kinds(reports),
        pooled=_format_pooled(reports),
        profiles=_format_profiles(reports),
    )
    return f"{text}\n{parts.strip()}\n" if parts.strip() else text


def _list_machines(reports: Reports) -> Iterator[str]:
    made: list[Mapping[str, Any]] = []
    for report in reports.values():
        made += [report["made"]] if report["made"] not in made else []
    for one in made:
        labels = ", ".join(label for label, report in reports.items() if report["made"] == one)
        yield (
            f"- {labels}: {one['date']}, helix {one['helix']}, encoder {one['encoder']}, Python {one['python']}, NumPy "
            f"{one['numpy']}, ONNX Runtime {one['onnxruntime']}, {one['cores']} cores, bootstrap of {one['draws']:,} "
            f"draws with seed {one['seed']}."
        )


def _format_summary(reports: Reports) -> str:
    gains = ["gain over the better leg", "the same in nDCG@10"]
    rows = []
    for label, report in reports.items():
        own, haystacks = report["rows"][default_profile(report)], report["haystacks"]
        counts = (report["questions"], haystacks["count"], haystacks["median"])
        found = (*(report["rows"][leg]["rec@10"] for leg in LEGS), own["rec@10"])
        rows.append([label, *(f"{n:,}" for n in counts), *map(_format, found)])
        for name in GAINS:
            gain, low, high = own["gain"][name]
            rows[-1].append(f"{gain:+.3f} [{low:+.3f}, {high:+.3f}] ({own['gain']['over'][name]})")
    return format_table(["set", "questions", "haystacks", "median turns", *LEGS, "default", *gains], rows)


def _format_set(label: str, report: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {label}"
    haystacks = report["haystacks"]
    yield (
        f"{report['questions']:,} questions over {haystacks['turns']:,} turns in {haystacks['count']:,} "
        f"{'haystack' if haystacks['count'] == 1 else 'haystacks'} (the smallest has {haystacks['smallest']:,})."
    )
    yield "\n".join(
        [
            *(f"- Left out: {n:,} questions ({reason})." for reason, n in report["left_out"].items()),
            *(f"- {line}." for line in (*report["notes"], *list_shortfalls(report["rows"]))),
            *(f"- **Note:** {line}." for line in report["warnings"]),
        ]
    )
    rows = report["rows"]
    plain = ("mrr", *(f"pack@{budget}" for budget in BUDGETS if f"pack@{budget}" not in _MAIN))
    yield format_table(
        ["row", *_MAIN, *plain, "skipped", "p50", "p95"],
        [
            [
                way,
                *(f"{_format(row[name])} {_format_interval(*row['ci'][name])}" for name in _MAIN),
                *(_format(row[name]) for name in plain),
                str(row["skipped"]),
                f"{row['p50']:.1f}",
                f"{row['p95']:.1f}",
            ]
            for way, row in rows.items()
        ],
    )
    names = [f"{metric}@{k}" for metric in ("any", "rec", "all") for k in KS]
    yield format_table(["row", *names], [[way, *(_format(row[name]) for name in names)] for way, row in rows.items()])
    yield from _format_sessions(report)


def _format_sessions(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of sessions, and those without questions whose gold is known to be wrong."""
    if sessions := report.get("sessions"):
        yield "Sessions, each ranked as its best turn:"
        rows = [[way, *(_format(row[name]) for name in SESSION_METRICS)] for way, row in sessions.items()]
        yield format_table(["row", *SESSION_METRICS], rows)
    if sound := report.get("sound"):
        yield (
            f"The gold of {sound['doubted']} of these questions is known to be wrong. Without them the default profile "
            f"has any@10 {_format(sound['any@10'])} and rec@10 {_format(sound['rec@10'])}."
        )


def _format_published(reports: Reports) -> str:
    """Return published figures next to the same of the default profile."""
    rows = [[one[name] for name in _PUBLISHED] for one in read_toml("pipelines.eval", "published")["figures"]]
    for label, report in reports.items():
        if sessions := report.get("sessions"):
            own, turns = sessions[default_profile(report)], report["rows"][default_profile(report)]
            encoder, system = report["made"]["encoder"], f"Helix ({label})"
            tuned = "its own conversations" if report["set"] in TUNED_ON else "other sets"
            figures = [("sessions", name, _format(own[name])) for name in SESSION_METRICS]
            figures.append(("turns", "rec@10", _format(turns["rec@10"])))
            rows += [[system, report["set"], found, name, value, encoder, tuned] for found, name, value in figures]
    return format_table(["system", "set", "found", "metric", "value", "encoder", "tuned on"], rows)


def _format_kinds(reports: Reports) -> str:
    rows = []
    kinds = [(label, *pair) for label, report in reports.items() for pair in report["kinds"].items()]
    ordered = any("newest" in row for *_, row in kinds)
    for label, kind, row in kinds:
        found = f"{_format(row['rec@10'])} {_format_interval(row['low'], row['high'])}"
        rows.append([label, kind, f"{row['questions']:,}", _format(row["any@10"]), found])
        if ordered and "newest" in row:
            rows[-1].append(f"{_format(row['newest'])} {_format_interval(row['newest_low'], row['newest_high'])}")
        elif ordered:
            rows[-1].append("")
    table = format_table(["set", "kind", "questions", "any@10", "rec@10", *["newest"] * ordered], rows) if rows else ""
    return f"{table}\n\n{_NEWEST}" if ordered else table


def _format_pooled(reports: Reports) -> str:
    metrics = ("rec@10", "mrr", "pack@1000")
    rows = []
    for label, report in reports.items():
        for way, row in report["rows"].items():
            if (pooled := report["rows"].get(f"{way} pooled")) is not None:
                rows.append([label, way, *(_format(one[name]) for name in metrics for one in (row, pooled))])
    names = [f"{name}, {place}" for name in metrics for place in ("own", "pooled")]
    return format_table(["set", "row", *names], rows) if rows else ""


def _format_profiles(reports: Reports) -> str:
    names = list(dict.fromkeys(name for report in reports.values() for name in report["asked"]["profiles"]))
    rows = []
    for label, report in reports.items():
        own = (report["rows"].get(name) for name in names)
        rows.append([label, *(f"{_format(row['rec@10'])} ({_format(row['pack@1000'])})" if row else "" for row in own)])
    return format_table(["set", *names], rows) if len(names) > 1 else ""


def _format(value: float) -> str:
    return f"{value:.3f}"


def _format_interval(low: float, high: float) -> str:
    return f"[{low:.3f}, {high:.3f}]"


def _list(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
