"""Context and question of a deep recall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helix.question.build import build_query
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import Profile
from helix.types import Bundle, Query, RecallOptions

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

Recall = Callable[[str, RecallOptions], Bundle]
"""The ordinary recall of a store."""


@dataclass(frozen=True, slots=True)
class DeepContext:
    """A store as one deep recall sees it; `snapshot` is the whole generation."""

    root: Path
    snapshot: Snapshot
    settings: Settings
    models: Rerankers


@dataclass(frozen=True, slots=True)
class DeepQuestion:
    """A checked question, with the view, constants and rerankers that answer it."""

    query: Query
    snap: Snapshot  # as the caller may see it, and as of the question's moments
    constants: Profile
    models: Rerankers


def prepare(context: DeepContext, query: str, options: RecallOptions) -> DeepQuestion:
    """Check the question of a recall.

    Raises:
        UsageError: an option is out of range or names something unknown.
    """
    snap = context.snapshot.seen_by(options.principal, options.projects)
    constants = load(options.profile, context.settings.profiles)
    built = build_query(query, snap, context.settings, options, constants)
    return DeepQuestion(built, snap.known_at(built.as_of, built.ingested_as_of), constants, context.models)
