"""Helix's hooks in an agent's JSON settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from query.install import json_edit
from query.install.agents import Agent

_TIMEOUT: Final = 10  # seconds; the hook gives up earlier by itself


def make_hooks(agent: Agent, helix: Sequence[str], store: Path) -> dict[str, dict[str, Any]]:
    """Return the entry of each event."""
    entries = {}
    for event in agent.events:
        command = shlex.join([*helix, "hook", event, "--store", str(store)])
        kind = {} if agent.is_flat else {"type": "command"}
        name = {"name": "helix"} if agent.unit != 1 else {}  # Gemini requires a name
        entries[event] = {**name, **kind, "command": command, "timeout": _TIMEOUT * agent.unit}
    return entries


def put_hooks(agent: Agent, wanted: Mapping[str, dict[str, Any]], text: str) -> str:
    """Return the settings with the wanted entries, each once."""
    root = json_edit.parse_object(text)
    present = _find_entries(agent, root)
    for event, path in reversed(present):  # from the last, so that earlier paths stay valid
        first = next(one for other, one in present if other == event)
        if event not in wanted or path != first:
            text = _remove_entry(text, path)
        elif json_edit.get_value(root, path) != wanted[event]:
            text = json_edit.put(text, path, wanted[event])
    if agent.is_flat and "version" not in root:
        text = json_edit.put(text, ["version"], 1)
    events = {event for event, _ in present}
    for event, entry in wanted.items():
        if event not in events:
            text = json_edit.ensure_container(text, ["hooks"], {})
            text = json_edit.ensure_container(text, ["hooks", event], [])
            place = len(json_edit.get_value(json_edit.parse(text), ["hooks", event]))
            group = {"matcher": agent.matchers[event]} if event in agent.matchers else {}
            text = json_edit.put(text, ["hooks", event, place], entry if agent.is_flat else {**group, "hooks": [entry]})
    return text


def remove_hooks(agent: Agent, text: str) -> str:
    """Return the settings without Helix's entries."""
    for _, path in reversed(_find_entries(agent, json_edit.parse_object(text))):
        text = _remove_entry(text, path)
    return text


def is_helix_hook(command: object) -> bool:
    """Return whether a hook's command is one that `helix install` wrote."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    is_script = words[1:2] == ["hook"] and Path(words[0]).name == "helix"
    return is_script or ("helix.cli" in words[:4] and words[words.index("helix.cli") + 1 :][:1] == ["hook"])


def _find_entries(agent: Agent, root: Any) -> list[tuple[str, list[str | int]]]:
    """Return (event, path) of each of Helix's entries."""
    entries: list[tuple[str, list[str | int]]] = []
    for event, groups in root.get("hooks", {}).items():
        if not isinstance(groups, list):
            continue  # a setting among the events
        for i, group in enumerate(groups):
            for j, entry in enumerate([group] if agent.is_flat else group["hooks"]):
                if is_helix_hook(entry.get("command")):
                    entries.append((event, ["hooks", event, i] if agent.is_flat else ["hooks", event, i, "hooks", j]))
    return entries


def _remove_entry(text: str, path: Sequence[str | int]) -> str:
    """Return the text without an entry, and without the group, event and `hooks` that become empty."""
    for one in (path, *([path[:3]] if len(path) > 3 else []), path[:2], path[:1]):
        text = json_edit.remove(text, one)
        if json_edit.get_value(json_edit.parse(text), one[:-1]):
            break
    return text
