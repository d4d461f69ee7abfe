"""The site that MkDocs builds of docs/: every link and anchor leads somewhere, and nothing comes from other hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.exceptions import PluginError

from pipelines.cli import site_links
from pipelines.cli.site_links import relink
from tests.support.pages import PAGES, anchors
from tests.support.paths import ROOT

MKDOCS = (
    str(Path(sys.executable).with_name("mkdocs")),
    "build",
    "--strict",
)  # --quiet would hide warnings from --strict

pytestmark = pytest.mark.usefixtures("processes")

WORKFLOW = ROOT / ".github" / "workflows" / "docs.yml"


class Html(HTMLParser):
    """A page of the site: its links, the files it loads, its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {"__top"}
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag in ("link", "script", "img", "iframe", "object", "source"):
            self.loads += [given[name] for name in ("href", "src", "data", "srcset") if name in given]
        elif "href" in given:
            self.links.append(given["href"])


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [*MKDOCS, "--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Html]:
    """The pages of the site, by path below its folder."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Html(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def follow(page: Path, link: str) -> tuple[Path, str]:
    """Return the file and the anchor that a link of a page leads to."""
    parts = urlsplit(link)
    return (page.parent / unquote(parts.path)).resolve() if parts.path else page, unquote(parts.fragment)


def test_each_link_and_anchor_of_the_site_leads_somewhere(site: dict[Path, Html]) -> None:
    """Break: have `relink` leave the file's name out of a link."""
    wrong = []
    for page, html in site.items():
        for link in (one for one in [*html.links, *html.loads] if not urlsplit(one).scheme):
            place, anchor = follow(page, link)
            place = place / "index.html" if place.is_dir() else place
            if not place.exists() or (anchor and place.suffix == ".html" and anchor not in site[place].anchors):
                wrong.append(f"{page.name}: {link}")
    assert not wrong
    assert len(site) > 60


def test_headings_have_the_anchors_of_code_hosts(site: dict[Path, Html]) -> None:
    """Break: take `slugify` out of mkdocs.yml."""
    home = min(site, key=lambda page: len(page.parts)).parent
    places = {
        page: page.removeprefix("docs/") for page in PAGES if page.startswith("docs/") and "/quality/" not in page
    }
    places |= {page: place for page, place in site_links.PAGES.items() if place.endswith(".md")}
    assert len(places) > 60
    for page, place in places.items():
        built = home / place.replace("README.md", "index.md").replace(".md", ".html")
        assert anchors(ROOT / page) <= site[built].anchors, page


def test_the_site_loads_nothing_from_other_hosts(site: dict[Path, Html]) -> None:
    """Break: take `font: false` out of mkdocs.yml."""
    loads = {one for html in site.values() for one in html.loads if urlsplit(one).netloc}
    assert not loads


def test_every_page_is_reached_from_the_home_page(site: dict[Path, Html]) -> None:
    home = next(page for page in site if page.name == "index.html" and page.parent.name != "decisions")
    reached, waiting = {home}, [home]
    while waiting:
        page = waiting.pop()
        for link in (one for one in site[page].links if not urlsplit(one).scheme):
            place = follow(page, link)[0]
            if place in site and place not in reached:
                reached.add(place)
                waiting.append(place)
    assert reached == set(site)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[a](reference/rest.md#nowhere)", "does not contain an anchor"),
        ("[a](nowhere.md)", "leads to no file"),
        ("[a](../helix/redact/SECRETS-NOTICE.md)", "is no page of the site"),
    ],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, line: str, fault: str) -> None:
    for path in ROOT.iterdir():
        if path.name not in ("docs", "mkdocs.yml", "site"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "start.md").open("a") as page:
        page.write(f"\n{line}\n")
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1
    assert fault in done.stdout + done.stderr


def test_links_are_rewritten_for_the_site() -> None:
    page = (
        "[f](../../helix/snapshot/FORMAT.md#files) [r](../../README.md) [c](../../helix/types.py) [x](https://a.b/c.md)"
    )
    expected = "[f](store-format.md#files) [r](../README.md) c [x](https://a.b/c.md)"
    assert relink(page, "reference/rest.md", ROOT) == expected
    assert relink(f"```\n{page}\n```", "reference/rest.md", ROOT) == f"```\n{page}\n```"
    assert relink("[a](docs/start.md)", "changes.md", ROOT) == "[a](start.md)"  # of CHANGELOG.md
    assert (
        relink("[recall.md](explanation/recall.md)", "start.md", ROOT) == "[How a recall works](explanation/recall.md)"
    )
    with pytest.raises(PluginError, match="leads to no file"):
        relink("[a](none.md)", "reference/rest.md", ROOT)


def test_the_workflow_is_valid() -> None:
    check = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*check, str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "mkdocs build --strict" in WORKFLOW.read_text()
