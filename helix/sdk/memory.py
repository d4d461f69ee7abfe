"""The SDK on a store: `helix.open(store)` returns a read-only `Memory`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from helix import settings as _settings
from helix.encoders.rerank import Rerankers
from helix.engines.open import open_candidates
from helix.errors import EncoderError, StoreError, UsageError
from helix.recipes.encoder_weights import UNFITTED
from helix.recipes.registry import recipe
from helix.sdk.answer_cache import AnswerCache
from helix.sdk.entities.views import EntityViews
from helix.sdk.pages import PageCaches, Pages
from helix.sdk.recaller import Recaller
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.index.flat import open_processor
from helix.snapshot.ledger.access_events import EventAppender, make_event
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.trace import Trace
from helix.stages.trace import why_not as explain_absence
from helix.types import Bundle, RecallOptions, Time

if TYPE_CHECKING:
    from helix.deep.context import DeepContext, Recall

MAX_AROUND: Final = 100
"""Items before and after one."""

MAX_LISTED: Final = 1_000
"""Entries of a page."""

MAX_NAME: Final = 200
"""Characters of an entity's name."""

_HOMES: Final = 16  # that are kept: of callers, projects and moments
_CACHE_KEY: Final = attrgetter(*(name for name in RecallOptions.__slots__ if name not in ("now", "explain", "why_not")))


def _check_page(offset: int, limit: int) -> None:
    from helix.question.build import check_range

    check_range("offset", offset, 0, 1 << 40)
    check_range("limit", limit, 1, MAX_LISTED)


def _parse_moments(**given: Time) -> dict[str, datetime | None]:
    from helix.question.build import parse_moment

    return {name: parse_moment(moment, name, end=name == "until") for name, moment in given.items()}


def row_of(snap: Snapshot, identity: str) -> int:
    """Return the row of an item. A hidden item gives the same error as a missing one.

    Raises:
        UsageError: no visible item has the id.
    """
    row = snap.find(identity)
    if row is None:
        raise UsageError(
            f"no live item has the id {identity[:64]!r}",
            "take it from the items or the trace of a recall, or from 'helix sql \"SELECT id, text FROM items\"'",
        )
    return row


class Memory(EntityViews, Recaller):
    """A store, opened read-only. Safe to share between threads.

    Args:
        snapshot: number of a retained generation, to answer as it did; None: the newest.
        warm: load now what the first question would otherwise wait for.
        deep: the deep tier, where this process may ask a language model; see `helix.sdk.open`.
        rerankers: shared with other stores; None: its own.

    Raises:
        StoreError: the store is missing, damaged or of a newer format.
        UsageError: the generation is not retained, or the settings name a GPU or an engine that cannot be used.
    """

    def __init__(
        self,
        store: str | Path,
        settings: Settings | None = None,
        *,
        snapshot: int | None = None,
        warm: bool = True,
        deep: Callable[[DeepContext, Recall, str, RecallOptions], Bundle] | None = None,
        rerankers: Rerankers | None = None,
    ) -> None:
        self.settings = settings or _settings.load()
        self.root = Path(store)
        self._is_fixed = snapshot is not None
        name = None if snapshot is None else manifests.find_generation(self.root, snapshot)
        self._engine = open_candidates(self.settings)
        self._gpu = open_processor(self.settings.dense)
        self._snapshot = Snapshot.open(
            self.root, name, threads=self.settings.threads, gpu=self._gpu, engine=self._engine
        )
        self._refreshing = threading.Lock()
        self._events = EventAppender(self.root)
        self._models = rerankers or Rerankers(self.settings)
        self._answers: AnswerCache[Bundle] = AnswerCache(self.settings.answers)
        self._page_caches = PageCaches()
        self._recall_deep = deep
        if warm:
            self._snapshot.warm()
            self.prepare()

    def prepare(self) -> None:
        """Import and open what a question needs; it takes as long as opening a small store."""
        from helix.question import build  # noqa: F401
        from helix.recipes.load_profile import load
        from helix.stages.relevance import load_model, name_own

        recipe(load("helix", self.settings.profiles).recipe)
        load_model("vectors", name_own(self._snapshot))
        if self.settings.quality == "best":
            with suppress(EncoderError):  # a recall reports it
                _ = self._models.ranker

    @property
    def snapshot(self) -> Snapshot:
        """The generation that answers now."""
        return self._snapshot

    @property
    def pages(self) -> Pages:
        """The home and the outlines of the generation that answers now."""
        return Pages(self._snapshot, self.answer, self._page_caches)

    @property
    def models(self) -> Rerankers:
        """The rerankers that the settings name."""
        return self._models

    @property
    def deep_context(self) -> DeepContext:
        """The store as the deep tier needs it."""
        from helix.deep.context import DeepContext

        return DeepContext(self.root, self._snapshot, self.settings, self._models)

    def answer(self, query: str, options: RecallOptions) -> Bundle:
        """Answer one question; see `recall`."""
        from helix.question.build import check_known

        check_known("tier", options.tier, ("fast", "deep"))
        if options.tier == "deep":
            if self._recall_deep is None:
                raise UsageError("this process asks no language model", "open the store with helix.open")
            return self._recall_deep(self.deep_context, self.answer, query, options)
        began, whole = time.perf_counter(), self._snapshot  # one generation for the whole call, whatever refresh() does
        # Without a moment of its own, a question's answer depends on the clock.
        key = repr((whole.name, query, _CACHE_KEY(options), options.now or f"minute {time.time() // 60:.0f}"))
        is_traced = options.explain or options.why_not is not None
        if not is_traced and (cached := self._answers.get(key)):
            total = round((time.perf_counter() - began) * 1000, 3)
            return replace(cached, ms={**dict.fromkeys(cached.ms, 0.0), "total": total})  # no stage ran
        bundle = self._compute(whole.seen_by(options.principal, options.projects), query, options, is_traced)
        # A missing model may be available for the next question; the weights stay as they are.
        if not is_traced and all(reason.startswith(UNFITTED) for reason in bundle.degraded):
            self._answers.put(key, bundle)
        return bundle

    def _compute(self, snap: Snapshot, query: str, options: RecallOptions, is_traced: bool) -> Bundle:
        from helix.sdk.answer_question import answer_question

        absent = None if options.why_not is None else row_of(snap, options.why_not)
        trace = Trace(is_traced)
        bundle = answer_question(query, snap, options, self.settings, trace, self._models)
        if absent is None or options.why_not is None:
            return bundle
        named = f"{int(snap.columns.key[absent]):016x}"
        reason = explain_absence(named, absent, trace, bundle.items, bundle.packed)
        return replace(bundle, trace={**(bundle.trace or {}), "why_not": reason})

    def item(
        self, identity: str, *, principal: str | None = None, projects: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """Return an item as it is stored; None if no visible item has the id."""
        from helix.sdk import browse

        return browse.item(self._snapshot.seen_by(principal, projects), identity)

    def around(
        self,
        identity: str,
        *,
        before: int = 3,
        after: int = 3,
        as_of: Time = None,
        ingested_as_of: Time = None,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return an item with its neighbours in the session; None as for `item`."""
        from helix.question.build import check_range
        from helix.sdk import browse

        check_range("before", before, 0, MAX_AROUND)
        check_range("after", after, 0, MAX_AROUND)
        snap = self._snapshot.seen_by(principal, projects)
        snap = snap.known_at(*_parse_moments(as_of=as_of, ingested_as_of=ingested_as_of).values())
        return browse.around(snap, identity, before=before, after=after)

    def find_sessions(
        self, beginning: str, *, principal: str | None = None, projects: Sequence[str] | None = None
    ) -> list[str]:
        """List the visible sessions of a name; without one of that name, those whose names begin so."""
        from helix.sdk import browse

        return browse.find_sessions(self._snapshot.seen_by(principal, projects), beginning)

    def neighbours(
        self,
        identity: str,
        *,
        as_of: Time = None,
        ingested_as_of: Time = None,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return the surroundings of an item as nodes and edges; None as for `item`."""
        from helix.sdk import browse

        snap = self._snapshot.seen_by(principal, projects)
        snap = snap.known_at(*_parse_moments(as_of=as_of, ingested_as_of=ingested_as_of).values())
        return browse.neighbours(snap, identity)

    def session(
        self,
        name: str,
        *,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 200,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return a session in reading order; None if the principal can see none of it."""
        from helix.sdk import browse

        _check_page(offset, limit)
        moments = _parse_moments(as_of=as_of, ingested_as_of=ingested_as_of)
        return browse.session(self._snapshot.seen_by(principal, projects), name, **moments, offset=offset, limit=limit)

    def timeline(
        self,
        *,
        project: str | None = None,
        since: Time = None,
        until: Time = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 50,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """List sessions, newest first; `notice` says where options of time leave none.

        Raises:
            UsageError: an argument is out of range or names something unknown.
        """
        from helix.question.build import check_project
        from helix.sdk import browse

        _check_page(offset, limit)
        snap = self._snapshot.seen_by(principal, projects)
        project = check_project(project, snap.catalog)
        moments = _parse_moments(since=since, until=until, as_of=as_of, ingested_as_of=ingested_as_of)
        return browse.timeline(snap, project=project, **moments, offset=offset, limit=limit)

    def facts(
        self,
        entity: str,
        *,
        at: Time = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        offset: int = 0,
        limit: int = 100,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """List the facts about an entity, each with the time in which it holds.

        Args:
            at: the moment for `holds`; None: that of `as_of`, else now.

        Raises:
            UsageError: no entity is named, or an argument is out of range.
        """
        from helix.sdk import browse
        from helix.text.tokenize import make_well_formed

        _check_page(offset, limit)
        if not entity.strip() or len(entity) > MAX_NAME:
            raise UsageError(f"entity has {len(entity)} characters", f"give a name of 1 to {MAX_NAME}")
        snap, name = self._snapshot.seen_by(principal, projects), make_well_formed(entity)
        moments = _parse_moments(at=at, as_of=as_of, ingested_as_of=ingested_as_of)
        return browse.facts(snap, name, **moments, offset=offset, limit=limit)

    def decisions(
        self,
        project: str | None = None,
        *,
        as_of: Time = None,
        history: bool = False,
        limit: int = 50,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """List what holds now by topic, what it replaced, and what was rejected, each newest first.

        Args:
            project: the only project; None: all.
            as_of: the moment: only what was said by then, and held then.
            history: with everything that was replaced, not the last three of each topic.

        Raises:
            UsageError: an argument is out of range or names something unknown.
        """
        from helix.question.build import check_project, check_range, parse_moment
        from helix.sdk.decisions.listing import answer_decisions

        check_range("limit", limit, 1, MAX_LISTED)
        snap = self._snapshot.seen_by(principal, projects)
        project = check_project(project, snap.catalog)
        return answer_decisions(snap, project, parse_moment(as_of, "as_of"), history=history, limit=limit)

    def choices(self, *, principal: str | None = None, projects: Sequence[str] | None = None) -> dict[str, Any]:
        """List the values of filters: projects, types, speakers, profiles."""
        from helix.recipes.load_profile import names
        from helix.sdk.choices import list_choices

        choices = list_choices(self._snapshot.seen_by(principal, projects))
        return {**choices, "profiles": list(names(self.settings.profiles))}

    def feedback(self, item: str, kind: str = "used") -> None:
        """Report that an item was useful (`used`, `helpful`, `fetched`) or `wrong`.

        The event is appended to the store; the next `helix touch` folds it in.

        Raises:
            UsageError: no live item has this id, or the kind is unknown.
            StoreError: the store cannot be written.
        """
        event = make_event(item, kind)
        row_of(self._snapshot, item)
        self._events.append([event])

    def stale(self) -> bool:
        """Return whether a newer generation, or the rest of this one, is here; never for a fixed one."""
        if self._is_fixed:
            return False
        return manifests.read_current(self.root) != self._snapshot.name or self._snapshot.files.has_arrived

    def refresh(self) -> bool:
        """Open and warm the newest generation, then swap; return whether there was one.

        Raises:
            StoreError: the newest generation cannot be opened; the old one keeps answering.
        """
        with self._refreshing:
            if not self.stale():
                return False
            fresh = Snapshot.open(
                self.root,
                threads=self.settings.threads,
                before=self._snapshot,
                gpu=self._gpu,
                engine=self._engine,
            )
            if fresh.name is None:  # a generation is open here, so one was published
                raise StoreError(
                    f"{self.root / 'CURRENT'} is gone", f"write {self._snapshot.name!r} into it, or restore the store"
                )
            fresh.adopt(self._snapshot)
            self._snapshot = fresh.warm()
            return True
