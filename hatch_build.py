"""Build hook: compiles helix/native/*.c with the system's C compiler (CC, else cc) into a library beside them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# -ffp-contract=off: a product and a sum are rounded each, on every machine.
FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno")


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the wheel one of this platform, with the library in it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root) / "helix" / "native"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        unfinished = folder / f"_kernels.{os.getpid()}.so"
        command = [*compiler, *FLAGS, "-o", str(unfinished), *map(str, sorted(folder.glob("*.c"))), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise SystemExit(f"Helix needs a C compiler to be built: {compiler[0]!r} is not found; set CC") from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{shlex.join(command)} failed:\n{error.stderr}") from None
        unfinished.replace(folder / "_kernels.so")
        build_data["artifacts"].append("helix/native/_kernels.so")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
