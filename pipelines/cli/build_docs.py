"""The generated parts of the documentation, written by `python -m pipelines.cli.build_docs`.

The table of docs/reference/configuration.md comes from the settings, docs/reference/commands.md from the parsers,
docs/recall.svg from a recall of the bundled sample, docs/overview.svg from `pipelines/cli/overview_picture.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.settings import Settings, load
from helix.types import Bundle, Item
from pipelines.cli.command_page import render_commands
from pipelines.cli.overview_picture import draw_overview

QUESTION: Final = "What did I tell Priya about vacation?"
NOW: Final = "2026-05-20"
"""The date of the picture's recall, some days after the sample ends."""

BEGIN, END = "<!-- settings: python -m pipelines.cli.build_docs -->\n", "<!-- end of settings -->\n"


def main(argv: Sequence[str]) -> int:
    """Write all of them in a checkout, by default the current folder."""
    root = Path(argv[0] if argv else ".")
    page = root / "docs" / "reference" / "configuration.md"
    page.write_text(replace_settings(page.read_text("utf-8")), "utf-8")
    (root / "docs" / "reference" / "commands.md").write_text(render_commands(), "utf-8")
    (root / "docs" / "overview.svg").write_text(draw_overview(), "utf-8")
    (root / "docs" / "recall.svg").write_text(picture(QUESTION, ask_sample()), "utf-8")
    return 0


# ---------------------------------------------------------------- settings


def replace_settings(page: str) -> str:
    """Return the page with a new table.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table; put {BEGIN!r} and {END!r} into it")
    return f"{before}{begin}{render_settings()}{end}{after}"


def render_settings() -> str:
    """Return the settings as a Markdown table: name, variable, default, unit, meaning, source."""
    rows = [("setting", "variable", "default", "unit", "meaning", "source"), ("---",) * 6]
    for setting in fields(Settings):
        default = str(setting.default).replace(str(Path.home()), "~", 1)
        described = [setting.metadata[key] for key in ("unit", "meaning", "source")]
        variable = f"`HELIX_{setting.name.upper()}`"
        rows.append((f"`{setting.name}`", variable, f"`{default}`" if default else "empty", *described))
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


# ---------------------------------------------------------------- the picture of a recall


def ask_sample() -> Bundle:
    """Return an explained recall of the bundled sample: of several, the one of median time."""
    from helix.sdk.memory import Memory
    from pipelines.embedded.ingest import ingest

    settings = load()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "sample"
        ingest(root, [Path(str(files("helix") / "sample"))], settings)
        memory = Memory(root, settings)
        found = [memory.recall(QUESTION, now=NOW, explain=True) for _ in range(31)]
    return sorted(found[10:], key=lambda one: one.ms["total"])[10]


WIDTH: Final = 920
_FONT: Final = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif' font-size='13'"
_STYLE: Final = """<style>
.page { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e } .rule { stroke: #d1d9e0 } .bar { fill: #0072b2 }
.words { fill: #08306b } .meaning { fill: #2171b5 } .around { fill: #6baed6 } .who { fill: #b3d2e8 }
.recency { fill: #e69f00 } .salience { fill: #cc79a7 } .confidence { fill: #009e73 } .graph { fill: #d55e00 }
.reading { fill: #b58900 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .ink { fill: #e6edf3 } .dim { fill: #9198a1 } .rule { stroke: #3d444d } .bar { fill: #56b4e9 }
.words { fill: #deebf7 } .meaning { fill: #9ecae1 } .around { fill: #4292c6 } .who { fill: #20568c }
.recency { fill: #f0c350 } .salience { fill: #e19fc4 } .confidence { fill: #2fc79d } .graph { fill: #f08438 }
.reading { fill: #d6b656 } }
</style>"""
"""Colours of Okabe & Ito (2008), which the colour-blind can tell apart; blues of the similarity differ in lightness."""

LEGEND: Final = {
    "words": "its words",
    "meaning": "its vector",
    "around": "its session",
    "who": "who, when, what kind",
    "recency": "recency",
    "salience": "salience",
    "confidence": "confidence",
    "graph": "graph",
    "reading": "now, then or why",
}
"""Parts of a score in the order of a bar: four of the similarity, then the other signals."""

_GROUPS: Final = {
    **dict.fromkeys(("own", "rare", "adjacent", "doc2query", "sparse"), "words"),
    "dense": "meaning",
    **dict.fromkeys(("window", "session", "reply"), "around"),
    "salience": "salience",
}
"""Feature of the similarity → its part; all other features belong to `who`."""

SHOWN: Final = 6
"""Items in the picture."""


def picture(question: str, found: Bundle) -> str:
    """Draw an explained recall as SVG: its stages over time, and the parts of its best items' scores.

    Raises:
        ValueError: the recall was not explained.
    """
    if found.trace is None:
        raise ValueError("this recall was not explained; ask with explain=True")
    rows = _read_stages(found.trace)
    items = list(zip(found.items, found.trace["candidates"], strict=False))[:SHOWN]
    below = 108 + 24 * len(rows)
    height = below + 88 + 46 * len(items)
    took = f"{found.ms['total']:.1f} ms with its explanation"
    summary = f"{len(found.items)} items, {found.tokens} of {found.budget} tokens, {took}"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' {_FONT}>",
        f"<title>{escape(f'The stages of a recall and the parts of its scores: {question}')}</title>",
        _STYLE,
        f"<rect class='page' width='{WIDTH}' height='{height}' rx='8'/>",
        _draw_text(24, 36, f"“{question}”", "ink", "font-size='17' font-weight='600'"),
        _draw_text(24, 58, f"profile {found.profile} · {summary}", "dim"),
        *_draw_stages(rows),
        f"<line class='rule' x1='24' x2='{WIDTH - 24}' y1='{below + 2}' y2='{below + 2}'/>",
        _draw_text(24, below + 26, "the best items, and the parts of their scores", "dim"),
        *_draw_items(items, below + 44),
        *_draw_legend(height - 20),
        "</svg>\n",
    ]
    return "\n".join(parts)


class Stage(NamedTuple):
    """A stage of a recall: its items in and out, and its times in milliseconds."""

    name: str
    passed: str
    spans: list[tuple[float, float]]  # (start, duration)


def _read_stages(trace: Mapping[str, Any]) -> list[Stage]:
    """Return the stages in the order of their start."""
    noted = {one["stage"]: one for one in trace["stages"]}
    found: dict[str, Stage] = {}
    for span in trace["spans"]:
        came, went = (noted.get(span["stage"], {}).get(key, "") for key in ("rows_in", "rows_out"))
        came = " + ".join(map(str, came.values())) if isinstance(came, dict) else came
        stage = Stage(span["stage"], f"{came} → {went}" if came != "" else "", [])
        found.setdefault(stage.name, stage).spans.append((span["at"], span["ms"]))
    return list(found.values())


def _draw_stages(stages: Sequence[Stage]) -> Iterator[str]:
    """Draw a line for each stage: items in and out, and bars of its times."""
    left = 270
    scale = (WIDTH - 24 - 50 - left) / max(at + took for stage in stages for at, took in stage.spans)
    yield _draw_text(24, 88, "stage", "dim")
    yield _draw_text(248, 88, "items in → out", "dim", "text-anchor='end'")
    yield _draw_text(left, 88, "milliseconds", "dim")
    for i, stage in enumerate(stages):
        y = 112 + 24 * i
        yield _draw_text(24, y, stage.name, "ink")
        yield _draw_text(248, y, stage.passed, "dim", "text-anchor='end'")
        for at, took in stage.spans:
            x, width = left + at * scale, max(took * scale, 2)
            yield f"<rect class='bar' x='{x:.1f}' y='{y - 11}' width='{width:.1f}' height='13' rx='2'/>"
        yield _draw_text(x + width + 6, y, f"{sum(took for _, took in stage.spans):.2f}", "dim", "font-size='12'")


def _draw_items(items: Sequence[tuple[Item, Mapping[str, Any]]], top: int) -> Iterator[str]:
    """Draw two lines for each item: score, text and origin, and a bar of the score's parts."""
    left, widest = 270, WIDTH - 24 - 270
    best = max((item.score for item, _ in items), default=1.0)
    for i, (item, candidate) in enumerate(items):
        y = top + 46 * i
        ranks = " · ".join(f"{leg} #{item.why[leg]}" for leg in ("dense", "bm25") if item.why.get(leg))
        who = " · ".join(part for part in ((item.time or "")[:10], item.speaker or "") if part)
        yield _draw_text(24, y + 8, f"{i + 1}", "ink", "font-weight='600'")
        yield _draw_text(44, y + 8, f"{item.score:.3f}", "ink", "font-weight='600'")
        yield _draw_text(92, y + 8, ranks or "by the graph", "dim", "font-size='12'")
        yield _draw_text(left, y + 8, _shorten(item.text), "ink")
        yield _draw_text(WIDTH - 24, y + 8, who, "dim", "font-size='12' text-anchor='end'")
        x = float(left)
        for name, share in score_parts(candidate).items():
            width = share / best * widest
            if width >= 0.5:
                yield f"<rect class='{name}' x='{x:.1f}' y='{y + 15}' width='{width:.1f}' height='9'/>"
            x += width


def score_parts(candidate: Mapping[str, Any]) -> dict[str, float]:
    """Return what each part of LEGEND adds to a candidate's score; the similarity is divided like its features.

    The parts add up to the score unless a later step lowered it.
    """
    shares, features = dict(candidate["shares"]), candidate["parts"]
    alike = shares.pop("sim", 0.0)
    found = {name: shares.get(name, 0.0) for name in LEGEND}
    for name, value in features.items():
        found[_GROUPS.get(name, "who")] += alike * value / sum(features.values())
    return found


def _draw_legend(y: int) -> Iterator[str]:
    x = 24.0
    for name, label in LEGEND.items():
        yield f"<rect class='{name}' x='{x:.0f}' y='{y - 10}' width='11' height='11'/>"
        yield _draw_text(x + 16, y, label, "dim", "font-size='12'")
        x += 44 + 6.6 * len(label)


def _draw_text(x: float, y: float, text: str, kind: str, more: str = "") -> str:
    return f"<text class='{kind}' x='{x:.1f}' y='{y}' {more}>{escape(text)}</text>"


def _shorten(text: str, most: int = 62) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
