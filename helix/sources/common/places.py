"""Folders in which agents keep their sessions on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, and the patterns of the session files below it. They match the path from the folder on."""

    agent: str
    folder: Path
    patterns: tuple[str, ...] = ("*",)  # * also matches a slash

    def holds(self, path: Path) -> bool:
        """Return whether a file is one of its sessions."""
        try:
            inner = path.relative_to(self.folder).as_posix()
        except ValueError:
            return False
        return any(fnmatch(inner, pattern) for pattern in self.patterns)


_JSON: Final = ("*.json", "*.jsonl")
_EDITORS: Final = (".config", "Library/Application Support", "AppData/Roaming")
_VS_CODE: Final = ("Code", "Code - Insiders", "VSCodium")
_CLINES: Final = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")  # extensions
_HISTORY: Final = ("*/api_conversation_history.json",)


def list_places(home: Path, environ: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of every agent Helix knows, installed or not."""

    def find(variable: str, default: str) -> Path:
        return Path(environ[variable]).expanduser() if environ.get(variable) else home / default

    yield Place("claude-code", find("CLAUDE_CONFIG_DIR", ".claude") / "projects", ("*.jsonl",))
    codex = find("CODEX_HOME", ".codex")
    yield Place("codex", codex / "sessions", ("*rollout-*.jsonl",))
    yield Place("codex", codex / "archived_sessions", ("*rollout-*.jsonl",))
    yield Place("gemini", home / ".gemini" / "tmp", ("*/chats/*.json", "*/chats/*.jsonl"))
    opencode = find("XDG_DATA_HOME", ".local/share") / "opencode"
    yield Place("opencode", opencode, ("opencode*.db", "storage/session/*.json"))
    yield Place("copilot-cli", home / ".copilot" / "session-state", ("*events.jsonl",))
    yield Place("cursor", home / ".cursor" / "projects", ("*/agent-transcripts/*.jsonl",))
    yield Place("kimi", home / ".kimi-code" / "sessions", ("*/agents/*/wire.jsonl",))
    yield Place("droid", home / ".factory" / "sessions", ("*.jsonl",))
    yield Place("qwen", home / ".qwen" / "projects", ("*/chats/*.jsonl",))
    yield Place("pi", find("PI_CODING_AGENT_DIR", ".pi/agent") / "sessions", ("*.jsonl",))
    yield Place("pi", home / ".openclaw" / "agents", ("*/sessions/*.jsonl",))
    yield Place("grok", find("GROK_HOME", ".grok") / "sessions", ("*/chat_history.jsonl",))
    yield Place("hermes", find("HERMES_HOME", ".hermes") / "sessions", ("*.json",))
    yield Place("antigravity", home / ".gemini" / "antigravity-cli" / "brain", ("*/logs/transcript*.jsonl",))
    data = find("XDG_DATA_HOME", ".local/share")
    yield Place("amp", data / "amp" / "threads", ("T-*.json",))
    yield Place("cline", home / ".cline" / "data" / "tasks", _HISTORY)
    yield Place("kiro", home / ".kiro" / "sessions", ("cli/*.jsonl", "*/messages.jsonl"))
    for folder in (data, home / "Library" / "Application Support"):
        yield Place("kiro", folder / "kiro-cli", ("data.sqlite3",))
    for folder in (data / "zed", home / "Library" / "Application Support" / "Zed", home / "AppData" / "Local" / "Zed"):
        yield Place("zed", folder / "threads", ("threads.db",))
    for base in _EDITORS:
        yield Place("cursor", home / base / "Cursor" / "User" / "globalStorage", ("state.vscdb",))
        for editor in (*_VS_CODE, "Cursor", "Windsurf"):
            for extension in _CLINES:
                yield Place("cline", home / base / editor / "User" / "globalStorage" / extension / "tasks", _HISTORY)
        for editor in _VS_CODE:
            user = home / base / editor / "User"
            chats = tuple(f"*/chatSessions/{pattern}" for pattern in _JSON)
            yield Place("copilot", user / "workspaceStorage", chats)
            yield Place("copilot", user / "globalStorage" / "emptyWindowChatSessions", _JSON)


def find_places(home: Path, environ: Mapping[str, str]) -> list[Place]:
    """Return the places whose folders exist."""
    return [place for place in list_places(home, environ) if place.folder.is_dir()]
