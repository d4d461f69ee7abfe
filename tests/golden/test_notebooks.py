"""The notebooks run from top to bottom, and show what they say."""

from __future__ import annotations

import ast
import base64
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
ALLOWED = {"helix", "matplotlib", "duckdb", "pyarrow", "os", "pathlib"}


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def tour(sample_store: Path) -> nbformat.NotebookNode:
    """The tour, executed in its own kernel against the sample. A cell that raises fails here, with its traceback."""
    notebook = read(NOTEBOOKS / "01_tour.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HELIX_STORE", str(sample_store))
        NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_is_stored_clean_and_imports_helix_only(path: Path) -> None:
    for cell in code_of(read(path)):
        assert not cell.outputs
        assert cell.execution_count is None
        for node in ast.walk(ast.parse(cell.source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= ALLOWED


def test_the_tour_runs_without_error(tour: nbformat.NotebookNode) -> None:
    outputs = [output for cell in code_of(tour) for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


def test_the_tour_finds_the_march_item(tour: nbformat.NotebookNode) -> None:
    cells = {cell.id: cell for cell in code_of(tour)}
    march = "I told Priya we can do March for vacation"
    table = text_of(cells["vacation"])
    first = next(line for line in table.splitlines() if line.startswith("│") and " 1 │" in line)
    assert march in first
    assert march in text_of(cells["context"])
    assert "database is locked" in text_of(cells["context"])


def test_the_tour_draws_both_charts(tour: nbformat.NotebookNode) -> None:
    for cell in code_of(tour):
        if cell.id in ("stages", "chart"):
            pictures = [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]
            assert len(pictures) == 1
            assert base64.b64decode(pictures[0]).startswith(b"\x89PNG")


def text_of(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)
