"""`helix install`: the written entries, the unchanged rest, and the removal."""

from __future__ import annotations

import itertools
import json
import os
import stat
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.errors import StoreError, UsageError
from query.install import changes, json_edit, servers
from query.install.agents import AGENTS
from query.install.changes import BACKUP, plan_changes
from query.install.hooks import is_helix_hook

HELIX = ["/opt/my tools/helix"]
STORE = Path("/data/my memory")
OTHER = Path("/data/other")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HELIX_STORE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


def install(agent: str, scope: str = "user", store: Path = STORE) -> list[Path]:
    """Install, and return the written paths."""
    planned = plan_changes(agent, scope, HELIX, store)
    for change in planned:
        change.write_backup()
        change.write()
    return [change.path for change in planned]


def remove(agent: str, scope: str = "user") -> list[Path]:
    """Remove, and return the written paths."""
    planned = plan_changes(agent, scope, ["/elsewhere/helix"], OTHER, remove=True)
    for change in planned:
        change.write()
        change.remove_backup()
    return [change.path for change in planned]


def read_files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def read_hooks(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["hooks"]


def write_file(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


PLACES = {
    "claude-code": (".claude/settings.json", ".claude.json", ".claude/settings.local.json", ".mcp.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml") * 2,
    "gemini": (".gemini/settings.json", ".gemini/settings.json") * 2,
    "cursor": (".cursor/hooks.json", ".cursor/mcp.json") * 2,
}
"""Hooks and servers of the user, then of a project."""


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("agent", PLACES)
def test_an_agent_has_its_files(home: Path, agent: str, scope: str) -> None:
    names = PLACES[agent][:2] if scope == "user" else [f"project/{name}" for name in PLACES[agent][2:]]
    paths = {home / name for name in names}
    assert set(install(agent, scope)) == paths
    assert set(read_files(home)) == set(names)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    assert install(agent, scope) == []  # nothing to do
    assert set(remove(agent, scope)) == paths
    assert read_files(home) == {}
    assert remove(agent, scope) == []


def test_every_agent_gets_its_entries(home: Path) -> None:
    for agent in AGENTS:
        install(agent)
    command = "'/opt/my tools/helix' hook {} --store '/data/my memory'"
    server = {"command": "/opt/my tools/helix", "args": ["mcp", "--store", "/data/my memory"]}
    claude = read_hooks(home / ".claude/settings.json")
    assert list(claude) == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"),
        *("SubagentStop", "PreCompact", "SessionEnd"),
    ]
    assert claude["PreToolUse"][0]["matcher"] == "Bash|Edit|Write|MultiEdit|NotebookEdit"
    assert "matcher" not in claude["Stop"][0]
    assert claude["Stop"] == [{"hooks": [{"type": "command", "command": command.format("Stop"), "timeout": 10}]}]
    assert json.loads((home / ".claude.json").read_text()) == {"mcpServers": {"helix": {"type": "stdio", **server}}}
    codex = read_hooks(home / ".codex/hooks.json")
    assert "SessionEnd" not in codex
    assert codex["UserPromptSubmit"][0]["hooks"][0]["timeout"] == 10
    assert tomllib.loads((home / ".codex/config.toml").read_text()) == {
        "mcp_servers": {"helix": {**server, "startup_timeout_sec": 10, "tool_timeout_sec": 60}}
    }
    gemini = json.loads((home / ".gemini/settings.json").read_text())
    assert list(gemini["hooks"]) == [
        "SessionStart",
        "BeforeAgent",
        "AfterTool",
        "AfterAgent",
        "PreCompress",
        "SessionEnd",
    ]
    (group,) = gemini["hooks"]["BeforeAgent"]
    assert (group["hooks"][0]["timeout"], group["hooks"][0]["name"]) == (10_000, "helix")  # milliseconds
    assert gemini["mcpServers"]["helix"]["args"][0] == "mcp"
    cursor = json.loads((home / ".cursor/hooks.json").read_text())
    assert cursor["version"] == 1
    assert list(cursor["hooks"]) == ["sessionStart", "postToolUse", "stop", "subagentStop", "preCompact", "sessionEnd"]
    assert cursor["hooks"]["stop"] == [{"command": command.format("stop"), "timeout": 10}]
    opencode = json.loads((home / ".config/opencode/opencode.json").read_text())
    words = ["/opt/my tools/helix", "mcp", "--store", "/data/my memory"]
    assert opencode == {"mcp": {"helix": {"type": "local", "command": words, "enabled": True}}}
    plugin = (home / ".config/opencode/plugins/helix.js").read_text()
    assert '["/opt/my tools/helix", "hook", "--store", "/data/my memory"]' in plugin


def test_a_plugin_of_another_is_not_touched(home: Path) -> None:
    path = home / ".config/opencode/plugins/helix.js"
    path.parent.mkdir(parents=True)
    path.write_text("export default {}")
    for remove in (False, True):
        with pytest.raises(UsageError, match="is not Helix's plugin"):
            plan_changes("opencode", "user", ["helix"], Path("/data"), remove=remove)
    assert path.read_text() == "export default {}"


def test_environment_variables_move_the_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", "~/x")
    install("claude-code")
    install("codex")
    assert set(read_files(home)) == {"c/settings.json", "c/.claude.json", "x/hooks.json", "x/config.toml"}


SETTINGS = """{
\t"model": "opus",
\t"permissions": {"allow": ["Bash(ls:*)",   "Read"]},
\t"hooks": {
\t\t"Stop": [
\t\t\t{"matcher": "", "hooks": [{"type": "command", "command": "say 'done'"}]}
\t\t],
\t\t"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh"}]}]
\t},
\t"note": "Grüße \\u00fc"
}"""

CONFIG = """# mine
model = "gpt"   # the good one

[mcp_servers.docs]
command = "docs"
args = [
  "--a",   # a comment
]

[mcp_servers.docs.env]
KEY = "[mcp_servers.helix]"

# of the project
[projects."/home/x"]
trust_level = "trusted"
"""


def test_the_rest_keeps_its_place_and_formatting(home: Path) -> None:
    path = write_file(home / ".claude/settings.json", SETTINGS)
    path.chmod(0o640)
    install("claude-code")
    after, lines = path.read_text(), SETTINGS.splitlines()
    changed = [line.rstrip() for line in lines if line not in after.splitlines()]
    assert changed == [lines[5], lines[7]]  # each got a comma
    assert '\n\t\t\t{\n\t\t\t\t"hooks": [' in after  # tabs, as in the rest
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    hooks = read_hooks(path)
    assert list(hooks)[:2] == ["Stop", "PreToolUse"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "say 'done'"
    assert path.with_name(path.name + BACKUP).read_text() == SETTINGS
    assert install("claude-code") == []
    remove("claude-code")
    assert read_files(home) == {".claude/settings.json": SETTINGS.encode()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


JSON_TEXTS = (
    *("{}", "{ }\n", "", "\n", '{"hooks": {}}', '{"hooks": {"Stop": []}, "mcpServers": {}}', '{"a": 1}'),
    '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]},"mcpServers":{"b":{"command":"c"}}}',
    '{\r\n    "a": [1,\r\n 2]\r\n}\r\n',
    json.dumps({"mcpServers": {"b": {"command": "c", "args": ["hook"]}}, "z": {"y": []}}, indent=4),
)
TOML_TEXTS = (
    *("", "a = 1", "a = 1\n", "\n\n", CONFIG, CONFIG.rstrip("\n")),
    '[mcp_servers]\n[mcp_servers.docs]\ncommand = "d"\n',
    "a = 1\r\n\r\n[b]\r\nc = 2 # d\r\n",
)


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        *itertools.product(["gemini", "claude-code", "cursor"], JSON_TEXTS),
        *itertools.product(["codex"], TOML_TEXTS),
    ],
)
def test_removal_restores_the_bytes(home: Path, agent: str, text: str) -> None:
    places = (AGENTS[agent].hooks[0], AGENTS[agent].servers[0]) if agent != "codex" else (AGENTS[agent].servers[0],)
    paths = {Path(name).expanduser() for name in places}
    before = {str(write_file(path, text).relative_to(home)): text.encode() for path in paths}
    install(agent)
    install(agent, store=OTHER)
    assert install(agent, store=OTHER) == []
    remove(agent)
    assert read_files(home) == before


def test_later_changes_stay(home: Path) -> None:
    path = write_file(home / ".gemini/settings.json", '{\n  "theme": "dark"\n}\n')
    install("gemini")
    mine = {"type": "command", "command": "mine"}
    settings = json.loads(path.read_text())
    settings["hooks"]["SessionEnd"][0]["hooks"].append(mine)
    settings["theme"] = "light"
    path.write_text(json.dumps(settings, indent=2))
    remove("gemini")
    assert json.loads(path.read_text()) == {"theme": "light", "hooks": {"SessionEnd": [{"hooks": [mine]}]}}
    assert set(read_files(home)) == {".gemini/settings.json"}


def test_older_entries_are_updated(home: Path) -> None:
    old = "/old/venv/bin/python -P -m helix.cli hook Stop"
    entries = [{"type": "command", "command": command} for command in ("a", old, "b", "/old/bin/helix hook Stop")]
    hooks = {"Stop": [{"hooks": entries}], "Notification": [{"hooks": [entries[1]]}]}
    path = write_file(home / ".claude/settings.json", json.dumps({"hooks": hooks}))
    install("claude-code")
    hooks = read_hooks(path)
    commands = [entry["command"] for entry in hooks["Stop"][0]["hooks"]]
    assert commands == ["a", "'/opt/my tools/helix' hook Stop --store '/data/my memory'", "b"]  # in its place, and once
    assert "Notification" not in hooks  # an event without a hook
    install("claude-code", store=OTHER)
    assert f"--store {OTHER}" in path.read_text()
    assert str(STORE) not in path.read_text()
    remove("claude-code")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [entries[0], entries[2]]}]}}


def test_helix_commands_are_recognised() -> None:
    ours = (
        *("/a/bin/helix hook Stop", "'/a b/helix' hook stop --store /x", "helix hook"),
        "/usr/bin/python3 -P -m helix.cli hook Stop",
    )
    others = (
        *("helix ingest hook", "other hook Stop", "say helix hook", "'unclosed", "", None, ["helix", "hook"]),
        "env A=1 helix hook Stop",  # a user's own
    )
    assert [command for command in ours if not is_helix_hook(command)] == []
    assert [command for command in others if is_helix_hook(command)] == []


def test_comments_and_tables_of_toml_stay_and_new_keys_come_before_them(home: Path) -> None:
    path = write_file(home / ".codex/config.toml", CONFIG)
    install("codex")
    assert path.read_text().startswith(CONFIG + "\n[mcp_servers.helix]\n")
    tools = '\n[mcp_servers.helix.tools.search]\napproval_mode = "approve"\n'
    path.write_text(
        path.read_text().replace('args = ["mcp"', '# why\nargs = ["mcp"') + f"{tools}\n# next\n[after]\na = 1\n"
    )
    install("codex", store=OTHER)
    own = tomllib.loads(path.read_text())["mcp_servers"]["helix"]
    assert own["tools"] == {"search": {"approval_mode": "approve"}}  # the user's subtable stays
    assert own["args"][-1] == str(OTHER)
    assert "# why\nargs" in path.read_text()
    remove("codex")
    assert path.read_text() == CONFIG + "\n# next\n[after]\na = 1\n"
    text = '[mcp_servers.helix]\nenabled = true\ncommand = "/x/helix"\nargs = ["mcp"]\n\n# of y\n[y]\nb = 2\n'
    path = write_file(home / ".codex/config.toml", text)
    install("codex")
    assert path.read_text().endswith("startup_timeout_sec = 10\ntool_timeout_sec = 60\n\n# of y\n[y]\nb = 2\n")
    assert "enabled" not in path.read_text()
    remove("codex")
    assert path.read_text() == "# of y\n[y]\nb = 2\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n  // a comment\n  "a": 1\n}', "line 2"), ('{"a": 1,}', "line 1"), ("nonsense", "line 1"),
        ("[]", "no JSON object"), ('{"a": 1, "a": 2}', "twice"), ('{"hooks": []}', "shape"),
        ('{"hooks": {"AfterAgent": {}}}', "hooks.AfterAgent is no list"), ('{"hooks": {"AfterAgent": [1]}}', "shape"),
        ('{"hooks": {"BeforeTool": [{"matcher": "x"}]}}', "shape"), ('{"mcpServers": []}', "shape"),
        ('{"mcpServers": {"helix": {"command": "somebody-elses"}}}', "not this one"), ("[" * 100_000, "nested"),
        ('{"a": "\\ud800"', "line 1"),
    ],
)  # fmt: skip
def test_an_unexpected_json_file_is_not_changed(home: Path, text: str, why: str) -> None:
    path = write_file(home / ".gemini/settings.json", text)
    with pytest.raises(UsageError, match="cannot be edited") as refused:
        install("gemini")
    assert why in str(refused.value)
    assert str(path) in str(refused.value)
    assert "hook BeforeAgent" in str(refused.value)  # what to add by hand
    assert read_files(home) == {".gemini/settings.json": text.encode()}


@pytest.mark.parametrize(
    "content",
    [
        b"a = ", b"mcp_servers = {}", b'mcp_servers = { docs = { command = "x" } }',
        b'[mcp_servers]\nhelix = { command = "/a/helix", args = ["mcp"] }', b'[mcp_servers.helix]\nurl = "http://x"',
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_an_unexpected_toml_file_is_not_changed(home: Path, content: bytes) -> None:
    write_file(home / ".codex/config.toml", content)
    with pytest.raises(UsageError, match="cannot be edited"):
        install("codex")
    assert read_files(home) == {".codex/config.toml": content}  # nor are the hooks written


def test_a_changed_file_is_not_overwritten(home: Path) -> None:
    path = write_file(home / ".claude.json", '{"a": 1}')
    _, change = plan_changes("claude-code", "user", HELIX, STORE)
    path.write_text('{"a": 2}')
    with pytest.raises(StoreError, match="changed meanwhile"):
        change.write()
    assert path.read_text() == '{"a": 2}'


def test_a_link_stays_a_link(home: Path) -> None:
    real = write_file(home / "dotfiles" / "claude.json", "{}\n")
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").symlink_to(real)
    install("claude-code")
    assert (home / ".claude/settings.json").is_symlink()
    assert "hooks" in json.loads(real.read_text())
    remove("claude-code")
    assert real.read_text() == "{}\n"
    assert [path.name for path in real.parent.iterdir()] == ["claude.json"]


def test_nothing_is_written_without_a_terminal(home: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 — no terminal
    assert main(["install", "claude-code", "--store", "memory"]) == 2
    output = capsys.readouterr()
    assert "+" in output.out
    assert "--yes" in output.err
    assert read_files(home) == {}


@pytest.mark.parametrize(
    ("answer", "is_written"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_the_answer_decides(home: Path, capsys, monkeypatch, answer: str, is_written: bool) -> None:
    class Terminal:
        isatty = staticmethod(lambda: True)
        readline = staticmethod(lambda: answer)

    monkeypatch.setattr(sys, "stdin", Terminal)
    assert main(["install", "cursor", "--store", "memory"]) == 0
    assert bool(read_files(home)) is is_written
    assert "[y/N]" in capsys.readouterr().err


def test_the_hooks_work_from_any_folder(home: Path, capsys) -> None:
    assert main(["install", "codex", "--yes", "--store", "memory", "--json"]) == 0
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert (report["agent"], report["scope"], report["store"]) == ("codex", "user", str(home / "project" / "memory"))
    assert report["files"][0] == {"path": str(home / ".codex/hooks.json"), "action": "made"}
    assert "+++" in output.err
    command = read_hooks(home / ".codex/hooks.json")["Stop"][0]["hooks"][0]["command"]
    assert Path(command.split()[0]).is_absolute()
    assert os.access(command.split()[0], os.X_OK)
    assert command.endswith(f"hook Stop --store {home}/project/memory")
    assert main(["install", "codex", "--yes", "--store", "memory"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["install", "codex", "--remove", "--yes"]) == 0
    assert read_files(home) == {}


@pytest.mark.parametrize("arguments", [["vim"], [], ["codex", "--scope", "team"]])
def test_wrong_arguments_are_one_line(arguments: list[str], capsys) -> None:
    assert main(["install", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_module_is_called_without_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(changes.find_helix()[0]).name == "helix"
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    assert changes.find_helix() == ["/nowhere/python", "-P", "-m", "helix.cli"]
    entry = servers.make_server("codex", changes.find_helix(), STORE)
    assert servers.is_helix_server(entry)
    assert entry["args"][:4] == ["-P", "-m", "helix.cli", "mcp"]


@pytest.mark.parametrize(
    ("text", "path", "value", "after"),
    [
        ("{}", ["a"], 1, '{\n  "a": 1\n}'),
        ('{"a": 1}', ["b"], [2], '{"a": 1, "b": [2]}'),
        ('{"a": 1}', ["a"], {"b": 2}, '{"a": {\n  "b": 2\n}}'),
        ('{\n "a": []\n}', ["a", 0], "x", '{\n "a": [\n  "x"\n ]\n}'),
        ('{\n "a": [\n  1\n ]\n}', ["a", 1], 2, '{\n "a": [\n  1,\n  2\n ]\n}'),
        ('{\r\n\t"a": 1\r\n}', ["b"], {"c": 1}, '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 1\r\n\t}\r\n}'),
        ('{"a": {"b": [1, {"c": "}]"}]}}', ["a", "b", 1, "c"], 0, '{"a": {"b": [1, {"c": 0}]}}'),
        ('[1 , 2]', [1], "ü", '[1 , "ü"]'),
    ],
)  # fmt: skip
def test_json_put(text: str, path: list[str | int], value: Any, after: str) -> None:
    assert json_edit.put(text, path, value) == after


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ('{"a": 1, "b": 2, "c": 3}', ["a"], '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ["b"], '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ["c"], '{"a": 1, "b": 2}'),
        ('{\n  "a": 1\n}', ["a"], "{}"),
        ('[1, [2, "," , 3]]', [1, 1], "[1, [2, 3]]"),
    ],
)
def test_json_remove(text: str, path: list[str | int], after: str) -> None:
    assert json_edit.remove(text, path) == after


def test_editing_a_large_file_is_linear() -> None:
    """Agents keep megabytes of history in such files. The time is this process's own, whatever else runs."""
    text = json.dumps({"history": [{"said": "x" * 100}] * 50_000, "mcpServers": {}}, indent=2)
    began = time.process_time()
    after = servers.put_json_server({"command": "helix", "args": ["mcp"]}, text)
    assert servers.remove_json_server(after) != after
    assert time.process_time() - began < 5
    assert json_edit.parse(after)["mcpServers"]["helix"]["args"] == ["mcp"]
