"""Named places where a test may kill the process: `HELIX_FAILPOINT=commit.manifest` dies there by SIGKILL."""

from __future__ import annotations

import os
import signal


def failpoint(name: str) -> None:
    """Die here if the environment names this place; otherwise one dictionary look-up."""
    if os.environ.get("HELIX_FAILPOINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
