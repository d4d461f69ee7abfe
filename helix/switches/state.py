"""The switches of a store: the projects and sessions that Helix is off for, and from when until when.

They are the file `switches.json` in the store's folder. Past intervals stay in it: a log that is ingested again must
not bring back what was said while Helix was off. `helix off`, `helix on` and the prompt hook change the file under a
lock; hooks and ingest read it. A hook imports this module while an agent waits, so it imports next to nothing.
"""

from __future__ import annotations

import json
import os
import time

from helix.errors import StoreError

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypedDict

    class Interval(TypedDict):
        """A span of time, in ISO 8601 UTC; `until` is null while it lasts."""

        since: str
        until: str | None

    class Switch(TypedDict):
        """A session, or a project with what identifies it. An unknown part is empty."""

        session: str
        project: str
        folder: str  # top folder of the project
        remote: str  # host/owner/name
        off: list[Interval]


FILE = "switches.json"
LOCK = "switches.json.lock"
_FORMAT = 1
_MOST = 4 << 20  # bytes
_PARTS = ("session", "project", "folder", "remote")


def read_switches(root: str | os.PathLike[str]) -> list[Switch]:
    """Read the switches of a store; none where nothing was ever switched off.

    Raises:
        StoreError: the file is damaged or cannot be read.
    """
    path = os.path.join(root, FILE)  # noqa: PTH118
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _describe_damage(path, error.strerror or str(error)) from None
    try:
        with open(handle, "rb") as file:
            data = file.read(_MOST + 1)
        value = json.loads(data)
        if value["format"] != _FORMAT:
            raise ValueError(f"its format is {value['format']!r}")
        return [_check_switch(raw) for raw in value["switches"]]
    except OSError as error:
        raise _describe_damage(path, error.strerror or str(error)) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _describe_damage(path, "it holds no switches") from None


def _describe_damage(path: str, reason: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {reason}. Until it is whole, nothing is ingested and hooks add nothing",
        "restore it from a backup, or remove it and run 'helix off' again for what is to stay off",
    )


def _check_switch(raw: dict[str, object]) -> Switch:
    parts = {name: raw[name] for name in _PARTS}
    if not all(isinstance(part, str) for part in parts.values()) or not any(parts.values()):
        raise ValueError("no switch")
    off = [{"since": one["since"], "until": one["until"]} for one in raw["off"]]  # type: ignore[attr-defined]
    for interval in off:
        parse_stamp(interval["since"])
        if interval["until"] is not None:
            parse_stamp(interval["until"])
    return {**parts, "off": off}  # type: ignore[typeddict-item]


def switch_off(root: str | os.PathLike[str], target: Switch) -> bool:
    """Switch a project or a session off from now on; return False where it is off already.

    Raises:
        StoreError: the file is damaged, or the store cannot be written.
    """

    def change(switches: list[Switch]) -> bool:
        known = next((one for one in switches if all(one[part] == target[part] for part in _PARTS)), None)  # type: ignore[literal-required]
        if known is None:
            known = {**target, "off": []}
            switches.append(known)
        if is_open(known):
            return False
        known["off"].append({"since": _format_now(), "until": None})
        return True

    return _change_switches(root, change)


def switch_on(root: str | os.PathLike[str], matches: Callable[[Switch], bool]) -> list[Switch]:
    """Switch on again whatever matches; return the switches that were off.

    Raises:
        StoreError: the file is damaged, or the store cannot be written.
    """
    closed: list[Switch] = []

    def change(switches: list[Switch]) -> bool:
        for switch in switches:
            if is_open(switch) and matches(switch):
                switch["off"][-1]["until"] = _format_now()
                closed.append(switch)
        return bool(closed)

    _change_switches(root, change)
    return closed


def _change_switches(root: str | os.PathLike[str], change: Callable[[list[Switch]], bool]) -> bool:
    """Read, change and write the file under its lock; write it only if `change` says so."""
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)  # noqa: PTH103
        with _hold_lock(os.path.join(root, LOCK)):  # noqa: PTH118
            switches = read_switches(root)
            changed = change(switches)
            if changed:
                _write_switches(root, switches)
            return changed
    except OSError as error:
        raise StoreError(
            f"cannot write {os.path.join(root, FILE)}: {error.strerror or error}",  # noqa: PTH118
            "check its owner, its permissions and the free space, or name another store with --store",
        ) from None


def _hold_lock(path: str) -> AbstractContextManager[None]:
    import fcntl
    from contextlib import contextmanager

    @contextmanager
    def hold() -> Iterator[None]:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    return hold()


def _write_switches(root: str | os.PathLike[str], switches: Sequence[Switch]) -> None:
    """Write the file whole or not at all, and durably."""
    path = os.path.join(root, FILE)  # noqa: PTH118
    new = os.path.join(root, f".tmp-switches-{os.getpid()}")  # noqa: PTH118
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, "switches": switches}, file, indent=1)
        file.flush()
        os.fsync(handle)
    os.replace(new, path)  # noqa: PTH105
    folder = os.open(root, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_open(switch: Switch) -> bool:
    """Return whether a switch is off now."""
    return any(interval["until"] is None for interval in switch["off"])


def list_off(root: str | os.PathLike[str]) -> list[dict[str, str]]:
    """List what is off now, for people and programs.

    Raises:
        StoreError: the file is damaged.
    """
    return [
        {**{part: switch[part] for part in _PARTS if switch[part]}, "since": switch["off"][-1]["since"]}  # type: ignore[literal-required]
        for switch in read_switches(root)
        if is_open(switch)
    ]


def make_target(session: str = "", project: str = "", folder: str = "", remote: str = "") -> Switch:
    """Return a switch without intervals."""
    return {"session": session, "project": project, "folder": folder, "remote": remote, "off": []}


def name_switch(switch: Switch) -> str:
    """Return a switch in words: "project acme"."""
    if switch["session"]:
        return f"session {switch['session']}"
    return f"project {switch['project']}"


def _format_now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1_000_000):06d}Z"


def parse_stamp(text: str) -> float:
    """Return seconds since 1970 of a time in this file.

    Raises:
        ValueError: it is none.
    """
    from calendar import timegm

    whole, _, rest = text.removesuffix("Z").partition(".")
    return timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{rest or 0}")
