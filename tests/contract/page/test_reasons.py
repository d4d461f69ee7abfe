"""Why an answer is as it is: ranks and shares, stages, context, what is left out; two profiles; the store's state."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import OpenTab, Tab, click, field, make_hash, open_reasons, press, settle
from tests.support.page_store import NOW, QUESTION


def test_why_shows_ranks_signals_and_shares_that_add_up(tab: Tab) -> None:
    question = {"query": "where does Zoe live", "now": NOW}
    page = tab.open(make_hash("ask", q=question["query"], now=NOW))
    found = tab.recall(**question)
    shares = {one["id"]: one["shares"] for one in found["trace"]["candidates"]}
    best = max(item["score"] for item in found["items"])
    assert any(share < 0 for one in found["items"] for share in shares[one["id"]].values())  # Oslo was superseded
    for i, item in enumerate(found["items"][:4]):
        card = page.locator(f"#rank-{i + 1}")
        assert card.locator(".why > *").count() == 0  # made on demand
        button = card.get_by_role("button", name="Why")
        button.click()
        expect(button).to_have_attribute("aria-expanded", "true")
        bar = card.locator(".why .shares[role=img]")
        expect(bar).to_be_visible()
        said = bar.get_attribute("aria-label") or ""
        for name, share in shares[item["id"]].items():
            if share:
                assert f"{name} " in said
            if share > 0:
                width = bar.locator(f".sig-{name}").evaluate("one => parseFloat(one.style.width)")
                assert width == pytest.approx(100 * share / best, abs=0.01)
        off = -sum(share for share in shares[item["id"]].values() if share < 0)
        expect(bar.locator(".taken")).to_have_count(1 if off else 0)
        if off:  # the rest is as long as the score
            left = bar.locator(".taken").evaluate("one => parseFloat(one.style.left)")
            assert left == pytest.approx(100 * item["score"] / best, abs=0.01)
        assert sum(shares[item["id"]].values()) == pytest.approx(item["score"], abs=1e-3)
        card.get_by_text("All numbers").click()
        table = card.locator(".values")
        adds = [
            float(text.replace("−", "-")) for text in table.locator("tbody td:last-child").all_inner_texts() if text
        ]
        assert sum(adds) == pytest.approx(float(table.locator("tfoot td").last.inner_text()), abs=0.004)
        why = " ".join(card.locator(".why").inner_text().split())
        for words in ("dense", "bm25", "by score", "Signals", "Salience is made of"):
            assert words in why
    button.click()
    expect(card.locator(".why")).to_be_hidden()


def test_an_answer_is_explained_once_and_only_on_demand(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=QUESTION, now=NOW))
    assert not [body for body in tab.list_questions() if "explain" in body]
    page.locator("#rank-1").get_by_role("button", name="Why").click()
    expect(page.locator("#rank-1 .why .said")).to_be_visible()
    page.locator("#rank-2").get_by_role("button", name="Why").click()
    expect(page.locator("#rank-2 .why .said")).to_be_visible()
    open_reasons(page)
    expect(page.locator(".waterfall")).to_be_visible()
    assert [body.get("explain") for body in tab.list_questions()] == [None, True]


def test_why_says_what_failed_and_tries_again(open_tab: OpenTab) -> None:
    tab = open_tab(refused=True)
    page = tab.open(make_hash("ask", q=QUESTION, now=NOW))
    page.route("**/v1/recall", lambda route: route.fulfill(status=503, json={"detail": "busy"}), times=1)
    why = page.locator("#rank-1").get_by_role("button", name="Why")
    why.click()
    expect(page.locator("#rank-1 .why").get_by_role("alert")).to_contain_text("503: busy")
    why.click()
    why.click()
    expect(page.locator("#rank-1 .why .said")).to_be_visible()


def test_the_signals_of_a_recipe_that_multiplies_are_listed(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=QUESTION, profile="annie"))
    page.locator("#rank-1").get_by_role("button", name="Why").click()
    expect(page.locator("#rank-1 .signals")).to_contain_text(re.compile(r"rrf\s+0\.03\d+\s+age_days\s"))


def test_the_stages_and_the_context_of_an_answer(tab: Tab) -> None:
    page = tab.open(make_hash("ask", q=QUESTION, now=NOW))
    found = tab.recall(query=QUESTION, now=NOW)
    how = open_reasons(page)
    expect(how.locator("summary").first).to_contain_text(f"{found['tokens']:,} tokens")
    rows = page.locator(".waterfall tbody tr")
    stages = {stage["stage"]: stage for stage in found["trace"]["stages"]}
    assert {*rows.locator("th").all_inner_texts()} == {
        "embed",
        *(name for name, one in stages.items() if "rows_out" in one),
    }
    fuse = stages["fuse"]
    assert (
        f"{' + '.join(map(str, fuse['rows_in'].values()))} → {fuse['rows_out']}"
        in rows.filter(has_text="fuse").inner_text()
    )
    for span in page.locator(".waterfall .span").all():
        left, width = span.evaluate("one => [parseFloat(one.style.left), parseFloat(one.style.width)]")
        assert 0 <= left <= left + width <= 100.01
    expect(page.get_by_role("img", name=f"{found['tokens']:,} of 2,000 tokens")).to_be_visible()
    context = page.get_by_role("region", name="The packed context")
    assert " ".join(context.inner_text().split()) == " ".join(found["context"].split())
    listed = [place for place in found["packed"] if place < len(found["items"])]
    assert page.locator(".number").all_inner_texts() == [str(place + 1) for place in listed]
    expect(page.locator(".result .packed")).to_have_count(len(listed))
    page.get_by_role("button", name=f"to item {listed[-1] + 1}", exact=True).click()
    expect(page.locator(f"#rank-{listed[-1] + 1} [data-stop]")).to_be_focused()


def test_dropped_candidates_show_their_reason(open_tab: OpenTab) -> None:
    tab = open_tab(refused=True)
    question = {"query": QUESTION, "k": 3, "budget": 70, "project": "holidays", "now": NOW}
    page = tab.open(
        make_hash("ask", q=QUESTION, **{name: question[name] for name in ("k", "budget", "project", "now")})
    )
    found = tab.recall(**question)
    inside = [i for i in range(3) if page.locator(f"#rank-{i + 1} .packed").count()]
    assert inside == sorted(found["packed"])
    assert 0 < len(inside) < 3
    open_reasons(page)
    left = page.get_by_role("region", name="Left out")
    route = found["trace"]["stages"][0]
    expect(left).to_contain_text(f"route {route['rows_in'] - route['rows_out']} outside the filters")
    expect(left).to_contain_text(f"pack {3 - len(found['packed'])} no room in 70 tokens")
    group = left.locator("details", has_text="below the last shown item")
    click(group.locator("summary"))
    entry = group.locator("li").first
    identity = entry.get_by_role("link").inner_text()
    text = tab.get(f"/v1/items/{identity}/around", before=0, after=0)["items"][0]["text"]
    expect(entry).to_contain_text(text[:40])
    expected = tab.recall(**question, why_not=identity)["trace"]["why_not"]
    assert expected.startswith("rank: rank ")
    entry.get_by_role("button", name=f"Why not {identity}?").click()
    answer = page.get_by_role("region", name="Why not?").locator("output")
    expect(answer).to_have_text(f"{identity} {expected}")
    expect(page.locator("#live")).to_have_text(expected)
    field(page, "Item id").fill("f" * 16)
    field(page, "Item id").press("Enter")
    expect(answer).to_contain_text(f"no live item has the id '{'f' * 16}'")


def test_two_profiles_are_compared(tab: Tab) -> None:
    question = "database is locked"  # some items rise, some fall
    page = tab.open(make_hash("compare", q=question, a="helix", b="helix-paper", now=NOW))
    sides = [tab.recall(query=question, profile=name, now=NOW) for name in ("helix", "helix-paper")]
    left, right = ([item["id"] for item in one["items"]] for one in sides)
    both = set(left) & set(right)
    expect(page.locator("#compare .summary")).to_contain_text(f"{len(both)} of {len({*left, *right})} items in both")
    expect(page.locator("svg.lines path")).to_have_count(len(both))
    places = {one: left.index(one) - i for i, one in enumerate(right) if one in both}  # higher on the right
    moved = [f"{places[one]:+d}".replace("-", "−").replace("+0", "=") if one in both else "only here" for one in right]
    assert {one[0] for one in moved} >= {"+", "−"}
    said = page.get_by_role("region", name="helix-paper").locator(".moved").all_inner_texts()
    assert [line.split("\n")[0] for line in said] == moved
    tokens = page.get_by_role("row", name=re.compile("tokens of the context"))
    expect(tokens).to_contain_text(re.compile(rf"{sides[0]['tokens']:,}\s*{sides[1]['tokens']:,}"))
    field(page, "Right").select_option("memoria")
    page.get_by_role("button", name="Compare").click()
    expect(settle(page).get_by_role("region", name="memoria")).to_be_visible()
    click(page.get_by_role("link", name="memoria"))
    assert tab.list_questions()[-1]["profile"] == "memoria"
    expect(page.locator(".result").first).to_be_visible()


def test_the_status_shows_the_store_and_its_newest_generation(tab: Tab) -> None:
    state, known = tab.get("/v1/status"), tab.get("/v1/choices")
    page = tab.open("#/status")
    names, figures = (page.locator(f".tile {part}").all_inner_texts() for part in ("h2", ".figure"))
    said = dict(zip(names, figures, strict=True))
    assert (said["generation"], said["items"]) == (str(state["serving"]), f"{state['items']:,}")
    assert (said["encoder"], said["waiting"], said["given up"]) == (state["encoder"], "0", "0")
    serving = page.locator("#serving")
    expect(serving).to_have_text(f"{known['items']} itemsgeneration {known['snapshot']}")
    page.route("**/v1/choices", lambda route: route.fulfill(json={**known, "snapshot": 1, "items": 3}), times=1)
    page.goto("about:blank")
    tab.open("#/ask")
    expect(serving).to_have_text("3 itemsgeneration 1")
    page.locator("#q").fill("Priya")
    press(page, "Enter")  # an answer of another generation
    expect(serving).to_have_text(f"{known['items']} itemsgeneration {known['snapshot']}")
