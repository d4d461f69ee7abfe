"""Chromium for tests of the page: tabs that note requests and errors, and a few steps that many tests take."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, Route, expect, sync_playwright

OPTIONS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
WAIT = 60_000
"""Milliseconds for anything to appear: long, since other processes may need the machine."""

expect.set_options(timeout=WAIT)


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Start Chromium; skip the test without one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if binary is None:
        pytest.skip("no browser: run `make chromium`, or name one in CHROMIUM")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=binary, args=OPTIONS)
        yield started
        started.close()


class Tab:
    """A browser tab that notes requests, requests to other servers, and errors."""

    def __init__(self, context: BrowserContext, url: str, key: str = "") -> None:
        self.url = url
        self.page: Page = context.new_page()
        self.requests: list[Request] = []
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        if key:
            context.add_init_script(f"sessionStorage.setItem('helix.key', '{key}')")
        context.route(lambda asked: not asked.startswith(f"{url}/"), self._refuse)
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _refuse(self, route: Route) -> None:
        self.foreign.append(route.request.url)
        route.abort()

    def open(self, hash_: str) -> Page:
        """Open a view, and wait until it is shown."""
        self.page.goto(f"{self.url}/{hash_}")
        return settle(self.page)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """Return the server's own answer to a GET."""
        found = httpx.get(f"{self.url}{path}", params=params, headers=self._headers, timeout=60)
        assert found.status_code == 200, found.text
        return dict(found.json())

    def recall(self, **question: Any) -> dict[str, Any]:
        """Return the server's own answer to a question, with its trace."""
        body = {"explain": True, **question}
        found = httpx.post(f"{self.url}/v1/recall", json=body, headers=self._headers, timeout=60)
        assert found.status_code == 200, found.text
        return dict(found.json())

    def list_questions(self) -> list[dict[str, Any]]:
        """Return the bodies of the page's recalls, in order."""
        return [one.post_data_json for one in self.requests if one.url.endswith("/v1/recall")]


OpenTab = Callable[..., Tab]


@contextmanager
def opening_tabs(browser: Browser, url: str) -> Iterator[OpenTab]:
    """Yield a function that opens a tab. Nothing in them may fail, and nothing may be requested from another server.

    `refused`: the server will refuse or drop a request, and the browser's console repeats it. `key`: an API key that
    the tab already has.
    """
    tabs: list[tuple[Tab, BrowserContext, bool]] = []

    def make(base: str = url, *, refused: bool = False, key: str = "", **options: Any) -> Tab:
        context = browser.new_context(**{"reduced_motion": "reduce", "viewport": WIDE, **options})
        context.set_default_timeout(WAIT)
        tab = Tab(context, base, key)
        tabs.append((tab, context, refused))
        return tab

    yield make
    for tab, context, refused in tabs:
        context.close()
        assert not tab.foreign, tab.foreign
        # A request for an item alone counts as an access, and would change the ranking.
        fetched = [one.url for one in tab.requests if one.method == "GET" and re.search(r"/v1/items/[^/]+$", one.url)]
        assert not fetched, fetched
        errors = [line for line in tab.errors if not (refused and line.startswith("Failed to load resource"))]
        assert not errors, errors


WIDE: Any = {"width": 1400, "height": 900}
"""A window with room for the pane."""


def settle(page: Page) -> Page:
    """Wait until the view is shown; the event of a new address comes a little later than its cause."""
    page.evaluate("new Promise((done) => setTimeout(done, 30))")
    expect(page.locator("[aria-busy=true]:visible, .skeleton:visible")).to_have_count(0)
    return page


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other, then wait until the view is shown."""
    for key in keys:
        page.keyboard.press(key)
    settle(page)


def click(target: Locator) -> None:
    """Click, then wait until the view is shown."""
    target.click()
    settle(target.page)


def make_hash(view: str, **params: Any) -> str:
    """Return the address of a view."""
    return f"#/{view}?{urlencode(params)}"


def field(page: Page, name: str) -> Locator:
    """Return a field of the shown view."""
    return page.get_by_label(name).and_(page.locator("input:visible, select:visible, textarea:visible"))


def get_focused(page: Page) -> Locator:
    """Return the focused element."""
    return page.locator(":focus")


def type_question(page: Page, text: str) -> None:
    """Type a question in place of the one in the field, a letter at a time."""
    page.locator("#q").focus()
    page.locator("#q").press("Control+a")
    page.keyboard.type(text)


def open_reasons(page: Page) -> Locator:
    """Open the explanation of an answer."""
    page.locator("#how > summary").click()
    expect(page.get_by_role("region", name="Stages")).to_be_visible()
    return page.locator("#how")
