"""Profiles: every constant of a recall, one TOML file each.

A file names its recipe; the recipe's dataclass says which keys there are. A user's own file is in the folder
`HELIX_PROFILES`; it may build on a packaged one (`base = "helix"`) and give only what it changes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from helix.errors import UsageError
from helix.recipes.encoder_weights import check_encoders
from helix.recipes.profile_file import build, overlay, parse_toml
from helix.recipes.registry import RECIPES, recipe


def names(folder: str = "") -> list[str]:
    """List the packaged profiles and those in a user's folder."""
    packaged = [entry.name for entry in (files("helix.recipes") / "profiles").iterdir()]
    own = [path.name for path in Path(folder).glob("*.toml")] if folder else []
    return sorted({name.removesuffix(".toml") for name in (*packaged, *own) if name.endswith(".toml")})


@cache
def load(name: str, folder: str = "") -> Any:
    """Load a profile as an instance of its recipe's dataclass.

    Args:
        folder: a user's own profiles; they take precedence over packaged ones.

    Raises:
        UsageError: the profile does not exist, has an unknown key or lacks one.
    """
    known = names(folder)
    if name not in known:
        raise UsageError(f"no profile {name!r}", f"there are: {', '.join(known)}")
    own = Path(folder) / f"{name}.toml" if folder else None
    return parse(name, own.read_text("utf-8") if own and own.is_file() else _read_packaged(name))


def _read_packaged(name: str) -> str:
    return (files("helix.recipes") / "profiles" / f"{name}.toml").read_text("utf-8")


def parse(name: str, text: str) -> Any:
    """Parse a profile's text; see `load`."""
    raw = parse_toml(name, text)
    base = raw.pop("base", None)
    if base is not None:
        if base not in names():
            raise UsageError(
                f"profile {name!r} builds on {base!r}, which does not exist", f"there are: {', '.join(names())}"
            )
        raw = overlay(parse_toml(base, _read_packaged(base)), raw)
    if raw.get("recipe") not in RECIPES:
        raise UsageError(
            f"profile {name!r}: recipe is {raw.get('recipe')!r}", f"there are: {', '.join(RECIPES)}; or name a 'base'"
        )
    profile = build(recipe(raw["recipe"]).PROFILE, name, raw)
    if hasattr(profile, "encoders"):
        check_encoders(profile)
    return profile
