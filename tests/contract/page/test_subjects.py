"""Decisions, subjects over time, people, files and the graph; and the moment that all of them show."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import OpenTab, Tab, click, field, get_focused, make_hash, press, settle
from tests.support.page_store import BUILDKITE, KAFKA, NOW, OSLO, ROME, find_item

PAST = "2026-02-01"
"""A day after Zoe moved to Oslo and before she moved to Rome, and before the switch to Buildkite."""


def test_decisions_name_what_was_before_and_what_was_rejected(tab: Tab) -> None:
    page = tab.open(make_hash("decisions", project="shop"))
    shop = page.locator("#decisions .topic").first
    expect(shop.get_by_role("heading")).to_have_text("shop")
    row = shop.get_by_role("listitem")
    expect(row).to_have_count(1)
    expect(row.locator(".title")).to_have_text("CI")
    expect(row).to_contain_text(BUILDKITE)
    expect(row.locator(".then")).to_have_text("Jenkins")
    expect(row).to_contain_text("Ivo")
    rejected = page.get_by_role("region", name="Rejected")
    expect(rejected).to_contain_text(KAFKA)
    expect(rejected).to_contain_text("because it is too much to run")
    field(page, "Project").select_option("")
    click(page.get_by_role("button", name="Show"))
    listed = tab.get("/v1/decisions", limit=100)["decisions"]
    headings = page.locator("#decisions .topic > h2").all_inner_texts()
    assert {*headings} - {"Rejected"} == {one["project"] for one in listed}
    expect(
        page.locator("#known option", has=page.locator("[value=Zoe]")).or_(page.locator("#known [value=Zoe]"))
    ).to_be_attached()
    field(page, "Subject").fill("Zoe")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Zoe")


def test_a_subject_over_time(tab: Tab) -> None:
    page = tab.open(make_hash("subject", name="Zoe"))
    entries = page.locator("#subject .topic li")
    expect(entries).to_have_count(2)
    oslo, rome = (entries.filter(has_text=name) for name in ("Oslo", "Rome"))
    expect(oslo).to_contain_text(re.compile(r"no longer holds, from 2026-01-01 until 2026-03-02 · Zoe"))
    expect(rome).to_contain_text(re.compile(r"holds, from 2026-03-02 on · Zoe"))
    first, second = oslo.locator(".valid").bounding_box(), rome.locator(".valid").bounding_box()
    assert first
    assert second
    assert second["x"] == pytest.approx(first["x"] + first["width"], abs=1)  # one begins where the other ends
    side = page.get_by_role("complementary", name="Where it is named")
    assert {"Oslo", "Rome"} <= {*side.get_by_role("link").all_inner_texts()}
    click(rome.get_by_role("link"))
    expect(page.locator("#session .turn.here")).to_contain_text(ROME)
    page = tab.open(make_hash("subject", name="Zoe", as_of=PAST))
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("Zoe lives in Oslo")
    expect(entries).to_contain_text(re.compile("(?<!no longer )holds, from 2026-01-01 on"))
    page = tab.open(make_hash("subject", name="Xyzzy"))
    click(page.get_by_role("link", name="Ask for it"))
    expect(page.locator("#q")).to_have_value("Xyzzy")


def test_the_topic_of_a_decision_leads_to_its_timeline(tab: Tab) -> None:
    page = tab.open(make_hash("decisions", project="shop"))
    click(page.locator("#decisions").get_by_role("link", name="CI", exact=True))
    expect(page.locator("#subject .topic li")).not_to_have_count(0)


def move_slider(page: Page, day: str) -> None:
    """Move the slider to a day."""
    slider = page.get_by_role("slider", name="As of")
    first = page.evaluate("Promise.resolve(document.querySelector('#moment-slider').max)")
    assert int(first) > 100
    slider.evaluate(
        """(one, day) => { const label = one.parentElement.querySelector('output');
          for (let at = 0; at <= Number(one.max); at += 1) {
            one.value = String(at);
            one.dispatchEvent(new Event('input'));
            if (label.textContent === day) return;
          } throw new Error(`no ${day}`) }""",
        day,
    )
    expect(page).to_have_url(re.compile(f"as_of={day}"))
    settle(page)


def test_the_slider_shows_the_whole_page_as_it_was_and_every_link_keeps_the_moment(tab: Tab) -> None:
    page = tab.open(make_hash("subject", name="Zoe"))
    entries = page.locator("#subject .topic li")
    expect(entries).to_have_count(2)
    before = page.evaluate("history.length")
    button = page.locator("#moment")
    expect(button).to_have_text("Now")
    button.click()
    slider = page.get_by_role("slider", name="As of")
    expect(slider).to_be_focused()
    move_slider(page, PAST)
    assert page.evaluate("history.length") == before
    expect(entries).to_have_count(1)
    expect(button).to_have_text(f"As of {PAST}")
    rail = page.get_by_role("navigation", name="Views")
    said = {
        "Home": "as it was on 2026-02-01", "Sessions": "January 2026", "Decisions": "Jenkins", "People": "Zoe",
        "Files": "", "Graph": "", "Compare": "", "Answer": "",
    }  # fmt: skip
    for name, words in said.items():
        click(rail.get_by_role("link", name=name, exact=True))
        assert f"as_of={PAST}" in page.url, name
        expect(page.locator("main")).to_contain_text(words)
        expect(page.locator("main")).not_to_contain_text("Buildkite")
        own = page.locator("main a[href^='#/']:visible, header a[href^='#/']:visible, nav a[href^='#/']:visible")
        links = own.evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert [link for link in links if f"as_of={PAST}" not in link] == [], name
    page.locator("#q").fill("where does Zoe live")
    settle(page)
    assert tab.list_questions()[-1]["as_of"] == PAST
    expect(page.locator(".result").first).to_contain_text(OSLO)
    expect(page.locator(".result", has_text=ROME)).to_have_count(0)
    press(page, "Control+k")
    page.get_by_role("combobox").fill("tidy")
    expect(page.locator("#palette-list").get_by_role("option")).to_have_text(["Ask “tidy” question"])  # a later session
    page.get_by_role("combobox").fill("Sessions")
    press(page, "Enter")
    assert f"as_of={PAST}" in page.url
    page.locator("#moment-bar").get_by_role("button", name="Now").click()
    settle(page)
    expect(button).to_have_text("Now")
    assert "as_of" not in page.url
    expect(page.locator("#sessions-body")).to_contain_text("May 2026")


def test_the_connections_of_an_item_are_those_known_by_the_moment(tab: Tab) -> None:
    address = {"item": find_item("t5")}
    panel = tab.open(make_hash("graph", **address)).get_by_role("region", name="What it is connected to")
    expect(panel).to_contain_text("Buildkite")
    panel = tab.open(make_hash("graph", **address, as_of=PAST)).get_by_role("region", name="What it is connected to")
    expect(panel).to_contain_text("Jenkins")
    expect(panel).not_to_contain_text("Buildkite")


def test_an_item_that_was_not_known_by_the_moment_has_no_connections(open_tab: OpenTab) -> None:
    page = open_tab(refused=True).open(make_hash("graph", item=find_item("t6"), as_of=PAST))
    expect(page.locator("#graph .empty")).to_contain_text("It was not known by then")


def test_an_answer_shown_before_the_moment_moved_is_not_shown_as_of_it(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="where does Zoe live"))
    expect(page.locator(".result", has_text=ROME).first).to_be_visible()
    rail = page.get_by_role("navigation", name="Views")
    click(rail.get_by_role("link", name="Decisions"))
    page.locator("#moment").click()
    move_slider(page, PAST)
    click(rail.get_by_role("link", name="Answer"))
    assert f"as_of={PAST}" in page.url
    expect(page.locator(".result", has_text=ROME)).to_have_count(0)
    expect(page.locator(".result", has_text=OSLO).first).to_be_visible()


def test_the_conversation_of_a_past_answer_has_no_later_turns(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="cannon ball", project="survey", as_of="2026-04-05T10:16:00Z", now=NOW))
    pane = page.get_by_role("complementary", name="The conversation of the chosen item")
    expect(pane.locator(".turn").first).to_be_visible()
    times = pane.locator("time").evaluate_all("all => all.map(one => one.dateTime)")
    assert max(times) <= "2026-04-05T10:16:00Z"


def test_the_address_takes_the_two_times(tab: Tab) -> None:
    for view, given in (
        ("ask", {"q": "Priya"}),
        ("sessions", {}),
        ("compare", {"q": "Priya"}),
    ):
        page = tab.open(make_hash(view, **given, as_of="2025-01-01"))
        expect(page.locator(f"#{view} .empty").first).to_contain_text("was said by")
    page = tab.open(make_hash("ask", q="Zoe", as_of=PAST, ingested_as_of="2025-01-01"))
    expect(page.locator("#ask .empty")).to_contain_text("Nothing was ingested by 2025-01-01 (ingested_as_of)")
    expect(page.locator(".chip.on")).to_have_text("stored by 2025-01-01×")
    page.locator(".filters > summary").click()
    assert field(page, "Ingested as of").input_value() == "2025-01-01"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("view", "label", "kind"), [("people", "Find a person", "person"), ("files", "Find a file", "path")]
)
def test_names_are_found_by_a_part(tab: Tab, view: str, label: str, kind: str) -> None:
    page = tab.open(f"#/{view}")
    cards = page.locator(f"#{view} .cards > li")
    told = tab.get("/v1/entities", kind=kind, limit=60)
    expect(cards.locator(".title")).to_have_text([one["name"] for one in told["entities"]])
    before = page.evaluate("history.length")
    part = told["entities"][1]["name"][-4:]
    page.get_by_role("searchbox", name=label).fill(part)
    found = tab.get("/v1/entities", kind=kind, query=part)["entities"]
    expect(cards.locator(".title")).to_have_text([one["name"] for one in found])
    assert page.evaluate("history.length") == before
    expect(page.get_by_role("searchbox", name=label)).to_be_focused()
    page.get_by_role("searchbox", name=label).fill("xyzzy")
    expect(page.locator(f"#{view} .empty")).to_contain_text("No name has “xyzzy”")
    page.get_by_role("searchbox", name=label).fill(part)
    click(cards.first.get_by_role("link"))
    expect(page.get_by_role("heading", level=1)).to_have_text(found[0]["name"])


def make_graph(n: int) -> dict[str, Any]:
    """Return a graph of n names in groups of up to 50, each linked to the first of its group."""
    group = [i // 50 for i in range(n)]
    return {
        "total": n,
        "nodes": [
            {"id": f"n{i}", "label": f"name {i}", "kind": ("person", "path", "error")[i % 3], "items": 1 + n - i,
             "group": group[i]} for i in range(n)
        ],
        "edges": [{"from": f"n{50 * group[i]}", "to": f"n{i}", "weight": 2} for i in range(n) if i % 50],
        "groups": [{"id": k, "label": f"name {50 * k}", "nodes": min(50, n - 50 * k)} for k in range(max(group) + 1)],
        "notice": None,
    }  # fmt: skip


COLOURS = """canvas => { const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join());
  return seen.size }"""
"""Count the colours of a canvas."""


def test_the_graph_is_drawn_and_a_name_is_chosen_by_a_click_or_in_the_list(tab: Tab) -> None:
    tab.page.route("**/v1/graph?*", lambda route: route.fulfill(json=make_graph(10)))
    page = tab.open("#/graph")
    canvas, names = page.locator(".map canvas"), page.get_by_role("complementary", name="Names")
    expect(names.get_by_role("heading")).to_have_text("1 group")
    assert canvas.evaluate(COLOURS) > 5
    expect(page.locator(".map-tools")).to_contain_text("10 of 10 names")
    # The most named is in the middle of the only group, which is in the middle of the canvas.
    box = canvas.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2 + 8, box["y"] + box["height"] / 2)
    expect(names.get_by_role("heading", level=2)).to_have_text("name 0")
    expect(names.locator("li")).to_have_count(9)
    names.get_by_role("button", name="name 7").click()
    expect(names.get_by_role("heading", level=2)).to_have_text("name 7")
    expect(names.locator("li")).to_have_text("name 0 person")
    names.get_by_role("button", name="All groups").click()
    expect(names.get_by_role("heading")).to_have_text("1 group")
    page.mouse.dblclick(box["x"] + box["width"] / 2 + 8, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"#/subject\?name=name\+\d"))


def test_the_list_of_the_graph_works_by_keyboard(tab: Tab) -> None:
    tab.page.route("**/v1/graph?*", lambda route: route.fulfill(json=make_graph(10)))
    page = tab.open("#/graph")
    names = page.get_by_role("complementary", name="Names")
    press(page, "j")
    expect(get_focused(page)).to_have_text("name 0")
    press(page, "Enter")
    expect(names.get_by_role("heading", level=2)).to_have_text("name 0")
    press(page, "Tab")
    assert get_focused(page).evaluate("one => Boolean(one.closest('.map-list'))"), "the focus is lost"
    names.get_by_role("link", name="Its timeline").press("Enter")
    expect(page).to_have_url(re.compile(r"#/subject\?name=name\+0"))


def test_a_graph_of_ten_thousand_names_is_drawn_and_answers(tab: Tab) -> None:
    tab.page.route("**/v1/graph?*", lambda route: route.fulfill(json=make_graph(10_000)))
    page = tab.open("#/graph?limit=10000")
    canvas, names = page.locator(".map canvas"), page.get_by_role("complementary", name="Names")
    expect(names.get_by_role("heading")).to_have_text("200 groups")
    expect(page.locator(".map-tools")).to_contain_text("10,000 of 10,000 names")
    assert canvas.evaluate(COLOURS) > 5
    steps = """() => new Promise((done) => { let n = 0;
      const step = () => { document.querySelector('[aria-label="Zoom in"], [aria-label="Zoom out"]').click();
        if ((n += 1) < 20) requestAnimationFrame(step); else done(n) };
      requestAnimationFrame(step) })"""
    assert page.evaluate(f"({steps})()") == 20
    names.get_by_role("button", name="name 50", exact=True).click()
    expect(names.get_by_role("heading", level=2)).to_have_text("name 50")
    expect(names.locator("li")).to_have_count(49)
    page.get_by_role("button", name="Show all").click()


def test_the_neighbourhood_of_an_item_is_a_picture_and_a_list(tab: Tab) -> None:
    identity = find_item("t6")
    near = tab.get(f"/v1/items/{identity}/graph")
    page = tab.open(make_hash("graph", item=identity))
    nodes = page.get_by_role("group", name=re.compile("nodes?, ")).get_by_role("link")
    expect(nodes).to_have_count(len(near["nodes"]))
    expect(page.locator("svg.graph path.edge")).to_have_count(len(near["edges"]))
    boxes = [box for node in nodes.all() if (box := node.locator("rect").bounding_box())]
    for i, one in enumerate(boxes):  # no two overlap
        for other in boxes[:i]:
            apart = abs(one["x"] - other["x"]) >= one["width"] or abs(one["y"] - other["y"]) >= one["height"]
            assert apart, (one, other)
    page.get_by_text("as a list").click()
    expect(page.locator(".connections li")).to_have_count(len(near["edges"]))
    page.get_by_role("link", name="entity Buildkite").first.focus()
    expect(page.locator("path.edge.lit")).not_to_have_count(0)
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Buildkite")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
