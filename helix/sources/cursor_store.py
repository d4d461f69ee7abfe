"""Sessions of Cursor, read from its databases.

A session has the key `composerData:ID`, and each of its messages ("bubbles") a key of its own. The order is that of
the session's list of headers: times are missing or equal, and bubbles outside the list were taken back. Earlier
versions have the messages inside the session, and the first one has all chats in one value of `ItemTable`. Each session
becomes JSON with its messages inside, without file states and settings, which are most of its bytes.

The folder that was open is in the session, in a table of headers, or in the workspace's files, by version.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common import sqlite
from helix.sources.common.fields import get_list, get_mapping, get_objects, get_string, get_text, pick_fields, walk_tree
from helix.sources.common.json_text import try_json
from helix.sources.common.names import get_uri_path
from helix.sources.common.session_text import SessionText, dump_json
from helix.sources.common.sqlite import TOO_LARGE, VALUE_BYTES
from helix.sources.common.times import parse_time

USER, ASSISTANT = 1, 2
"""Types of bubbles."""

_SESSION_BYTES: Final = 64 << 20  # a session also has the states of the files it changed
_CHATS: Final = "workbench.panel.aichat.view.aichat.chatdata"
_HEADERS: Final = "composer.composerHeaders"
_WORKSPACE: Final = "composer.composerData"
_SESSION: Final = ("composerId", "name", "createdAt", "folder", "subagentInfo")
_BUBBLE: Final = ("bubbleId", "type", "text", "createdAt", "thinking")
_TOOL: Final = ("name", "status", "rawArgs", "params", "result", "error")
_HEAD: Final = ("name", "createdAt", "lastUpdatedAt", "workspaceIdentifier", "trackedGitRepos", "subagentInfo")


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the sessions of a database; None for a file that is not Cursor's.

    Raises:
        InputRefused: the database cannot be read, now or while its sessions are read.
    """
    if not sqlite.is_database(path):
        return None
    with sqlite.open_database(path) as database:
        pairs = frozenset({"key", "value"})
        has_items = pairs <= sqlite.list_columns(database, "ItemTable")
        has_sessions = pairs <= sqlite.list_columns(database, "cursorDiskKV")
        # The editor that Cursor is made from has such a table too, but no chats of this kind in it.
        if not has_sessions and not (has_items and _read_value(database, "ItemTable", _CHATS) is not None):
            return None
    return _read_sessions(path, has_items, has_sessions)


def is_companion(path: Path) -> bool:
    """Return whether a file is read together with a database."""
    return sqlite.is_sidecar(path)


def _read_sessions(path: Path, has_items: bool, has_sessions: bool) -> Iterator[SessionText]:
    with sqlite.open_database(path) as database:
        if has_items:
            chats = _read_value(database, "ItemTable", _CHATS, _SESSION_BYTES)
            yield from _write_chats(get_objects(chats, "tabs"), _read_workspace(path.parent))
        if not has_sessions:
            return
        heads = _read_heads(database, has_items)
        folders = _WorkspaceFolders(path)
        query = "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
        keys = [row[0] for row in database.execute(query) if isinstance(row[0], str)]
        for key in keys:
            id = key.partition(":")[2]
            with sqlite.read_transaction(database):
                value = _read_value(database, "cursorDiskKV", key, _SESSION_BYTES)
                bubbles = _read_bubbles(database, id, value)
            if value == TOO_LARGE:
                bubbles = [{"type": TOO_LARGE}]
            if bubbles:
                head = {**heads.get(id, {}), **{name: field for name, field in get_mapping(value).items() if field}}
                yield _write_session(id, head, bubbles, folders)


def _read_bubbles(database: sqlite3.Connection, id: str, session: object) -> list[dict[str, Any]]:
    """Return the messages of a session as they are stored, in order."""
    if inside := get_list(session, "conversation"):
        return [_pick_bubble(value, {}) for value in inside if isinstance(value, dict)]
    bubbles = []
    for header in get_objects(session, "fullConversationHeadersOnly"):
        bubble = get_string(header, "bubbleId")
        value = _read_value(database, "cursorDiskKV", f"bubbleId:{id}:{bubble}") if bubble else None
        if value == TOO_LARGE:
            bubbles.append({"bubbleId": bubble, "type": TOO_LARGE})
        elif isinstance(value, dict):
            bubbles.append(_pick_bubble(value, pick_fields(header, _BUBBLE)))
    return bubbles


def _pick_bubble(value: Mapping[str, Any], header: Mapping[str, Any]) -> dict[str, Any]:
    bubble = {**header, **pick_fields(value, _BUBBLE)}
    if not get_string(bubble, "text") and value.get("richText"):
        bubble["text"] = _join_editor_texts(value["richText"])
    if tool := get_mapping(value, "toolFormerData"):
        bubble["toolFormerData"] = pick_fields(tool, _TOOL)
        if get_mapping(tool, "additionalData").get("status") == "error":
            bubble["toolFormerData"]["status"] = "error"
    if "createdAt" not in bubble:
        times = get_mapping(value, "timingInfo")
        sent = times.get("clientRpcSendTime") or times.get("clientStartTime")
        bubble |= pick_fields({"createdAt": sent}, ("createdAt",))
    return bubble


def _write_chats(tabs: list[dict[str, Any]], folder: str | None) -> Iterator[SessionText]:
    """Yield the chats of the first version, which has one value for all."""
    for tab in tabs:
        id = get_string(tab, "tabId")
        bubbles = []
        for value in get_objects(tab, "bubbles"):
            text = get_string(value, "text", "rawText") or _join_editor_texts(value.get("initText"))
            kind = {"user": USER, "ai": ASSISTANT}.get(str(value.get("type")))
            bubbles.append({"bubbleId": value.get("id"), "type": kind or value.get("type"), "text": text})
        if id and bubbles:
            head = pick_fields({"composerId": id, "name": tab.get("chatTitle"), "folder": folder}, _SESSION)
            text = dump_json({**head, "conversation": bubbles}, {"composerId": id, "conversation": []})
            yield SessionText(id, text, parse_time(tab.get("lastSendTime")))


def _write_session(
    id: str, head: Mapping[str, Any], bubbles: list[dict[str, Any]], folders: _WorkspaceFolders
) -> SessionText:
    folder = _find_folder(head) or folders.find(id, head)
    session = {**pick_fields(head, _SESSION), "composerId": id, **pick_fields({"folder": folder}, ("folder",))}
    if "subagentInfo" in session:
        session["subagentInfo"] = pick_fields(get_mapping(session, "subagentInfo"), ("parentComposerId",))
    parts = ",".join(dump_json(bubble, {"type": "(not valid JSON)"}) for bubble in bubbles)
    text = f'{dump_json(session, {"composerId": id})[:-1]},"conversation":[{parts}]}}'
    times = [head.get("lastUpdatedAt"), head.get("createdAt"), *(bubble.get("createdAt") for bubble in bubbles)]
    return SessionText(id, text, max(filter(None, map(parse_time, times)), default=None))


def _read_value(database: sqlite3.Connection, table: str, key: str, limit: int = VALUE_BYTES) -> object:
    """Return the JSON value of a key; None without one, TOO_LARGE for one over `limit` bytes."""
    query = (
        f"SELECT length(value), CASE WHEN length(CAST(value AS BLOB)) <= ? THEN value END FROM {table} WHERE key = ?"
    )
    row = database.execute(query, (limit, key)).fetchone()
    if row is None or row[0] is None:
        return None
    return TOO_LARGE if row[1] is None else try_json(row[1])


def _read_heads(database: sqlite3.Connection, has_items: bool) -> dict[str, dict[str, Any]]:
    """Return names, times and workspaces from outside the sessions, by session id."""
    entries: list[object] = []
    if has_items:
        entries += get_list(_read_value(database, "ItemTable", _HEADERS, _SESSION_BYTES), "allComposers")
    if {"composerId", "value"} <= sqlite.list_columns(database, "composerHeaders"):
        query = f"SELECT value FROM composerHeaders WHERE length(CAST(value AS BLOB)) <= {VALUE_BYTES}"
        entries += (try_json(row[0]) for row in database.execute(query))
    return {
        id: pick_fields(entry, _HEAD)
        for entry in entries
        if isinstance(entry, dict) and (id := get_string(entry, "composerId"))
    }


class _WorkspaceFolders:
    """Folders of workspaces, from the files next to the database. They are read at the first lookup."""

    def __init__(self, database: Path) -> None:
        self._root = database.parent.parent / "workspaceStorage"
        self._by_session: dict[str, str] | None = None

    def find(self, session: str, head: Mapping[str, Any]) -> str | None:
        """Return the folder of a session that names only its workspace, or nothing."""
        workspace = get_text(head.get("workspaceIdentifier"), "id")
        if re.fullmatch(r"[0-9A-Za-z-]{1,100}", workspace):
            folder = _read_workspace(self._root / workspace)
            if folder:
                return folder
        if self._by_session is None:
            self._by_session = dict(_read_workspace_sessions(self._root))
        return self._by_session.get(session)


def _read_workspace_sessions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the sessions that workspaces of earlier versions list, and their folders."""
    with suppress(OSError):
        for place in sorted(root.iterdir()):
            folder, path = _read_workspace(place), place / "state.vscdb"
            if not folder or not sqlite.is_database(path):
                continue
            with suppress(InputRefused), sqlite.open_database(path) as database:
                for entry in get_list(_read_value(database, "ItemTable", _WORKSPACE), "allComposers"):
                    if id := get_string(entry, "composerId"):
                        yield id, folder


def _read_workspace(place: Path) -> str | None:
    with suppress(OSError):
        path = place / "workspace.json"
        if path.stat().st_size <= VALUE_BYTES:
            return get_uri_path(get_mapping(try_json(path.read_bytes())).get("folder"))
    return None


def _find_folder(head: Mapping[str, Any]) -> str | None:
    repositories = get_list(head, "trackedGitRepos")
    first = repositories[0] if repositories else None
    return get_uri_path(get_mapping(head, "workspaceIdentifier").get("uri")) or get_string(first, "repoPath")


def _join_editor_texts(value: object) -> str:
    """Return the text of an editor's state: paragraphs of texts and mentions."""
    state = try_json(value) if isinstance(value, str) else value
    texts: list[str] = []
    for node in walk_tree(get_mapping(state).get("root")):
        texts += [get_text(node, "text"), "\n" if node.get("type") in ("paragraph", "linebreak") else ""]
    return "".join(texts).strip()
