"""What names a document, an order or a try: hex digits, or nothing.

Such a name comes with a message, from another machine or out of a folder, and becomes a path. So it is checked where
that happens, whoever has looked at it before.
"""

from __future__ import annotations

import re
from typing import Final

from helix.errors import UsageError

DOCUMENT: Final = re.compile(r"[0-9a-f]{64}")
"""A digest of what is in it."""

ORDER: Final = re.compile(r"[0-9a-f]{32}")
"""Of an order, or of a job of the tier deep."""

FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
"""Of an encoder, or of a pipeline."""

ATTEMPT: Final = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{16})?|[0-9a-f]{32}")
"""What is tried: a document, one for the lineage that a reindex builds, or an order."""


def check_name(name: object, pattern: re.Pattern[str] = DOCUMENT) -> str:
    """The name, where it is one.

    Raises:
        UsageError: it is no such name.
    """
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise UsageError(f"{str(name)[:80]!r} is no document name", "names are hex digits")
    return name
