"""Completion at TAB, in a real bash, zsh and fish, by the script of `helix completion`."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from helix.cli import completion
from helix.recipes.load_profile import names
from helix.types import TYPES

BIN = Path(sys.executable).parent
HEAVY = ("numpy", "pyarrow", "duckdb", "onnxruntime", "pydantic", "rich", "torch", "sklearn", "transformers", "celery")

STEERING = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")

Complete = Callable[..., list[str]]


def environ(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **more}


@pytest.fixture(scope="module")
def script() -> str:
    return subprocess.run(
        [BIN / "helix", "completion", "bash"], capture_output=True, text=True, check=True, env=environ()
    ).stdout


@pytest.fixture
def complete(script: str, sample_store: Path) -> Complete:
    """Return a function: the completions of bash at the end of a line, without a key press."""

    def ask(line: str, folder: Path | None = None, **more: str) -> list[str]:
        code = (
            f'{script}\nCOMP_LINE="$1" COMP_POINT=${{#1}} COMP_TYPE=9\n'
            "_python_argcomplete helix\nprintf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", code, "bash", line],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=environ(**{"HELIX_STORE": str(sample_store), **more}),
        )
        assert done.stderr == ""
        return sorted(word.rstrip() for word in done.stdout.splitlines() if word)

    return ask


OFFERED: dict[str, list[str]] = {
    "helix re": ["recall", "reindex", "remember", "retry"],
    "helix nope ": [],
    "helix recall --pro": ["--profile", "--project"],
    "helix recall 'a question' --rerank": ["--rerank", "--rerank-top"],
    "helix recall x --project ": ["default", "holidays", "home", "ledgerline"],
    "helix forget --project=h": ["holidays", "home"],
    "helix recall --speaker Pri": ["Priya"],
    "helix recall x --profile helix": ["helix", "helix-paper"],
    "helix recall --type pro": ["procedural"],
    "helix recall ": [],
    "helix rollback ": ["1"],
    "helix export --du": ["--duckdb"],
    "helix recall --snapshot ": ["1"],
    "helix install c": ["claude-code", "codex", "cursor"],
    "helix completion ": ["bash", "fish", "zsh"],
    "helix bench re": ["recall"],
    "helix bench recall --pe": ["--peers"],
    "helix eval l": ["locomo", "longmemeval"],
    "helix eval report --k": ["--keep"],
    "helix models pull bge": ["bge-base-en-v1.5", "bge-small-en-v1.5"],
    "helix models ": ["export", "list", "pull"],
    "HELIX_STORE=/nowhere helix recall --project ": [],
    "helix recall --store /nowhere --project ": [],
}


def test_commands_options_and_names_are_offered(complete: Complete) -> None:
    assert {line: complete(line) for line in OFFERED} == OFFERED


def test_files_and_folders_are_offered(tmp_path: Path, complete: Complete) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.md").touch()
    (tmp_path / "notes" / "a file").touch()
    (tmp_path / ".hidden").touch()
    assert complete("helix ingest no", tmp_path) == ["notes.md", "notes/"]
    assert complete("helix ingest ", tmp_path) == ["notes.md", "notes/"]
    assert complete("helix ingest notes/", tmp_path) == ["notes/a\\ file"]
    assert complete("helix ingest ~/no", tmp_path, HOME=str(tmp_path)) == ["~/notes.md", "~/notes/"]
    assert complete("helix status --store ", tmp_path) == ["notes/"]
    assert complete("helix ingest nowhere/", tmp_path) == []


def test_without_a_store_nothing_is_offered_or_printed(tmp_path: Path, complete: Complete) -> None:
    for line in ("helix recall --project ", "helix rollback ", "helix retry "):
        assert complete(line, tmp_path, HELIX_STORE=str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_names_come_from_the_newest_generation(tmp_path: Path, cache: Path, complete: Complete) -> None:
    from helix.settings import load
    from pipelines.embedded.ingest import ingest
    from pipelines.maintain.deletion_plan import Selection
    from pipelines.maintain.forget import forget

    (tmp_path / "a.jsonl").write_text(
        '{"project": "one", "text": "walnut"}\n{"project": "two words", "text": "bread"}\n'
    )
    ingest(tmp_path / "s", [tmp_path / "a.jsonl"], load())
    line = f"helix recall --store {tmp_path}/s --project "
    assert complete(line) == ["one", "two\\ words"]
    forget(tmp_path / "s", Selection((), None, "one"), load(), lambda line: None)
    assert complete(line) == ["two\\ words"]


def test_the_copied_types_and_profiles_are_complete() -> None:
    assert set(completion.TYPES) == set(TYPES)
    assert set(completion._list_profiles()) == set(names())


def test_own_profiles_are_offered(tmp_path: Path, complete: Complete) -> None:
    (tmp_path / "mine.toml").touch()
    assert complete("helix recall --profile mi", HELIX_PROFILES=str(tmp_path)) == ["mine"]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_completion_imports_nothing_slow() -> None:
    """Only the commands of workers may import Celery."""
    code = (
        "import sys\nfrom helix.cli.completion import find_parser\n"
        f"for name in {sorted(entry.name for entry in entry_points(group='helix.commands'))!r}:\n"
        "    if name not in ('worker', 'up'):\n        find_parser([name])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run_python(code) == "[]\n"


def test_names_of_a_store_are_read_without_numpy(sample_store: Path) -> None:
    code = (
        "import sys\nfrom argparse import Namespace\nfrom helix.cli.completion import VALUES\n"
        f"print(sorted(VALUES['project'](parsed_args=Namespace(store={str(sample_store)!r}))))\n"
        "sys.exit(any(name.partition('.')[0] == 'numpy' and sys.modules[name] for name in sys.modules))"
    )
    assert run_python(code) == "['default', 'holidays', 'home', 'ledgerline']\n"


class Typing:
    """An interactive shell on a terminal."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, env)
        self.seen = b""

    def type(self, text: str, until: str) -> None:
        """Type a text, and wait until the shell shows another."""
        os.write(self.terminal, text.encode())
        deadline = time.monotonic() + 30
        while until.encode() not in STEERING.sub(b"", self.seen):
            if not select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no {until!r} in {self.seen!r}")
            self.seen += os.read(self.terminal, 65_536)
        self.seen = b""

    def end(self) -> None:
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(helix completion bash)"'),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(helix completion zsh)"'),
    "fish": (["--no-config", "-i"], "helix completion fish | source"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes(shell: str, sample_store: Path, tmp_path: Path) -> None:
    binary = shutil.which(shell)
    if binary is None:
        pytest.skip(f"{shell} is not installed")
    options, begin = SHELLS[shell]
    env = environ(HELIX_STORE=str(sample_store), HOME=str(tmp_path), TERM="xterm", PS1="$ ")
    typing = Typing([binary, *options], env)
    try:
        typing.type(f"{begin}; echo rea''dy\n", "ready")
        typing.type("helix inst\t", "install")
        typing.type("cla\t", "claude-code")
        typing.type(" --sto\t", "--store")
        typing.type("\x15helix recall question --project led\t", "ledgerline")  # ^U empties the line
    finally:
        typing.end()


def test_the_script_is_the_same_as_json(run_helix) -> None:
    for shell in SHELLS:
        plain, with_json = run_helix("completion", shell), run_helix("completion", shell, "--json")
        assert (plain.returncode, plain.stderr) == (0, "")
        assert json.loads(with_json.stdout) == {"shell": shell, "script": plain.stdout}
