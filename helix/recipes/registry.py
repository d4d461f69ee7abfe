"""Recipes: how a recall is composed. One module each; a profile names its recipe and gives it its constants.

A recipe is a module with two names: `Profile`, a frozen dataclass whose fields are the keys of the profile's file
(besides `name` and `recipe`), and `recall`, which composes the stages and its own formulas into a bundle. Recipes share
the stages, `helix.recipes.common` and nothing else; a formula of a system is in that system's recipe.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.trace import Trace
    from helix.types import Bundle, Query

RECIPES: Final = {
    "helix": "helix.recipes.default",
    "annie": "helix.recipes.annie",
    "cems": "helix.recipes.cems",
    "engram": "helix.recipes.engram",
    "memoria": "helix.recipes.memoria",
}
"""Module by name; imported when a profile asks for it."""


class Recipe(Protocol):
    """What such a module has."""

    Profile: type[Any]

    def recall(self, query: Query, snap: Snapshot, profile: Any, trace: Trace, models: Rerankers) -> Bundle:
        """Answer one question. Same snapshot, query, `now` and profile: same answer."""


def recipe(name: str) -> Recipe:
    """The recipe of that name, one of RECIPES."""
    return cast("Recipe", import_module(RECIPES[name]))
