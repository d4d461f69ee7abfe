"""`make notebooks`: run every notebook from top to bottom, and store what it shows.

The tests run them, too, and compare what they print with what is stored, but for cells tagged `machine`: those print
times, or scores, which differ by a thousandth from processor to processor.
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
"""What several notebooks read."""


def paths() -> list[Path]:
    """The notebooks, in reading order."""
    return sorted(HERE.glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    """A valid notebook.

    Raises:
        nbformat.ValidationError: it is none.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def executed(path: Path, timeout: int = 120) -> nbformat.NotebookNode:
    """The notebook with what it shows now, run in a kernel of its own. Nothing is written.

    Args:
        timeout: seconds a cell may take.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed; with its traceback.
    """
    notebook = read(path)
    # Without the times of its cells, which are nobody's business.
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata.language_info = {"name": "python"}  # and not which one
    notebook.metadata["made_from"] = made_from(notebook)
    return notebook


def made_from(notebook: nbformat.NotebookNode) -> str:
    """A digest of the code and of what it reads here: pictures stored with another one are stale."""
    parts = [cell.source.encode() for cell in notebook.cells if cell.cell_type == "code"]
    parts += [path.read_bytes() for path in SHARED]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def slim(notebook: nbformat.NotebookNode) -> None:
    """Store its pictures with a palette of 128 colours: what is drawn looks the same, in a third of the bytes."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                full = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("RGB")
                small = io.BytesIO()
                full.quantize(128, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
                output.data["image/png"] = base64.b64encode(small.getvalue()).decode()


def main(arguments: Sequence[str]) -> int:
    """Refresh the notebooks named, or all: with the bundled sample, whatever is set."""
    for name in [name for name in os.environ if name.startswith("HELIX_") and name != "HELIX_CACHE"]:
        del os.environ[name]
    results.write()
    for path in [Path(argument).resolve() for argument in arguments] or paths():
        notebook = executed(path)
        slim(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
