"""The meaning of a change of the log for a team, as Markdown for a pull request, and the reasons of a refusal.

Texts of entries are quoted and their names escaped, so that none acts in a terminal or on a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from helix.sources.common.quoted_text import quote_text
from helix.util.sanitise import printable_lines, sanitise_name
from pipelines.export.note_names import write_words
from pipelines.team.entry import LEARNED, TeamEntry, find_secret
from pipelines.team.fold import TeamState
from pipelines.team.keys import format_fingerprint
from pipelines.team.log import LogReading

BRIEF: Final = 120
"""Characters of a text that a line names."""

OTHERS: Final = ("README.md", "LICENSE", ".gitattributes", ".github/")
"""Files and folders that a branch may hold next to its entries."""

_HEADINGS: Final = {"decision": "Decisions", "rule": "Rules", "note": "Notes"}


@dataclass(frozen=True, slots=True)
class LogChange:
    """The difference of two states of a log."""

    new: tuple[str, ...]  # entries that stores would learn
    gone: tuple[str, ...]  # entries that they would forget
    replaced: tuple[str, ...]  # entries that no longer hold
    joined: tuple[str, ...]  # members
    left: tuple[str, ...]


def compare_states(before: TeamState, after: TeamState) -> LogChange:
    """Return the difference of two states."""
    return LogChange(
        new=tuple(key for key in after.known_entries if key not in before.known_entries),
        gone=tuple(key for key in before.known_entries if key not in after.known_entries),
        replaced=tuple(
            key for key in after.replacements if key in after.known_entries and key not in before.replacements
        ),
        joined=tuple(key for key in after.members if key not in before.members),
        left=tuple(key for key in before.members if key not in after.members),
    )


def list_problems(log: LogReading, state: TeamState, base: LogReading | None = None) -> list[tuple[str, str]]:
    """List (path, reason) of everything in a log that is not as it should be.

    Args:
        base: with it, only what came since; and entries of it that were changed or removed.
    """
    known = set(base.paths.values()) if base else set()
    found = [(path, reason) for path, reason in log.problems.items() if not base or base.problems.get(path) != reason]
    found += [(log.paths[key], refusal.reason) for key, refusal in state.refused.items() if log.paths[key] not in known]
    found += [
        (log.paths[key], secret)
        for key, entry in log.entries.items()
        if log.paths[key] not in known and (secret := find_secret(entry))
    ]
    found += [
        (path, "no name of an entry: 'helix team publish' writes entries")
        for path in log.others
        if not path.startswith(OTHERS) and not (base and path in base.others)
    ]
    here = {*log.paths.values(), *log.problems}
    found += [
        (path, "removed: entries stay, 'helix team withdraw' withdraws one") for path in known if path not in here
    ]
    return sorted(found)


# ---------------------------------------------------------------- Markdown


def write_change(before: TeamState, after: TeamState, problems: Sequence[tuple[str, str]]) -> str:
    """Return what a team would learn, as Markdown."""
    change = compare_states(before, after)
    parts = [f"## What the team {write_words(after.entries[after.root].name)} would learn", ""]
    for kind in LEARNED:
        found = [key for key in change.new if after.entries[key].kind == kind]
        if found:
            parts += [f"### {_HEADINGS[kind]}: {len(found)} new", ""]
            for key in _sort_said(found, after):
                parts += [*_write_entry(key, after), ""]
    if change.gone:
        parts += ["### Withdrawn", "", *(f"- {_write_brief(before.entries[key])}" for key in change.gone), ""]
    if change.joined or change.left:
        parts += ["### Members", ""]
        parts += [f"- joins: {_write_member(after.entries[key])}" for key in change.joined]
        parts += [f"- leaves: {_write_member(before.entries[key])}" for key in change.left]
        parts.append("")
    if clashes := _list_clashes(change, after):
        parts += ["### Two hold for one topic", "", *clashes, ""]
    if problems:
        parts += [
            "### Refused",
            "",
            *(f"- `{_write_path(path)}`: {write_words(reason)}" for path, reason in problems),
            "",
        ]
    if len(parts) == 2:
        parts += ["Nothing: no entry is new, and none is withdrawn.", ""]
    return "\n".join(parts)


def _sort_said(keys: Iterable[str], state: TeamState) -> list[str]:
    return sorted(keys, key=lambda key: (state.entries[key].said, key))


def _write_entry(key: str, state: TeamState) -> Iterator[str]:
    """Yield the lines of a new entry: who, when and about what, the text, and what it replaces."""
    entry = state.entries[key]
    about = f"**{write_words(entry.topic)}**, " if entry.topic else ""
    by = write_words(state.name_signer(entry))
    yield f"{about}{by}, {entry.said[:10]}, {write_words(entry.project)} (`{key[:12]}`)"
    yield ""
    yield quote_text(entry.text)
    for old in entry.replaces:
        if old in state.entries:
            yield f"\nreplaces {_write_brief(state.entries[old])}"


def _write_brief(entry: TeamEntry) -> str:
    """Return an entry on one line."""
    about = f"{write_words(entry.topic)}: " if entry.topic else ""
    return (
        f"{about}{write_words(sanitise_name(entry.text, BRIEF))} ({entry.kind}, {entry.said[:10]}, `{entry.id[:12]}`)"
    )


def _write_member(entry: TeamEntry) -> str:
    return f"{write_words(entry.name)} ({entry.role}), key {format_fingerprint(entry.key)}"


def _write_path(path: str) -> str:
    return sanitise_name(path.encode("utf-8", "replace").decode()).replace("`", "'")


def _list_clashes(change: LogChange, state: TeamState) -> list[str]:
    """Return a line for each topic of which several entries hold, one of them new."""
    topics: dict[tuple[str, str], list[str]] = {}
    for key, entry in state.holding.items():
        if entry.kind == "decision" and entry.topic:
            topics.setdefault((entry.project, entry.topic.lower()), []).append(key)
    found = [keys for keys in topics.values() if len(keys) > 1 and not set(change.new).isdisjoint(keys)]
    return [f"- {'; '.join(_write_brief(state.entries[key]) for key in _sort_said(keys, state))}" for keys in found]


# ---------------------------------------------------------------- a terminal


def write_state(state: TeamState, branch: str) -> str:
    """Return the members and what holds, as lines."""
    root = state.entries[state.root]
    parts = [f"team {root.name}, {state.root}, key {format_fingerprint(root.key)}, branch {branch}", ""]
    for key, one in sorted(state.members.items(), key=lambda pair: (pair[1].role != "owner", pair[1].name, pair[0])):
        parts.append(f"  {one.name:16} {one.role:6}  key {format_fingerprint(one.key)}  {key[:12]}")
    for kind in LEARNED:
        found = _sort_said((key for key, one in state.holding.items() if one.kind == kind), state)
        if found:
            parts += ["", f"{_HEADINGS[kind]}:"]
            parts += [f"  {key[:12]}  {_write_line(state.entries[key], state)}" for key in found]
    return printable_lines("\n".join(parts))


def _write_line(entry: TeamEntry, state: TeamState) -> str:
    about = f"{sanitise_name(entry.topic)}: " if entry.topic else ""
    return f"{about}{sanitise_name(entry.text, BRIEF)} ({state.name_signer(entry)}, {entry.said[:10]})"


def describe_entry(key: str, entry: TeamEntry, state: TeamState) -> dict[str, Any]:
    """Return an entry as plain data."""
    return {
        "id": key,
        **{name: getattr(entry, name) for name in ("kind", "project", "topic", "said", "text", "item")},
        "replaces": list(entry.replaces),
        "replaced_by": list(state.replacements.get(key, ())),
        "author": state.name_signer(entry),
        "signer": entry.signer,
    }


def describe_state(state: TeamState) -> Mapping[str, Any]:
    """Return a state as plain data."""
    members = [
        {"id": key, "name": one.name, "role": one.role, "key": one.key, "fingerprint": format_fingerprint(one.key)}
        for key, one in state.members.items()
    ]
    return {
        "team": state.root,
        "name": state.entries[state.root].name,
        "members": members,
        "entries": [describe_entry(key, one, state) for key, one in state.holding.items()],
        "replaced": [
            describe_entry(key, one, state) for key, one in state.known_entries.items() if key in state.replacements
        ],
        "refused": [{"id": key, "reason": one.reason} for key, one in state.refused.items()],
    }
