"""The agents that `helix install` configures: their files, events and formats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple


class Agent(NamedTuple):
    """The configuration format of one agent."""

    events: tuple[str, ...]
    hooks: tuple[str, str]  # hook file of the user, and of a project
    servers: tuple[str, str]  # MCP server file of the user, and of a project
    next_step: str  # shown after the installation
    home: str = ""  # environment variable that moves the user's folder
    is_flat: bool = False  # an event holds its commands directly, without groups
    unit: int = 1  # timeout units per second
    matchers: Mapping[str, str] = {}  # by event, which tools it is for
    plugin: tuple[str, str] = ("", "")  # plugin file of the user, and of a project, in place of hooks
    servers_key: str = "mcpServers"  # of the MCP servers in JSON settings

    def locate(self, names: tuple[str, str], scope: str) -> Path:
        """Return the path of a file in the scope `user`, or `project` (the current folder)."""
        if scope == "project":
            return Path.cwd() / names[1]
        home = os.environ.get(self.home) if self.home else None
        if home:
            return Path(home).expanduser().absolute() / Path(names[0]).name
        return Path(names[0]).expanduser()


_ACTS: Final = "Bash|Edit|Write|MultiEdit|NotebookEdit"
_CODEX: Final = "Bash|shell|exec_command|apply_patch"
_GEMINI: Final = "run_shell_command|replace|write_file|edit"

AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent(
        (
            *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"),
            *("SubagentStop", "PreCompact", "SessionEnd"),
        ),
        ("~/.claude/settings.json", ".claude/settings.local.json"),  # settings.json is for the whole team
        ("~/.claude.json", ".mcp.json"),
        "new sessions use it; /hooks lists it",
        home="CLAUDE_CONFIG_DIR",
        matchers=dict.fromkeys(("PreToolUse", "PostToolUse", "PostToolUseFailure"), _ACTS),
    ),
    "codex": Agent(
        ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop", "PreCompact"),
        ("~/.codex/hooks.json", ".codex/hooks.json"),
        ("~/.codex/config.toml", ".codex/config.toml"),
        "Codex runs a new hook once you trust it: /hooks",
        home="CODEX_HOME",
        matchers=dict.fromkeys(("PreToolUse", "PostToolUse"), _CODEX),
    ),
    "gemini": Agent(
        ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "PreCompress", "SessionEnd"),
        ("~/.gemini/settings.json", ".gemini/settings.json"),
        ("~/.gemini/settings.json", ".gemini/settings.json"),
        "new sessions use it; /hooks lists it",
        unit=1000,
        matchers={"AfterTool": _GEMINI},  # BeforeTool accepts no context
    ),
    "cursor": Agent(
        ("sessionStart", "postToolUse", "stop", "subagentStop", "preCompact", "sessionEnd"),
        ("~/.cursor/hooks.json", ".cursor/hooks.json"),
        ("~/.cursor/mcp.json", ".cursor/mcp.json"),
        "Settings › Hooks lists it",
        is_flat=True,
    ),
    "opencode": Agent(
        (),
        ("", ""),
        ("~/.config/opencode/opencode.json", "opencode.json"),
        "start OpenCode again; the plugin file is the hook",
        plugin=("~/.config/opencode/plugins/helix.js", ".opencode/plugins/helix.js"),
        servers_key="mcp",
    ),
}
