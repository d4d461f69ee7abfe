"""Forms of the hex names of documents, orders and attempts.

Such a name arrives in a message, from another machine or from a folder, and becomes a path. So it is checked right
before that, whatever checks came earlier.
"""

from __future__ import annotations

import re
from typing import Final

from helix.errors import UsageError

DOCUMENT: Final = re.compile(r"[0-9a-f]{64}")  # digest of its content
ORDER: Final = re.compile(r"[0-9a-f]{32}")  # an order, or a job of the deep tier
FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")  # an encoder or a pipeline
ATTEMPT: Final = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{16})?|[0-9a-f]{32}")  # a document, one of a reindex, or an order


def check_name(name: object, pattern: re.Pattern[str] = DOCUMENT) -> str:
    """Return a name that has the right form.

    Raises:
        UsageError: it has not.
    """
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise UsageError(f"{str(name)[:80]!r} is no document name", "names are hex digits")
    return name
