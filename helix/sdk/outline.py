"""The outline of a session: its turns in a line each, its steps, fixes, files, commits, entities and decisions.

Texts are quoted data of the past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from helix.recipes.common import describe_replacement, format_time, ids
from helix.sdk.browse import format_seconds
from helix.sdk.decisions.entries import EntryWriter
from helix.sdk.decisions.plain_words import find_decision
from helix.sdk.decisions.topics import TopicBoard
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.steps import FAILED, RESULT, RUN
from helix.snapshot.segment.batch import NO_TIME
from helix.stages.replaced import add_replacements
from helix.text.cues import ASKS
from helix.text.step_keys import split_targets
from helix.types import I64, ROLES, TYPES
from helix.util.sanitise import sanitise_name
from helix.work.lines import read_prose
from helix.work.outcome import format_outcome
from helix.work.resolve import Resolution, resolve
from helix.work.voices import find_agent, list_voices

TURNS: Final = 5_000
"""Turns of an outline."""

HEAD: Final = 90
"""Characters of a turn's first words."""

ENTITIES: Final = 30
FIXES: Final = 60
DECISIONS: Final = 60

_READ: Final = 2_000  # characters of a text in which its head is looked for
_TARGET: Final = 400  # characters of a step's target
_ASSISTANT, _TOOL = ROLES.index("assistant"), ROLES.index("tool")
_DECISION: Final = TYPES.index("decision")
_SPARE: Final = 3  # times as many entities are named, since some have the same name
_UNTELLING: Final = frozenset({"date", "relationship"})  # kinds of entities


def outline(snap: Snapshot, name: str, as_of: datetime | None = None) -> dict[str, Any] | None:
    """Return the outline of a session; None if the caller can see none of it.

    Args:
        as_of: only what was said by this moment, and what held then; None: now.
    """
    at = int((as_of or datetime.now(UTC)).timestamp())
    snap = snap.known_at(as_of, None)
    codes = snap.catalog.sessions_named(name)
    columns = snap.columns
    whole = np.flatnonzero(snap.alive & np.isin(columns.session, codes)) if codes else np.empty(0, np.int64)
    if not len(whole):
        return None
    whole = whole[np.lexsort((columns.ord[whole], columns.session[whole]))]
    rows, times = whole[:TURNS], columns.time[whole]
    times = times[times != NO_TIME]
    entries = snap.text(rows)
    steps = snap.steps.read(np.concatenate([snap.steps.list_of_session(code) for code in codes]))
    kept = frozenset(rows.tolist())
    steps = [step for step in steps if step["row"] in kept]
    fixes = _find_fixes(snap, steps)
    decisions = _list_decisions(snap, rows, entries, at)
    return {
        "session": name,
        "project": entries[0]["project"],
        "title": entries[0]["title"],
        "agent": find_agent(int(snap.sessions[columns.session[rows[0]]]), name) or None,
        "source": entries[0]["path"],
        "began": format_seconds(times.min()) if len(times) else None,
        "ended": format_seconds(times.max()) if len(times) else None,
        "total": len(whole),
        "more": len(whole) > len(rows),
        "turns": _list_turns(snap, rows, entries, steps, fixes, frozenset(one["item"] for one in decisions)),
        "steps": _list_steps(snap, steps),
        "fixes": [_describe_fix(snap, found) for found in fixes],
        "files": _list_files(snap, steps),
        "commits": [
            {"commit": commit, "item": _name_item(snap, step["row"])} for step in steps for commit in step["commits"]
        ],
        "entities": _list_entities(snap, rows),
        "decisions": decisions,
    }


def _name_item(snap: Snapshot, row: int) -> str:
    return f"{int(snap.columns.key[row]):016x}"


# ---------------------------------------------------------------- turns


def _list_turns(
    snap: Snapshot,
    rows: I64,
    entries: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    fixes: Sequence[Resolution],
    decided: frozenset[str],
) -> list[dict[str, Any]]:
    marks = _mark_steps(snap, steps, fixes)
    edited = Counter(step["row"] for step in steps if step["action"] == "edit" for _ in split_targets(step["target"]))
    roles, types = snap.columns.role[rows].tolist(), snap.columns.type[rows].tolist()
    asks = _find_asking(snap, rows)
    voices = list_voices(snap, rows, entries)
    found = list[dict[str, Any]]()
    for place, (row, entry) in enumerate(zip(rows.tolist(), entries, strict=True)):
        continues = place > 0 and entry["turns"] == entries[place - 1]["turns"]
        own = marks.get(row, set()) | ({"decision"} if entry["id"] in decided else set())
        own |= {"asked"} if row in asks else set()
        found.append(
            {
                "id": entry["id"],
                "place": place,
                "piece": found[-1]["piece"] + 1 if continues else 0,
                "role": ROLES[roles[place]],
                "voice": voices[place],
                "time": format_time(entry["time"]),
                "head": _cut_head(str(entry["text"])),
                "type": TYPES[types[place]],
                "marks": [mark for mark in MARKS if mark in own],
                "edited": edited[row],
            }
        )
    return found


MARKS: Final = ("decision", "error", "fix", "edit", "commit", "asked")
"""What a turn may be marked as."""


def _mark_steps(snap: Snapshot, steps: Sequence[Mapping[str, Any]], fixes: Sequence[Resolution]) -> dict[int, set[str]]:
    """Return the marks that steps give to rows."""
    marks: dict[int, set[str]] = {}
    for step in steps:
        for mark, holds in (
            ("error", step["action"] == "result" and step["outcome"] == "failed"),
            ("edit", step["action"] == "edit"),
            ("commit", bool(step["commits"])),
        ):
            if holds:
                marks.setdefault(step["row"], set()).add(mark)
    for found in fixes:
        if found.held:
            marks.setdefault(int(snap.steps.columns.row[found.shown]), set()).add("fix")
    return marks


def _find_asking(snap: Snapshot, rows: I64) -> frozenset[int]:
    """Return the rows in which an agent asks the user, who speaks next or not at all."""
    spoken = rows[snap.columns.role[rows] != _TOOL]
    role = snap.columns.role[spoken]
    follows = np.append(role[1:], ROLES.index("user"))
    asking = (role == _ASSISTANT) & (follows != _ASSISTANT) & ((snap.lexical.cues(spoken) & ASKS) > 0)
    return frozenset(spoken[asking].tolist())


def _cut_head(text: str) -> str:
    """Return the first words of a turn's prose; of one without prose, its first line that has a letter or a digit."""
    text = text[:_READ]
    prose = read_prose(text)
    if not any(map(str.isalnum, prose)):
        prose = next((line for line in text.split("\n") if any(map(str.isalnum, line))), text)
    return sanitise_name(prose.lstrip("#*->•:| \t"), HEAD)


# ---------------------------------------------------------------- steps


def _list_steps(snap: Snapshot, steps: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the steps by item."""
    partners = snap.steps.find_partners(np.array([step["step"] for step in steps], np.int64)).tolist()
    found: dict[str, list[dict[str, Any]]] = {}
    for step, partner in zip(steps, partners, strict=True):
        call = partner if step["action"] == "result" else -1
        target = step["target"]
        found.setdefault(_name_item(snap, step["row"]), []).append(
            {
                **{name: step[name] for name in ("action", "tool", "outcome", "exit_code", "error")},
                "target": target if len(target) <= _TARGET else target[: _TARGET - 1] + "…",
                "tests": list(step["tests"]) if step["tests"] else None,
                "commits": list(step["commits"]),
                "result_of": _name_item(snap, int(snap.steps.columns.row[call])) if call >= 0 else None,
            }
        )
    return found


def _find_fixes(snap: Snapshot, steps: Sequence[Mapping[str, Any]]) -> list[Resolution]:
    """Return what came of the session's failures, the last `FIXES` of them.

    An agent's wrong use of its own tools counts only where something came of it.
    """
    columns = snap.steps.columns
    numbers = [step["step"] for step in steps if step["error"]]
    failed = [one for one in numbers if columns.action[one] == RESULT and columns.outcome[one] == FAILED]
    found = [resolve(snap, one) for one in failed[-FIXES:]]
    return [one for one in found if one.shown >= 0 or (one.call >= 0 and columns.action[one.call] == RUN)]


def _describe_fix(snap: Snapshot, found: Resolution) -> dict[str, Any]:
    (failed,) = snap.steps.read([found.failed])
    rows = snap.steps.columns.row[list(found.changes)] if found.changes else np.empty(0, np.int64)
    return {
        "failed": _name_item(snap, failed["row"]),
        "error": failed["error"],
        "held": found.held,
        "changes": [*dict.fromkeys(ids(rows, snap))],
        "shown": _name_item(snap, int(snap.steps.columns.row[found.shown])) if found.shown >= 0 else None,
        "line": format_outcome(snap, found),
    }


def _list_files(snap: Snapshot, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the edited files, the most often edited first."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step["action"] == "edit":
            for path in split_targets(step["target"]):
                found.setdefault(path, []).append(_name_item(snap, step["row"]))
    files = [{"path": path, "edits": len(all_), "items": [*dict.fromkeys(all_)]} for path, all_ in found.items()]
    return sorted(files, key=lambda one: -one["edits"])


# ---------------------------------------------------------------- entities and decisions


def _list_entities(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    """Return the entities that set the session apart: named often here, and seldom elsewhere in the store."""
    place, named = snap.graph.entities_of(rows)
    order = np.lexsort((place, named))
    entities, first, here = np.unique(named[order], return_index=True, return_counts=True)
    if not len(entities):
        return []
    begin = place[order][first]
    everywhere = np.maximum(snap.graph.count_items(entities), here)
    telling = np.log1p(here) * here / everywhere
    best = np.lexsort((entities, begin, -telling))[: _SPARE * ENTITIES]
    names = snap.facts.entity_names(entities[best])
    found: dict[str, dict[str, Any]] = {}
    for one in best.tolist():
        kind, name = names.get(int(entities[one]), ("date", ""))
        lower = name.lower()
        is_end = any(f"/{lower}".endswith(f"/{other}") or f"/{other}".endswith(f"/{lower}") for other in found)
        if kind not in _UNTELLING and not is_end:  # of a path and its end, the more telling one
            item = _name_item(snap, int(rows[begin[one]]))
            found[lower] = {"name": name, "kind": kind, "items": int(here[one]), "first": item}
    return [*found.values()][:ENTITIES]


def _list_decisions(snap: Snapshot, rows: I64, entries: Sequence[Mapping[str, Any]], at: int) -> list[dict[str, Any]]:
    """Return what the session decided, in its order, and whether it holds."""
    board = TopicBoard(snap, at, None)
    own = np.zeros(snap.rows, bool)
    own[rows] = True
    board.stated &= own
    holding, writer = snap.facts.holding(at), EntryWriter(board)
    facts = board.facts
    decisive = np.flatnonzero(~facts.columns.closes & ~facts.rejects)
    by_agent = snap.columns.role[facts.columns.row[decisive]] == _ASSISTANT
    decided = snap.columns.type[facts.columns.row[decisive]] == _DECISION
    decisive = decisive[~by_agent | decided]
    of_row: dict[int, list[int]] = {}
    for fact in decisive.tolist():
        of_row.setdefault(int(facts.columns.row[fact]), []).append(fact)
    plain = rows[(snap.columns.type[rows] == _DECISION) & ~np.isin(rows, facts.columns.row)]
    places = {row: place for place, row in enumerate(rows.tolist())}
    listed = sorted({*of_row, *plain.tolist()}, key=places.__getitem__)
    chosen = [entries[places[row]] for row in listed]
    found: list[dict[str, Any]] = []
    for row, entry in zip(listed, add_replacements(chosen, np.array(listed, np.int64), snap, at), strict=True):
        replaced_by = describe_replacement(entry["replaced"])
        for written in _write_decisions(writer, row, of_row.get(row, [])):
            holds = replaced_by is None and (written["fact"] < 0 or bool(holding[facts.number[written["fact"]]]))
            told = {name: written[name] for name in ("text", "topic", "value")}
            found.append({"item": entry["id"], **told, "holds": holds, "replaced_by": None if holds else replaced_by})
    return found[:DECISIONS]


def _write_decisions(writer: EntryWriter, row: int, facts: Sequence[int]) -> list[dict[str, Any]]:
    """Return the decisions of an item: one a fact, else the sentence that states one in plain words."""
    if facts:
        return [{**writer.write_fact(fact), "topic": writer.name_topic(fact), "fact": fact} for fact in facts]
    role = ROLES[int(writer.snap.columns.role[row])]
    text = find_decision(writer.text(row), role, writer.language(row))
    return [{"text": text, "topic": None, "value": None, "fact": -1}] if text else []
