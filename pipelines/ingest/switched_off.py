"""The lines and turns that are left out at accept, because Helix is or was off for their session or project.

A switch has intervals (`helix.switches.state`): what was said in one stays out, also when a log is ingested again. The
line `helix: off` in a project's own file counts for all that is offered while it is there. A line or turn without a
time has that of the one before it. Where a source gives none, all of it stays out while the switch is off, and later
what its file may have got in an interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from helix.redact.paths import redact_path
from helix.sources import registry as sources
from helix.sources.common.pieces import write_sessions
from helix.switches.project_line import find_line
from helix.switches.scope import make_scope, matches
from helix.switches.state import name_switch, parse_stamp
from helix.types import Document, Session, Turn
from helix.util.workspaces import make_workspace, name_workspace
from pipelines.ingest.workspaces import list_named_folders

if TYPE_CHECKING:
    from helix.switches.state import Switch

_DATED: Final = ("exact", "derived")
_UUID: Final = 36  # characters; the names of some logs end with their session's


class Omission(NamedTuple):
    """The number of lines or turns that were left out of one input, and the reason."""

    amount: int
    unit: str  # line | turn
    reason: str
    remedy: str  # empty: nothing brings it back

    def describe(self, name: str) -> str:
        """Return the line that tells people of it."""
        noun = f"{self.amount:,} {self.unit}" + ("s" if self.amount != 1 else "")
        return f"{name}: {noun} left out: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")


class SpokenTime(NamedTuple):
    """The time of a line or turn, in seconds since 1970, as far as its source tells."""

    earliest: float
    latest: float
    is_dated: bool = True  # the source gives it; otherwise the writes of the file bound it


class OffRule(NamedTuple):
    """One switch that matches, with its intervals in seconds since 1970."""

    spans: tuple[tuple[float, float], ...]
    name: str  # "project acme"; empty for the line in a project's file
    path: str = ""  # of that file
    remedy: str = ""

    def find_reason(self, time: SpokenTime) -> tuple[str, str] | None:
        """Return (reason, remedy) where the rule keeps out what may have been said at this time."""
        if self.path:
            return f"{self.path} says 'helix: off'", self.remedy
        for since, until in self.spans:
            is_open = until == math.inf
            # A log may write whole seconds, so an interval begins with its second.
            is_within = math.floor(since) <= time.latest and time.earliest < until
            if is_within or (is_open and not time.is_dated):
                if is_open:
                    return f"Helix is off for {self.name}", self.remedy
                return f"Helix was off for {self.name} at that time", ""
        return None


@dataclass
class OffCheck:
    """The switches, as they are when one input is accepted, and what they left out of it."""

    switches: Sequence[Switch] = ()
    project: str | None = None  # the caller's
    path: str = ""
    tool_chars: int = 0
    left_out: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # (unit, reason, remedy) → count
    _lines: dict[str, str] = field(default_factory=dict)  # folder → file with the project's line
    _rules: dict[tuple[tuple[str, ...], ...], tuple[OffRule, ...]] = field(default_factory=dict)

    def may_apply(self, where: str, text: str) -> bool:
        """Return whether anything of a text may have to be left out; cheap where nothing was ever switched off."""
        return bool(self.switches) or any(self._find_line(folder) for folder in list_named_folders(where, text))

    def find_rules(
        self, sessions: Iterable[str], folders: Iterable[str], projects: Iterable[str], remotes: Iterable[str] = ()
    ) -> tuple[OffRule, ...]:
        """Return the rules for what is named; empty names are ignored."""
        key = tuple(tuple(filter(None, names)) for names in (sessions, folders, projects, remotes))
        if key not in self._rules:
            self._rules[key] = self._build_rules(*key)
        return self._rules[key]

    def _build_rules(
        self, sessions: Sequence[str], folders: Sequence[str], projects: Sequence[str], remotes: Sequence[str]
    ) -> tuple[OffRule, ...]:
        stem = Path(self.path.partition("#")[0]).stem
        named = [*projects, *([self.project] if self.project else [])]
        scope = make_scope(folders, [*sessions, stem, stem[-_UUID:]], named, remotes)
        if not scope["exists"]:  # the path of a removed worktree names its project
            workspaces = [make_workspace(folder) for folder in folders]
            scope["projects"] += [name for one in workspaces if one and (name := name_workspace(one))]
        rules = [
            OffRule((), "", redact_path(path), "remove that line to end that")
            for folder in folders
            if (path := self._find_line(folder))
        ]
        for switch in self.switches:
            if switch["off"] and matches(switch, scope):
                option = f"--session {switch['session']}" if switch["session"] else f"--project {switch['project']}"
                spans = [(parse_stamp(one["since"]), _read_end(one["until"])) for one in switch["off"]]
                rules.append(OffRule(tuple(spans), name_switch(switch), remedy=f"'helix on {option}' ends that"))
        return tuple(rules)

    def _find_line(self, folder: str) -> str:
        if folder not in self._lines:
            self._lines[folder] = find_line(folder)
        return self._lines[folder]

    def is_left_out(self, rules: Sequence[OffRule], time: SpokenTime, unit: str) -> bool:
        """Return whether something said at this time stays out, and count it if so."""
        found = next((found for rule in rules if (found := rule.find_reason(time))), None)
        if found:
            self.left_out[unit, *found] += 1
        return found is not None

    def list_left_out(self) -> tuple[Omission, ...]:
        """List what was left out so far."""
        return tuple(Omission(count, *key) for key, count in self.left_out.items())

    def filter_text(self, where: str, text: str, format: str, mtime: float) -> str:
        """Return a text that is accepted whole without the turns that stay out; empty if none is left.

        Args:
            mtime: last write of its file, the time of a text without one.

        Raises:
            InputRefused: nothing in it can be read.
        """
        if not self.may_apply(where, text):
            return text
        parsed = sources.parse(Document(where, text), format, self.tool_chars)
        before = self.left_out.total()
        kept = [self._filter_session(session, where, text, mtime) for session in parsed.sessions]
        if self.left_out.total() == before:
            return text
        return write_sessions([session for session in kept if session.turns])

    def _filter_session(self, session: Session, where: str, text: str, mtime: float) -> Session:
        workspace, part = session.workspace, where.partition("#")[2]
        folders = [workspace.folder, workspace.top] if workspace else []
        rules = self.find_rules(
            [session.id, session.branch_of or "", part],
            [*folders, *list_named_folders(where, text)],
            [] if workspace else [session.project or ""],
            [workspace.remote] if workspace else [],
        )
        return self._drop_turns(session, rules, mtime) if rules else session

    def _drop_turns(self, session: Session, rules: Sequence[OffRule], mtime: float) -> Session:
        time = SpokenTime(mtime, mtime, False)
        turns: list[Turn] = []
        for turn in session.turns:
            if turn.time and turn.time_quality in _DATED:
                time = SpokenTime(turn.time.timestamp(), turn.time.timestamp())
            if not self.is_left_out(rules, time, "turn"):
                turns.append(turn)
        return replace(session, turns=tuple(turns))


def _read_end(until: str | None) -> float:
    return math.inf if until is None else parse_stamp(until)
