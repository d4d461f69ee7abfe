"""`make notebooks`: run every notebook from top to bottom, and store its output.

The tests run them, too, and compare their output with the stored one. Cells tagged `machine` are not compared: they
print times, or scores that differ by a thousandth between processors.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

from notebooks import results

HERE = Path(__file__).resolve().parent
SHARED = (*sorted(HERE.glob("*.mplstyle")), *sorted(HERE.glob("*.json")), *sorted(HERE.glob("results/*.json")))
"""Files that several notebooks read."""


def list_notebooks() -> list[Path]:
    """List the notebooks in reading order."""
    return sorted(HERE.glob("*.ipynb"))


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read and check a notebook.

    Raises:
        nbformat.ValidationError: it is no valid notebook.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def run_notebook(path: Path, timeout: int = 120) -> nbformat.NotebookNode:
    """Run a notebook in a kernel of its own; return it with its output. Nothing is written.

    Args:
        timeout: seconds a cell may take.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed; it holds the traceback.
    """
    notebook = read_notebook(path)
    # Times of cells would change the file at each run, and so would a stream that a busy machine sends in parts.
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata.language_info = {"name": "python"}  # not its version
    notebook.metadata["made_from"] = compute_digest(notebook)
    return notebook


def compute_digest(notebook: nbformat.NotebookNode) -> str:
    """Return a digest of the code and of the files it reads here; pictures stored with another digest are stale."""
    parts = [cell.source.encode() for cell in notebook.cells if cell.cell_type == "code"]
    parts += [path.read_bytes() for path in SHARED]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def shrink_pictures(notebook: nbformat.NotebookNode) -> None:
    """Reduce the pictures to 128 colours: they look the same in a third of the bytes."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                full = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("RGB")
                small = io.BytesIO()
                full.quantize(128, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
                output.data["image/png"] = base64.b64encode(small.getvalue()).decode()


def main(arguments: Sequence[str]) -> int:
    """Refresh the named notebooks, or all, with the bundled sample and default settings."""
    for name in [name for name in os.environ if name.startswith("HELIX_") and name != "HELIX_CACHE"]:
        del os.environ[name]
    results.write_results()
    for path in [Path(argument).resolve() for argument in arguments] or list_notebooks():
        notebook = run_notebook(path)
        shrink_pictures(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
