"""Sessions that callers keep out of the store, as `helix off --session` and `helix on --session` do.

The owner may name any session. A key names one that it sees, all of it, and learns of no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helix.errors import UsageError
from helix.switches import state
from helix.switches.words import describe_off, describe_on, name_option
from helix.util.sanitise import MAX_NAME
from query.auth import Caller
from query.writes import find_session, refuse_session

if TYPE_CHECKING:
    from query.stores.many import AnyService


def keep_out(service: AnyService, caller: Caller, session: str, off: bool) -> dict[str, Any]:
    """Keep a session out of the store from now on, or end that; return the session, `off`, `changed` and a message.

    Raises:
        AccessDenied: the key lacks the scope, or sees only a part of the session.
        UsageError: the name is empty or too long, or the key sees no such session.
        StoreError: the switches are damaged, or cannot be written.
    """
    caller.check_scope("forget")
    service, caller = service.find_own(caller, "forget")
    name = session.strip()
    if not 0 < len(name) <= MAX_NAME:
        raise UsageError(f"the session has {len(name)} characters", f"give a name of 1 to {MAX_NAME}")
    if caller.key and not len(find_session(service, caller, name)[1]):
        raise refuse_session(name)
    target = state.make_target(session=name)
    if off:
        changed = state.switch_off(service.root, target)
        message = describe_off(target, changed, f"helix on {name_option(target)}")
    else:
        closed = state.switch_on(service.root, lambda switch: switch["session"] == name)
        changed, message = bool(closed), describe_on(target, closed)
    return {"session": name, "off": off, "changed": changed, "message": message}


def list_kept_out(service: AnyService, caller: Caller) -> list[dict[str, str]]:
    """List what is off now: for the owner all of it, for a key the sessions and projects that it sees.

    Raises:
        AccessDenied: the key lacks the scope.
        StoreError: the switches are damaged.
    """
    caller.check_scope("forget")
    service, caller = service.find_own(caller, "forget")
    switches = state.list_off(service.root)
    if not caller.key:
        return switches
    catalog = service.view(caller).catalog
    projects = set(catalog.live_projects)
    return [
        one
        for one in switches
        if (catalog.sessions_named(one["session"]) if "session" in one else one.get("project") in projects)
    ]
