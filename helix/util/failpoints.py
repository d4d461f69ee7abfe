"""Named places where a test may kill the process: `HELIX_FAILPOINT=commit.manifest` dies there by SIGKILL.

`HELIX_FAILPOINT=enrich.begin@<document>` dies with that document alone.
"""

from __future__ import annotations

import os
import signal


def failpoint(name: str, about: str = "") -> None:
    """Die here if the environment names this place; otherwise one dictionary look-up."""
    wanted = os.environ.get("HELIX_FAILPOINT")
    if wanted is not None and wanted in (name, f"{name}@{about}"):
        os.kill(os.getpid(), signal.SIGKILL)
