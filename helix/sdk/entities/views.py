"""The part of a `Memory` about entities: lists, a graph, and what is known of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from helix.errors import UsageError
from helix.types import Time

if TYPE_CHECKING:
    from helix.sdk.entities.board import Sight
    from helix.snapshot.reader.snapshot import Snapshot

MAX_NODES: Final = 10_000
"""Nodes of a graph."""

MAX_PAGE: Final = 1_000
"""Entities of a page."""

MAX_NAME: Final = 200
"""Characters of a name."""


class EntityViews(ABC):
    """Answers about the entities of the open generation."""

    @property
    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The generation that answers now."""

    def entities(
        self,
        *,
        kind: str | None = None,
        query: str = "",
        project: str | None = None,
        as_of: Time = None,
        offset: int = 0,
        limit: int = 100,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """List people, files and other entities, the most named first.

        Args:
            kind: the only kind, such as "person" or "path"; None: all.
            query: a part of the name, in any case.

        Raises:
            UsageError: an argument is out of range or names something unknown.
        """
        from helix.question.build import check_range
        from helix.sdk.entities.listing import list_entities

        check_range("offset", offset, 0, 1 << 40)
        check_range("limit", limit, 1, MAX_PAGE)
        board = self._see(project, as_of, principal, projects).board
        only = None if kind is None else _clean(kind)
        return list_entities(board, only, _clean(query), offset, limit)

    def graph(
        self,
        *,
        kinds: Sequence[str] | str = (),
        around: str | None = None,
        project: str | None = None,
        as_of: Time = None,
        limit: int = 200,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the most telling entities as nodes, and which of them items name together.

        Args:
            kinds: only these, a sequence or a text with commas; empty: those that say who or what.
            around: id or name of an entity; only its neighbourhood.

        Raises:
            UsageError: as for `entities`.
        """
        from helix.question.build import check_range
        from helix.sdk.entities.graph import answer_graph

        check_range("limit", limit, 1, MAX_NODES)
        sight = self._see(project, as_of, principal, projects)
        near = None if around is None else _check_name(_clean(around))
        kinds = _clean(kinds) if isinstance(kinds, str) else kinds
        only = frozenset(one.strip() for one in (kinds.split(",") if isinstance(kinds, str) else kinds)) - {""}
        key = ("graph", (sight.project, only, near, limit))
        return sight.seen.keep(key, lambda: answer_graph(sight.board, only, near, limit))

    def subject(
        self,
        name: str,
        *,
        project: str | None = None,
        as_of: Time = None,
        principal: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return what is known of a person, a file or a topic: what held when, related entities, and sessions.

        Raises:
            UsageError: as for `entities`, or no name is given.
        """
        from helix.sdk.entities.subject import describe_subject

        return describe_subject(self._see(project, as_of, principal, projects), _check_name(_clean(name)))

    def _see(self, project: str | None, as_of: Time, principal: str | None, projects: Sequence[str] | None) -> Sight:
        """Return the caller's view at a moment, and the entities of it."""
        from helix.question.build import check_project, parse_moment
        from helix.sdk.entities.board import Sight, make_board

        whole, moment = self.snapshot.seen_by(principal, projects), parse_moment(as_of, "as_of")
        project = check_project(project, whole.catalog)
        seen = whole.known_at(moment)
        return Sight(whole, seen, moment, project, make_board(seen, project))


def _clean(text: str) -> str:
    """Return a text with well-formed characters, at most as long as a name."""
    from helix.text.tokenize import make_well_formed

    if len(text) > MAX_NAME:
        raise UsageError(f"a name has {len(text)} characters", f"give one of at most {MAX_NAME}")
    return make_well_formed(text)


def _check_name(name: str) -> str:
    if not name.strip():
        raise UsageError("no name is given", f"give one of 1 to {MAX_NAME} characters")
    return name
