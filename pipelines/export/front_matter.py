"""Front matter of notes: YAML whose every value is a quoted scalar, or a list of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

# What YAML does not let stand in a quoted scalar, or takes for the end of a line.
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def write_front_matter(fields: Mapping[str, str | Sequence[str] | None]) -> str:
    """Return the block between two lines of dashes; empty fields are left out.

    Args:
        fields: names are plain words.
    """
    lines = ["---"]
    for name, value in fields.items():
        if isinstance(value, str):
            lines.append(f"{name}: {quote_scalar(value)}")
        elif value:
            lines.append(f"{name}:")
            lines += [f"  - {quote_scalar(one)}" for one in value]
    return "\n".join([*lines, "---", ""])


def quote_scalar(text: str) -> str:
    """Return a double-quoted scalar, which JSON and YAML read alike."""
    plain = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
