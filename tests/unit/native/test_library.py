from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from helix.errors import KernelsError
from helix.native import library


@pytest.mark.parametrize("code", ["int missing;", "long kernels_version(void) { return 1; }"])
def test_a_library_of_another_release_is_refused(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text(code)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "old.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library.LIBRARY, tmp_path / "old.c"], check=True)
    with pytest.raises(KernelsError, match="version 1, not"):
        library.load_library(ctypes.CDLL)


def test_a_library_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(KernelsError, match=r"none.so does not exist; install Helix again where there is a C compiler"):
        library.load_library(ctypes.CDLL)
    library.LIBRARY.write_bytes(b"\x7fELF, but no more of it")
    with pytest.raises(KernelsError, match="cannot be loaded: "):
        library.load_library(ctypes.PyDLL)
