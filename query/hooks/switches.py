"""The off switch in hooks: whether Helix is off for an event's session or project, and the prompts that switch it.

`query.hooks.command` imports this module while an agent waits, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from helix.errors import StoreError
from helix.switches.project_line import find_line
from helix.switches.scope import get_last_part, make_scope, matches
from helix.switches.state import is_open, make_target, name_switch, read_switches, switch_off, switch_on
from query.hooks import protocol

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from typing import Any


def find_off(root: str, payload: Mapping[str, Any]) -> str:
    """Return why Helix is off for an event's session or project, for the log; empty where it is on.

    Raises:
        StoreError: the file of the switches is damaged: then Helix is off for all.
    """
    session, folders = protocol.find_session(payload), protocol.list_folders(payload)
    switches = [switch for switch in read_switches(root) if is_open(switch)]
    if switches:
        scope = make_scope(folders, [session])
        found = next((switch for switch in switches if matches(switch, scope)), None)
        if found:
            return "off for this session" if found["session"] else f"off for {name_switch(found)}"
    if line := next((line for folder in folders if (line := find_line(folder))), ""):
        return f"off for this project: {get_last_part(line)} says 'helix: off'"
    return ""


def read_switch_prompt(prompt: str) -> str:
    """Return `off` or `on` for a prompt that is only `helix off` or `helix on`; empty for any other."""
    words = prompt.lower().strip().removeprefix("/").rstrip(".!").split()
    return words[1] if len(words) == 2 and words[0] == "helix" and words[1] in ("off", "on") else ""


def switch_session(root: str, payload: Mapping[str, Any], word: str) -> tuple[str, str]:
    """Switch an event's session off or on; return what the agent is to know, and a note for the log."""
    session = protocol.find_session(payload)
    if not session:
        return (
            f"Helix cannot be switched {word} here: the event names no session. 'helix {word}' in a terminal does it.",
            "the event names no session",
        )
    try:
        if word == "off":
            switch_off(root, make_target(session=session))
            return (
                "Helix is off for this session: it adds nothing, and what is said from now on is not stored. What is "
                "stored already stays. The prompt 'helix on' switches it on again.",
                "switched off for this session",
            )
        switch_on(root, lambda switch: switch["session"] == session)
        off = find_off(root, payload)
    except StoreError as error:
        return f"Helix could not be switched {word}: {error}", f"failed: {error.what}"
    if off:
        return f"Helix stays {off}. 'helix on' in the project's folder ends a switch.", off
    return (
        "Helix is on again for this session: what is said from now on is stored. What was said while it was off "
        "stays out.",
        "switched on for this session",
    )
