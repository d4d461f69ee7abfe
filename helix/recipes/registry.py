"""Recipes by name. A recipe composes a recall; a profile names its recipe and gives it its constants.

A recipe is a module with two names: `PROFILE`, a frozen dataclass whose fields are the keys of the profile's file, and
`recall`, which composes stages and its own formulas into a bundle. Recipes share the stages, `helix.recipes.common` and
nothing else; a published system's formulas are in that system's recipe.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.trace import Trace
    from helix.types import Bundle, Query

RECIPES: Final = ("helix", "annie", "cems", "engram", "memoria")


class Recipe(Protocol):
    """The interface of a recipe module."""

    PROFILE: type[Any]

    def recall(self, query: Query, snap: Snapshot, profile: Any, trace: Trace, models: Rerankers) -> Bundle:
        """Answer one question. Same snapshot, query, `now` and profile: same answer."""


def recipe(name: str) -> Recipe:
    """Import the recipe of a name in RECIPES; a recipe is imported when a profile needs it."""
    module: ModuleType
    if name == "annie":
        from helix.recipes import annie as module
    elif name == "cems":
        from helix.recipes import cems as module
    elif name == "engram":
        from helix.recipes import engram as module
    elif name == "memoria":
        from helix.recipes import memoria as module
    else:
        from helix.recipes import default as module
    return cast("Recipe", module)
