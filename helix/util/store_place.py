"""The place of the store. Agent hooks wait for this module, so it imports next to nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

LOCAL_STORE = "helix-store"
"""The store of a folder."""

HOME_STORE = "~/.helix/memory"
"""The store of a person, which `helix init` makes."""


def find_store(named: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the store: `named`, HELIX_STORE, ./helix-store if it exists, or ~/.helix/memory."""
    given = named or environ.get("HELIX_STORE")
    local = LOCAL_STORE if os.path.isdir(LOCAL_STORE) else HOME_STORE  # noqa: PTH112 - pathlib imports slowly
    return os.path.expanduser(given or local)  # noqa: PTH111
