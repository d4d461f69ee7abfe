"""Build hook: compile helix/native/*.c with the system's C compiler (CC, else cc) into a library in that folder.

Where no compiler can be run, or with HELIX_NO_KERNELS=1, Helix is built without it: helix/native/reference runs then.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WARNINGS = ("-Wall", "-Wextra", "-Werror")
# Products and sums are rounded one by one, in the order written: the same bits on every machine, whatever CFLAGS say.
FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared", "-fno-fast-math", "-ffp-contract=off", "-fno-math-errno")


LEAVE_OUT = "HELIX_NO_KERNELS"
"""The environment variable that, with the value 1, builds Helix without kernels."""


class NoCompiler(SystemExit):
    """A C compiler that cannot be run. Where it is not caught, the build ends with its message."""


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that makes a wheel of this platform, with the library in it, or one of every platform, without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels and name the platform."""
        folder = Path(self.root) / "helix" / "native"
        unfinished, library = folder / f"_kernels.{os.getpid()}.so", folder / "_kernels.so"
        try:
            if os.environ.get(LEAVE_OUT) == "1":
                raise NoCompiler(f"{LEAVE_OUT}=1 is set; unset it and install Helix again to compile them")
            compile_kernels(folder, unfinished)
        except NoCompiler as reason:
            sys.stderr.write(f"warning: Helix is built without compiled kernels and will run slower: {reason}\n")
            if version == "editable":  # an older library would be loaded
                library.unlink(missing_ok=True)
            build_data["pure_python"], build_data["tag"] = True, "py3-none-any"
            return
        unfinished.replace(library)
        build_data["artifacts"].append("helix/native/_kernels.so")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"


def compile_kernels(folder: Path, library: Path, *more: str) -> None:
    """Compile the kernels.

    Warnings are errors. A newer compiler may know more of them: CFLAGS=-Wno-error lets them pass.

    Args:
        folder: with the sources.
        library: the file to write.
        more: further options.

    Raises:
        NoCompiler: no compiler can be run; the message names the remedy.
        SystemExit: it fails; the same.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    options = [*WARNINGS, *shlex.split(os.environ.get("CFLAGS", "")), *FLAGS, *more]
    command = [*compiler, *options, "-o", str(library), *map(str, sorted(folder.glob("*.c"))), "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise NoCompiler(
            f"the kernels need a C compiler, and {compiler[0]!r} cannot be run: {error.strerror}; install one (Debian, "
            "Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install), or name yours "
            "in CC, and install Helix again"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{shlex.join(command)} failed:\n{error.stderr}\nIf these are warnings of a compiler newer than Helix, "
            "install with CFLAGS=-Wno-error; otherwise name another compiler in CC"
        ) from None
