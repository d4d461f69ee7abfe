"""Every view: accessible in light and dark, on a phone, on paper, without movement; its address restores it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.support.browser import OpenTab, Tab, field, make_hash, open_reasons, press, settle
from tests.support.page_store import BUILDKITE, NOW, QUESTION, find_item

VIEWS = {
    "home": "#/home",
    "answer": make_hash("ask", q=QUESTION, now=NOW),
    "hints": make_hash("ask", q="What did Ana decide for ledgerline last week?", now=NOW, project="ledgerline"),
    "code": make_hash("ask", q="how does the gauge work", project="gauges"),
    "empty": "#/ask",
    "skipped": make_hash("ask", q="what is 17*23"),
    "nothing": make_hash("ask", q="zzqx blorp frobnicate"),
    "session": make_hash("session", session="aaaa0002"),
    "turn": f"#/item/{find_item('t5')}",
    "sessions": "#/sessions",
    "decisions": "#/decisions",
    "subject": make_hash("subject", name="Zoe"),
    "past": make_hash("subject", name="CI", as_of="2026-02-01"),
    "people": "#/people",
    "files": "#/files",
    "graph": "#/graph",
    "neighbours": make_hash("graph", item=find_item("t6")),
    "compare": make_hash("compare", q="database is locked", now=NOW),
    "status": "#/status",
}


def open_everything(page: Page) -> None:
    """Open what can be opened: details, the reasons of an item, the slider."""
    for more in page.locator("main details:not(.menu):visible > summary").all():
        more.click()
    if page.locator("[data-why]:visible").count():
        page.locator("[data-why]:visible").first.click()
    if page.locator("main .menu:visible > summary").count():
        page.locator("main .menu:visible > summary").first.click()
    settle(page)


def find_violations(page: Page, **options: Any) -> list[tuple[str, list[str]]]:
    """Return what axe finds, of any weight."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_in_light_and_dark_and_fits_a_phone(open_tab: OpenTab, view: str) -> None:
    """In the dark only colours are other ones."""
    page = open_tab(color_scheme="light", bypass_csp=True).open(VIEWS[view])
    if view in ("answer", "hints", "code"):
        expect(page.get_by_role("complementary").locator(".turn").first).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 740})
    assert settle(page).evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 1400, "height": 900})
    open_everything(page)
    assert find_violations(page) == []
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert find_violations(page, runOnly=["color-contrast"]) == []


def test_the_dialogs_are_accessible(open_tab: OpenTab) -> None:
    page = open_tab(color_scheme="light", bypass_csp=True).open(VIEWS["session"])
    for keys, name in ((["?"], "Keys"), (["Control+k"], "Go to")):
        press(page, *keys)
        expect(page.get_by_role("dialog", name=name)).to_be_visible()
        assert find_violations(page) == []
        page.keyboard.press("Escape")
    for label, name in (("Correct …", "Correct this item"), ("Forget …", "Forget this item?")):
        page.locator("#session .menu:visible > summary").first.click()
        page.get_by_role("button", name=label, exact=True).click()
        expect(page.get_by_role("dialog", name=name)).to_be_visible()
        assert find_violations(page) == []
        page.keyboard.press("Escape")
    press(page, "m")
    expect(page.get_by_role("slider", name="As of")).to_be_visible()
    assert find_violations(page) == []


def test_the_address_restores_a_view(tab: Tab) -> None:
    question = {"q": "Priya", "project": "holidays", "speaker": "Ana", "k": 4, "budget": 300, "entities": "Goa"}
    page = tab.open(make_hash("ask", **question, current_only="true"))
    cards = page.locator(".result")
    expect(cards).to_have_count(4)
    page.locator(".filters > summary").click()
    said = {name: field(page, name).input_value() for name in ("Project", "Speaker", "Budget", "Entities")}
    assert said == {"Project": "holidays", "Speaker": "Ana", "Budget": "300", "Entities": "Goa"}
    expect(field(page, "only current facts")).to_be_checked()
    assert {*cards.locator(".who").all_inner_texts()} == {"Ana"}
    texts = cards.locator(".excerpt").all_inner_texts()
    asked = tab.list_questions()[-1]
    page.reload()
    assert settle(page).locator(".result .excerpt").all_inner_texts() == texts
    assert tab.list_questions()[-1] == asked
    page.get_by_role("link", name="Decisions", exact=True).click()
    expect(page.get_by_role("heading", name="Decisions")).to_be_focused()
    assert page.title() == "Decisions · Helix"
    page.get_by_role("link", name="Answer", exact=True).click()  # the last question, not a new one
    assert settle(page).locator(".result .excerpt").all_inner_texts() == texts
    assert page.title() == "Priya · Answer · Helix"
    page.go_back()
    page.go_back()
    assert settle(page).locator(".result .excerpt").all_inner_texts() == texts
    expect(page.locator("#q")).to_have_value("Priya")


def test_the_layout_does_not_shift_while_loading(tab: Tab) -> None:
    tab.page.add_init_script(
        """window.shift = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())
             if (!one.hadRecentInput) window.shift += one.value }).observe({ type: 'layout-shift', buffered: true })"""
    )

    def delay(route: Route) -> None:  # what is there is painted first
        time.sleep(0.1)
        route.continue_()

    tab.page.route("**/v1/*", delay)
    for view in ("home", "answer", "session", "sessions", "decisions"):
        tab.page.goto("about:blank")
        assert tab.open(VIEWS[view]).evaluate("window.shift") < 0.02, view


def test_print_shows_the_answer_and_the_session(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="why Buildkite for CI", now=NOW))
    open_reasons(page)
    page.locator("[data-why]").first.click()
    page.emulate_media(media="print")
    expect(page.locator(".result").first).to_be_visible()
    expect(page.locator(".result").first).to_contain_text(BUILDKITE)
    expect(page.locator("#rank-1 .why .shares").first).to_be_visible()
    expect(page.get_by_role("region", name="The packed context")).to_be_visible()
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.locator("header.bar")).to_be_hidden()
    page.emulate_media(media="screen")
    page = tab.open(make_hash("session", session="aaaa0002"))
    page.locator("#session details.fold > summary").first.click()
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("#session .turn .text").first).to_be_visible()
    expect(page.locator("#session .output").first).to_be_visible()
    for place in page.locator("#session .output:visible, #session .scroller:visible").all():
        assert place.evaluate("one => one.scrollHeight - one.clientHeight") <= 1  # nothing to scroll on paper


def test_nothing_moves_for_those_who_ask_for_no_motion(open_tab: OpenTab) -> None:
    waits: list[Route] = []
    for motion, moving in (("reduce", 0), ("no-preference", 1)):
        tab = open_tab(reduced_motion=motion)
        page = tab.page
        page.route("**/v1/home", lambda route: waits.append(route))
        page.goto(f"{tab.url}/#/home")
        expect(page.locator("#home .bone").first).to_be_visible()
        running = page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length")
        assert min(running, 1) == moving
        for route in waits:
            route.continue_()
        waits.clear()
        expect(page.get_by_text("What do you want to know?")).to_be_visible()
        assert page.evaluate("document.getAnimations().length") == 0
