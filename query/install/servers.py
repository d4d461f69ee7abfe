"""Helix's MCP server in an agent's settings: JSON, or Codex's TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import tomlkit
from tomlkit.items import AoT, Comment, Item, Key, Null, Table, Whitespace

from query.install import json_edit

NAME: Final = "helix"
"""The server's name in an agent's settings."""

_START_TIMEOUT, _TOOL_TIMEOUT = 10, 60  # seconds that Codex waits for the server, and for a tool


def make_server(agent: str, helix: Sequence[str], store: Path) -> dict[str, Any]:
    """Return the server's entry."""
    if agent == "opencode":
        return {"type": "local", "command": [*helix, "mcp", "--store", str(store)], "enabled": True}
    kind = {"type": "stdio"} if agent == "claude-code" else {}
    timeouts = {"startup_timeout_sec": _START_TIMEOUT, "tool_timeout_sec": _TOOL_TIMEOUT} if agent == "codex" else {}
    return {**kind, "command": helix[0], "args": [*helix[1:], "mcp", "--store", str(store)], **timeouts}


def is_helix_server(entry: Any) -> bool:
    """Return whether an entry is one that `helix install` wrote."""
    if not isinstance(entry, dict):
        return False
    if isinstance(command := entry.get("command"), list):  # OpenCode's
        return "mcp" in command and (Path(str(command[0])).name == "helix" or "helix.cli" in command)
    args = entry.get("args")
    if not isinstance(args, list) or not args:
        return False
    is_script = args[0] == "mcp" and Path(str(entry.get("command"))).name == "helix"
    return is_script or "helix.cli" in args


def _get_own(servers: Any) -> Any:
    """Return Helix's entry, or None. Raise ValueError if another server has the name."""
    entry = servers.get(NAME)
    if entry is not None and not is_helix_server(entry):
        raise ValueError(f"it has an MCP server {NAME!r} that is not this one; rename that")
    return entry


def put_json_server(wanted: Mapping[str, Any], text: str, key: str = "mcpServers") -> str:
    """Return the JSON settings with the server; `key` names the servers."""
    if _get_own(json_edit.parse_object(text).get(key, {})) == wanted:
        return text
    return json_edit.put(json_edit.ensure_container(text, [key], {}), [key, NAME], wanted)


def remove_json_server(text: str, key: str = "mcpServers") -> str:
    """Return the JSON settings without the server; `key` names the servers."""
    servers = json_edit.parse_object(text).get(key, {})
    if not isinstance(servers, dict) or not is_helix_server(servers.get(NAME)):
        return text
    return json_edit.remove(text, [key] if len(servers) == 1 else [key, NAME])


def put_toml_server(wanted: Mapping[str, Any], text: str) -> str:
    """Return the TOML settings with the server: in its place, or as a new last table."""
    own = _get_own(tomllib.loads(text).get("mcp_servers", {}))
    if own == wanted:
        return text
    if own is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        block = tomlkit.dumps({"mcp_servers": {NAME: dict(wanted)}})
        return _check_meaning(text, f"{text}{gap}{block}", wanted)
    document = tomlkit.parse(text)
    body, place = next(_find_tables(document))
    table = cast(Table, body[place][1])
    own_keys = [name for name, value in table.items() if not isinstance(value, Table | AoT)]
    for name in set(own_keys) - set(wanted):
        table.remove(name)
    # Set aside what follows the last key: comments of the next table, and the user's own subtables.
    entries = table.value.body
    keys = [i for i, (key, value) in enumerate(entries) if key is not None and not isinstance(value, Table | AoT)]
    rest = entries[keys[-1] + 1 :]
    del entries[keys[-1] + 1 :]
    table.update(wanted)
    entries += rest
    return _check_meaning(text, tomlkit.dumps(document), wanted)


def remove_toml_server(text: str) -> str:
    """Return the TOML settings without the server's tables."""
    if not is_helix_server(tomllib.loads(text).get("mcp_servers", {}).get(NAME)):
        return text
    document = tomlkit.parse(text)
    for body, place in list(_find_tables(document)):
        body[place] = (None, Whitespace(_split_tail(body[place][1])))
    after = tomlkit.dumps(document)
    # The blank line before a last table goes with it.
    if after.endswith("\n\n") and text.startswith(after):
        after = after.removesuffix("\n")
    return _check_meaning(text, after, None)


def _find_tables(document: tomlkit.TOMLDocument) -> Iterator[tuple[list[tuple[Key | None, Item]], int]]:
    """Yield (body, place) of each of the server's tables. Raise ValueError without a table of its own."""
    has_table = False
    for key, item in document.body:
        if key is not None and key.key == "mcp_servers" and isinstance(item, Table):
            body = item.value.body
            for place, (name, entry) in enumerate(body):
                if name is not None and name.key == NAME and isinstance(entry, Table):
                    has_table = True
                    yield body, place
    if not has_table:
        raise ValueError(f"mcp_servers.{NAME} is not written as a table of its own")


def _split_tail(table: Item) -> str:
    """Return a table's text after its first trailing blank line, which belongs to the next table."""
    while (last := _get_last_table(table)) is not None:
        table = last
    tail: list[str] = []
    for _, item in reversed(cast(Table, table).value.body):
        if not isinstance(item, Comment | Whitespace | Null):
            break
        tail.insert(0, item.as_string())
    lines = "".join(tail).splitlines(keepends=True)
    blank = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    return "".join(lines[blank + 1 :])


def _get_last_table(item: Item) -> Item | None:
    if isinstance(item, AoT):
        return item.body[-1]
    entries = [one for _, one in item.value.body if isinstance(one, Table | AoT)] if isinstance(item, Table) else []
    return entries[-1] if entries else None


def _check_meaning(before: str, after: str, wanted: Mapping[str, Any] | None) -> str:
    """Return `after` if it only changes the server's entry to `wanted`; raise ValueError otherwise."""
    old, new = tomllib.loads(before), tomllib.loads(after)
    own = new.get("mcp_servers", {}).pop(NAME, None)
    old.get("mcp_servers", {}).pop(NAME, None)
    for root in (old, new):
        if not root.get("mcp_servers", True):
            del root["mcp_servers"]
    if old != new or (own is None) != (wanted is None) or {**(own or {}), **(wanted or {})} != (own or {}):
        raise ValueError(f"mcp_servers.{NAME} cannot be separated from the settings around it")
    return after
