"""Bytes and milliseconds of the page in Chromium: `python -m tests.support.bench.page [--store STORE] [--text TEXT]`.

Without a store, it is the one of the pictures (`tests.support.served_page`). Bytes are those that the server sends,
compressed as for a browser. A first paint is the browser's own measure (first contentful paint), each in a context with
an empty cache. From a letter to its answer: the time of the key event until the frame after the answer to this letter,
or to a later one, is in the page; letters come at a fixed rate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import quote

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, expect

from query.rest import PAGE
from tests.support.served_page import make_store, running_chromium, serving_store

ROUNDS: Final = 7
SHOWN: Final = """new Promise((done) => {
  const look = () => {
    if (document.querySelector('.home-grid, .result')) done(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
"""An expression for the time of the first frame that has the view's content."""
RATE: Final = 8
"""Letters a second."""
TEXT: Final = "why did webhooks arrive twice on sunday?"
WATCH: Final = """() => {
  window.typed = []; window.asked = [];
  const send = window.fetch;
  window.fetch = async (path, options) => {
    if (path !== '/v1/recall') return send(path, options);
    const ask = { q: JSON.parse(options.body).query, from: performance.now() };
    const response = await send(path, options);
    ask.copy = response.clone().json().then((answer) => { ask.server = answer.ms.total });
    ask.to = performance.now();
    window.asked.push(ask);
    return response;
  };
  addEventListener('keydown', (event) => { window.pressed = event.timeStamp }, true);
  addEventListener('input', (event) => window.typed.push({ q: event.target.value.trim(), at: window.pressed }), true);
  new MutationObserver((changes) => {
    const ask = window.asked.at(-1);
    if (!ask || ask.built || !changes.some(({ target }) => target.classList.contains('main-column'))) return;
    ask.built = performance.now();
    requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { ask.painted = performance.now() }; port2.postMessage(0) });
  }).observe(document, { subtree: true, childList: true });
}"""
"""A script that notes letters, questions, and when each answer is in the page and painted."""


def count_bytes(url: str) -> tuple[int, int]:
    """Return the bytes of all files of the page, as stored and as sent."""
    files = [path for path in PAGE.rglob("*") if path.suffix in {".html", ".css", ".js", ".svg"}]
    sent = 0
    with httpx.Client(base_url=url, headers={"accept-encoding": "gzip"}) as client:
        for path in files:
            place = "/" if path.name == "index.html" else f"/page/{path.relative_to(PAGE)}"
            with client.stream("GET", place) as response:
                response.raise_for_status()
                sent += sum(map(len, response.iter_raw()))
    return sum(path.stat().st_size for path in files), sent


def open_view(browser: Browser, url: str, hash_: str) -> dict[str, float]:
    """Open a view with an empty cache; return the bytes of its files and of its data, and the milliseconds to paint."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    paths: dict[str, str] = {}
    sent = {"files": 0.0, "data": 0.0}

    def note(event: dict[str, Any]) -> None:
        sent["data" if "/v1/" in paths[event["requestId"]] else "files"] += event["encodedDataLength"]

    session.on("Network.requestWillBeSent", lambda event: paths.update({event["requestId"]: event["request"]["url"]}))
    session.on("Network.loadingFinished", note)
    page.goto(f"{url}/{hash_}")
    content = page.evaluate(SHOWN)
    page.wait_for_load_state("networkidle")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    context.close()
    return {**sent, "paint": paint, "content": content}


def type_letters(browser: Browser, url: str, text: str) -> dict[str, list[float]]:
    """Type a question; return milliseconds from each letter to its answer, and those of their parts for each answer."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(f"({WATCH})()")
    page.goto(f"{url}/#/ask?q=a")  # the encoder is warm, and so are the view's scripts
    expect(page.locator(".result").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.locator("#q").fill("")
    page.wait_for_timeout(500)
    page.evaluate("window.typed = []; window.asked = []")
    began = time.monotonic()
    for number, letter in enumerate(text):
        time.sleep(max(0, began + number / RATE - time.monotonic()))
        page.keyboard.press("Space" if letter == " " else letter)
    page.wait_for_timeout(1500)
    found = _match(page)
    context.close()
    return found


def _match(page: Page) -> dict[str, list[float]]:
    """Match letters with answers: the first painted one that has the letter."""
    typed, asked = page.evaluate("Promise.all(asked.map((one) => one.copy)).then(() => [typed, asked])")
    answers = [one for one in asked if "painted" in one]
    letters = [one for i, one in enumerate(typed) if i == 0 or one["q"] != typed[i - 1]["q"]]  # a space asks nothing
    waits = []
    for letter in letters:
        later = [one for one in answers if one["from"] >= letter["at"] and one["q"].startswith(letter["q"])]
        assert later, f"no answer to {letter['q']!r}"
        waits.append(later[0]["painted"] - letter["at"])
    return {
        "letter to answer": waits,
        "request": [one["to"] - one["from"] for one in answers],
        "of it recall": [one["server"] for one in answers],
        "script": [one["built"] - one["to"] for one in answers],
        "frame": [one["painted"] - one["built"] for one in answers],
    }


def main() -> None:
    """Print bytes and milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, metavar="STORE", help="another store than that of the pictures")
    parser.add_argument("--text", default=TEXT, help="the letters that are typed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or make_store(Path(folder))
        with serving_store(store) as url, running_chromium() as browser:
            stored, sent = count_bytes(url)
            print(f"{os.cpu_count()} cores, {browser.version}; all files: {stored:,} bytes, sent as {sent:,}")
            for name, hash_ in {"home": "#/home", "an answer": f"#/ask?q={quote(options.text)}"}.items():
                open_view(browser, url, hash_)
                rounds = [open_view(browser, url, hash_) for _ in range(ROUNDS)]
                middle = {key: median(one[key] for one in rounds) for key in rounds[0]}
                print(f"{name}: {middle['files']:,.0f} bytes of files, {middle['data']:,.0f} of data; "
                      f"first paint {middle['paint']:.0f} ms, content {middle['content']:.0f} ms")  # fmt: skip
            for part, times in type_letters(browser, url, options.text).items():
                print(
                    f"{part}: median {median(times):.0f} ms, p95 {np.percentile(times, 95):.0f} ms, {len(times)} times"
                )


if __name__ == "__main__":
    main()
