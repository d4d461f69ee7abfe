"""The acts of an owner: pin, correct, forget, keep out. With a key that may only read, nothing of them is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from helix.settings import load
from helix.switches.state import list_off
from query import auth
from query.serve import make_policy
from tests.support.browser import OpenTab, click, make_hash, opening_tabs, press, settle
from tests.support.page_store import NOW, find_item
from tests.support.processes import wait_until
from tests.support.serving import serving

READING = ["What it is connected to", "Copy id"]
ASK = make_hash("ask", q="why Buildkite for CI", now=NOW)
LATE = {"session": "t6", "at": find_item("t6")}


@pytest.fixture(scope="module")
def keys(store: Path) -> dict[str, str]:
    """Keys by what they may do in addition to reading."""
    path = auth.get_key_file(store, load())
    given = {"": ["recall"], "remember": ["recall", "remember"], "forget": ["recall", "forget"]}
    return {name: auth.create_key(path, f"one-{name}", scopes=scopes)[0] for name, scopes in given.items()}


@pytest.fixture(scope="module")
def url(store: Path, keys: dict[str, str]) -> Iterator[str]:
    """The address of a server that requires a key."""
    policy = replace(make_policy("127.0.0.1", load(), keyed=True), token="")
    with serving(store, load(), policy) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture
def open_tab(browser: Browser, url: str) -> Iterator[OpenTab]:
    with opening_tabs(browser, url) as make:
        yield make


def open_menu(page: Page, place: Locator) -> Locator:
    """Open the menu of an item."""
    place.locator(".menu > summary").first.click()
    return place.locator(".menu-items").first


def test_a_key_that_may_only_read_sees_no_action(open_tab: OpenTab, keys: dict[str, str]) -> None:
    tab = open_tab(key=keys[""])
    page = tab.open(ASK)
    menu = open_menu(page, page.locator(".result").first)
    expect(menu.locator("> *")).to_have_text(READING)
    page = tab.open(make_hash("session", **LATE))
    expect(open_menu(page, page.locator("#session .turn").first).locator("> *")).to_have_text(READING)
    words = re.compile("forget|pin|correct|keep|stale|helpful|wrong", re.IGNORECASE)
    for view in (
        ASK,
        make_hash("session", **LATE),
        "#/home",
        make_hash("subject", name="CI"),
        make_hash("graph", **{"item": LATE["at"]}),
    ):
        page = tab.open(view)
        for menu in page.locator(".menu > summary:visible").all():
            menu.evaluate("one => { one.parentElement.open = true }")
        for role in ("button", "menuitem", "link"):
            expect(
                page.locator("main").get_by_role(role, name=words).locator("visible=true").filter(has_not_text="Keep")
            ).to_have_count(0)
    assert [one.url for one in tab.requests if one.method == "POST" and not one.url.endswith("/v1/recall")] == []


def test_each_right_shows_its_own_actions(open_tab: OpenTab, keys: dict[str, str]) -> None:
    for name, added in (("remember", ["Pin", "Correct …"]), ("forget", ["Forget …", "Forget the session …"])):
        page = open_tab(key=keys[name]).open(ASK)
        said = open_menu(page, page.locator(".result").first).locator("> *").all_inner_texts()
        assert {*said} == {*READING, *added}


def test_an_item_is_pinned_and_corrected(open_tab: OpenTab, keys: dict[str, str]) -> None:
    tab = open_tab(key=keys["remember"])
    page = tab.open(ASK)
    other, identity = find_item("t6", "2"), find_item("t6")
    card = page.locator(f".result[data-item='{other}']")
    with page.expect_response(lambda one: one.url.endswith(f"/v1/items/{other}/pin")) as posted:
        open_menu(page, card).get_by_role("button", name="Pin").click()
    assert posted.value.status == 202
    expect(page.locator("#toast")).to_contain_text("Pinned.")
    expect(card.locator(".menu > summary")).to_be_focused()
    card = page.locator(f".result[data-item='{identity}']")
    open_menu(page, card).get_by_role("button", name="Correct …").click()
    dialog = page.get_by_role("dialog", name="Correct this item")
    expect(dialog.locator("blockquote")).to_contain_text("We switched CI from Jenkins to Buildkite")
    text = dialog.get_by_role("textbox", name="The correction")
    expect(text).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    open_menu(page, card).get_by_role("button", name="Correct …").click()
    text.fill("We switched CI from Jenkins to Drone.")
    with page.expect_response(lambda one: one.url.endswith(f"/v1/items/{identity}/correct")) as posted:
        dialog.get_by_role("button", name="Replace it").click()
    assert posted.value.status == 202
    expect(dialog).to_be_hidden()
    expect(page.locator("#toast")).to_contain_text("Corrected.")
    answered = lambda: any("Drone" in one["text"] for one in tab.recall(query="why Buildkite for CI", now=NOW)["items"])  # noqa: E731
    wait_until(60, answered)
    press(page, "/", "Enter")  # the same question again
    expect(page.locator(".result", has_text="from Jenkins to Drone.").first).to_be_visible()
    page = tab.open(make_hash("session", **LATE))
    expect(page.locator("#session .turn.here .replaced")).to_contain_text("Drone")


def test_a_refused_action_says_why(open_tab: OpenTab, keys: dict[str, str]) -> None:
    tab = open_tab(refused=True, key=keys["remember"])
    page = tab.open(ASK)
    page.route("**/pin", lambda route: route.fulfill(status=409, json={"detail": "the store is read-only"}))
    open_menu(page, page.locator(".result").first).get_by_role("button", name="Pin").click()
    expect(page.locator("#toast")).to_have_text("the store is read-only")


def test_feedback_is_sent_by_the_owner(browser: Browser, store: Path) -> None:
    with serving(store, load()) as client, opening_tabs(browser, str(client.base_url).rstrip("/")) as make:
        tab = make()
        page = tab.open(ASK)
        card = page.locator(".result").first
        for label, kind in (("Helpful", "helpful"), ("Wrong", "wrong"), ("Mark as stale", "stale")):
            with page.expect_response(lambda one: one.url.endswith("/v1/feedback")) as posted:
                open_menu(page, card).get_by_role("button", name=label).click()
            assert posted.value.request.post_data_json == {"item": card.get_attribute("data-item"), "kind": kind}
            expect(page.locator("#toast")).to_have_text(f"Noted: {kind}")


def test_an_item_is_forgotten_after_a_preview_and_is_gone(open_tab: OpenTab, keys: dict[str, str]) -> None:
    tab = open_tab(refused=True, key=keys["forget"])
    question = "what did we decide against, too much to run"
    page = tab.open(make_hash("ask", q=question, project="shop", now=NOW))
    identity = find_item("t7")
    card = page.locator(f".result[data-item='{identity}']")
    open_menu(page, card).get_by_role("button", name="Forget …").click()
    dialog = page.get_by_role("dialog", name="Forget this item?")
    expect(dialog).to_contain_text("1 item would be removed from every")
    expect(dialog.locator(".going li")).to_contain_text("We decided against Kafka")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()  # Enter does no harm
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    assert identity in [item["id"] for item in tab.recall(query=question, project="shop", now=NOW)["items"]]
    open_menu(page, card).get_by_role("button", name="Forget …").click()
    dialog.get_by_role("button", name="Forget 1 item").click()
    done = page.get_by_role("dialog", name="Forgotten")
    expect(done).to_be_visible()
    done.locator("summary").click()
    expect(done.get_by_role("region", name="The receipt")).to_contain_text('"items"')
    done.get_by_role("button", name="Done").click()
    settle(page)
    expect(page.locator(".result").first).to_be_visible()
    expect(card).to_have_count(0)
    headers = {"authorization": f"Bearer {keys['forget']}"}
    assert httpx.get(f"{tab.url}/v1/items/{identity}/around", headers=headers).status_code == 404


def test_an_item_forgotten_in_its_session_is_not_in_the_answer_to_come_back_to(
    open_tab: OpenTab, keys: dict[str, str]
) -> None:
    tab = open_tab(refused=True, key=keys["forget"])
    identity = find_item("t5")
    page = tab.open(make_hash("ask", q="Jenkins for CI", project="shop", now=NOW))
    card = page.locator(f".result[data-item='{identity}']")
    click(card.get_by_role("link").first)
    open_menu(page, page.locator("#session .turn.here")).get_by_role("button", name="Forget …").click()
    page.get_by_role("dialog", name="Forget this item?").get_by_role("button", name="Forget 1 item").click()
    done = page.get_by_role("dialog", name="Forgotten")
    expect(done).to_be_visible()
    done.get_by_role("button", name="Done").click()
    page.go_back()
    settle(page)
    expect(page.locator(".result").first).to_be_visible()
    expect(card).to_have_count(0)


def test_a_session_is_kept_out_and_let_in_again(open_tab: OpenTab, keys: dict[str, str]) -> None:
    page = open_tab(key=keys[""]).open(make_hash("session", session="t6"))
    expect(page.get_by_role("button", name="Keep this session out")).to_have_count(0)
    tab = open_tab(key=keys["forget"])
    page = tab.open(make_hash("session", session="t6"))
    page.get_by_role("button", name="Keep this session out").click()
    again = page.get_by_role("button", name="Let this session in again")
    expect(again).to_be_visible()
    assert [one["session"] for one in tab.get("/v1/kept-out")["off"]] == ["t6"]
    page.reload()
    again.click()
    expect(page.get_by_role("button", name="Keep this session out")).to_be_visible()
    assert tab.get("/v1/kept-out")["off"] == []


def test_a_session_is_forgotten_and_kept_out(open_tab: OpenTab, keys: dict[str, str], store: Path) -> None:
    tab = open_tab(refused=True, key=keys["forget"])
    page = tab.open(make_hash("session", session="t2"))
    open_menu(page, page.locator("#session .turn").first).get_by_role("button", name="Forget the session …").click()
    dialog = page.get_by_role("dialog", name="Forget this session?")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Forget 1 item").click()
    done = page.get_by_role("dialog", name="Forgotten")
    expect(done).to_contain_text("the session stays out from now on")
    done.get_by_role("button", name="Done").click()
    expect(settle(page).locator("#session").get_by_role("alert")).to_contain_text("404")
    assert "t2" in [one.get("session") for one in list_off(store)]  # the key sees nothing of it any more
