"""The data files of redaction, read when first needed: importing this costs nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

from helix.util.wordlists import read_groups

_read_groups = cache(read_groups)


@cache
def read_data(name: str) -> dict[str, Any]:
    """Read `data/<name>.toml`."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files("helix.redact").joinpath("data", f"{name}.toml").read_text("utf-8"))


@cache
def read_words(key: str) -> frozenset[str]:
    """Return one list of `data/words.txt`."""
    return _read_groups("helix.redact", "words")[key]
