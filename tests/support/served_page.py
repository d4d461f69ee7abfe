"""Stores for pictures and measurements of the page, and the programs of browsers."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from helix.settings import load
from pipelines.embedded.ingest import ingest
from tests.support.agent_log import write_harbour_logs
from tests.support.paths import DATA
from tests.support.processes import pick_port
from tests.support.serving import ServerProcess

SAMPLE: Final = Path(str(files("helix") / "sample"))
LOGS: Final = ("codex.jsonl", "opencode_export.json")
CHROMIUM_OPTIONS: Final = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--font-render-hinting=none"),
]


def find_chromium() -> str | None:
    """Return the program of Chromium: that of CHROMIUM, else the first one on the path."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextlib.contextmanager
def running_chromium() -> Iterator[Browser]:
    """Start a Chromium without a window, and end it."""
    binary = find_chromium()
    assert binary, "no Chromium: run `make chromium`, or name one in CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


def make_store(folder: Path) -> Path:
    """Make a store of the sample, three sessions of a project harbour, and two logs of agents."""
    write_harbour_logs(folder / "logs")
    for name in LOGS:
        shutil.copy(DATA / "logs" / name, folder / "logs" / name)
    done = ingest(folder / "memory", [SAMPLE, folder / "logs"], load())
    assert not done.refused, done.refused
    return folder / "memory"


@contextlib.contextmanager
def serving_store(store: Path) -> Iterator[str]:
    """Serve a store in a process of its own; yield the address."""
    with ServerProcess(store, port=pick_port()) as server:
        yield server.wait_for_status().url
