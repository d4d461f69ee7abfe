"""Patterns in `data/*.toml`: `{NAME}` is a piece of the file's [pieces], and line breaks are for reading only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from helix.util.wordlists import read_toml

_PIECE: Final = re.compile(r"\{([A-Z_]+)\}")


def fill_pattern(template: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern with its pieces, on one line."""
    return _PIECE.sub(lambda match: pieces[match[1]], template.replace("\n", ""))


def read_patterns(name: str, given: Mapping[str, str] | None = None) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the filled pieces of `data/<name>.toml`, with the `given` ones, and its other tables."""
    pieces = dict(given or {})
    tables = dict(read_toml("helix.enrich", name))
    for key, template in tables.pop("pieces").items():
        pieces[key] = fill_pattern(template, pieces)
    return pieces, tables
