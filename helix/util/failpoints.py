"""Named places where a test can kill the process: `HELIX_FAILPOINT=commit.manifest` kills it there by SIGKILL.

`HELIX_FAILPOINT=enrich.begin@<document>` kills it with that document only, `commit.segment@<store>` in that store only.
"""

from __future__ import annotations

import os
import signal


def failpoint(name: str, about: str = "") -> None:
    """Kill this process if the environment names this place; otherwise look up one variable."""
    wanted = os.environ.get("HELIX_FAILPOINT")
    if wanted is not None and wanted in (name, f"{name}@{about}"):
        os.kill(os.getpid(), signal.SIGKILL)
