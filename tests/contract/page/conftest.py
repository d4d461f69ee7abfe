"""A store, a server and a browser for the tests of the page: one each a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from helix.settings import load
from tests.conftest import copy_store
from tests.support.browser import OpenTab, Tab, opening_tabs, start_browser
from tests.support.page_store import make_store
from tests.support.serving import serving


@pytest.fixture(scope="session")
def page_store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of `tests.support.page_store`, to copy only."""
    return make_store(sample_store, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def store(page_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store that the tests of a module serve."""
    return copy_store(page_store, tmp_path_factory.mktemp("page-copy") / "store")


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    """The address of a server that needs no key."""
    with serving(store, load()) as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once a module: while it runs, no other test of this process may have an event loop."""
    with start_browser() as started:
        yield started


@pytest.fixture
def open_tab(browser: Browser, url: str) -> Iterator[OpenTab]:
    with opening_tabs(browser, url) as make:
        yield make


@pytest.fixture
def tab(open_tab: OpenTab) -> Tab:
    return open_tab()
