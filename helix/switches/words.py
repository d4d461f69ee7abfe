"""Sentences about a switch that was changed, the same on every surface."""

from __future__ import annotations

from helix.switches.state import name_switch
from helix.util.sanitise import sanitise_name

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from collections.abc import Sequence

    from helix.switches.state import Switch


def describe_off(target: Switch, changed: bool, way_back: str) -> str:
    """Say that Helix is off for a switch, what that means, and the command that ends it."""
    text = (
        f"Helix is off for {sanitise_name(name_switch(target))}: hooks add nothing, and what is said from now on is "
        f"not stored. What is stored already stays; 'helix forget {name_option(target)}' removes it. '{way_back}' "
        "switches it on again."
    )
    return text if changed else f"Already so: {text}"


def describe_on(target: Switch, closed: Sequence[Switch]) -> str:
    """Say that Helix is on again, for the switches that were closed."""
    name = sanitise_name(", ".join(dict.fromkeys(map(name_switch, closed))) or name_switch(target))
    if not closed:
        return f"Helix was not off for {name}."
    return (
        f"Helix is on again for {name}: hooks answer, and what is said from now on is stored. What was said while it "
        "was off stays out."
    )


def name_option(target: Switch) -> str:
    """Return the option of the command line that names a switch."""
    return f"--session {target['session']}" if target["session"] else f"--project {target['project']}"
