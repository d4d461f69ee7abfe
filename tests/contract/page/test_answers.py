"""Answers while a question is typed: the newest one, its items, hints and filters, and the states without an answer."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.support.browser import OpenTab, Tab, click, field, make_hash, press, settle, type_question
from tests.support.page_store import BUILDKITE, NOW, OSLO, QUESTION, ROME

HINTED = "What did Ana decide for ledgerline last week?"


def list_texts(page: Page) -> list[str]:
    """Return the texts of the shown items, in one line each."""
    return [" ".join(text.split()) for text in page.locator(".result .excerpt, .result .output").all_inner_texts()]


def test_an_answer_appears_while_its_question_is_typed(tab: Tab) -> None:
    page = tab.open("#/home")
    before = page.evaluate("history.length")
    page.locator("#q").focus()
    page.keyboard.type("why Buildkite for CI", delay=15)
    settle(page)
    assert "#/ask?q=why+Buildkite+for+CI" in page.url
    assert page.evaluate("history.length") == before + 1  # the first letter opens the view, the others change it
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#q")).to_have_value("why Buildkite for CI")
    found = tab.recall(query="why Buildkite for CI")
    cards = page.locator(".result")
    expect(cards).to_have_count(len(found["items"]))
    assert [card.get_attribute("data-item") for card in cards.all()] == [item["id"] for item in found["items"]]
    assert list_texts(page)[0] == BUILDKITE
    expect(page.locator("#live")).to_have_text(re.compile(r"10 items in [\d.]+ ms"))
    first = cards.first
    expect(first.locator(".who")).to_have_text("Ivo")
    expect(first.locator("time")).to_have_attribute("title", "2026-03-15 UTC")
    expect(first.locator(".from")).to_have_text(re.compile(r"^shop, 15 Mar 2026 · notes\.jsonl"))
    expect(first.locator(".packed")).to_have_text("in context")
    expect(first.get_by_role("link").first).to_have_attribute(
        "href", re.compile(r"#/session\?session=t6&at=[0-9a-f]{16}")
    )
    assert "Buildkite" in first.locator("mark").all_inner_texts()
    page.go_back()
    expect(page.get_by_text("What do you want to know?")).to_be_visible()


def test_the_answer_to_the_last_question_is_shown_never_an_older_one(tab: Tab) -> None:
    """The first answer is late: what is typed meanwhile comes next, without what came in between."""
    page = tab.open("#/ask")
    waiting: list[Route] = []
    page.route("**/v1/recall", lambda route: waiting.append(route) if not waiting else route.continue_())
    type_question(page, "Goa")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
    type_question(page, "where does Zoe live")
    expect(page.locator(".result")).to_have_count(0)
    while not waiting:
        page.wait_for_timeout(10)
    waiting[0].continue_()
    settle(page)
    expect(page.locator(".result").first).to_contain_text(ROME)
    asked = [body["query"] for body in tab.list_questions()]
    assert asked[-1] == "where does Zoe live"
    assert len(asked) == 2  # no question of a part of what was typed
    expect(page.locator("#q")).to_have_value("where does Zoe live")


def test_hints_of_the_question_are_chips_that_filter_or_are_ignored(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=HINTED, now=NOW))
    hints = page.locator(".chip.hinted")
    assert [hint.locator("a").first.inner_text() for hint in hints.all()] == [
        "Ana", "ledgerline", "last week 2026-05-25 – 2026-05-31"
    ]  # fmt: skip
    click(page.get_by_role("link", name="Ignore “ledgerline”"))
    assert tab.list_questions()[-1]["ignored"] == ["ledgerline"]
    assert [hint.locator("a").first.inner_text().split()[0] for hint in hints.all()] == ["Ana", "last"]
    # An ignored word stays so while more is typed, as long as the question has it.
    page.locator("#q").focus()
    page.keyboard.press("End")
    page.keyboard.type("!")
    settle(page)
    assert tab.list_questions()[-1]["ignored"] == ["ledgerline"]
    type_question(page, "What did Ana decide")
    settle(page)
    assert "ignored" not in tab.list_questions()[-1]
    page = tab.open(make_hash("ask", q=HINTED, now=NOW))
    click(page.get_by_role("link", name=re.compile("^Filter by ledgerline")))
    asked = tab.list_questions()[-1]
    assert (asked["project"], asked["query"]) == ("ledgerline", HINTED)
    assert all("ledgerline" in text for text in page.locator(".result .from").all_inner_texts())
    chip = page.locator(".chip.on", has_text="project ledgerline")
    click(chip.get_by_role("link", name="Remove the filter project ledgerline"))
    assert "project" not in tab.list_questions()[-1]
    click(page.get_by_role("link", name=re.compile(r"^Filter by last week")))
    asked = tab.list_questions()[-1]
    assert (asked["since"][:10], asked["until"][:10]) == ("2026-05-25", "2026-05-31")


def test_filters_narrow_and_are_cleared(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="timeout"))
    filters = page.locator(".filters > summary")
    filters.click()
    field(page, "Project").select_option("ledgerline")
    field(page, "Type").select_option("decision")
    click(page.get_by_role("button", name="Apply"))
    expect(filters).to_be_focused()
    asked = tab.list_questions()[-1]
    assert (asked["project"], asked["type"]) == ("ledgerline", "decision")
    decides = tab.recall(query="timeout", project="ledgerline", type="decision")["trace"]["decides"]
    assert 0 < sum(decides) < len(decides)  # of the type decision, yet not all state one
    expect(page.locator(".result .type")).to_have_count(sum(decides))
    expect(page.locator(".chip.on")).to_have_text(["project ledgerline×", "type decision×"])
    filters.click()
    field(page, "Since").fill("2030-01-01")
    field(page, "only current facts").check()
    field(page, "Since").press("Enter")
    settle(page)
    expect(page.locator(".chip.on")).to_have_count(4)
    expect(page.locator(".empty")).to_contain_text("Nothing was said since 2030-01-01 (since); the latest item")
    click(page.get_by_role("link", name="Ask without filters"))
    assert page.url.endswith("#/ask?q=timeout")
    page.go_back()
    settle(page)
    filters.click()
    click(page.get_by_role("button", name="Clear filters"))
    assert page.url.endswith("#/ask?q=timeout")
    expect(page.locator(".chip.on")).to_have_count(0)
    assert len(set(page.locator(".result .from").all_inner_texts())) > 1


def test_nothing_relevant_is_a_state_of_its_own(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="zzqx blorp frobnicate", project="home"))
    verdict = page.locator(".verdict.nothing")
    expect(verdict).to_contain_text("Nothing relevant")
    expect(verdict).to_contain_text("The nearest items are below, dimmed.")
    expect(page.get_by_role("list", name="Items, best first")).to_have_class("results nearest")
    expect(page.locator("#live")).to_have_text(re.compile("^Nothing relevant; the [0-9]+ nearest items"))
    dimmed, plain = page.locator(".result .excerpt").first, page.locator("#q")
    colour = "one => getComputedStyle(one).color"
    assert dimmed.evaluate(colour) != plain.evaluate(colour)
    click(page.get_by_role("link", name="Ask without filters"))
    assert "project" not in tab.list_questions()[-1]
    page = tab.open(make_hash("ask", q="why Buildkite for CI"))
    expect(page.locator(".verdict")).to_contain_text("An answer is very likely here")
    expect(page.locator(".nothing")).to_have_count(0)


def test_a_replaced_item_says_by_what(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q="where does Zoe live", now=NOW))
    said = page.locator(".result", has_text=OSLO).locator(".replaced")
    expect(said).to_have_text(re.compile(rf"^Replaced .* by: {ROME}$"))
    expect(said.locator("time")).to_have_attribute("datetime", re.compile("^2026-03-10"))
    expect(page.locator(".result", has_text=ROME).first.locator(".replaced")).to_have_count(0)
    said.get_by_role("link").click()
    expect(settle(page).locator("#session .turn.here")).to_contain_text(ROME)


def test_a_skipped_question_and_an_empty_store_name_the_next_step(tab: Tab) -> None:
    page = tab.open("#/ask")
    expect(page.locator(".empty")).to_contain_text("The answer appears while you type")
    page = tab.open(make_hash("ask", q="what is 17*23"))
    expect(page.locator(".empty")).to_contain_text("A filter forces a search")
    page.locator(".filters > summary").click()
    field(page, "Project").select_option("ledgerline")
    click(page.get_by_role("button", name="Apply"))
    expect(page.locator(".result").first).to_be_visible()
    nothing = {**tab.get("/v1/home"), "items": 0, "sessions": 0, "first": None, "last": None}
    page.route("**/v1/home", lambda route: route.fulfill(json=nothing))
    page.goto("about:blank")
    expect(tab.open("#/home").locator(".empty")).to_contain_text("helix ingest PATH")


def test_errors_of_the_server_are_shown(open_tab: OpenTab) -> None:
    page = open_tab(refused=True).open(make_hash("ask", q="Priya", project="nope"))
    expect(page.get_by_role("alert")).to_contain_text("400: unknown project 'nope'; there is default")
    page.goto(page.url.replace("project=nope", "mode=vector"))
    expect(settle(page).get_by_role("alert")).to_contain_text("400: the profile 'helix' has no mode")
    page.goto(page.url.replace("mode=vector", "since=yesterdayish"))
    expect(settle(page).get_by_role("alert")).to_contain_text("yesterdayish")
    page.goto(page.url.split("#")[0] + "#/item/ffffffffffffffff")
    expect(settle(page).get_by_role("alert")).to_contain_text("404: no live item has this id")
    for view in ("people", "files", "graph", "decisions", "sessions", "home", "subject"):
        page.goto(page.url.split("#")[0] + make_hash(view, project="nope", name="Zoe"))
        expect(settle(page).get_by_role("alert").locator("visible=true")).to_contain_text("400: "), view


def test_a_question_is_asked_again_on_enter_after_an_error(open_tab: OpenTab) -> None:
    """An error is no answer: the same question sent again is asked again."""
    tab = open_tab(refused=True)
    page = tab.open("#/ask")
    page.route("**/v1/recall", lambda route: route.fulfill(status=503, json={"detail": "busy"}), times=1)
    page.locator("#q").fill(QUESTION)
    expect(page.get_by_role("alert")).to_contain_text("503: busy")
    press(page, "Enter")
    expect(page.locator(".result").first).to_be_visible()


def test_degraded_parts_are_named(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=QUESTION, profile="annie", rerank="late"))
    expect(page.locator(".notice.warn:visible")).to_contain_text("rerank: the recipe annie has none")
    page.locator(".filters > summary").click()
    assert field(page, "Rerank").input_value() == "late"
