"""The page in stock Firefox: its views, an answer while typing, keys, forgetting, and hostile memories as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from helix.settings import load
from tests.conftest import copy_store
from tests.support.agent_log import write_harbour_logs
from tests.support.firefox import FirefoxTab, find_firefox, running_firefox
from tests.support.processes import pick_port
from tests.support.serving import ServerProcess

HOSTILE = (
    '<img src=x onerror="window.broken=1"> </memory> <script>window.broken=2</script> [a](javascript:window.broken=3)'
)
SECRET = "The pass phrase of the harbour gate is halibut."
NOTES = (
    {"session": "t1", "id": "1", "speaker": "Mallory", "text": HOSTILE, "ts": "2026-04-02"},
    {"session": "t2", "id": "1", "speaker": "Zoe", "text": SECRET, "ts": "2026-04-03"},
    {"session": "t2", "id": "2", "speaker": "Zoe", "text": "The gate opens at six.", "ts": "2026-04-03"},
)
ASK = "#/ask?q=webhook+twice"
VIEWS = (
    *("#/home", ASK, "#/ask", "#/session?session=c3", "#/session?session=aaaa0002", "#/sessions", "#/decisions"),
    *("#/subject?name=Redis", "#/people", "#/files", "#/graph", "#/compare?q=webhook+twice", "#/status"),
)
WATCH = """() => {
  window.refused = [];
  addEventListener('securitypolicyviolation', (event) => refused.push(event.violatedDirective));
}"""


@pytest.fixture(scope="module")
def url(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the sample, a session of an agent, and the notes."""
    from pipelines.embedded.ingest import ingest

    folder = tmp_path_factory.mktemp("firefox")
    store = copy_store(sample_store, folder / "store")
    write_harbour_logs(folder / "logs")
    (folder / "logs" / "notes.jsonl").write_text("".join(f"{json.dumps(note)}\n" for note in NOTES))
    assert not ingest(store, [folder / "logs"], load()).refused
    with ServerProcess(store, port=pick_port()) as server:
        yield server.wait_for_status().url


@pytest.fixture(scope="module")
def firefox() -> Iterator[FirefoxTab]:
    """Firefox, started once a module."""
    binary = find_firefox()
    if binary is None:
        pytest.skip("no Firefox: run `make firefox`, or name one in FIREFOX")
    with running_firefox(binary) as tab:
        tab.run_first(WATCH)
        yield tab


@pytest.fixture
def tab(firefox: FirefoxTab, url: str) -> Iterator[FirefoxTab]:
    """The tab, in which nothing may fail, and from which nothing may be requested elsewhere."""
    firefox.base = url
    firefox.errors.clear()
    firefox.requests.clear()
    firefox.resize(1280, 800)
    yield firefox
    assert firefox.evaluate("window.refused") == []
    assert firefox.errors == []
    assert [one for one in firefox.requests if not one.startswith((f"{url}/", "about:", "data:"))] == []


def make_hash(view: str, **params: str) -> str:
    return f"#/{view}?{urlencode(params)}"


def test_every_view_opens_and_fits_a_phone(tab: FirefoxTab) -> None:
    for view in VIEWS:
        tab.resize(1280, 800)
        tab.open(view)
        assert len(tab.get_text("main")) > 20, view
        assert tab.evaluate("document.querySelectorAll('main .notice.bad:not([hidden])').length") == 0, view
        assert tab.evaluate("window.refused") == [], view
        for width in (768, 390, 360):
            tab.resize(width, 800)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (view, width)


def test_an_answer_appears_while_its_question_is_typed(tab: FirefoxTab) -> None:
    tab.open("#/home")
    tab.press("/", *"webhook")
    tab.wait_for("location.hash === '#/ask?q=webhook'")
    tab.wait_for("document.querySelectorAll('.result').length === 10")
    marked = "[...document.querySelectorAll('.result mark')].some((one) => /timeout/i.test(one.textContent))"
    assert not tab.evaluate(marked)
    tab.press(*" visibility timeout")
    tab.wait_for("location.hash === '#/ask?q=webhook+visibility+timeout'")
    tab.wait_for(marked)
    assert tab.evaluate("document.activeElement.id") == "q"
    # The conversation of the best item is next to it.
    tab.wait_for("document.querySelector('.pane .turn.here')")


def test_keys_reach_items_sessions_views_and_the_palette(tab: FirefoxTab) -> None:
    tab.open(ASK)
    focused = "document.activeElement.closest('.result')?.id"
    tab.press("j")
    assert tab.evaluate(focused) == "rank-1"
    tab.press("j", "j", "k")
    assert tab.evaluate(focused) == "rank-2"
    tab.press("w")
    tab.wait_for("document.querySelector('#why-2:not([hidden])').textContent.includes('score')")
    tab.press("Escape")
    assert tab.evaluate("document.querySelector('#why-2').hidden")
    tab.press("Enter")
    tab.wait_for("location.hash.startsWith('#/session')")
    tab.wait_for("document.querySelector('#session .turn.here')")
    tab.press("Escape")
    tab.wait_for(f"location.hash === '{ASK}'")
    tab.press("g", "p")
    tab.wait_for("location.hash === '#/people'")
    tab.press("Control+k")
    tab.wait_for("document.querySelector('#palette').open")
    tab.press(*"weekly plan")
    tab.wait_for("document.querySelector('#palette [aria-selected=true]').textContent.startsWith('Ledgerline weekly')")
    tab.press("Enter")
    tab.wait_for("document.querySelector('#session h1').textContent.startsWith('Ledgerline weekly planning')")
    tab.press("?")
    assert tab.evaluate("document.querySelector('#keys-dialog').open")
    tab.press("Escape")
    assert not tab.evaluate("document.querySelector('#keys-dialog').open")


def test_a_session_reads_with_its_calls_folded(tab: FirefoxTab) -> None:
    tab.open("#/session?session=aaaa0002")
    turns = tab.evaluate("[...document.querySelectorAll('#session .turn .text')].map((one) => one.textContent.trim())")
    assert turns[0] == "build the tool"
    fold = "document.querySelector('#session .fold')"
    assert not tab.evaluate(f"{fold}.open")
    assert "go build" in tab.get_text("#session .fold")
    tab.click("#session .fold > summary")
    assert tab.evaluate(f"{fold}.open && {fold}.querySelector('pre').checkVisibility()")
    tab.wait_for("document.querySelector('#session .outline').textContent.includes('queue.py')")


def test_the_theme_is_that_of_the_system_or_the_chosen_one(tab: FirefoxTab) -> None:
    tab.open("#/decisions")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.evaluate(ground)
    tab.click("#theme")
    tab.click("#theme")
    dark = tab.evaluate(ground)
    assert sum(map(int, dark[4:-1].split(","))) < 200 < sum(map(int, light[4:-1].split(",")))
    tab.open("#/decisions")
    assert tab.evaluate(ground) == dark
    tab.click("#theme")
    assert tab.evaluate(ground) == light


def test_foreign_text_stays_text(tab: FirefoxTab) -> None:
    for view in (
        *("#/session?session=t1", make_hash("ask", q="Mallory", speaker="Mallory"), make_hash("ask", q=HOSTILE)),
        *(make_hash("subject", name=HOSTILE[:90]), make_hash("compare", q=HOSTILE[:90])),
    ):
        tab.open(view)
        if "subject" not in view:
            seen = (
                f"{tab.get_text('main')} {tab.evaluate('[...document.querySelectorAll(`input`)].map((i) => i.value)')}"
            )
            assert '<img src=x onerror="window.broken=1">' in seen, view
        assert tab.evaluate("window.broken") is None, view
        assert (
            tab.evaluate("document.querySelectorAll('main img, main script, main a[href^=javascript]').length") == 0
        ), view


def test_forgetting_shows_a_preview_and_a_receipt(tab: FirefoxTab) -> None:
    tab.open("#/session?session=t2")
    tab.click("#session .turn .menu > summary")
    tab.click("#session .turn .menu[open] .bad")
    tab.wait_for("document.querySelector('#act-dialog').open")
    assert SECRET in tab.get_text("#act-dialog")
    tab.press("Escape")
    assert not tab.evaluate("document.querySelector('#act-dialog').open")
    assert SECRET in tab.get_text("#session")
    tab.click("#session .turn .menu > summary")
    tab.click("#session .turn .menu[open] .bad")
    tab.click("#act-dialog .danger")
    tab.wait_for("document.querySelector('#act-title').textContent === 'Forgotten'", 60)
    assert "halibut" not in tab.get_text("#act-dialog")
    assert json.loads(tab.get_text("#act-dialog pre"))
    tab.press("Escape")
    tab.wait_for("document.querySelectorAll('#session .turn').length === 1")
    assert "halibut" not in tab.get_text("main")
