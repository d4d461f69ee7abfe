"""Compilation of the kernels, and a library that is missing, damaged or of another release."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helix.errors import KernelsError
from helix.native import library
from tests.support.paths import ROOT
from tests.support.sanitised import load_compile_kernels


def write_source(folder: Path, text: str) -> Path:
    (folder / "kernels.c").write_text(text)
    return folder


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(SystemExit, match=r"'no-such-compiler' cannot be run: No such file .*apt install gcc .*in CC$"):
        load_compile_kernels()(write_source(tmp_path, "int x;"), tmp_path / "out.so")


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
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "old.so")
    for code in ("int missing;", "long kernels_version(void) { return 1; }"):
        folder = tmp_path / str(len(code))
        folder.mkdir()
        monkeypatch.setattr(library, "LIBRARY", folder / "old.so")
        write_source(folder, code)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library.LIBRARY, folder / "kernels.c"], check=True)
        with pytest.raises(KernelsError, match="version 1, not"):
            library.load_library(ctypes.CDLL)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(KernelsError, match=r"none.so does not exist; install Helix again where there is a C compiler"):
        library.load_library(ctypes.CDLL)
    library.LIBRARY.write_bytes(b"\x7fELF, but no more of it")
    with pytest.raises(KernelsError, match="cannot be loaded: "):
        library.load_library(ctypes.PyDLL)


def test_without_kernels_a_command_prints_one_line_with_the_remedy(tmp_path: Path) -> None:
    for name in ("helix", "pipelines", "query"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    call = "import sys; from helix.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1", "HELIX_STORE": str(tmp_path / "store")}
    for command in (["recall", "why"], ["ingest", "notes.md"]):
        python = [sys.executable, "-c", call, *command]
        done = subprocess.run(python, capture_output=True, text=True, env=environ, check=False)
        assert done.returncode == 4
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"helix {command[0]}: the compiled kernels are missing: {tmp_path}")
        assert "install Helix again where there is a C compiler: pip install" in line
        assert not done.stdout
