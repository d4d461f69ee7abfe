"""Helix with kernels under AddressSanitizer (Serebryany et al. 2012) and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import helix
from tests.support.paths import ROOT

FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
REPORTED = 99
"""Exit status of a process that a sanitiser ended."""


def load_compile_kernels() -> Callable[..., None]:
    """Load the build hook's function that compiles the kernels, without hatchling."""
    hooks = SimpleNamespace(BuildHookInterface=object)
    with patch.dict(sys.modules, {"hatchling.builders.hooks.plugin.interface": hooks}):
        compile_kernels: Callable[..., None] = runpy.run_path(str(ROOT / "hatch_build.py"))["compile_kernels"]
    return compile_kernels


def copy_sanitised(folder: Path) -> dict[str, str]:
    """Copy the package into a folder with sanitised kernels; return the environment of a Python that imports it.

    That Python uses malloc: its own allocator hides the ends of arrays from a sanitiser.
    """
    source = Path(helix.__path__[0])
    shutil.copytree(source, folder / "helix", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    load_compile_kernels()(source / "native", folder / "helix" / "native" / "_kernels.so", *FLAGS)
    options = f"exitcode={REPORTED}:detect_leaks=0:allocator_may_return_null=1"
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PYTHONSAFEPATH": "1",  # without the current folder
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": " ".join(_find_compiler_file(name) for name in ("libasan.so", "libubsan.so")),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": f"exitcode={REPORTED}:print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HELIX_THREADS": "1",
    }


def _find_compiler_file(name: str) -> str:
    """Return the path of one of the compiler's own libraries."""
    command = [*shlex.split(os.environ.get("CC") or "cc"), f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise FileNotFoundError(f"{name} is missing: the sanitisers need gcc and its libraries; name gcc in CC")
    return path


def run(environment: dict[str, str], *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python to its end."""
    return subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False, **options
    )
