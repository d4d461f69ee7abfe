"""The data files of redaction, read when first needed: importing this costs nothing."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def read_table(name: str) -> dict[str, Any]:
    """Read `<name>.toml` of this package."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files("helix.redact").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def read_words(key: str) -> frozenset[str]:
    """Return one list of words.toml."""
    return frozenset(read_table("words")[key].split())
