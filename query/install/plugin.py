"""Helix's plugin file of an agent whose hooks are code: OpenCode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

_EMPTY: Final = "const COMMAND = []"


def write_plugin(helix: Sequence[str], store: Path) -> str:
    """Return the plugin with the command of the hook and the store."""
    text = files("query.install").joinpath("opencode_plugin.js").read_text("utf-8")
    command = json.dumps([*helix, "hook", "--store", str(store)])
    return text.replace(_EMPTY, f"const COMMAND = {command}", 1)


def is_plugin(text: str) -> bool:
    """Return whether a file is one that `helix install` wrote."""
    return text.startswith("// Helix's plugin for OpenCode")
