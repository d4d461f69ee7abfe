"""The kernels, compiled or not: what whoever installs or starts Helix is told where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sanitised import ROOT, compiling


def source(folder: Path, text: str) -> Path:
    (folder / "kernels.c").write_text(text)
    return folder


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(SystemExit, match=r"'no-such-compiler' cannot be run: No such file .*apt install gcc .*in CC$"):
        compiling()(source(tmp_path, "int x;"), tmp_path / "out.so")


def test_a_warning_is_an_error_that_can_be_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = source(tmp_path, "int f(int given) { int unused; return given; }")
    monkeypatch.delenv("CFLAGS", raising=False)
    with pytest.raises(SystemExit, match=r"(?s)Werror=unused-variable.*CFLAGS=-Wno-error") as raised:
        compiling()(folder, tmp_path / "out.so")
    assert str(folder / "kernels.c") in str(raised.value)  # the command, and what the compiler said
    monkeypatch.setenv("CFLAGS", "-Wno-error -ffast-math")
    compiling()(folder, tmp_path / "out.so")
    assert (tmp_path / "out.so").stat().st_size


def test_no_flag_of_the_environment_changes_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CFLAGS say goes before what makes the same bits on every machine."""
    given: list[str] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: given.extend(command))
    monkeypatch.setenv("CFLAGS", "-ffast-math -O0")
    compiling()(source(tmp_path, ""), tmp_path / "out.so")
    order = [
        given.index(flag) for flag in ("-Werror", "-ffast-math", "-O0", "-O3", "-fno-fast-math", "-ffp-contract=off")
    ]
    assert order == sorted(order)


def test_without_kernels_a_command_says_so(tmp_path: Path) -> None:
    """In one line, and what to do; nothing else."""
    for name in ("helix", "query"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    call = "import sys; from helix.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1", "HELIX_STORE": str(tmp_path / "store")}
    for command in (["recall", "why"], ["verify"]):
        python = [sys.executable, "-c", call, *command]
        done = subprocess.run(python, capture_output=True, text=True, env=environ, check=False)
        assert done.returncode == 4
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"helix {command[0]}: the compiled kernels are missing: {tmp_path}")
        assert "install Helix again where there is a C compiler: pip install" in line
        assert not done.stdout
