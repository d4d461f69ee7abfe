"""Helix: memory for coding agents and assistants.

>>> memory = helix.open("store")
>>> memory.recall("why did we pick duckdb").context
"""

from __future__ import annotations

from helix.util.version import VERSION as __version__  # noqa: N811

TYPE_CHECKING = False  # `typing` imports slowly, and an agent's hook waits for it
if TYPE_CHECKING:
    from typing import Any

    from helix.sdk.client import Remote, connect
    from helix.sdk.memory import Memory
    from helix.sdk.open import open

__all__ = ["Memory", "Remote", "__version__", "connect", "open"]


def __getattr__(name: str) -> Any:
    # Importing the package must cost nothing to a caller of one of its modules.
    if name == "open":
        from helix.sdk.open import open

        return open
    if name == "Memory":
        from helix.sdk.memory import Memory

        return Memory
    if name in ("Remote", "connect"):
        from helix.sdk import client

        return getattr(client, name)
    raise AttributeError(f"module 'helix' has no attribute {name!r}")
