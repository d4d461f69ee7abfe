"""A shell for the blocks of a page: a real bash in the page's own folder, with a home of its own.

`helix` in it is forked from a process that has its imports behind it. What goes on until Ctrl-C is started, looked at
and ended so. What cannot be run is in NOT_RUN with the reason, and its arguments are read all the same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache as once
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from helix.cli.parser import Parser
from tests.conftest import SAMPLE
from tests.support.pages import ROOT, blocks

LOGS = ROOT / "tests" / "data" / "logs"
ADDRESS, REMOTE = "127.0.0.1:8765", "https://memory.example.com"
HELIX = (sys.executable, "-m", "helix.cli")

NOT_RUN = {
    r"helix (up|worker|beat)\b": "needs a queue and goes on until it is ended: tests/crash/test_up.py, test_workers.py",
    r"helix serve .*--(host|workers)": "listens beyond loopback",
    r"helix bench ": "measures for minutes",
    r"helix eval ": "needs a benchmark set: tests/unit/pipelines/eval/test_evaluate.py makes small ones",
    r"helix models pull": "needs a network",
    r"helix expand": "needs the weights of a T5: tests/unit/pipelines/passes/test_doc2query.py trains one",
    r"python -m tests\.": "measures for minutes",
    r"make ": "sets up an environment; test_readme.py looks at the target",
    r"pip ": "sets up an environment: tests/contract/test_package.py",
    r"\. \.venv": "belongs to an environment that was not set up",
    r"curl ": "only where it is not installed: tests/contract/test_surfaces.py asks the same",
    r"docker ": "needs a daemon: tests/integration/test_compose.py looks at the file",
}
"""Commands that are not run, by how they begin, and why not."""

NEVER = (".", "docker", "make", "pip", "python", "sudo", "systemctl")
"""Programs besides `helix` that the shell never runs."""

SUBSTITUTES = {
    "s3://bucket/memory": "{world}/bucket",
    "s3://memories/team?region=eu-central-1": "{world}/bucket",
    "/mnt/memory": "{world}/mnt",
    "/var/lib/helix": "{world}/var",
    "/backup": "{world}/backup",
    "redis://queue.internal:6379/0": "redis://127.0.0.1:9/0",  # nobody listens: said at once
    "redis://localhost:6379/0": "redis://127.0.0.1:9/0",
    "bge-small-en-v1.5": "all-MiniLM-L6-v2",  # whose weights are there
    ADDRESS: "127.0.0.1:{port}",
    REMOTE: "http://127.0.0.1:{port}",
}
"""What stands for another thing on this machine."""

STAYS = ("serve", "watch", "status --watch", "pull --follow", "ingest --follow")
"""What goes on until Ctrl-C: it is started, looked at, and ended so."""

EMPTY = ("docs/quickstart.md",)
"""Pages that begin without a store; all others have one of the sample."""

ON_A_COPY = ("docs/extending.md",)
"""Pages that change Helix: they have a copy of it."""


# ---------------------------------------------------------------- running


@dataclass
class World:
    """A page's own folder, and what runs in it."""

    folder: Path
    home: Path
    environ: dict[str, str]
    forks: Callable[..., subprocess.CompletedProcess[str]]
    port: int
    on_a_copy: bool
    asks: bool  # whether something on the page asks the query process
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def text(self, shown: str) -> str:
        """A block as it is on this machine."""
        for before, after in SUBSTITUTES.items():
            shown = shown.replace(before, after.format(world=self.folder, port=self.port))
        return shown

    def bash(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a block; what it exports holds for the page's next one."""
        calls = self.folder / ".calls"
        shutil.rmtree(calls, ignore_errors=True)
        calls.mkdir()
        os.mkfifo(calls / "new")
        answering = threading.Thread(target=self._answer, args=(calls,), daemon=True)
        answering.start()
        kept = shlex.quote(str(self.folder / ".kept"))
        curl = shlex.quote(shutil.which("curl") or "/nowhere/curl")
        skipped = "\n".join(f'{name}() {{ skip {name} "$@"; }}' for name in NEVER)
        prelude = PRELUDE.format(calls=shlex.quote(str(calls)), kept=kept, curl=curl, skipped=skipped)
        ended = f"\nwait\ndeclare -px > {kept}\n"
        try:
            return subprocess.run(
                ["bash", "-c", prelude + script + ended],
                env=self.environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        finally:
            with (calls / "new").open("w") as end:
                end.write("end\n")
            answering.join(10)  # a call that nobody waits for any more is left behind
            self.skipped += (calls / "skipped").read_text().splitlines() if (calls / "skipped").exists() else []

    def _answer(self, calls: Path) -> None:
        """Do what the function `helix` of the shell asks for, one call after the other."""
        with open(os.open(calls / "new", os.O_RDWR)) as new:
            for line in new:
                if line == "end\n":
                    return
                call = Path(line.rstrip("\n"))
                words = (call / "words").read_text().split("\0")[:-1]
                environ = dict(one.split("=", 1) for one in (call / "environ").read_text().split("\0") if "=" in one)
                try:
                    done = self.helix(words, environ, Path((call / "folder").read_text().rstrip("\n")))
                except Exception as error:  # noqa: BLE001 — said where the block is
                    done = subprocess.CompletedProcess(words, 99, "", f"{type(error).__name__}: {error}\n")
                (call / "out").write_text(done.stdout)
                (call / "err").write_text(done.stderr)
                (call / "done").write_text(f"{done.returncode}\n")

    def helix(self, words: list[str], environ: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
        """One call of the command."""
        line = shlex.join(["helix", *words])
        spelt_out(words)
        if not_run(line):
            self.skipped.append(line)
            takes(words)
            return subprocess.CompletedProcess(words, 0, "", "")
        if words[0] == "install":
            words = [*words, "--yes"]  # nobody is there to be asked
        if any(set(one.split()) <= set(words) for one in STAYS):
            return self.stay(words, environ, folder)
        if self.on_a_copy:
            return subprocess.run(
                [*HELIX, *words], env=environ, cwd=folder, capture_output=True, text=True, check=False
            )
        os.chdir(folder)  # where the call finds itself; the test waits for it
        try:
            return self.forks(words, environ, timeout=100)
        finally:
            os.chdir(self.folder)

    def stay(self, words: list[str], environ: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Start what goes on, see that it does, and end it; a query process that is asked stays for the page."""
        kind = (words[0], *(word for word in words if word.startswith("--") and word != "--store"))
        serves, pulls = words[0] == "serve", words[0] == "pull"
        asked = serves and self.asks and not self.servers
        if not asked and kind in STARTED:
            takes(words)
            return subprocess.CompletedProcess(words, 0, "", "")
        STARTED.add(kind)
        port = self.port if asked else free_port()
        process = subprocess.Popen(
            [*HELIX, *words, *(["--port", str(port)] if serves else [])],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            if serves:
                # With --wait it may be asked for before what it waits for.
                wait_until(lambda: answers(port, "healthz" if "--wait" in words else "readyz"), process)
            elif pulls:
                wait_until(lambda: (folder / words[words.index("--store") + 1] / "CURRENT").exists(), process)
            else:
                assert process.stdout is not None
                assert process.stdout.readline(), f"helix {shlex.join(words)} said nothing"
        except BaseException:
            process.kill()
            raise
        if asked:
            self.servers.append(process)
            return subprocess.CompletedProcess(words, 0, "", "")
        return subprocess.CompletedProcess(words, *end(process))

    def close(self) -> None:
        """End what still runs."""
        for process in self.servers:
            status, said, _ = end(process)
            assert status == 0, said


STARTED: set[tuple[str, ...]] = set()
"""What goes on and was started once, by its name and options: the same on another page need not be again."""

PRELUDE = r"""
set -eo pipefail
trap 'echo "this failed: $BASH_COMMAND" >&2' ERR
if [ -f {kept} ]; then builtin source {kept}; fi
helix() {{
  if [ "$1" = hook ]; then command helix "$@"; return; fi  # it reads what is piped to it
  local call status=99
  call=$(mktemp -d {calls}/XXXXXX)
  env -0 > "$call/environ"; printf '%s\0' "$@" > "$call/words"; pwd > "$call/folder"; mkfifo "$call/done"
  echo "$call" > {calls}/new
  read -r status < "$call/done" || true
  cat "$call/out"; cat "$call/err" >&2
  return "$status"
}}
skip() {{ echo "$*" >> {calls}/skipped; }}
{skipped}
if [ -x {curl} ]; then curl() {{ {curl} --fail --show-error --max-time 20 "$@"; }}
else curl() {{ skip curl "$@"; }}; fi
"""


def not_run(line: str) -> str | None:
    """Why a command is not run; None where it is."""
    return next((why for begins, why in NOT_RUN.items() if re.match(begins, line)), None)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """End it by Ctrl-C: (0 where it ended as it should, what it said, "")."""
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    return (0 if process.returncode in (0, 130) else process.returncode), said, ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int, path: str) -> bool:
    with suppress(OSError, urllib.error.URLError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5).status == 200
    return False


def wait_until(there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not there():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until, "it did not come up"
        time.sleep(0.05)


@contextmanager
def world(page: str, folder: Path, store: Path, cache: Path, forks: Any) -> Iterator[World]:
    """A folder for a page: a home with agents' logs, what its commands name, and a store of the sample."""
    home = folder / "home"
    logs = {
        ".claude/projects/ledgerline/7e44.jsonl": claude_log(),
        ".codex/sessions/2026/rollout-1.jsonl": next(LOGS.glob("codex*.jsonl")).read_text(),
        ".gemini/tmp/1/chats/session-1.json": next(LOGS.glob("gemini*.json")).read_text(),
    }
    for name, text in logs.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text)
    shutil.copy(SAMPLE / "standup.vtt", folder / "meeting.vtt")
    (folder / "notes").mkdir()
    shutil.copy(SAMPLE / "notes.md", folder / "notes")
    (folder / "backup").mkdir()
    if page not in EMPTY:
        for place in (folder / "memory", home / "memory"):
            shutil.copytree(store, place)
            for pin in (place / "pins").iterdir():
                pin.unlink()
        for name in ("helix-store", "mnt"):  # where --store is not given, and where it is mounted
            (folder / name).symlink_to("memory")
    environ = {**os.environ, "HOME": str(home), "HELIX_CACHE": str(cache), "PATH": os.pathsep.join(places())}
    if page in ON_A_COPY:
        shutil.copytree(ROOT / "helix", folder / "helix")
        shutil.copy(ROOT / "pyproject.toml", folder)
        environ["PYTHONPATH"] = str(folder)
    asking = [one.text for one in blocks(page) if one.language in ("sh", "python", "json")]
    asks = any(place in text for text in asking for place in (ADDRESS, REMOTE))
    made = World(folder, home, environ, forks, free_port(), page in ON_A_COPY, asks)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield made
        made.close()
    finally:
        os.chdir(before)
        for process in made.servers:
            process.kill()


def places() -> list[str]:
    """Where programs are looked for: beside this interpreter first."""
    return [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep)]


def claude_log() -> str:
    """A session of Claude Code, of the project ledgerline."""
    said = [
        ("user", "the webhook test fails with sqlite3.OperationalError: database is locked"),
        ("assistant", "Two writers hold the database. We set busy_timeout to 5000 and keep one writer."),
        ("user", "good, remember that we stay with sqlite since only one machine writes"),
    ]
    lines = [
        {
            "type": role,
            "uuid": f"00000000-0000-4000-8000-00000000000{i}",
            "parentUuid": f"00000000-0000-4000-8000-00000000000{i - 1}" if i else None,
            "sessionId": "7e44",
            "timestamp": f"2026-05-18T09:0{i}:00Z",
            "cwd": "/home/ana/ledgerline",
            "message": {"role": role, "content": text},
        }
        for i, (role, text) in enumerate(said)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


# ---------------------------------------------------------------- reading arguments


class Understood(Exception):
    """A command took its arguments."""


def takes(words: Sequence[str]) -> None:
    """Have a command's parser read the arguments, and no more.

    Raises:
        UsageError: it does not take them.
    """
    read = Parser.parse_args

    def only_read(self: Any, *given: Any) -> Any:
        read(self, *given)
        raise Understood

    with pytest.MonkeyPatch.context() as patch, suppress(Understood):
        patch.setattr(Parser, "parse_args", only_read)
        command(words[0])(list(words[1:]))
        raise AssertionError(f"helix {shlex.join(words)} read no arguments")


def command(name: str) -> Callable[[Sequence[str]], int]:
    found = {entry.name: entry for entry in entry_points(group="helix.commands")}
    assert name in found, f"there is no helix {name}"
    loaded: Callable[[Sequence[str]], int] = found[name].load()
    return loaded


class Asked(Exception):
    """The parser that a command would read its arguments with."""

    def __init__(self, parser: Any) -> None:
        super().__init__()
        self.parser = parser


@once
def options(name: str, kind: str = "") -> frozenset[str]:
    """The options of a command; of `bench` and `eval` also of one of its kinds."""

    def ask(self: Any, *_: Any) -> Any:
        raise Asked(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "parse_args", ask)
        try:
            command(name)([kind] if kind else ["--help"])
        except Asked as asked:
            return frozenset(asked.parser._option_string_actions)
    raise AssertionError(f"helix {name} read no arguments")


KINDS = {"eval": ("report", "fit"), "bench": ("recall", "store", "ingest", "watch", "logs", "graph")}
"""Commands whose first argument decides which options there are."""


def spelt_out(words: Sequence[str]) -> None:
    """There is such a command, and it has each of the options, in full: argparse takes beginnings, too."""
    if words[0] == "--version":
        return
    command(words[0])
    kind = next((word for word in words[1:2] if word in KINDS.get(words[0], ())), "")
    for word in words:
        name = word.partition("=")[0]
        assert not re.fullmatch(r"--[a-z][a-z-]*", name) or name in options(words[0], kind), (
            f"helix {words[0]} has no {name}"
        )
