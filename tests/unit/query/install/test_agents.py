"""`helix install`: the written entries, the unchanged rest, and the removal."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from functools import partial
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
    found = plan_changes(agent, scope, HELIX, store)
    for change in found:
        change.write_backup()
        change.write()
    return [change.path for change in found]


def remove(agent: str, scope: str = "user") -> list[Path]:
    """Remove, and return the written paths."""
    found = plan_changes(agent, scope, ["/elsewhere/helix"], OTHER, remove=True)
    for change in found:
        change.write()
        change.remove_backup()
    return [change.path for change in found]


def read_files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def read_hooks(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["hooks"]


# ------------------------------------------------------------ each agent


@pytest.mark.parametrize(
    ("agent", "scope", "hooks", "servers"),
    [
        ("claude-code", "user", ".claude/settings.json", ".claude.json"),
        ("claude-code", "project", "project/.claude/settings.local.json", "project/.mcp.json"),
        ("codex", "user", ".codex/hooks.json", ".codex/config.toml"),
        ("codex", "project", "project/.codex/hooks.json", "project/.codex/config.toml"),
        ("gemini", "user", ".gemini/settings.json", ".gemini/settings.json"),
        ("gemini", "project", "project/.gemini/settings.json", "project/.gemini/settings.json"),
        ("cursor", "user", ".cursor/hooks.json", ".cursor/mcp.json"),
        ("cursor", "project", "project/.cursor/hooks.json", "project/.cursor/mcp.json"),
    ],
)
def test_an_agent_has_its_files(home: Path, agent: str, scope: str, hooks: str, servers: str) -> None:
    assert set(install(agent, scope)) == {home / hooks, home / servers}
    assert set(read_files(home)) == {hooks, servers}
    assert all(stat.S_IMODE((home / name).stat().st_mode) == 0o600 for name in (hooks, servers))
    assert install(agent, scope) == []  # nothing to do
    assert set(remove(agent, scope)) == {home / hooks, home / servers}
    assert read_files(home) == {}
    assert remove(agent, scope) == []


def test_claude_codes_entries(home: Path) -> None:
    install("claude-code")
    hooks = read_hooks(home / ".claude/settings.json")
    assert list(hooks) == ["SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd"]
    command = "'/opt/my tools/helix' hook Stop --store '/data/my memory'"
    assert hooks["Stop"] == [{"hooks": [{"type": "command", "command": command, "timeout": 10}]}]
    server = {"type": "stdio", "command": "/opt/my tools/helix", "args": ["mcp", "--store", "/data/my memory"]}
    assert json.loads((home / ".claude.json").read_text()) == {"mcpServers": {"helix": server}}


def test_codexs_entries(home: Path) -> None:
    install("codex")
    assert "SessionEnd" not in read_hooks(home / ".codex/hooks.json")
    assert read_hooks(home / ".codex/hooks.json")["UserPromptSubmit"][0]["hooks"][0]["timeout"] == 10
    assert tomllib.loads((home / ".codex/config.toml").read_text()) == {
        "mcp_servers": {
            "helix": {
                "command": "/opt/my tools/helix",
                "args": ["mcp", "--store", "/data/my memory"],
                "startup_timeout_sec": 10,
                "tool_timeout_sec": 60,
            }
        }
    }


def test_geminis_entries(home: Path) -> None:
    install("gemini")
    settings = json.loads((home / ".gemini/settings.json").read_text())
    assert list(settings["hooks"]) == ["SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"]
    (group,) = settings["hooks"]["BeforeAgent"]
    assert group["hooks"][0]["timeout"] == 10_000  # milliseconds
    assert group["hooks"][0]["name"] == "helix"
    assert settings["mcpServers"]["helix"]["args"][0] == "mcp"


def test_cursors_entries(home: Path) -> None:
    install("cursor")
    told = json.loads((home / ".cursor/hooks.json").read_text())
    assert told["version"] == 1
    assert list(told["hooks"]) == ["sessionStart", "stop", "subagentStop", "preCompact", "sessionEnd"]
    command = "'/opt/my tools/helix' hook stop --store '/data/my memory'"
    assert told["hooks"]["stop"] == [{"command": command, "timeout": 10}]


def test_environment_variables_move_the_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", "~/x")
    install("claude-code")
    install("codex")
    assert set(read_files(home)) == {"c/settings.json", "c/.claude.json", "x/hooks.json", "x/config.toml"}


# ------------------------------------------------------------ existing content

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
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(SETTINGS)
    path.chmod(0o640)
    install("claude-code")
    after = path.read_text()
    kept = [line for line in SETTINGS.splitlines() if line not in after.splitlines()]
    assert [line.rstrip() for line in kept] == [
        SETTINGS.splitlines()[5],
        SETTINGS.splitlines()[7],
    ]  # with a comma added
    assert '\n\t\t\t{\n\t\t\t\t"hooks": [' in after  # tabs, as in the rest
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    told = read_hooks(path)
    assert list(told)[:2] == ["Stop", "PreToolUse"]
    assert told["Stop"][0]["hooks"][0]["command"] == "say 'done'"
    assert path.with_name(path.name + BACKUP).read_text() == SETTINGS
    assert install("claude-code") == []
    remove("claude-code")
    assert read_files(home) == {".claude/settings.json": SETTINGS.encode()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }\n",
        "",
        "\n",
        '{"hooks": {}}',
        '{"hooks": {"Stop": []}, "mcpServers": {}}',
        '{"a": 1}',
        '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]},"mcpServers":{"b":{"command":"c"}}}',
        '{\r\n    "a": [1,\r\n 2]\r\n}\r\n',
        json.dumps({"mcpServers": {"b": {"command": "c", "args": ["hook"]}}, "z": {"y": []}}, indent=4),
    ],
)
@pytest.mark.parametrize("agent", ["gemini", "claude-code", "cursor"])
def test_removal_restores_the_bytes(home: Path, agent: str, text: str) -> None:
    before = {}
    for name in {AGENTS[agent].hooks[0], AGENTS[agent].servers[0]}:
        path = Path(name).expanduser()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        before[str(path.relative_to(home))] = text.encode()
    install(agent)
    install(agent, store=OTHER)  # with another store
    assert install(agent, store=OTHER) == []
    remove(agent)
    assert read_files(home) == before


def test_later_changes_stay(home: Path) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{\n  "theme": "dark"\n}\n')
    install("gemini")
    told = json.loads(path.read_text())
    told["hooks"]["SessionEnd"][0]["hooks"].append({"type": "command", "command": "mine"})
    told["theme"] = "light"
    path.write_text(json.dumps(told, indent=2))
    remove("gemini")
    left = {"theme": "light", "hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert json.loads(path.read_text()) == left
    assert set(read_files(home)) == {".gemini/settings.json"}


def test_older_entries_are_updated(home: Path) -> None:
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    old = "/old/venv/bin/python -P -m helix.cli hook Stop"
    entries = [{"type": "command", "command": command} for command in ("a", old, "b", "/old/bin/helix hook Stop")]
    told = {"hooks": {"Stop": [{"hooks": entries}], "Notification": [{"hooks": [entries[1]]}]}}
    path.write_text(json.dumps(told))
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


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("/a/bin/helix hook Stop", True),
        ("'/a b/helix' hook stop --store /x", True),
        ("/usr/bin/python3 -P -m helix.cli hook Stop", True),
        ("helix hook", True),
        ("helix ingest hook", False),
        ("other hook Stop", False),
        ("say helix hook", False),
        ("env A=1 helix hook Stop", False),  # a user's own
        ("'unclosed", False),
        ("", False),
        (None, False),
        (["helix", "hook"], False),
    ],
)
def test_helix_commands_are_recognised(command: Any, ours: bool) -> None:
    assert is_helix_hook(command) is ours


def test_codexs_comments_stay(home: Path) -> None:
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    install("codex")
    assert path.read_text().startswith(CONFIG + "\n[mcp_servers.helix]\n")
    grown = path.read_text() + '\n[mcp_servers.helix.tools.search]\napproval_mode = "approve"\n\n[after]\na = 1\n'
    path.write_text(grown)
    install("codex", store=OTHER)  # the user's subtable stays
    told = tomllib.loads(path.read_text())
    assert told["mcp_servers"]["helix"]["tools"] == {"search": {"approval_mode": "approve"}}
    assert told["mcp_servers"]["helix"]["args"][-1] == str(OTHER)
    remove("codex")
    assert path.read_text() == CONFIG + "\n[after]\na = 1\n"


@pytest.mark.parametrize("text", ["", "a = 1", "a = 1\n", "\n\n", CONFIG, CONFIG.rstrip("\n")])
def test_removal_restores_codexs_bytes(home: Path, text: str) -> None:
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    install("codex")
    install("codex", store=OTHER)
    remove("codex")
    assert read_files(home) == {".codex/config.toml": text.encode()}


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n  // a comment\n  "a": 1\n}', "line 2"),
        ('{"a": 1,}', "line 1"),
        ("nonsense", "line 1"),
        ("[]", "no JSON object"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"hooks": []}', "shape"),
        ('{"hooks": {"AfterAgent": {}}}', "hooks.AfterAgent is no list"),
        ('{"hooks": {"AfterAgent": [1]}}', "shape"),
        ('{"hooks": {"BeforeTool": [{"matcher": "x"}]}}', "shape"),
        ('{"mcpServers": []}', "shape"),
        ('{"mcpServers": {"helix": {"command": "somebody-elses"}}}', "not this one"),
        ("[" * 100_000, "nested"),
        ('{"a": "\\ud800"', "line 1"),
    ],
)
def test_an_unexpected_file_is_not_changed(home: Path, text: str, why: str) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot be edited") as refused:
        install("gemini")
    assert why in str(refused.value)
    assert str(path) in str(refused.value)
    assert "hook BeforeAgent" in str(refused.value)  # what to add by hand
    assert read_files(home) == {".gemini/settings.json": text.encode()}


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "mcp_servers = {}",
        'mcp_servers = { docs = { command = "x" } }',
        '[mcp_servers]\nhelix = { command = "/a/helix", args = ["mcp"] }',
        '[mcp_servers.helix]\nurl = "http://x"',
        b"\xff\xfe",
    ],
)
def test_an_unexpected_toml_file_is_not_changed(home: Path, text: str | bytes) -> None:
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(data)
    with pytest.raises(UsageError, match="cannot be edited"):
        install("codex")
    assert read_files(home) == {".codex/config.toml": data}  # nor are the hooks written


def test_a_changed_file_is_not_overwritten(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"a": 1}')
    _, change = plan_changes("claude-code", "user", HELIX, STORE)
    path.write_text('{"a": 2}')
    with pytest.raises(StoreError, match="changed meanwhile"):
        change.write()
    assert path.read_text() == '{"a": 2}'


def test_a_link_stays_a_link(home: Path) -> None:
    real = home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}\n")
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").symlink_to(real)
    install("claude-code")
    assert (home / ".claude/settings.json").is_symlink()
    assert "hooks" in json.loads(real.read_text())
    remove("claude-code")
    assert real.read_text() == "{}\n"
    assert [path.name for path in real.parent.iterdir()] == ["claude.json"]


# ------------------------------------------------------------ the command


def test_nothing_is_written_without_an_answer(home: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 — no terminal
    assert main(["install", "claude-code", "--store", "memory"]) == 2
    said = capsys.readouterr()
    assert "+" in said.out
    assert "--yes" in said.err
    assert read_files(home) == {}


@pytest.mark.parametrize(
    ("answer", "written"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_the_answer_decides(home: Path, capsys, monkeypatch, answer: str, written: bool) -> None:
    class Terminal:
        isatty = staticmethod(lambda: True)
        readline = staticmethod(lambda: answer)

    monkeypatch.setattr(sys, "stdin", Terminal)
    assert main(["install", "cursor", "--store", "memory"]) == 0
    assert bool(read_files(home)) is written
    assert "[y/N]" in capsys.readouterr().err


def test_the_hooks_work_from_any_folder(home: Path, capsys) -> None:
    assert main(["install", "codex", "--yes", "--store", "memory", "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["agent"], told["scope"], told["store"]) == ("codex", "user", str(home / "project" / "memory"))
    assert told["files"][0] == {"path": str(home / ".codex/hooks.json"), "action": "made"}
    assert "+++" in said.err
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


# ------------------------------------------------------------ editing JSON


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


def test_editing_a_large_file_is_fast() -> None:
    """Agents keep their history in such files: megabytes."""
    import time

    text = json.dumps({"history": [{"said": "x" * 100}] * 50_000, "mcpServers": {}}, indent=2)
    began = time.perf_counter()
    after = servers.put_json_server({"command": "helix", "args": ["mcp"]}, text)
    assert servers.remove_json_server(after) != after
    assert time.perf_counter() - began < 5
    assert partial(json_edit.parse, after)()["mcpServers"]["helix"]["args"] == ["mcp"]
