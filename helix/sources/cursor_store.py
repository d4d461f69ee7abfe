"""Chats of Cursor out of its databases.

A session lies under `composerData:ID`, and each of its messages ("bubbles") under a key of its own. The order is that
of the session's list of headers: times are missing or equal, and bubbles that are not in the list were taken back.
Earlier versions kept the messages inside the session, and the first one kept all chats in one value of `ItemTable`.
Each session becomes JSON with its messages inside, without the states of files and the settings that are most of it.

The folder that was open stands in the session, in a table of headers, or in the files of the workspace, by version.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from helix.errors import InputRefused
from helix.sources.common import sqlite
from helix.sources.common.collected import Collected, canonical, loaded, mapping, picked
from helix.sources.common.junk import moment
from helix.sources.common.shared import string
from helix.sources.common.sqlite import TOO_LARGE, VALUE_BYTES

USER, ASSISTANT = 1, 2
"""Types of bubbles."""

_SESSION_BYTES: Final = 64 << 20  # a session also holds the states of the files it changed
_CHATS: Final = "workbench.panel.aichat.view.aichat.chatdata"
_HEADERS: Final = "composer.composerHeaders"
_OF_WORKSPACE: Final = "composer.composerData"
_KEPT: Final = ("composerId", "name", "createdAt", "folder", "subagentInfo")
_BUBBLE: Final = ("bubbleId", "type", "text", "createdAt", "thinking")
_TOOL: Final = ("name", "status", "rawArgs", "params", "result", "error")
_HEAD: Final = ("name", "createdAt", "lastUpdatedAt", "workspaceIdentifier", "trackedGitRepos", "subagentInfo")


def collect(path: Path) -> Iterator[Collected] | None:
    """The sessions of a database; None where the file is none of Cursor's.

    Raises:
        InputRefused: the database cannot be read, now or while its sessions are taken.
    """
    if not sqlite.is_database(path):
        return None
    with sqlite.reading(path) as database:
        pairs = frozenset({"key", "value"})
        has_items = pairs <= sqlite.columns_of(database, "ItemTable")
        has_sessions = pairs <= sqlite.columns_of(database, "cursorDiskKV")
        # The editor that Cursor is made from has such a table, too, but no chats of this kind in it.
        if not has_sessions and not (has_items and _value(database, "ItemTable", _CHATS) is not None):
            return None
    return _of_database(path, has_items, has_sessions)


def belongs(path: Path) -> bool:
    """Whether a file is read together with a database."""
    return sqlite.belongs(path)


def _of_database(path: Path, has_items: bool, has_sessions: bool) -> Iterator[Collected]:
    with sqlite.reading(path) as database:
        if has_items:
            yield from _chats(mapping(_value(database, "ItemTable", _CHATS, _SESSION_BYTES)), _folder_of(path.parent))
        if not has_sessions:
            return
        heads = _heads(database, has_items)
        folders = _Folders(path)
        query = "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
        keys = [row[0] for row in database.execute(query) if isinstance(row[0], str)]
        for key in keys:
            id = key.partition(":")[2]
            with sqlite.one_state(database):
                found = _value(database, "cursorDiskKV", key, _SESSION_BYTES)
                bubbles = _bubbles(database, id, mapping(found))
            if found == TOO_LARGE:
                bubbles = [{"type": TOO_LARGE}]
            if bubbles:
                head = {**heads.get(id, {}), **{k: v for k, v in mapping(found).items() if v}}
                yield _collected(id, head, bubbles, folders)


def _bubbles(database: sqlite3.Connection, id: str, session: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a session as they are kept, in order."""
    inside = session.get("conversation")
    if isinstance(inside, list) and inside:
        return [_bubble(value, {}) for value in inside if isinstance(value, dict)]
    headers = session.get("fullConversationHeadersOnly")
    found = []
    for header in headers if isinstance(headers, list) else []:
        bubble = string(header, "bubbleId") if isinstance(header, dict) else None
        value = _value(database, "cursorDiskKV", f"bubbleId:{id}:{bubble}") if bubble else None
        if value == TOO_LARGE:
            found.append({"bubbleId": bubble, "type": TOO_LARGE})
        elif isinstance(value, dict):
            found.append(_bubble(value, picked(header, _BUBBLE)))
    return found


def _bubble(value: Mapping[str, Any], header: Mapping[str, Any]) -> dict[str, Any]:
    kept = {**header, **picked(value, _BUBBLE)}
    if not string(kept, "text") and value.get("richText"):
        kept["text"] = _lexical(value["richText"])
    if isinstance(tool := value.get("toolFormerData"), dict) and tool:
        kept["toolFormerData"] = picked(tool, _TOOL)
        if mapping(tool.get("additionalData")).get("status") == "error":
            kept["toolFormerData"]["status"] = "error"
    if "createdAt" not in kept:
        times = mapping(value.get("timingInfo"))
        kept |= picked({"createdAt": times.get("clientRpcSendTime") or times.get("clientStartTime")}, ("createdAt",))
    return kept


def _chats(found: Mapping[str, Any], folder: str | None) -> Iterator[Collected]:
    """The chats of the first versions, one value for all."""
    tabs = found.get("tabs")
    for tab in tabs if isinstance(tabs, list) else []:
        id = string(tab, "tabId") if isinstance(tab, dict) else None
        values = tab.get("bubbles") if id else None
        bubbles = []
        for value in values if isinstance(values, list) else []:
            if isinstance(value, dict):
                text = string(value, "text") or string(value, "rawText") or _lexical(value.get("initText"))
                kind = {"user": USER, "ai": ASSISTANT}.get(str(value.get("type")))
                bubbles.append({"bubbleId": value.get("id"), "type": kind or value.get("type"), "text": text})
        if id and bubbles:
            head = {"composerId": id, "name": tab.get("chatTitle"), "folder": folder}
            text = canonical({**picked(head, _KEPT), "conversation": bubbles}, {"composerId": id, "conversation": []})
            yield Collected(id, text, moment(tab.get("lastSendTime")))


def _collected(id: str, head: Mapping[str, Any], bubbles: list[dict[str, Any]], folders: _Folders) -> Collected:
    folder = _named_folder(head) or folders.of(id, head)
    kept = {**picked(head, _KEPT), "composerId": id, **picked({"folder": folder}, ("folder",))}
    if "subagentInfo" in kept:
        kept["subagentInfo"] = picked(mapping(kept["subagentInfo"]), ("parentComposerId",))
    parts = ",".join(canonical(bubble, {"type": "(not valid JSON)"}) for bubble in bubbles)
    text = f'{canonical(kept, {"composerId": id})[:-1]},"conversation":[{parts}]}}'
    times = [head.get("lastUpdatedAt"), head.get("createdAt"), *(bubble.get("createdAt") for bubble in bubbles)]
    return Collected(id, text, max(filter(None, map(moment, times)), default=None))


def _value(database: sqlite3.Connection, table: str, key: str, limit: int = VALUE_BYTES) -> object:
    """The JSON under a key; None where there is none, TOO_LARGE where it is over the limit of bytes."""
    query = (
        f"SELECT length(value), CASE WHEN length(CAST(value AS BLOB)) <= ? THEN value END FROM {table} WHERE key = ?"
    )
    row = database.execute(query, (limit, key)).fetchone()
    if row is None or row[0] is None:
        return None
    return TOO_LARGE if row[1] is None else loaded(row[1])


def _heads(database: sqlite3.Connection, has_items: bool) -> dict[str, dict[str, Any]]:
    """What is said of sessions outside of them, by id: name, times and workspace."""
    entries: list[object] = []
    if has_items:
        listed = mapping(_value(database, "ItemTable", _HEADERS, _SESSION_BYTES)).get("allComposers")
        entries += listed if isinstance(listed, list) else []
    if {"composerId", "value"} <= sqlite.columns_of(database, "composerHeaders"):
        query = f"SELECT value FROM composerHeaders WHERE length(CAST(value AS BLOB)) <= {VALUE_BYTES}"
        entries += (loaded(row[0]) for row in database.execute(query))
    heads = {}
    for entry in entries:
        id = string(entry, "composerId") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and id:
            heads[id] = picked(entry, _HEAD)
    return heads


# ---------------------------------------------------------------- folders


class _Folders:
    """Folders of workspaces, as the files beside the database tell them. They are read when the first is asked for."""

    def __init__(self, database: Path) -> None:
        self._root = database.parent.parent / "workspaceStorage"
        self._of_session: dict[str, str] | None = None

    def of(self, session: str, head: Mapping[str, Any]) -> str | None:
        """The folder of a session that does not name it, but perhaps its workspace."""
        workspace = string(mapping(head.get("workspaceIdentifier")), "id") or ""
        if re.fullmatch(r"[0-9A-Za-z-]{1,100}", workspace):
            folder = _folder_of(self._root / workspace)
            if folder:
                return folder
        if self._of_session is None:
            self._of_session = dict(_sessions_of_workspaces(self._root))
        return self._of_session.get(session)


def _sessions_of_workspaces(root: Path) -> Iterator[tuple[str, str]]:
    """Sessions and their folders. Earlier versions told in each workspace which sessions are of it."""
    with suppress(OSError):
        for place in sorted(root.iterdir()):
            folder, path = _folder_of(place), place / "state.vscdb"
            if not folder or not sqlite.is_database(path):
                continue
            with suppress(InputRefused), sqlite.reading(path) as database:
                listed = mapping(_value(database, "ItemTable", _OF_WORKSPACE)).get("allComposers")
                for entry in listed if isinstance(listed, list) else []:
                    id = string(entry, "composerId") if isinstance(entry, dict) else None
                    if id:
                        yield id, folder


def _folder_of(place: Path) -> str | None:
    """The folder that a workspace is of."""
    with suppress(OSError):
        path = place / "workspace.json"
        if path.stat().st_size <= VALUE_BYTES:
            return _path_of(mapping(loaded(path.read_bytes())).get("folder"))
    return None


def _named_folder(head: Mapping[str, Any]) -> str | None:
    """The folder that a session names."""
    workspace = _path_of(mapping(head.get("workspaceIdentifier")).get("uri"))
    repositories = head.get("trackedGitRepos")
    first = repositories[0] if isinstance(repositories, list) and repositories else None
    return workspace or string(mapping(first), "repoPath")


def _path_of(uri: object) -> str | None:
    """The path of a URI, as text or in its parts."""
    if isinstance(uri, dict):
        return string(uri, "fsPath") or string(uri, "path")
    if not isinstance(uri, str):
        return None
    with suppress(ValueError):
        return unquote(urlsplit(uri).path) or None
    return None


# ---------------------------------------------------------------- texts


def _lexical(value: object) -> str:
    """The text of an editor's state: paragraphs of texts and mentions."""
    state = loaded(value) if isinstance(value, str) else value
    texts: list[str] = []
    stack = [mapping(state).get("root")]
    while stack:
        at = stack.pop()
        if not isinstance(at, dict):
            continue
        texts.append(string(at, "text") or "")
        if at.get("type") in ("paragraph", "linebreak"):
            texts.append("\n")
        children = at.get("children")
        stack += reversed(children) if isinstance(children, list) else []
    return "".join(texts).strip()
