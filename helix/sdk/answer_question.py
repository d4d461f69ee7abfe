"""One question to a view of a store: checked, answered by its profile's recipe, and an empty answer explained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from helix.question.build import build_query
from helix.recipes.load_profile import load
from helix.recipes.registry import recipe
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.route import select_named
from helix.stages.time_limits import explain_empty, read_limits
from helix.stages.trace import Trace
from helix.types import Bundle, Query, RecallOptions

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers


def answer_question(
    text: str, snap: Snapshot, options: RecallOptions, settings: Settings, trace: Trace, models: Rerankers
) -> Bundle:
    """Answer one question from what the caller may see.

    Args:
        snap: the caller's view; the options of time narrow it here.

    Raises:
        UsageError: an option is out of range, or names something unknown.
    """
    constants = load(options.profile, settings.profiles)
    query = build_query(text, snap, settings, options, constants)
    seen = snap.known_at(query.as_of, query.ingested_as_of)
    bundle = recipe(constants.recipe).recall(query, seen, constants, trace, models)
    if trace.on or options.marks:
        from helix.sdk.marks import describe_marks

        bundle = replace(bundle, trace={**(bundle.trace or {}), **describe_marks(query, seen, bundle)})
    if bundle.items or bundle.skipped:
        return bundle
    return replace(bundle, notice=_explain_nothing(query, snap, constants.recipe))


def _explain_nothing(query: Query, snap: Snapshot, name: str) -> str | None:
    """Explain an empty answer, where the options of time are the reason."""
    rows, noun = select_named(query, snap), "item"
    find_searchable = getattr(recipe(name), "find_searchable", None)
    if find_searchable is not None:
        rows, noun = rows & find_searchable(snap), "fact"
    named = (query.project, query.type, query.session, query.speaker)
    within = " within the other filters" if any(one is not None for one in named) else ""
    return explain_empty(read_limits(query), snap, rows, noun + within)
