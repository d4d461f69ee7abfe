"""Answers for a page of a store: its home, and the outline of a session. They are kept while a generation answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from helix.errors import HelixError
from helix.sdk.answer_cache import AnswerCache
from helix.types import Bundle, RecallOptions, Time

if TYPE_CHECKING:
    from helix.sdk.home import Home
    from helix.snapshot.reader.snapshot import Snapshot

HOMES: Final = 16
"""Homes that are kept: of callers, projects and moments."""

OUTLINES: Final = 8
"""Outlines that are kept."""


class PageCaches:
    """Homes and outlines of one memory that are kept."""

    def __init__(self) -> None:
        self.homes: AnswerCache[Home] = AnswerCache(HOMES)
        self.outlines: AnswerCache[dict[str, Any]] = AnswerCache(OUTLINES)


class Pages:
    """The pages of one memory. Safe to share between threads.

    A memory makes it for each use: a memory that held it would keep itself, and its generation, until the next
    collection of cycles.

    Args:
        whole: the generation that answers now.
        recall: answers a question.
    """

    def __init__(self, whole: Snapshot, recall: Callable[[str, RecallOptions], Bundle], caches: PageCaches) -> None:
        self._whole, self._recall = whole, recall
        self._homes, self._outlines = caches.homes, caches.outlines

    def prepare(self) -> None:
        """Make a first home, so that a person's first one does not wait for imports and models: a second or so."""
        with suppress(HelixError):  # the request for a home reports it
            self.home()

    def home(
        self,
        *,
        project: str | None = None,
        as_of: Time = None,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the newest sessions, what holds, what is open, the last week, and questions to try.

        Questions that the first call has no time to check come with the next one.

        Args:
            project: the only project; None: all.
            as_of: the moment; None: now.

        Raises:
            UsageError: an argument is out of range or names something unknown.
        """
        from helix.question.build import check_project, parse_moment
        from helix.sdk.home import answer_home

        whole = self._whole
        project = check_project(project, whole.seen_by(principal, projects).catalog)
        visible = None if projects is None else tuple(projects)
        moment = parse_moment(as_of, "as_of")
        asked = RecallOptions(principal=principal, projects=visible, project=project, as_of=moment)
        return answer_home(whole, asked, self._homes, self._recall)

    def outline(
        self,
        session: str,
        *,
        as_of: Time = None,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return the outline of a session; None if the principal can see none of it.

        Args:
            as_of: only what was said by this moment, and what held then; None: now.

        Raises:
            UsageError: the moment cannot be read.
        """
        from helix.question.build import parse_moment
        from helix.sdk.outline import outline

        whole, moment = self._whole, parse_moment(as_of, "as_of")
        key = repr((whole.name, session, moment, principal, None if projects is None else tuple(projects)))
        found = self._outlines.get(key)
        if found is None:
            found = outline(whole.seen_by(principal, projects), session, moment)
            if found is not None:
                self._outlines.put(key, found)
        return found
