"""`helix install`: the configuration by which an agent asks the memory and hands its transcripts over.

Four agents, each with a file for hooks and one for MCP servers, in two scopes. A file is changed as a person would
change it (`query.install.json_edit`): everything else keeps its place, its order and its formatting. The change is
worked out, checked against what it must mean, shown, and only then written, whole or not at all, with the file as it
was beside it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.errors import StoreError, UsageError
from helix.snapshot import paths
from query.install import json_edit

NAME: Final = "helix"
"""Of the MCP server."""

BACKUP: Final = ".helix-backup"
"""Behind the name of a file: how it was before."""

_SECONDS: Final = 10
"""A hook may take: it gives up by itself before that."""

_START, _TOOL = 10, 60
"""Seconds: what Codex waits for a server's start, and for one of its tools."""

Edit = Callable[[str], str]


class Agent(NamedTuple):
    """How one agent is configured."""

    events: tuple[str, ...]
    hooks: tuple[str, str]  # file of the hooks: of the user, of a project
    servers: tuple[str, str]  # file of the MCP servers
    home: str = ""  # variable that moves the user's folder
    flat: bool = False  # an event has its commands themselves, not groups of them
    unit: int = 1  # of a timeout, in a second
    again: str = ""  # what is to be done then


AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent(
        ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd"),
        ("~/.claude/settings.json", ".claude/settings.local.json"),  # a project's own is for all who work on it
        ("~/.claude.json", ".mcp.json"),
        home="CLAUDE_CONFIG_DIR",
        again="new sessions have it; /hooks lists it",
    ),
    "codex": Agent(
        ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"),
        ("~/.codex/hooks.json", ".codex/hooks.json"),
        ("~/.codex/config.toml", ".codex/config.toml"),
        home="CODEX_HOME",
        again="Codex runs new hooks when you have trusted them: /hooks",
    ),
    "gemini": Agent(
        ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"),
        ("~/.gemini/settings.json", ".gemini/settings.json"),
        ("~/.gemini/settings.json", ".gemini/settings.json"),
        unit=1000,
        again="new sessions have it; /hooks lists it",
    ),
    "cursor": Agent(
        ("sessionStart", "stop", "subagentStop", "preCompact", "sessionEnd"),
        ("~/.cursor/hooks.json", ".cursor/hooks.json"),
        ("~/.cursor/mcp.json", ".cursor/mcp.json"),
        flat=True,
        again="Settings › Hooks lists it",
    ),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One file: its bytes, None where there is none, as they are and as they are to be."""

    path: Path
    before: bytes | None
    after: bytes | None
    held: bool = False  # `before` has entries of ours

    @property
    def diff(self) -> str:
        """What changes, as `diff -u` shows it."""
        old, new = ((text or b"").decode().splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def helix_command() -> list[str]:
    """How `helix` is called from anywhere: the script beside this interpreter, else the module."""
    script = Path(sys.executable).with_name("helix")
    if os.access(script, os.X_OK):
        return [str(script)]
    found = shutil.which("helix")
    return [found] if found else [sys.executable, "-P", "-m", "helix.cli"]


def changes(agent: str, scope: str, helix: Sequence[str], store: Path, *, remove: bool = False) -> list[Change]:
    """What is to be written where; nothing of it is written here.

    Args:
        agent: of AGENTS.
        scope: user | project: the folder we are in.
        helix: the command.
        store: absolute.
        remove: take away what was put in.

    Raises:
        UsageError: a file is not as it can be edited; it is named, with the lines to add by hand.
    """
    one = AGENTS[agent]
    edits: dict[Path, list[tuple[Edit, Edit]]] = {}  # by file: putting in, and taking out
    edits.setdefault(_file(one.hooks, one, scope), []).append(
        (partial(_put_hooks, one, _hooks(one, helix, store)), partial(_take_hooks, one))
    )
    servers = _file(one.servers, one, scope)
    wanted = _server(agent, helix, store)
    toml = servers.suffix == ".toml"
    put, take = (partial(_put_table, wanted), _take_table) if toml else (partial(_put_server, wanted), _take_server)
    edits.setdefault(servers, []).append((put, take))
    found = [_change(path, [e[0] for e in pairs], [e[1] for e in pairs], remove) for path, pairs in edits.items()]
    return [change for change in found if change.before != change.after]


def _file(names: tuple[str, str], agent: Agent, scope: str) -> Path:
    """A file of the agent's, of a scope."""
    if scope == "project":
        return Path.cwd() / names[1]
    moved = os.environ.get(agent.home) if agent.home else None
    if moved:
        return Path(moved).expanduser().absolute() / Path(names[0]).name
    return Path(names[0]).expanduser()


def _change(path: Path, put: Sequence[Edit], take: Sequence[Edit], remove: bool) -> Change:
    """What becomes of one file."""
    before = path.read_bytes() if path.exists() else None
    try:
        text = _decoded(path, before)
        without = _edited(text, take)
        if not remove:
            after = _edited(text, put)
            return Change(path, before, after.encode() if after != text else before, without != text)
        if without == text:
            return Change(path, before, before)
        kept = _backup_of(path.resolve())
        original = kept.read_bytes() if kept.exists() else None
        base = _decoded(kept, original)
        # Nothing else changed since: then the file comes back as it was, or goes.
        if _edited(base, take) == base and _edited(_edited(base, put), take) == without:
            return Change(path, before, original)
        return Change(path, before, without.encode())
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is not of the shape that its agent documents"
        fresh = _edited(_decoded(path, None), put)
        remedy = "take Helix's entries out yourself" if remove else f"nothing was written; add this yourself:\n{fresh}"
        raise UsageError(f"{path} cannot be edited: {why}", remedy) from None


def _decoded(path: Path, data: bytes | None) -> str:
    if data is not None and data.strip():
        return data.decode()
    return "" if path.name.removesuffix(BACKUP).endswith(".toml") else "{}\n"


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for edit in edits:
        text = edit(text)
    return text


def _backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


# ---------------------------------------------------------------- hooks


def _hooks(agent: Agent, helix: Sequence[str], store: Path) -> dict[str, dict[str, Any]]:
    """The entry of each event."""
    found = {}
    for event in agent.events:
        command = shlex.join([*helix, "hook", event, "--store", str(store)])
        kind = {} if agent.flat else {"type": "command"}
        name = {"name": NAME} if agent.unit != 1 else {}  # Gemini calls a hook by one
        found[event] = {**name, **kind, "command": command, "timeout": _SECONDS * agent.unit}
    return found


def is_ours(command: object) -> bool:
    """Whether a hook's command is one that was put in here."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    calls = words[1:2] == ["hook"] and Path(words[0]).name == "helix"
    return calls or ("helix.cli" in words[:4] and words[words.index("helix.cli") + 1 :][:1] == ["hook"])


def _places(agent: Agent, root: Any) -> list[tuple[str, list[str | int]]]:
    """(event, path) of each of our entries."""
    found: list[tuple[str, list[str | int]]] = []
    for event, groups in root.get("hooks", {}).items():
        if not isinstance(groups, list):
            continue  # a setting beside the events
        for i, group in enumerate(groups):
            within = [group] if agent.flat else group["hooks"]
            for j, entry in enumerate(within):
                if is_ours(entry.get("command")):
                    found.append((event, ["hooks", event, i] if agent.flat else ["hooks", event, i, "hooks", j]))
    return found


def _put_hooks(agent: Agent, wanted: Mapping[str, dict[str, Any]], text: str) -> str:
    root = _object(text)
    there = _places(agent, root)
    for event, path in reversed(there):  # from the last: those before keep their places
        first = next(one for other, one in there if other == event)
        if event not in wanted or path != first:
            text = _without(text, path)
        elif _value(root, path) != wanted[event]:
            text = json_edit.put(text, path, wanted[event])
    known = {event for event, _ in there}
    if agent.flat and "version" not in root:
        text = json_edit.put(text, ["version"], 1)
    for event, entry in wanted.items():
        if event not in known:
            text = _ensured(text, ["hooks"], {})
            text = _ensured(text, ["hooks", event], [])
            group = entry if agent.flat else {"hooks": [entry]}
            text = json_edit.put(text, ["hooks", event, len(_value(json_edit.parse(text), ["hooks", event]))], group)
    return text


def _take_hooks(agent: Agent, text: str) -> str:
    for _, path in reversed(_places(agent, _object(text))):
        text = _without(text, path)
    return text


def _without(text: str, path: Sequence[str | int]) -> str:
    """The text without an entry, nor the group, the event and the hooks that hold nothing any more then."""
    for gone in (path, *([path[:3]] if len(path) > 3 else []), path[:2], path[:1]):
        text = json_edit.remove(text, gone)
        if _value(json_edit.parse(text), gone[:-1]):
            break
    return text


def _ensured(text: str, path: Sequence[str | int], empty: Any) -> str:
    """The text with a container at `path`."""
    around = _value(json_edit.parse(text), path[:-1])
    if path[-1] not in around:
        return json_edit.put(text, path, empty)
    if type(around[path[-1]]) is not type(empty):
        raise ValueError(f"{'.'.join(map(str, path))} is no {type(empty).__name__}")
    return text


def _object(text: str) -> dict[str, Any]:
    found = json_edit.parse(text)
    if not isinstance(found, dict):
        raise ValueError("it holds no JSON object")
    return found


def _value(root: Any, path: Sequence[str | int]) -> Any:
    for name in path:
        root = root[name]
    return root


# ---------------------------------------------------------------- MCP servers


def _server(agent: str, helix: Sequence[str], store: Path) -> dict[str, Any]:
    """The entry of the MCP server."""
    kind = {"type": "stdio"} if agent == "claude-code" else {}
    times = {"startup_timeout_sec": _START, "tool_timeout_sec": _TOOL} if agent == "codex" else {}
    return {**kind, "command": helix[0], "args": [*helix[1:], "mcp", "--store", str(store)], **times}


def _put_server(wanted: Mapping[str, Any], text: str) -> str:
    root = _object(text)
    known = _known_server(root.get("mcpServers", {}))
    if known == wanted:
        return text
    return json_edit.put(_ensured(text, ["mcpServers"], {}), ["mcpServers", NAME], wanted)


def _take_server(text: str) -> str:
    root = _object(text)
    servers = root.get("mcpServers", {})
    if not isinstance(servers, dict) or not _is_our_server(servers.get(NAME)):
        return text
    return json_edit.remove(text, ["mcpServers"] if len(servers) == 1 else ["mcpServers", NAME])


def _known_server(servers: Any) -> Any:
    """The entry of our name; None where there is none.

    Raises:
        ValueError: it is somebody else's.
    """
    known = servers.get(NAME)
    if known is not None and not _is_our_server(known):
        raise ValueError(f"it has an MCP server {NAME!r} that is not this one; rename that")
    return known


def _is_our_server(entry: Any) -> bool:
    args = entry.get("args") if isinstance(entry, dict) else None
    if not isinstance(args, list) or not args:
        return False
    direct = args[0] == "mcp" and Path(str(entry.get("command"))).name == "helix"
    return direct or "helix.cli" in args


_TABLE: Final = re.compile(r"(?m)^[ \t]*\[\[?[^\n\]]+\]\]?[ \t]*(?:#[^\n]*)?$")
_OURS: Final = re.compile(r"[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*(?:helix|\"helix\")[ \t]*[.\]]")


def _put_table(wanted: Mapping[str, Any], text: str) -> str:
    """Codex's server: a table of its own, behind all others or where it is."""
    known = _known_server(tomllib.loads(text).get("mcp_servers", {}))
    if known == wanted:
        return text
    lines = [f"[mcp_servers.{NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in wanted.items())]
    block = "\n".join(lines) + "\n"
    if known is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return _checked(text, text + gap + block, wanted)
    start, end = _spans(text)[0]  # its own table; those below it are its user's
    return _checked(text, text[:start] + block + text[end:], wanted)


def _take_table(text: str) -> str:
    servers = tomllib.loads(text).get("mcp_servers", {})
    if not _is_our_server(servers.get(NAME)):
        return text
    after = text
    for start, end in reversed(_spans(text)):
        before = after[:start]
        after = (before.removesuffix("\n") if before.endswith("\n\n") else before) + after[end:]
    return _checked(text, after, None)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where our tables start and end. What stands before the next table, after a blank line, belongs to that."""
    heads = [(match.start(), match[0]) for match in _TABLE.finditer(text)]
    found = []
    for (start, head), following in zip(heads, [*(at for at, _ in heads[1:]), len(text)], strict=True):
        if _OURS.match(head):
            body = text[start:following]
            blank = body.find("\n\n")
            found.append((start, start + blank + 1 if blank >= 0 else following))
    if not found:
        raise ValueError(f"mcp_servers.{NAME} is not written as a table of its own")
    return found


def _checked(before: str, after: str, wanted: Mapping[str, Any] | None) -> str:
    """`after`, when it means what it is to mean.

    Raises:
        ValueError: it does not.
    """
    old, new = tomllib.loads(before), tomllib.loads(after)
    found = new.get("mcp_servers", {}).pop(NAME, None)
    old.get("mcp_servers", {}).pop(NAME, None)
    for root in (old, new):
        if not root.get("mcp_servers", True):
            del root["mcp_servers"]
    if old != new or (found is None) != (wanted is None) or {**(found or {}), **(wanted or {})} != (found or {}):
        raise ValueError(f"mcp_servers.{NAME} cannot be told from what is around it")
    return after


# ---------------------------------------------------------------- writing


def write(change: Change) -> None:
    """Put a change into its place, and what was there beside it; a removal takes the copy away again.

    Raises:
        StoreError: the file changed meanwhile.
    """
    path = change.path.resolve()  # a link stays one, to a file that is replaced
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (path.read_bytes() if path.exists() else None) != change.before:
        raise StoreError(f"{path} changed meanwhile", "run the command again")
    mode = path.stat().st_mode & 0o777 if change.before is not None else 0o600
    if change.after is None:
        path.unlink()
    else:
        paths.write_file(path, change.after, mode)


def keep(change: Change) -> None:
    """Keep the file beside it as it was before it had anything of ours."""
    if change.before is not None and not change.held:
        paths.write_file(_backup_of(change.path.resolve()), change.before, change.path.stat().st_mode & 0o777)


def forget(change: Change) -> None:
    """Take away what was kept."""
    _backup_of(change.path.resolve()).unlink(missing_ok=True)
