"""Helix: memory for coding agents and assistants.

>>> memory = helix.open("store")
>>> memory.recall("why did we pick duckdb").context
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which an agent's hook would have to wait for
if TYPE_CHECKING:
    from typing import Any

    from helix.sdk.client import Remote, connect
    from helix.sdk.memory import Memory, open

__version__ = "0.1.0"
__all__ = ["Memory", "Remote", "__version__", "connect", "open"]


def __getattr__(name: str) -> Any:
    # Importing the package must cost nothing to those who want one module of it.
    if name in ("Memory", "open"):
        from helix.sdk import memory

        return getattr(memory, name)
    if name in ("Remote", "connect"):
        from helix.sdk import client as remote

        return getattr(remote, name)
    raise AttributeError(f"module 'helix' has no attribute {name!r}")
