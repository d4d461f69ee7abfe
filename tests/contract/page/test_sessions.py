"""Sessions over time, and one that reads like a conversation: roles, folded calls, errors with fixes, commits."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.support.browser import OpenTab, Tab, click, field, get_focused, make_hash, press, settle
from tests.support.page_store import STEPS, find_item

AGENT = "5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"


def test_the_sessions_are_listed_and_drawn(tab: Tab) -> None:
    told = tab.get("/v1/timeline", limit=100)
    page = tab.open("#/sessions")
    rows = page.locator(".sessions > li")
    expect(rows).to_have_count(told["total"])
    expect(page.locator(".mark")).to_have_count(sum(one["began"] is not None for one in told["sessions"]))
    assert {*page.locator(".lane-name").all_inner_texts()} == {
        one["project"] for one in told["sessions"] if one["began"]
    }
    expect(page.locator(".pages")).to_contain_text(f"1 to {told['total']} of {told['total']} sessions, newest first")
    assert "April 2026" in page.locator("#sessions .group > h2").all_inner_texts()
    field(page, "Project").select_option("holidays")
    click(page.get_by_role("button", name="Show"))
    assert "project=holidays" in page.url
    expect(rows).to_have_count(sum(one["project"] == "holidays" for one in told["sessions"]))
    field(page, "Since").fill("2030-01-01")
    press(page, "Enter")
    expect(page.locator("#sessions .empty")).to_contain_text("Nothing was said since 2030-01-01")
    page.go_back()
    settle(page)
    click(page.locator(".mark", has_text="10 items").locator("circle").first)
    expect(page).to_have_url(re.compile("#/session[?]session=c"))
    page.keyboard.press("Escape")
    expect(rows.first).to_be_visible()


def test_a_session_reads_like_a_conversation(tab: Tab) -> None:
    items = tab.get("/v1/sessions/aaaa0002")["items"]
    page = tab.open(make_hash("session", session="aaaa0002"))
    expect(page.get_by_role("heading", level=1)).to_have_text("build the tool")
    assert page.title() == "build the tool · Session · Helix"
    head = page.locator(".session-head")
    for words in ("harbour", "claude-code", f"{len(items)} items", "aaaa0002.jsonl"):
        expect(head).to_contain_text(words)
    turns = page.locator("#session .turns > .turn")
    user = turns.first
    expect(user).to_have_class(re.compile("mine"))
    expect(user.locator(".who")).to_have_text("you")
    expect(user.locator(".text")).to_have_text("build the tool")
    expect(page.locator(".turn:not(.mine):not(.tools) .who").first).to_have_text(re.compile("claude|assistant|agent"))
    # Calls and their results are folded, and say what failed.
    folds = page.locator("#session details.fold")
    first = folds.first
    expect(first.locator("> summary")).to_contain_text("Bash")
    expect(first.locator("> summary")).to_contain_text("failed, fixed later")
    expect(first.locator(".work")).to_be_hidden()
    first.locator("> summary").click()
    expect(first.locator(".output").first).to_contain_text("cannot write multiple packages")
    expect(first.locator(".fix")).to_contain_text("`go build -o tide .` passed")
    fixed = first.get_by_role("link", name="where it passed")
    fixes = {one["failed"]: one for one in tab.get("/v1/outline", session="aaaa0002")["fixes"]}
    shown = next(one["shown"] for one in fixes.values() if not one["changes"])
    click(fixed)
    here = page.locator("#session [aria-current=true]")
    expect(here).to_have_id(f"turn-{shown}")
    expect(here).to_be_visible()  # its fold is open
    expect(here).to_be_in_viewport()
    page.locator("#session details.fold").last.locator("> summary").click()
    change = page.get_by_role("link", name="the change")
    assert next(one["changes"][-1] for one in fixes.values() if one["changes"]) in (change.get_attribute("href") or "")


def test_a_session_that_is_not_there_leads_to_all(open_tab: OpenTab) -> None:
    page = open_tab(refused=True).open(make_hash("session", session="nowhere"))
    expect(page.locator("#session").get_by_role("alert")).to_contain_text("404: no live session has this name")
    click(page.locator("#session").get_by_role("link", name="All sessions"))
    expect(page.locator(".sessions > li").first).to_be_visible()


def test_turns_are_marked_as_decisions_as_the_outline_lists_them(tab: Tab) -> None:
    decided = [one["item"] for one in tab.get("/v1/outline", session=AGENT)["decisions"]]
    page = tab.open(make_hash("session", session=AGENT))
    assert 0 < len(decided) < page.locator("#session .turn").count()
    marked = page.locator("#session .turn").filter(has=page.locator(".turn-head .type-decision"))
    assert [one.get_attribute("id") for one in marked.all()] == [f"turn-{item}" for item in decided]


def test_the_outline_names_files_commits_errors_and_decisions(tab: Tab) -> None:
    page = tab.open(make_hash("session", session="aaaa0002"))
    outline = page.get_by_role("complementary", name="Outline")
    expect(outline.get_by_role("heading")).to_have_text(["Errors and fixes", "Files", "Commits", "About", "Turns"])
    expect(outline.locator(".flag.good")).to_have_text(["fixed", "fixed"])
    expect(outline.locator("section", has_text="Files").locator("li")).to_have_text("queue.py 2×")
    commit = outline.get_by_role("link", name="1a2b3c4", exact=True).first
    click(commit)
    expect(page.locator("#session [aria-current=true]")).to_contain_text("commit 1a2b3c4")
    click(outline.get_by_role("link", name="queue.py", exact=True))
    expect(page.get_by_role("heading", level=1)).to_have_text("/srv/harbour/src/queue.py")
    page = tab.open(make_hash("session", session="aaaa0003"))
    expect(outline.locator(".flag.bad").first).to_have_text("open")
    page = tab.open(make_hash("session", session="t5"))
    expect(outline.locator("section", has_text="Decided")).to_contain_text("We use Jenkins for CI.replaced")
    expect(page.locator("#session .replaced")).to_contain_text("Buildkite")


def test_a_turn_is_reached_by_the_outline_and_keeps_the_keyboard(tab: Tab) -> None:
    page = tab.open(make_hash("session", session="aaaa0001"))
    link = (
        page.get_by_role("complementary", name="Outline")
        .locator(".jump")
        .get_by_role("link", name="the queue test fails")
    )
    link.press("Enter")
    here = settle(page).locator("#session [aria-current=true]")
    expect(here).to_contain_text("the queue test fails, fix it")
    expect(here).to_be_in_viewport()
    page.keyboard.press("Tab")
    inside = "one => Boolean(one.closest('.turn, .turns, .outline'))"
    assert get_focused(page).evaluate(inside), "the focus is lost"


def test_more_turns_load_before_and_after(tab: Tab) -> None:
    page = tab.open(make_hash("session", session="long", at=find_item("long", "60")))
    turns = page.locator("#session .turns > .turn")
    expect(turns).to_have_count(80)
    here = page.locator("#session .turn.here")
    expect(here).to_contain_text("Mark 60:")
    expect(here).to_be_in_viewport()
    numbers = "turns => turns.map(one => Number(/Mark (\\d+):/.exec(one.textContent)[1]))"
    first = turns.evaluate_all(numbers)
    assert first == list(range(40, 120))
    earlier, later = (
        page.get_by_role("button", name="Earlier turns (39)"),
        page.get_by_role("button", name="Later turns (31)"),
    )
    later.click()
    expect(turns).to_have_count(111)
    expect(later).to_have_count(0)
    earlier.scroll_into_view_if_needed()
    place = turns.first.bounding_box()
    earlier.dispatch_event("click")
    expect(turns).to_have_count(STEPS)
    assert turns.evaluate_all(numbers) == list(range(1, STEPS + 1))
    moved = turns.nth(39).bounding_box()
    assert place
    assert moved
    assert abs(moved["y"] - place["y"]) < 5  # what is read stays where it is


def test_escape_leaves_a_session_for_where_it_was_opened(tab: Tab) -> None:
    page = tab.open(make_hash("session", session="c3"))  # by its address: back would leave the page
    page.keyboard.press("Escape")
    expect(settle(page).get_by_role("heading", name="Sessions", exact=True)).to_be_visible()
    page.goto("about:blank")
    page = tab.open(make_hash("session", session="c3"))
    page.keyboard.press("m")
    slider = page.get_by_role("slider", name="As of")
    slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("as_of="))
    click(page.get_by_role("button", name="Close the slider"))
    page.keyboard.press("Escape")
    expect(settle(page).get_by_role("heading", name="Sessions", exact=True)).to_be_visible()


def test_home_shows_what_is_new_what_holds_and_questions_with_answers(tab: Tab) -> None:
    known: list[dict[str, str]] = []
    while known != (home := tab.get("/v1/home"))["questions"]:  # each call checks some
        known = home["questions"]
    page = tab.open("#/home")
    tries = page.get_by_role("list", name="Questions to try").get_by_role("link")
    expect(tries).to_have_text([one["text"] for one in home["questions"]])
    recent = page.get_by_role("region", name="Recent sessions")
    expect(recent.locator(".rows .title")).to_have_count(len(home["recent"]))
    holds = page.get_by_role("region", name="What holds")
    for one in home["holds"]["decisions"]:
        expect(holds).to_contain_text(one["text"].lstrip("- ").replace("`", "")[:40])
    opens = page.get_by_role("region", name="Open ends")
    expect(opens).to_contain_text("make: *** [docs] Error 2")
    expect(opens.locator(".flag.bad").first).to_have_text("still fails")
    click(tries.first)
    expect(page.locator(".result").first).to_be_visible()
    expect(page.locator("#q")).to_have_value(home["questions"][0]["text"])
    page.go_back()
    page = tab.open(make_hash("home", project="shop"))
    expect(page.get_by_text("What do you want to know about shop?")).to_be_visible()
    expect(page.locator("#home .group > h3")).to_have_text("shop")


def test_old_addresses_lead_to_the_same_content(open_tab: OpenTab) -> None:
    tab = open_tab()
    identity = find_item("t2")
    for old, heading, said in (
        (f"#/item/{identity}", "default, 10 Mar 2026", "I moved to Rome last week."),
        ("#/timeline", "Sessions", "April 2026"),
        ("#/timeline?session=t2", "default, 10 Mar 2026", "I moved to Rome last week."),
        ("#/facts?entity=Zoe", "Zoe", "Zoe lives in Rome"),
        ("#/facts", "Decisions", "Buildkite"),
    ):
        page = tab.open(old)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        expect(page.locator("main")).to_contain_text(said)
