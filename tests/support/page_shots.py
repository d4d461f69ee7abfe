"""Pictures of every view of the page: `python -m tests.support.page_shots OUT [--views home,answer] [--widths 390]`.

It serves a store of the sample and of some logs, and writes OUT/VIEW-WIDTH-THEME.png with Chromium, and
OUT/firefox-VIEW-WIDTH-THEME.png with Firefox where one is installed. The browser's clock has one time, and with
Chromium all stages of an answer take as long, so that pictures differ only where the page does. `--docs` writes the
choice of docs/page/ as small WebP files instead.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from PIL import Image
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from helix.settings import load
from pipelines.embedded.ingest import ingest
from tests.support.firefox import FirefoxTab, find_firefox, running_firefox
from tests.support.paths import ROOT
from tests.support.served_page import make_store, running_chromium, serving_store

NOW: Final = "2026-05-14T09:00:00Z"
HEIGHTS: Final = {390: 844, 768: 1024, 1280: 800, 1920: 1080}
THEMES: Final = ("light", "dark")
ASKED: Final = f"now={NOW}&q=why+did+webhooks+arrive+twice"
AGENT: Final = "session=5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"
MOST_BYTES: Final = 60_000
COLOURS: Final = (160, 64, 32, 16, 8)


class Shot(NamedTuple):
    """A view: its name, its address, and the steps to it, each `press KEY`, `click SELECTOR` or `type TEXT`."""

    name: str
    hash: str
    steps: tuple[str, ...] = ()
    store: str = "full"


SHOTS: Final = (
    Shot("home", "#/home"),
    Shot("answer", f"#/ask?{ASKED}"),
    Shot("answer-nothing", f"#/ask?now={NOW}&q=what+is+the+boiling+point+of+tungsten"),
    Shot("answer-why", f"#/ask?{ASKED}", ("press j", "press w")),
    Shot("answer-how", f"#/ask?{ASKED}", ("click #how > summary",)),
    Shot("answer-filtered", f"#/ask?now={NOW}&q=timeout&project=ledgerline&type=decision"),
    Shot("session-agent", f"#/session?{AGENT}"),
    Shot("session-folds", f"#/session?{AGENT}", ("click .fold > summary",)),
    Shot("session-chat", "#/session?session=c3"),
    Shot("sessions", "#/sessions"),
    Shot("decisions", "#/decisions"),
    Shot("subject", "#/subject?name=Redis"),
    Shot("people", "#/people"),
    Shot("files", "#/files"),
    Shot("graph", "#/graph"),
    Shot("graph-item", "#/session?session=c3", ("click .turn .menu > summary", "click .turn .menu[open] a")),
    Shot("compare", "#/compare?q=why+did+webhooks+arrive+twice"),
    Shot("status", "#/status"),
    Shot("moment", "#/home", ("press m",)),
    Shot("palette", "#/home", ("press Control+k", "type led")),
    Shot("keys", "#/home", ("press ?",)),
    Shot("menu", f"#/ask?{ASKED}", ("press j", "press x")),
    Shot("forget", "#/session?session=c3", ("click .turn .menu > summary", "click .menu-items .bad")),
    Shot("empty", "#/home", store="empty"),
    Shot("error", "#/session?session=of-nothing"),
    Shot("offline", "#/home", ("offline", "click a[data-to=people]")),
)
DOCUMENTED: Final = (
    *((shot.name, 1280, "light") for shot in SHOTS),
    *((name, 1280, "dark") for name in ("home", "answer", "session-agent", "decisions", "graph")),
    *((name, width, "light") for name in ("home", "answer", "session-agent") for width in (390, 1920)),
)
"""The view, width and theme of each picture in docs/page/."""


@contextlib.contextmanager
def serving_stores(folder: Path) -> Iterator[dict[str, str]]:
    """Serve the store of the pictures and one without items; yield their addresses."""
    (folder / "none").mkdir()
    ingest(folder / "nothing", [folder / "none"], load())
    with serving_store(make_store(folder)) as full, serving_store(folder / "nothing") as empty:
        yield {"full": full, "empty": empty}


def draw_chromium(browser: Browser, urls: dict[str, str], shot: Shot, width: int, theme: str) -> bytes:
    """Draw a view with Chromium; return a PNG file."""
    scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
    size: ViewportSize = {"width": width, "height": HEIGHTS[width]}
    is_phone = width < 700  # without the room that a window leaves for a scrollbar
    context = browser.new_context(
        color_scheme=scheme, reduced_motion="reduce", viewport=size, is_mobile=is_phone, has_touch=is_phone
    )
    page = context.new_page()
    page.route("**/v1/recall", lambda route: _change(route, _even_out))
    page.route("**/v1/status", lambda route: _change(route, _hide_machine))
    page.clock.set_fixed_time(datetime.fromisoformat(NOW).astimezone(UTC))
    page.goto(f"{urls[shot.store]}/{shot.hash}")
    _settle(page)
    for step in shot.steps:
        _take_step(page, step)
    picture = page.screenshot(animations="disabled", caret="hide")
    context.close()
    return picture


def _change(route: Route, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer a request with the server's answer, changed."""
    response = route.fetch()
    route.fulfill(response=response, json=change(response.json()) if response.ok else response.json())


def _even_out(answer: dict[str, Any]) -> dict[str, Any]:
    """Give every stage of an answer the same milliseconds."""
    answer["ms"] = {**dict.fromkeys(answer["ms"], 2.0), "total": 12.0}
    for stage in answer["trace"].get("stages", ()):
        stage["ms"] = 2.0
    spans = answer["trace"].get("spans", ())
    for number, span in enumerate(spans):
        span.update(at=12.0 * number / len(spans), ms=12.0 / len(spans))
    return answer


def _hide_machine(status: dict[str, Any]) -> dict[str, Any]:
    """Give a status the folder and the time of an example."""
    return {**status, "store": "/home/ana/memory", "published": NOW}


def _settle(page: Page) -> None:
    """Wait until the view, and what comes after it when nothing else does, is shown."""
    page.wait_for_load_state("networkidle")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.wait_for_timeout(250)


def _take_step(page: Page, step: str) -> None:
    verb, _, what = step.partition(" ")
    if verb == "press":
        page.keyboard.press(what)
    elif verb == "type":
        page.keyboard.type(what)
    elif verb == "click":
        page.locator(what).locator("visible=true").first.click()
    else:
        page.route("**/v1/**", lambda route: route.abort())
        page.route("**/healthz", lambda route: route.abort())
    _settle(page)


def draw_firefox(urls: dict[str, str], shots: Iterable[Shot], widths: Iterable[int], theme: str, out: Path) -> None:
    """Write pictures of Firefox to OUT/firefox-VIEW-WIDTH-THEME.png."""
    binary = find_firefox()
    assert binary, "no Firefox: run `make firefox`, or name one in FIREFOX"
    with running_firefox(binary, dark=theme == "dark") as tab:
        tab.run_first(f"() => {{ Date.now = () => {datetime.fromisoformat(NOW).timestamp() * 1000:.0f} }}")
        for width in widths:
            tab.resize(width, HEIGHTS[width])
            for shot in shots:
                tab.base = urls[shot.store]
                tab.open(shot.hash)
                for step in ("", *shot.steps):
                    _take_firefox_step(tab, step)
                    tab.evaluate("new Promise((done) => setTimeout(done, 400))")
                tab.save_picture(out / f"firefox-{shot.name}-{width}-{theme}.png")


def _take_firefox_step(tab: FirefoxTab, step: str) -> None:
    verb, _, what = step.partition(" ")
    if verb == "click":
        tab.click(what)
    elif verb == "offline":
        tab.evaluate("(window.fetch = () => Promise.reject(new TypeError('offline')), true)")
    elif verb:
        tab.press(*(what if verb == "type" else [what]))


def shrink(picture: bytes, path: Path) -> None:
    """Write a PNG file as lossless WebP of at most MOST_BYTES, with the most frequent of its colours."""
    drawn = Image.open(io.BytesIO(picture)).convert("RGB")
    pixels = drawn.tobytes()
    counted = Counter(zip(pixels[::3], pixels[1::3], pixels[2::3], strict=True))
    for number in COLOURS:
        palette = Image.new("P", (1, 1))
        palette.putpalette(bytes(chain.from_iterable(colour for colour, _ in counted.most_common(number))))
        few = drawn.quantize(palette=palette, dither=Image.Dither.NONE)
        few.convert("RGB").save(path, "WEBP", lossless=True, quality=80, method=4)
        if path.stat().st_size <= MOST_BYTES:
            return
    raise AssertionError(f"{path.name} has {path.stat().st_size:,} bytes with {number} colours")


def main() -> None:
    """Draw the pictures that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", type=Path, nargs="?", metavar="OUT", help="folder of the pictures; docs/page with --docs")
    add("--views", default=",".join(shot.name for shot in SHOTS), help="names of views, with commas")
    add("--widths", default=",".join(map(str, HEIGHTS)), help="of 390, 768, 1280, 1920")
    add("--themes", default=",".join(THEMES), help="light, dark or both")
    add("--docs", action="store_true", help="only the choice of docs/page/, as WebP")
    add("--browsers", default="chromium,firefox", help="chromium, firefox or both")
    options = parser.parse_args()
    shots = {shot.name: shot for shot in SHOTS}
    out: Path = options.out or ROOT / "docs" / "page"
    out.mkdir(parents=True, exist_ok=True)
    names, widths = options.views.split(","), [int(width) for width in options.widths.split(",")]
    themes = options.themes.split(",")
    wanted = (
        DOCUMENTED if options.docs else [(name, width, theme) for name in names for width in widths for theme in themes]
    )
    with tempfile.TemporaryDirectory() as folder, serving_stores(Path(folder)) as urls:
        with running_chromium() as browser:
            for name, width, theme in wanted if "chromium" in options.browsers else ():
                picture = draw_chromium(browser, urls, shots[name], width, theme)
                path = out / f"{name}-{width}-{theme}"
                if options.docs:
                    shrink(picture, path.with_suffix(".webp"))
                else:
                    path.with_suffix(".png").write_bytes(picture)
        if not options.docs and "firefox" in options.browsers and find_firefox():
            for theme in themes:
                draw_firefox(urls, [shots[name] for name in names], widths, theme, out)


if __name__ == "__main__":
    main()
