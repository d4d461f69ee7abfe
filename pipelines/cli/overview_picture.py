"""The picture of docs/start.md: the way from logs over a snapshot to an agent's context, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 560
HEIGHT: Final = 374
_BOX: Final = (216, 120)  # width and height
_STYLE: Final = """<style>
.page { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e } .label { fill: #00587f }
.box { fill: #f1f6f9; stroke: #0072b2 } .way { stroke: #0072b2; fill: none } .tip { fill: #0072b2 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .ink { fill: #e6edf3 } .dim { fill: #a7b0ba } .label { fill: #8fd0f7 }
.box { fill: #16212b; stroke: #56b4e9 } .way { stroke: #56b4e9 } .tip { fill: #56b4e9 } }
</style>"""


class Box(NamedTuple):
    """A box of the picture: the place of its upper left corner, its title and its lines."""

    x: int
    y: int
    title: str
    lines: tuple[str, ...]


BOXES: Final = (
    Box(16, 16, "Logs", ("of your coding agents;", "exports of chats,", "captions, notes")),
    Box(328, 16, "Snapshot", ("items, vectors, facts,", "links: immutable files", "on your disk")),
    Box(328, 238, "Recall", ("by words, meaning, time", "and graph; no language", "model; milliseconds")),
    Box(16, 238, "Agent", ("gets the original words", "that help, within a", "budget of tokens")),
)
"""The four states in the order of the way."""


class Arrow(NamedTuple):
    """An arrow between two boxes, with its label at a place of its own."""

    start: tuple[int, int]
    end: tuple[int, int]
    label: str
    at: tuple[int, int]
    anchor: str


ARROWS: Final = (
    Arrow((232, 76), (326, 76), "ingest", (279, 66), "middle"),
    Arrow((436, 136), (436, 236), "a question", (446, 192), "start"),
    Arrow((328, 298), (234, 298), "context", (281, 288), "middle"),
    Arrow((124, 238), (124, 138), "writes new logs", (134, 192), "start"),
)


def draw_overview() -> str:
    """Return the picture as SVG."""
    words = "Logs are ingested into a snapshot; a recall gives an agent what helps; the agent writes new logs"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' "
        "role='img' font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif' font-size='15'>",
        f"<title>{escape(words)}</title>",
        _STYLE,
        f"<rect class='page' width='{WIDTH}' height='{HEIGHT}' rx='8'/>",
        *(part for box in BOXES for part in _draw_box(box)),
        *(part for arrow in ARROWS for part in _draw_arrow(arrow)),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _draw_box(box: Box) -> Iterator[str]:
    width, height = _BOX
    yield f"<rect class='box' x='{box.x}' y='{box.y}' width='{width}' height='{height}' rx='8' stroke-width='1.5'/>"
    place = f"x='{box.x + 16}' y='{box.y + 34}'"
    yield f"<text class='ink' {place} font-size='18' font-weight='600'>{escape(box.title)}</text>"
    for i, line in enumerate(box.lines):
        yield f"<text class='dim' x='{box.x + 16}' y='{box.y + 60 + 20 * i}'>{escape(line)}</text>"


def _draw_arrow(arrow: Arrow) -> Iterator[str]:
    """Draw a line with a tip; arrows are level or upright."""
    (x, y), (to_x, to_y) = arrow.start, arrow.end
    across, down = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back_x, back_y = to_x - 9 * across, to_y - 9 * down
    corners = f"{to_x},{to_y} {back_x + 5 * down},{back_y + 5 * across} {back_x - 5 * down},{back_y - 5 * across}"
    yield f"<line class='way' x1='{x}' y1='{y}' x2='{back_x}' y2='{back_y}' stroke-width='2'/>"
    yield f"<polygon class='tip' points='{corners}'/>"
    place = f"x='{arrow.at[0]}' y='{arrow.at[1]}' text-anchor='{arrow.anchor}'"
    yield f"<text class='label' {place}>{escape(arrow.label)}</text>"
