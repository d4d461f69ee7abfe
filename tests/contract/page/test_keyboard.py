"""The page by keyboard alone, and by what assistive technology sees; the palette, the keys, the theme."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from helix.settings import load
from tests.conftest import copy_store
from tests.support.browser import OpenTab, Tab, click, get_focused, make_hash, press, settle
from tests.support.page_store import BUILDKITE, NOW, QUESTION, find_item
from tests.support.serving import serving

VIEWS = {
    "h": "Home", "s": "Sessions", "d": "Decisions", "p": "People", "f": "Files", "g": "Graph",
    "c": "Compare two profiles", "t": "Status", "a": "Answer",
}  # fmt: skip


def test_the_page_works_by_keyboard_alone(tab: Tab) -> None:
    page = tab.open("#/ask")
    keys = page.keyboard
    keys.press("Tab")
    expect(get_focused(page)).to_have_text("Skip to the content")
    keys.press("Enter")
    expect(page.locator("main")).to_be_focused()
    keys.press("/")
    keys.type(QUESTION)  # the j of no word moves anything, nor does its ?
    expect(page.locator("#q")).to_have_value(QUESTION)
    press(page, "Enter")
    press(page, "ArrowDown")
    stops = page.locator(".result .title")
    expect(stops.nth(0)).to_be_focused()
    press(page, "j", "ArrowDown", "k")
    expect(stops.nth(1)).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    why = page.locator("#rank-2 [data-why]")
    keys.press("w")
    expect(why).to_have_attribute("aria-expanded", "true")
    keys.press("Escape")
    expect(why).to_have_attribute("aria-expanded", "false")
    expect(stops.nth(1)).to_be_focused()
    keys.press("x")
    expect(page.locator("#rank-2 .menu-items")).to_be_visible()
    press(page, "Tab", "Escape")
    expect(page.locator("#rank-2 .menu-items")).to_be_hidden()
    stops.nth(1).focus()
    press(page, "o")
    expect(page.locator("#session .turn.here")).to_be_visible()
    press(page, "Escape")
    expect(stops.nth(1)).to_be_focused()
    keys.press("m")
    expect(page.get_by_role("slider", name="As of")).to_be_focused()


def test_two_keys_open_each_view_and_single_keys_can_be_turned_off(tab: Tab) -> None:
    page = tab.open("#/ask")
    for key, view in VIEWS.items():
        press(page, "g", key)
        expect(page.get_by_role("heading", name=view, exact=True, level=1)).to_be_focused()
        assert page.title() == f"{view} · Helix"
    press(page, "?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_role("row")).to_have_count(11)
    keys.get_by_label("enable single keys").uncheck()
    press(page, "Escape")
    expect(keys).to_be_hidden()
    press(page, "g", "s")
    expect(page.get_by_role("heading", name="Answer", exact=True)).to_be_visible()
    page.reload()
    press(settle(page), "?")
    expect(keys).to_be_hidden()
    press(page, "Control+k")  # not a single key
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    press(page, "Escape")
    page.get_by_role("button", name="Keys").click()
    keys.get_by_label("enable single keys").check()
    keys.get_by_role("button", name="Close").click()
    press(page, "g", "s")
    expect(page.get_by_role("heading", name="Sessions", exact=True)).to_be_focused()


def test_tab_visits_every_element_once_and_leaves(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="Goa", k=2, now=NOW))
    expect(page.get_by_role("complementary").locator(".turn").first).to_be_visible()
    page.locator("#how").evaluate("one => { one.open = true }")
    expect(page.locator("#why-not-id")).to_be_visible()
    seen: list[str] = []
    for _ in range(140):
        page.keyboard.press("Tab")
        place = page.evaluate(
            """() => { const one = document.activeElement, box = one.getBoundingClientRect();
              return one === document.body ? '' : `${one.tagName} ${one.id || one.textContent} ${box.width > 0}` }"""
        )
        if not place and seen:
            break
        seen.append(place)
    else:
        raise AssertionError(f"the focus never leaves: {seen[-3:]}")
    assert len(seen) > 40
    assert not [place for place in seen if place.endswith("false")]
    assert any(place.startswith("INPUT why-not-id") for place in seen)


def test_the_palette_leads_to_views_sessions_people_files_and_questions(tab: Tab) -> None:
    page = tab.open("#/home")
    box, field = page.get_by_role("dialog", name="Go to"), page.get_by_role("combobox", name="Go to")
    options = page.locator("#palette-list").get_by_role("option")
    for typed, label, place in (
        ("tidy", "tidy the docs session", "session=aaaa0003"),
        ("zoe", "Zoe person", "#/subject?name=Zoe"),
        ("store.py", "store.py file", "#/subject?name=store.py"),
        ("dec", "Decisions view", "#/decisions"),
        ("shop", "shop project", "#/sessions?project=shop"),
    ):
        press(page, "Control+k")
        expect(field).to_be_focused()
        field.fill(typed)
        expect(options.first).to_have_text(label)
        expect(options.first).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        expect(box).to_be_hidden()
        assert place in settle(page).url
    page.get_by_role("button", name="Go to").click()
    field.fill("why Buildkite")
    expect(options.last).to_contain_text("why Buildkite")
    for _ in range(options.count()):
        page.keyboard.press("ArrowDown")
    chosen = options.last
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    press(page, "Enter")
    expect(page.locator(".result").first).to_contain_text(BUILDKITE)
    press(page, "Control+k")
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    press(page, "Control+k")
    options.nth(2).click()
    expect(page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()


def test_a_theme_is_stored_and_set_before_the_first_paint(open_tab: OpenTab) -> None:
    page = open_tab(refused=True, color_scheme="light").open("#/decisions")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    dark = page.evaluate(ground)
    assert dark != light

    def refuse(route: Route) -> None:
        route.abort()

    page.route("**/page/main.js", refuse)  # before any module has run
    page.reload()
    assert page.evaluate(ground) == dark
    expect(page.get_by_role("heading", name="Decisions")).to_be_visible()
    assert page.locator("#ask").is_hidden()
    page.unroute("**/page/main.js")
    page.reload()
    page.get_by_role("button", name="Theme: dark").click()
    expect(page.get_by_role("button", name="Theme: system")).to_be_visible()
    assert page.evaluate(ground) == light


# ---------------------------------------------------------------- tasks from begin to end


@pytest.fixture(scope="module")
def task_store(page_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which something is forgotten."""
    return copy_store(page_store, tmp_path_factory.mktemp("tasks") / "store")


@pytest.fixture(scope="module")
def task_url(task_store: Path) -> Iterator[str]:
    with serving(task_store, load()) as client:
        yield str(client.base_url).rstrip("/")


def tab_to(page: Page, name: str | re.Pattern[str], most: int = 120) -> None:
    """Press Tab until an element with this name has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        said = page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
        )
        if re.search(name, said):
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def test_tasks_by_keyboard_alone(open_tab: OpenTab, task_url: str) -> None:
    """Why a decision was made, what it replaced, its session; then an item is forgotten. No pointer is used."""
    page = open_tab(task_url, refused=True).open("#/home")
    keys = page.keyboard
    keys.press("/")
    keys.type("why Buildkite for CI")
    press(page, "Enter")
    press(page, "ArrowDown")
    expect(get_focused(page).locator("xpath=ancestor::li")).to_contain_text("because of the queue times")
    press(page, "Enter")  # its session
    expect(page.locator("#session .turn.here")).to_contain_text(BUILDKITE)
    expect(page.locator("#session .turn")).to_have_count(2)
    press(page, "Escape", "g", "d")
    tab_to(page, "^We switched CI")
    expect(get_focused(page).locator("xpath=ancestor::li")).to_contain_text("before: Jenkins")
    keys.press("/")
    keys.type("too much to run Kafka")
    press(page, "Enter")
    press(page, "ArrowDown")
    expect(get_focused(page).locator("xpath=ancestor::li")).to_have_attribute("data-item", find_item("t7"))
    keys.press("x")
    tab_to(page, "^Forget …$", most=12)
    press(page, "Enter")
    dialog = page.get_by_role("dialog", name="Forget this item?")
    expect(dialog).to_be_visible()
    tab_to(page, "^Forget 1 item$", most=5)
    keys.press("Enter")
    expect(page.get_by_role("dialog", name="Forgotten")).to_be_visible()
    tab_to(page, "^Done$", most=5)
    press(page, "Enter")
    expect(page.locator(".result").first).to_be_visible()
    expect(page.locator(f".result[data-item='{find_item('t7')}']")).to_have_count(0)


def test_tasks_by_the_accessibility_tree(open_tab: OpenTab, task_url: str) -> None:
    """The same, by roles and names only: what a screen reader offers."""
    page = open_tab(task_url, refused=True).open("#/home")
    role = page.get_by_role
    role("searchbox", name="Question").fill("why Buildkite for CI")
    first = role("list", name="Items, best first").get_by_role("listitem").first
    expect(first).to_contain_text("because of the queue times")
    first.get_by_role("heading", level=3).get_by_role("link").click()
    expect(role("list", name="Turns")).to_contain_text(BUILDKITE)
    role("navigation", name="Views").get_by_role("link", name="Decisions").click()
    decision = role("region", name="Decisions").get_by_role("listitem").filter(has_text=BUILDKITE)
    expect(decision).to_contain_text("before: Jenkins")
    role("search", name="Find a subject").get_by_label("Subject").fill("Jenkins")
    role("search", name="Find a subject").get_by_role("button", name="Show").click()
    expect(role("heading", level=1, name="Jenkins")).to_be_visible()
    spans = role("region", name="Jenkins").get_by_role("listitem")
    expect(spans.filter(has_text="no longer holds, from 2026-01-12")).to_contain_text("until 2026-03-15")
    role("link", name="We use Jenkins for CI.").first.click()
    turn = role("list", name="Turns").get_by_role("listitem").filter(has_text="We use Jenkins for CI.")
    expect(turn).to_contain_text("Replaced")
    expect(turn).to_contain_text(BUILDKITE)
    turn.get_by_label("Actions").click()
    turn.get_by_role("button", name="Forget …", exact=True).click()
    dialog = role("dialog", name="Forget this item?")
    expect(dialog.get_by_role("listitem")).to_contain_text("We use Jenkins for CI.")
    dialog.get_by_role("button", name="Forget 1 item").click()
    done = role("dialog", name="Forgotten")
    expect(done).to_be_visible()
    done.get_by_role("button", name="Done").click()
    role("searchbox", name="Question").fill("We use Jenkins for CI")
    items = role("list", name="Items, best first").get_by_role("listitem")
    expect(items.first).to_contain_text(BUILDKITE)
    expect(items.filter(has_text="We use Jenkins for CI.")).to_have_count(0)


def test_moving_along_the_items_keeps_what_is_read_in_view(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=QUESTION, now=NOW))
    for _ in range(page.locator(".result").count()):
        press(page, "j")
        box, bar = get_focused(page).bounding_box(), page.locator("header").bounding_box()
        assert box
        assert bar
        assert box["y"] >= bar["y"] + bar["height"]  # not below the header
        expect(get_focused(page)).to_be_in_viewport()
    click(page.locator("#rank-10 .title"))
    press(page, "Escape")
    expect(get_focused(page)).to_be_in_viewport()
