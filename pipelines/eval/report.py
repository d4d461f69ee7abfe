"""The quality report: every set measured once and kept, then written as Markdown with tables and plots."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from helix.errors import InputRefused, StoreError, UsageError
from helix.recipes.load_profile import load as load_profile
from helix.settings import Settings
from helix.snapshot.segment.batch import digest
from pipelines.eval.evaluate import ITEMS, LEGS, RANKED, Say, evaluate
from pipelines.eval.plots import default, draw
from pipelines.eval.score import BUDGETS, GAINS, KS, shortfalls
from pipelines.eval.sets.registry import SETS

PROFILES = ("helix", "helix-paper", "annie", "cems", "engram", "memoria")
LEVERS = "levers.md"  # written by hand: what each part is worth

_LABEL = re.compile(r"[\w-][\w.-]{0,60}")
_MAIN = ("rec@10", "ndcg@10", "pack@1000")  # shown with their intervals


class Job(NamedTuple):
    """A set to measure, under a label."""

    set: str
    label: str
    path: Path


def job(given: str) -> Job:
    """`SET=PATH` or `SET:LABEL=PATH`.

    Raises:
        UsageError: it is not written so, or there is no such set.
    """
    what, _, path = given.partition("=")
    name, _, label = what.partition(":")
    if not path:
        raise UsageError(f"{given!r} is not SET=PATH", "write for instance locomo=locomo10.json")
    if name not in SETS:
        raise UsageError(f"no set {name!r}", f"there are {', '.join(SETS)}")
    if not _LABEL.fullmatch(label or name):
        raise UsageError(f"{label!r} is no label", "take letters, digits, dots, - and _")
    return Job(name, label or name, Path(path).expanduser())


def measure(
    jobs: Sequence[Job], keep: Path, settings: Settings, *, profiles: Sequence[str] = PROFILES, say: Say
) -> list[str]:
    """Measure the sets whose figures are not kept yet; the labels of those that were refused.

    Args:
        keep: folder of LABEL.json and of stores. What was measured with other profiles is measured again.

    Raises:
        UsageError: two sets of one label, an unknown profile, or nothing to draw plots with.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib, which draws the plots, is not installed", "pip install 'helix-recall[report]'")
    labels = [one.label for one in jobs]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise UsageError(f"the label {twice[0]!r} comes twice", "tell them apart: SET:LABEL=PATH")
    for profile in profiles:
        load_profile(profile, settings.profiles)
    keep.mkdir(parents=True, exist_ok=True)
    refused = []
    for one in jobs:
        asked: dict[str, Any] = {"set": one.set, "path": str(one.path.absolute()), "profiles": list(profiles)}
        if _kept(keep / f"{one.label}.json").get("asked") == asked:
            say(f"{one.label}: kept")
            continue
        say(f"{one.label}: measuring")
        try:
            report = evaluate(
                one.set,
                one.path,
                settings,
                store=keep / "stores" / f"{one.label}-{digest(one.set, asked['path'])[:8]}",  # never two sets in one
                profiles=profiles,
                pooled=(*LEGS, *profiles[:1]),
                say=lambda line, label=one.label: say(f"{label}: {line}"),  # type: ignore[misc]
            )
        except InputRefused as error:  # the others are worth a report all the same
            say(f"{one.label}: {error}")
            refused.append(one.label)
            continue
        _replace(keep / f"{one.label}.json", orjson.dumps({**report, "asked": asked}, option=orjson.OPT_INDENT_2))
    return refused


def _kept(path: Path) -> dict[str, Any]:
    """What was measured; nothing where it was not, or was cut off."""
    try:
        found = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) and "rows" in found else {}


def _replace(path: Path, data: bytes) -> None:
    """A file is there whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def write(keep: Path, out: Path) -> list[str]:
    """Write the report of everything kept in `keep`, its plots into the folder beside `out` that is named like it.

    Returns:
        The labels of the sets in it.

    Raises:
        StoreError: nothing is kept there.
    """
    found = {path.stem: report for path in sorted(keep.glob("*.json")) if (report := _kept(path))}
    if not found:
        raise StoreError(f"nothing was measured in {keep}", "name sets: helix eval report SET=PATH …")
    order = list(SETS)
    labels = sorted(found, key=lambda label: (order.index(found[label]["set"]), label))
    reports = {label: found[label] for label in labels}
    folder = out.with_suffix("")
    images = draw(reports, folder)
    levers = folder / LEVERS
    text = markdown(
        reports,
        {name: f"{folder.name}/{path.name}" for name, path in images.items()},
        levers.read_text("utf-8") if levers.is_file() else "",
    )
    _replace(out, text.encode())
    return labels


def markdown(reports: Mapping[str, Mapping[str, Any]], images: Mapping[str, str], levers: str = "") -> str:
    """The report.

    Args:
        reports: of `evaluate`, by label.
        images: where the plots bars, curves and packs lie, from where the report lies.
        levers: a section put in as it is.
    """
    parts = [
        "# Quality, measured",
        "Written by `helix eval report`; figures are not edited by hand.",
        *_how(reports),
        "## All sets",
        "recall@10 of the default profile beside the legs it is made of. *Gain* is the difference to the better of the "
        "two legs, question by question, with its 95 % interval.",
        _summary(reports),
        f"![A panel a set with a bar for every row: recall@10 and its 95 % interval]({images['bars']})",
        "*recall@10 by set and row, each with its 95 % interval. Legs and their equal-weight fusion come first.*",
        f"![A panel a set: recall over k for the legs, their fusion and the default profile]({images['curves']})",
        "*recall@k over k; the bands are 95 % intervals.*",
        f"![A panel a set: share of the evidence inside a pack over its budget]({images['packs']})",
        "*Share of the gold turns that is inside a pack of so many tokens; the bands are 95 % intervals.*",
        "## Set by set",
        *(part for label, report in reports.items() for part in _set(label, report)),
        *_kinds(reports),
        *_pooled(reports),
        *_profiles(reports),
        levers.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## How it was measured"
    made = {json.dumps(report["made"], sort_keys=True): report["made"] for report in reports.values()}
    lines = [
        f"- {', '.join(label for label, report in reports.items() if report['made'] == one)}: {one['date']}, helix "
        f"{one['helix']}, encoder {one['encoder']}, Python {one['python']}, NumPy {one['numpy']}, ONNX Runtime "
        f"{one['onnxruntime']}, {one['cores']} cores, bootstrap of {one['draws']:,} draws with seed {one['seed']}."
        for one in made.values()
    ]
    lines += [
        "- Every set goes in by the normal ingest and is asked by the normal recall, filtered by the project of the "
        "question's haystack. All rows answer the same questions over the same items. Results are mapped to turns (or "
        "passages) by the set's own ids; a turn that was cut into pieces counts once.",
        f"- The ranking and the time are those of a recall with k = {ITEMS[RANKED]} items and {RANKED:,} tokens. "
        f"`any`, `rec`, `all`: any, what share, all of the gold among the first k turns, k = {_listed(KS)}. MRR is "
        "uncut within what was returned. nDCG@10 as trec_eval computes it, with grades where a set has them.",
        f"- `pack`: the share of the gold inside the pack of {_listed(BUDGETS)} tokens (k = "
        f"{_listed([ITEMS[budget] for budget in BUDGETS])}); what is brought around an item does not count. The packs "
        "of `dense`, `bm25` and `rrf` count their texts alone, those of the profiles headers and wrapper, too.",
        "- `dense`, `bm25`, `rrf`: each leg alone and both by equal-weight reciprocal ranks (k = 60), 100 items a leg. "
        "`skipped`: questions taken for ones that need no memory; they count as missed. p50 and p95 are milliseconds a "
        "question in one process, after a warm-up.",
        "- Brackets are 95 % intervals: the percentile bootstrap over questions.",
    ]
    yield "\n".join(lines)


def _summary(reports: Mapping[str, Mapping[str, Any]]) -> str:
    gains = ["gain over the better leg", "the same in nDCG@10"]
    head = ["set", "questions", "haystacks", "median turns", *LEGS, "default", *gains]
    rows = []
    for label, report in reports.items():
        own = report["rows"][default(report)]
        gain = own["gain"]
        rows.append(
            [
                label,
                f"{report['questions']:,}",
                f"{report['haystacks']['count']:,}",
                f"{report['haystacks']['median']:,}",
                *(_figure(report["rows"][leg]["rec@10"]) for leg in LEGS),
                _figure(own["rec@10"]),
                *(
                    f"{gain[name][0]:+.3f} [{gain[name][1]:+.3f}, {gain[name][2]:+.3f}] ({gain['over'][name]})"
                    for name in GAINS
                ),
            ]
        )
    return _table(head, rows)


def _set(label: str, report: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {label}"
    haystacks = report["haystacks"]
    yield (
        f"{report['questions']:,} questions over {haystacks['turns']:,} turns in {haystacks['count']:,} "
        f"{'haystack' if haystacks['count'] == 1 else 'haystacks'} (the smallest has {haystacks['smallest']:,})."
    )
    yield "\n".join(
        [
            *(f"- Left out: {n:,} questions ({reason})." for reason, n in report["left_out"].items()),
            *(f"- {line}." for line in (*report["notes"], *shortfalls(report["rows"]))),
            *(f"- **Note:** {line}." for line in report["warnings"]),
        ]
    )
    rows = report["rows"]
    plain = ("mrr", *(f"pack@{budget}" for budget in BUDGETS if f"pack@{budget}" not in _MAIN))
    yield _table(
        ["row", *_MAIN, *plain, "skipped", "p50", "p95"],
        [
            [
                way,
                *(f"{_figure(row[name])} {_interval(row['ci'][name])}" for name in _MAIN),
                *(_figure(row[name]) for name in plain),
                str(row["skipped"]),
                f"{row['p50']:.1f}",
                f"{row['p95']:.1f}",
            ]
            for way, row in rows.items()
        ],
    )
    names = [f"{metric}@{k}" for metric in ("any", "rec", "all") for k in KS]
    yield _table(["row", *names], [[way, *(_figure(row[name]) for name in names)] for way, row in rows.items()])


def _kinds(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        [label, kind, f"{one['questions']:,}", _figure(one["any@10"]), f"{_figure(one['rec@10'])} {_bracket(one)}"]
        for label, report in reports.items()
        for kind, one in report["kinds"].items()
    ]
    if rows:
        yield "## By kind of question"
        yield "The default profile, by the kinds the sets' authors give."
        yield _table(["set", "kind", "questions", "any@10", "rec@10"], rows)


def _pooled(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = []
    for label, report in reports.items():
        for way, row in report["rows"].items():
            if (pooled := report["rows"].get(f"{way} pooled")) is not None:
                shown = [f"{_figure(one[name])}" for name in ("rec@10", "mrr", "pack@1000") for one in (row, pooled)]
                rows.append([label, way, *shown])
    if rows:
        yield "## All haystacks in one"
        yield "The same store and questions without the project filter: every haystack of the set is searched at once."
        names = [f"{name}, {how}" for name in ("rec@10", "mrr", "pack@1000") for how in ("own", "pooled")]
        yield _table(["set", "row", *names], rows)


def _profiles(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for report in reports.values() for name in report["asked"]["profiles"]))
    if len(names) > 1:
        yield "## Profiles"
        yield "recall@10, and in brackets the share of the gold inside a pack of 1,000 tokens."
        yield _table(
            ["set", *names],
            [
                [label, *(f"{_figure(row['rec@10'])} ({_figure(row['pack@1000'])})" if row else "" for row in own)]
                for label, report in reports.items()
                for own in [[report["rows"].get(name) for name in names]]
            ],
        )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _interval(ends: Sequence[float]) -> str:
    return f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def _bracket(row: Mapping[str, float]) -> str:
    return _interval((row["low"], row["high"]))


def _listed(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
