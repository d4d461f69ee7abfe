"""The SDK: `helix.open(store)` gives a read-only `Memory`."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from helix import settings as _settings
from helix.encoders.rerank import Rerankers
from helix.errors import StoreError, UsageError
from helix.recipes.registry import recipe
from helix.sdk.answer_cache import Answers
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.ledger.access_events import Appender, make_event
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.trace import Trace
from helix.stages.trace import why_not as explain_absence
from helix.types import Bundle

if TYPE_CHECKING:
    from helix.question.build import Time

MOST_AROUND: Final = 100
"""Items before and after one, at most."""

MOST_LISTED: Final = 1_000
"""Entries of a page, at most."""

MOST_NAME: Final = 200
"""Characters of an entity's name, at most."""


def _page(offset: int, limit: int) -> None:
    from helix.question.build import check_range

    check_range("offset", offset, 0, 1 << 40)
    check_range("limit", limit, 1, MOST_LISTED)


def row_of(snap: Snapshot, identity: str) -> int:
    """The row of an item. The same words whether there is none or the asker may not see it.

    Raises:
        UsageError: there is none.
    """
    row = snap.find(identity)
    if row is None:
        raise UsageError(
            f"no live item has the id {identity[:64]!r}",
            "take it from the items or the trace of a recall, or from 'helix sql \"SELECT id, text FROM items\"'",
        )
    return row


class Memory:
    """One store, opened read-only. Safe to share between threads.

    Args:
        snapshot: a generation that is still kept, instead of the newest: to replay what it answered.
        warm: do now what the first question would have to wait for.

    Raises:
        StoreError: the store is missing, damaged or of a newer format.
        UsageError: that generation is not kept.
    """

    def __init__(
        self,
        store: str | Path,
        settings: Settings | None = None,
        *,
        snapshot: int | None = None,
        warm: bool = True,
    ) -> None:
        self.settings = settings or _settings.load()
        self.root = Path(store)
        self._fixed = snapshot is not None
        name = None if snapshot is None else manifests.name_of(self.root, snapshot)
        self._snapshot = Snapshot.open(self.root, name, threads=self.settings.threads)
        self._refreshing = threading.Lock()
        self._events = Appender(self.root)
        self._models = Rerankers(self.settings)
        self._answers = Answers(self.settings.answers)
        if warm:
            self._snapshot.warm()
            self.prepare()

    def prepare(self) -> None:
        """Import what a question needs: as long as opening a small store takes, so not before one is asked."""
        from helix.question import build as question  # noqa: F401
        from helix.recipes.load_profile import load

        recipe(load("helix", self.settings.profiles).recipe)

    @property
    def snapshot(self) -> Snapshot:
        """The generation that answers now."""
        return self._snapshot

    @property
    def models(self) -> Rerankers:
        """The rerankers that the settings name."""
        return self._models

    def recall(
        self,
        query: str,
        *,
        k: int = 10,
        budget: int = 2000,
        project: str | None = None,
        type: str | None = None,
        since: Time = None,
        until: Time = None,
        as_of: Time = None,
        session: str | None = None,
        speaker: str | None = None,
        current_only: bool = False,
        entities: Sequence[str] = (),
        principal: str | None = None,
        projects: Sequence[str] | None = None,
        profile: str = "helix",
        rerank: str | None = None,
        rerank_top: int = 20,
        now: Time = None,
        explain: bool = False,
        why_not: str | None = None,
        tier: str = "fast",
    ) -> Bundle:
        """Answer one question.

        Args:
            query: the question, at most `max_query_chars` characters.
            k: items to return.
            budget: tokens the context may take.
            project, type, session, speaker, since, until: only these rows are searched.
            as_of: what was known and valid then.
            current_only: leave out items all of whose facts no longer hold.
            entities: names the graph walk starts from, besides those in the question.
            principal: who asks; items with an ACL are only for those it names.
            projects: the only ones that exist for who asks; None: all.
            profile: a file of `helix/recipes/profiles`, or of the folder `HELIX_PROFILES`.
            rerank: `late` (token by token) or `cross` (a cross-encoder) scores the best items anew, for milliseconds
                that `ms` reports.
            rerank_top: how many, at most 30.
            now: the moment the question is asked, for recency; the clock where not given.
            explain: keep what every stage took in and gave out, in `trace`.
            why_not: an item id; `trace["why_not"]` says at which stage it fell out.
            tier: `deep` has a language model rewrite the question and order what was found, where an endpoint is named
                (docs/tiers.md); it takes seconds. Whatever fails of that, the answer without it stands, and `degraded`
                says so.

        Who asks the same again within the minute is given the same answer again, of which `ms` says that no stage ran
        (setting `answers`).

        Raises:
            UsageError: an argument is out of range or names what is not there.
        """
        from helix.question.build import check_known, make_query
        from helix.recipes.load_profile import load

        check_known("tier", tier, ("fast", "deep"))
        if tier == "deep":
            from helix.sdk import deep_recall as sdk

            asked_for = {
                "query": query,
                "k": k,
                "budget": budget,
                "project": project,
                "type": type,
                "since": since,
                "until": until,
                "as_of": as_of,
                "session": session,
                "speaker": speaker,
                "current_only": current_only,
                "entities": tuple(entities),
                "principal": principal,
                "projects": projects,
                "profile": profile,
                "rerank": rerank,
                "rerank_top": rerank_top,
                "now": now,
            }
            return sdk.recall(self, asked_for, explain=explain, why_not=why_not)
        began, whole = time.perf_counter(), self._snapshot  # one generation for the whole call, whatever refresh() does
        minute = f"minute {time.time() // 60:.0f}"
        within = (project, type, since, until, as_of, session, speaker, current_only, tuple(entities))
        whom = (principal, None if projects is None else tuple(projects))
        asked = repr((whole.name, query, k, budget, *within, *whom, profile, rerank, rerank_top, now or minute))
        if not (explain or why_not) and (known := self._answers.get(asked)):
            spent = round((time.perf_counter() - began) * 1000, 3)
            return replace(known, ms={**dict.fromkeys(known.ms, 0.0), "total": spent})  # no stage ran
        snapshot = whole.seen_by(*whom)
        absent = None if why_not is None else row_of(snapshot, why_not)
        trace = Trace(explain or why_not is not None)
        question = make_query(
            query,
            snapshot,
            self.settings,
            k=k,
            budget=budget,
            project=project,
            type=type,
            since=since,
            until=until,
            as_of=as_of,
            session=session,
            speaker=speaker,
            current_only=current_only,
            entities=entities,
            principal=principal,
            now=now,
            rerank=rerank,
            rerank_top=rerank_top,
        )
        constants = load(profile, self.settings.profiles)
        then = snapshot.known_at(question.as_of)
        bundle = recipe(constants.recipe).recall(question, then, constants, trace, self._models)
        if not (trace.on or bundle.degraded):  # what was out of reach may be back for the next one
            self._answers.keep(asked, bundle)
        if why_not is None or absent is None:
            return bundle
        said = explain_absence(why_not, absent, trace, bundle.items, bundle.packed)
        return replace(bundle, trace={**(bundle.trace or {}), "why_not": said})

    def item(
        self, identity: str, *, principal: str | None = None, projects: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """One item as it is stored; None where there is none that the principal may see."""
        from helix.sdk import browse

        return browse.item(self._snapshot.seen_by(principal, projects), identity)

    def around(
        self,
        identity: str,
        *,
        before: int = 3,
        after: int = 3,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """An item with those before and after it in its session; None as for `item`."""
        from helix.question.build import check_range
        from helix.sdk import browse

        check_range("before", before, 0, MOST_AROUND)
        check_range("after", after, 0, MOST_AROUND)
        return browse.around(self._snapshot.seen_by(principal, projects), identity, before=before, after=after)

    def neighbours(
        self, identity: str, *, principal: str | None = None, projects: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """What an item is connected with, as nodes and edges; None as for `item`."""
        from helix.sdk import browse

        return browse.neighbours(self._snapshot.seen_by(principal, projects), identity)

    def session(
        self,
        name: str,
        *,
        offset: int = 0,
        limit: int = 200,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """A session in reading order; None where there is none that the principal may see."""
        from helix.sdk import browse

        _page(offset, limit)
        return browse.session(self._snapshot.seen_by(principal, projects), name, offset=offset, limit=limit)

    def timeline(
        self,
        *,
        project: str | None = None,
        since: Time = None,
        until: Time = None,
        offset: int = 0,
        limit: int = 50,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Sessions, newest first.

        Raises:
            UsageError: an argument is out of range or names what is not there.
        """
        from helix.question.build import check_known, moment_of
        from helix.sdk import browse

        _page(offset, limit)
        snap = self._snapshot.seen_by(principal, projects)
        project = check_known("project", project, snap.catalog.live_projects)
        start, end = moment_of(since, "since"), moment_of(until, "until", end=True)
        return browse.timeline(snap, project=project, since=start, until=end, offset=offset, limit=limit)

    def facts(
        self,
        entity: str,
        *,
        at: Time = None,
        offset: int = 0,
        limit: int = 100,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """What is stated about an entity, and from when to when each fact holds.

        Raises:
            UsageError: no entity is named, or an argument is out of range.
        """
        from helix.question.build import moment_of
        from helix.sdk import browse
        from helix.text.tokenize import well_formed

        _page(offset, limit)
        if not entity.strip() or len(entity) > MOST_NAME:
            raise UsageError(f"entity has {len(entity)} characters", f"give a name of 1 to {MOST_NAME}")
        snap = self._snapshot.seen_by(principal, projects)
        return browse.facts(snap, well_formed(entity), at=moment_of(at, "at"), offset=offset, limit=limit)

    def choices(self, *, principal: str | None = None, projects: Sequence[str] | None = None) -> dict[str, Any]:
        """What there is to filter by: projects, types, speakers, and the profiles that can be named."""
        from helix.recipes.load_profile import names
        from helix.sdk import browse

        found = browse.choices(self._snapshot.seen_by(principal, projects))
        return {**found, "profiles": list(names(self.settings.profiles))}

    def feedback(self, item: str, kind: str = "used") -> None:
        """Say that an item was of use (`used`, `helpful`, `fetched`) or `wrong`.

        An event beside the snapshot, which the next `helix touch` folds in.

        Raises:
            UsageError: no live item has this id, or nobody knows the kind.
            StoreError: the store cannot be written.
        """
        event = make_event(item, kind)
        row_of(self._snapshot, item)
        self._events.append([event])

    def stale(self) -> bool:
        """Whether a newer generation has been published that is to be taken."""
        return not self._fixed and manifests.current_name(self.root) != self._snapshot.name

    def refresh(self) -> bool:
        """Open and warm the newest generation beside the old one, then swap. True if there was a newer one.

        Raises:
            StoreError: the newest generation cannot be opened; the old one goes on answering.
        """
        with self._refreshing:
            if not self.stale():
                return False
            fresh = Snapshot.open(self.root, threads=self.settings.threads, before=self._snapshot)
            if fresh.name is None:  # not that nothing was published yet: that was, and is open here
                raise StoreError(
                    f"{self.root / 'CURRENT'} is gone", f"write {self._snapshot.name!r} into it, or restore the store"
                )
            fresh.adopt(self._snapshot)
            self._snapshot = fresh.warm()
            return True


def open(store: str | Path, *, snapshot: int | None = None) -> Memory:
    """Open a store for recall; see `Memory`."""
    return Memory(store, snapshot=snapshot)
