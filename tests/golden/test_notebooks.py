"""The notebooks run from top to bottom, show what they say, and what is stored in them is what they show."""

from __future__ import annotations

import ast
import base64
import functools
import io
import json
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib.font_manager  # noqa: F401  builds its cache here, where no notebook tells of it
import nbformat
import pytest
from nbformat import NotebookNode
from PIL import Image

from notebooks import refresh, results
from tests.conftest import STORE_SOURCES
from tests.support.caching import INDEXING, cache_folder

ROOT = refresh.HERE.parent
PATHS = refresh.list_notebooks()
ALLOWED = {"helix", "duckdb", "matplotlib", "numpy", "pyarrow"} | sys.stdlib_module_names
OWN_STORE = "01_tour"  # shows how a store is made; the others take the one there is
MARCH = "I told Priya we can do March for vacation"
DECISION = "We decided to set the Redis visibility timeout to 3600 seconds"

each = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
stored_and_run = pytest.mark.parametrize("show", ["stored", "run"], indirect=True)
Run = Callable[[Path], NotebookNode]


DISTRIBUTIONS = (*INDEXING, "ipykernel", "matplotlib", "nbclient", "scikit-learn")
SOURCES = (*STORE_SOURCES, "pipelines/training/data/*/*", "query/**/*.py", "notebooks/*.*", "notebooks/results/*")


@pytest.fixture(scope="module")
def run(sample_store: Path) -> Run:
    """The notebooks as they run with these sources. A cell that raises fails here, with its traceback."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for path in PATHS:
            with pytest.MonkeyPatch.context() as patch:
                if path.stem != OWN_STORE:
                    patch.setenv("HELIX_STORE", str(sample_store))
                nbformat.write(refresh.run_notebook(path), folder / path.name)

    made = cache_folder("notebooks", make, DISTRIBUTIONS, SOURCES)
    return functools.cache(lambda path: refresh.read_notebook(made / path.name))


@pytest.fixture
def show(request: pytest.FixtureRequest, run: Run) -> Callable[[str, str], str]:
    """The output of a cell, as it is stored or as it runs."""

    def text(name: str, cell: str) -> str:
        path = refresh.HERE / f"{name}.ipynb"
        notebook = refresh.read_notebook(path) if request.param == "stored" else run(path)
        return read_output(next(one for one in code_of(notebook) if one.id == cell))

    return text


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_output(cell: NotebookNode) -> str:
    """Text of a cell: what it prints, and of what it displays the plain form, such as a picture's size."""
    outputs = [output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(outputs)


def pictures(cell: NotebookNode) -> list[Image.Image]:
    found = [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]
    return [Image.open(io.BytesIO(base64.b64decode(picture))) for picture in found]


# ---------------------------------------------------------------- all of them


def test_there_are_four() -> None:
    assert [path.stem for path in PATHS] == ["01_tour", "02_anatomy_of_a_recall", "03_quality_and_speed", "04_profiles"]


@each
def test_a_notebook_imports_nothing_of_helix_but_its_public_name(path: Path) -> None:
    for cell in code_of(refresh.read_notebook(path)):
        for node in ast.walk(ast.parse(cell.source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= ALLOWED
            assert not [name for name in names if name.startswith("helix.")]


@each
def test_a_notebook_is_stored_as_it_ran_once_from_top_to_bottom(path: Path) -> None:
    notebook = refresh.read_notebook(path)
    assert [cell.execution_count for cell in code_of(notebook)] == list(range(1, 1 + len(code_of(notebook))))
    assert notebook.metadata.get("made_from") == refresh.compute_digest(notebook), "stale: make notebooks"
    assert path.stat().st_size <= 400_000


@each
def test_a_stored_notebook_says_nothing_of_the_machine(path: Path) -> None:
    text = nbformat.writes(refresh.read_notebook(path))
    text = re.sub(r'"image/png": "[^"]*"', "", text).replace("/home/ana/", "")  # of the sample
    for told in (str(ROOT), str(Path.home()), tempfile.gettempdir() + "/", "/home/", "/Users/", "site-packages"):
        assert told not in text, told
    assert not re.search(rf"\b{re.escape(platform.node())}\b", text)
    assert "iopub" not in text  # when its cells ran


@each
def test_every_plot_is_stored(path: Path) -> None:
    plots = [
        cell for cell in code_of(refresh.read_notebook(path)) if re.search(r"^(plt\.show|dots)\(", cell.source, re.M)
    ]
    assert len(plots) >= 4
    for cell in plots:
        assert len(pictures(cell)) == 1, cell.id
        picture = pictures(cell)[0].convert("RGB")
        assert min(picture.size) >= 200
        assert len(picture.getcolors(1 << 24)) >= 8, f"{cell.id} shows next to nothing"


@each
def test_linked_files_exist(path: Path) -> None:
    prose = "\n".join(cell.source for cell in refresh.read_notebook(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", prose)
    headings = {"#" + heading.replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", prose, re.M)}
    assert [link for link in links if not link.startswith("#")]
    for link in links:
        assert link in headings if link.startswith("#") else (path.parent / link).is_file(), link


@each
def test_a_notebook_runs_without_error(path: Path, run: Run) -> None:
    outputs = [output for cell in code_of(run(path)) for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


@each
def test_stored_output_is_current(path: Path, run: Run) -> None:
    """But for cells tagged `machine`, what they print depends on the clock or, by a thousandth, on the processor."""
    for stored, ran in zip(code_of(refresh.read_notebook(path)), code_of(run(path)), strict=True):
        assert bool(read_output(stored)) == bool(read_output(ran)), stored.id
        assert len(pictures(stored)) == len(pictures(ran)), stored.id
        if "machine" not in stored.metadata.get("tags", ()):
            assert read_output(stored) == read_output(ran), f"{stored.id} is stale: make notebooks"


def test_output_that_comes_in_parts_is_stored_as_one(tmp_path: Path) -> None:
    """As that of a cell on a busy machine does."""
    source = "import sys\nprint('one')\nsys.stdout.flush()\nimport time\ntime.sleep(0.5)\nprint('two')"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), tmp_path / "slow.ipynb")
    [cell] = refresh.run_notebook(tmp_path / "slow.ipynb").cells
    assert [output.text for output in cell.outputs] == ["one\ntwo\n"]


def test_code_and_data_of_another_kind_make_stored_pictures_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = refresh.read_notebook(PATHS[0])
    made = refresh.compute_digest(notebook)
    notebook.cells[0].source += " and some more prose"
    assert refresh.compute_digest(notebook) == made
    code_of(notebook)[0].source += "\n"
    assert refresh.compute_digest(notebook) != made
    monkeypatch.setattr(refresh, "SHARED", refresh.SHARED[1:])
    assert refresh.compute_digest(refresh.read_notebook(PATHS[0])) != made


def test_a_picture_is_stored_in_fewer_bytes(run: Run) -> None:
    ran = run(PATHS[0])
    slim = nbformat.from_dict(json.loads(nbformat.writes(ran)))
    refresh.shrink_pictures(slim)
    for before, after in zip(code_of(ran), code_of(slim), strict=True):
        for large, small in zip(pictures(before), pictures(after), strict=True):
            assert small.size == large.size
    assert len(nbformat.writes(slim)) < 0.6 * len(nbformat.writes(ran))


# ---------------------------------------------------------------- what each finds


@stored_and_run
def test_the_tour_shows_what_became_of_the_sample(show: Callable[[str, str], str]) -> None:
    assert "129 items in 8 sessions" in show("01_tour", "sessions")
    decision = show("01_tour", "decision")
    assert "confirmed" in decision
    assert "Redis (project)" in decision
    assert re.search(r"^[5-9]\d entities|\d items, \d+ entities", show("01_tour", "layout"))


@stored_and_run
def test_the_tour_shows_facts_that_end(show: Callable[[str, str], str]) -> None:
    facts = show("01_tour", "changes").splitlines()
    ended = [line for line in facts if "until" in line]
    assert len(facts) == 8
    assert len(ended) == 4
    assert any(line.startswith("Lena") and "Berlin" in line and "until 2025-05-01" in line for line in ended)
    everything, current = show("01_tour", "current").split("(what holds)")[:2]
    assert everything.splitlines()[1].endswith("I moved from Berlin to Lisbon last month.")
    assert "I live in Berlin" in everything
    assert "I live in Berlin" not in current


@stored_and_run
def test_the_tour_shows_what_is_true_now(show: Callable[[str, str], str]) -> None:
    asked = re.split(r"^(?=wh)", show("01_tour", "now_asked"), flags=re.M)[1:]
    found = [re.findall(r"^  (\S+) |replaced (\S+):", one, re.M) for one in asked]
    assert [[one or other for one, other in dates] for dates in found] == [
        ["2026-09-08"],
        ["2026-01-12", "2026-09-08"],
        ["2026-04-02", "2026-09-08"],
    ]
    now, may = show("01_tour", "now_decisions").split("as of ")[1:]
    assert "CI: Buildkite" in now
    assert "CI: GitHub Actions" in may


@stored_and_run
def test_the_tour_finds_the_march_item(show: Callable[[str, str], str]) -> None:
    ranked = show("01_tour", "recall").splitlines()
    assert MARCH in ranked[0]
    assert any("Looking at flights to Goa" in line and line.endswith("bm25 –") for line in ranked)
    assert f"#c3:2: {MARCH}" in show("01_tour", "context")


@stored_and_run
def test_the_anatomy_follows_the_decision_to_the_first_place(show: Callable[[str, str], str]) -> None:
    name = "02_anatomy_of_a_recall"
    assert "That fits what support saw. We decided" in show(name, "question").splitlines()[0]
    assert "skipped  Write a haiku" in show(name, "route")
    assert show(name, "blend").endswith("the sums are the scores: True\n")
    assert "is 0." in next(line for line in show(name, "diversify").splitlines() if "another was preferred" in line)
    pack = show(name, "pack")
    assert DECISION in pack
    order = re.search(r"reading order: (.*)", pack)
    assert order
    assert "1" in order[1].split(", ")[:2]  # an earlier turn of its session may come before it
    assert order[1].endswith(", 2")
    absences = re.findall(r"^  (\w+):", show(name, "why_not"), re.M)
    assert absences == ["diversify", "rank", "rank", "pack"]


@stored_and_run
def test_quality_and_speed_measures_a_set_of_its_own(show: Callable[[str, str], str]) -> None:
    name = "03_quality_and_speed"
    assert "997 questions" in show(name, "sets")
    assert re.match(r"\d+ of \d+ targets are reached", show(name, "missed"))
    assert "12 questions over 129 turns in 8 sessions" in show(name, "own_set")
    rows = {line.split()[0]: float(line.split()[1]) for line in show(name, "own").splitlines()[1:]}
    assert set(rows) == {"dense", "bm25", "rrf", "helix", "helix-paper"}
    assert rows["helix"] >= 0.8


@stored_and_run
def test_the_profiles_answer_the_twelve_questions(show: Callable[[str, str], str]) -> None:
    name = "04_profiles"
    assert len(show(name, "questions").splitlines()) == 12
    found = dict(re.findall(r"^(\S+) +(\d+) of 12 found", show(name, "ranks"), re.M))
    assert list(found) == ["helix", "helix-paper", "annie", "cems", "engram", "memoria"]
    assert int(found["helix"]) >= 11
    answers = show(name, "answers").split("── ")[1:]
    assert [answer.partition(":")[0] for answer in answers] == list(found)
    assert all("timeout" in answer for answer in answers)
    assert "timeout is set to 3600 seconds" in answers[-1]


# ---------------------------------------------------------------- the figures


@pytest.mark.parametrize("name", ["quality.json", "levers.json", "targets.json", "speed.json"])
def test_the_results_are_those_of_the_documents(name: str) -> None:
    assert (results.OUT / name).read_text("utf-8") == results.render_results()[name], "stale: make notebooks"


def test_figures_are_read_from_tables() -> None:
    text = (
        "# Q\n\n- a, b: 2026-01-02, helix 1 and numpy 2.\n\n## All sets\n\n"
        "| set | questions | haystacks | median turns | gain |\n| --- | --- | --- | --- | --- |\n"
        "| a | 1,200 | 2 | 30 | x |\n\n## Set by set\n\n### a\n\nProse.\n\n"
        "| row | rec@10 | p95 |\n| --- | --- | --- |\n| helix | 0.853 [0.833, 0.873] | 26.0 |\n\n"
        "| row | any@1 |\n| --- | --- |\n| helix | 0.5 |\n\n## By kind of question\n\n"
        "| set | kind | questions | any@10 | rec@10 |\n| --- | --- | --- | --- | --- |\n"
        "| a | hop | 7 | 1.000 | 0.905 [0.810, 0.980] |\n"
    )
    assert results.read_quality(text) == {
        "a": {
            "questions": 1200,
            "haystacks": {"count": 2, "median": 30},
            "rows": {"helix": {"ci": {"rec@10": (0.833, 0.873)}, "rec@10": 0.853, "p95": 26.0, "any@1": 0.5}},
            "kinds": {"hop": {"questions": 7, "any@10": 1.0, "rec@10": 0.905, "low": 0.81, "high": 0.98}},
            "made": {"date": "2026-01-02", "how": "helix 1 and numpy 2"},
        }
    }
    with pytest.raises(ValueError, match="no heading"):
        results.read_tables(text, "## Nothing")


def test_every_set_and_store_is_there_with_what_is_drawn() -> None:
    quality = json.loads((results.OUT / "quality.json").read_text("utf-8"))
    speed = json.loads((results.OUT / "speed.json").read_text("utf-8"))
    assert list(quality) == ["locomo", "beam", "musique", "xquad", "cranfield", "npl"]
    for report in quality.values():
        low, high = report["rows"]["helix"]["ci"]["rec@10"]
        assert low < report["rows"]["helix"]["rec@10"] < high
    assert list(speed) == ["10000", "100000", "1000000", "10000000"]
    assert speed["1000000"]["stages"]["embed"].keys() == {"p50", "p95", "p99", "budget"}
