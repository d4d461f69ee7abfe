"""Hooks of MkDocs (`mkdocs.yml`): pages from outside docs/, and links that work on the site as on a code host.

In a checkout a page links to any file by its path. On the site the files of PAGES are pages of their own, a link whose
text is a file's name shows the page's title, and a link to any other file or folder outside docs/ is its text alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the extra `docs` brings MkDocs; this module is in every installation
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS: Final = "docs"

PAGES: Final = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "how-to/contributing.md",
    "helix/encoders/data/ranker/README.md": "explanation/ranker-card.md",
    "helix/snapshot/FORMAT.md": "reference/store-format.md",
    "notebooks/01_tour.ipynb": "notebooks/01_tour.ipynb",
    "notebooks/02_anatomy_of_a_recall.ipynb": "notebooks/02_anatomy_of_a_recall.ipynb",
    "notebooks/03_quality_and_speed.ipynb": "notebooks/03_quality_and_speed.ipynb",
    "notebooks/04_profiles.ipynb": "notebooks/04_profiles.ipynb",
    "pipelines/eval/data/changes/GUIDE.md": "how-to/histories.md",
}
"""Path in the checkout → path on the site, for files outside docs/."""

_FENCES: Final = re.compile(r"(^[ ]*```.*?^[ ]*```[ ]*$)", re.M | re.S)
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<label>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
_ADDRESS: Final = re.compile(r"[a-z]+:")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files of PAGES."""
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    for path, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=os.fspath(root / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links as the site needs them.

    Raises:
        PluginError: a link leads to no file, or to a Markdown file outside docs/ that PAGES lacks.
    """
    root = Path(config.config_file_path).parent
    return relink(markdown, page.file.src_uri, root)


def relink(markdown: str, place: str, root: Path) -> str:
    """Return a page, which is at `place` on the site, with its links rewritten for it.

    Raises:
        PluginError: as in `on_page_markdown`.
    """
    from mkdocs.exceptions import PluginError

    path = next((path for path, there in PAGES.items() if there == place), f"{DOCS}/{place}")

    def rewrite(link: re.Match[str]) -> str:
        if link["target"].startswith("#") or _ADDRESS.match(link["target"]):
            return link[0]
        target, _, anchor = link["target"].partition("#")
        there = normpath(f"{dirname(path)}/{target}".lstrip("/"))
        label = f"{link['image']}[{link['label']}]"  # of a file's name: the page's title
        on_site = _find_place(there)
        if not (root / there).exists():
            raise PluginError(f"{path}: the link {link['target']} leads to no file; mend the link")
        if (root / there).is_dir() or on_site is None:
            if there.endswith(".md"):
                raise PluginError(
                    f"{path}: {there} is no page of the site; add it to PAGES in pipelines/cli/site_links.py"
                )
            return link["label"]
        if link["label"] == there.rpartition("/")[2]:
            label = f"[{_read_title(root / there)}]"
        return f"{label}({relpath(on_site, dirname(place) or '.')}{f'#{anchor}' if anchor else ''})"

    parts = _FENCES.split(markdown)
    return "".join(part if i % 2 else _LINK.sub(rewrite, part) for i, part in enumerate(parts))


def _read_title(page: Path) -> str:
    """Return the first heading of a Markdown file; its name where it has none."""
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.M)
    return found[1].strip() if found else page.name


def _find_place(path: str) -> str | None:
    """Return the place of a file of the checkout on the site; None for one that is not on it."""
    if path == "README.md":
        return "README.md"  # the site's own home
    return path.removeprefix(f"{DOCS}/") if path.startswith(f"{DOCS}/") else PAGES.get(path)
