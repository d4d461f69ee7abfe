"""Compilation of the kernels, a build without them, and a library that is missing, damaged or of another release."""

from __future__ import annotations

import ctypes
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from helix.errors import KernelsError
from helix.native import library
from helix.native.library import describe_kernels
from tests.support.paths import ROOT
from tests.support.sanitised import load_compile_kernels


def write_source(folder: Path, text: str) -> Path:
    (folder / "kernels.c").write_text(text)
    return folder


def build(root: Path, version: str = "standard") -> dict[str, Any]:
    """Return the data of a build of the kernels in a folder."""
    hooks = SimpleNamespace(BuildHookInterface=object)
    with patch.dict(sys.modules, {"hatchling.builders.hooks.plugin.interface": hooks}):
        hook = runpy.run_path(str(ROOT / "hatch_build.py"))["Kernels"]()
    hook.root, data = str(root), {"artifacts": []}
    hook.initialize(version, data)
    return data


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one kernel and the library of an older build."""
    native = tmp_path / "helix" / "native"
    native.mkdir(parents=True)
    write_source(native, "int x;")
    (native / "_kernels.so").write_bytes(b"older")
    monkeypatch.delenv("HELIX_NO_KERNELS", raising=False)
    return tmp_path


def test_a_build_has_a_library_and_is_of_this_platform(checkout: Path) -> None:
    data = build(checkout)
    assert data["artifacts"] == ["helix/native/_kernels.so"]
    assert not data["pure_python"]
    assert re.fullmatch(r"py3-none-\w+", data["tag"])
    assert data["tag"] != "py3-none-any"
    assert (checkout / "helix/native/_kernels.so").read_bytes() != b"older"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("CC", "no-such-compiler -m64", r"'no-such-compiler' cannot be run: No such file .*apt install gcc .*again"),
        ("HELIX_NO_KERNELS", "1", "HELIX_NO_KERNELS=1 is set; unset it and install Helix again to compile them"),
    ],
)
def test_a_build_without_kernels_is_of_every_platform_and_warns(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(name, value)
    assert build(checkout) == {"artifacts": [], "pure_python": True, "tag": "py3-none-any"}
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"warning: Helix is built without compiled kernels and will run slower: .*{why}", line)
    assert (checkout / "helix/native/_kernels.so").exists()  # not of this build, and not in its wheel
    build(checkout, "editable")
    assert not (checkout / "helix/native/_kernels.so").exists()


def test_a_compiler_that_fails_is_an_error(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(SystemExit, match=r"^false .* failed:"):
        build(checkout)
    assert (checkout / "helix/native/_kernels.so").read_bytes() == b"older"


def test_a_warning_is_an_error_unless_cflags_allow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_source(tmp_path, "int f(int given) { int unused; return given; }")
    monkeypatch.delenv("CFLAGS", raising=False)
    with pytest.raises(SystemExit, match=r"(?s)Werror=unused-variable.*CFLAGS=-Wno-error") as raised:
        load_compile_kernels()(folder, tmp_path / "out.so")
    assert str(folder / "kernels.c") in str(raised.value)  # the command is named, too
    monkeypatch.setenv("CFLAGS", "-Wno-error -ffast-math")
    load_compile_kernels()(folder, tmp_path / "out.so")
    assert (tmp_path / "out.so").stat().st_size


def test_flags_for_equal_bits_follow_cflags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: list[str] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: arguments.extend(command))
    monkeypatch.setenv("CFLAGS", "-ffast-math -O0")
    load_compile_kernels()(write_source(tmp_path, ""), tmp_path / "out.so")
    flags = ("-Werror", "-ffast-math", "-O0", "-O3", "-fno-fast-math", "-ffp-contract=off")
    assert [argument for argument in arguments if argument in flags] == list(flags)


def test_a_library_of_another_release_or_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_KERNELS", "compiled")
    for code in ("int missing;", "long kernels_version(void) { return 1; }"):
        folder = tmp_path / str(len(code))
        folder.mkdir()
        monkeypatch.setattr(library, "LIBRARY", folder / "old.so")
        write_source(folder, code)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library.LIBRARY, folder / "kernels.c"], check=True)
        with pytest.raises(KernelsError, match="version 1, not"):
            library.load_library(ctypes.CDLL)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "damaged.so")
    library.LIBRARY.write_bytes(b"\x7fELF, but no more of it")
    with pytest.raises(KernelsError, match=r"cannot be loaded: .*; install Helix again where there is a C compiler"):
        library.load_library(ctypes.PyDLL)


def test_the_environment_chooses_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "damaged.so")
    library.LIBRARY.touch()
    monkeypatch.setenv("HELIX_KERNELS", "reference")
    assert library.load_library(ctypes.CDLL) is None
    for choice in ("compiled", ""):
        monkeypatch.setenv("HELIX_KERNELS", choice)
        with pytest.raises(KernelsError, match="cannot be loaded: "):
            library.load_library(ctypes.CDLL)
        with patch.object(library, "LIBRARY", tmp_path / "none.so"):
            assert library.load_library(ctypes.CDLL) is None
    monkeypatch.setenv("HELIX_KERNELS", "fast")
    with pytest.raises(KernelsError, match="HELIX_KERNELS='fast' names no kernels; it is 'compiled' or 'reference'"):
        library.load_library(ctypes.CDLL)


LOADED = """
import sys
from helix.native.library import LIBRARY, describe_kernels
from helix.native.rows import find_distinct
from helix.snapshot.index import graph
import numpy as np
found = find_distinct(np.array([7, 5, 7]))[1].tolist()
print(LIBRARY.parents[2], describe_kernels(), "helix.native.reference" in sys.modules, found)
"""


def test_a_package_without_a_library_runs_the_reference(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "helix", tmp_path / "helix", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    kernels = {tmp_path: "reference True", ROOT: f"{describe_kernels()} {describe_kernels() == 'reference'}"}
    for root, expected in kernels.items():
        environ = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-W", "error", "-c", LOADED]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        assert (done.stdout, done.stderr) == (f"{root} {expected} [0, 1, 0]\n", "")
