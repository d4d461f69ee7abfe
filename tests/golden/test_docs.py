"""Examples of the README and of docs/ run: shell blocks in bash, Python page by page, code on a copy of Helix.

Files of other programs are parsed. Links, paths and options exist.
"""

from __future__ import annotations

import asyncio
import configparser
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from fastapi.testclient import TestClient
from mcp import Client, StdioServerParameters

from helix.recipes.load_profile import names
from helix.sdk.open import open as open_store
from helix.settings import load
from pipelines.cli import build_docs as docs
from pipelines.cli import overview_picture as overview
from pipelines.cli import site_links
from pipelines.cli.command_page import list_kinds
from query.mcp import build_server
from query.rest import create_app
from query.service import QueryService
from tests.support.page_arguments import KINDS, check_arguments, check_options
from tests.support.page_shell import ADDRESS, HELIX, NOT_RUN, World, find_reason, world
from tests.support.pages import PAGES, ROOT, Block, anchors, blocks, rows, spans, tokens


def list_blocks(*languages: str) -> list[Any]:
    """Each block in one of these languages, as a parameter."""
    return [
        pytest.param(page, one, id=f"{page}:{one.line}")
        for page in PAGES
        for one in blocks(page)
        if one.language in languages
    ]


LANGUAGES = {"sh", "console", "python", "diff", "toml", "json", "yaml", "ini", "nginx", "caddyfile", "text"}


def test_every_block_says_what_it_is() -> None:
    unknown = [f"{page}:{one.line}" for page in PAGES for one in blocks(page) if one.language not in LANGUAGES]
    assert not unknown


# ---------------------------------------------------------------- what is run


RUN = ("sh", "console", "python", "diff", "json")
"""Blocks that do something."""


@pytest.mark.parametrize("page", [page for page in PAGES if any(one.language in RUN for one in blocks(page))])
def test_a_page_runs(page: str, sample_store: Path, cache: Path, forks: Any, tmp_path: Path) -> None:
    """Its blocks one after the other, as somebody would who reads it."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    with world(page, tmp_path, sample_store, cache, forks) as here:
        for block in blocks(page):
            where = f"{page}:{block.line}"
            if (file := re.match(r"# ([\w./-]+\.(?:py|toml))\n", block.text)) and block.language in ("python", "toml"):
                (tmp_path / file[1]).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / file[1]).write_text(block.text)
            elif block.language == "python":
                exec(compile(here.localise(block.text), where, "exec"), scope)
            elif block.language == "diff":
                done = subprocess.run(
                    ["git", "apply", "-"], input=block.text, cwd=tmp_path, text=True, capture_output=True, check=False
                )
                assert done.returncode == 0, f"{where}: {done.stderr}"
            elif block.language in ("sh", "console"):
                lines = re.findall(r"^\$ (.*)$", block.text, re.M) if block.language == "console" else [block.text]
                done = here.bash(here.localise("\n".join(lines)))
                assert done.returncode == 0, f"{where}: {done.stdout}\n{done.stderr}"
            elif block.language == "json":
                servers(here, json.loads(here.localise(block.text)))
        for line in here.skipped:
            assert find_reason(line), f"{page}: {line!r} was not run, and NOT_RUN does not say why"


def servers(here: World, config: dict[str, Any]) -> None:
    """An agent that is configured so finds the tools."""
    for server in config.get("mcpServers", {}).values():
        if "command" in server:
            words = [str(here.folder / "memory") if word.startswith("/home/") else word for word in server["args"]]
            assert server["command"] == "helix"
            reach: Any = StdioServerParameters(command=HELIX[0], args=[*HELIX[1:], *words], env=here.environ)
        else:
            reach = server["url"]
        assert "recall" in asyncio.run(tools(reach))


async def tools(reach: Any) -> list[str]:
    async with Client(reach) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


# ---------------------------------------------------------------- what is not run


def test_each_skipped_command_is_on_a_page() -> None:
    shown = "\n".join(one.text for page in PAGES for one in blocks(page) if one.language == "sh")
    for begins in NOT_RUN:
        assert re.search(rf"(?m)(?:^|[;&|( ]){begins}", shown), f"{begins!r}: no page shows such a command any more"


def test_a_module_that_is_not_run_exists() -> None:
    for page in PAGES:
        for shown in [*spans(page), *(one.text for one in blocks(page) if one.language == "sh")]:
            for module in re.findall(r"python -m ([\w.]+)", shown):
                assert importlib.util.find_spec(module), f"{page}: there is no module {module}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist_with_their_options(page: str) -> None:
    for shown in spans(page):
        for said in re.findall(r"(?:^|\s)helix ([a-z]+(?![\w.])(?:[^|;]|\\\|)*)", shown):
            check_options(re.findall(r"[^\s\[\]()]+", said))


# ---------------------------------------------------------------- files of other programs


@pytest.mark.parametrize(("page", "block"), list_blocks("toml"))
def test_toml(page: str, block: Block) -> None:
    tomllib.loads(block.text)


@pytest.mark.parametrize(("page", "block"), list_blocks("yaml"))
def test_alerts_are_about_metrics_there_are(page: str, block: Block) -> None:
    if "jobs" in (content := yaml.safe_load(block.text)):
        lines = [line for job in content["jobs"].values() for step in job["steps"] for line in [step.get("run", "")]]
        for said in [line.split()[1:] for line in lines if line.startswith("helix ")]:
            check_options([word for word in said if word not in (">>", '"$GITHUB_STEP_SUMMARY"')])
        return
    code = "".join((ROOT / path).read_text() for path in ("query/metrics.py", "workers/metrics.py"))
    rules = [rule for group in yaml.safe_load(block.text)["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        for name in re.findall(r"helix_\w+", rule["expr"]):
            assert f'"{name.removesuffix("_bucket").removesuffix("_total")}"' in code, name


@pytest.mark.parametrize(("page", "block"), list_blocks("ini"))
def test_a_unit_starts_a_command(page: str, block: Block) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(block.text)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "helix"
    check_arguments(words)


@pytest.mark.parametrize(("page", "block"), list_blocks("nginx", "caddyfile"))
def test_a_proxy_goes_where_helix_listens(page: str, block: Block, tmp_path: Path) -> None:
    """By the proxy itself where it is installed; else its braces and the address alone."""
    assert ADDRESS in block.text
    assert block.text.count("{") == block.text.count("}")
    file = tmp_path / "config"
    if block.language == "caddyfile" and (caddy := shutil.which("caddy")):
        file.write_text(block.text)
        words = [caddy, "validate", "--adapter", "caddyfile", "--config", str(file)]
    elif block.language == "nginx" and (nginx := shutil.which("nginx")):
        served = re.sub(r"^ *ssl_certificate.*\n| ssl(?=;)", "", block.text, flags=re.M)  # there is no certificate here
        file.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ {served} }}")
        words = [nginx, "-t", "-p", str(tmp_path), "-c", str(file)]
    else:
        return
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    # nginx tries the folders of an installation, too.
    assert done.returncode == 0 or "syntax is ok" in done.stderr, done.stderr


# ---------------------------------------------------------------- links and paths


@pytest.mark.parametrize("page", sorted({*PAGES, *(page for page in site_links.PAGES if page.endswith(".md"))}))
def test_links_lead_somewhere(page: str) -> None:
    for one in tokens(page):
        link = one.attrs.get("src" if one.type == "image" else "href") if one.type in ("image", "link_open") else None
        if link is None or str(link).startswith(("https://", "http://")):
            continue
        path, _, anchor = str(link).partition("#")
        beside = ROOT / "docs" if page in PARTS else (ROOT / page).parent
        there = beside / path if path else ROOT / page
        assert there.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(there), f"{page}: {link}: the anchors are {sorted(anchors(there))}"


@pytest.mark.parametrize("notebook", sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb")))
def test_links_of_a_notebook_lead_somewhere(notebook: str) -> None:
    cells = json.loads((ROOT / "notebooks" / notebook).read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("http") or (ROOT / "notebooks" / link).exists(), link


FOLDERS = ("helix", "pipelines", "workers", "query", "tests", "docs", "notebooks")


@pytest.mark.parametrize("page", PAGES)
def test_paths_in_the_text_exist(page: str) -> None:
    for shown in spans(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", shown) and "NAME" not in shown:
            assert (ROOT / shown).exists(), f"{page}: {shown}"


PARTS = ("docs/quality/levers.md", "docs/quality/relevance.md")
"""Parts of docs/quality.md, no pages of their own; their links are seen from docs/."""


def list_links(page: str) -> set[str]:
    """Return the paths, from the top folder, of the files that a page links to."""
    links = (str(one.attrs["href"]).partition("#")[0] for one in tokens(page) if one.type == "link_open")
    places = (((ROOT / page).parent / link).resolve() for link in links if not link.startswith("http"))
    return {str(place.relative_to(ROOT)) for place in places}


def test_every_page_is_listed() -> None:
    pages = {page for page in PAGES if page.startswith("docs/") and "/decisions/0" not in page}
    assert pages - {*PARTS, "docs/README.md"} <= list_links("docs/README.md")
    assert {"docs/start.md", "docs/README.md"} <= list_links("README.md")
    folders = {Path(page).parts[1] for page in list_links("README.md") if page.startswith("docs/")}
    assert {"how-to", "reference", "explanation"} <= folders
    decisions = ROOT / "docs" / "decisions"
    listed = {one.attrs["href"] for one in tokens("docs/decisions/README.md") if one.type == "link_open"}
    assert {path.name for path in decisions.glob("*.md")} == {*listed, "README.md"}


# ---------------------------------------------------------------- what is made from code


def test_the_settings_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    assert docs.replace_settings(page) == page, "run 'python -m pipelines.cli.build_docs'"


def test_the_commands_are_those_of_the_parsers() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert docs.render_commands() == page, "run 'python -m pipelines.cli.build_docs'"
    for name, kinds in KINDS.items():
        assert set(kinds) <= set(list_kinds(name))


def test_the_overview_is_drawn_by_the_code_and_fits_its_boxes() -> None:
    svg = (ROOT / "docs" / "overview.svg").read_text("utf-8")
    assert overview.draw_overview() == svg, "run 'python -m pipelines.cli.build_docs'"
    ElementTree.fromstring(svg)
    assert all(len(line) <= 24 for box in overview.BOXES for line in box.lines)  # 8 units a letter at most


def test_the_weights_name_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.match(r"[\w-]+", one)[0] for one in project["dependencies"]}  # type: ignore[index]
    assert {row[0].strip("`") for row in rows("docs/reference/weight.md", "| package | MB | what")} == needed


def test_the_picture_is_of_the_sample(sample_store: Path) -> None:
    """Drawn now, it is well-formed and shows the best items; the stored one as many items of the same answer.

    Processors round vectors in their own way, so that items of little relevance may change places.
    """
    found = open_store(sample_store).recall(docs.QUESTION, now=docs.NOW, explain=True)
    drawn = docs.picture(docs.QUESTION, found)
    for svg in (drawn, (ROOT / "docs" / "recall.svg").read_text("utf-8")):
        said = [text.text or "" for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        assert {"embed", "dense", "lexical", "fuse", "graph", "rank", "diversify", "pack"} <= set(said)
        assert [text for text in said if text in {item.text for item in found.items}]
        shown = [docs._shorten(item.text) in said for item in found.items]
        assert shown[0]
        assert sum(shown) == docs.SHOWN
        assert all(shown[: docs.SHOWN]) or svg != drawn


def test_the_parts_of_a_score_are_all_of_it(sample_store: Path) -> None:
    found = open_store(sample_store).recall(docs.QUESTION, now=docs.NOW, explain=True)
    assert found.trace is not None
    candidates = {candidate["id"]: candidate for candidate in found.trace["candidates"]}
    for item in found.items:
        assert sum(docs.score_parts(candidates[item.id]).values()) == pytest.approx(item.score, abs=2e-3)


def test_the_readme_says_what_was_measured() -> None:
    shown = {row[0].split(",")[0].strip("`"): row[1:] for row in rows("README.md", "| | any@10 |")}
    legs = {"dense only": "dense", "BM25 only": "bm25", "both by equal ranks": "rrf"}
    legs["the same with `quality best"] = "helix, best"  # without the last accent, as the cell is stripped
    kept = (ROOT / "docs" / "quality.md").read_text("utf-8").partition("### locomo\n")[2]
    for name, (any10, recall10, mrr, pack, p95) in shown.items():
        row = legs.get(name, name)
        first, second = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", kept, re.M)[:2]
        wide, narrow = ([cell.split()[0] for cell in line.split(" | ")] for line in (first, second))
        measured = [narrow[2], wide[0], wide[3], wide[2], wide[8]]
        assert [float(cell) for cell in (any10, recall10, mrr, pack, p95)] == [float(cell) for cell in measured], name
    growth = {row[0]: row[1:3] for row in rows("docs/speed.md", "| items | p50 | p95 | p99 |")}
    for items, p50, p95, _ in rows("README.md", "| items | p50 | p95 |"):
        assert [p50, p95] == [f"{float(cell) + 1e-9:.1f}" for cell in growth[items]], items


def test_endpoints_and_tools_are_those_of_the_server(sample_store: Path) -> None:
    """Compare docs/reference/rest.md and docs/reference/mcp.md with the routes and tools of the server."""
    service = QueryService(sample_store, load())
    with TestClient(create_app(service)) as client:
        paths = set(client.get("http://127.0.0.1/openapi.json").json()["paths"])
    assert {
        path for row in rows("docs/reference/rest.md", "| | |") for path in re.findall(r"`(/[^`]*)`", row[0])
    } == paths
    served = asyncio.run(build_server(service).list_tools())
    table = rows("docs/reference/mcp.md", "| tool | arguments |")
    shown = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in table}
    assert shown == {tool.name: set(tool.input_schema["properties"]) for tool in served}


def test_the_recall_of_the_start_is_the_samples(sample_store: Path, run_helix) -> None:
    shown = next(block.text for block in blocks("docs/start.md") if block.language == "console")
    asked = re.findall(r'^\$ helix recall "(.*)"$', shown, re.M)
    found, nothing = (run_helix("recall", question, "--store", str(sample_store)).stdout for question in asked)
    # Figures differ a little from processor to processor: what is found is compared, and what is found first.
    texts = re.findall(r"^    (\S.*)$", shown, re.M)
    assert len(texts) == 3
    assert nothing.startswith("nothing relevant (")
    assert "context," not in nothing
    assert found.splitlines()[1].strip() == texts[0]
    assert all(f"    {text}\n" in found for text in texts)


def test_the_case_of_a_change_is_as_shown(tmp_path: Path, run_helix) -> None:
    """README.md and docs/explanation/time.md show its items, what replaced them, and its decisions, in this order."""
    (made,) = [block.text for block in blocks("docs/explanation/time.md") if "> shop.jsonl" in block.text]
    (tmp_path / "shop.jsonl").write_text("".join(f"{line}\n" for line in re.findall(r"^\{.*\}$", made, re.M)))
    run_helix("ingest", str(tmp_path / "shop.jsonl"), "--store", str(tmp_path / "shop"))
    shown = [block.text for page in ("README.md", "docs/explanation/time.md") for block in blocks(page)]
    of_case = "\n".join(text for text in shown if text.startswith("$ helix") and "Buildkite" in text)
    calls = re.findall(r"^\$ helix (.*)\n((?:(?!\$ ).*\n?)+)", of_case, re.M)
    assert len(calls) >= 6
    for call, lines in calls:
        words = [word for word in shlex.split(call) if word not in ("--store", "shop")]
        moment = [] if "--as-of" in words else [{"recall": "--now", "decisions": "--as-of"}[words[0]], "2026-10-01"]
        found = drop_scores(run_helix(*words, *moment, "--store", str(tmp_path / "shop")).stdout)
        place = 0
        for line in drop_scores(lines).splitlines():
            if line.strip() not in ("…", ""):
                place = found.find(line, place)
                assert place >= 0, f"{call}: {line}"


def drop_scores(text: str) -> str:
    """Return an answer without relevance, which differs between processors, and without ids of items."""
    return re.sub(r"(?m)^( ?\d+) +<?\d+%|\b[0-9a-f]{8}(?:[0-9a-f]{8})?\b", r"\1", text)


def test_every_profile_has_its_figures() -> None:
    for name in names():
        assert re.search(rf"^\| `{name}`", (ROOT / "README.md").read_text("utf-8"), re.M), name


def test_the_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text("utf-8")):
        assert re.search(rf"^{target}:", makefile, re.M), target
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
