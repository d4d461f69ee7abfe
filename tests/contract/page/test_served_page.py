"""The page as it is served: its policy, its size, its libraries; a key; a server that stops and comes back."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Route, expect

from helix.settings import load
from query import auth
from query.rest import PAGE
from query.serve import make_policy
from tests.support.browser import OpenTab, click, make_hash, press, settle
from tests.support.page_store import NOW, QUESTION
from tests.support.processes import pick_port
from tests.support.serving import ServerProcess, serving

BUDGET = 250_000
"""Bytes of all files of the page, as sent."""
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())


def test_the_policy_of_the_page_allows_no_inline_code(url: str) -> None:
    answer = httpx.get(url)
    policy = {
        name: words for name, *words in (part.split() for part in answer.headers["content-security-policy"].split(";"))
    }
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
    assert policy["require-trusted-types-for"] == ["'script'"]
    assert policy["trusted-types"] == ["'none'"]
    assert not [
        word for words in policy.values() for word in words if "unsafe" in word or "*" in word or "http" in word
    ]
    page = answer.text
    assert not re.search(r"<[^>]+\s(?:style|on[a-z]+)\s*=", page)
    assert "<style" not in page
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert all(re.match(r"(?:/page/|#)", link) for link in re.findall(r'(?:src|href)="([^"]+)"', page))


def test_the_browser_holds_the_page_to_its_policy(open_tab: OpenTab) -> None:
    """The page works under its policy (no test of this folder sees an error in the console), which forbids the rest."""
    tab = open_tab(refused=True)
    page = tab.open(make_hash("ask", q=QUESTION, now=NOW))
    expect(page.locator(".result").first).to_be_visible()
    sinks = {
        "innerHTML": "document.body.innerHTML = '<p>x</p>'",
        "script": "document.createElement('script').src = '/page/boot.js'",
        "policy": "trustedTypes.createPolicy('own', {})",
    }
    for name, sink in sinks.items():
        said = page.evaluate(f"() => {{ try {{ {sink}; return 'allowed' }} catch (error) {{ return error.name }} }}")
        assert said == "TypeError", name
    tab.errors.clear()  # the browser reports each of them
    expect(page.locator(".result").first).to_be_visible()


def test_the_files_of_the_page_are_sent_small(url: str) -> None:
    assert len(FILES) > 40
    total = 0
    with httpx.Client(base_url=url, headers={"accept-encoding": "gzip"}) as client:
        for path in FILES:
            name = "/" if path.name == "index.html" else f"/page/{path.relative_to(PAGE).as_posix()}"
            with client.stream("GET", name) as answer:
                raw = b"".join(answer.iter_raw())
                assert answer.status_code == 200, name
            total += len(raw)
            if path.suffix in (".js", ".css") and path.stat().st_size >= 1000:
                assert answer.headers["content-encoding"] == "gzip", name
                assert gzip.decompress(raw) == path.read_bytes()
                assert "accept-encoding" in answer.headers["vary"].lower()
    assert total <= BUDGET, total
    plain = httpx.get(f"{url}/page/style.css", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == (PAGE / "style.css").read_bytes()


def test_the_libraries_are_those_that_the_readme_names() -> None:
    text = (PAGE / "vendor" / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w.-]+\.js)` .*`([0-9a-f]{64})` \|$", text, flags=re.MULTILINE))
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (PAGE / "vendor").glob("*.js")}
    assert rows == files
    for name in files:
        assert (PAGE / "vendor" / name.replace(".js", ".LICENSE")).stat().st_size > 0


def test_the_sources_make_no_html_and_name_no_other_server() -> None:
    for path in FILES:
        if path.parent.name == "vendor":
            continue
        text = path.read_text("utf-8")
        links = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"`]*", re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        assert set(links) <= {"http://www.w3.org/2000/svg"}, path.name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert word not in text, (path.name, word)


def test_a_key_is_requested_and_stored_in_the_tab(store: Path, open_tab: OpenTab) -> None:
    key, _ = auth.create_key(auth.get_key_file(store, load()), "ana", projects=["holidays"])
    policy = replace(make_policy("127.0.0.1", load(), keyed=True), token="")
    with serving(store, load(), policy) as client:
        tab = open_tab(str(client.base_url).rstrip("/"), refused=True)
        page = tab.page
        page.goto(f"{tab.url}/{make_hash('ask', q=QUESTION)}")
        dialog = page.get_by_role("dialog", name="This server requires a key")
        expect(dialog).to_contain_text("no API key")
        page.keyboard.type("hx_wrong")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("this key is unknown")
        dialog.get_by_label("API key").fill(f" {key}\n")
        dialog.get_by_role("button", name="Use it").click()
        expect(page.locator(".result").first).to_be_visible()
        assert all("holidays" in text for text in page.locator(".result .from").all_inner_texts())
        asked = [one for one in tab.requests if one.url.endswith("/v1/recall")]
        assert asked[-1].headers["authorization"] == f"Bearer {key}"
        assert key not in page.url
        assert key not in page.evaluate("JSON.stringify(localStorage)")
        page.reload()
        expect(page.locator(".result").first).to_be_visible()
        expect(dialog).to_be_hidden()
        page.goto(f"{tab.url}/#/status")
        late: list[Route] = []
        page.route("**/v1/choices", lambda route: late.append(route))
        with page.expect_request("**/v1/choices"):
            page.get_by_role("button", name="Forget the key of this tab").click()
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name="Cancel").click()
        with page.expect_response("**/v1/choices"):
            late[0].continue_()
        expect(settle(page).locator("#status").get_by_role("alert")).to_contain_text("401: no API key")
        expect(dialog).to_be_hidden()  # the user has refused already


@pytest.mark.usefixtures("processes")
def test_a_server_that_stops_is_named_and_comes_back(store: Path, open_tab: OpenTab) -> None:
    port = pick_port()
    with ServerProcess(store, port=port) as server:
        tab = open_tab(server.wait_for_status().url, refused=True)
        tab.open("#/decisions")
        page = tab.open(make_hash("session", session="t6"))
        turn = page.locator("#session .turn").first
        expect(turn).to_be_visible()
    line = page.locator("#offline")
    expect(line).to_be_hidden()
    page.locator("#session .menu > summary").first.click()
    page.get_by_role("button", name="Helpful").click()
    expect(line).to_contain_text("The server does not answer. What you see stays")
    expect(turn).to_be_visible()
    click(page.get_by_role("link", name="Decisions", exact=True))
    expect(page.locator("#decisions .topic").first).to_be_visible()  # as it was
    page.goto(f"{tab.url}/{make_hash('session', session='t5')}")  # another session, whose turns were not loaded yet
    expect(page.locator("#session .empty")).to_contain_text("Nothing was loaded yet")
    click(page.get_by_role("link", name="Compare", exact=True))  # whose code was not loaded yet
    expect(page.get_by_role("alert").locator("visible=true")).to_contain_text("the server does not answer")
    page.locator("#q").fill("why Buildkite for CI")
    expect(line).to_be_visible()
    line.get_by_role("button", name="Try now").click()
    expect(line).to_be_visible()
    with ServerProcess(store, port=port) as server:
        server.wait_for_status()
        expect(line).to_be_hidden()
        expect(page.locator(".result").first).to_contain_text("Buildkite")  # the question that could not be asked
        press(page, "Escape", "g", "d")
        expect(page.locator("#decisions .topic").first).to_be_visible()
