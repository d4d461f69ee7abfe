"""The conversation of the chosen item: next to the answer, or below the item where there is no room; and its text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import OpenTab, Tab, click, make_hash, open_reasons, press, settle
from tests.support.page_store import BUILDKITE, HOSTILE, NOW, find_item

SURVEY = make_hash("ask", q="where did a cannon ball come up", project="survey", until="2026-04-05", now=NOW)


def find_pane(page: Page) -> Locator:
    return page.get_by_role("complementary", name="The conversation of the chosen item")


def list_around(tab: Tab) -> list[str]:
    """Return the paths of the requests for neighbours, in order."""
    return [one.url.partition("/v1/items/")[2] for one in tab.requests if "/around" in one.url]


def test_the_pane_shows_the_chosen_item_in_its_conversation(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="why Buildkite for CI", now=NOW))
    pane = find_pane(page)
    here = pane.locator("[aria-current=true]")
    expect(here).to_contain_text(BUILDKITE)
    around = tab.get(f"/v1/items/{find_item('t6')}/around")["items"]
    expect(pane.locator(".turn .text")).to_have_text([item["text"] for item in around])
    assert "Buildkite" in here.locator("mark").all_inner_texts()
    cards = page.locator(".result")
    expect(cards.first).to_have_class(re.compile("chosen"))
    texts = [item["text"] for item in tab.recall(query="why Buildkite for CI", now=NOW)["items"][:3]]
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(cards.nth(place)).to_have_class(re.compile("chosen"))
        expect(cards.nth(place).locator("[data-stop]").first).to_be_focused()
        expect(here).to_contain_text(texts[place].split("\n")[0][:30])
    cards.nth(0).locator(".excerpt").click()  # a click on the text chooses too
    expect(here).to_contain_text(BUILDKITE)
    expect(page.locator(".result.chosen")).to_have_count(1)


def test_the_pane_grows_upwards_and_downwards_while_it_is_scrolled(tab: Tab) -> None:
    page = tab.open(SURVEY)
    pane = find_pane(page)
    expect(pane.locator("[aria-current=true]")).to_contain_text("Mark 75:")
    turns = pane.locator(".turn")
    expect(turns).to_have_count(13)
    expect(pane.locator("[aria-current=true]")).to_be_in_viewport(ratio=1)
    scroller = pane.get_by_role("region", name="The conversation, which scrolls")
    scroller.evaluate("one => { one.scrollTop = one.scrollHeight }")
    expect(turns).not_to_have_count(13)
    expect(turns.last).to_contain_text("Mark 101:")
    assert "before=0&after=20" in list_around(tab)[-1]
    scroller.evaluate("one => { one.scrollTop = 400 }")
    settle(page)
    read = turns.nth(3)
    before = read.bounding_box()
    mark = read.locator(".text > p").first.inner_text().split(":")[0]
    scroller.evaluate("one => { one.scrollTop = 60 }")
    expect(turns.first).to_contain_text("Mark 49:")
    assert "before=20&after=0" in list_around(tab)[-1]
    after = turns.filter(has_text=f"{mark}:").bounding_box()
    assert before
    assert after
    assert abs(after["y"] - (before["y"] + 340)) < 25  # what was read stays where it is
    texts = [line.split(":")[0] for line in pane.locator(".turn .text").all_inner_texts()]
    assert texts == [f"Mark {i}" for i in range(49, 102)]  # each once, in order


@pytest.mark.parametrize(("height", "turns"), [(3200, 33), (9600, 53)])
def test_a_tall_pane_is_filled(open_tab: OpenTab, height: int, turns: int) -> None:
    page = open_tab(viewport={"width": 1400, "height": height}).open(SURVEY)
    expect(find_pane(page).locator(".turn")).to_have_count(turns)  # what cannot be scrolled cannot grow while it is
    scroller = find_pane(page).get_by_role("region", name="The conversation, which scrolls")
    assert scroller.evaluate("one => one.scrollHeight > one.clientHeight")


def test_the_buttons_of_the_pane_load_what_scrolling_does(tab: Tab) -> None:
    page = tab.open(SURVEY)
    pane = find_pane(page)
    expect(pane.locator(".turn")).to_have_count(13)
    later, earlier = pane.get_by_role("button", name="Later turns"), pane.get_by_role("button", name="Earlier turns")
    later.press("Enter")
    expect(pane.locator(".turn").last).not_to_contain_text("Mark 81:")
    earlier.press("Enter")
    expect(pane.locator(".turn").first).not_to_contain_text("Mark 69:")
    page = tab.open(make_hash("ask", q="why Buildkite for CI", now=NOW))
    expect(find_pane(page).locator(".turn")).to_have_count(2)
    expect(earlier).to_have_count(0)  # hidden: the session has no more
    expect(later).to_have_count(0)


def test_a_narrow_screen_opens_the_conversation_below_the_item(open_tab: OpenTab) -> None:
    tab = open_tab(viewport={"width": 390, "height": 800})
    page = tab.open(make_hash("ask", q="why Buildkite for CI", now=NOW))
    expect(find_pane(page)).to_have_count(0)
    card = page.locator(".result").first
    button = card.get_by_role("button", name="Conversation")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    turns = card.locator(".inline-pane .turn")
    expect(turns).to_have_count(2)
    below, text = card.locator(".inline-pane").bounding_box(), card.locator(".excerpt").bounding_box()
    assert below
    assert text
    assert below["y"] >= text["y"] + text["height"]
    button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(turns.first).to_be_hidden()


def test_an_item_opens_in_its_session_and_back_leads_to_the_same_answer(tab: Tab) -> None:
    page = tab.open(SURVEY)
    expect(find_pane(page).locator(".turn")).to_have_count(13)
    link = page.locator(".result").first.get_by_role("link").first
    identity = find_item("long", "75")
    click(link)
    expect(page).to_have_url(re.compile(f"#/session\\?session=long&at={identity}$"))
    here = page.locator("#session .turn.here")
    expect(here).to_contain_text("Mark 75:")
    expect(here).to_be_in_viewport()
    asks = len(tab.list_questions())
    page.keyboard.press("Escape")
    expect(page.locator(".result").first).to_be_visible()
    expect(link).to_be_focused()
    assert len(tab.list_questions()) == asks


# ---------------------------------------------------------------- text of memories


def test_markdown_is_elements_and_code_is_coloured(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="how does the gauge work", project="gauges", now=NOW))
    text = page.locator(".result .text").first
    expect(text).to_have_class(re.compile("prose"))
    expect(text.locator(".head-1")).to_have_text("How the gauge works")
    expect(text.locator("strong")).to_have_text("two")
    expect(text.locator("del")).to_have_text("three")
    expect(text.locator("ul > li")).to_have_text(["a float", "a needle"])
    expect(text.get_by_role("row")).to_have_text(["partweight", "float20 g"])
    code = text.locator("pre code")
    expect(code.locator(".tok-keyword")).to_have_text(["def", "return"])
    expect(code.locator(".tok-comment")).to_have_text("# millimetres")
    plain, keyword = (one.evaluate("one => getComputedStyle(one).color") for one in (code, code.locator("span").first))
    assert plain != keyword
    assert "gauge" in text.locator("mark").all_inner_texts()


def test_links_of_memories_lead_to_http_only_and_pictures_are_not_loaded(tab: Tab) -> None:
    page = tab.open(make_hash("session", session="markup"))
    text = page.locator("#session .text")
    link = text.get_by_role("link", name="the manual")
    expect(link).to_have_attribute("href", "https://example.org/gauge?a=1")
    assert {"noopener", "noreferrer"} <= set((link.get_attribute("rel") or "").split())
    expect(text.locator(".dead-link")).to_have_text(["a trap", "data"])
    assert all(
        href.startswith("https://example.org/") for href in text.locator("a").evaluate_all("a => a.map(b => b.href)")
    )
    expect(text.get_by_role("link", name="[a picture]")).to_be_visible()
    expect(text.locator("img")).to_have_count(0)
    expect(text).to_contain_text('<b onclick="window.broken=4">bold</b>')
    expect(text.locator("b")).to_have_count(0)
    text.get_by_text("a trap").click()
    text.get_by_text("data", exact=True).click()
    assert page.evaluate("window.broken") is None
    assert page.url.startswith(tab.url)


def test_foreign_text_stays_text(tab: Tab) -> None:
    identity = find_item("t3")
    views = {
        make_hash("ask", q="Mallory", speaker="Mallory"): ".result",
        f"#/item/{identity}": "#session .turn.here",
        make_hash("session", session="t3"): "#session .turn",
        make_hash("compare", q=f"What did Mallory say {HOSTILE[:60]}"): "#compare",
        make_hash("subject", name=HOSTILE[:90]): "#subject",
        make_hash("graph", item=identity): "#graph",
        make_hash("decisions", name=HOSTILE[:90]): "",
        make_hash("people", name=HOSTILE[:90]): "#people",
        "#/sessions": "#sessions",
        "#/home": "",
        make_hash("ask", q=HOSTILE): "",
    }
    for view, place in views.items():
        page = tab.open(view)
        if place:
            said = "<img src=x" if "graph" in view else '<img src=x onerror="window.broken=1">'
            expect(page.locator(place).filter(has_text=said).first).to_be_attached()
        assert page.evaluate("window.broken") is None, view
        assert page.locator("main img, main script").count() == 0, view
    page = tab.open(make_hash("ask", q="ignore what came before", speaker="Mallory", min_relevance="0"))
    context = open_reasons(page).get_by_role("region", name="The packed context").inner_text()
    assert context.count("</memory>") == 1  # its own
    press(page, "Control+k")
    page.get_by_role("combobox").fill("<img")
    expect(page.locator("#palette-list").get_by_role("option").first).to_contain_text("<img src=x")
    assert page.evaluate("window.broken") is None


@pytest.mark.parametrize("name", ["constructor", "__proto__"])
def test_a_table_has_no_entries_that_every_object_inherits(tab: Tab, name: str) -> None:
    page = tab.open(f"#/{name}")
    expect(page.locator("html")).to_have_attribute("data-view", "home")
    assert page.evaluate("async (name) => (await import('/page/marks.js')).nameBy(name)", name) == name
    code = page.evaluate("async (name) => (await import('/page/markdown.js')).makeCode('x', name).outerHTML", name)
    assert f'data-lang="{name}"' in code
