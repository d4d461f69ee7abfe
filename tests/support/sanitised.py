"""Helix with kernels that are held to their memory: compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

Serebryany et al. 2012, "AddressSanitizer: a fast address sanity checker".
"""

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


def compiling() -> Callable[..., None]:
    """What compiles the kernels when Helix is installed. What its module subclasses only a build has."""
    hooks = SimpleNamespace(BuildHookInterface=object)
    with patch.dict(sys.modules, {"hatchling.builders.hooks.plugin.interface": hooks}):
        found: Callable[..., None] = runpy.run_path(str(ROOT / "hatch_build.py"))["compile_kernels"]
    return found


def sanitised(folder: Path) -> dict[str, str]:
    """Copy the package into a folder, its kernels with sanitisers; gives the environment of a Python that imports it.

    Python's own allocator would put arrays where no sanitiser sees an end.
    """
    source = Path(helix.__path__[0])
    shutil.copytree(source, folder / "helix", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    compiling()(source / "native", folder / "helix" / "native" / "_kernels.so", *FLAGS)
    told = f"exitcode={REPORTED}:detect_leaks=0:allocator_may_return_null=1"
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PYTHONSAFEPATH": "1",  # not the current folder before those
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": " ".join(_of_compiler(name) for name in ("libasan.so", "libubsan.so")),
        "ASAN_OPTIONS": told,
        "UBSAN_OPTIONS": f"exitcode={REPORTED}:print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HELIX_THREADS": "1",
    }


def _of_compiler(name: str) -> str:
    """Where the compiler keeps a library of its own."""
    command = [*shlex.split(os.environ.get("CC") or "cc"), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        raise FileNotFoundError(f"{name} is not there: the sanitisers need gcc and its libraries; name it in CC")
    return found


def run(environment: dict[str, str], *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A Python to its end."""
    return subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False, **options
    )
